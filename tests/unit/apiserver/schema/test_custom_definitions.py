"""CustomResourceDefinitions: the kinds they make, their conditions, what they warn of."""

import tracemalloc
from datetime import UTC, datetime
from typing import Any

import pytest

from kubewright.apiserver.registry import custom, definitions
from kubewright.apiserver.schema.node import Object

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LATER = datetime(2030, 1, 2, tzinfo=UTC)


def version(name: str = "v1", *, storage: bool = True, **more: Any) -> Object:
    schema = {"openAPIV3Schema": {"type": "object"}}
    return {"name": name, "served": True, "storage": storage, "schema": schema, **more}


def crd(plural: str = "widgets", kind: str = "Widget", *, versions: Any = None, **names: Any) -> Object:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, **names},
            "versions": versions or [version()],
        },
    }


def complete(definition: Object) -> Object:
    return definitions.prepare(definition, None)


def test_names_that_follow_from_the_kind() -> None:
    names = complete(crd())["spec"]["names"]
    assert (names["singular"], names["listKind"]) == ("widget", "WidgetList")
    assert complete(complete(crd())) == complete(crd())


def test_every_served_version_is_a_kind_and_all_share_the_storage_version() -> None:
    versions = [
        version("v1alpha1", storage=False),
        version("v1"),
        {**version("v0", storage=False), "served": False},
    ]
    made = custom.kinds(complete(crd(versions=versions)))
    assert [kind.resource.version for kind in made] == ["v1", "v1alpha1"]


def test_a_kind_has_what_its_version_declares() -> None:
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    full = version(
        subresources={"status": {}, "scale": scale},
        selectableFields=[{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.on"}],
    )
    (kind,) = custom.kinds(complete(crd(versions=[full], shortNames=["w"], categories=["all"])))
    assert kind.has_status
    assert kind.scale is not None
    assert (kind.scale.spec_path, kind.scale.status_path, kind.scale.selector_path) == (
        "spec.replicas",
        "status.replicas",
        "",
    )
    assert (kind.resource.short_names, kind.categories) == (("w",), ("all",))
    assert kind.fields({"spec": {"color": "red", "on": True}}) == {"spec.color": "red", "spec.on": "true"}
    assert kind.fields({}) == {"spec.color": "", "spec.on": ""}


REPLICAS: list[tuple[Any, list[str]]] = [
    (3, []),
    (None, []),
    (-1, ["Invalid value: -1: should be a non-negative integer"]),
    (2**31, ["Invalid value: 2147483648: should be less than or equal to 2147483647"]),
    ("3", ["Invalid value: 0: .spec.replicas accessor error: 3 is of the type string, expected int64"]),
    (1.0, ["Invalid value: 0: .spec.replicas accessor error: 1 is of the type float64, expected int64"]),
]


@pytest.mark.parametrize(("replicas", "said"), REPLICAS)
def test_replicas_of_a_scalable_kind_are_whole_and_not_negative(replicas: Any, said: list[str]) -> None:
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    (kind,) = custom.kinds(complete(crd(versions=[version(subresources={"scale": scale})])))
    causes = kind.check({"spec": {"replicas": replicas}}, None)
    assert [cause.message for cause in causes] == said
    assert {cause.field for cause in causes} <= {".spec.replicas"}


def conditions(definition: Object) -> dict[str, str]:
    return {c["type"]: f"{c['status']} {c['reason']}" for c in definition["status"]["conditions"]}


def test_a_definition_with_free_names_is_established() -> None:
    made = custom.established(complete(crd(shortNames=["w"])), [], NOW)
    assert conditions(made) == {
        "NamesAccepted": "True NoConflicts",
        "Established": "True InitialNamesAccepted",
    }
    assert made["status"]["acceptedNames"]["shortNames"] == ["w"]
    assert made["status"]["storedVersions"] == ["v1"]
    assert custom.is_established(made)
    assert custom.established(made, [made], LATER) is made, "nothing changed, so nothing is written"


CLASHES = [
    ("a short name that is a plural", {"shortNames": ["widgets"]}, "ShortNamesConflict"),
    ("a singular that is taken", {"singular": "widget"}, "SingularConflict"),
    ("a kind that is taken", {"kind": "Widget", "singular": "other"}, "KindConflict"),
]


@pytest.mark.parametrize(("names", "reason"), [c[1:] for c in CLASHES], ids=[c[0] for c in CLASHES])
def test_a_definition_whose_names_are_taken_is_not_established(names: dict[str, Any], reason: str) -> None:
    first = custom.established(complete(crd()), [], NOW)
    second = complete(crd("gadgets", **{"kind": "Gadget", **names}))
    waiting = custom.established(second, [first, second], NOW)
    assert conditions(waiting) == {"NamesAccepted": f"False {reason}", "Established": "False NotAccepted"}
    assert not custom.is_established(waiting)


def test_an_established_definition_stays_established_when_its_new_names_clash() -> None:
    taken = custom.established(complete(crd("gadgets", "Gadget", shortNames=["g"])), [], NOW)
    first = custom.established(complete(crd()), [taken], NOW)
    greedy = {**first, "spec": {**first["spec"], "names": {**first["spec"]["names"], "shortNames": ["g"]}}}
    after = custom.established(greedy, [taken, greedy], LATER)
    assert conditions(after) == {
        "NamesAccepted": "False ShortNamesConflict",
        "Established": "True InitialNamesAccepted",
    }
    assert "shortNames" not in after["status"]["acceptedNames"]


def test_versions_that_were_stored_are_remembered() -> None:
    first = custom.established(complete(crd()), [], NOW)
    versions = [version("v1", storage=False), version("v2")]
    moved = {**first, "spec": {**first["spec"], "versions": versions}}
    assert custom.established(moved, [first], LATER)["status"]["storedVersions"] == ["v1", "v2"]


def test_identity_cannot_change() -> None:
    old, new = complete(crd()), complete(crd(kind="Gadget"))
    new["spec"]["scope"] = "Cluster"
    fields = [cause.field for cause in definitions.rule(new, old)]
    assert fields == ["spec.scope", "spec.names.kind"]


def test_rules_that_are_enforced_get_no_warning() -> None:
    rule = {"x-kubernetes-validations": [{"rule": "self.a > 1"}]}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", **rule}}}}
    assert custom.warnings(crd(versions=[version(schema=schema)]), None) == []


def test_rules_that_are_served_already_are_not_looked_at_again() -> None:
    fields = {"a": {"type": "string", "x-kubernetes-validations": [{"rule": "self > 1"}]}}
    assert len(wrong_with(fields)) == 1
    assert wrong_with(fields, with_fields(fields)) == []


def with_fields(fields: dict[str, Any]) -> Object:
    spec = {"type": "object", "properties": fields}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return complete(crd(versions=[{**version(), "schema": schema}]))


def wrong_with(fields: dict[str, Any], old: Object | None = None) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in definitions.rule(with_fields(fields), old)]


def texts(count: int, **more: Any) -> dict[str, Any]:
    return {
        f"p{number}": {"type": "string", **{key: value.format(number) for key, value in more.items()}}
        for number in range(count)
    }


@pytest.mark.parametrize(
    "pattern",
    [
        r"^(?:\p{{L}}{{1,60}}|{})$",
        r"^(?:(?:[^a]{{100}}){{5}}|{})$",
        "{}" + "a" * 5_000,
        r"(?i)[\x{{80}}-\x{{10ffff}}]{}",
        r"(?i)[a\W]{}",
        r"(?i)[a[:^alpha:]]{}",
        r"(?i)\p{{Any}}{}",
    ],
)
@pytest.mark.parametrize("place", ["a field", "an alternative", "items"])
def test_patterns_that_take_long_to_compile_are_refused_before_that(pattern: str, place: str) -> None:
    """Three thousand of them held up the server for many seconds."""
    fields = texts(300, pattern=pattern)
    few = dict(list(fields.items())[:2])
    if place == "an alternative":
        fields, few = (
            {"x": {"type": "string", "anyOf": [{"pattern": each["pattern"]} for each in some.values()]}}
            for some in (fields, few)
        )
    if place == "items":
        fields, few = (
            {name: {"type": "array", "items": each} for name, each in some.items()} for some in (fields, few)
        )
    assert wrong_with(few) == []
    (said,) = wrong_with(fields)
    assert said.startswith(
        "spec.versions: Forbidden: its schemas have patterns that take more than 200 ms to compile"
    )


def test_a_pattern_that_occurs_often_counts_once_and_a_definition_that_has_too_many_stays_writable() -> None:
    assert wrong_with(texts(3_000, pattern=r"^\p{{L}}{{1,60}}$")) == []
    many = texts(15, pattern=r"^(?:\p{{L}}{{1,50}}|{})$")
    assert len(wrong_with(many)) == 1
    old = with_fields(many)
    assert wrong_with(many, old) == []


def test_each_wrong_default_is_named_and_the_good_ones_beside_it_are_not() -> None:
    good = {"type": "object", "default": {"a": "x"}, "properties": {"a": {"type": "string", "default": "y"}}}
    twice = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
    fields = {
        "good": good,
        "type": {**good, "default": {"a": 1}},
        "unknown": {**good, "default": {"b": "x"}},
        "twice": {**twice, "default": ["a", "a"]},
        "inside": {"type": "array", "items": {"type": "integer", "default": 3, "maximum": 2}},
        "none": {"type": "integer", "default": 3, "anyOf": [{"maximum": 2}]},
    }
    at = "spec.validation.openAPIV3Schema.properties[spec].properties"
    assert [said.partition(": ")[0] for said in wrong_with(fields)] == [
        f"{at}[type].default.a",
        f"{at}[unknown].default",
        f"{at}[twice].default[1]",
        f"{at}[inside].items.default",
        f"{at}[none].default.<nil>",
        f"{at}[none].default",
    ]


def inside(depth: int, inner: dict[str, Any], default: Any) -> dict[str, Any]:
    for _ in range(depth):
        inner = {"type": "object", "default": default, "properties": {"x": inner}}
    return inner


def test_defaults_inside_of_others_are_checked_without_what_none_of_them_has() -> None:
    """Sixty levels above three thousand fields took five seconds, and a gigabyte."""
    leaf = {"type": "object", "default": {"p1": "a"}, "properties": texts(3_000)}
    tracemalloc.start()
    try:
        assert wrong_with({"a": inside(60, leaf, {})}) == []
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
    finally:
        tracemalloc.stop()


def test_defaults_that_repeat_what_is_large_are_refused() -> None:
    leaf = {"type": "string", "enum": ["x" * 100_000, "a"]}
    default: dict[str, Any] = {}
    levels = leaf
    for _ in range(20):
        default = {"x": default or "a"}
        levels = {"type": "object", "default": default, "properties": {"x": levels}}
    (said,) = wrong_with({"a": levels})
    assert said.endswith("Forbidden: it has too many defaults that are inside of others")
