"""Decide which nodes of a deployment are updated in place next, and which machines change their set. Pure.

Theory.      The nodes of old sets become candidates. Of them the controller selects as many as the bounds
             allow (Auto), or a user does (Manual); the machine's controller and the agent on the node do the
             rest (``machine.in_place``). A machine whose node was updated is *moved*: one write gives it the
             current set as its owner, with the labels and the class of that set's template. The sizes of
             both sets follow (``rollout.planner``), the moved machine loses the label that says so, and its
             node is released: it loses the labels, and takes pods again. Each of these is one write, and the
             next pass finds out from what is there how far the last one came. A node that is selected says
             for which template: if the deployment has another one by the time when it was updated, it is a
             candidate anew.
Invariants.  Never more nodes are selected than leave the floor available. A machine has exactly one set at
             any moment, and none is deleted in order to be updated. What the agent has begun is never called
             off: a node that is drained or ready keeps its labels until there is a result, though its set
             became the current one again.
Source       mcm.md §7.9. Differently from MCM a moved machine has the class and the labels of its new
             template.
Called by    ``decide``, ``reconciler``.
"""

from collections.abc import Iterator

from kubewright.api.core import Node
from kubewright.api.diff import Patch
from kubewright.api.machine import names, updates
from kubewright.api.machine.v1alpha1 import MachineSet
from kubewright.machines.machine.states import UPDATING
from kubewright.machines.machineset.member import MachineMember
from kubewright.machines.rolling.seen import Nodes, RollingSeen
from kubewright.machines.rolling.steps import ClearMoved, LabelNode, Move, UpdateMark, UpdateStep
from kubewright.rollout.model import Resize
from kubewright.rollout.planner import InPlaceUpdate, selectable

_LABELS_OF_A_TRY = (updates.SELECTED_LABEL, updates.UPDATE_RESULT_LABEL)
_NOTES_OF_A_TRY = (updates.UPDATE_FAILED_REASON_ANNOTATION, updates.UPDATE_AIM_ANNOTATION)
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
        return {"metadata": {"labels": {updates.CANDIDATE_LABEL: "true"}}}
    if mark is UpdateMark.SELECTED:
        notes = {updates.UPDATE_AIM_ANNOTATION: aim}
        return {"metadata": {"labels": {updates.SELECTED_LABEL: "true"}, "annotations": notes}}
    gone = (
        _LABELS_OF_A_TRY
        if mark is UpdateMark.CANDIDATE_AGAIN
        else (updates.CANDIDATE_LABEL, *_LABELS_OF_A_TRY)
    )
    metadata = {
        "labels": {key: None for key in gone if key in labels},
        "annotations": {key: None for key in _NOTES_OF_A_TRY if key in annotations},
    }
    patch: Patch = {"metadata": {part: edits for part, edits in metadata.items() if edits}}
    if updates.SELECTED_LABEL in labels and node.spec.unschedulable:
        patch["spec"] = {"unschedulable": False}
    return patch
