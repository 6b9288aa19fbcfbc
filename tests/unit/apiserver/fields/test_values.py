"""What a schema says about values: their paths, differences, merges."""

from typing import Any

import pytest

from kubewright.apiserver.fields import paths
from kubewright.apiserver.fields.paths import Path
from kubewright.apiserver.fields.shapes import (
    ABSENT,
    Difference,
    Unkeyed,
    check,
    difference,
    field_set,
    merged,
    with_parents,
    with_zeros,
    without,
    without_empty,
)
from kubewright.apiserver.schema.builtin import node_of
from kubewright.apiserver.schema.node import build

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
PORT = {
    "type": "object",
    "properties": {"n": NUMBER, "p": {**TEXT, "default": "TCP"}, "note": TEXT},
}
FIELDS: dict[str, Any] = {
    "text": TEXT,
    "labels": {"type": "object", "additionalProperties": TEXT},
    "where": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"zone": TEXT}},
    "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
    "ports": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["n", "p"],
        "items": PORT,
    },
    "steps": {"type": "array", "items": PORT},
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "inner": {"type": "object", "properties": {"a": TEXT}},
}
NODE = build({"type": "object", "properties": FIELDS})


def said(found: Any) -> set[str]:
    return {paths.shown(path) for path in found}


MEMBERS: list[tuple[str, Any, set[str]]] = [
    ("a leaf", {"text": "a"}, {".text"}),
    ("a null is there", {"text": None, "inner": None}, {".text", ".inner"}),
    ("the keys of a map, not the map", {"labels": {"a": "1"}}, {".labels.a"}),
    ("a map that is empty", {"labels": {}}, {".labels"}),
    ("an atomic map, whole", {"where": {"zone": "z"}}, {".where"}),
    ("a list without keys, whole", {"steps": [{"n": 1}]}, {".steps"}),
    ("the items of a set", {"tags": ["a", "b"]}, {'.tags[="a"]', '.tags[="b"]'}),
    (
        "the items of a list by their keys, with the default of a key that is not said",
        {"ports": [{"n": 1}]},
        {'.ports[n=1,p="TCP"]', '.ports[n=1,p="TCP"].n'},
    ),
    ("items with equal keys, as one", {"tags": ["a", "a"]}, {'.tags[="a"]'}),
    (
        "what no schema declares: maps by field, lists whole",
        {"free": {"a": {"b": [1]}}},
        {".free.a", ".free.a.b"},
    ),
]


@pytest.mark.parametrize(("value", "found"), [c[1:] for c in MEMBERS], ids=[c[0] for c in MEMBERS])
def test_the_paths_of_a_value(value: Any, found: set[str]) -> None:
    assert said(field_set(NODE, value)) == found


P1 = '.ports[n=1,p="TCP"]'
DIFFERENCES: list[tuple[str, Any, Any, set[str], set[str], set[str]]] = [
    ("the same", {"text": "a", "tags": ["a"]}, {"text": "a", "tags": ["a"]}, set(), set(), set()),
    ("another value", {"text": "a"}, {"text": "b"}, set(), set(), {".text"}),
    ("one and true", {"free": {"a": 1}}, {"free": {"a": True}}, set(), set(), {".free.a"}),
    ("a map comes, and what is in it", {}, {"labels": {"a": "1"}}, {".labels", ".labels.a"}, set(), set()),
    ("a map goes", {"labels": {"a": "1"}}, {}, set(), {".labels", ".labels.a"}, set()),
    ("an empty map comes", {}, {"labels": {}}, {".labels"}, set(), set()),
    ("a map is emptied", {"labels": {"a": "1"}}, {"labels": {}}, set(), {".labels.a"}, set()),
    ("an atomic map changes", {"where": {"zone": "a"}}, {"where": {"zone": "b"}}, set(), set(), {".where"}),
    ("a set in another order", {"tags": ["a", "b"]}, {"tags": ["b", "a"]}, set(), set(), set()),
    ("an item of a set", {"tags": ["a"]}, {"tags": ["b"]}, {'.tags[="b"]'}, {'.tags[="a"]'}, set()),
    (
        "a field of an item with keys",
        {"ports": [{"n": 1, "note": "a"}]},
        {"ports": [{"n": 1, "p": "TCP", "note": "b"}]},
        {f"{P1}.p"},
        set(),
        {f"{P1}.note"},
    ),
    ("a list without keys", {"steps": [{"n": 1}]}, {"steps": [{"n": 2}]}, set(), set(), {".steps"}),
    (
        "a second item with the same keys",
        {"ports": [{"n": 1}]},
        {"ports": [{"n": 1}, {"n": 1}]},
        {P1},
        {P1, f"{P1}.n"},
        set(),
    ),
    (
        "items with equal keys become one",
        {"ports": [{"n": 1}, {"n": 1}]},
        {"ports": [{"n": 1}]},
        {P1, f"{P1}.n"},
        {P1},
        set(),
    ),
    ("another type", {"free": {"a": {"b": 1}}}, {"free": {"a": 1}}, set(), {".free.a.b"}, {".free.a"}),
]


@pytest.mark.parametrize(
    ("old", "new", "added", "removed", "modified"),
    [c[1:] for c in DIFFERENCES],
    ids=[c[0] for c in DIFFERENCES],
)
def test_the_difference_of_two_values(
    old: Any, new: Any, added: set[str], removed: set[str], modified: set[str]
) -> None:
    found = difference(NODE, old, new)
    assert (said(found.added), said(found.removed), said(found.modified)) == (added, removed, modified)


def test_a_difference_leaves_out_what_an_endpoint_cannot_change() -> None:
    found = difference(NODE, {"text": "a"}, {"text": "b", "tags": ["a"]})
    assert found.outside([("f:tags",)]) == Difference(modified=frozenset({("f:text",)}))
    assert difference(NODE, ABSENT, {"text": "a"}).set == {("f:text",)}


def ports(*numbers: int, **more: Any) -> dict[str, Any]:
    return {"ports": [{"n": number, **more} for number in numbers]}


MERGES: list[tuple[str, Any, Any, Any]] = [
    ("a leaf", {"text": "a"}, {"text": "b"}, {"text": "b"}),
    ("fields that are not said stay", {"text": "a"}, {"tags": ["a"]}, {"text": "a", "tags": ["a"]}),
    ("maps merge", {"labels": {"a": "1"}}, {"labels": {"b": "2"}}, {"labels": {"a": "1", "b": "2"}}),
    ("an empty map changes nothing", {"labels": {"a": "1"}}, {"labels": {}}, {"labels": {"a": "1"}}),
    ("a null for a map changes nothing", {"labels": {"a": "1"}}, {"labels": None}, {"labels": {"a": "1"}}),
    ("a null for a leaf is there", {"text": "a"}, {"text": None}, {"text": None}),
    ("an atomic map is replaced", {"where": {"zone": "a"}}, {"where": {}}, {"where": {}}),
    ("a list without keys is replaced", {"steps": [{"n": 1}]}, {"steps": [{"n": 2}]}, {"steps": [{"n": 2}]}),
    ("sets unite", {"tags": ["a", "b"]}, {"tags": ["b", "c"]}, {"tags": ["a", "b", "c"]}),
    ("in the order of what is applied", ports(1, 2, 3), ports(3, 1), ports(2, 3, 1)),
    ("what only the live list has stays in its place", ports(1, 2, 3), ports(1, 3), ports(1, 2, 3)),
    ("new items before the next of both", ports(1, 2), ports(9, 2), ports(1, 9, 2)),
    ("new items last, if none of both follows", ports(1, 2), ports(9), ports(1, 2, 9)),
    ("items merge by their keys", ports(1, note="a"), ports(1, p="TCP"), ports(1, note="a", p="TCP")),
    ("another type is replaced", {"free": {"a": {"b": 1}}}, {"free": {"a": 1}}, {"free": {"a": 1}}),
]


@pytest.mark.parametrize(("live", "wanted", "result"), [c[1:] for c in MERGES], ids=[c[0] for c in MERGES])
def test_what_is_applied_is_merged(live: Any, wanted: Any, result: Any) -> None:
    assert merged(NODE, live, wanted) == result


REMOVALS: list[tuple[str, Any, set[Path], Any]] = [
    ("a leaf", {"text": "a", "tags": []}, {("f:text",)}, {"tags": []}),
    ("a key of a map", {"labels": {"a": "1", "b": "2"}}, {("f:labels", "f:a")}, {"labels": {"b": "2"}}),
    ("the last key of a map leaves a null", {"labels": {"a": "1"}}, {("f:labels", "f:a")}, {"labels": None}),
    ("an item of a set", {"tags": ["a", "b"]}, {("f:tags", 'v:"a"')}, {"tags": ["b"]}),
    (
        "a field of an item",
        ports(1, note="a"),
        {("f:ports", 'k:{"n":1,"p":"TCP"}', "f:note")},
        ports(1),
    ),
    ("a part of an atomic map is none", {"where": {"zone": "a"}}, {("f:where", "f:zone")}, {"where": {"zone": "a"}}),
]  # fmt: skip


@pytest.mark.parametrize(("value", "gone", "left"), [c[1:] for c in REMOVALS], ids=[c[0] for c in REMOVALS])
def test_what_stands_at_paths_is_removed(value: Any, gone: set[Path], left: Any) -> None:
    assert without(NODE, value, frozenset(gone)) == left


def test_declared_fields_lead_to_a_path_and_keys_of_maps_do_not() -> None:
    found = frozenset({("f:inner", "f:a"), ("f:labels", "f:a"), ("f:free", "f:b", "f:c")})
    assert said(with_parents(NODE, found) - found) == {".inner", ".labels", ".free"}


WRONG: list[tuple[str, Any, str]] = [
    ("an item that is no object", {"ports": [1]}, ".ports: an item has none of the keys of this list"),
    ("equal items of a set", {"tags": ["a", "a"]}, '.tags: duplicate entries for key [="a"]'),
    ("equal keys", ports(1, 1), '.ports: duplicate entries for key [n=1,p="TCP"]'),
]


@pytest.mark.parametrize(("value", "why"), [c[1:] for c in WRONG], ids=[c[0] for c in WRONG])
def test_lists_whose_items_cannot_be_told_apart_are_refused(value: Any, why: str) -> None:
    with pytest.raises(Unkeyed) as refused:
        check(NODE, value)
    assert str(refused.value) == why


def test_built_in_kinds_merge_by_their_strategic_keys() -> None:
    """Containers say so by their list type, too; the conditions of a Job are atomic all the same."""
    job = node_of("batch.v1.Job")
    value = {
        "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": [{}]}}},
        "status": {"conditions": [{"type": "a"}]},
    }
    container = '.spec.template.spec.containers[name="c"]'
    assert said(field_set(job, value)) == {
        container,
        f"{container}.name",
        f"{container}.image",
        ".spec.template.spec.tolerations",
        ".status.conditions",
    }


def test_objects_of_go_types_are_compared_as_go_writes_them() -> None:
    deployment = node_of("apps.v1.Deployment")
    sent = {"metadata": {"finalizers": [], "labels": {}}, "spec": {"strategy": {}, "replicas": 1}}
    assert without_empty(deployment, sent) == {"metadata": {}, "spec": {"strategy": {}, "replicas": 1}}
    zero = with_zeros(deployment, {})
    assert zero["spec"]["selector"] is None
    assert zero["spec"]["template"]["spec"] == {"containers": None}
    assert zero["spec"]["strategy"] == {}
    assert "replicas" not in zero["spec"]
