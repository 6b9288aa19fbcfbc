"""Decide how a machine goes on after an API server has refused one of its writes for good. Pure.

Theory.      A write may fail for a moment (a conflict, a busy server): the runtime retries the pass. Or the
             server refuses it: the object would be invalid, RBAC does not allow it, a webhook denies it.
             The same write would be refused again, and a plan that stops at it would never get further.
             So a refusal is part of what is seen, like a node or a VM: the process remembers it for
             ``delays.REFUSED``, and decisions take it into account. ``RULES`` says of each step whether the
             machine goes on without it. Where it does not, its status says which write was refused, and its
             time-outs run on.
Invariants.  Every step has its row. Steps that keep a VM or a user's pods from being lost are not skipped:
             the finalizer before the driver is called, the record of a living machine's VM, the cordon
             before pods are evicted, the deletion of the node before the finalizer goes. A user who forces
             a deletion skips the last two; the end of the drain timeout skips the cordon, and, if the node's
             cluster does not answer, the deletion of the node.
             A write about the node of a machine in deletion that its cluster has not answered for long counts
             as refused, for ``delays.UNHEARD``.
Source       mcm.md §4.13, §5.7 (texts of a deletion). The original retries for ever and says nothing.
Called by    ``look`` (``remember``), ``decide`` (``allowed``, ``paced``), ``act``, ``reconciler``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason
from kubewright.base import delays
from kubewright.base.errors import KubewrightError
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.driver.errors import Code
from kubewright.kube.patches import Contested
from kubewright.machines.machine import steps
from kubewright.machines.machine.creation import creation_failed, is_late, until_late, vm_incomplete
from kubewright.machines.machine.deletion import DELETING_NODE, DRAINING, RELEASING, deletion_blocked_report
from kubewright.machines.machine.seen import Refused, Seen, Unread
from kubewright.machines.machine.steps import Plan, Step
from kubewright.wire.errors import Forbidden, is_refusal

GoesOn = Callable[[Seen], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of ``RULES``.

    ``doing``   what the step does, for messages
    ``living``  whether a machine that is not being deleted goes on without the step
    ``deleting`` whether a machine that is being deleted goes on without it
    ``ends``    the last sentence of ``lastOperation`` while a deletion waits for the step: MCM parses it
    ``event``   the reason of the warning event about the refusal
    """

    doing: str
    living: GoesOn
    deleting: GoesOn
    ends: str = ""
    event: EventReason = EventReason.FAILED_UPDATE


def _always(_seen: Seen) -> bool:
    return True


def _never(_seen: Seen) -> bool:
    return False


def _has_its_vm(seen: Seen) -> bool:
    """The VM is on record and known to be complete: the driver is not asked to create it again."""
    return seen.recorded and not vm_incomplete(seen.machine)


def _is_drain_timed_out(seen: Seen) -> bool:
    return seen.drain_timed_out


def _may_leave_node(seen: Seen) -> bool:
    """A user forces the deletion; or the node's cluster has not answered for long, and time has run out."""
    silent = any(isinstance(each.step, steps.DeleteNode) and each.unanswered for each in seen.refused)
    return names.force_deletion(seen.machine.metadata.labels) or (silent and seen.drain_timed_out)


STATUS = "write the machine's status"

RULES: Mapping[type[Step], Rule] = {
    steps.AddFinalizer: Rule("put finalizer and priority onto the machine", _has_its_vm, _always),
    steps.Call: Rule("read what a driver call needs", _always, _always),  # reads; errors end the call
    steps.Record: Rule("record the machine's VM", _never, _always),
    steps.DeleteMachine: Rule("delete the machine", _always, _always),
    steps.Annotate: Rule("annotate the machine", _always, _always),
    steps.UpdateVm: Rule("mark the machine before its VM is updated", _always, _always),
    steps.EndPreservation: Rule("take the expiry off the machine", _always, _always),
    steps.SetPreservationMarks: Rule("mark the node as preserved", _always, _always),
    steps.SetPreservedCondition: Rule("write the node's Preserved condition", _always, _always),
    steps.SyncNode: Rule(
        "bring the node in line with the machine", _always, _always, event=EventReason.FAILED_NODE_SYNC
    ),
    steps.SyncCapacity: Rule(
        "write the virtual capacity of the node", _always, _always, event=EventReason.FAILED_NODE_SYNC
    ),
    steps.Cordon: Rule("cordon the node", _always, _is_drain_timed_out, DRAINING),
    steps.SetUpdateCondition: Rule("write the node's InPlaceUpdate condition", _always, _always),
    steps.SetTerminatingCondition: Rule("write the node's Terminating condition", _always, _always),
    steps.SetDrainFailedCondition: Rule("write the node's DrainFailed condition", _always, _always),
    steps.Drain: Rule("evict pods", _always, _always),  # refused pod by pod: nodes.drain.session
    steps.DeleteVolumeAttachments: Rule("delete the node's VolumeAttachments", _always, _always),
    steps.DeleteNode: Rule("delete the node", _always, _may_leave_node, DELETING_NODE),
    steps.DeleteBootstrapToken: Rule("delete the machine's bootstrap token", _always, _always),
    steps.RemoveFinalizer: Rule("take the finalizer off the machine", _never, _never, RELEASING),
}
"""A refused step is sent again after ``REFUSED``, while it is still planned."""


def remember(step: Step | None, error: KubewrightError, now: datetime) -> Refused:
    """The refusal of a step, as a process remembers it; ``step`` None: the refusal of the status.

    An error that is no refusal: the target cluster has not answered for long.
    """
    doing = RULES[type(step)].doing if step is not None else STATUS
    if not is_refusal(error):
        problem = f"The target cluster does not answer, asked to {doing}: {error}"[:MESSAGE_CHARS]
        return Refused(step, problem, Code.Unavailable, now + delays.UNHEARD, unanswered=True)
    if isinstance(error, Contested):
        problem = f"It is not tried for now to {doing}: {error.steady}"[:MESSAGE_CHARS]
        return Refused(step, problem, Code.Aborted, now + timedelta(seconds=error.wait))
    code = Code.PermissionDenied if isinstance(error, Forbidden) else Code.InvalidArgument
    problem = f"The API server refused to {doing}: {error}"[:MESSAGE_CHARS]
    return Refused(step, problem, code, now + delays.REFUSED)


def unread(error: KubewrightError) -> Unread:
    """What is made of it that node or pods cannot be read, if time alone may change that."""
    if is_refusal(error):
        told, wait = f"The API server refused to show node or pods: {error}", delays.REFUSED
    else:
        told, wait = f"The target cluster does not answer, asked for node and pods: {error}", delays.UNHEARD
    return Unread(told[:MESSAGE_CHARS], wait, unanswered=not is_refusal(error))


def event_of(refused: Refused) -> EventReason:
    """The reason of the event about this refusal."""
    return RULES[type(refused.step)].event if refused.step is not None else EventReason.FAILED_UPDATE


def status_refused(seen: Seen) -> bool:
    """Whether the server refused the status not long ago: then only the status is not written."""
    return _refusal_of(None, seen) is not None


def allowed(plan: Plan, seen: Seen) -> Plan | None:
    """The plan without its refused steps; None when nothing is left of it, so the next decider is asked."""
    refusals = [(step, found) for step in plan.steps if (found := _refusal_of(step, seen)) is not None]
    if not refusals:
        return plan
    deleting = seen.machine.metadata.deleting
    for step, found in refusals:
        rule = RULES[type(step)]
        if not (rule.deleting if deleting else rule.living)(seen):
            return _held(seen, found, rule)
    refused = [step for step, _ in refusals]
    left = tuple(step for step in plan.steps if step not in refused)
    empty = not left and plan.report is None and not plan.wake
    begun = any(
        isinstance(step, steps.SetTerminatingCondition) for step in refused
    )  # so an earlier pass told it
    return None if empty else replace(plan, steps=left, milestone=None if begun else plan.milestone)


def paced(plan: Plan, seen: Seen) -> Plan:
    """The plan, with a wake-up for when the first refused write may be sent again.

    While the status itself is refused every pass finds something to report. So that passes do not follow each
    other without a pause, they come at least ``POLL`` apart in a deletion, else when the first refusal ends.
    """
    rests = [each.until - seen.now for each in seen.refused if seen.now < each.until]
    if not rests:
        return plan
    if status_refused(seen) and plan.report is not None and plan.wake is not None:
        pause = delays.POLL if seen.machine.metadata.deleting else min(rests)
        plan = replace(plan, wake=max(plan.wake, pause))
    return plan.sooner(min(rests))


def _held(seen: Seen, found: Refused, rule: Rule) -> Plan:
    """The machine waits until the server accepts this write: its status says so, and its time-outs run on."""
    if seen.machine.metadata.deleting:
        report = deletion_blocked_report(
            f"{found.problem}. Will retry in next sync. {rule.ends}", found.code.name
        )
        left = seen.drain_time_left
        return Plan(report=report, wake=left if left > timedelta(0) else None, because=found.problem)
    return Plan(
        report=creation_failed(seen, found.code, found.problem),
        wake=until_late(seen),
        because=found.problem,
        warning=(EventReason.MACHINE_FAILED, found.problem) if is_late(seen) else None,
    )


def _refusal_of(step: Step | None, seen: Seen) -> Refused | None:
    """The refusal of an equal step, while the process remembers it."""
    return next((each for each in seen.refused if seen.now < each.until and _same(each.step, step)), None)


def _same(one: Any, other: Any) -> bool:
    """Whether two steps ask for the same change, whatever version of the object they were planned from."""
    return type(one) is type(other) and _content(one) == _content(other)


def _content(step: Any) -> Any:
    patch = getattr(step, "patch", None)
    return _lasting(patch) if isinstance(patch, Mapping) else step


_FLEETING = frozenset(("resourceVersion", "timeAdded", "lastHeartbeatTime", "lastTransitionTime"))
"""Fields that differ between two patches although both ask for the same change."""


def _lasting(value: Any) -> Any:
    """A patch without the fields that only say when, or from which version, it was made."""
    if isinstance(value, Mapping):
        return {key: _lasting(each) for key, each in value.items() if key not in _FLEETING}
    return [_lasting(each) for each in value] if isinstance(value, list) else value
