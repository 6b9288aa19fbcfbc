"""What is asked of EC2 to change an instance that runs."""

from typing import Any

import pytest

from kubewright.driver.errors import InvalidArgument
from kubewright.providers.aws import launch
from kubewright.providers.aws.instances import Vm, vms
from kubewright.providers.aws.launch import Step
from kubewright.providers.aws.spec import parse_spec

from .spec import SMALL, TAGS

MADE = {**TAGS, "Name": "m1", "kubewright.io/owner-uid": "u1"}
"""What a launch has put on everything."""
PVC = {"kubernetes.io/cluster/shoot--dev--blue": "owned", "Name": "pvc-1"}
TAGS_OF = {"eni-1": MADE, "vol-1": MADE, "vol-2": PVC, "eni-2": {}}


def vm(tags: dict[str, str] | None = None, *, checks: bool = True, slots: int = 1) -> Vm:
    interfaces = [
        {"NetworkInterfaceId": f"eni-{n + 1}", "SourceDestCheck": checks, "Attachment": {"DeviceIndex": n}}
        for n in range(slots)
    ]
    found = {
        "InstanceId": "i-1",
        "SourceDestCheck": checks,
        "NetworkInterfaces": interfaces,
        "BlockDeviceMappings": [
            {"Ebs": {"VolumeId": "vol-1"}},
            {"Ebs": {"VolumeId": "vol-2"}},
            {"DeviceName": "x"},
        ],
        "Tags": [{"Key": key, "Value": value} for key, value in (tags or MADE).items()],
    }
    return vms({"Instances": [found]})[0]


def asked(
    before: dict[str, Any] | None, after: dict[str, Any], of: Vm | None = None
) -> list[tuple[str, Any]]:
    """The requests for a change of a class."""
    spec, of = parse_spec({**SMALL, **after}), of or vm()
    last = None if before is None else {**SMALL, **before}
    steps: list[Step] = list(launch.steps(spec, last, of, launch.changes(spec, last, of, TAGS_OF)))
    return [(each.operation, dict(each.arguments)) for each in steps]


def create(ids: list[str], **tags: str) -> tuple[str, Any]:
    return "CreateTags", {
        "Resources": ids,
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
    }


def delete(ids: list[str], *keys: str) -> tuple[str, Any]:
    return "DeleteTags", {"Resources": ids, "Tags": [{"Key": key} for key in keys]}


OFF, ON = {"SourceDestCheck": {"Value": False}}, {"SourceDestCheck": {"Value": True}}
EVERY = ["i-1", "eni-1", "vol-1"]


def test_the_parts_of_an_instance_are_all_that_is_attached() -> None:
    assert launch.parts(vm()) == ["eni-1", "vol-1", "vol-2"]


def test_a_flat_map_changes_all_that_the_launch_has_made_with_one_request_and_nothing_else() -> None:
    """The volume of a PersistentVolume has the name of another thing, and no tags of cluster and role."""
    assert asked({}, {"tags": {**TAGS, "team": "a"}}) == [create(EVERY, team="a")]
    tagged = vm({**MADE, "team": "a"})
    assert asked({"tags": {**TAGS, "team": "a"}}, {"tags": TAGS}, tagged) == [delete(["i-1"], "team")]


def test_tags_of_instance_interfaces_and_volumes_are_changed_apart() -> None:
    apart = {"vm": {**TAGS, "team": "a"}, "network": {}, "disk": {"backup": "daily"}}
    assert asked({}, {"tags": apart}) == [create(["i-1"], team="a"), create(["vol-1"], backup="daily")]


def test_nothing_is_asked_for_where_all_is_so() -> None:
    assert asked({}, {}) == []
    assert asked(None, {}) == []


def test_what_another_has_taken_off_comes_again() -> None:
    same = {"tags": {**TAGS, "team": "a"}}
    assert asked(same, same, vm({**MADE, "team": "a"})) == [create(["eni-1", "vol-1"], team="a")]


@pytest.mark.parametrize("key", ["Name", "kubewright.io/owner-uid", "aws:autoscaling"])
def test_the_drivers_own_tags_stay_whatever_was_applied_last(key: str) -> None:
    """A class may have a Name, which a launch leaves out; an annotation may say what it likes."""
    found = vm({**MADE, key: "x"})
    assert asked({"tags": {**TAGS, key: "x"}}, {"tags": TAGS}, found) == []
    assert asked(None, {"tags": {**TAGS, "Name": "of-the-class"}}) == []


def test_tags_of_cluster_and_role_stay() -> None:
    other = {**TAGS, "kubernetes.io/role/node": "2"}
    with pytest.raises(InvalidArgument, match=r"kubernetes\.io/role/node"):
        asked({}, {"tags": other}, vm())
    assert asked({"tags": TAGS}, {"tags": {"vm": TAGS}}) == [], (
        "and on volumes, whatever the class says of them"
    )


CHECKS = [
    (
        "turned off",
        {},
        {launch.CHECKS: False},
        vm(),
        [("ModifyInstanceAttribute", {"InstanceId": "i-1", **OFF})],
    ),
    ("off already", {}, {launch.CHECKS: False}, vm(checks=False), []),
    (
        "turned on",
        {launch.CHECKS: False},
        {launch.CHECKS: True},
        vm(checks=False),
        [("ModifyInstanceAttribute", {"InstanceId": "i-1", **ON})],
    ),
    (
        "not said any more",
        {launch.CHECKS: False},
        {},
        vm(checks=False),
        [("ModifyInstanceAttribute", {"InstanceId": "i-1", **ON})],
    ),
    ("never said, and turned off by another", {}, {}, vm(checks=False), []),
    (
        "of several interfaces, only that of the class",
        {},
        {launch.CHECKS: False},
        vm(slots=2),
        [("ModifyNetworkInterfaceAttribute", {"NetworkInterfaceId": "eni-1", **OFF})],
    ),
]


@pytest.mark.parametrize(
    ("before", "after", "of", "expected"), [each[1:] for each in CHECKS], ids=[each[0] for each in CHECKS]
)
def test_checks_of_packets(
    before: dict[str, Any], after: dict[str, Any], of: Vm, expected: list[Any]
) -> None:
    assert asked(before, after, of) == expected


def test_what_ec2_may_not_show_yet_is_as_if_it_did() -> None:
    after = {**SMALL, "tags": {**TAGS, "team": "a"}, launch.CHECKS: False}
    spec, before = parse_spec(after), vm()
    what = launch.changes(spec, {}, before, TAGS_OF)
    shown = launch.updated(spec, {}, before, what)
    assert shown.tag("team") == "a"
    assert [shown.source_dest_check, shown.network_interfaces[0].source_dest_check] == [False, False]
    tags_of = {each: {**TAGS_OF[each], "team": "a"} for each in ("eni-1", "vol-1")}
    assert not list(launch.steps(spec, after, shown, launch.changes(spec, after, shown, tags_of)))
