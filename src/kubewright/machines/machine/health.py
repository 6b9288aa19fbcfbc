"""Decide a machine's phase from its node: Pending, Running, Unknown or Failed.

Theory.      The phase is a function of three things: the phase before, what the node says now,
             and how long it has said so. ``states`` is the table of transitions, this file finds out
             what is seen. The two time-outs stand apart because only they need a clock, and they are
             looked at in every pass, so conditions that flap cannot postpone them (defect 26 of
             mcm.md §19).
             Replacements are limited (``replacements``): a machine beyond the limit stays ``Unknown`` and is
             looked at again, and an event says why. A node that a user deleted counts as missing: its kubelet
             may register it again in time.
             While a cluster cannot be watched, no phase is decided from what it showed last; after
             that the time-outs begin anew (``Seen.due``), because nodes need time to report again.
             An update of the node in place (``in_place``) ends here, by the result that the agent on the node
             writes, or by a time-out: while it lasts the node's health says nothing about the machine.
Source       mcm.md §4.5 (transitions and texts), §4.7 (order), §4.8 (limit), §9.2 (unreachable). Unlike
             upstream an Unknown machine is not made Running merely because its cluster can be watched
             again: it would count as available before its node has said that it is healthy.
Called by    ``decide`` and ``in_place``, once the VM is on record.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from kubewright.api.conditions import condition_of
from kubewright.api.core import Node
from kubewright.api.machine import names, updates
from kubewright.api.machine.names import EventReason, NodeConditionType, OperationState, OperationType, Phase
from kubewright.base import delays
from kubewright.base.plan import AT_ONCE
from kubewright.driver.answers import in_one_line
from kubewright.machines import node_marks
from kubewright.machines.machine import states
from kubewright.machines.machine.creation import vm_incomplete
from kubewright.machines.machine.seen import Seen
from kubewright.machines.machine.states import Finding
from kubewright.machines.machine.steps import (
    DeleteBootstrapToken,
    DeleteMachine,
    Milestone,
    Plan,
    Report,
    Step,
    SyncCapacity,
    SyncNode,
)
from kubewright.machines.settings import held_by


def wait_while_unreachable(seen: Seen) -> Plan | None:
    """While a cluster cannot be watched its cache is old: create no VM, fail no machine."""
    if not seen.unreachable:
        return None
    return Plan(wake=delays.UNHEARD, because=f"the {seen.unreachable} cluster cannot be watched")


def delete_when_triggered(seen: Seen) -> Plan | None:
    """Delete the machine, as ``kubectl delete machine`` would, once a user has annotated its node.

    It is ignored where the node template carries the annotation too: the controller would copy it onto the
    node of every replacement, and delete each of them as soon as its node has joined (seed 004, FAQ "How to
    delete machine object immedietly"; mcm.md §2.2, §15.1).
    """
    if seen.node is None or not names.deletion_triggered(seen.node.metadata.annotations):
        return None
    if names.deletion_triggered(seen.machine.spec.node_template.metadata.annotations):
        return None
    name = seen.node.metadata.name
    because = f'node {name} is annotated with {names.TRIGGER_DELETION_ANNOTATION}: "true"'
    return Plan((DeleteMachine(f"The machine is deleted: {because}"),), because=because)


def follow_node(seen: Seen) -> Plan:
    """One pass over a machine whose VM is on record."""
    plan = _decide_phase(seen)
    report, because = plan.report, plan.because
    steps: list[Step] = []
    if seen.node is not None and (marks := _node_steps(seen, seen.node, report)):
        steps += marks
        because += "; the node lacks what the machine says of it"
    joined = report is not None and report.phase is Phase.RUNNING and report.type is OperationType.CREATE
    if joined and seen.has_token:
        steps.append(DeleteBootstrapToken())
    return replace(plan, steps=tuple(steps), because=because, milestone=_milestone(seen, report))


def _node_steps(seen: Seen, node: Node, report: Report | None) -> list[Step]:
    """What the node lacks. The taint of an instance that is not ready goes when the machine becomes Running:
    until then initialization may be outstanding, and no pod should come (seed 004, "Instance Not Ready
    Taint").
    """
    after = seen.phase_after(report)
    status, wanted = node_marks.capacity_patch(node, seen.capacity), seen.capacity
    if status and any(isinstance(each.step, SyncCapacity) for each in seen.refused):
        wanted = None  # the annotation records what was applied, and this was refused
    marked = node_marks.sync_node(node, seen.machine, running=after is Phase.RUNNING, capacity=wanted)
    return [*([SyncCapacity(status)] if status else []), *([SyncNode(marked)] if marked else [])]


def _milestone(seen: Seen, report: Report | None) -> Milestone | None:
    """The event of a machine whose VM exists, that joins, or that recovers."""
    told = (Phase.PENDING, Phase.RUNNING, Phase.IN_PLACE_UPDATE_SUCCESSFUL)
    if report is None or report.phase not in told:
        return None
    if report.phase is Phase.IN_PLACE_UPDATE_SUCCESSFUL:
        return Milestone(EventReason.UPDATED_IN_PLACE, report.description)
    vm, node = seen.machine.spec.provider_id, names.node_name(seen.machine.metadata.labels)
    if report.phase is Phase.PENDING:
        return Milestone(EventReason.VM_CREATED, f"VM {vm} exists; its node {node} has not joined yet")
    if report.type is OperationType.CREATE:
        return Milestone(EventReason.JOINED, f"{report.description}: VM {vm}, node {node}")
    return Milestone(EventReason.RECOVERED, report.description)


_WARNINGS: Mapping[Phase, EventReason] = {
    Phase.UNKNOWN: EventReason.MACHINE_UNKNOWN,
    Phase.FAILED: EventReason.MACHINE_FAILED,
    Phase.IN_PLACE_UPDATE_FAILED: EventReason.FAILED_IN_PLACE_UPDATE,
}
"""The reason of the warning event about a machine that comes to such a phase."""


def _tells(report: Report, wake: timedelta | None, because: str = "") -> Plan:
    """The plan that writes a report, with its warning event."""
    reason = _WARNINGS.get(report.phase)
    told = in_one_line(report.description)
    warning = (reason, told) if reason is not None else None
    return Plan(wake=wake, because=because or told, report=report, warning=warning)


def _decide_phase(seen: Seen) -> Plan:
    if report := _next_phase(seen):
        return _tells(report, AT_ONCE)
    match seen.phase:
        case Phase.NONE | Phase.CRASH_LOOP_BACK_OFF | Phase.PENDING:
            return _joining(seen)
        case Phase.UNKNOWN | Phase.IN_PLACE_UPDATE_FAILED:
            return _timed_by_health(seen)
        case Phase.IN_PLACE_UPDATING:
            return _updating(seen)
        case Phase.RUNNING:
            return Plan(because="its node is well")
        case phase:
            return Plan(because=f"it is {phase.value}; only its node or its set can change that")


def _next_phase(seen: Seen) -> Report | None:
    """The transition that follows from the node's present state, without a clock; None if there is none."""
    if seen.phase in states.UPDATING and (report := _update_result(seen)):
        return report
    if seen.phase is Phase.FAILED and _not_updated(seen):
        return None
    finding = _shown(seen)
    if seen.health.healthy and _held_back(seen) and seen.phase in states.HELD_BY_CRITICAL_COMPONENTS:
        return None
    return states.report(seen, finding) if states.moves(seen.phase, finding) else None


def _shown(seen: Seen) -> Finding:
    """What the node shows now."""
    if seen.node is None:
        return Finding.NODE_MISSING
    if not seen.health.healthy:
        return Finding.NODE_UNHEALTHY
    last = seen.machine.status.last_operation
    joins = last.type in ("", OperationType.CREATE) and last.state != OperationState.SUCCESSFUL
    return Finding.JOINED if joins else Finding.RECOVERED


def _held_back(seen: Seen) -> bool:
    taints = seen.node.spec.taints if seen.node else ()
    return any(taint.key == names.CRITICAL_COMPONENTS_TAINT for taint in taints)


def _joining(seen: Seen) -> Plan:
    """Wait for the node to join: Pending when that lasts, Failed past the creation timeout."""
    if seen.now > seen.creation_deadline:
        return _tells(states.report(seen, Finding.NOT_JOINED), None, "it has not joined in time")
    left = seen.creation_deadline - seen.now + delays.JUST_PAST
    because = _why_not_joined(seen)
    if seen.phase is Phase.PENDING and not vm_incomplete(seen.machine):
        return Plan(wake=left, because=because)
    wait = seen.until_worth_reporting(since=seen.vm.ended)
    if wait > timedelta(0):
        return Plan(wake=min(wait, left), because=because)
    return _tells(states.report(seen, Finding.NODE_AWAITED), left, because)


def _why_not_joined(seen: Seen) -> str:
    if seen.node is None:
        return "its VM exists, its node has not joined"
    if seen.health.healthy:
        taint = names.CRITICAL_COMPONENTS_TAINT
        return f"its node is healthy, and its critical components are not ready (taint {taint})"
    return f"its node is not healthy yet: {seen.health.because}"


def _update_result(seen: Seen) -> Report | None:
    """What the agent on the node says of its update in place, where that is new."""
    if seen.node is None or not (said := updates.update_result(seen.node.metadata.labels)):
        return None
    finding = Finding.UPDATED if said == updates.UpdateResult.SUCCESSFUL else Finding.NOT_UPDATED
    why = seen.node.metadata.annotations.get(updates.UPDATE_FAILED_REASON_ANNOTATION, "")
    return states.report(seen, finding, why) if states.moves(seen.phase, finding) else None


def _not_updated(seen: Seen) -> bool:
    """Whether its node was taken for an update in place that did not succeed: however well the node is, it is
    cordoned and of an older template, so the machine is not saved by it. Its deployment's controller, or a
    user, lets go of the node by taking the candidate's label off.
    """
    if seen.node is None or updates.CANDIDATE_LABEL not in seen.node.metadata.labels:
        return False
    told = condition_of(seen.node.status.conditions, NodeConditionType.IN_PLACE_UPDATE)
    return told is not None and told.reason in updates.UNFINISHED


def _updating(seen: Seen) -> Plan:
    """Its node is being updated in place: wait for the agent's result until the time-out."""
    left = seen.due(seen.phase_since, seen.in_place_update_timeout) - seen.now
    if left >= timedelta(0):
        because = "its node is being updated in place"
        return Plan(wake=left + delays.JUST_PAST, because=because)
    report = states.report(seen, Finding.UPDATE_TIMEOUT)
    return _tells(report, None)


def _timed_by_health(seen: Seen) -> Plan:
    """Unknown, or not updated: Failed after the health timeout, unless too many others are being replaced."""
    if seen.machine.spec.disable_health_timeout:
        return Plan(because=f"it is {seen.phase.value}, and its health timeout is disabled")
    left = seen.due(seen.phase_since, seen.health_timeout) - seen.now
    if left >= timedelta(0):
        because = f"it is {seen.phase.value}; its health timeout runs"
        return Plan(wake=left + delays.JUST_PAST, because=because)
    name = seen.machine.metadata.name
    if held := held_by(seen.counts, seen.settings.replacement_limits):
        told = f'machine "{name}" couldn\'t be marked FAILED, {held}'
        warning = (EventReason.REPLACEMENT_HELD, told)  # sent once, although the numbers in it change
        topics = frozenset((EventReason.REPLACEMENT_HELD,))
        return Plan(wake=delays.POLL, because=told, warning=warning, topics=topics)
    report = states.report(seen, Finding.HEALTH_TIMEOUT)
    return _tells(report, None)
