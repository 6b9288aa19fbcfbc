"""Every bad day of the simulated cloud: what the machine says, and that the world ends clean."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass

from kubewright.api.core import EVENT
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import Machine
from kubewright.providers.sim.cloud import BEHAVIOURS
from kubewright.testing.world import World, embedded_world, in_phase, short_timeouts


@dataclass(frozen=True)
class Day:
    """The phase that shows it, what the machine says then, its error code, and the event."""

    phase: Phase
    says: str
    code: str = ""
    warning: str = ""


def refused(code: str) -> Day:
    says = f"Cloud provider message - machine codes error: code = [{code}]"
    return Day(Phase.CRASH_LOOP_BACK_OFF, says, code, "FailedCreateVM")


JOINED = Day(Phase.RUNNING, "successfully joined the cluster in ")
SICK = Day(Phase.UNKNOWN, "changing MachinePhase to Unknown. Node conditions: ", warning="MachineUnknown")
DAYS = {
    "quota": refused("ResourceExhausted"),
    "capacity": refused("ResourceExhausted"),
    "denied": refused("PermissionDenied"),
    "invalid": refused("InvalidArgument"),
    "throttle": refused("Unavailable"),
    "lost": refused("Unavailable"),
    "hang": Day(
        Phase.FAILED,
        "was not created in 2m0s: the driver has not answered since ",
        "DeadlineExceeded",
        "MachineFailed",
    ),
    "partial": Day(Phase.CRASH_LOOP_BACK_OFF, "Initialize VM Instance", "Uninitialized", "FailedCreateVM"),
    "flaky": JOINED,
    "stuck": JOINED,
    "lostdelete": JOINED,
    "halfdone": JOINED,
    "slowboot": Day(Phase.PENDING, "VM created on cloud provider. Waiting for node registration"),
    "neverjoin": Day(Phase.FAILED, "failed to join the cluster in 2m0s.", warning="MachineFailed"),
    "dies": SICK,
    "silent": SICK,
    "diskpressure": SICK,
    "readonly": SICK,
    "notready": SICK,
}


def test_every_bad_day_is_here() -> None:
    assert DAYS.keys() == BEHAVIOURS.keys()


Shown = dict[str, list[Machine]]


async def watched(world: World, seconds: float) -> Shown:
    """Every state that was seen of every machine, by the first word of its name."""
    shown: Shown = defaultdict(list)
    for _ in range(int(seconds * 2)):
        for machine in (await world.look()).machines:
            seen = shown[machine.metadata.name.partition("-")[0]]
            if not seen or seen[-1].status != machine.status:
                seen.append(machine)
        await world.clock.sleep(0.5)
    return shown


def shows(day: Day, machine: Machine) -> bool:
    status = machine.status
    return (status.current_status.phase, status.last_operation.error_code) == (day.phase, day.code) and (
        day.says in status.last_operation.description
    )


async def test_every_bad_day_shows_as_it_should_and_ends_clean() -> None:
    async with embedded_world(short_timeouts(creation_timeout=120)) as world:
        for name in DAYS:
            await world.make(f"{name}-1")
        shown = await watched(world, seconds=130)
        assert [name for name, day in DAYS.items() if not any(shows(day, m) for m in shown[name])] == []
        events = await world.client.list(EVENT, world.namespace)
        told = {(e.involved_object.name, e.reason) for e in events if e.type == "Warning"}
        assert {(f"{name}-1", day.warning) for name, day in DAYS.items() if day.warning} <= told
        for name in DAYS:
            await world.unmake(f"{name}-1")
        await gone(world)


async def test_a_creation_that_hangs_says_so_within_seconds() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.make("hang-1")
        sight = await world.until(in_phase(Phase.PENDING), "it says that it is being made", seconds=5)
        operation = sight.machines[0].status.last_operation
        assert (operation.type, operation.state) == ("Create", "Processing")
        assert operation.description.startswith(
            "Creating machine on cloud provider. The driver has not answered since 2"
        )
        await world.unmake("hang-1")


async def test_bad_days_that_pass_end_well() -> None:
    days = ["throttle", "lost", "partial", "slowboot", "flaky", "stuck", "lostdelete"]
    async with embedded_world(short_timeouts(creation_timeout=300)) as world:
        for name in days:
            await world.make(f"{name}-1")
        await world.settled(len(days), seconds=280)
        for name in days:
            await world.unmake(f"{name}-1")
        await gone(world)


async def test_whatever_its_cloud_does_an_early_deletion_leaves_nothing() -> None:
    async with embedded_world(short_timeouts()) as world:
        for name in DAYS:
            await world.make(f"{name}-1")
        await world.clock.sleep(0.2)
        for name in DAYS:
            await world.unmake(f"{name}-1")
        await gone(world)
        await world.clock.sleep(30)
        assert await world.left() == []


async def test_a_machine_can_be_deleted_at_any_moment_of_its_creation() -> None:
    async with embedded_world(short_timeouts()) as world:

        async def come_and_go(number: int) -> None:
            await world.make(f"m{number}")
            await world.clock.sleep(0.02 * number)
            await world.unmake(f"m{number}")

        async with asyncio.TaskGroup() as group:
            for number in range(40):
                group.create_task(come_and_go(number))
        await gone(world)
        await world.clock.sleep(30)
        assert await world.left() == []


async def gone(world: World) -> None:
    await world.until(lambda s: not s.machines, "the machines are gone", seconds=400, every=0.5)
    assert await world.left() == []
