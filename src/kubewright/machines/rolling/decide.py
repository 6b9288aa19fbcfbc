"""Decide which nodes of a deployment are marked while it rolls out. Pure.

Theory.      A rollout *goes on* while an old set has machines (also deleting ones) or wants some. It is
             *over* when no old set does and enough new machines are available. Between the two it only waits
             for new machines to become available. While it goes on, the nodes of all sets have the annotation
             that stops cluster-autoscaler from removing them; it is removed when the rollout is over. With
             RollingUpdate the nodes of old sets have a taint that makes the scheduler prefer other nodes;
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

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from kubewright.api.machine import names
from kubewright.api.machine.names import StrategyType
from kubewright.api.machine.v1alpha1 import MachineDeployment, MachineSet
from kubewright.base.plan import AT_ONCE, Plan, in_seconds, soonest
from kubewright.machines.machineset.member import MachineMember
from kubewright.replicas.deployment.seen import Seen
from kubewright.replicas.member import until_available

RollingSeen = Seen[MachineDeployment, MachineSet, MachineMember]

BURST = 250
"""Nodes that are marked in one pass; the next pass follows at once."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """The names of nodes that exist, and of those that carry marks.

    ``annotated``  they have cluster-autoscaler's annotation, with any value
    ``ours``       they have the one that says that we wrote it
    """

    there: AbstractSet[str] = frozenset()
    tainted: AbstractSet[str] = frozenset()
    annotated: AbstractSet[str] = frozenset()
    ours: AbstractSet[str] = frozenset()


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


Step = MarkNode | MarkSet


def decide(seen: RollingSeen, nodes: Nodes, *, annotate: bool) -> Plan[Step]:
    """The plan for one pass; ``annotate``: whether the operator wants cluster-autoscaler kept away."""
    if seen.deleting or seen.problem or seen.current is None or seen.written.spec.paused:
        return Plan()
    goes_on, over = _goes_on(seen), _over(seen)
    wanted = [
        found
        for each in seen.sets
        for member in seen.members_of(each)
        if member.alive and names.node_name(member.labels) in nodes.there
        if (found := _mark(seen, each, member, nodes, goes_on=goes_on, over=over, annotate=annotate))
    ]
    steps: tuple[Step, ...] = (*wanted[:BURST], *_sets(seen))
    if not steps:
        return _until_over(seen) if not (goes_on or over) else Plan()
    what = "it rolls out" if goes_on else "its rollout is over"
    because = f"{what}, and nodes to be marked so: {len(wanted)}"
    return Plan(steps, AT_ONCE if len(wanted) > BURST else None, because)


def _until_over(seen: RollingSeen) -> Plan[Step]:
    """Look again when a new machine has been ready for minReadySeconds: no change of an object tells that."""
    waits = (until_available(seen.members_of(s), s.spec.min_ready_seconds, seen.now) for s in seen.sets)
    wait = soonest(*waits)
    return Plan() if wait is None else Plan((), in_seconds(wait), "new machines are not available yet")


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
    return seen.deployment.spec.strategy.type == StrategyType.ROLLING_UPDATE


def _goes_on(seen: RollingSeen) -> bool:
    old = (each for each in seen.sets if each is not seen.current and not each.metadata.deleting)
    return any(each.spec.replicas > 0 or seen.members_of(each) for each in old)


def _over(seen: RollingSeen) -> bool:
    """No old machine is left, and of the new ones there are as many available as are wanted."""
    return not _goes_on(seen) and seen.counts.available >= seen.written.spec.replicas
