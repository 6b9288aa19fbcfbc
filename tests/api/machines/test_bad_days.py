"""Every bad day of the simulated cloud: what the machine says, and that the world ends clean."""

from dataclasses import dataclass

import pytest

from kubewright.api.machine.names import Phase
from kubewright.providers.sim.names import BEHAVIOURS
from kubewright.testing.world import World, embedded_world

from .conftest import in_phase, options, seconds


@dataclass(frozen=True)
class Day:
    """``phase`` and ``says`` of the first machine that shows it; ``code`` its error code; ``warning`` the event."""

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
    "hang": Day(Phase.FAILED, "failed to join the cluster in 2m0s minutes.", warning="MachineFailed"),
    "partial": Day(Phase.CRASH_LOOP_BACK_OFF, "Initialize VM Instance", "Uninitialized", "FailedCreateVM"),
    "flaky": JOINED,
    "stuck": JOINED,
    "lostdelete": JOINED,
    "slowboot": Day(Phase.PENDING, "VM created on cloud provider. Waiting for node registration"),
    "neverjoin": Day(Phase.FAILED, "failed to join the cluster in 2m0s minutes.", warning="MachineFailed"),
    "dies": SICK,
    "silent": SICK,
    "diskpressure": SICK,
    "readonly": SICK,
    "notready": SICK,
}


def test_every_bad_day_is_here() -> None:
    assert DAYS.keys() == BEHAVIOURS.keys()


@pytest.mark.parametrize("name", DAYS)
async def test_a_bad_day(name: str) -> None:
    day = DAYS[name]
    async with embedded_world(options(creation_timeout=seconds(120))) as world:
        await world.make(f"{name}-1")
        sight = await world.until(in_phase(day.phase), f"{day.phase}", seconds=150, every=0.5)
        operation = sight.machines[0].status.last_operation
        assert day.says in operation.description
        assert operation.error_code == day.code
        if day.warning:
            await world.clock.sleep(2)
            assert day.warning in await world.warnings()
        await world.unmake(f"{name}-1")
        await gone(world)


@pytest.mark.parametrize("name", ["throttle", "lost", "partial", "slowboot", "flaky"])
async def test_a_bad_day_that_ends_well(name: str) -> None:
    async with embedded_world(options(creation_timeout=seconds(300))) as world:
        await world.make(f"{name}-1")
        await world.settled(1, seconds=280)
        await world.unmake(f"{name}-1")
        await gone(world)


async def gone(world: World) -> None:
    await world.until(lambda s: not s.machines, "the machine is gone", seconds=400, every=0.5)
    assert await world.left() == []
