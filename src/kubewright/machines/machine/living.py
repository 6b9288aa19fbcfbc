"""Decide what becomes of a machine with a VM: its phase, and updates in place of its node or VM. Pure.

Theory.      The phase is a function of three things: the phase before, what the node says now, and how long
             it has said so. ``states`` is the table of transitions, this file finds out what is seen. The two
             time-outs stand apart because only they need a clock, and they are looked at in every pass, so
             conditions that flap cannot postpone them.
             Replacements are limited (``machines.settings``): a machine beyond the limit stays ``Unknown``
             and is looked at again, and an event says why. A node that a user deleted counts as missing: its
             kubelet may register it again in time. While a cluster cannot be watched, no phase is decided
             from what it showed last; after that the time-outs begin anew (``Seen.due``), because nodes need
             time to report again.
             *Update of a node in place.* Three parties share a node by marks, each of which has one writer
             (``api.machine.names``): the controller of a deployment, or a user, selects it by labels; the
             machine's controller answers with the node's condition; the agent on the node waits for "ready",
             updates the node and labels it with the result. ``next_step`` finds the next reason from the
             condition's reason and the labels. Every reason is written alone, so a process that ends after
             any write is followed by one that reads how far the first came. The phase changes between
             "drained" and "ready": an update has begun, with its time-out, before the agent may touch the
             node. It ends by the result that the agent writes, or by a time-out: while it lasts the node's
             health says nothing about the machine.
             *Update of a VM that runs.* What VM and class say is compared in ``applied``; here is decided
             what comes of it. The update is marked on the machine, then the driver is called beside the
             workers; its answer is noted in one write, which takes the mark off. While the mark is there the
             driver is called, also if VM and class agree by now: the update before may have done a part. An
             error is repeated after the pause of its code, or at once when class or secrets have changed.
             Nothing else of the machine changes by it: its phase stays, its node is not drained, its set
             counts it as before. ``lastOperation`` is written where the call lasts, or fails, and when that
             is over; of most updates the annotations are the only trace, one write before and one after.
Invariants.  The node's health, and what is written on the node, go before updates. No node is ready for its
             update while pods that a drain awaits are on it. Once a selection is in the condition, taking the
             selected label off has no effect any more, as upstream; taking the candidate label off has. A
             machine that has not joined, or is to be replaced, is not updated. Unlike upstream an update that
             failed may be tried again: taking the result's label off makes the node a candidate anew.
             No VM is changed while the machine is being made or deleted, nor while its node is updated in
             place. The driver is not called before the mark is written, and never without class and secrets.
             Nor while a call of the process before may still be carried out: it would undo this one.
             Unlike upstream an Unknown machine is not made Running merely because its cluster can be watched
             again: it would count as available before its node has said that it is healthy.
Called by    ``decide``, once the VM is on record; ``look`` (``drains_for_update``, ``is_selected``).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from kubewright.api.conditions import condition_of
from kubewright.api.core import Node, NodeCondition
from kubewright.api.machine import names
from kubewright.api.machine.names import (
    EventReason,
    NodeConditionType,
    NotApplied,
    OperationState,
    OperationType,
    Phase,
    UpdateReason,
    UpdateResult,
)
from kubewright.base import delays
from kubewright.base.durations import time_left
from kubewright.base.plan import AT_ONCE
from kubewright.driver.answers import boot_failure, in_one_line
from kubewright.driver.errors import Code, DriverError, During
from kubewright.driver.hot import digest, merged, read, written
from kubewright.driver.life.seen import Verb
from kubewright.machines import node_marks
from kubewright.machines.machine import states
from kubewright.machines.machine.applied import NO_MARKS, Specs, against, named, on_record, update_marks
from kubewright.machines.machine.seen import (
    Annotate,
    Cordon,
    DeleteBootstrapToken,
    DeleteMachine,
    Drain,
    Milestone,
    Plan,
    Report,
    Seen,
    SetUpdateCondition,
    Step,
    SyncCapacity,
    SyncNode,
    UpdateVm,
    vm_incomplete,
)
from kubewright.machines.machine.states import Finding
from kubewright.machines.settings import held_by
from kubewright.nodes import marks


def wait_while_unreachable(seen: Seen) -> Plan | None:
    """While a cluster cannot be watched its cache is old: create no VM, fail no machine."""
    if not seen.unreachable:
        return None
    return Plan(wake=delays.UNHEARD, because=f"the {seen.unreachable} cluster cannot be watched")


def delete_when_triggered(seen: Seen) -> Plan | None:
    """Delete the machine, as ``kubectl delete machine`` would, once a user has annotated its node.

    It is ignored where the node template carries the annotation too: the controller would copy it onto the
    node of every replacement, and delete each of them as soon as its node has joined.
    """
    if seen.node is None or not names.deletion_triggered(seen.node.metadata.annotations):
        return None
    if names.deletion_triggered(seen.machine.spec.node_template.metadata.annotations):
        return None
    name = seen.node.metadata.name
    because = f'node {name} is annotated with {names.TRIGGER_DELETION_ANNOTATION}: "true"'
    return Plan((DeleteMachine(f"The machine is deleted: {because}"),), because=because)


LACKS = "; the node lacks what the machine says of it"


def follow_node(seen: Seen) -> Plan:
    """One pass over a machine whose VM is on record."""
    plan = _decide_phase(seen)
    report, because = plan.report, plan.because
    steps: list[Step] = []
    if seen.node is not None and (lacks := _node_steps(seen, seen.node, report)):
        steps += lacks
        because += LACKS
    joined = report is not None and report.phase is Phase.RUNNING and report.type is OperationType.CREATE
    if joined and seen.has_token:
        steps.append(DeleteBootstrapToken())
    return replace(plan, steps=tuple(steps), because=because, milestone=_milestone(seen, report))


def _node_steps(seen: Seen, node: Node, report: Report | None) -> list[Step]:
    """What the node lacks. The taint of an instance that is not ready goes when the machine becomes Running:
    until then initialization may be outstanding, and no pod should come (NOD-03).
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
    if report is None or report.phase not in told or report.state is OperationState.FAILED:
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


BOOT_GRACE = timedelta(minutes=2)
"""How long after its boot was said to have failed a VM may still become a node."""


def _joining(seen: Seen) -> Plan:
    """Wait for the node to join: Pending when that lasts, Failed past the creation timeout."""
    if seen.now > seen.creation_deadline:
        return _tells(states.report(seen, Finding.NOT_JOINED), None, "it has not joined in time")
    left = seen.creation_deadline - seen.now + delays.JUST_PAST
    because = _why_not_joined(seen)
    if seen.phase is Phase.PENDING and not vm_incomplete(seen.machine):
        return _booting(seen, left, because)
    wait = seen.until_worth_reporting(since=seen.vm.ended)
    if wait > timedelta(0):
        return Plan(wake=min(wait, left), because=because)
    return _tells(states.report(seen, Finding.NODE_AWAITED), left, because)


def _booting(seen: Seen, left: timedelta, because: str) -> Plan:
    """Its VM boots, or runs and is no node yet. What has failed is told at once; the machine is given up only
    after a while, since commands of user data may fail on a node that joins all the same."""
    last = seen.machine.status.last_operation
    told = last.type == OperationType.CREATE and last.state == OperationState.FAILED
    if why := boot_failure(seen.console):
        since = (seen.begun.boot_since or last.last_update_time) if told else None
        grace = seen.due(since or seen.now, BOOT_GRACE) - seen.now
        if grace < timedelta(0):
            return _tells(states.report(seen, Finding.BOOT_GIVEN_UP, why), AT_ONCE)
        report = states.report(seen, Finding.BOOT_FAILED, why)
        warning = (EventReason.BOOT_FAILED, in_one_line(report.description))
        wake = min(left, grace + delays.JUST_PAST, delays.PREFLIGHT)
        return Plan(wake=wake, because=f"its boot has failed: {why}", report=report, warning=warning)
    if seen.node is None and (first := _until_first_look(seen)) > timedelta(0):
        return Plan(wake=min(left, first), because=because)
    if not seen.console:
        return Plan(wake=left, because=because)
    again = states.report(seen, Finding.NODE_AWAITED) if told else None  # it was booted anew
    return Plan(wake=min(left, delays.PREFLIGHT), because=because, report=again)


def awaits_boot(seen: Seen) -> bool:
    """Whether its VM has run for a while and is no node yet: its console may say why."""
    boots = seen.phase is Phase.PENDING and seen.settings.joins and not vm_incomplete(seen.machine)
    waits = boots and seen.node is None and not seen.machine.metadata.deleting and not seen.unreachable
    return waits and _until_first_look(seen) <= timedelta(0)


def _until_first_look(seen: Seen) -> timedelta:
    """How long its console is not looked at yet: most VMs become nodes before anything could be wrong."""
    return seen.phase_since + delays.PREFLIGHT - seen.now


def _why_not_joined(seen: Seen) -> str:
    if seen.node is None:
        return "its VM exists, its node has not joined"
    if seen.health.healthy:
        taint = names.CRITICAL_COMPONENTS_TAINT
        return f"its node is healthy, and its critical components are not ready (taint {taint})"
    return f"its node is not healthy yet: {seen.health.because}"


def _update_result(seen: Seen) -> Report | None:
    """What the agent on the node says of its update in place, where that is new."""
    if seen.node is None or not (said := names.update_result(seen.node.metadata.labels)):
        return None
    finding = Finding.UPDATED if said == names.UpdateResult.SUCCESSFUL else Finding.NOT_UPDATED
    why = seen.node.metadata.annotations.get(names.UPDATE_FAILED_REASON_ANNOTATION, "")
    return states.report(seen, finding, why) if states.moves(seen.phase, finding) else None


def _not_updated(seen: Seen) -> bool:
    """Whether its node was taken for an update in place that did not succeed: however well the node is, it is
    cordoned and of an older template, so the machine is not saved by it. Its deployment's controller, or a
    user, lets go of the node by taking the candidate's label off.
    """
    if seen.node is None or names.CANDIDATE_LABEL not in seen.node.metadata.labels:
        return False
    told = condition_of(seen.node.status.conditions, NodeConditionType.IN_PLACE_UPDATE)
    return told is not None and told.reason in names.UNFINISHED


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
    found = next_step(seen, seen.node)
    if found is None:
        return None
    health = follow_node(seen)
    if health.report is not None:
        return None
    plan = replace(found, steps=(*health.steps, *found.steps))
    return plan.sooner(health.wake)


def next_step(seen: Seen, node: Node) -> Plan | None:
    """The next step for this node by its labels, its condition and its pods; None: nothing is to be done."""
    reason = reason_in(node.status.conditions)
    if told := _labelled(seen, node, reason):
        return _says(seen, node, told)
    if names.CANDIDATE_LABEL not in node.metadata.labels:
        return None
    if reason == UpdateReason.SELECTED:
        return _drain_for_update(seen, node)
    if reason == UpdateReason.DRAINED:
        return _begin_update(seen, node)
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


def _drain_for_update(seen: Seen, node: Node) -> Plan | None:
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


def _begin_update(seen: Seen, node: Node) -> Plan:
    """The phase first, and then the condition by which the agent begins."""
    if not states.moves(seen.phase, Finding.UPDATE_BEGINS):
        return _says(seen, node, UpdateReason.READY)
    report = states.report(seen, Finding.UPDATE_BEGINS)
    told = Milestone(EventReason.UPDATING_IN_PLACE, report.description)
    return Plan(wake=AT_ONCE, because=report.description, report=report, milestone=told)


ANOTHER_DRIVER = timedelta(minutes=10)
"""When a driver is asked again what it can change: one in another process may be of another version then."""


def update_vm(seen: Seen) -> Plan | None:
    """The next step of an update of the VM; None: there is none, or something else goes first."""
    specs = seen.specs
    if specs is None or seen.phase not in states.CHANGEABLE or not seen.recorded:
        return None
    found = _next_change(seen, specs)
    if found is None or update_in_place(seen) is not None:
        return None
    health = follow_node(seen) if seen.settings.joins else Plan(because="its VM exists")
    if health.report is not None:
        return None
    because = found.because if found.steps or found.report else f"{health.because}; {found.because}"
    return replace(found, steps=(*health.steps, *found.steps), because=because).sooner(health.wake)


def _next_change(seen: Seen, specs: Specs) -> Plan | None:
    vm, why_not = seen.vm, against(specs)
    if vm.running:
        return _while_changing(seen) if vm.verb is Verb.UPDATE else None
    if specs.in_flight and vm.settled(Verb.UPDATE) and specs.marked in ("", _hash(vm.applied)):
        return _changed(seen, specs)
    if specs.adopts and not specs.unknown:
        return _adopted(specs)
    if specs.unknown:
        return Plan(wake=delays.UNHEARD, because=specs.unknown)
    if why_not is not None and (why_not.kind is not NotApplied.FIXED_FIELDS or not specs.due):
        changes_by_itself = why_not.kind in (NotApplied.FIXED_FIELDS, NotApplied.NO_UPDATES)
        return Plan(wake=ANOTHER_DRIVER if changes_by_itself else None, because=why_not.told)
    if not specs.due or specs.hot is None:
        return None
    if not seen.can_call:
        return Plan(because=f"its VM cannot be updated: {seen.problem}")
    if specs.settled_at is not None and specs.settled_at > seen.now:
        left = specs.settled_at - seen.now + delays.JUST_PAST
        return Plan(wake=left, because="another process may have begun an update of its VM, which is awaited")
    if error := vm.failed(Verb.UPDATE):
        return _after_failed_change(seen, specs, error)
    return _begin_change(specs)


def _begin_change(specs: Specs) -> Plan:
    reaches = tuple(each for each in specs.differs if each not in specs.fixed)
    what = named(reaches) if reaches else "what its class says"
    begins = Milestone(EventReason.UPDATING_VM, f"The driver is asked to give the VM {what}", event=False)
    because = f"its VM is to have {what}"
    if specs.in_flight:
        because = "an update of its VM was begun, and is not known to be done"
    step = UpdateVm({"annotations": update_marks(specs)}, specs.goal, specs.before)
    return Plan((step,), because=because, milestone=begins)


def _while_changing(seen: Seen) -> Plan:
    """The driver works: that is told when it lasts."""
    because = "its VM is being updated"
    wait = seen.until_worth_reporting(since=seen.vm.began, after=seen.settings.report_creation_after)
    if wait > timedelta(0):
        return Plan(wake=wait, because=because)
    if not states.moves(seen.phase, Finding.VM_CHANGES):
        return Plan(because=because)
    report = states.report(seen, Finding.VM_CHANGES)
    told = Milestone(EventReason.UPDATING_VM, report.description)
    return Plan(because=because, report=report, milestone=told)


def _changed(seen: Seen, specs: Specs) -> Plan:
    """Note what the VM has by now, and take the marks off, in one write. That its node was updated in place
    meanwhile is noted after it (``_adopted``)."""
    of = "" if specs.adopts else specs.last_of or specs.of
    noted = {**on_record(seen.vm.applied, of), **NO_MARKS}
    last = seen.machine.status.last_operation
    told = last.type == OperationType.UPDATE and last.state != OperationState.SUCCESSFUL
    report = None
    if told and states.moves(seen.phase, Finding.VM_CHANGED):
        report = states.report(seen, Finding.VM_CHANGED)
    done = Milestone(EventReason.VM_UPDATED, "The VM has what its class says", event=report is not None)
    return Plan(
        (Annotate({"annotations": noted}),), because="its VM was updated", report=report, milestone=done
    )


def _adopted(specs: Specs) -> Plan:
    """Its node was updated in place, to what its new class says: but for what only the driver can change. If
    what it had of that cannot be read, it is not known."""
    known = None if specs.last is None else written(merged(specs.wanted, specs.last, specs.hot or ()))
    noted = Annotate({"annotations": on_record(known, specs.of)})
    return Plan((noted,), because=f"its node was updated in place to class {specs.of}")


def _after_failed_change(seen: Seen, specs: Specs, error: DriverError) -> Plan:
    """Repeat it after its pause; a driver that says only now that it updates no VM has done nothing."""
    changed = seen.vm.inputs != seen.inputs
    if error.code is Code.Unimplemented and error.refuses and not changed:
        because = "its driver changes no VM that runs"
        steps = (Annotate({"annotations": NO_MARKS}),) if specs.marked else ()
        return Plan(steps, because=because)
    left = (seen.vm.ended or seen.now) + error.pause(During.UPDATING) - seen.now
    if left <= timedelta(0) or changed:
        return _begin_change(specs)
    because = f"the update of its VM failed ({error.code.name}); next try in {time_left(left)}"
    if not error.begun or not states.moves(seen.phase, Finding.VM_NOT_CHANGED):
        return Plan(wake=left, because=because)
    text = f"Cloud provider message - {error}"
    report = states.report(seen, Finding.VM_NOT_CHANGED, text, error.code.name)
    return Plan(wake=left, because=because, report=report, warning=(EventReason.FAILED_UPDATE_VM, text))


def _hash(applied: str) -> str:
    return digest(read(applied) or {})
