"""Tags of VMs, interfaces and disks: the two forms of a class, and what changes."""

from typing import Any

import pytest

from kubewright.driver.errors import InvalidArgument
from kubewright.driver.hot import (
    RESOURCES,
    TagChanges,
    Tags,
    by_resource,
    changed,
    changes,
    found_by,
    last_applied_switch,
    last_applied_tags,
    switched,
)

FORMS = {
    "none": ({}, {}),
    "a flat map is for the resources that the driver says": ({"tags": {"a": "1"}}, {"tags": {"vm": {"a": "1"}, "disk": {"a": "1"}}}),
    "with a tag that is called as a resource": ({"tags": {"vm": "x"}}, {"tags": {"vm": {"vm": "x"}, "disk": {"vm": "x"}}}),
    "an empty one is for none": ({"tags": {}}, {"tags": {}}),
    "per resource": ({"tags": {"vm": {"a": "1"}, "network": {}}}, {"tags": {"vm": {"a": "1"}, "network": {}}}),
    "with one that is none, for its reader": ({"tags": {"vm": {}, "x": {}}}, {"tags": {"vm": {}, "x": {}}}),
    "no map at all, for its reader": ({"tags": ["a"]}, {"tags": ["a"]}),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), FORMS.values(), ids=FORMS.keys())
def test_the_two_forms_are_told_apart_by_their_values(spec: dict[str, Any], expected: dict[str, Any]) -> None:
    assert by_resource(spec, ["vm", "disk"]) == expected


@pytest.mark.parametrize("value", [1, True, None, ["x"]])
def test_a_flat_map_has_texts_only(value: object) -> None:
    with pytest.raises(InvalidArgument, match=r"providerSpec: tags\[\.\.\.\]: Expected `str`, got "):
        by_resource({"tags": {"a": value}}, ["vm"])


LAST = {
    "unknown": (None, None),
    "no tags": ({"region": "x"}, Tags()),
    "flat": ({"tags": {"a": "1"}}, Tags(vm={"a": "1"}, disk={"a": "1"})),
    "per resource": ({"tags": {"network": {"a": "1"}}}, Tags(network={"a": "1"})),
    "of two forms, after an update that was cut off": ({"tags": {"old": "1", "vm": {"new": "1"}}}, Tags(vm={"old": "1", "new": "1"}, disk={"old": "1"})),
    "edited into something else by hand": ({"tags": "x"}, None),
    "with values that are no texts": ({"tags": {"vm": {"a": 1, "b": "2"}, "disk": [1]}}, Tags(vm={"b": "2"})),
    "flat with such": ({"tags": {"a": 1, "b": "2"}}, Tags(vm={"b": "2"}, disk={"b": "2"})),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "tags"), LAST.values(), ids=LAST.keys())
def test_what_was_applied_last_is_read_leniently(spec: dict[str, Any] | None, tags: Tags | None) -> None:
    assert last_applied_tags(spec, ["vm", "disk"]) == tags


def test_each_object_gets_what_its_resource_has() -> None:
    last = Tags(vm={"a": "1"}, disk={"a": "1"})
    wanted = Tags(vm={"a": "2"}, network={"n": ""}, disk={})
    objects = {
        "i-1": ("vm", {"a": "1", "hers": "x"}),
        "eni-1": ("network", {"n": ""}),
        "vol-1": ("disk", {"a": "1"}),
        "vol-2": ("disk", {"hers": "x"}),
    }
    what = changes(last, wanted, objects)
    assert what == {"i-1": TagChanges({"a": "2"}, ()), "vol-1": TagChanges({}, ("a",))}
    assert changed(objects["i-1"][1], what["i-1"]) == {"a": "2", "hers": "x"}
    assert changed(objects["vol-1"][1], what["vol-1"]) == {}


def test_a_class_that_wants_others_by_which_vms_are_found_is_refused_by_name() -> None:
    key = "kubernetes.io/role/node"
    with pytest.raises(
        InvalidArgument, match=rf"so they stay as they are: {key} \(of i-1\); a class of another"
    ):
        changes(Tags(vm={key: "1"}), Tags(vm={"a": "1"}), {"i-1": ("vm", {key: "1"}), "v": ("disk", {})})


def test_vms_are_found_by_the_tags_that_no_update_changes() -> None:
    key = "kubernetes-io-cluster-blue"
    assert found_by({key: "1", "team": "a"}) == {key: "1"}
    assert found_by({"team": "a"}) == {"team": "a"}, "a class without them has all of its tags for it"
    assert found_by({}) == {}


SWITCHES = {
    "said": (None, False, False),
    "said again": (False, False, False),
    "said otherwise": (False, True, True),
    "not said any more": (False, None, True),
    "never said": (None, None, None),
}


@pytest.mark.parametrize(("last", "wanted", "now"), SWITCHES.values(), ids=SWITCHES.keys())
def test_what_a_switch_is_to_be(last: bool | None, wanted: bool | None, now: bool | None) -> None:
    assert switched(last, wanted, default=True) is now


def test_a_switch_that_was_edited_into_something_else_is_not_known() -> None:
    assert last_applied_switch({"check": "no"}, "check") is None
    assert last_applied_switch(None, "check") is None
    assert last_applied_switch({"check": False}, "check") is False


def test_there_are_three_resources() -> None:
    assert set(RESOURCES) == set(Tags.__struct_fields__)
