"""Decide what comes next for one CapacityReserve, and what its status says. Pure.

Theory.      A reserve has two things in the cluster of the nodes, and both follow from its spec and the pool:
             the PriorityClass comes before the Deployment that names it, and an older one goes when the
             Deployment names the new one. How many placeholders hold room the Deployment's status says. That
             fewer do than there should be is no failure: it is what they are for. It becomes one for people
             where no autoscaler can help: the unit fits into no node of the pool.
Invariants.  The finalizer stands before anything is made, and goes when nothing is left. A reserve that is
             not valid changes nothing that is there. What carries another uid is left alone. Every plan has a
             reason. Equal views give equal statuses.
Called by    ``act``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from msgspec import structs

from kubewright.api.apps import Deployment
from kubewright.api.capacity.v1alpha1 import FINALIZER, CapacityReserveStatus, ConditionType, Reason
from kubewright.api.capacity.validate import amounts
from kubewright.api.conditions import condition_of, find_true_condition, with_condition, without_condition
from kubewright.api.diff import Patch
from kubewright.api.meta import Condition
from kubewright.base.plan import Awaited, Event
from kubewright.reserves.placeholders import changes, deployment, priority_class, requested
from kubewright.reserves.seen import (
    AddFinalizer,
    ChangePlaceholders,
    CreateClass,
    CreatePlaceholders,
    DeleteClass,
    DeletePlaceholders,
    Plan,
    RemoveFinalizer,
    Seen,
    Step,
)
from kubewright.reserves.sizing import Pace, fits, paced, wanted
from kubewright.wire.quantity import written

REPLICA_FAILURE = "ReplicaFailure"
"""The condition of a Deployment whose pods are refused, by a quota or a webhook."""
WAITING = "a workload has their room until nodes are added or pods end, or they have not started yet"
"""Why most placeholders wait; those whose image cannot be pulled do not start."""


def decide(seen: Seen) -> Plan:
    """The plan for what is seen now. An equal ``Seen`` gives an equal plan."""
    meta = seen.reserve.metadata
    if meta.deleting:
        return _ended(seen)
    if seen.problem:
        mended = Awaited("a spec without mistakes", "mend what the condition Stalled names")
        return Plan(because=f"its spec is not valid: {seen.problem}", awaits=(mended,))
    if FINALIZER not in meta.finalizers:
        because = "its placeholders are to go with it"
        return Plan((AddFinalizer(),), because=because, last=True, silent=True)
    if seen.foreign:
        gone = Awaited(f"the name of {seen.foreign}", f"delete {seen.foreign}, or name the reserve otherwise")
        return Plan(because=f"{seen.foreign} belongs to another reserve", awaits=(gone,))
    return _kept(seen)


def _kept(seen: Seen) -> Plan:
    """The plan of a reserve that is to be there."""
    reserve, ours = seen.reserve, seen.ours
    size, pace = wanted(reserve.spec, seen.pool), pace_of(seen)
    steps: list[Step] = []
    if seen.priority_class not in seen.classes:
        steps.append(CreateClass(priority_class(reserve)))
    body = deployment(reserve, pace.number, seen.image)
    if ours is None:
        steps.append(CreatePlaceholders(body))
    elif not ours.metadata.deleting and (patch := changes(ours, body)):
        steps.append(ChangePlaceholders(ours.metadata, patch))
    elif _names(ours) == seen.priority_class:
        others = {name: uid for name, uid in seen.classes.items() if name != seen.priority_class}
        steps += [DeleteClass(name, uid) for name, uid in sorted(others.items())]
    held = "" if pace.number == size.number else f"; {size.number} would be enough, but not for long yet"
    return Plan(tuple(steps), pace.wake, f"{pace.number} placeholders: {size.because}{held}", pace=pace)


def _names(found: Deployment) -> object:
    return found.spec.template.spec.get("priorityClassName")


def pace_of(seen: Seen) -> Pace:
    """How many placeholders there are to be now. A change of the spec counts at once."""
    status, meta = seen.reserve.status, seen.reserve.metadata
    size = wanted(seen.reserve.spec, seen.pool)
    before = Pace(status.replicas or 0, status.lower_to, status.lower_since)
    at_once = status.observed_generation != meta.generation or seen.ours is None
    return paced(size.number, before, seen.now, at_once=at_once)


def _ended(seen: Seen) -> Plan:
    """The plan of a reserve that is being deleted."""
    if FINALIZER not in seen.reserve.metadata.finalizers:
        return Plan(because="it is being deleted, and nothing of it is left")
    steps: list[Step] = []
    if seen.ours is not None and not seen.ours.metadata.deleting:
        steps.append(DeletePlaceholders(seen.ours.metadata))
    steps += [DeleteClass(name, uid) for name, uid in sorted(seen.classes.items())]
    if steps or seen.ours is not None:
        return Plan(tuple(steps), because="it is being deleted, and its placeholders go first")
    return Plan((RemoveFinalizer(),), because="it is being deleted, and its placeholders are gone")


def status_of(seen: Seen, plan: Plan) -> CapacityReserveStatus:
    """The status, as it is to be written."""
    reserve = seen.reserve
    before, meta = reserve.status, reserve.metadata
    number = plan.pace.number if plan.pace is not None else before.replicas or 0
    ready = min(_ready(seen, plan), number)
    unit = (requested(seen.ours) if seen.ours is not None else {}) or reserve.spec.unit
    status = structs.replace(
        before,
        observed_generation=meta.generation,
        replicas=number,
        ready_replicas=ready,
        pending_replicas=number - ready,
        nodes=len(seen.pool.nodes),
        free={name: written(one * ready, like=unit[name]) for name, one in amounts(unit).items()},
        lower_to=plan.pace.lower_to if plan.pace is not None else None,
        lower_since=plan.pace.lower_since if plan.pace is not None else None,
    )
    return structs.replace(status, conditions=_conditions(seen, plan, status))


def _ready(seen: Seen, plan: Plan) -> int:
    """How many placeholders of the template run. Until the Deployment's status is about its spec, as many as
    before; none where they are all being replaced."""
    if seen.ours is None:
        return 0
    replaced = any(isinstance(each, ChangePlaceholders) and _of_pods(each.patch) for each in plan.steps)
    if replaced and not seen.refused:
        return 0
    found, generation = seen.ours.status, seen.ours.metadata.generation
    if found.observed_generation < generation:
        return seen.reserve.status.ready_replicas or 0
    return min(found.ready_replicas, found.updated_replicas)


def _of_pods(patch: Patch) -> bool:
    spec = patch.get("spec")
    return isinstance(spec, Mapping) and "template" in spec


@dataclass(frozen=True, slots=True)
class _Said:
    """A condition without its time."""

    type: ConditionType
    true: bool
    reason: Reason
    message: str


def _conditions(seen: Seen, plan: Plan, status: CapacityReserveStatus) -> tuple[Condition, ...]:
    limited = None if seen.problem else _limited(seen)
    found = seen.reserve.status.conditions
    stalled = _stalled(seen)
    ready = replace(stalled, type=ConditionType.READY, true=False) if stalled else _readiness(seen, status)
    for kind, said in (
        (ConditionType.READY, ready),
        (ConditionType.STALLED, stalled),
        (ConditionType.LIMITED, limited),
    ):
        found = without_condition(found, kind) if said is None else with_condition(found, _dated(seen, said))
    return found


def _dated(seen: Seen, said: _Said) -> Condition:
    return Condition(
        type=said.type,
        status="True" if said.true else "False",
        observed_generation=seen.reserve.metadata.generation,
        last_transition_time=seen.now.replace(microsecond=0),
        reason=said.reason,
        message=said.message,
    )


def _stalled(seen: Seen) -> _Said | None:
    """What a user has to mend."""
    if seen.problem:
        return _Said(ConditionType.STALLED, True, Reason.INVALID, seen.problem)
    if seen.foreign:
        wrong = f"{seen.foreign} belongs to another reserve; delete it, or name this one otherwise"
        return _Said(ConditionType.STALLED, True, Reason.FOREIGN, wrong)
    if seen.refused:
        return _Said(ConditionType.STALLED, True, Reason.REFUSED, seen.refused)
    return None


def _limited(seen: Seen) -> _Said | None:
    """The bound that makes the reserve smaller than it says."""
    size = wanted(seen.reserve.spec, seen.pool)
    if size.bound is None:
        return None
    told = f"{size.unbounded} placeholders are asked for: {size.because}"
    return _Said(ConditionType.LIMITED, True, size.bound, told)


def _readiness(seen: Seen, status: CapacityReserveStatus) -> _Said:
    """Whether all placeholders hold room; if not, whether more nodes would help."""
    spec, pool, number = seen.reserve.spec, seen.pool, status.replicas or 0
    none = "no Ready node has the labels of spec.nodeSelector, and no taint beside those tolerated"
    if not (number or pool.nodes or spec.percent is None):
        told = f"a share of no nodes is no placeholder: {none}"
        return _Said(ConditionType.READY, False, Reason.NO_NODES, told)
    if not status.pending_replicas:
        told = f"{number} placeholders hold room; the pool has {len(pool.nodes)} nodes"
        return _Said(ConditionType.READY, True, Reason.RESERVED, told)
    waiting = f"{status.pending_replicas} of {number} placeholders do not run"
    if failure := _failure(seen):
        return _Said(ConditionType.READY, False, Reason.REFUSED, f"{waiting}: {failure}")
    unit = amounts(spec.unit)
    larger = [name for name in sorted(unit) if unit[name] * number > pool.offers(name)]
    if not pool.nodes:
        return _Said(ConditionType.READY, False, Reason.NO_NODES, f"{waiting}: {none}")
    if not any(fits(unit, node) for node in pool.nodes):
        why = f"no node of the pool is large enough for spec.unit, even if it is empty ({_largest(seen)})"
        return _Said(ConditionType.READY, False, Reason.UNIT_TOO_LARGE, f"{waiting}: {why}")
    if larger:
        why = f"all {len(pool.nodes)} nodes of the pool together offer less {' and '.join(larger)} than that"
        return _Said(ConditionType.READY, False, Reason.LARGER_THAN_POOL, f"{waiting}: {why}")
    return _Said(ConditionType.READY, False, Reason.PENDING, f"{waiting}: {WAITING}")


def _failure(seen: Seen) -> str:
    """Why the pods of placeholders are not made, in the words of their Deployment; empty where they are."""
    conditions = seen.ours.status.conditions if seen.ours is not None else ()
    found = find_true_condition(conditions, REPLICA_FAILURE)
    return f"their pods cannot be created: {found.message}" if found is not None else ""


def _largest(seen: Seen) -> str:
    """What is the most that a node of the pool offers of each resource of the unit."""
    unit = seen.reserve.spec.unit
    nodes, none = seen.pool.nodes, Decimal(0)
    most = {name: max((node.get(name, none) for node in nodes), default=none) for name in sorted(unit)}
    return ", ".join(f"{name}: at most {written(most[name], like=unit[name])}" for name in most)


def events(before: CapacityReserveStatus, after: CapacityReserveStatus) -> list[Event]:
    """What users are told of the difference between two statuses. That placeholders wait is news where they
    had room: new ones always wait at first."""
    told = []
    resized = (before.replicas or 0) != (after.replicas or 0)
    if resized and after.replicas:
        count = f"{before.replicas} placeholders become {after.replicas}"
        told.append(Event(Reason.RESIZED, count if before.replicas else f"{after.replicas} placeholders"))
    for kind, good in ((ConditionType.READY, "True"), (ConditionType.LIMITED, "")):
        old, new = (condition_of(each.conditions, kind) for each in (before, after))
        if new is not None and (old is None or (old.status, old.reason) != (new.status, new.reason)):
            waits = new.reason == Reason.PENDING
            if not waits or (not resized and old is not None and old.status == "True"):
                told.append(Event(new.reason, new.message, warning=new.status != good and not waits))
    return told
