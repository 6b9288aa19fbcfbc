"""Applies and other writes in turn: the object, and who manages what."""

from dataclasses import replace
from typing import Any

import pytest

from kubewright.apiserver.fields import paths
from kubewright.apiserver.fields.ownership import (
    ANCIENT,
    LAST_APPLIED,
    MOST_UPDATERS,
    Conflicts,
    Object,
    Write,
    applied,
    updated,
)
from kubewright.apiserver.fields.paths import (
    Malformed,
    Managed,
    Manager,
    Managers,
    applier,
    read,
    shown,
    updater,
    written,
)
from kubewright.apiserver.schema.node import Node
from kubewright.apiserver.schema.structural import Structural

TEXT = {"type": "string"}
SPEC = {
    "a": TEXT,
    "b": TEXT,
    "map": {"type": "object", "additionalProperties": TEXT},
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
}
SCHEMA = Structural(
    {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": SPEC},
            "status": {"type": "object", "properties": {"phase": TEXT}},
        },
    }
)
OTHER = Structural({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": TEXT}}}})
SERVED = {"x/v1": SCHEMA, "x/v2": OTHER}


def schemas(version: str) -> Node | None:
    return SERVED[version].node if version in SERVED else None


def by(name: str, **more: Any) -> Write:
    return replace(Write(name, "x/v1", "", "t", schemas), **more)


def obj(**spec: Any) -> Object:
    return {"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}, "spec": spec}


class World:
    """An object and its managers."""

    def __init__(self) -> None:
        self.obj: Object = {}
        self.managers: Managers = {}

    def apply(self, who: str, *, force: bool = False, by_: Write | None = None, **spec: Any) -> None:
        outcome = applied(by_ or by(who), self.managers, self.obj, obj(**spec), force=force)
        self.obj, self.managers = SCHEMA.default(outcome.obj), outcome.managers

    def update(self, who: str, **spec: Any) -> None:
        after = obj(**spec)
        self.managers = updated(by(who), self.managers, self.obj, after)
        self.obj = after

    @property
    def spec(self) -> Any:
        return self.obj["spec"]

    def said(self) -> dict[str, set[str]]:
        return {
            f"{manager.name} {manager.operation}": {shown(path) for path in managed.paths}
            for manager, managed in self.managers.items()
        }


def test_an_applier_manages_exactly_what_it_applied() -> None:
    world = World()
    world.apply("one", a="1", map={"k": "v"}, set=["x"])
    assert world.spec == {"a": "1", "map": {"k": "v"}, "set": ["x"]}
    assert world.said() == {"one Apply": {".spec.a", ".spec.map.k", '.spec.set[="x"]'}}


def test_what_it_applies_no_more_goes() -> None:
    world = World()
    world.apply("one", a="1", b="2", set=["x", "y"])
    world.apply("one", b="2", set=["y"])
    assert world.spec == {"b": "2", "set": ["y"]}
    assert world.said() == {"one Apply": {".spec.b", '.spec.set[="y"]'}}


def test_what_another_manager_has_stays() -> None:
    world = World()
    world.apply("one", a="1", map={"k": "v", "l": "w"})
    world.apply("two", a="1", map={"k": "v"})
    world.apply("one")
    assert world.spec == {"a": "1", "map": {"k": "v"}}
    assert world.said() == {"two Apply": {".spec.a", ".spec.map.k"}, "one Apply": {".spec"}}


def test_what_no_manager_has_stays() -> None:
    """The server itself set it, or a webhook."""
    world = World()
    world.apply("one", a="1", map={"k": "v"})
    world.obj["spec"]["b"] = "2"
    world.apply("one", map={"k": "v"})
    assert world.spec == {"b": "2", "map": {"k": "v"}}


def test_another_value_of_another_managers_field_is_a_conflict() -> None:
    world = World()
    world.apply("one", a="1", b="1")
    with pytest.raises(Conflicts) as refused:
        world.apply("two", a="2")
    assert str(refused.value) == 'Apply failed with 1 conflict: conflict with "one": .spec.a'
    assert world.spec == {"a": "1", "b": "1"}


def test_several_conflicts_are_said_by_manager() -> None:
    world = World()
    world.apply("one", a="1")
    world.update("two", a="1", b="1", map={"k": "v"})
    with pytest.raises(Conflicts) as refused:
        world.apply("three", a="2", b="2", map={"k": "w"})
    assert str(refused.value) == (
        'Apply failed with 3 conflicts: conflicts with "one":\n- .spec.a\n'
        'conflicts with "two" using x/v1:\n- .spec.b\n- .spec.map.k'
    )


def test_a_forced_apply_takes_the_field() -> None:
    world = World()
    world.apply("one", a="1", b="1")
    world.apply("two", force=True, a="2")
    assert world.spec == {"a": "2", "b": "1"}
    assert world.said() == {"one Apply": {".spec.b"}, "two Apply": {".spec.a"}}


def test_an_update_takes_what_it_changes_from_all_others() -> None:
    world = World()
    world.apply("one", a="1", b="1")
    world.update("two", a="2", b="1", map={"k": "v"})
    assert world.said() == {
        "one Apply": {".spec.b"},
        "two Update": {".spec.a", ".spec.map", ".spec.map.k"},
    }
    world.update("three", b="1")
    assert world.said() == {"one Apply": {".spec.b"}}, "what is gone has no manager"


def test_an_updater_keeps_what_it_changed_before() -> None:
    world = World()
    world.update("one", a="1")
    world.update("one", a="1", b="2")
    assert world.said() == {"one Update": {".spec", ".spec.a", ".spec.b"}}


def test_an_update_that_changes_nothing_keeps_its_time() -> None:
    world = World()
    world.update("one", a="1")
    world.managers = updated(by("one", time="later"), world.managers, world.obj, world.obj)
    assert [managed.time for managed in world.managers.values()] == ["t"]


def test_all_that_an_object_without_managers_has_belongs_to_one_before_its_first_apply() -> None:
    world = World()
    world.obj = obj(a="1", b="1")
    with pytest.raises(Conflicts) as refused:
        world.apply("one", a="2")
    assert '"before-first-apply" using x/v1: .spec.a' in str(refused.value)
    world.apply("one", a="1")
    assert world.said() == {
        "one Apply": {".spec.a"},
        "before-first-apply Update": {".spec", ".spec.a", ".spec.b"},
    }


def test_kubectl_takes_over_what_its_annotation_says_that_it_applied() -> None:
    world = World()
    before = obj(a="1", b="1")
    said = '{"apiVersion":"x/v1","kind":"X","spec":{"a":"1","b":"0"}}'
    world.obj = {**before, "metadata": {"name": "x", "annotations": {LAST_APPLIED: said}}}
    world.apply("kubectl", a="2")
    assert world.spec == {"a": "2", "b": "1"}
    annotation = world.obj["metadata"]["annotations"][LAST_APPLIED]
    assert annotation == '{"apiVersion":"x/v1","kind":"X","metadata":{"annotations":{},"name":"x"},"spec":{"a":"2"}}\n'  # fmt: skip
    with pytest.raises(Conflicts) as refused:
        world.apply("kubectl", a="2", b="3")
    assert ".spec.b" in str(refused.value), "it was changed since"


@pytest.mark.parametrize("said", ["{", "[]", '{"apiVersion":"x/v9","spec":{"a":"1"}}'])
def test_an_annotation_that_says_nothing_changes_nothing(said: str) -> None:
    world = World()
    world.obj = {**obj(a="1"), "metadata": {"name": "x", "annotations": {LAST_APPLIED: said}}}
    with pytest.raises(Conflicts):
        world.apply("kubectl", a="2")


def test_what_an_endpoint_cannot_change_has_no_manager_by_it() -> None:
    world = World()
    write = by("one", ignored=(("f:spec", "f:b"),))
    world.apply("one", by_=write, a="1", b="1")
    assert world.said() == {"one Apply": {".spec.a"}}


def test_managers_of_another_version_are_compared_in_it() -> None:
    """What a version does not know is not lost by it."""
    world = World()
    world.apply("one", a="1", b="1")
    (me,) = world.managers
    world.managers = {me: replace(world.managers[me], version="x/v2", paths=frozenset({("f:spec", "f:a")}))}
    with pytest.raises(Conflicts):
        world.apply("two", a="2")
    world.apply("one", b="1")
    assert world.spec == {"b": "1"}


def test_managers_of_a_version_that_is_served_no_more_are_forgotten() -> None:
    world = World()
    world.apply("one", a="1")
    (me,) = world.managers
    world.managers = {me: replace(world.managers[me], version="x/v0")}
    world.apply("two", a="2")
    assert world.said() == {"two Apply": {".spec.a"}}


def test_the_oldest_of_too_many_updaters_are_joined() -> None:
    world = World()
    world.obj = obj()
    spec: dict[str, str] = {}
    for number in range(MOST_UPDATERS + 2):
        spec[f"k{number}"] = "v"
        write = by(f"m{number}", time=f"t{number:02}")
        world.managers = updated(write, world.managers, world.obj, obj(map=dict(spec)))
        world.obj = obj(map=dict(spec))
    assert len(world.managers) == MOST_UPDATERS
    oldest = world.said()[f"{ANCIENT} Update"]
    assert oldest >= {".spec.map.k0", ".spec.map.k1", ".spec.map.k2"}


def test_managers_are_written_and_read() -> None:
    found: dict[Manager, Managed] = {
        applier("one", ""): Managed(frozenset({("f:spec", "f:a")}), "x/v1", "2030-01-01T00:00:00Z"),
        updater("two", "x/v1", "status"): Managed(frozenset({("f:status",)}), "x/v1", "2029-01-01T00:00:00Z"),
    }
    assert read(written(found)) == found
    assert [entry["manager"] for entry in written(found)] == ["one", "two"]


NO_ENTRIES: list[tuple[str, Any]] = [
    ("text", "a"),
    ("no object", [1]),
    ("no operation", [{"manager": "a", "apiVersion": "v1", "fieldsType": "FieldsV1"}]),
    ("no version", [{"operation": "Apply", "fieldsType": "FieldsV1"}]),
    ("no type of fields", [{"operation": "Apply", "apiVersion": "v1"}]),
    ("a number for a name", [{"operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "manager": 1}]),
]  # fmt: skip


@pytest.mark.parametrize("given", [c[1] for c in NO_ENTRIES], ids=[c[0] for c in NO_ENTRIES])
def test_entries_that_cannot_be_read_are_refused(given: Any) -> None:
    with pytest.raises(Malformed):
        paths.read(given)
