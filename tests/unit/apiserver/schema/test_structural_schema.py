"""Pruning, defaulting and validation of custom resources, beyond what the recorded cases cover."""

import copy
from typing import Any

import pytest

from kubewright.apiserver.registry import refusals
from kubewright.apiserver.registry.kind import read_by
from kubewright.apiserver.schema import formats
from kubewright.apiserver.schema.causes import Cause
from kubewright.apiserver.schema.node import Object
from kubewright.apiserver.schema.structural import Structural
from kubewright.wire.errors import TooLarge
from kubewright.wire.gvk import Resource

PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}


def of(**properties: Any) -> Structural:
    spec = {"type": "object", "properties": properties}
    return Structural({"type": "object", "properties": {"spec": spec}})


def obj(**spec: Any) -> Object:
    return {"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}, "spec": spec}


STRING, INTEGER = {"type": "string"}, {"type": "integer"}
PRUNED = [
    ("an unknown field goes", {"a": STRING}, {"a": "1", "b": 2}, {"a": "1"}, ["spec.b"]),
    (
        "unknown fields go from items of a list",
        {"l": {"type": "array", "items": {"type": "object", "properties": {"a": STRING}}}},
        {"l": [{"a": "1"}, {"b": 1}]},
        {"l": [{"a": "1"}, {}]},
        ["spec.l[1].b"],
    ),
    (
        "maps keep their keys and prune their values",
        {"m": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": STRING}}}},
        {"m": {"any": {"a": "1", "b": 1}}},
        {"m": {"any": {"a": "1"}}},
        ["spec.m.any.b"],
    ),
    ("preserved subtrees stay", {"p": {"type": "object", **PRESERVE}}, {"p": {"a": {"b": 1}}}, None, []),
    (
        "known fields of preserved subtrees are pruned",
        {
            "p": {
                "type": "object",
                **PRESERVE,
                "properties": {"k": {"type": "object", "properties": {"a": STRING}}},
            }
        },
        {"p": {"free": {"x": 1}, "k": {"a": "1", "b": 1}}},
        {"p": {"free": {"x": 1}, "k": {"a": "1"}}},
        ["spec.p.k.b"],
    ),
    (
        "an embedded object keeps its envelope and loses odd metadata",
        {
            "e": {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "properties": {"spec": {"type": "object"}},
            }
        },
        {"e": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "odd": 1}, "spec": {}}},
        {"e": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "spec": {}}},
        ["spec.e.metadata.odd"],
    ),
    (
        "additionalProperties: true keeps values, not what is inside of them",
        {"t": {"type": "object", "additionalProperties": True}},
        {"t": {"a": 1, "b": {"c": 1}}},
        {"t": {"a": 1, "b": {}}},
        ["spec.t.b.c"],
    ),
]


@pytest.mark.parametrize(
    ("properties", "given", "kept", "unknown"), [c[1:] for c in PRUNED], ids=[c[0] for c in PRUNED]
)
def test_unknown_fields(properties: Any, given: Any, kept: Any, unknown: list[str]) -> None:
    schema, body = of(**properties), obj(**given)
    before = copy.deepcopy(body)
    assert schema.unknown_fields(body) == unknown
    assert schema.prune(body) == obj(**(given if kept is None else kept))
    assert body == before, "the argument is not changed"
    if kept is None:
        assert schema.prune(body) is body, "nothing dropped, nothing copied"


DEFAULTED = [
    ("a missing field gets its default", {"a": {**STRING, "default": "d"}}, {}, {"a": "d"}),
    ("a given field keeps its value", {"a": {**STRING, "default": "d"}}, {"a": ""}, {"a": ""}),
    ("null counts as missing", {"a": {**STRING, "default": "d"}}, {"a": None}, {"a": "d"}),
    (
        "null stays where it may",
        {"a": {**STRING, "nullable": True, "default": "d"}},
        {"a": None},
        {"a": None},
    ),
    ("null without a default goes", {"a": STRING}, {"a": None}, {}),
    (
        "defaults open the way for defaults below",
        {"o": {"type": "object", "default": {}, "properties": {"i": {**INTEGER, "default": 7}}}},
        {},
        {"o": {"i": 7}},
    ),
    (
        "no default appears below a missing parent",
        {"o": {"type": "object", "properties": {"i": {**INTEGER, "default": 7}}}},
        {},
        {},
    ),
    (
        "items of lists get defaults",
        {"l": {"type": "array", "items": {"type": "object", "properties": {"i": {**INTEGER, "default": 7}}}}},
        {"l": [{}, {"i": 1}]},
        {"l": [{"i": 7}, {"i": 1}]},
    ),
    (
        "values of maps get defaults",
        {
            "m": {
                "type": "object",
                "additionalProperties": {"type": "object", "properties": {"i": {**INTEGER, "default": 7}}},
            }
        },
        {"m": {"k": {}}},
        {"m": {"k": {"i": 7}}},
    ),
]


@pytest.mark.parametrize(
    ("properties", "given", "filled"), [c[1:] for c in DEFAULTED], ids=[c[0] for c in DEFAULTED]
)
def test_defaults(properties: Any, given: Any, filled: Any) -> None:
    schema, body = of(**properties), obj(**given)
    before = copy.deepcopy(body)
    once = schema.default(body)
    assert once == obj(**filled)
    assert body == before, "the argument is not changed"
    assert schema.default(once) is once, "a second time nothing is missing"


HEAVY = {"type": "object", "properties": {"t": {**STRING, "default": "d" * 10_000}}}
MULTIPLIED = {
    "in each item of a list": ({"type": "array", "items": HEAVY}, [{}] * 400),
    "in each value of a map": (
        {"type": "object", "additionalProperties": HEAVY},
        {f"k{n}": {} for n in range(400)},
    ),
    "in lists of lists": ({"type": "array", "items": {"type": "array", "items": HEAVY}}, [[{}] * 20] * 20),
}


@pytest.mark.parametrize(("field", "given"), MULTIPLIED.values(), ids=MULTIPLIED)
def test_defaults_that_add_more_than_an_object_may_have_are_refused(field: Any, given: Any) -> None:
    schema, body = of(many=field), obj(many=given)
    with pytest.raises(TooLarge, match="request is too large"):
        schema.default(body)
    assert read_by(schema, body) == body, "an object that was stored before stays readable"
    few = dict(list(given.items())[:3]) if isinstance(given, dict) else given[:3]
    assert schema.default(obj(many=few)) != obj(many=few)


def test_defaults_are_not_shared_between_objects() -> None:
    schema = of(o={"type": "object", "default": {"l": []}, **PRESERVE})
    first, second = schema.default(obj()), schema.default(obj())
    first["spec"]["o"]["l"].append(1)
    assert second["spec"]["o"] == {"l": []}


def test_a_kind_without_a_schema_keeps_everything() -> None:
    schema = Structural({"type": "object", **PRESERVE})
    body = obj(anything={"goes": [1, {"x": None}]})
    assert schema.validate(body) == []
    assert schema.prune(body) is body


def test_metadata_is_typed_even_where_the_schema_is_open() -> None:
    schema = Structural({"type": "object", **PRESERVE})
    wrong = {**obj(), "metadata": {"labels": {"a": 1}}}
    assert schema.decode_error(wrong) == (
        "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"
    )


def test_merge_keys_of_custom_kinds_are_none() -> None:
    assert of(a=STRING).merge_keys(("spec", "a")) == (None, frozenset())
    assert of(a=STRING).merge_keys(("no", "such", "path")) == (None, frozenset())


def test_openapi_of_a_custom_kind_describes_its_envelope() -> None:
    shown = of(a=STRING).openapi()
    assert set(shown["properties"]) == {"apiVersion", "kind", "metadata", "spec"}
    assert "meta.v1.ObjectMeta" in of(a=STRING).components()


SHORT = {"type": "string", "maxLength": 3}
KEYED = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
    "items": {"type": "object", "required": ["k"], "properties": {"k": STRING, "v": SHORT}},
}


def test_many_old_errors_are_excused_in_no_more_than_many_steps():
    """Compared item by item anew for each error, this would take minutes."""
    items = [{"k": str(number), "v": "loong"} for number in range(3_000)]
    schema = of(m=KEYED)
    assert schema.validate(obj(m=[*items, {"k": "new"}]), obj(m=items)) == []
    (cause,) = schema.validate(obj(m=[*items, {"k": "new", "v": "long"}]), obj(m=items))
    assert cause.field == "spec.m[3000].v"


def test_one_and_true_are_not_the_same():
    schema = of(a={"type": "string"})
    assert [cause.field for cause in schema.validate(obj(a=True), obj(a=1))] == ["spec.a"]
    assert schema.validate(obj(a=1), obj(a=1)) == []


def test_a_part_is_looked_at_alone():
    schema = Structural(
        {"type": "object", "required": ["spec"], "properties": {"status": {"type": "string"}}}
    )
    bad = {"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}, "status": 1}
    assert [cause.field for cause in schema.validate(bad)] == ["spec", "status"]
    assert [cause.field for cause in schema.validate(bad, None, "status")] == ["status"]


def test_a_hundred_errors_are_told_and_the_number_of_the_others() -> None:
    schema = of(a={"type": "array", "items": STRING})
    found = schema.validate(obj(a=[1] * 300))
    assert [cause.field for cause in found] == [*(f"spec.a[{number}]" for number in range(100)), "<nil>"]
    assert found[-1].message == "and 200 more errors"
    refused = refusals.invalid(Resource("x", "v1", "xs", "X"), "x", found)
    assert len(refused.details["causes"]) == 101
    assert refused.message.endswith(", <nil>: and 200 more errors]")


def test_long_errors_are_told_up_to_a_bound_in_characters() -> None:
    schema = of(m={"type": "object", "additionalProperties": {"type": "string", "format": "date"}})
    found = schema.validate(obj(m={f"{number}{'k' * 20_000}": "x" * 20_000 for number in range(200)}))
    assert sum(len(cause.field) + len(cause.message) for cause in found) < 300_000
    assert found[-1].message == f"and {201 - len(found)} more errors"


def test_the_causes_of_a_rule_are_bounded_too() -> None:
    causes = [Cause("FieldValueInvalid", f"f{number}", "no") for number in range(150)]
    refused = refusals.invalid(Resource("x", "v1", "xs", "X"), "x", causes)
    assert [cause["field"] for cause in refused.details["causes"]] == [
        *(f"f{n}" for n in range(100)),
        "<nil>",
    ]


def test_formats_take_time_that_grows_with_the_length_of_a_text() -> None:
    """A search from each digit to the last one would take hours for a megabyte."""
    for text in ("0" * 1_000_000, "0 " * 500_000, "0" + " " * 1_000_000):
        assert not formats.is_duration(text)
    assert all(map(formats.is_duration, ("1 day", "PT1H", "a 10  weeks", "1h30m")))


LONG = "x" * 2_000
"""A message shows the first half of it."""


def test_items_are_duplicates_when_all_of_them_is_the_same_however_long():
    schema = of(s={"type": "array", "x-kubernetes-list-type": "set", "items": STRING})
    assert schema.validate(obj(s=[LONG + "a", LONG + "b"])) == []
    (cause,) = schema.validate(obj(s=[LONG + "a", LONG + "b", LONG + "a"]))
    assert cause.field == "spec.s[2]"


def test_an_item_is_compared_with_the_old_one_that_has_its_whole_key():
    schema = of(m=KEYED)
    first, second = {"k": LONG + "a", "v": "loong"}, {"k": LONG + "b", "v": "longer"}
    assert schema.validate(obj(m=[first, second, {"k": "new"}]), obj(m=[first, second])) == []
    (cause,) = schema.validate(obj(m=[{**second, "v": "loong"}]), obj(m=[first, second]))
    assert cause.field == "spec.m[0].v"


def test_a_long_text_is_judged_in_time_that_grows_with_its_length_only():
    """In the square of it, each of these would take minutes."""
    schema = of(d={"type": "string", "format": "duration"})
    for text in ("1" * 100_000, "1s" * 200_000 + "x", "1 " * 100_000):
        assert [cause.field for cause in schema.validate(obj(d=text))] == ["spec.d"]
    assert schema.validate(obj(d="1" * 100_000 + " days")) == []
