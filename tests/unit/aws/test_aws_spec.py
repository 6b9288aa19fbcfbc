"""What a class may say to the aws driver, and what the administrator may."""

import importlib.util
from typing import Any

import pytest

from kubewright.base.clock import SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.driver import registry
from kubewright.driver.errors import InvalidArgument
from kubewright.providers.aws.instances import wanted_tags
from kubewright.providers.aws.spec import parse_options, parse_spec

from .spec import INTERFACE, SMALL, TAGS, WHOLE

DISK = {"deviceName": "/root", "ebs": {"volumeSize": 20, "volumeType": "gp3"}}


def disks(*ebs: dict[str, Any], **device: Any) -> dict[str, Any]:
    return {"blockDevices": [{**DISK, **device, "ebs": each} for each in ebs]}


def interfaces(*found: dict[str, Any]) -> dict[str, Any]:
    return {"networkInterfaces": [{**INTERFACE, **each} for each in found]}


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"ami": ""}, "ami: Expected an id like ami-0123456789abcdef0"),
    ({"machineType": 5}, "machineType: Expected `str`, got `int`"),
    ({"machineTyp": "m5.large"}, "Object contains unknown field `machineTyp`"),
    ({"region": "eu-west-1.example.com/"}, "region: Expected a region like eu-west-1"),
    ({"iam": {}}, "iam: needs the arn or the name of an instance profile, one of them"),
    ({"iam": {"arn": "a", "name": "b"}}, "iam: needs the arn or the name"),
    ({"spotPrice": "cheap"}, "spotPrice: Expected a price like 0.25"),
    ({"apiVersion": "v1"}, "apiVersion: Invalid enum value 'v1'"),
    (disks({"volumeSize": 20}), "blockDevices[0].ebs.volumeType: is needed"),
    (disks({"volumeType": "gp9"}), "blockDevices[0].ebs.volumeType: Invalid enum value 'gp9'"),
    (disks({"volumeType": "gp3"}), "blockDevices[0].ebs.volumeSize: is needed, in GiB"),
    (disks({"volumeType": "io1", "volumeSize": 9}), "blockDevices[0].ebs.iops: is needed for volumes of type io1"),
    (disks({"volumeType": "gp2", "volumeSize": 9, "iops": 3}), "blockDevices[0].ebs.iops: is not for volumes of type gp2"),
    (disks({"volumeType": "st1", "volumeSize": 500, "throughput": 3}), "blockDevices[0].ebs.throughput: is not for"),
    (disks({"volumeType": "gp3", "volumeSize": 9, "throughput": 0}), "blockDevices[0].ebs.throughput: Expected `int` >= 1"),
    (disks({"volumeType": "gp3", "volumeSize": 9, "kmsKeyID": "k"}), "blockDevices[0].ebs.encrypted: has to be true"),
    (disks({"volumeType": "gp3"}, virtualName="ephemeral0"), "blockDevices[0].ebs: is not for a device with noDevice"),
    ({"blockDevices": [DISK, DISK]}, "blockDevices: of several, one has the deviceName /root, and here 2 have it"),
    ({"blockDevices": [DISK, {**DISK, "deviceName": "sdb"}]}, "blockDevices[1].deviceName: 'sdb' is neither /root nor"),
    (
        {"blockDevices": [DISK, *[{**DISK, "deviceName": "/dev/sdf"}] * 2]},
        "blockDevices[2].deviceName: '/dev/sdf' is the name of another one, too",
    ),
    ({"networkInterfaces": []}, "networkInterfaces: at least one is needed"),
    ({"networkInterfaces": [{"securityGroupIDs": ["sg-1"]}]}, "networkInterfaces[0].subnetID: is needed"),
    ({"networkInterfaces": [{"subnetID": "s"}]}, "networkInterfaces[0].securityGroupIDs: at least one is needed"),
    (interfaces({"securityGroupIDs": [""]}), "networkInterfaces[0].securityGroupIDs[0]: Expected `str` of length >= 1"),
    (interfaces({}, {"associatePublicIPAddress": True}), "networkInterfaces[1].associatePublicIPAddress: EC2 gives"),
    (interfaces({"ipv6PrefixCount": -1}), "networkInterfaces[0].ipv6PrefixCount: Expected `int` >= 0"),
    (interfaces({"deviceIndex": 1}, {}), "networkInterfaces[1]: is at the place of another one: card 0, device 1"),
    (interfaces({"deviceIndex": 1}), "networkInterfaces: one of them has to be device 0 of card 0"),
    ({"cpuOptions": {"coreCount": 1}}, "cpuOptions: Object missing required field `threadsPerCore`"),
    ({"cpuOptions": {"coreCount": 1, "threadsPerCore": 3}}, "cpuOptions.threadsPerCore: Expected `int` <= 2"),
    ({"instanceMetadataOptions": {"httpTokens": "v2"}}, "instanceMetadataOptions.httpTokens: Invalid enum value 'v2'"),
    ({"instanceMetadataOptions": {"httpPutResponseHopLimit": 65}}, "httpPutResponseHopLimit: Expected `int` <= 64"),
    (
        {"capacityReservation": {"capacityReservationPreference": "open", "capacityReservationId": "cr"}},
        "capacityReservation.capacityReservationPreference: cannot be given together with a reservation",
    ),
    (
        {"capacityReservation": {"capacityReservationId": "a", "capacityReservationResourceGroupArn": "b"}},
        "capacityReservation: a reservation or a group of them is given, and not both",
    ),
    ({"tags": {"kubernetes.io/cluster/c": "1"}}, "tags: one of the form kubernetes.io/role/NAME is needed"),
    ({"tags": {"kubernetes.io/role/r": "1"}}, "tags: one of the form kubernetes.io/cluster/NAME is needed"),
    ({"tags": {**TAGS, "aws:x": ""}}, "tags: 'aws:x' is reserved"),
    ({"tags": {**TAGS, "kubewright.io/owner-uid": ""}}, "tags: 'kubewright.io/owner-uid' is reserved"),
    ({"tags": {**TAGS, "kubernetes.io/cluster/*": "1"}}, "has a *, ? or \\"),
    ({"tags": {**TAGS, "a": "x" * 257}}, "tags: the value of 'a' has more than 256 characters"),
    ({"tags": {**TAGS, "a": 1}}, "tags[...]: Expected `str`, got `int`"),
    ({"tags": {"vm": TAGS, "nic": {}}}, "tags: Object contains unknown field `nic`"),
    ({"tags": {"vm": {}, "disk": TAGS}}, "tags: one of the form kubernetes.io/cluster/NAME is needed"),
    ({"tags": {"vm": TAGS, "disk": {"aws:x": ""}}}, "tags.disk: 'aws:x' is reserved"),
    ({"tags": {"vm": TAGS, "network": {f"t{n}": "" for n in range(45)}}}, "tags.network: there are 47, and EC2 takes 46"),
    ({"tags": {**TAGS, "": "x"}}, "tags: the key '' has not between 1 and 128 characters"),
    ({"tags": {**TAGS, **{f"t{n}": "" for n in range(45)}}}, "tags: there are 47, and EC2 takes 46"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "sentence"), REFUSED, ids=[each[1][:50] for each in REFUSED])
def test_a_class_by_which_no_vm_can_be_made_is_refused_with_the_field(
    changed: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse_spec({**SMALL, **changed})
    assert refused.value.message.startswith("providerSpec: ")
    assert sentence in refused.value.message


def test_every_field_that_gardeners_provider_takes_is_taken() -> None:
    spec = parse_spec(WHOLE)
    assert spec.block_devices[0].ebs.kms_key_id == "alias/disks"
    assert spec.network_interfaces[0].associate_public_ip_address is True
    assert spec.mandatory_tags == TAGS
    assert spec.forwards
    assert spec.needs_initializing


def test_a_flat_map_of_tags_is_for_all_that_is_made_and_one_per_resource_is_for_each() -> None:
    flat = parse_spec(SMALL).tags
    assert flat.vm == flat.network == flat.disk == TAGS
    apart = wanted_tags(parse_spec({**SMALL, "tags": {"vm": TAGS, "disk": {"backup": "daily", "Name": "x"}}}))
    assert (apart.vm, apart.network) == (TAGS, TAGS), "those of cluster and role are on all"
    assert apart.disk == {**TAGS, "backup": "daily"}, "and a Name on none"


def test_a_pointer_of_gardeners_may_be_null() -> None:
    assert parse_spec({**SMALL, "keyName": None, "spotPrice": None}).spot_price is None
    assert parse_spec({**SMALL, "spotPrice": ""}).spot_price == ""


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"endpoint": "x"}, "driver aws: Object contains unknown field `endpoint`"),
        ({"endpointUrl": "ftp://x"}, "driver aws: endpointUrl: "),
        ({"ambientCredentials": "perhaps"}, "driver aws: ambientCredentials: Expected `bool`"),
        ({"attempts": "0"}, "driver aws: attempts: Expected `int` >= 1"),
        ({"httpTokens": "none"}, "driver aws: httpTokens: Invalid enum value"),
    ],
)
def test_an_option_that_is_unknown_or_out_of_range_is_refused(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_options(options)
    assert sentence in str(refused.value)


def test_the_driver_comes_through_the_door_of_all_drivers_and_says_what_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = registry.Settings(SystemClock(), None, {"ambientCredentials": "true"})
    assert registry.load("aws", settings) is not None
    with pytest.raises(InvalidInput, match="driver aws: Object contains unknown field `color`"):
        registry.load("aws", registry.Settings(SystemClock(), None, {"color": "red"}))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(InvalidInput, match=r"pip install 'kubewright\[aws\]'"):
        registry.load("aws", settings)
