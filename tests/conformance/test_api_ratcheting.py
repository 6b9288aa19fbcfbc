"""A definition that becomes stricter than its objects: what may still be changed in them (validation ratcheting)."""

from typing import Any

import pytest
from tests.conformance.own_kinds import OwnKind

from kubewright.testing.api import Api
from kubewright.wire.http import JSON_PATCH

TEXT = {"type": "string"}
SHORT = {"type": "string", "maxLength": 3}


def a_map(**values: Any) -> dict[str, Any]:
    return {"type": "object", "properties": values}


def keyed(value: Any, **more: Any) -> dict[str, Any]:
    item = {**a_map(k=TEXT, v=value, w=TEXT), "required": ["k"]}
    return {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": item,
        **more,
    }


def a_list(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


OPEN = {"x-kubernetes-preserve-unknown-fields": True}
A_SET = {"x-kubernetes-list-type": "set"}
LAX = {
    "a": TEXT,
    "b": TEXT,
    "inner": a_map(x=TEXT, y=TEXT),
    "open": {**a_map(x=TEXT), **OPEN},
    "keyed": keyed(TEXT),
    "set": a_list(TEXT, **A_SET),
    "list": a_list(TEXT),
    "objects": a_list(a_map(v=TEXT, w=TEXT)),
    "map": {"type": "object", "additionalProperties": TEXT},
    "choice": a_map(p=TEXT, q=TEXT),
    "both": a_map(p=TEXT, q=TEXT),
    "retyped": TEXT,
    "twice": a_list(TEXT),
}
STRICT = {
    "a": SHORT,
    "b": SHORT,
    "inner": {**a_map(x=SHORT, y=TEXT), "required": ["y"]},
    "open": {**a_map(x=SHORT, z=TEXT), **OPEN, "required": ["z"]},
    "keyed": keyed(SHORT, maxItems=3),
    "set": a_list(SHORT, **A_SET),
    "list": a_list(SHORT),
    "objects": a_list(a_map(v=SHORT, w=TEXT)),
    "map": {"type": "object", "additionalProperties": SHORT},
    "choice": {**a_map(p=TEXT, q=TEXT), "anyOf": [{"properties": {"p": {"maxLength": 3}}}]},
    "both": {**a_map(p=TEXT, q=TEXT), "allOf": [{"properties": {"p": {"maxLength": 3}}}]},
    "retyped": {"type": "integer"},
    "twice": a_list(TEXT, **A_SET),
}
BAD = {
    "a": "loong",
    "b": "ok",
    "inner": {"x": "loong"},
    "open": {"x": "loong"},
    "keyed": [{"k": "1", "v": "loong"}, {"k": "2", "v": "ok"}],
    "set": ["loong", "ok"],
    "list": ["loong", "ok"],
    "objects": [{"v": "loong"}, {"v": "ok"}],
    "map": {"p": "loong"},
    "choice": {"p": "loong", "q": "1"},
    "both": {"p": "loong", "q": "1"},
    "retyped": "text",
    "twice": ["a", "a"],
}
CHANGES = {
    "another field": ("replace", "/spec/b", "new", ""),
    "another field, which is bad as well": ("replace", "/spec/b", "loong", "spec.b"),
    "the bad field to another bad value": ("replace", "/spec/a", "looong", "spec.a"),
    "the bad field to a good value": ("replace", "/spec/a", "ok", ""),
    "a label": ("add", "/metadata/labels", {"a": "b"}, ""),
    "a field beside a bad one, in a map that is good then": ("add", "/spec/inner/y", "1", ""),
    "a map that lacks a field": ("replace", "/spec/inner/x", "ok", "spec.inner.y"),
    "a map that lacks a field, by one of no name": ("add", "/spec/open/u", "1", "spec.open.z"),
    "an item after a bad one, where items have keys": ("add", "/spec/keyed/-", {"k": "3"}, ""),
    "an item before a bad one, where items have keys": ("add", "/spec/keyed/0", {"k": "0"}, ""),
    "the item with the bad field, by another field": ("add", "/spec/keyed/0/w", "1", ""),
    "the bad field of an item": ("replace", "/spec/keyed/0/v", "looong", "spec.keyed[0].v"),
    "the key of an item with a bad field": ("replace", "/spec/keyed/0/k", "9", "spec.keyed[0].v"),
    "an item after a bad one in a set": ("add", "/spec/set/-", "new", "spec.set[0]"),
    "the good item out of a set": ("remove", "/spec/set/1", None, "spec.set[0]"),
    "an item after a bad one in a list": ("add", "/spec/list/-", "new", "spec.list[0]"),
    "a map in a list": ("add", "/spec/objects/0/w", "new", "spec.objects[0].v"),
    "another value in a map": ("add", "/spec/map/q", "new", ""),
    "a bad value in a map": ("replace", "/spec/map/p", "looong", "spec.map.p"),
    "a field beside one that no alternative allows": ("replace", "/spec/choice/q", "2", "spec.choice.p"),
    "a field beside one that one of all forbids": ("replace", "/spec/both/q", "2", "spec.both.p"),
    "a field of another type to that type": ("replace", "/spec/retyped", 4, ""),
    "a field of another type to another value": ("replace", "/spec/retyped", "x", "spec.retyped"),
    "equal items among equal ones": ("add", "/spec/twice/-", "a", ""),
    "equal items elsewhere than those that were there": ("replace", "/spec/set", ["x", "x"], ""),
}


@pytest.fixture
async def things(api: Api) -> OwnKind:
    """A kind that is stricter than its object ``x``, which each test has for its own."""
    found = OwnKind(api)
    await found.define(LAX, status={"phase": TEXT, "note": TEXT})
    (await found.post("x", BAD)).ok()
    await api.patch(f"{found.path}/x", {"metadata": {"finalizers": ["example.io/held"]}})
    (await api.patch(f"{found.path}/x/status", {"status": {"phase": "loong"}})).ok()
    (await api.post(found.path, found.thing("bare"))).ok()
    await found.redefine(STRICT, root={"required": ["spec"]}, status={"phase": SHORT, "note": SHORT})
    return found


async def test_what_did_not_change_is_excused_and_nothing_else(things: OwnKind) -> None:
    said = {}
    for name, (op, path, value, _) in CHANGES.items():
        change = [{"op": op, "path": path} | ({} if value is None else {"value": value})]
        answer = await things.api.patch(f"{things.path}/x", change, content_type=JSON_PATCH, dryRun="All")
        fields = [field for _, field, _ in answer.causes if field.startswith("spec")]
        said[name] = fields[0] if answer.code == 422 else str(answer.code)
    assert said == {name: field or "200" for name, (_, _, _, field) in CHANGES.items()}


async def test_its_status_is_looked_at_alone(things: OwnKind) -> None:
    path = f"{things.path}/x/status"
    assert (await things.api.patch(path, {"status": {"note": "new"}})).ok()["status"]["phase"] == "loong"
    refused = await things.api.patch(path, {"status": {"note": "loong"}})
    assert [field for _, field, _ in refused.causes] == ["status.note"]
    assert (await things.api.patch(f"{things.path}/bare/status", {"status": {"note": "new"}})).code == 200


async def test_a_root_that_lacks_a_field_is_excused_for_no_change_but_of_the_status(things: OwnKind) -> None:
    refused = await things.api.patch(f"{things.path}/bare", {"metadata": {"labels": {"a": "b"}}})
    assert [field for _, field, _ in refused.causes] == ["spec"]


async def test_a_new_object_is_checked_whole(things: OwnKind) -> None:
    assert "spec.a" in [field for _, field, _ in (await things.post("y", BAD)).causes]


async def test_its_finalizer_can_be_taken_off(things: OwnKind) -> None:
    path = f"{things.path}/x"
    (await things.api.delete(path)).ok()
    assert (await things.api.patch(path, {"metadata": {"finalizers": None}})).code == 200
    await things.api.gone(path)
