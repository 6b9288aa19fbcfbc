"""Whatever happens to a request on its way to EC2, a machine has one VM in the end, and then none."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest

from kubewright.driver.contract import ClassRequest, MachineRequest
from kubewright.driver.errors import Code, DriverError
from kubewright.driver.life.calls import outcome
from kubewright.driver.life.seen import NOTHING, Verb, VmSeen
from kubewright.providers.aws.calls import CALLS
from kubewright.providers.aws.driver import AwsDriver

from .bench import AwsBench, QuickClock, opened
from .ec2 import Fault, Place

pytestmark = pytest.mark.looptime(False)
TRIES = 6
READ = {fault: 1.0 if fault is Fault.LATE else 10.0 for fault in Fault}
"""Seconds for an answer."""


async def reached(driver: AwsDriver, request: MachineRequest, verb: Verb) -> VmSeen:
    """What a controller comes to that asks again after each failure."""
    seen = NOTHING

    async def ask() -> MachineRequest:
        return request

    for _ in range(TRIES):
        seen = await outcome(driver, QuickClock(), verb, ask, seen)
        if seen.error is None:
            return seen
        assert not seen.error.broken, seen.error
    raise AssertionError(f"{verb} was not reached: {seen.error}")


GROUPS = (
    (
        "RunInstances",
        "ModifyInstanceAttribute",
        "AssignIpv6Addresses",
        "DescribeImages",
        "DescribeInstanceTypes",
    ),
    ("DescribeInstances", "ModifyNetworkInterfaceAttribute", "TerminateInstances"),
    ("DescribeTags", "CreateTags", "DeleteTags"),
)
"""All calls, in so many lives: of a VM with one interface, of one with several, and of one that is updated."""


async def lives(place: Place, calls: Sequence[str], fault: Fault) -> None:
    """A machine is made, updated and deleted, and this happens to one request of each of these operations."""
    async with opened(place) as bench:
        one = {"subnetID": place.subnet, "securityGroupIDs": [place.group]}
        several = "ModifyNetworkInterfaceAttribute" in calls
        interfaces = [one, one] if several else [{**one, "ipv6PrefixCount": 1}]
        of = bench.class_of(srcAndDstChecksEnabled=False, networkInterfaces=interfaces)
        driver = bench.another(READ[fault])
        bench.ec2.faults = {call: [fault] for call in calls}
        if "DescribeInstanceTypes" in calls:
            for _ in range(2):
                with suppress(DriverError):
                    await driver.validate(of)
        seen = await reached(driver, bench.request(of=of), Verb.ENSURE)
        assert seen.instance is not None
        assert [f"aws:///eu-west-1/{each}" for each in bench.live] == [seen.instance.provider_id]
        assert seen.instance.node_name
        if "CreateTags" in calls:
            await updated(bench, driver, of, seen.instance.provider_id)
        await reached(driver, bench.request(of=of, provider_id=seen.instance.provider_id), Verb.DELETE)
        await bench.ec2.arrive()
        assert bench.live == []
        assert not any(bench.ec2.faults.values()), f"a call was never made: {bench.ec2.faults}"


async def updated(bench: AwsBench, driver: AwsDriver, of: ClassRequest, provider_id: str) -> None:
    """One tag comes, another goes, and all objects are as the class says in the end."""
    spec = of.machine_class.provider_spec
    before = {**spec, "tags": {**spec["tags"], "old": "1"}}
    await bench.put_tag(provider_id, "old", "1")
    now = bench.class_of(**{**spec, "tags": {**spec["tags"], "new": "1"}})
    for _ in range(TRIES):
        with suppress(DriverError):
            await driver.update(bench.request(of=now, provider_id=provider_id), before)
            break
    await bench.ec2.arrive()
    found = await bench.tags(provider_id)
    assert len(found) == 3, "an instance, an interface, a volume"
    assert all(each.get("new") == "1" and "old" not in each for each in found.values()), found


@pytest.mark.parametrize("fault", Fault)
async def test_a_fault_of_any_call_leaves_one_vm_and_after_the_deletion_none(
    place: Place, fault: Fault
) -> None:
    assert {call for group in GROUPS for call in group} == CALLS.keys()
    await asyncio.gather(*(lives(place, group, fault) for group in GROUPS))


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.LATE, Fault.REORDERED])
async def test_a_creation_without_an_answer_is_deleted_by_the_next_process(
    place: Place, fault: Fault
) -> None:
    async with opened(place) as bench:
        bench.ec2.faults = {"RunInstances": [fault]}
        driver = bench.another(READ[fault])
        seen = await outcome(driver, QuickClock(), Verb.ENSURE, ask_for(bench), NOTHING)
        assert seen.doubt is not None, "a VM may come of it"
        await bench.ec2.arrive()
        assert len(bench.live) == 1
        await reached(bench.another(), bench.request(), Verb.DELETE)
        assert bench.live == []


def ask_for(bench: AwsBench):
    async def ask() -> MachineRequest:
        return bench.request()

    return ask


async def test_a_lost_answer_is_repaired_by_the_library_alone(place: Place) -> None:
    async with opened(place, attempts="3") as bench:
        bench.ec2.faults = {"RunInstances": [Fault.LOST]}
        made = await bench.made.create(bench.request())
        assert [f"aws:///eu-west-1/{each}" for each in bench.live] == [made.provider_id]
        assert bench.ec2.counts["RunInstances"] == 2


REFUSALS = [
    ("RunInstances", "InsufficientInstanceCapacity", "We do not have capacity in eu-west-1a", 500, "ResourceExhausted"),
    ("RunInstances", "VcpuLimitExceeded", "You have requested more vCPU capacity", 400, "ResourceExhausted"),
    ("RunInstances", "InsufficientFreeAddressesInSubnet", "The subnet is full", 400, "ResourceExhausted"),
    ("RunInstances", "SpotMaxPriceTooLow", "Your Spot price is too low", 400, "ResourceExhausted"),
    ("RunInstances", "InvalidParameterValue", "The architecture 'arm64' does not match", 400, "InvalidArgument"),
    ("RunInstances", "InvalidSubnetID.NotFound", "The subnet ID does not exist", 400, "InvalidArgument"),
    ("RunInstances", "UnauthorizedOperation", "You are not authorized. Encoded authorization failure message: XYZ", 403,
     "PermissionDenied"),
    ("RunInstances", "AuthFailure", "Not authorized for images: [ami-12345678]", 403, "PermissionDenied"),
    ("RunInstances", "Unsupported", "Your requested instance type is not supported in this zone", 400, "InvalidArgument"),
    ("RunInstances", "OptInRequired", "You are not subscribed to this service", 403, "PermissionDenied"),
    ("DescribeInstances", "AuthFailure", "AWS was not able to validate the credentials", 401, "Unauthenticated"),
    ("DescribeInstances", "RequestExpired", "Request has expired.", 400, "Unauthenticated"),
    ("DescribeInstances", "ExpiredToken", "The security token is expired", 400, "Unauthenticated"),
    ("DescribeInstances", "RequestLimitExceeded", "Request limit exceeded.", 503, "Unavailable"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "name", "text", "status", "code"), REFUSALS, ids=lambda each: str(each)[:40]
)
async def test_a_refusal_of_ec2_has_a_code_and_its_words(
    place: Place, call: str, name: str, text: str, status: int, code: str
) -> None:
    async with opened(place) as bench:
        bench.ec2.errors = {call: [(name, text, status)]}
        seen = await outcome(bench.made, QuickClock(), Verb.ENSURE, ask_for(bench), NOTHING)
        assert seen.error is not None
        assert seen.error.code is Code[code]
        assert name in seen.error.message
        assert "XYZ" not in seen.error.message
        assert seen.doubt is None or code == "Unavailable"
        assert bench.live == []
