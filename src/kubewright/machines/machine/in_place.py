"""Decide how far the update of a node in place is, and drain the node before it.

Theory.      Three parties share a node by marks, each of which has one writer (``api.machine.names``): the
             controller of a deployment, or a user, selects it by labels; the machine's controller answers
             with the node's condition; the agent on the node waits for "ready", updates the node and labels
             it with the result. ``step`` finds the next reason from the condition's reason and the labels.
             Every reason is written alone, so a process that ends after any write is followed by one that
             reads how far the first came. The phase changes between "drained" and "ready": an update has
             begun, with its time-out, before the agent may touch the node. ``health`` ends it.
Invariants.  Pure. No node is ready for its update while pods that a drain awaits are on it. Once a selection
             is in the condition, taking the selected label off has no effect any more, as upstream; taking
             the candidate label off has. A machine that has not joined, or is to be replaced, is not updated.
Source       mcm.md §4.11. Unlike upstream an update that failed may be tried again: taking the result's label
             off makes the node a candidate anew.
Called by    ``decide``; ``look`` (``drains_for_update``, ``is_selected``, ``selected_at``).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from kubewright.api.conditions import condition_of
from kubewright.api.core import Node, NodeCondition
from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason, NodeConditionType, UpdateReason, UpdateResult
from kubewright.base import delays
from kubewright.base.plan import AT_ONCE
from kubewright.machines.machine import states
from kubewright.machines.machine.health import follow_node
from kubewright.machines.machine.seen import Seen
from kubewright.machines.machine.states import Finding
from kubewright.machines.machine.steps import Cordon, Drain, Milestone, Plan, SetUpdateCondition
from kubewright.nodes import marks

MESSAGES: Mapping[UpdateReason, str] = {
    UpdateReason.CANDIDATE: "Node is a candidate for in-place update",
    UpdateReason.SELECTED: "Node is selected for in-place update",
    UpdateReason.DRAINED: "Node draining successful",
    UpdateReason.READY: "Node is ready for in-place update",
    UpdateReason.SUCCESSFUL: "Node in-place update successful",
    UpdateReason.FAILED: "Node in-place update failed: {why}",
}
"""The condition's message: a contract, as its reason is."""

UNDER_WAY = (UpdateReason.SELECTED, UpdateReason.DRAINED)
"""What follows them comes from the machine's controller, and not from a label."""

_RESULTS = {UpdateResult.SUCCESSFUL: UpdateReason.SUCCESSFUL, UpdateResult.FAILED: UpdateReason.FAILED}


def update_in_place(seen: Seen) -> Plan | None:
    """The next step of an update in place; None: there is none, or the machine's health goes first."""
    if seen.node is None or (seen.phase not in states.UPDATABLE and seen.phase not in states.UPDATING):
        return None
    found = step(seen, seen.node)
    if found is None:
        return None
    health = follow_node(seen)
    if health.report is not None:
        return None
    plan = replace(found, steps=(*health.steps, *found.steps))
    return plan.sooner(health.wake)


def step(seen: Seen, node: Node) -> Plan | None:
    """The next step for this node by its labels, its condition and its pods; None: nothing is to be done."""
    reason = reason_in(node.status.conditions)
    if told := _labelled(seen, node, reason):
        return _says(seen, node, told)
    if names.CANDIDATE_LABEL not in node.metadata.labels:
        return None
    if reason == UpdateReason.SELECTED:
        return _drain(seen, node)
    if reason == UpdateReason.DRAINED:
        return _begin(seen, node)
    return None


def drains_for_update(seen: Seen) -> bool:
    """Whether the node's pods decide what comes next: it is cordoned, and to be drained for an update."""
    node = seen.node
    if node is None or seen.phase not in states.UPDATABLE or not node.spec.unschedulable:
        return False
    return is_selected(node) and names.CANDIDATE_LABEL in node.metadata.labels


def is_selected(node: Node) -> bool:
    """Whether the node is to be drained for an update in place, or is being drained."""
    return reason_in(node.status.conditions) == UpdateReason.SELECTED


def selected_at(node: Node) -> datetime | None:
    """When that began, by the condition's date; None: it has none, or the node is not selected."""
    found = condition_of(node.status.conditions, NodeConditionType.IN_PLACE_UPDATE)
    return found.last_transition_time if found and found.reason == UpdateReason.SELECTED else None


def reason_in(conditions: Iterable[NodeCondition]) -> str:
    """How far the update in place is, by a node's conditions; empty: none was ever asked for."""
    found = condition_of(tuple(conditions), NodeConditionType.IN_PLACE_UPDATE)
    return found.reason if found is not None else ""


def _labelled(seen: Seen, node: Node, reason: str) -> UpdateReason | None:
    """The reason that the node's labels ask for; None: they ask for none, or it is there."""
    labels = node.metadata.labels
    if names.CANDIDATE_LABEL not in labels:
        return None
    result = names.update_result(labels)
    if result is not None:
        asked = _RESULTS[result]
    else:
        waits = reason == UpdateReason.READY and seen.phase in states.UPDATING
        if waits or reason in UNDER_WAY:
            return None
        asked = UpdateReason.SELECTED if names.SELECTED_LABEL in labels else UpdateReason.CANDIDATE
    return asked if asked != reason else None


def _says(seen: Seen, node: Node, reason: UpdateReason) -> Plan:
    """Write the condition."""
    why = node.metadata.annotations.get(names.UPDATE_FAILED_REASON_ANNOTATION, "")
    told = MESSAGES[reason].format(why=why)
    wanted = NodeCondition(type=NodeConditionType.IN_PLACE_UPDATE, status="True", reason=reason, message=told)
    patch = marks.condition(node, wanted, seen.wall)
    return Plan((SetUpdateCondition(patch),), AT_ONCE, told[0].lower() + told[1:])


def _drain(seen: Seen, node: Node) -> Plan | None:
    """Cordon and drain the node, and say when that is done."""
    if seen.phase not in states.UPDATABLE:
        return None
    if not node.spec.unschedulable:
        told = Milestone(EventReason.DRAINING, f"Draining node {node.metadata.name} for its update in place")
        because = "its node is to be updated in place, and should take no new pods"
        return Plan((Cordon(marks.cordon_as_seen(node)),), AT_ONCE, because, milestone=told)
    if seen.drain is None:
        why, wait = "", delays.REFUSED
        if seen.unread is not None:
            why, wait = f": {seen.unread.problem}", seen.unread.wait
        return Plan(wake=wait, because=f"its node is to be drained, and its pods are not listed{why}")
    found = seen.drain
    if found.done:
        return _detach(seen) or _says(seen, node, UpdateReason.DRAINED)
    steps = (Drain(found),) if found.evict or found.delete else ()
    because = f"its node is drained for an update in place: {found.obstacles or found.because}"
    if not found.failed:
        warning = (
            (EventReason.DRAIN_HELD.value, because[0].upper() + because[1:]) if found.obstacles else None
        )
        return Plan(steps, found.wake, because, warning=warning, topics=found.topics)
    report = states.report(seen, Finding.DRAIN_HELD, found.obstacles)
    warning = (EventReason.FAILED_DRAIN.value, report.description)
    return Plan(steps, found.wake, because, report, warning, found.topics)


def _detach(seen: Seen) -> Plan | None:
    """Wait for the volumes of pods that left, in limited time, as before the deletion of a VM."""
    left = seen.drain_policy.until_detached(seen.drained_since or seen.now, seen.now)
    forced = seen.drain is not None and seen.drain.forced
    if not seen.attachments or forced or (left is not None and left <= timedelta(0)):
        return None
    because = f"{len(seen.attachments)} volumes are still attached to its node, which is to be updated"
    return Plan(wake=delays.POLL, because=because)


def _begin(seen: Seen, node: Node) -> Plan:
    """The phase first, and then the condition by which the agent begins."""
    if not states.moves(seen.phase, Finding.UPDATE_BEGINS):
        return _says(seen, node, UpdateReason.READY)
    report = states.report(seen, Finding.UPDATE_BEGINS)
    told = Milestone(EventReason.UPDATING_IN_PLACE, report.description)
    return Plan(wake=AT_ONCE, because=report.description, report=report, milestone=told)
