"""What a deployment says about its rollout (DEP-13), whatever was edited in which order."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import MACHINE_DEPLOYMENT, Machine, MachineDeployment
from kubewright.kube.cache import Change
from kubewright.testing.faults import FORBIDDEN, Fault
from kubewright.wire.http import Request

if TYPE_CHECKING:
    from tests.api.machines_sets.conftest import World
else:
    World = Any

COMPLETE, LATE = "NewMachineSetAvailable", "ProgressDeadlineExceeded"
DEADLINE = 10


class Words:
    """Every word about progress that was ever written, without repetitions."""

    def __init__(self, world: World) -> None:
        self.said: list[tuple[str, str]] = []
        world.observer.get(MACHINE_DEPLOYMENT).subscribe(self._noted)

    def _noted(self, change: Change[MachineDeployment]) -> None:
        before, after = change.before(), change.after()
        if before is None or after is None or before.status == after.status:
            return  # people's words, not the controller's
        words = [(c.status, c.reason) for c in after.status.conditions if c.type == "Progressing"]
        if words and words != self.said[-1:]:
            self.said += words

    @property
    def reasons(self) -> list[str]:
        return [reason for _, reason in self.said]


async def progress(world: World) -> tuple[str, str, str]:
    found = await world.deployment()
    return next((c.status, c.reason, c.message) for c in found.status.conditions if c.type == "Progressing")


async def pool(world: World, **spec: Any) -> None:
    await world.deploy(replicas=2, progressDeadlineSeconds=DEADLINE, **spec)
    await world.settle(2)
    assert (await progress(world))[1] == COMPLETE


def no_machine_of(*classes: str) -> Any:
    """Machines of these classes never run."""

    def stuck(machine: Machine) -> bool:
        return machine.spec.machine_class.name in classes

    return stuck


async def test_a_first_rollout_is_reported_from_the_first_word_to_the_last(world: World) -> None:
    words = Words(world)
    await pool(world)
    assert words.reasons == ["NewMachineSetCreated", COMPLETE]


@pytest.mark.parametrize("kind", ["Recreate", "RollingUpdate"])
async def test_a_roll_is_reported_from_the_first_word_to_the_last(world: World, kind: str) -> None:
    await pool(world, kind=kind)
    words = Words(world)
    await world.roll("large")
    await world.settle(2, "large")
    assert words.reasons[0] != COMPLETE
    assert words.reasons[-1] == COMPLETE
    assert COMPLETE not in words.reasons[:-1]
    assert "NewMachineSetCreated" in words.reasons


@pytest.mark.parametrize("kind", ["Recreate", "RollingUpdate"])
async def test_a_stuck_roll_runs_out_of_time(world: World, kind: str) -> None:
    world.machines.stuck = no_machine_of("missing")
    await pool(world, kind=kind)
    words = Words(world)
    await world.roll("missing")
    await world.clock.sleep(2 * DEADLINE)
    status, reason, message = await progress(world)
    assert (status, reason) == ("False", LATE)
    newest = (await world.sets())[-1]
    assert message == f'MachineSet "{newest.name}" has timed out progressing.'
    assert COMPLETE not in words.reasons


@pytest.mark.parametrize(
    "edits",
    [
        pytest.param([{"minReadySeconds": 1}, "missing"], id="another minReadySeconds, then the class"),
        pytest.param(["missing", {"minReadySeconds": 1}], id="the class, then another minReadySeconds"),
        pytest.param(["large", "missing"], id="two classes"),
        pytest.param(["missing", "small", "missing"], id="there and back and there"),
        pytest.param([{"replicas": 3}, "missing"], id="another size, then the class"),
        pytest.param([{"paused": True}, "missing", {"paused": False}], id="the class while it is paused"),
    ],
)
@pytest.mark.parametrize("pause", [0.0, 0.1, 0.7])
async def test_whatever_is_edited_when_a_stuck_roll_runs_out_of_time(
    world: World, edits: list[Any], pause: float
) -> None:
    world.machines.stuck = no_machine_of("missing")
    await pool(world)
    for edit in edits:
        await (world.roll(edit) if isinstance(edit, str) else world.change(edit))
        await world.clock.sleep(pause)
    await world.clock.sleep(3 * DEADLINE)
    assert (await progress(world))[:2] == ("False", LATE)


async def test_a_controller_that_begins_anew_still_sees_that_time_is_over(world: World) -> None:
    world.machines.stuck = no_machine_of("missing")
    await pool(world)
    await world.roll("missing")
    for _ in range(4):
        await world.clock.sleep(DEADLINE / 2)
        await world.restart()
    await world.clock.sleep(2)
    assert (await progress(world))[:2] == ("False", LATE)


async def test_machines_that_fail_and_are_replaced_are_no_progress(world: World) -> None:
    """Else a class that makes nothing but failures would be given time for ever."""
    world.machines.stuck = no_machine_of("missing")
    await pool(world)
    await world.roll("missing")
    for _ in range(8):
        await world.clock.sleep(DEADLINE / 2)
        for machine in world.all():
            if machine.spec.machine_class.name == "missing":
                await world.machines.phase(machine, Phase.FAILED)
    assert (await progress(world))[:2] == ("False", LATE)


async def test_a_roll_that_was_late_and_ends_after_all_says_so(world: World) -> None:
    world.machines.stuck = no_machine_of("missing")
    await pool(world)
    await world.roll("missing")
    await world.clock.sleep(2 * DEADLINE)
    await world.roll("large")
    await world.settle(2, "large")
    assert (await progress(world))[:2] == ("True", COMPLETE)


async def test_scaling_is_no_rollout(world: World) -> None:
    """The autoscaler takes machines away only while the last rollout is over, also from a pool that does
    not get the machines it asked for."""
    await pool(world)
    world.machines.stuck = no_machine_of("small")
    words = Words(world)
    await world.change({"replicas": 4})
    await world.clock.sleep(3 * DEADLINE)
    assert set(words.reasons) == {COMPLETE}


async def test_a_set_that_cannot_be_made_is_reported_and_runs_out_of_time(world: World) -> None:
    await pool(world)
    world.transport.choose = Refusing("machinesets", "POST")
    await world.roll("large")
    await world.clock.sleep(DEADLINE / 2)
    assert (await progress(world))[:2] == ("False", "MachineSetCreateError")
    await world.clock.sleep(DEADLINE)
    status, reason, message = await progress(world)
    assert (status, reason) == ("False", LATE)
    assert "Failed to create new machine set" in message
    world.transport.choose = Refusing("nothing", "POST")
    await world.settle(2, "large")
    assert (await progress(world))[:2] == ("True", COMPLETE)


async def test_a_roll_whose_sets_cannot_be_changed_is_not_called_complete(world: World) -> None:
    await pool(world)
    world.transport.choose = Refusing("machinesets", "PATCH")
    await world.roll("large")
    await world.clock.sleep(3 * DEADLINE)
    assert (await progress(world))[:2] == ("False", LATE)


@dataclass
class Refusing:
    """A webhook forbids to write objects of one kind."""

    of: str
    method: str

    def __call__(self, request: Request) -> Fault | None:
        mine = f"/{self.of}" in request.path and not request.path.endswith("/status")
        return FORBIDDEN if mine and request.method == self.method else None
