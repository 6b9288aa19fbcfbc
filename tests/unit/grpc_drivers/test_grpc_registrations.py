"""Which drivers are let in, and which are told why not. On virtual time."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from kubewright.providers.grpc.connection import REGISTER_SECONDS, Why
from kubewright.providers.grpc.dispatch import MOST_DRIVERS
from kubewright.providers.grpc.messages import (
    MESSAGE_BYTES,
    Created,
    DriverSide,
    Listed,
    Registration,
    encode,
)
from kubewright.testing.scenes import class_request

from .pipes import ByHand, Manager, Pipe

KIND = ("machine.sapcloud.io", "MachineClass", "v1alpha1")
OF_2018 = Registration("externalDriver", *KIND)
CLASS = class_request("small", provider="")
VM = Created(provider_id="aws:///eu/i-1", node_name="n1")


@pytest.fixture
async def manager() -> AsyncIterator[Manager]:
    found = Manager()
    yield found
    await found.close()


async def dialled(manager: Manager, registration: Registration = OF_2018) -> ByHand:
    driver = ByHand(registration)
    await manager.dialled(driver)
    return driver


async def test_a_second_driver_for_a_kind_is_refused_while_the_first_lives(manager: Manager) -> None:
    first = await dialled(manager)
    await dialled(manager)
    assert [each.why for each in manager.refusals] == [Why.TAKEN]
    call = asyncio.create_task(manager.driver.list(CLASS))
    await first.say(await first.asked.get(), Listed())
    assert await call == []


async def test_a_driver_is_let_in_when_the_one_before_is_dead(manager: Manager) -> None:
    first = await dialled(manager)
    first.stream.cut()
    await asyncio.sleep(0.01)
    await dialled(manager)
    assert not manager.refusals


async def test_the_api_version_of_a_driver_of_the_core_group_is_its_version_alone(manager: Manager) -> None:
    await dialled(manager, Registration("externalDriver", "", "AWSMachineClass", "v1"))
    await dialled(manager, Registration("externalDriver", "", "AWSMachineClass", "v1"))
    assert "serves kind AWSMachineClass of v1 already" in manager.refusals[0].message


# ---------------------------------------------------------------- two drivers for one kind


@pytest.mark.parametrize(
    ("second", "refused"),
    [
        (("externalDriver", "machine.sapcloud.io", "AWSMachineClass", "v1alpha1"), True),
        (("externalDriver", "other", "AWSMachineClass", "v1"), True),
        (("externalDriver", "machine.sapcloud.io", "awsmachineclass", "v1alpha1"), True),
        (("externalDriver", "machine.sapcloud.io", "AWS", "v1alpha1"), True),
        (("externalDriver", "machine.sapcloud.io", "GCPMachineClass", "v1alpha1"), False),
        (("aws", "machine.sapcloud.io", "MachineClass", "v1alpha1"), False),
    ],
)
async def test_no_driver_is_let_in_that_no_class_would_reach(
    manager: Manager, second: tuple[str, str, str, str], refused: bool
) -> None:
    """A class names a kind and no version of it, without regard to case."""
    first = await dialled(
        manager, Registration("externalDriver", "machine.sapcloud.io", "AWSMachineClass", "v1alpha1")
    )
    await dialled(manager, Registration(*second))
    assert [each.why for each in manager.refusals] == [Why.TAKEN] * refused
    call = asyncio.create_task(manager.driver.list(class_request("small", provider="AWS")))
    await first.say(await first.asked.get(), Listed())
    assert await call == []


async def test_a_driver_under_the_name_of_one_that_runs_in_the_manager_is_refused_and_that_is_told() -> None:
    manager = Manager(beside=["sim"])
    with capture_logs() as told:
        for _ in range(3):
            await dialled(manager, Registration("sim", *KIND))
        await dialled(manager, Registration("elsewhere", *KIND))
    assert [each.why for each in manager.refusals] == [Why.TAKEN] * 3
    assert "driver 'sim' runs in the manager itself" in manager.refusals[0].message
    warnings = [(each["event"], each["reason"]) for each in told if each["log_level"] == "warning"]
    assert warnings == [("a driver is not let in", manager.refusals[0].message)], "it dials again and again"
    assert (
        manager.driver.provider_of(class_request("small", provider="elsewhere").machine_class) == "elsewhere"
    )
    await manager.close()


# ---------------------------------------------------------------- a first message that is none


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (DriverSide(1, "register", None), "no registerResp"),
        (DriverSide(1, "register", VM), "no registerResp"),
        (DriverSide(1, "register", Registration()), "no kind"),
        (DriverSide(1, "register", Registration("x" * 300, kind="K")), "too long"),
        (DriverSide(1, "register", Registration("a\nb", kind="K")), "not printable"),
        (DriverSide(1, "register", Registration(kind="K", in_flight=-1)), "inFlight"),
        (DriverSide(1, "register", Registration(kind="K", operations=("o",) * 65)), "65 operations"),
        (
            DriverSide(1, "register", Registration("x", "other", "MachineClass", "v1")),
            "is of machine.sapcloud.io",
        ),
        (b"\xff\xff\xff", "cannot be read"),
        (b"\x0a" * (MESSAGE_BYTES + 1), "the most is"),
    ],
)
async def test_a_registration_that_is_none_is_refused_with_its_reason(
    manager: Manager, first: DriverSide | bytes, why: str
) -> None:
    async def lying(stream: Pipe) -> None:
        await stream.read()
        await stream.write(first if isinstance(first, bytes) else encode(first))
        await stream.read()

    await manager.dialled(lying)
    assert why in manager.refusals[0].message


async def test_a_driver_that_never_registers_is_sent_away(manager: Manager) -> None:
    async def silent(stream: Pipe) -> None:
        await stream.read()
        await stream.read()

    await manager.dialled(silent)
    await asyncio.sleep(REGISTER_SECONDS)
    assert [each.why for each in manager.refusals] == [Why.HUNG]


async def test_more_drivers_than_a_manager_takes_are_sent_away_and_the_others_go_on(manager: Manager) -> None:
    first = await dialled(manager)
    for number in range(MOST_DRIVERS):
        await dialled(manager, Registration(f"driver-{number}", *KIND))
    assert [each.why for each in manager.refusals] == [Why.FULL]
    call = asyncio.create_task(manager.driver.list(CLASS))
    await first.say(await first.asked.get(), Listed())
    assert await call == []
    await first.stream.write(encode(DriverSide(operation_type="unregister")))
    await asyncio.sleep(0.01)
    await dialled(manager)
    assert len(manager.refusals) == 1, "there is room again"


async def test_which_driver_makes_a_vm_and_whether_it_is_connected_is_told(manager: Manager) -> None:
    aws = await dialled(
        manager, Registration("externalDriver", "machine.sapcloud.io", "AWSMachineClass", "v1")
    )
    calls = [asyncio.create_task(manager.driver.list(class_request(each, provider="aws"))) for each in "ab"]
    await aws.asked.get()
    told = "in another process and connected: it works on 1 operations, and 1 wait"
    assert manager.driver.reached("AWSMachineClass") == f"AWSMachineClass, {told}"
    aws.stream.cut()
    await asyncio.wait(calls)
    assert manager.driver.reached("aws").startswith("provider 'aws', and no driver for it is connected")
    for each in calls:
        assert each.exception() is not None
