"""Decide how a machine is deleted: deciders in one fixed order, each derived from what still exists.

Theory.      ``decide.DELETING`` is the order. A decider answers None when its part is done, else its plan;
             the first plan is performed. MCM remembers how far a deletion has come in the last sentence of
             ``lastOperation``; we look at the world instead: does a driver call run, are there pods, is the
             VM gone, is the node there? The sentences are written all the same, because MCM goes on from
             them where it takes over. A drain never blocks a worker: each pass evicts the pods that may go,
             and says when to look again.
Invariants.  A VM is deleted only after the pods of its node have left, their time has run out, the node has
             been silent or read-only for too long (``nodes.drain``), a user has forced the deletion, or the
             driver has reported that there is no VM. While the API server of the nodes does not answer or
             refuses to show pods, a machine whose time has not run out waits.
             The node is deleted after the VM, the finalizer removed after both. A machine whose VM is
             not on record keeps its finalizer until ``confirm_absent`` has passed since the last creation
             that may still be under way, and the driver has reported since that there is no VM.
             While a secret of its class is missing the driver is not called, and the machine waits for it.
             A machine that cannot have a VM waits for no driver, and one of which only that is unknown goes
             when a user forces it (``driver.life.plan``).
Called by    ``decide``.
"""

from dataclasses import replace
from datetime import timedelta

from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason, Phase
from kubewright.base import delays
from kubewright.base.clock import rfc3339
from kubewright.base.durations import format_duration
from kubewright.base.plan import AT_ONCE
from kubewright.driver.errors import REFUSALS, Code, DriverError, Trouble
from kubewright.driver.life.plan import State, VmPlan, Want
from kubewright.driver.life.seen import Verb
from kubewright.machines import node_marks
from kubewright.machines.machine import states
from kubewright.machines.machine.seen import (
    Call,
    Cordon,
    DeleteBootstrapToken,
    DeleteVolumeAttachments,
    Drain,
    Milestone,
    Plan,
    RemoveFinalizer,
    Report,
    Seen,
    SetDrainFailedCondition,
    SetTerminatingCondition,
    Step,
)
from kubewright.machines.machine.states import Finding
from kubewright.nodes import marks
from kubewright.nodes.drain.plan import DrainPlan, first_clauses

GETTING_STATUS = "Set machine status to termination. Now, getting VM Status"
DRAINING = "Initiate node drain"
DETACHING = "Delete Volume Attachments"
DELETING_VM = "Initiate VM deletion"
DELETING_NODE = "Initiate node object deletion"
RELEASING = "Initiate machine object finalizer removal"
"""The last sentence of ``lastOperation``, which names the step: MCM goes on from there."""

LOOK_FAILED_TEXT = "Error occurred with decoding machine error status while getting VM status"
_NOT_AGAIN = "without retry. machine code:"
_AFTER_LOOK = {
    Trouble.TRANSIENT: "with retry.",
    Trouble.EXHAUSTED: _NOT_AGAIN,
    Trouble.PERSISTENT: _NOT_AGAIN,
    Trouble.BROKEN: "without retry.",
}
_ABORTING = "VM deletion failed due to - {error}. Aborting operation"
_AFTER_DELETION = {
    Trouble.TRANSIENT: "VM deletion failed due to - {error}. However, will re-try in the next resync",
    Trouble.EXHAUSTED: _ABORTING,
    Trouble.PERSISTENT: _ABORTING,
    Trouble.BROKEN: "Error occurred while decoding machine error: {error}",
}
"""What the status says of a failed look and of a failed deletion: MCM's sentences. We try again
whatever they say."""


def await_call_in_flight(seen: Seen) -> Plan | None:
    """Wait for a driver call in flight, if it creates or looks for the VM: a delete must not overtake it."""
    vm = seen.vm_plan(Want.KNOWN)
    return _waiting(seen, GETTING_STATUS, vm.because) if vm.state is State.RUNNING else None


def delete_first_node(seen: Seen) -> Plan | None:
    """A late creation made a second VM after the recorded one was gone: drain and delete the first one's
    node before the second is recorded. Afterwards the machine would no longer name that node.
    """
    found, known = seen.vm.instance, seen.machine.spec.provider_id
    if found is None or not known or known == found.provider_id:
        return None
    return cordon(seen) or drain(seen) or delete_node(seen)


def identify_vm(seen: Seen) -> Plan | None:
    """Before a VM that a creation may have left is deleted, ask the driver for its node, to drain that."""
    vm = seen.vm_plan(Want.KNOWN)
    if vm.error is None:
        return _calling(seen, vm)
    failed = f"{LOOK_FAILED_TEXT}, aborting {_AFTER_LOOK[vm.error.meaning.trouble]} {vm.error}"
    text = f"{failed}. {_advice(seen, vm.error)}{GETTING_STATUS}"
    return _again(vm, deletion_blocked_report(text, _code(seen, vm.error)))


def wait_until_readable(seen: Seen) -> Plan | None:
    """Node or pods cannot be read: keep the VM until they can, or time runs out. Where there is no VM only
    the Node is in question: if the server refuses to show it, what our cache shows decides."""
    found, gone = seen.unread, seen.vm.settled(Verb.DELETE)
    if found is None or seen.drain_timed_out or seen.vm.running:
        return None
    if (gone and not found.unanswered) or (seen.vm.absent and not gone):
        return None
    text = f"{found.problem}. Will retry in next sync. {DELETING_NODE if gone else DRAINING}"
    wake, warning = min(found.wait, seen.drain_time_left), (EventReason.FAILED_READ, text)
    return Plan(report=deletion_blocked_report(text), wake=wake, because=found.problem, warning=warning)


def cordon(seen: Seen) -> Plan | None:
    """Cordon the node before its pods are listed, so that no new one is scheduled onto it."""
    if not _drainable(seen) or seen.node is None or seen.node.spec.unschedulable:
        return None
    return _with_step(Cordon(marks.cordon()), "its node should take no new pods")


def look_for_vm(seen: Seen) -> Plan | None:
    """Before waiting for pods of an unhealthy node, ask the driver whether its VM still exists: without a VM
    no kubelet ends them."""
    stuck = _drainable(seen) and seen.drain is not None and not seen.drain.done
    asked = seen.vm.verb is Verb.LOOK
    if not stuck or seen.health.healthy or asked or not seen.can_call:
        return None
    return Plan(
        (Call(Verb.LOOK),), because="its node is silent; the cloud is asked whether the VM still exists"
    )


def drain(seen: Seen) -> Plan | None:
    """Evict the pods, wait for them, and at last delete them.

    The node gets its ``Terminating`` condition here, not earlier, at the cordon: an empty node is deleted
    before it could be read.
    """
    if seen.node is None or not _drainable(seen) or seen.drain is None or seen.drain.done:
        return None
    plan, begins = seen.drain, None
    steps: list[Step] = []
    if mark := node_marks.terminating(seen.node, seen.terminating_reason, seen.wall):
        steps.append(SetTerminatingCondition(mark))
        begins = Milestone(EventReason.DRAINING, f"Draining node {seen.node.metadata.name}: {plan.because}")
    if plan.evict or plan.delete:
        steps.append(Drain(plan))
    report = _if_lasting(seen, _drain_report(seen, plan))
    failed = first_clauses(plan.failures) if report is not None else ""
    if not plan.forced and (mark := node_marks.drain_failed(seen.node, failed, seen.wall)):
        steps.append(SetDrainFailedCondition(mark))
    wake = min(plan.wake, delays.for_drain(seen.now - seen.deleted_at, seen.drains_at_once))
    if report is None or not plan.obstacles:
        return Plan(tuple(steps), wake, plan.because, report, milestone=begins)
    reason = EventReason.FAILED_DRAIN if plan.failed else EventReason.DRAIN_HELD
    warning = (reason.value, report.description.removesuffix(f". {DRAINING}"))
    because = f"{plan.because} ({plan.obstacles})"
    return Plan(tuple(steps), wake, because, report, warning, plan.topics, begins)


def detach_volumes(seen: Seen) -> Plan | None:
    """Wait until volumes are detached before the VM is deleted; a forced deletion deletes their
    VolumeAttachments."""
    if not _drainable(seen) or seen.node is None or not seen.attachments:
        return None
    if seen.forced:
        left = tuple(each for each in seen.attachments if not each.deleting)
        because = "the deletion is forced, so its volumes' attachments go"
        return _with_step(DeleteVolumeAttachments(left), because) if left else None
    wait = seen.drain_policy.until_detached(seen.drained_since or seen.now, seen.now)
    if wait is not None and wait <= timedelta(0):
        return None
    return _waiting(seen, DETACHING, f"{len(seen.attachments)} volumes are still attached", wait)


def move_volumes(seen: Seen) -> Plan | None:
    """Wait until the volumes of the last pod are attached to another node, so that the pod runs there; and
    until those are detached that have no VolumeAttachment."""
    if not _drainable(seen) or seen.drain is None or seen.forced or not seen.drain.moving:
        return None
    return _waiting(seen, DETACHING, first_clauses(seen.drain.moving.clauses), seen.drain.wake)


def delete_vm(seen: Seen) -> Plan | None:
    """Have the driver delete the VM, until it reports none and no late creation can bring one."""
    vm = seen.vm_plan(Want.GONE)
    match vm.state:
        case State.RUNNING if seen.vm.error is None:
            return _waiting(seen, DELETING_VM, vm.because)
        case State.RUNNING:  # the status tells of the error before
            return Plan(because=vm.because)
        case State.BLOCKED:
            return _blocked(seen)
    if vm.error is None:
        return _undrained(seen, _calling(seen, vm))
    failed = _AFTER_DELETION[vm.error.meaning.trouble].format(error=vm.error)
    text = f"{failed}. {_advice(seen, vm.error)}{DELETING_VM}"
    return _again(vm, deletion_blocked_report(text, _code(seen, vm.error)))


def delete_node(seen: Seen) -> Plan | None:
    """Delete the Node object once its VM is gone or left behind, and take MCM's finalizer off it."""
    if seen.node is None:
        return None
    step = node_marks.deletion(seen.node)
    if seen.node.metadata.deleting and step.finalizers is None:
        return None
    if not seen.vm.deleted:
        return _with_step(step, "its VM is gone or left behind, so its node goes")
    plan = _with_step(step, "its VM is gone, so its node goes")
    over = f"VM {seen.machine.spec.provider_id} is deleted; its node {step.name} goes"
    return replace(plan, milestone=Milestone(EventReason.VM_DELETED, over, event=False))


def remove_finalizer(seen: Seen) -> Plan | None:
    """VM and node are gone: delete a bootstrap token that may be left, then take the finalizer off."""
    vm = seen.machine.spec.provider_id
    token: tuple[Step, ...] = (DeleteBootstrapToken(),) if seen.has_token and not seen.has_joined else ()
    left = None
    if vm and not seen.vm.deleted:
        left = (EventReason.VM_LEFT_BEHIND, f"VM {vm} was not deleted: {seen.problem}")
    elif seen.left_in_doubt and names.force_deletion(seen.machine.metadata.labels):
        left = (EventReason.VM_LEFT_BEHIND, f"A VM may be left behind: {seen.problem or seen.vm.error}")
    over = Milestone(EventReason.DELETED, _last_message(seen))
    because = "nothing of it exists any more"
    return Plan((*token, RemoveFinalizer()), because=because, warning=left, milestone=over)


def _last_message(seen: Seen) -> str:
    """The message of the machine's last event."""
    vm, seconds = seen.machine.spec.provider_id, max(0, int((seen.now - seen.deleted_at).total_seconds()))
    if not vm:
        of_vm = "it is not known whether it had a VM" if seen.left_in_doubt else "it had no VM"
    elif seen.vm.deleted:
        of_vm = f"its VM {vm} is deleted"
    else:
        of_vm = f"its VM {vm} is left behind"
    return f"The machine is gone, {format_duration(timedelta(seconds=seconds))} after its deletion; {of_vm}"


def _drain_report(seen: Seen, plan: DrainPlan) -> Report:
    """The report of a drain. As upstream it is Failed when waiting will not help, and is tried again all the
    same."""
    if not plan.obstacles:
        return _processing(f"{plan.because}. {DRAINING}")
    at = rfc3339(seen.date_of(plan.force_at)) if plan.force_at else ""
    force = f"pods are deleted by force from {at} on" if at else ""
    why = "; ".join(part for part in (plan.obstacles, force) if part)
    if plan.failed:
        report = deletion_blocked_report(f"Drain failed due to - {why}. Will retry in next sync. {DRAINING}")
        return replace(report, exact=True)
    leaving = f"{plan.leaving} pods are leaving; " if plan.leaving else ""
    return _processing(f"Drain waits: {leaving}{why}. {DRAINING}")


def _drainable(seen: Seen) -> bool:
    """Whether pods are to leave the node first: it exists, its VM is neither being deleted nor gone, and the
    deletion does not skip the drain."""
    return (
        seen.node is not None
        and seen.vm.verb is not Verb.DELETE
        and not seen.vm.absent
        and not seen.skips_drain
    )


def _calling(seen: Seen, vm: VmPlan) -> Plan | None:
    """Call the driver, or wait while an unanswered creation may still bring a VM; None: neither."""
    if vm.state is State.DOUBTFUL:
        return _waiting(seen, GETTING_STATUS, vm.because, vm.wake)
    return Plan((Call(vm.call),), because=vm.because) if vm.call is not None else None


def _undrained(seen: Seen, plan: Plan | None) -> Plan | None:
    """The plan that begins the deletion of a VM, with a warning if nothing is known of the pods on it."""
    if plan is None or Call(Verb.DELETE) not in plan.steps or seen.unread is None or not _drainable(seen):
        return plan
    text = (
        f"Drain failed due to - {seen.unread.problem}. "
        "However, since it's a force deletion shall continue deletion of VM"
    )
    return replace(plan, warning=(EventReason.FAILED_DRAIN, text))


def _blocked(seen: Seen) -> Plan | None:
    """The driver cannot be called, so a machine that may have a VM stays until it can.

    While a secret is missing a machine with a known VM stays even if its deletion is forced: that is about
    pods. Without its class such a machine goes once a user forces its deletion, which leaves the VM behind.
    One of which nothing is known but that an earlier process may have made its VM waits until that would
    have shown.
    """
    if not seen.secret_missing and names.force_deletion(seen.machine.metadata.labels):
        return None
    text = f"VM deletion is blocked: {seen.problem}. {_way_out(seen)}. {DELETING_VM}"
    doubt = None if seen.secret_missing or seen.doubt_left <= timedelta(0) else seen.doubt_left
    return Plan(
        report=deletion_blocked_report(text, Code.Aborted.name),
        wake=doubt,
        because=seen.problem,
        warning=(EventReason.FAILED_DELETE_VM, text),
    )


_FORCE = f"{names.FORCE_DELETION_LABEL}=True"
_IF_NONE = f"if the cloud has no VM of this machine, label the machine {_FORCE}"


def _way_out(seen: Seen) -> str:
    """What a user may do about a driver that cannot be called."""
    if not seen.secret_missing:
        return f"Make it anew, or label the machine {_FORCE} to leave its VM behind"
    if seen.shows_vm:
        return "Make it anew: the VM may exist, and without its credentials it would stay"
    return f"Make it anew; or, {_IF_NONE}"


def _advice(seen: Seen, error: DriverError) -> str:
    """What a user may do about a driver that will fail again, as a sentence before the last one."""
    if not error.lasts:
        return ""
    mend = "Mend its MachineClass, its Secret, the VM in the cloud or what the driver runs with"
    if seen.shows_vm:
        return f"{mend}: its VM stays until the driver deletes it. " if error.refuses else ""
    return f"{mend}; or, {_IF_NONE}. "


def _code(seen: Seen, error: DriverError) -> str:
    """The code in the status. By a refusal there sets take a machine for one without a VM
    (``machineset.member``), if no VM is on record. So one that is not the driver's own is not told there, nor
    while something else shows a VM, or a creation of this process is in doubt. The description has it."""
    without = error.refuses and not seen.shows_vm and seen.vm.doubt is None
    hidden = error.code in REFUSALS and not (without or seen.machine.spec.provider_id)
    return Code.Aborted.name if hidden else error.code.name


def _again(vm: VmPlan, report: Report) -> Plan:
    """Tell of a failed call, and repeat it when its pause is over."""
    told = report.description
    warning = (EventReason.FAILED_DELETE_VM, told)
    if vm.call is not None:
        return Plan((Call(vm.call),), because=vm.because, report=report, warning=warning)
    return Plan(report=report, wake=vm.wake, because=told, warning=warning)


def _with_step(step: Step, because: str) -> Plan:
    return Plan((step,), AT_ONCE, because)


def _waiting(seen: Seen, doing: str, because: str, wake: timedelta | None = None) -> Plan:
    """Wait until an event wakes the machine, or for ``wake``; report it if it takes long."""
    told = because[0].upper() + because[1:]
    report = _if_lasting(seen, _processing(f"{told}. {doing}"))
    plan = Plan(wake=wake, because=because, report=report)
    return plan if report is not None else plan.sooner(seen.until_worth_reporting(since=seen.deleted_at))


def _if_lasting(seen: Seen, report: Report) -> Report | None:
    lasting = seen.until_worth_reporting(since=seen.deleted_at) <= timedelta(0)
    return report if lasting or seen.phase is Phase.TERMINATING else None


def _processing(text: str) -> Report:
    return states.row(Phase.TERMINATING, Finding.DELETION_GOES_ON).report(text)


def deletion_blocked_report(text: str, code: str = "") -> Report:
    return states.row(Phase.TERMINATING, Finding.DELETION_FAILS).report(text, code)
