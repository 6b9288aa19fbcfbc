"""Decide which nodes of a deployment are marked while it rolls out. Pure.

Theory.      A rollout *goes on* while an old set has machines (also deleting ones) or wants some. It is
             *over* when no old set does and enough new machines are available. Between the two it only waits
             for new machines to become available. While it goes on, the nodes of all sets have the annotation
             that stops cluster-autoscaler from removing them; it is removed when the rollout is over. With
             RollingUpdate and InPlaceUpdate old nodes have a taint that makes the scheduler prefer others;
             with Recreate there are no others. A tainted node whose set is the current one, after a rollback,
             loses the taint at once. MCM marks nodes once, when a rollout begins; here each pass compares the
             marks with what they should be, so a node that joins in the middle is marked too.
Invariants.  Cluster-autoscaler's annotation is removed only where a second one says that Kubewright or MCM
             wrote it (``by-mcm``), so a value that a user set is neither replaced nor removed. On the node of
             a preserved machine the preservation owns both, and removes them. While a deployment is paused,
             invalid or has no current set yet, nothing is changed.
Source       mcm.md §7.4, §7.6, §7.8; the bug of "scaled to zero" is not copied.
Called by    ``reconciler``.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from kubewright.api.machine import names
from kubewright.api.machine.names import StrategyType
from kubewright.api.machine.v1alpha1 import MachineSet
from kubewright.base.plan import AT_ONCE, Plan, in_seconds, soonest
from kubewright.machines.machineset.member import MachineMember
from kubewright.machines.rolling.updating import (
    LabelNode,
    Move,
    RollingSeen,
    Unmark,
    UpdateStep,
    progress,
    updates_in_place,
)
from kubewright.replicas.member import until_available

BURST = 250
"""Nodes that are marked in one pass; the next pass follows at once."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """The names of nodes that exist, and of those that carry marks, in the whole cluster.

    ``annotated``  they have cluster-autoscaler's annotation, with any value
    ``ours``       they have the one that says that we wrote it
    ``candidates`` may be updated in place; ``selected``: are to be, or are being, updated
    ``begun``      are drained for an update that has no result yet, or ready for it
    ``updated``    their update succeeded
    ``aimed``      the controller selected them for a template; ``misaimed``: for another one than the current
    """

    there: Container[str] = frozenset()
    tainted: AbstractSet[str] = frozenset()
    annotated: AbstractSet[str] = frozenset()
    ours: AbstractSet[str] = frozenset()
    candidates: AbstractSet[str] = frozenset()
    selected: AbstractSet[str] = frozenset()
    begun: AbstractSet[str] = frozenset()
    updated: AbstractSet[str] = frozenset()
    aimed: AbstractSet[str] = frozenset()
    misaimed: AbstractSet[str] = frozenset()


@dataclass(frozen=True, slots=True)
class MarkNode:
    """Put marks on the node of a machine, or take them off; None leaves a mark as it is."""

    member: MachineMember
    taint: bool | None = None
    annotate: bool | None = None

    @property
    def node(self) -> str:
        return names.node_name(self.member.labels)


@dataclass(frozen=True, slots=True)
class MarkSet:
    """Annotate a set whose nodes get the taint, or end that; MCM removes no taint without the annotation."""

    set: MachineSet
    tainted: bool


Step = MarkNode | MarkSet | UpdateStep


def decide(seen: RollingSeen, nodes: Nodes, *, annotate: bool) -> Plan[Step]:
    """The plan for one pass; ``annotate``: whether the operator wants cluster-autoscaler kept away."""
    if seen.deleting or seen.problem or seen.current is None or seen.written.spec.paused:
        return Plan()
    goes_on = _goes_on(seen)
    over = bool(nodes.ours) and not goes_on and _over(seen)
    rests = not (goes_on or nodes.tainted or nodes.ours or any(map(seen.members_of, _others(seen))))
    wanted = [
        found
        for each in (() if rests else seen.sets)
        for member in seen.members_of(each)
        if (found := _mark(seen, each, member, nodes, goes_on=goes_on, over=over, annotate=annotate))
        if member.alive and found.node in nodes.there
    ]
    updates = updates_in_place(seen, nodes)
    steps: tuple[Step, ...] = (*wanted[:BURST], *_sets(seen), *updates[:BURST])
    how_far = progress(seen, nodes)
    if not steps:
        waits = nodes.ours and not (goes_on or over)
        return _until_available(seen, how_far) if how_far or waits else Plan()
    what = "it rolls out" if goes_on else "its rollout is over"
    marked = f"{what}, and nodes to be marked so: {len(wanted)}" if wanted else ""
    because = "; ".join(filter(None, (marked, _told(updates), how_far)))
    return Plan(steps, AT_ONCE if max(len(wanted), len(updates)) > BURST else None, because)


def _told(updates: Sequence[UpdateStep]) -> str:
    """What the steps of an update in place are, in numbers."""
    found = Counter(
        f"nodes of which {step.mark.value}" if isinstance(step, LabelNode) else _OF_MACHINES[type(step)]
        for step in updates
    )
    return ", ".join(f"{what}: {number}" for what, number in found.items())


_OF_MACHINES: Mapping[type[UpdateStep], str] = {
    Move: "machines that move to the current set",
    Unmark: "moved machines that the set's size counts",
}


def _until_available(seen: RollingSeen, how_far: str) -> Plan[Step]:
    """Look again when a new machine has been ready for minReadySeconds: no change of an object tells that."""
    waits = (until_available(seen.members_of(s), s.spec.min_ready_seconds, seen.now) for s in seen.sets)
    wait = soonest(*waits)
    if wait is None:
        return Plan(because=how_far)
    return Plan((), in_seconds(wait), how_far or "new machines are not available yet")


def _mark(
    seen: RollingSeen,
    machine_set: MachineSet,
    member: MachineMember,
    nodes: Nodes,
    *,
    goes_on: bool,
    over: bool,
    annotate: bool,
) -> MarkNode | None:
    node, current = names.node_name(member.labels), machine_set is seen.current
    taint: bool | None = None
    if current and node in nodes.tainted:
        taint = False
    elif not current and _prefers_new(seen) and node not in nodes.tainted:
        taint = True
    annotated: bool | None = None
    if annotate and goes_on and node not in nodes.annotated:
        annotated = True
    elif over and node in nodes.ours and member.preserved_until is None:
        annotated = False
    if taint is None and annotated is None:
        return None
    return MarkNode(member, taint, annotated)


def _sets(seen: RollingSeen) -> Iterator[MarkSet]:
    for each in seen.sets:
        says = names.PREFER_NO_SCHEDULE in each.metadata.annotations
        if each is seen.current and says:
            yield MarkSet(each, tainted=False)
        elif (
            each is not seen.current and not says and _prefers_new(seen) and _any_node(seen.members_of(each))
        ):
            yield MarkSet(each, tainted=True)


def _any_node(members: Iterable[MachineMember]) -> bool:
    return any(member.alive and names.node_name(member.labels) for member in members)


def _prefers_new(seen: RollingSeen) -> bool:
    """Whether the scheduler is to prefer new nodes to old ones; with Recreate there are none meanwhile."""
    return seen.deployment.spec.strategy.type != StrategyType.RECREATE


def _goes_on(seen: RollingSeen) -> bool:
    old = (each for each in _others(seen) if not each.metadata.deleting)
    return any(each.spec.replicas > 0 or seen.members_of(each) for each in old)


def _others(seen: RollingSeen) -> list[MachineSet]:
    return [each for each in seen.sets if each is not seen.current]


def _over(seen: RollingSeen) -> bool:
    """When no old machine is left: as many new ones are available as are wanted. All of them are read."""
    return seen.counts.available >= seen.written.spec.replicas
