"""Drivers that dial in, in the simulator: streams end at any time, and bugs of the dispatch are caught.

A third bug, "late answer forgotten", breaks none of these rules: the cloud answers a second creation under a
name with the first VM. It is caught at the port, in ``tests/unit/grpc_drivers/test_grpc_faults.py``.
"""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from kubewright.providers.grpc import dispatch
from kubewright.providers.grpc.messages import DriverSide
from kubewright.providers.grpc.operations import Operation, Operations
from simulation.dialled import CUTS, Drivers
from simulation.run import simulate
from simulation.search import plot_of
from simulation.stories import BY_NAME

Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("story", ["create", "delete-while-creating", "heal", "roll"])
def test_no_stream_that_ends_costs_a_vm_or_a_machine(story: str, seed: int) -> None:
    drivers: list[Drivers] = []
    _, plot = plot_of(seed, (BY_NAME[story],))
    outcome = simulate(BY_NAME[story], plot, prepare=lambda world: drivers.append(Drivers(world)))
    assert not outcome.violations
    assert drivers[0].cuts == CUTS
    assert drivers[0].refused


def waiter_after_send(patch: Patch) -> None:
    """An operation waits for its answer only after its message has gone: what comes within a
    tenth of a second is lost."""
    answered = Operations.answered

    def late(self: Operations, message: DriverSide, now: float) -> Operation | None:
        asked = next((each for each in self if each.id == message.operation_id), None)
        early = asked is not None and now - asked.since < 0.1
        return answered(self, replace(message, operation_id=-1) if early else message, now)

    patch.setattr(Operations, "answered", late)


def two_drivers_for_one_kind(patch: Patch) -> None:
    """Who registers last has the classes."""
    registered = dispatch.registered

    async def anybody(stream: Any, clock: Any, _accept: Any) -> Any:
        return await registered(stream, clock, lambda _given: None)

    patch.setattr(dispatch, "registered", anybody)


@pytest.mark.parametrize(
    ("bug", "rule", "story", "seed"),
    [
        (waiter_after_send, "Late", "create", 2),
        (two_drivers_for_one_kind, "the_finalizer_goes_last", "delete", 2),
    ],
)
def test_the_bug_is_caught(
    bug: Callable[[Patch], None], rule: str, story: str, seed: int, monkeypatch: Patch
) -> None:
    bug(monkeypatch)
    told, plot = plot_of(seed, (BY_NAME[story],))
    outcome = simulate(told, plot, prepare=lambda world: world.add(Drivers(world)), until=rule)
    assert rule in {each.partition(":")[0] for each in outcome.violations}
