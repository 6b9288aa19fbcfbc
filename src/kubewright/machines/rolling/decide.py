"""Decide which nodes of a deployment are marked while it rolls out. Pure.

Theory.      A rollout *goes on* while an old set, which is not being deleted itself, has machines (also
             deleting ones) or wants some. It is *over* when no old set does and enough new machines are
             available. Between the two it only waits for new machines to become available. While it goes on,
             the nodes of all sets have the annotation that stops cluster-autoscaler from removing them; it
             is removed when the rollout is over. With RollingUpdate and InPlaceUpdate old nodes have a taint
             that makes the scheduler prefer others; with Recreate there are no others. A tainted node whose
             set is the current one, after a rollback, loses the taint at once. MCM marks nodes once, when a
             rollout begins; here each pass compares the marks with what they should be, so a node that joins
             in the middle is marked too. The steps stand in the order in which they are written: a set is
             annotated before its nodes are tainted, and loses the annotation after they have lost the taint,
             so that MCM, if it takes over in between, removes the taints.
Invariants.  Cluster-autoscaler's annotation is removed only where a second one says that Kubewright or MCM
             wrote it (``by-mcm``), so a value that a user set is neither replaced nor removed. On the node of
             a preserved machine the preservation owns both, and removes them. While a deployment is paused,
             invalid or has no current set yet, nothing is changed.
Source       mcm.md §7.4, §7.6, §7.8; the bug of "scaled to zero" is not copied.
Called by    ``reconciler``.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import MachineSet
from kubewright.base.plan import AT_ONCE, Plan, in_seconds, soonest
from kubewright.machines.machineset.member import MachineMember
from kubewright.machines.rolling.seen import Nodes, RollingSeen
from kubewright.machines.rolling.steps import ClearMoved, LabelNode, MarkNode, MarkSet, Move, Step, UpdateStep
from kubewright.machines.rolling.updating import progress, updates_in_place
from kubewright.replicas.member import until_available
from kubewright.rollout.planner import Recreate

BURST = 250
"""Nodes that are marked in one pass; the next pass follows at once."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """How far a rollout is, as far as marks depend on it.

    ``goes_on``      an old set has machines, or wants some
    ``over``         it is over, and nodes have our annotation still; without such nodes that is not asked,
                     for the answer reads every member
    ``spare_nodes``  cluster-autoscaler is to remove no node of it
    """

    goes_on: bool
    over: bool
    spare_nodes: bool


def decide(seen: RollingSeen, nodes: Nodes, *, spare_nodes: bool) -> Plan[Step]:
    """The plan for one pass; ``spare_nodes``: whether the operator wants cluster-autoscaler kept away."""
    if seen.deleting or seen.problem or seen.current is None or seen.written.spec.paused:
        return Plan()
    goes_on = _goes_on(seen)
    rollout = Rollout(goes_on, bool(nodes.ours) and not goes_on and _over(seen), spare_nodes)
    wanted = list(_marks(seen, nodes, rollout))
    updates, sets = updates_in_place(seen, nodes), list(_sets(seen))
    to_annotate = [each for each in sets if each.tainted]
    to_clear = [each for each in sets if not each.tainted and len(wanted) <= BURST]
    steps: tuple[Step, ...] = (*to_annotate, *wanted[:BURST], *updates[:BURST], *to_clear)
    how_far = progress(seen, nodes)
    waits = bool(how_far) or (bool(nodes.ours) and not (goes_on or rollout.over))
    later: Plan[Step] = _until_available(seen, how_far) if waits else Plan()
    if not steps:
        return later
    marked = f"{_stage(seen, rollout)}, nodes to mark: {len(wanted)}" if wanted else ""
    noted = "; ".join(
        f"sets {what}: {len(some)}"
        for what, some in (("to annotate", to_annotate), ("whose annotation goes", to_clear))
        if some
    )
    because = "; ".join(filter(None, (marked, noted, _in_numbers(updates), how_far)))
    return Plan(steps, AT_ONCE if max(len(wanted), len(updates)) > BURST else later.wake, because)


def _stage(seen: RollingSeen, rollout: Rollout) -> str:
    """How far the rollout is, in a clause."""
    if rollout.goes_on:
        return "it rolls out"
    return "its rollout is over" if rollout.over or _over(seen) else "its new machines become available"


def _in_numbers(updates: Sequence[UpdateStep]) -> str:
    """What the steps of an update in place are, in numbers."""
    found = Counter(
        step.mark.value if isinstance(step, LabelNode) else _OF_MACHINES[type(step)] for step in updates
    )
    return ", ".join(f"{what}: {number}" for what, number in found.items())


_OF_MACHINES: Mapping[type[UpdateStep], str] = {
    Move: "machines that move to the current set",
    ClearMoved: "moved machines that the set's size counts",
}


def _until_available(seen: RollingSeen, how_far: str) -> Plan[Step]:
    """Look again when a new machine has been ready for minReadySeconds: no change of an object tells that."""
    waits = (until_available(seen.members_of(s), s.spec.min_ready_seconds, seen.now) for s in seen.sets)
    wait = soonest(*waits)
    if wait is None:
        return Plan(because=how_far)
    return Plan((), in_seconds(wait), how_far or "new machines are not available yet")


def _marks(seen: RollingSeen, nodes: Nodes, rollout: Rollout) -> Iterator[MarkNode]:
    marked = nodes.tainted or nodes.ours
    if not (rollout.goes_on or marked or any(map(seen.members_of, _others(seen)))):
        return  # nothing is rolled out, and no node anywhere is marked
    for each in seen.sets:
        for member in seen.members_of(each):
            if not member.alive:
                continue
            found = _mark(seen, each, member, nodes, rollout)
            if found is not None and nodes.has(found.node):
                yield found


def _mark(
    seen: RollingSeen, machine_set: MachineSet, member: MachineMember, nodes: Nodes, rollout: Rollout
) -> MarkNode | None:
    node, current = names.node_name(member.labels), machine_set is seen.current
    taint: bool | None = None
    if current and node in nodes.tainted:
        taint = False
    elif not current and _prefers_new(seen) and node not in nodes.tainted:
        taint = True
    annotate: bool | None = None
    if rollout.spare_nodes and rollout.goes_on and node not in nodes.annotated:
        annotate = True
    elif rollout.over and node in nodes.ours and member.preserved_until is None:
        annotate = False
    if taint is None and annotate is None:
        return None
    return MarkNode(member, taint, annotate)


def _sets(seen: RollingSeen) -> Iterator[MarkSet]:
    for each in seen.sets:
        annotated = names.PREFER_NO_SCHEDULE in each.metadata.annotations
        if each is seen.current and annotated:
            yield MarkSet(each, tainted=False)
        elif each is not seen.current and not annotated and _prefers_new(seen) and _any_node(seen, each):
            yield MarkSet(each, tainted=True)


def _any_node(seen: RollingSeen, machine_set: MachineSet) -> bool:
    return any(member.alive and names.node_name(member.labels) for member in seen.members_of(machine_set))


def _prefers_new(seen: RollingSeen) -> bool:
    """Whether the scheduler is to prefer new nodes to old ones; with Recreate there are none meanwhile."""
    return not isinstance(seen.strategy, Recreate)


def _goes_on(seen: RollingSeen) -> bool:
    old = (each for each in _others(seen) if not each.metadata.deleting)
    return any(each.spec.replicas > 0 or seen.members_of(each) for each in old)


def _others(seen: RollingSeen) -> list[MachineSet]:
    return [each for each in seen.sets if each is not seen.current]


def _over(seen: RollingSeen) -> bool:
    """When no old machine is left: as many new ones are available as are wanted. It reads every member, so it
    is asked last."""
    return seen.counts.available >= seen.desired
