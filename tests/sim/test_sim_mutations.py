"""A simulator that catches nothing is broken: a dozen deliberate bugs, each found within 200 seeds.

By default the search begins at a seed near the one that is known to catch the bug; ``SIM=all`` begins at 0.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace as with_fields

from kubewright.driver.contract import Driver, Instance, MachineRequest
from kubewright.kube.cache import Cache
from kubewright.machines.machine import creation, decide, deletion
from kubewright.machines.machine.look import Looker
from kubewright.machines.machine.observe import Seen
from kubewright.machines.machine.steps import Call, Plan, Verb
from kubewright.machines.machineset import decide as set_decide
from kubewright.machines.machineset import reconciler as set_reconciler
from kubewright.machines.machineset.making import Making
from kubewright.runtime.leader import Elector
from kubewright.testing.simulation.run import Outcome, simulate
from kubewright.testing.simulation.search import plot_of
from kubewright.testing.simulation.stories import BY_NAME, Story
from kubewright.testing.simulation.world import World

Patch = pytest.MonkeyPatch
SEEDS = 200
ALL = os.environ.get("SIM") == "all"
pytestmark = pytest.mark.timeout(600)


class _Forgetful:
    """A driver that gives every VM a name of its own, and so never finds one again."""

    def __init__(self, driver: Driver) -> None:
        self._driver, self._numbers = driver, count()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    async def create(self, request: MachineRequest) -> Instance:
        return await self._driver.create(replace(request, name=f"{request.name}-{next(self._numbers)}"))


def _creation_without_idempotency_key(world: World) -> None:
    world.driver = _Forgetful(world.driver)


def _without(patch: Patch, *phases: Callable[..., Any]) -> None:
    left = tuple(phase for phase in deletion.DELETING if phase not in phases)
    patch.setattr(decide, "DELETING", left)


def _finalizer_dropped_early(patch: Patch) -> None:
    _without(patch, deletion.delete_vm)


def _drain_skipped(patch: Patch) -> None:
    _without(patch, deletion.drain)


def _node_forgotten(patch: Patch) -> None:
    _without(patch, deletion.delete_node)


def _no_doubt(patch: Patch) -> None:
    """A creation whose answer was lost counts as one that never was."""
    _without(patch, deletion.settle_creation)
    patch.setattr(Looker, "_doubt_until", lambda *_: None)
    patch.setattr(deletion, "_doubtful", lambda *_: None)


def _random_names(patch: Patch) -> None:
    numbers = count()

    def names(of: Any, _seen: Any, _taken: Any, number: int) -> tuple[str, ...]:
        return tuple(f"{of.name}-{next(numbers):05d}" for _ in range(number))

    patch.setattr(set_decide, "new_names", names)


def _expectations_removed(patch: Patch) -> None:
    """Names are not derived from what was seen, and nobody remembers what was asked for."""
    _random_names(patch)
    made = Making.one

    async def one(self: Making, name: str) -> Any:
        error = await made(self, name)
        self.memory.doubts.clear()
        return error

    patch.setattr(Making, "one", one)


def _stale_read_trusted(patch: Patch) -> None:
    """A set believes a cache that does not show its own writes yet."""
    _random_names(patch)
    patch.setattr(Cache, "wrote", lambda *_: None)


def _unwell_is_dead(patch: Patch) -> None:
    """The VM of a machine whose node is unwell is deleted, and the machine stays."""

    def impatient(seen: Seen, _now: datetime) -> Plan | None:
        gone = seen.node is not None and not seen.health.healthy and seen.phase == "Unknown"
        return Plan((Call(Verb.DELETE),), wake=timedelta(1)) if gone and not seen.vm.deleted else None

    patch.setattr(decide, "LIVING", (impatient, *decide.LIVING))


def _counts_ghosts(patch: Patch) -> None:
    """A set's status counts one machine more than there is."""
    true = set_reconciler.set_status

    def ghost(seen: Any, failure: Any) -> Any:
        status = true(seen, failure)
        return with_fields(status, replicas=status.replicas + 1) if status.replicas else status

    patch.setattr(set_reconciler, "set_status", ghost)


def _scales_down_the_living(patch: Patch) -> None:
    """Of machines that are too many, the best die first."""
    true = set_decide.in_line
    patch.setattr(set_decide, "in_line", lambda *args: list(reversed(true(*args))))


def _vm_never_recorded_after_failure(patch: Patch) -> None:
    """What was found out about the VM is never written down."""
    patch.setattr(decide, "LIVING", tuple(p for p in decide.LIVING if p is not creation.record_vm))


def _fence_removed(patch: Patch) -> None:
    """A leader that slept goes on writing until somebody tells it."""
    patch.setattr(Elector, "entitled", True)


@dataclass(frozen=True)
class Mutation:
    name: str
    rules: Sequence[str]
    patch: Callable[[Patch], None] = lambda _patch: None
    prepare: Callable[[World], None] = lambda _world: None
    stories: Sequence[str] = ()
    near: int = 0


MUTATIONS = (
    Mutation(
        "creation without idempotency key",
        ("one_vm_for_a_machine", "no_vm_without_a_machine", "the_finalizer_goes_last", "Late"),
        prepare=_creation_without_idempotency_key,
    ),
    Mutation("finalizer dropped early", ("the_finalizer_goes_last",), _finalizer_dropped_early),
    Mutation("drain skipped", ("a_drained_vm",), _drain_skipped, stories=("delete-while-draining",)),
    Mutation("node forgotten", ("Late",), _node_forgotten),
    Mutation(
        "a lost answer is taken for a no",
        ("no_vm_without_a_machine", "the_finalizer_goes_last"),
        _no_doubt,
        stories=("delete-while-creating",),
        near=125,
    ),
    Mutation("expectations removed", ("not_too_many",), _expectations_removed, near=9),
    Mutation("stale read trusted", ("not_too_many",), _stale_read_trusted, near=9),
    Mutation(
        "an unwell machine's VM is deleted", ("a_living_machine_keeps_its_vm",), _unwell_is_dead, near=16
    ),
    Mutation("status counts ghosts", ("a_true_count",), _counts_ghosts),
    Mutation(
        "the best machines die first", ("not_too_few",), _scales_down_the_living, stories=("roll-twice",)
    ),
    Mutation(
        "the fence removed", ("fencing",), _fence_removed, stories=("heal", "delete-while-draining"), near=29
    ),
    Mutation("the VM is never recorded", ("Late",), _vm_never_recorded_after_failure),
)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_mutation_is_caught(mutation: Mutation, monkeypatch: Patch) -> None:
    mutation.patch(monkeypatch)
    stories: tuple[Story, ...] = tuple(BY_NAME[name] for name in mutation.stories or BY_NAME)
    found: set[str] = set()
    near = 0 if ALL else mutation.near
    for seed in [*range(near, SEEDS), *range(near)]:
        outcome: Outcome = simulate(*plot_of(seed, stories), prepare=mutation.prepare)
        found |= {violation.partition(":")[0] for violation in outcome.violations}
        if found & set(mutation.rules):
            return
    pytest.fail(f"not caught within {SEEDS} seeds; found only {sorted(found)}")
