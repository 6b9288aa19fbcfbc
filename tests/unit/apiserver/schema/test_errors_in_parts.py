"""The errors of large objects: the same as the library's, and not all of them before the first."""

from itertools import islice
from typing import Any

import jsonschema_rs
import pytest

from kubewright.apiserver.registry import custom, strategy
from kubewright.apiserver.registry.builtin import check
from kubewright.apiserver.schema.builtin import BuiltinSchema
from kubewright.apiserver.schema.causes import MOST_CAUSES, MOST_COUNTED, bounded
from kubewright.apiserver.schema.compiled import Compiled, Parts
from kubewright.apiserver.schema.structural import Structural

MANY = 3_000
ITEM = {
    "type": "object",
    "required": ["a"],
    "properties": {"a": {"type": "string", "pattern": "^x"}, "n": {"type": "integer", "format": "int32"}},
}
FIELDS = {
    "list": {"type": "array", "maxItems": 10, "items": ITEM},
    "lists": {"type": "array", "items": {"type": "array", "minItems": 1, "items": {"type": "string"}}},
    "map": {
        "type": "object",
        "maxProperties": 10,
        "additionalProperties": {"type": "string", "enum": ["x", "y"]},
    },
    "maps": {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": ITEM}},
    "either": {
        "type": "array",
        "items": {"type": "integer"},
        "anyOf": [{"minItems": 5_000}, {"maxItems": 2}],
    },
    "both": {
        "type": "array",
        "items": {"type": "integer"},
        "allOf": [{"maxItems": 5}, {"items": {"maximum": 3}}],
    },
    "small": {"type": "object", "required": ["b"], "properties": {"b": {"type": "string"}, "c": ITEM}},
}
SPEC = {"type": "object", "required": ["more"], "properties": FIELDS}
CUSTOM = Structural({"type": "object", "required": ["status"], "properties": {"spec": SPEC}})
WRONG: dict[str, Any] = {
    "list": [{}, {"a": "y"}, {"a": 1, "n": 2**40}, {"a": "x", "n": 1}] * (MANY // 4),
    "lists": [[], ["a"], [1, 2]] * 5 + [[1] * MANY, ["a"] * MANY],
    "map": {f"k{number}": ["x", "z", 1][number % 3] for number in range(MANY)},
    "maps": {"few": {"a": {}}, "many": {f"k{number}": {"a": "y"} for number in range(MANY)}},
    "either": [*range(MANY)],
    "both": [number % 6 for number in range(MANY)],
    "small": {"c": {"a": "z"}},
    "unknown": [1] * MANY,
}


def thing(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "b.io/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec}


def told(errors: Any) -> list[tuple[str, str, str]]:
    return sorted((str(each.instance_path), str(each.schema_path), each.message) for each in errors)


@pytest.mark.parametrize("fields", [*([name] for name in WRONG), [*WRONG], []], ids=str)
def test_a_large_object_has_the_errors_that_it_has_as_a_whole(fields: list[str]) -> None:
    obj = thing(**{name: WRONG[name] for name in fields}, filler=[1] * MANY)
    found = told(CUSTOM.errors(obj))
    assert found == told(CUSTOM.loose.iter_errors(obj))
    assert ("[]", "['required']", '"status" is a required property') in found


def test_so_has_a_built_in_kind_whose_parts_refer_to_each_other() -> None:
    containers = [{"name": "a", "env": [{}] * MANY, "ports": [{"containerPort": 1}] * MANY}, *([{}] * MANY)]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": containers}}
    schema = BuiltinSchema("core.v1.Pod")
    found, whole = (
        [(path, words) for path, _, words in told(each)]
        for each in (schema.errors(pod), schema.loose.iter_errors(pod))
    )
    assert found == whole
    assert len(found) >= 2 * MANY


@pytest.mark.parametrize("among", ["fields", "items"])
def test_small_parts_beside_large_ones_share_a_validator(among: str) -> None:
    """Three thousand fields with the same pattern had three thousand of them: that took the server half a minute."""
    made: list[Any] = []

    def compile_(part: Any) -> jsonschema_rs.Draft4Validator:
        made.append(part)
        return jsonschema_rs.Draft4Validator(part)

    text, numbers = {"type": "string", "pattern": "^x"}, {"type": "array", "items": {"type": "integer"}}
    fields = {f"f{number}": dict(text) for number in range(MANY)}
    schema: Any = {"type": "object", "properties": {**fields, "numbers": numbers}}
    value: Any = {**dict.fromkeys(fields, "y"), "numbers": [1] * MANY}
    if among == "items":
        schema, value = {"type": "array", "items": schema}, [value, *([{"f1": "y"}] * MANY)]
    assert len(list(Parts(schema, compile_).errors(value))) == (MANY if among == "fields" else 2 * MANY)
    assert len(made) <= 8


@pytest.mark.parametrize(
    ("schema", "obj"),
    [
        (CUSTOM, thing(list=[{}] * 400_000)),
        (
            BuiltinSchema("core.v1.Service"),
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "a"},
                "spec": {"ports": [{}] * 400_000},
            },
        ),
    ],
    ids=["a custom kind", "a built-in kind"],
)
def test_the_first_errors_of_many_take_no_longer_than_those_of_few(schema: Compiled, obj: Any) -> None:
    """All of them take half a minute."""
    assert len(list(islice(schema.errors(obj), 300))) == 300
    causes = schema.validate(obj)
    assert causes[-1].message == "and more than 1000 more errors"


def test_old_errors_in_large_parts_are_excused_without_a_look_at_each() -> None:
    """A definition became stricter than an object of 400,000 items, of which one is new."""
    many = [{}] * 400_000
    old, new = thing(list=many, more=1), thing(list=many, more=2)
    wrong = CUSTOM.validate(new, old)
    assert [cause.field for cause in wrong] == ["status"]


@pytest.mark.parametrize(
    ("definition", "spec"),
    [
        ("core.v1.Node", {"taints": [{}] * 300_000}),
        ("core.v1.Pod", {"containers": [], "tolerations": [{"operator": "X"}] * 300_000}),
    ],
)
def test_rules_of_a_kind_make_no_more_causes_than_anybody_looks_at(definition: str, spec: Any) -> None:
    found = check.of(definition)({"metadata": {"name": "a"}, "spec": spec}, None)
    assert len(found) == MOST_CAUSES + MOST_COUNTED + 1
    assert bounded(found)[-1].message == "and more than 1000 more errors"


@pytest.mark.parametrize(
    "wrong",
    [
        {"finalizers": ["!"] * 300_000},
        {"labels": {f"k {number}": "" for number in range(300_000)}},
        {"ownerReferences": [{}] * 300_000},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_nor_do_those_of_metadata(wrong: Any) -> None:
    (kind,) = custom.kinds(
        {
            "metadata": {"name": "things.b.io"},
            "spec": {
                "group": "b.io",
                "scope": "Namespaced",
                "names": {"plural": "things", "kind": "Thing", "singular": "thing", "listKind": "ThingList"},
                "versions": [{"name": "v1", "served": True, "storage": True}],
            },
        }
    )
    assert len(strategy.causes_new(kind, {"name": "a", **wrong})) == MOST_CAUSES + MOST_COUNTED + 1
    assert len(strategy.causes_changed(kind, wrong, {})) == MOST_CAUSES + MOST_COUNTED + 1
