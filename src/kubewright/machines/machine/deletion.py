"""Decide how a machine is taken down, in one order, each step derived from what still exists.

Theory.      DELETING is the order. Each phase answers None when its part is over, or the plan
             that it needs; the first that answers is carried out. Where the originals keep
             their place in a sentence, we look: is a call running, are there pods, is the VM
             gone, is the node there? A drain never holds a worker: each pass evicts what may go,
             and says when to look again.
Invariants.  No VM with pods on it is deleted before they left, their time ran out, or a person
             forced it. The node goes after the VM, the finalizer after both. A machine without a
             providerID is released only when every creation that may still be under way has had
             ``confirm_absent`` to show itself, and the cloud has denied it since.
Source       mcm.md §4.13 (order and texts), §5.7 (force).
Called by    ``decide``.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from kubewright.api.machine import names
from kubewright.api.machine.names import OperationState, OperationType, Phase
from kubewright.base.durations import format_duration
from kubewright.driver.errors import LONG, SHORT, Code
from kubewright.machines.machine.observe import Seen
from kubewright.machines.machine.steps import (
    Call,
    Cordon,
    DeleteNode,
    Drain,
    DropToken,
    MarkTerminating,
    Plan,
    Release,
    ReleaseVolumes,
    Report,
    Step,
    Verb,
)
from kubewright.nodes import marks

POLL = timedelta(seconds=2)
"""How soon a deletion looks again where nothing wakes it: pods that leave, volumes that detach."""

_SOON = frozenset((Code.Unknown, Code.DeadlineExceeded, Code.Aborted, Code.Unavailable))


def settle_creation(seen: Seen, _now: datetime) -> Plan | None:
    """A creation or look that runs comes to its end first: a delete must not overtake it."""
    if seen.vm.running and seen.vm.verb is not Verb.DELETE:
        return _waiting(seen, "Deletion waits for the cloud call in flight", wake=POLL)
    return None


def cordon(seen: Seen, _now: datetime) -> Plan | None:
    """No new pods, before the old ones are counted."""
    if not _drainable(seen) or seen.node is None or seen.node.spec.unschedulable:
        return None
    return _with_step(Cordon(marks.cordon()), "its node takes no new pods")


def look(seen: Seen, _now: datetime) -> Plan | None:
    """Before pods of a silent node are waited for: is there still a VM that could end them?"""
    stuck = _drainable(seen) and seen.drain is not None and not seen.drain.done
    if not stuck or seen.health.healthy or seen.vm.verb is not None or not seen.can_call:
        return None
    return Plan(
        (Call(Verb.LOOK),), because="its node is silent; the cloud is asked whether the VM still exists"
    )


def drain(seen: Seen, now: datetime) -> Plan | None:
    """The pods leave: asked first, then waited for, at last removed."""
    if not _drainable(seen) or seen.drain is None or seen.drain.done:
        return None
    plan = seen.drain
    steps: list[Step] = []
    if seen.node is not None and (mark := marks.terminating(seen.node, seen.terminating_reason, now)):
        steps.append(MarkTerminating(mark))
    if plan.evict or plan.delete:
        steps.append(Drain(plan))
    text = f"Draining node: {plan.because}. Initiate node drain"
    report = Report(Phase.TERMINATING, OperationType.DELETE, OperationState.PROCESSING, text)
    return Plan(tuple(steps), _if_lasting(seen, report), min(plan.wake, POLL), plan.because)


def release_volumes(seen: Seen, now: datetime) -> Plan | None:
    """Volumes detach before their VM goes; a forced deletion takes their attachments off itself."""
    if not _drainable(seen) or seen.node is None or not seen.attachments:
        return None
    if seen.forced:
        return _with_step(ReleaseVolumes(seen.attachments), "Delete Volume Attachments")
    if now - (seen.drained_since or now) < seen.settings.detach_timeout:
        return _waiting(seen, f"{len(seen.attachments)} volumes are still attached", wake=POLL)
    return None


def delete_vm(seen: Seen, now: datetime) -> Plan | None:
    """Ask the cloud to delete, until it has said that there is nothing, and can be believed."""
    vm = seen.vm
    if vm.running:
        return _waiting(seen, "the cloud is deleting the VM. Initiate VM deletion", wake=None)
    if vm.verb is Verb.DELETE and vm.error is None:
        return _doubtful(seen, now)
    if seen.problem and not seen.can_call:
        text = f"VM deletion is blocked: {seen.problem}. Initiate VM deletion"
        report = Report(Phase.TERMINATING, OperationType.DELETE, OperationState.FAILED, text)
        return Plan(report=report, because=seen.problem, warning=("FailedDeleteVM", text))
    if vm.verb is Verb.DELETE and vm.error is not None:
        return _delete_failed(seen, now)
    return Plan((Call(Verb.DELETE),), because="its VM may go")


def delete_node(seen: Seen, _now: datetime) -> Plan | None:
    """The Node object goes when nothing stands behind it any more."""
    if seen.node is None or seen.node.metadata.deleting:
        return None
    meta = seen.node.metadata
    return Plan(
        (DeleteNode(meta.name, meta.uid),), wake=timedelta(0), because="its VM is gone, so its node goes"
    )


def release(seen: Seen, _now: datetime) -> Plan | None:
    """Nothing is left: the token, then the finalizer."""
    if names.FINALIZER not in seen.machine.metadata.finalizers:
        return Plan(because="others hold it with finalizers of their own")
    token: tuple[Step, ...] = (DropToken(),) if seen.has_token else ()
    return Plan((*token, Release()), because="nothing of it exists any more")


Deciding = Callable[[Seen, datetime], Plan | None]
DELETING: tuple[Deciding, ...] = (
    settle_creation, cordon, look, drain, release_volumes, delete_vm, delete_node, release,
)  # fmt: skip


def _drainable(seen: Seen) -> bool:
    """Whether pods can still run there: the node exists, and the VM is not known to be gone."""
    gone = seen.vm.verb is Verb.DELETE or (seen.vm.settled(Verb.LOOK) and seen.vm.instance is None)
    return seen.node is not None and not gone


def _doubtful(seen: Seen, now: datetime) -> Plan | None:
    """The VM is gone; unless a creation nobody answered may still bring one."""
    began = seen.vm.began
    if seen.machine.spec.provider_id or seen.doubt_until is None or (began and began >= seen.doubt_until):
        return None
    if now < seen.doubt_until:
        wait = seen.doubt_until - now
        because = f"a creation may still be under way; the cloud is asked again in {format_duration(wait)}"
        return _waiting(seen, because, wake=wait)
    return Plan((Call(Verb.DELETE),), because="it makes sure that no late creation left a VM")


def _delete_failed(seen: Seen, now: datetime) -> Plan:
    error = seen.vm.error
    assert error is not None
    soon = error.code in _SOON
    again = (seen.vm.ended or now) + timedelta(seconds=(SHORT if soon else LONG).seconds)
    tail = "However, will re-try in the next resync" if soon else "Aborting operation"
    text = f"VM deletion failed due to - {error}. {tail}. Initiate VM deletion"
    report = Report(Phase.TERMINATING, OperationType.DELETE, OperationState.FAILED, text, error.code.name)
    if now >= again or seen.vm.inputs != seen.inputs:
        return Plan((Call(Verb.DELETE),), report, because="it tries again to delete the VM")
    return Plan(report=report, wake=again - now, because=text, warning=("FailedDeleteVM", text))


def _with_step(step: Step, because: str) -> Plan:
    return Plan((step,), wake=timedelta(0), because=because)


def _waiting(seen: Seen, because: str, wake: timedelta | None) -> Plan:
    report = Report(Phase.TERMINATING, OperationType.DELETE, OperationState.PROCESSING, because)
    wait = seen.until_worth_reporting(since=seen.deleted_at)
    plan = Plan(report=_if_lasting(seen, report), wake=wake, because=because)
    return plan if plan.report else Plan(wake=plan.sooner(wait), because=because)


def _if_lasting(seen: Seen, report: Report) -> Report | None:
    lasting = seen.until_worth_reporting(since=seen.deleted_at) <= timedelta(0)
    return report if lasting or seen.phase is Phase.TERMINATING else None
