"""Decide which nodes are marked while their deployment rolls out, and updated in place next. Pure.

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
             With InPlaceUpdate the nodes of old sets become candidates. Of them the controller selects as
             many as the bounds allow (Auto), or a user does (Manual); the machine's controller and the agent
             on the node do the rest (``machine.living``). A machine whose node was updated is *moved*: one
             write gives it the current set as its owner, with the labels and the class of that set's
             template. The sizes of both sets follow (``rollout.planner``), the moved machine loses the label
             that says so, and its node is released: it loses the labels, and takes pods again. Each of these
             is one write, and the next pass finds out from what is there how far the last one came. A node
             that is selected says for which template: if the deployment has another one by the time when it
             was updated, it is a candidate anew.
Invariants.  Cluster-autoscaler's annotation is removed only where a second one says that Kubewright or MCM
             wrote it (``by-mcm``), so a value that a user set is neither replaced nor removed. On the node of
             a preserved machine the preservation owns both, and removes them. While a deployment is paused,
             invalid or has no current set yet, nothing is changed.
             Never more nodes are selected than leave the floor available. A machine has exactly one set at
             any moment, and none is deleted in order to be updated. What the agent has begun is never called
             off: a node that is drained or ready keeps its labels until there is a result, though its set
             became the current one again. Differently from MCM a moved machine has the class and the labels
             of its new template.
Called by    ``act``.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kubewright.api.core import Node
from kubewright.api.diff import Patch
from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import MachineSet
from kubewright.base.plan import AT_ONCE, Plan, in_seconds, soonest
from kubewright.machines.machine.states import UPDATING
from kubewright.machines.machineset.member import MachineMember
from kubewright.machines.rolling.seen import (
    ClearMoved,
    LabelNode,
    MarkNode,
    MarkSet,
    Move,
    Nodes,
    RollingSeen,
    Step,
    UpdateMark,
    UpdateStep,
)
from kubewright.replicas.objects import until_available
from kubewright.rollout.model import Resize
from kubewright.rollout.planner import InPlaceUpdate, Recreate, selectable

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


_LABELS_OF_A_TRY = (names.SELECTED_LABEL, names.UPDATE_RESULT_LABEL)
_NOTES_OF_A_TRY = (names.UPDATE_FAILED_REASON_ANNOTATION, names.UPDATE_AIM_ANNOTATION)
"""What one try of an update leaves on a candidate: labels; an annotation of the agent, and one of ours."""


def updates_in_place(seen: RollingSeen, nodes: Nodes) -> list[UpdateStep]:
    """The next steps; empty when there is nothing to do but wait, or nothing at all."""
    steps: list[UpdateStep] = [*_of_current(seen, nodes), *_cleared(seen)]
    if isinstance(seen.strategy, InPlaceUpdate):
        steps += _of_old(seen, nodes)
        steps += _selected(seen, nodes, seen.strategy)
    return steps


def progress(seen: RollingSeen, nodes: Nodes) -> str:
    """How far the update in place is, for a user; empty where none goes on."""
    if not isinstance(seen.strategy, InPlaceUpdate):
        return ""
    sets = [seen.named(group.name) for group in seen.fleet.old]
    alive = sum(member.alive for each in sets for member in seen.members_of(each))
    if not alive:
        return ""
    joined = [node for _, _, node in _old_members(seen, nodes)]
    under_way = sum(node in nodes.selected for node in joined)
    parts = [f"machines to be updated in place: {alive}, of these selected: {under_way}"]
    if seen.strategy.manual:
        parts.append("a user selects them")
    if alive > len(joined):
        parts.append(f"without a node, on which an agent could update them: {alive - len(joined)}")
    return "; ".join(parts)


def aim_of(machine_set: MachineSet) -> str:
    """What a node says that is selected for this set's template."""
    return machine_set.metadata.labels.get(names.TEMPLATE_HASH_LABEL, "")


def _of_current(seen: RollingSeen, nodes: Nodes) -> Iterator[UpdateStep]:
    """Release the nodes of the current set. With other strategies only those are released that the controller
    selected: a user may mark others."""
    if seen.current is None:
        return
    marked = nodes.aimed
    if isinstance(seen.strategy, InPlaceUpdate):
        marked |= nodes.candidates | nodes.selected | nodes.updated
    if not marked:
        return
    for member in seen.members_of(seen.current):
        node = names.node_name(member.labels)
        ended = node in nodes.updated and member.phase not in UPDATING
        if member.alive and node in marked and nodes.has(node) and (ended or node not in nodes.begun):
            yield LabelNode(member, UpdateMark.RELEASED)


def _cleared(seen: RollingSeen) -> Iterator[ClearMoved]:
    """Take the label off moved machines of sets that are to have no other size, and whose controllers know
    that."""
    for each in seen.sets:
        moved = [member for member in seen.members_of(each) if member.moved]
        known = each.status.observed_generation >= each.metadata.generation
        if moved and known and each.name not in _resized(seen):
            yield from map(ClearMoved, moved)


def _resized(seen: RollingSeen) -> set[str]:
    """The names of the sets that are to have another size."""
    return {intent.group for intent in seen.sizes.intents if isinstance(intent, Resize)}


def _old_members(seen: RollingSeen, nodes: Nodes) -> Iterator[tuple[MachineSet, MachineMember, str]]:
    """The living machines of old sets whose nodes exist, with their nodes; the oldest sets first."""
    for group in seen.fleet.old:
        each = seen.named(group.name)
        for member in sorted(seen.members_of(each), key=lambda m: (m.created, m.name)):
            node = names.node_name(member.labels)
            if member.alive and nodes.has(node):
                yield each, member, node


def _of_old(seen: RollingSeen, nodes: Nodes) -> Iterator[UpdateStep]:
    """Move the machines whose nodes were updated; the other nodes become candidates."""
    assert seen.current is not None, "nothing is marked before the current set is there"
    for each, member, node in _old_members(seen, nodes):
        if node in nodes.updated and member.phase not in UPDATING:
            if node in nodes.aimed_elsewhere:
                yield LabelNode(member, UpdateMark.CANDIDATE_AGAIN)
            else:
                yield Move(member, each, seen.current)
        elif node not in nodes.candidates:
            yield LabelNode(member, UpdateMark.CANDIDATE)


def _selected(seen: RollingSeen, nodes: Nodes, strategy: InPlaceUpdate) -> Iterator[UpdateStep]:
    """Select candidates whose machines are available, as many as the bounds allow. A moved machine does not
    count as available before its node is released."""
    if strategy.manual or seen.current is None:
        return
    old = [(member, node, seen.available(each, member)) for each, member, node in _old_members(seen, nodes)]
    selected = [available for _, node, available in old if node in nodes.selected]
    cordoned = sum(
        seen.available(seen.current, member)
        for member in seen.members_of(seen.current)
        if names.node_name(member.labels) in nodes.selected
    )
    limits = strategy.limits(seen.desired)
    number = selectable(seen.fleet, limits, len(selected), sum(selected) + cordoned)
    waiting = [m for m, node, up in old if up and node in nodes.candidates and node not in nodes.selected]
    for member in waiting[:number]:
        yield LabelNode(member, UpdateMark.SELECTED, aim_of(seen.current))


def update_labels(node: Node, mark: UpdateMark, aim: str) -> Patch:
    """How the labels of a node change, as a merge patch.

    A node that was selected has been cordoned for its drain, so letting go of it uncordons it, too; one that
    was a candidate only may have been cordoned by a user, and stays as it is. That a user had cordoned a
    node before it was selected is written nowhere, so it is uncordoned like the others, as by MCM. Afterwards
    MCM taints it for critical components, and we do not: only Gardener's own controllers would remove the
    taint.
    """
    labels, annotations = node.metadata.labels, node.metadata.annotations
    if mark is UpdateMark.CANDIDATE:
        return {"metadata": {"labels": {names.CANDIDATE_LABEL: "true"}}}
    if mark is UpdateMark.SELECTED:
        notes = {names.UPDATE_AIM_ANNOTATION: aim}
        return {"metadata": {"labels": {names.SELECTED_LABEL: "true"}, "annotations": notes}}
    gone = (
        _LABELS_OF_A_TRY if mark is UpdateMark.CANDIDATE_AGAIN else (names.CANDIDATE_LABEL, *_LABELS_OF_A_TRY)
    )
    metadata = {
        "labels": {key: None for key in gone if key in labels},
        "annotations": {key: None for key in _NOTES_OF_A_TRY if key in annotations},
    }
    patch: Patch = {"metadata": {part: edits for part, edits in metadata.items() if edits}}
    if names.SELECTED_LABEL in labels and node.spec.unschedulable:
        patch["spec"] = {"unschedulable": False}
    return patch
