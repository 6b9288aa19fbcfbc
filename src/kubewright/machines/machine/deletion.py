"""Decide how a machine is taken down, in one order, each step derived from what still exists.

Theory.      DELETING is the order. Each phase answers None when its part is over, or the plan
             that it needs; the first that answers is carried out. Where the originals keep
             their place in a sentence, we look: is a call running, are there pods, is the VM
             gone, is the node there? The sentences are written all the same, and end as theirs do,
             because others read them. A drain never holds a worker: each pass evicts what may go,
             and says when to look again.
Invariants.  No VM with pods on it is deleted before they left, their time ran out, or a person
             forced it. The node goes after the VM, the finalizer after both. A machine whose VM is
             not on record is released only when every creation that may still be under way has had
             ``confirm_absent`` to show itself, and the cloud has denied it since, and not long ago.
Source       mcm.md §4.13 (order and texts), §5.7 (force); defects 2, 4, 25, 38 of §19 are not copied.
Called by    ``decide``.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason, OperationState, OperationType, Phase
from kubewright.base.clock import rfc3339
from kubewright.base.durations import format_duration
from kubewright.driver.errors import LONG, MEDIUM, SHORT
from kubewright.machines.machine.creation import record_vm
from kubewright.machines.machine.observe import Seen
from kubewright.machines.machine.steps import (
    Call,
    Cordon,
    DeleteNode,
    Drain,
    DropToken,
    MarkTerminating,
    Milestone,
    Plan,
    Release,
    ReleaseVolumes,
    Report,
    Step,
    Verb,
)
from kubewright.nodes import marks
from kubewright.nodes.drain.plan import DrainPlan

SOONEST, RAREST = timedelta(seconds=1), timedelta(seconds=10)
"""How often the pods of a draining node are looked at: the longer it takes, the rarer."""

GETTING_STATUS = "Set machine status to termination. Now, getting VM Status"
DRAINING = "Initiate node drain"
DETACHING = "Delete Volume Attachments"
DELETING_VM = "Initiate VM deletion"
DELETING_NODE = "Initiate node object deletion"
RELEASING = "Initiate machine object finalizer removal"
"""How a description ends, by what is being done: MCM goes on from there (mcm.md §4.13)."""

UNSURE = "Error occurred with decoding machine error status while getting VM status"


def settle_creation(seen: Seen, _now: datetime) -> Plan | None:
    """A creation or look that runs comes to its end first: a delete must not overtake it."""
    if seen.vm.running and seen.vm.verb is not Verb.DELETE:
        return _waiting(seen, GETTING_STATUS, "it waits for the cloud call in flight")
    return None


def bury_the_first(seen: Seen, now: datetime) -> Plan | None:
    """A late creation has put another VM in the place of one that is gone: the node of the first is drained
    and goes before the second is recorded, since nobody would know afterwards whose it was.
    """
    found, known = seen.vm.instance, seen.machine.spec.provider_id
    if found is None or not known or known == found.provider_id:
        return None
    return cordon(seen, now) or drain(seen, now) or delete_node(seen, now)


def identify(seen: Seen, now: datetime) -> Plan | None:
    """Before a VM that may have been made is deleted: which node has it? It must be drained too.

    A deletion by name would find a VM that the cloud did not show yet, and its pods with it: so a first no
    is not enough, and an error is no answer.
    """
    if seen.recorded or seen.doubt_until is None or not seen.can_call:
        return None
    if seen.vm.verb in (None, Verb.ENSURE):
        return Plan((Call(Verb.LOOK),), because="the cloud is asked whether there is a VM")
    if (error := seen.vm.failed(Verb.LOOK)) is None:
        return _doubtful(seen, now) if seen.vm.absent and not seen.vm.deleted else None
    how = "with retry." if error.retry == SHORT else "without retry. machine code:"
    text = f"{UNSURE}, aborting {how} {error}. {GETTING_STATUS}"
    return _again(seen, now, Call(Verb.LOOK), deletion_failed(text, error.code.name))


def read(seen: Seen, _now: datetime) -> Plan | None:
    """Nobody knows whether pods are left: the VM stays until they can be looked at, or need not be."""
    if not seen.unread or seen.out_of_patience or seen.vm.running:
        return None
    text = f"{seen.unread}. Will retry in next sync. {DRAINING}"
    wake = min(timedelta(seconds=MEDIUM.seconds), seen.drain_timeout - (seen.now - seen.deleted_at))
    return Plan(
        report=deletion_failed(text), wake=wake, because=seen.unread, warning=(EventReason.FAILED_READ, text)
    )


def cordon(seen: Seen, _now: datetime) -> Plan | None:
    """No new pods, before the old ones are counted."""
    if not _drainable(seen) or seen.node is None or seen.node.spec.unschedulable:
        return None
    return _with_step(Cordon(marks.cordon()), "its node should take no new pods")


def look(seen: Seen, _now: datetime) -> Plan | None:
    """Before pods of a silent node are waited for: is there still a VM that could end them?"""
    stuck = _drainable(seen) and seen.drain is not None and not seen.drain.done
    asked = seen.vm.verb is Verb.LOOK
    if not stuck or seen.health.healthy or asked or not seen.can_call:
        return None
    return Plan(
        (Call(Verb.LOOK),), because="its node is silent; the cloud is asked whether the VM still exists"
    )


def drain(seen: Seen, now: datetime) -> Plan | None:
    """The pods leave: asked first, then waited for, at last removed.

    The node is marked ``Terminating`` only then: of an empty node nobody would read it in time.
    """
    if not _drainable(seen) or seen.drain is None or seen.drain.done:
        return None
    plan, begins = seen.drain, None
    steps: list[Step] = []
    if seen.node is not None and (mark := marks.terminating(seen.node, seen.terminating_reason, now)):
        steps.append(MarkTerminating(mark))
        begins = Milestone(EventReason.DRAINING, f"Draining node {seen.node.metadata.name}: {plan.because}")
    if plan.evict or plan.delete:
        steps.append(Drain(plan))
    report = _if_lasting(seen, _drain_report(plan))
    wake = min(plan.wake, _patience(seen))
    if report is None or not plan.obstacles:
        return Plan(tuple(steps), report, wake, plan.because, milestone=begins)
    reason = EventReason.FAILED_DRAIN if plan.failed else EventReason.DRAIN_HELD
    warning = (reason.value, report.description.removesuffix(f". {DRAINING}"))
    because = f"{plan.because} ({plan.obstacles})"
    return Plan(tuple(steps), report, wake, because, warning, plan.topics, begins)


def release_volumes(seen: Seen, now: datetime) -> Plan | None:
    """Volumes detach before their VM goes; a forced deletion takes their attachments off itself."""
    if not _drainable(seen) or seen.node is None or not seen.attachments:
        return None
    if seen.forced:
        return _with_step(ReleaseVolumes(seen.attachments), DETACHING)
    left = (seen.drained_since or now) + seen.settings.detach_timeout - now
    if left <= timedelta(0):
        return None
    return _waiting(seen, DETACHING, f"{len(seen.attachments)} volumes are still attached", left)


def delete_vm(seen: Seen, now: datetime) -> Plan | None:
    """Ask the cloud to delete, until it has said that there is nothing, and can be believed."""
    vm = seen.vm
    if vm.running:
        because = "the cloud is deleting the VM"
        return _waiting(seen, DELETING_VM, because) if vm.error is None else Plan(because=because)
    if vm.deleted and vm.error is None:
        return _doubtful(seen, now)
    if not seen.can_call:
        return _without_class(seen)
    if error := vm.failed(Verb.DELETE):
        tail = "However, will re-try in the next resync" if error.retry == SHORT else "Aborting operation"
        text = f"VM deletion failed due to - {error}. {tail}. {DELETING_VM}"
        unknown = not seen.recorded and seen.doubt_until is not None  # it may have come since we looked
        again = Call(Verb.LOOK if unknown else Verb.DELETE)
        return _again(seen, now, again, deletion_failed(text, error.code.name))
    return Plan((Call(Verb.DELETE),), because="its VM may go")


def delete_node(seen: Seen, _now: datetime) -> Plan | None:
    """The Node object goes when nothing stands behind it any more; MCM's finalizer holds it no longer."""
    if seen.node is None or (seen.node.metadata.deleting and not _held(seen.node.metadata.finalizers)):
        return None
    meta = seen.node.metadata
    left = names.without_finalizer(meta.finalizers, names.NODE_FINALIZER)
    plan = _with_step(
        DeleteNode(meta.name, meta.uid, tuple(left) if _held(meta.finalizers) else None),
        "its VM is gone, so its node goes",
    )
    over = f"VM {seen.machine.spec.provider_id} is deleted; its node {meta.name} goes"
    return replace(plan, milestone=Milestone(EventReason.VM_DELETED, over, event=False))


def release(seen: Seen, _now: datetime) -> Plan | None:
    """Nothing is left: the token, then the finalizer. A machine that was up has used its token."""
    used, vm = seen.phase in (Phase.RUNNING, Phase.UNKNOWN), seen.machine.spec.provider_id
    token: tuple[Step, ...] = (DropToken(),) if seen.has_token and not used else ()
    left = (
        (EventReason.VM_LEFT_BEHIND, f"VM {vm} was not deleted: {seen.problem}")
        if vm and not seen.vm.deleted
        else None
    )
    over = Milestone(EventReason.DELETED, _farewell(seen))
    because = "nothing of it exists any more"
    return Plan((*token, Release()), because=because, warning=left, milestone=over)


def _farewell(seen: Seen) -> str:
    """What the last event of a machine says."""
    vm, took = seen.machine.spec.provider_id, (seen.now - seen.deleted_at) // timedelta(seconds=1)
    of_vm = f"its VM {vm} is " + ("deleted" if seen.vm.deleted else "left behind") if vm else "it had no VM"
    return (
        f"The machine is gone, {format_duration(timedelta(seconds=max(0, took)))} after its deletion; {of_vm}"
    )


def _drain_report(plan: DrainPlan) -> Report:
    """What is told of a drain. Upstream calls it failed when waiting will not help, and tries again all
    the same (mcm.md §5.4, §5.7)."""
    if not plan.obstacles:
        return _processing(f"{plan.because}. {DRAINING}")
    force = f"pods are deleted by force from {rfc3339(plan.force_at)} on" if plan.force_at else ""
    why = "; ".join(part for part in (plan.obstacles, force) if part)
    if plan.failed:
        report = deletion_failed(f"Drain failed due to - {why}. Will retry in next sync. {DRAINING}")
        return replace(report, exact=True)
    leaving = f"{plan.leaving} pods are leaving; " if plan.leaving else ""
    return _processing(f"Drain waits: {leaving}{why}. {DRAINING}")


Deciding = Callable[[Seen, datetime], Plan | None]
DELETING: tuple[Deciding, ...] = (
    settle_creation, bury_the_first, record_vm, identify, read, cordon, look, drain, release_volumes,
    delete_vm, delete_node, release,
)  # fmt: skip


def _drainable(seen: Seen) -> bool:
    """Whether pods can still run there: the node exists, and the VM is not known to be gone."""
    return seen.node is not None and seen.vm.verb is not Verb.DELETE and not seen.vm.absent


def _doubtful(seen: Seen, now: datetime) -> Plan | None:
    """The cloud knows of no VM; unless a creation nobody answered may still bring one, or has since."""
    if seen.doubt_until is None:
        return None
    if (left := seen.doubt_until - now) > timedelta(0):
        because = f"a creation may still be under way; the cloud is asked again in {format_duration(left)}"
        return _waiting(seen, GETTING_STATUS, because, left)
    began, ended = seen.vm.began, seen.vm.ended
    if began and ended and began >= seen.doubt_until and ended >= now - seen.settings.confirm_absent:
        return None
    verb = Verb.LOOK if seen.can_call else Verb.DELETE
    return Plan((Call(verb),), because="it makes sure that no late creation left a VM")


def _without_class(seen: Seen) -> Plan | None:
    """No class, no call. A VM that is known of keeps its machine, unless a person says to leave it."""
    known = seen.machine.spec.provider_id or seen.vm.instance or seen.vm.doubt
    if not known or names.force_deletion(seen.machine.metadata.labels):
        return None
    text = f"VM deletion is blocked: {seen.problem}. {DELETING_VM}"
    return Plan(
        report=deletion_failed(text), because=seen.problem, warning=(EventReason.FAILED_DELETE_VM, text)
    )


def _again(seen: Seen, now: datetime, call: Call, report: Report) -> Plan:
    """Repeat a failed call when it is time, or when class or secret changed (mcm.md §3.4)."""
    error, late = seen.vm.error, MEDIUM if seen.vm.verb is Verb.LOOK else LONG
    pause = SHORT if error is not None and error.retry == SHORT else late
    wait = (seen.vm.ended or now) + timedelta(seconds=pause.seconds) - now
    if wait <= timedelta(0) or seen.vm.inputs != seen.inputs:
        return Plan((call,), report, because="it tries again")
    return Plan(
        report=report,
        wake=wait,
        because=report.description,
        warning=(EventReason.FAILED_DELETE_VM, report.description),
    )


def _held(finalizers: tuple[str, ...] | list[str]) -> bool:
    return names.NODE_FINALIZER in finalizers


def _with_step(step: Step, because: str) -> Plan:
    return Plan((step,), wake=timedelta(0), because=because)


def _patience(seen: Seen) -> timedelta:
    return min(max((seen.now - seen.deleted_at) / 8, SOONEST), RAREST)


def _waiting(seen: Seen, doing: str, because: str, wake: timedelta | None = None) -> Plan:
    """Wait for what wakes us by itself, or until ``wake``; say so if it takes long."""
    told = because[0].upper() + because[1:]
    report = _if_lasting(seen, _processing(f"{told}. {doing}"))
    plan = Plan(report=report, wake=wake, because=because)
    if report is not None:
        return plan
    return Plan(wake=plan.sooner(seen.until_worth_reporting(since=seen.deleted_at)), because=because)


def _if_lasting(seen: Seen, report: Report) -> Report | None:
    lasting = seen.until_worth_reporting(since=seen.deleted_at) <= timedelta(0)
    return report if lasting or seen.phase is Phase.TERMINATING else None


def _processing(text: str) -> Report:
    return Report(Phase.TERMINATING, OperationType.DELETE, OperationState.PROCESSING, text)


def deletion_failed(text: str, code: str = "") -> Report:
    return Report(Phase.TERMINATING, OperationType.DELETE, OperationState.FAILED, text, code)
