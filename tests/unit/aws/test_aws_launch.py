"""What is asked of EC2 for one machine."""

from typing import Any

import pytest
from botocore.session import get_session
from botocore.validate import ParamValidator
from msgspec import structs

from kubewright.driver.contract import MachineRequest, stub
from kubewright.driver.errors import InvalidArgument
from kubewright.providers.aws import launch
from kubewright.providers.aws.instances import instance, instance_id, is_of_class, of_machine, vms
from kubewright.providers.aws.launch import Image, MachineType
from kubewright.providers.aws.spec import parse_options, parse_spec
from kubewright.testing.scenes import class_request

from .spec import INTERFACE, SMALL, TAGS, WHOLE

IMAGE = Image("/dev/xvda", "x86_64")


def request(name: str = "m1", uid: str = "u1", data: bytes = b"#!/bin/sh") -> MachineRequest:
    asked = class_request("workers", provider="aws").of(stub(name, "ns", uid))
    return MachineRequest(
        asked.machine, asked.machine_class, structs.replace(asked.secret, data={"userData": data})
    )


def asked(spec: dict[str, Any], **options: str) -> dict[str, Any]:
    return dict(launch.run_instances(parse_spec(spec), request(), IMAGE, parse_options(options)))


def vm(**found: Any) -> Any:
    return vms({"Instances": [{"InstanceId": "i-00000001", "State": {"Name": "running"}, **found}]})[0]


@pytest.fixture(scope="module")
def shape() -> Any:
    return get_session().get_service_model("ec2").operation_model("RunInstances").input_shape


@pytest.mark.parametrize("spec", [SMALL, WHOLE, {**SMALL, "spotPrice": ""}], ids=["small", "whole", "spot"])
def test_a_request_is_one_that_the_library_knows(spec: dict[str, Any], shape: Any) -> None:
    arguments = asked(spec) | {"UserData": "in base64"}
    assert not ParamValidator().validate(arguments, shape).has_errors()


def test_a_whole_class_becomes_a_whole_request() -> None:
    found = asked(WHOLE)
    assert [each["DeviceName"] for each in found["BlockDeviceMappings"]] == [
        *("/dev/xvda", "/dev/sdf", "/dev/sdg", "/dev/sdh"),
    ]
    assert found["BlockDeviceMappings"][0]["Ebs"] == {
        "DeleteOnTermination": True,
        "Encrypted": True,
        "Iops": 4000,
        "KmsKeyId": "alias/disks",
        "Throughput": 200,
        "VolumeSize": 50,
        "VolumeType": "gp3",
    }
    assert found["BlockDeviceMappings"][2:] == [
        {"DeviceName": "/dev/sdg", "VirtualName": "ephemeral0"},
        {"DeviceName": "/dev/sdh", "NoDevice": ""},
    ]
    assert found["CapacityReservationSpecification"] == {
        "CapacityReservationTarget": {"CapacityReservationId": "cr-1"}
    }
    assert found["CpuOptions"] == {"CoreCount": 2, "ThreadsPerCore": 1, "AmdSevSnp": "enabled"}
    assert found["InstanceMarketOptions"]["SpotOptions"] == {
        "SpotInstanceType": "one-time",
        "MaxPrice": "0.12",
    }
    assert found["MetadataOptions"]["HttpTokens"] == "optional"
    assert found["Placement"]["Tenancy"] == "host"
    assert found["IamInstanceProfile"] == {"Arn": "arn:aws:iam::123456789012:instance-profile/nodes"}
    kinds = [each["ResourceType"] for each in found["TagSpecifications"]]
    assert kinds == ["instance", "volume", "network-interface", "spot-instances-request"]
    tags = {each["Key"]: each["Value"] for each in found["TagSpecifications"][0]["Tags"]}
    assert tags == {
        **TAGS,
        "team": "blue",
        "Name": "m1",
        "kubewright.io/owner-uid": "u1",
        "kubewright.io/namespace": "ns",
        "kubewright.io/class": "workers",
    }


def test_what_a_class_does_not_say_is_left_to_ec2_but_for_imds_v2() -> None:
    found = asked(SMALL)
    left_out = {"BlockDeviceMappings", "CpuOptions", "InstanceMarketOptions", "KeyName", "Placement"}
    assert not left_out & found.keys()
    assert found["MetadataOptions"] == {"HttpTokens": "required"}
    assert "MetadataOptions" not in asked(SMALL, httpTokens="default")
    assert found["NetworkInterfaces"] == [
        {"DeviceIndex": 0, "DeleteOnTermination": True, "Groups": ["sg-1"], "SubnetId": "subnet-1"}
    ]


def test_a_single_device_is_the_root_device_whatever_its_name() -> None:
    disk = {"deviceName": "/dev/sda1", "ebs": {"volumeSize": 20, "volumeType": "standard"}}
    assert asked({**SMALL, "blockDevices": [disk]})["BlockDeviceMappings"][0]["DeviceName"] == "/dev/xvda"


def test_a_token_follows_from_the_machine_and_the_number_of_vms_before() -> None:
    tokens = {launch.client_token(request(name, uid), n) for name in "ab" for uid in "12" for n in (0, 1)}
    assert len(tokens) == 8
    assert all(len(each) == 64 for each in tokens)
    assert launch.client_token(request(), 0) == launch.client_token(request(data=b"other"), 0)


def test_the_same_machine_is_asked_for_in_the_same_words() -> None:
    assert asked({**WHOLE, "tags": dict(reversed(WHOLE["tags"].items()))}) == asked(WHOLE)
    large = b"#cloud-config\n" * 3000
    assert launch.user_data(large) == launch.user_data(large)


def test_ignition_is_not_packed() -> None:
    data = b'{"ignition": {"version": "3.4.0"}}' + b" " * launch.MOST_DATA
    with pytest.raises(InvalidArgument, match=r"userData: 16418 bytes, and EC2 takes 16384"):
        launch.user_data(data)
    with pytest.raises(InvalidArgument, match="and EC2 takes"):
        launch.user_data(b"x" * 20_000, "ignition")
    with pytest.raises(InvalidArgument, match="userData: the Secret has none"):
        launch.user_data(b"")


CHECKED = {"NetworkInterfaceId": "eni-1", "SourceDestCheck": True}
MISSING: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    ({}, {}, []),
    ({"srcAndDstChecksEnabled": True}, {}, []),
    ({"srcAndDstChecksEnabled": False}, {}, ["ModifyInstanceAttribute"]),
    ({"srcAndDstChecksEnabled": False}, {"SourceDestCheck": False}, []),
    (
        {"srcAndDstChecksEnabled": False},
        {"NetworkInterfaces": [CHECKED, {**CHECKED, "SourceDestCheck": False}]},
        ["ModifyNetworkInterfaceAttribute"],
    ),
    (
        {"networkInterfaces": [{**INTERFACE, "ipv6PrefixCount": 2, "ipv6AddressCount": 1}]},
        {"NetworkInterfaces": [{**CHECKED, "Ipv6Prefixes": [{"Ipv6Prefix": "2001:db8::/80"}]}]},
        ["AssignIpv6Addresses", "AssignIpv6Addresses"],
    ),
    (
        {"networkInterfaces": [{**INTERFACE, "ipv6PrefixCount": 1}]},
        {"NetworkInterfaces": [{**CHECKED, "Ipv6Prefixes": [{"Ipv6Prefix": "2001:db8::/80"}]}]},
        [],
    ),
]


@pytest.mark.parametrize(("spec", "found", "operations"), MISSING)
def test_only_what_an_instance_lacks_is_asked_for(
    spec: dict[str, Any], found: dict[str, Any], operations: list[str]
) -> None:
    steps = launch.missing(parse_spec({**SMALL, **spec}), vm(**found))
    assert [each.operation for each in steps] == operations


def test_only_the_prefixes_that_are_missing_are_asked_for() -> None:
    spec = parse_spec({**SMALL, "networkInterfaces": [{**INTERFACE, "ipv6PrefixCount": 2}]})
    there = {**CHECKED, "Ipv6Prefixes": [{"Ipv6Prefix": "2001:db8::/80"}]}
    (step,) = launch.missing(spec, vm(NetworkInterfaces=[there]))
    assert step.arguments == {"NetworkInterfaceId": "eni-1", "Ipv6PrefixCount": 1}


def test_what_an_interface_lacks_is_asked_for_it_whatever_the_order_of_the_class() -> None:
    first, second = {"deviceIndex": 1, "ipv6PrefixCount": 1}, {"networkCardIndex": 1, "deviceIndex": 1}
    wanted = [
        {**INTERFACE, **each} for each in (first, {**second, "ipv6AddressCount": 1}, {"deviceIndex": 0})
    ]
    spec = parse_spec({**SMALL, "networkInterfaces": wanted})
    there = [
        {"NetworkInterfaceId": f"eni-{card}-{index}", "Attachment": {"NetworkCardIndex": card, "DeviceIndex": index}}
        for card, index in ((1, 1), (0, 0), (0, 1))
    ]  # fmt: skip
    found = vm(NetworkInterfaces=there)
    asked_for = {step.arguments["NetworkInterfaceId"]: step.arguments for step in launch.missing(spec, found)}
    assert {name: min(each) for name, each in asked_for.items()} == {
        "eni-0-1": "Ipv6PrefixCount",
        "eni-1-1": "Ipv6AddressCount",
    }
    (addresses,) = launch.missing(spec, launch.completed(spec, found))
    assert addresses.arguments == {"NetworkInterfaceId": "eni-1-1", "Ipv6AddressCount": 1}


def test_an_image_of_another_architecture_than_the_machine_type_is_told() -> None:
    spec, arm = parse_spec(SMALL), MachineType(2, 8192, ("arm64",))
    assert (
        launch.mismatch(spec, IMAGE, arm) == "ami: ami-0123456789abcdef0 is for x86_64, and m5.large is arm64"
    )
    assert not launch.mismatch(spec, IMAGE, MachineType(2, 8192, ("i386", "x86_64")))
    assert arm.size.architecture == "arm64"


@pytest.mark.parametrize(
    ("provider_id", "found"),
    [
        ("aws:///eu-west-1/i-0123abcd", "i-0123abcd"),
        ("aws:///eu-west-1b/i-0123abcd", "i-0123abcd"),
        ("aws:///eu-west-2/i-0123abcd", "is in eu-west-2, and its class in eu-west-1"),
        ("aws:///eu-west-11/i-0123abcd", "is in eu-west-11"),
        ("qemu:///local/m1", "is no provider id of AWS"),
        ("aws:///eu-west-1/i-0123abcd\n", "is no provider id of AWS"),
    ],
)
def test_a_provider_id_names_region_or_zone_and_instance(provider_id: str, found: str) -> None:
    if found.startswith("i-"):
        assert instance_id(provider_id, "eu-west-1") == found
    else:
        with pytest.raises(InvalidArgument, match=found):
            instance_id(provider_id, "eu-west-1")


def tagged(**tags: str) -> list[dict[str, str]]:
    return [{"Key": key.replace("__", "/"), "Value": value} for key, value in tags.items()]


def test_whose_an_instance_is_its_tags_say_and_a_record_more_than_they() -> None:
    own = "kubewright.io__owner-uid", "kubewright.io__namespace"
    theirs = vm(Tags=tagged(Name="m1", **{own[0]: "u2"}))
    mcms = vm(InstanceId="i-00000002", Tags=tagged(Name="m1"))
    elsewhere = vm(InstanceId="i-00000003", Tags=tagged(Name="m1", **{own[0]: "u1", own[1]: "other"}))
    found = [theirs, mcms, elsewhere]
    assert of_machine(found, request(), "") == [mcms]
    assert of_machine(found, request(), theirs.instance_id) == [theirs, mcms]
    spec = parse_spec(SMALL)
    cluster = [{"Key": key, "Value": value} for key, value in TAGS.items()]
    assert is_of_class(vm(Tags=cluster), spec, "ns")
    assert not is_of_class(vm(Tags=cluster[:1]), spec, "ns")
    assert not is_of_class(vm(Tags=[*cluster, *tagged(**{own[1]: "other"})]), spec, "ns")


def test_an_instance_is_named_by_its_private_dns_name_and_its_region() -> None:
    addresses = {"PrivateIpAddress": "10.0.0.7", "PrivateDnsName": "ip-10-0-0-7.internal"}
    six = {"NetworkInterfaces": [{"Ipv6Addresses": [{"Ipv6Address": "2001:db8::7"}]}]}
    found = instance(vm(InstanceLifecycle="spot", **addresses, **six), "eu-west-1")
    assert (found.provider_id, found.node_name) == ("aws:///eu-west-1/i-00000001", "ip-10-0-0-7.internal")
    assert found.interruptible
    assert found.addresses == (
        ("InternalIP", "10.0.0.7"),
        ("InternalIP", "2001:db8::7"),
        ("InternalDNS", "ip-10-0-0-7.internal"),
    )
