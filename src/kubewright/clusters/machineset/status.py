"""The status of a MachineSet, from what was seen and how the pass went. Pure.

Theory.      MachinesCreated says whether machines can be made, and if not, what the set waits for; Resized
             whether there are as many as wanted; MachinesReady what the machines say of themselves. Ready
             sums these up.
Invariants.  An unchanged world gives an equal status, so nothing is written. A failure that
             is over is in no condition.
Source       capi.md §7.7, §4.4, §4.5.
Called by    ``policy``.
"""

from collections.abc import Iterator

from msgspec import structs, to_builtins

from kubewright.api.cluster.conditions import (
    ERROR,
    WARNING,
    ConditionType,
    Reason,
    Source,
    aggregate,
    false_condition,
    summary,
    true_condition,
    with_conditions,
)
from kubewright.api.cluster.v1beta1 import Condition, MachineSetStatus
from kubewright.api.conditions import condition_of
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.clusters.machineset.around import Around, obstacle
from kubewright.clusters.machineset.propagation import MachineSetSeen
from kubewright.replicas.objects import INVALID
from kubewright.replicas.set.policy import Failure, counted
from kubewright.wire import selectors

READY_OF = (ConditionType.MACHINES_CREATED, ConditionType.RESIZED, ConditionType.MACHINES_READY)


def set_status(seen: MachineSetSeen, failure: Failure | None) -> MachineSetStatus:
    """The status to write; ``failure``: what kept this pass from creating or deleting machines."""
    before = seen.set.status
    counts = counted(seen, seen.members)
    found = with_conditions(
        before.conditions, _conditions(seen, failure, counts["ready_replicas"]), seen.wall
    )
    ready = summary(found, READY_OF)
    failed = failure is not None or bool(seen.problem)
    return structs.replace(
        before,
        **counts,
        selector=_selector(seen),
        observed_generation=before.observed_generation if failed else seen.set.metadata.generation,
        conditions=found if ready is None else with_conditions(found, (ready,), seen.wall),
    )


def _selector(seen: MachineSetSeen) -> str:
    if seen.problem:
        return seen.set.status.selector
    return str(selectors.from_object(to_builtins(seen.set.spec.selector)))


def _conditions(seen: MachineSetSeen, failure: Failure | None, ready: int) -> Iterator[Condition]:
    yield _created(seen, failure)
    resized = _resized(seen, ready)
    if resized is not None:
        yield resized
    sources = (Source("Machine", member.name, member.summary) for member in seen.members)
    machines = aggregate(ConditionType.MACHINES_READY, sources)
    if machines is not None:
        yield structs.replace(machines, message=machines.message[:MESSAGE_CHARS])


def _created(seen: MachineSetSeen, failure: Failure | None) -> Condition:
    """Whether machines can be made: what is wrong, or what is waited for while some are missing."""
    condition_type = ConditionType.MACHINES_CREATED
    if seen.problem:
        return false_condition(condition_type, INVALID, ERROR, seen.problem[:MESSAGE_CHARS])
    around: Around = seen.around
    found = obstacle(seen.set, around) if seen.missing > 0 or _waits(seen) else None
    if found is not None and found.reason:
        return false_condition(condition_type, found.reason, ERROR, found.message[:MESSAGE_CHARS])
    if failure is not None:
        return false_condition(
            condition_type, Reason.MACHINE_CREATION_FAILED, ERROR, failure.message[:MESSAGE_CHARS]
        )
    return true_condition(condition_type)


def _waits(seen: MachineSetSeen) -> bool:
    """Whether machines wait to be replaced."""
    return any(member.alive and member.remediate for member in seen.members)


def _resized(seen: MachineSetSeen, ready: int) -> Condition | None:
    """Whether there are as many machines as wanted; it becomes True when all of them are ready, and stays as
    it is until then."""
    wanted, has = seen.set.spec.replicas, len(seen.members)
    condition_type = ConditionType.RESIZED
    if has < wanted:
        message = f"Scaling up MachineSet to {wanted} replicas (actual {has})"
        return false_condition(condition_type, Reason.SCALING_UP, WARNING, message)
    if has > wanted:
        message = f"Scaling down MachineSet to {wanted} replicas (actual {has})"
        return false_condition(condition_type, Reason.SCALING_DOWN, WARNING, message)
    if ready == wanted:
        return true_condition(condition_type)
    if condition_of(seen.set.status.conditions, condition_type) is not None:
        return None
    message = f"Scaling up MachineSet to {wanted} replicas (ready {ready})"
    return false_condition(condition_type, Reason.SCALING_UP, WARNING, message)
