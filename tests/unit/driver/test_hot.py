"""What of a class may change on a VM that runs."""

from typing import Any

import pytest

from kubewright.api.machine.v1alpha1 import MachineClass
from kubewright.driver.contract import MachineRequest, stub
from kubewright.driver.errors import Code, DriverError
from kubewright.driver.guard import GuardedDriver, Operation
from kubewright.driver.hot import (
    TagChanges,
    class_hash,
    differences,
    digest,
    fixed,
    merged,
    read,
    three_way,
    united,
    without,
    written,
)
from kubewright.driver.registry import RoutedDriver
from kubewright.testing.clocks import LoopClock
from kubewright.testing.scenes import class_request

DIFFERENCES = {
    "equal whatever the order of keys": ({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}, ()),
    "a value": ({"a": 1}, {"a": 2}, ("a",)),
    "a value that is added below": ({"tags": {"x": "1"}}, {"tags": {"x": "1", "y": "2"}}, ("tags.y",)),
    "one that is taken away": ({"tags": {"x": "1", "y": "2"}}, {"tags": {"y": "2"}}, ("tags.x",)),
    "an object that is added whole is told by its values": ({}, {"tags": {"vm": {"x": "1"}}}, ("tags.vm.x",)),
    "an object that goes": ({"tags": {"vm": {"x": "1"}}}, {}, ("tags.vm.x",)),
    "an empty object instead of a full one": ({"tags": {"x": "1"}}, {"tags": {}}, ("tags.x",)),
    "an empty object where none was": ({}, {"tags": {}}, ("tags",)),
    "a list is one value": ({"disks": [1, 2]}, {"disks": [2, 1]}, ("disks",)),
    "null is nothing": ({"a": None}, {}, ()),
    "true is not one": ({"a": True}, {"a": 1}, ("a",)),
    "an object in place of a text": ({"a": "x"}, {"a": {"b": 1}}, ("a",)),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after", "paths"), DIFFERENCES.values(), ids=DIFFERENCES.keys())
def test_the_paths_that_differ(before: dict[str, Any], after: dict[str, Any], paths: tuple[str, ...]) -> None:
    assert differences(before, after) == paths
    assert differences(after, before) == paths


def test_what_no_hot_field_covers_is_fixed() -> None:
    paths = ("machineType", "tags.disk.a", "tags.vm.x", "tagsOfOthers")
    assert fixed(paths, ["tags.vm", "machineType"]) == ("tags.disk.a", "tagsOfOthers")
    assert fixed(paths, ["tags"]) == ("machineType", "tagsOfOthers")
    assert fixed(paths, []) == paths


def test_a_hash_is_that_of_what_is_said_in_any_order() -> None:
    assert digest({"a": 1, "b": {"c": 2, "d": 3}}) == digest({"b": {"d": 3, "c": 2}, "a": 1})
    assert digest({"a": 1}) != digest({"a": "1"})


def test_the_hash_of_a_class_leaves_out_what_is_hot() -> None:
    plain = {"machineType": "large", "tags": {"network": {"n": "1"}}}
    hot = ["tags.vm", "tags.disk", "check"]
    tagged = {"tags": {"vm": {"x": "1"}, "network": {"n": "1"}}, "check": False, "machineType": "large"}
    assert without(tagged, hot) == plain
    assert class_hash(tagged, hot) == class_hash(plain, hot)
    assert class_hash({"machineType": "large"}, hot) == class_hash(
        {"machineType": "large", "tags": {"vm": {}}}, hot
    )
    assert class_hash({**plain, "machineType": "small"}, hot) != class_hash(plain, hot)


CLUSTER = "kubernetes.io/cluster/blue"
TAGS = {
    "nothing to do": ({"a": "1"}, {"a": "1"}, {"a": "1"}, TagChanges({}, ())),
    "added": ({}, {"a": "1"}, {}, TagChanges({"a": "1"}, ())),
    "changed": ({"a": "1"}, {"a": "2"}, {"a": "1"}, TagChanges({"a": "2"}, ())),
    "removed": ({"a": "1"}, {}, {"a": "1"}, TagChanges({}, ("a",))),
    "removed, whatever another has made of it": ({"a": "1"}, {}, {"a": "hers"}, TagChanges({}, ("a",))),
    "gone already": ({"a": "1"}, {}, {}, TagChanges({}, ())),
    "another's stays": ({"a": "1"}, {"a": "1"}, {"a": "1", "b": "2"}, TagChanges({}, ())),
    "what another took off comes again": ({"a": "1"}, {"a": "1"}, {}, TagChanges({"a": "1"}, ())),
    "none is taken off where the last ones are not known": (None, {"a": "1"}, {"b": "2"}, TagChanges({"a": "1"}, ())),
    "one by which it is found is not taken off": ({CLUSTER: "1"}, {}, {CLUSTER: "1"}, TagChanges({}, (), (CLUSTER,))),
    "nor changed": ({CLUSTER: "1"}, {CLUSTER: "2"}, {CLUSTER: "1"}, TagChanges({}, (), (CLUSTER,))),
    "but put on where it is missing": ({}, {CLUSTER: "1"}, {}, TagChanges({CLUSTER: "1"}, ())),
}  # fmt: skip


@pytest.mark.parametrize(("last", "wanted", "actual", "changes"), TAGS.values(), ids=TAGS.keys())
def test_tags_from_three_sides(
    last: dict[str, str] | None, wanted: dict[str, str], actual: dict[str, str], changes: TagChanges
) -> None:
    assert three_way(last, wanted, actual) == changes
    after = {key: value for key, value in {**actual, **changes.put}.items() if key not in changes.remove}
    assert not three_way(last, wanted, after), "what was done once is not done again"


class Driver:
    """A driver with updates, of which the rest is not called."""

    def __init__(self, fields: object = ("tags",)) -> None:
        self.fields = fields
        self.updated: list[tuple[str, Any]] = []

    def hot_fields(self, _machine_class: MachineClass) -> Any:
        if isinstance(self.fields, Exception):
            raise self.fields
        return self.fields

    async def update(self, request: MachineRequest, last_applied: Any) -> None:
        self.updated.append((request.name, last_applied))


def guarded(driver: Any) -> GuardedDriver:
    return GuardedDriver(driver, LoopClock())


async def test_an_update_goes_to_the_driver_of_the_class_and_is_counted() -> None:
    inside = Driver()
    within = guarded(inside)
    routed = RoutedDriver({"sim": within}, "sim")
    request = class_request().of(stub("m-1", "default"))
    assert routed.hot_fields(request.machine_class) == ["tags"]
    await routed.update(request, {"tags": {}})
    assert inside.updated == [("m-1", {"tags": {}})]
    assert within.statistics() == {(Operation.UPDATE, Code.OK): 1}


BAD = {
    "no updates": (object(), Code.Unimplemented),
    "names that are no texts": (Driver([1]), Code.Internal),
    "an error of the vocabulary": (Driver(DriverError.of(Code.Unavailable, "dials in later")), Code.Unavailable),
    "any other error": (Driver(KeyError("x")), Code.Unknown),
}  # fmt: skip


@pytest.mark.parametrize(("driver", "code"), BAD.values(), ids=BAD.keys())
def test_a_driver_that_does_not_name_its_hot_fields(driver: Any, code: Code) -> None:
    with pytest.raises(DriverError) as raised:
        guarded(driver).hot_fields(class_request().machine_class)
    assert raised.value.code is code


MERGED = {
    "hot fields of the second, fixed ones of the first": (
        {"type": "s", "tags": {"a": "1"}}, {"type": "l", "tags": {"b": "2"}}, ["tags"], {"type": "s", "tags": {"b": "2"}}),
    "a hot field below another": (
        {"tags": {"vm": {"a": "1"}, "note": "x"}}, {"tags": {"vm": {"b": "2"}, "note": "y"}}, ["tags.vm"],
        {"tags": {"vm": {"b": "2"}, "note": "x"}}),
    "a hot field that the second lacks goes, and the object that it was alone in": (
        {"type": "s", "tags": {"vm": {"a": "1"}}}, {"type": "s"}, ["tags.vm"], {"type": "s"}),
    "one that the first lacks comes": ({"type": "s"}, {"tags": {"vm": {"a": "1"}}}, ["tags.vm"],
        {"type": "s", "tags": {"vm": {"a": "1"}}}),
    "what is neither there nor here": ({"type": "s"}, {"type": "l"}, ["tags.vm"], {"type": "s"}),
    "where the first has a text in place of the object": ({"tags": "x"}, {"tags": {"vm": {"a": "1"}}}, ["tags.vm"],
        {"tags": {"vm": {"a": "1"}}}),
}  # fmt: skip


@pytest.mark.parametrize(("fixed_of", "hot_of", "hot", "made"), MERGED.values(), ids=MERGED.keys())
def test_what_a_vm_of_one_spec_is_after_an_update_to_another(
    fixed_of: dict[str, Any], hot_of: dict[str, Any], hot: list[str], made: dict[str, Any]
) -> None:
    before = written(fixed_of)
    assert merged(fixed_of, hot_of, hot) == made
    assert written(fixed_of) == before


UNITED = {
    "all keys, and the values of the second": ({"tags": {"a": "1", "b": "1"}}, {"tags": {"b": "2", "c": "2"}},
        {"tags": {"a": "1", "b": "2", "c": "2"}}),
    "one alone": (None, {"a": 1}, {"a": 1}),
    "the other alone": ({"a": 1}, None, {"a": 1}),
    "none": (None, None, None),
}  # fmt: skip


@pytest.mark.parametrize(("one", "other", "both"), UNITED.values(), ids=UNITED.keys())
def test_what_may_be_on_a_vm_whose_update_was_cut_off(
    one: dict[str, Any] | None, other: dict[str, Any] | None, both: dict[str, Any] | None
) -> None:
    assert united(one, other) == both


@pytest.mark.parametrize("text", ["", "{", "[1]", '"x"', "null", "{}x", "[" * 100_000])
def test_a_text_that_is_no_provider_spec_is_none(text: str) -> None:
    assert read(text) is None


def test_a_provider_spec_is_read_as_it_was_written_whatever_the_order_of_keys() -> None:
    assert written({"b": 1, "a": {"d": None, "c": [2]}}) == written({"a": {"c": [2], "d": None}, "b": 1})
    assert read(written({"a": {"c": [2]}})) == {"a": {"c": [2]}}
