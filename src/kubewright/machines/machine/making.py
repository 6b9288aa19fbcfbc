"""Decide how a machine gets its VM, and when the VM is recorded on the machine.

Theory.      The driver is asked to ensure the VM when none is on record, or when the last attempt failed.
             ``Call(ENSURE)`` finds or creates it; the answer stays in ``seen.vm`` until providerID and node
             name are on the machine. A failed call makes the machine ``CrashLoopBackOff``; it is repeated
             after the pause of the error's code, or at once when the class or its secret has changed. Past
             the creation timeout the machine is ``Failed``, and its set replaces it. A machine whose node is
             healthy does not fail because of a call: pods may run there, so the call is repeated until it
             succeeds. (``living`` gives up one whose critical components are not ready in time.)
             While a call lasts the machine is Pending, and its status says since when the driver has not
             answered; ``timeoutActive`` stays false until the driver has said that the VM is complete.
             A Failed machine that no set replaces goes on trying while its VM is not on record, and stays
             Failed until its node is healthy.
             What a new VM has of its class is noted in the write that records it, so that it need not be
             updated (``living``); of one that was found, or of which another process may have asked, it
             is not known.
Invariants.  The driver is called only after our finalizer is on the machine, and only while machine, class
             and secrets are valid.
Called by    ``decide``. Continues in ``living`` once the VM is on record.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason, Phase
from kubewright.api.meta import with_finalizer
from kubewright.base import delays
from kubewright.base.durations import time_left
from kubewright.base.plan import AT_ONCE, soonest
from kubewright.driver.errors import Code, DriverError
from kubewright.driver.life.plan import State, VmPlan, Want
from kubewright.driver.life.seen import Verb
from kubewright.machines.machine import applied, states
from kubewright.machines.machine.seen import (
    AddFinalizer,
    Call,
    Milestone,
    Plan,
    Record,
    Report,
    Seen,
    vm_incomplete,
)
from kubewright.machines.machine.states import Finding

MIGRATED_WITHIN = timedelta(seconds=15)
"""How long a new machine waits in silence for a first try to migrate its class, which takes milliseconds."""


def add_finalizer(seen: Seen) -> Plan | None:
    """Put finalizer and deletion priority onto a machine that lacks them: a user or MCM created it."""
    meta = seen.machine.metadata
    patch: dict[str, Any] = {}
    if names.FINALIZER not in meta.finalizers:
        patch["finalizers"] = with_finalizer(meta.finalizers, names.FINALIZER)
    if names.PRIORITY_ANNOTATION not in meta.annotations:
        patch["annotations"] = {names.PRIORITY_ANNOTATION: str(names.DEFAULT_PRIORITY)}
    if not patch:
        return None
    return Plan((AddFinalizer(patch),), wake=AT_ONCE, because="it has no finalizer or priority of ours yet")


def record_vm(seen: Seen) -> Plan | None:
    """Write providerID and node name onto the machine as soon as the driver has answered them."""
    found, machine = seen.vm.instance, seen.machine
    on_record = (machine.spec.provider_id, names.node_name(machine.metadata.labels))
    if found is None or on_record == (found.provider_id, found.node_name):
        return None
    made = Milestone(
        EventReason.VM_CREATED,
        f"VM {found.provider_id} exists; its node will be {found.node_name}",
        event=False,
    )
    because = f"its VM is {found.provider_id}"
    fresh = bool(seen.vm.applied) and not any(each in machine.metadata.annotations for each in applied.NOTES)
    noted = applied.of_new_vm(machine, seen.vm.applied) if fresh else {}
    return Plan((Record(found, noted),), AT_ONCE, because, milestone=made)


def refuse_invalid(seen: Seen) -> Plan | None:
    """No VM for an invalid machine, or one without a valid class and secret; its status says why."""
    if not seen.problem or seen.vm.running or not _wants_vm(seen):
        return None
    if seen.untried and (left := seen.created + MIGRATED_WITHIN - seen.now) > timedelta(0):
        return Plan(wake=left, because=seen.problem)
    report = replace(creation_failed(seen, Code.InvalidArgument, seen.problem), exact=True)
    return Plan(
        report=report,
        wake=until_late(seen),
        because=seen.problem,
        warning=(EventReason.FAILED_VALIDATION, seen.problem),
    )


def ensure_vm(seen: Seen) -> Plan | None:
    """Have the driver find or create the VM; wait for its answer; repeat a failed call after its pause."""
    if not _wants_vm(seen):
        return None
    vm = seen.vm_plan(Want.ENSURED)
    if vm.state is State.RUNNING:
        return _while_running(seen, vm)
    if vm.error is not None:
        return _after_failure(seen, vm, vm.error)
    if vm.call is None:
        return None
    asked = f"The driver is asked for a VM of class {seen.machine.spec.machine_class.name}"
    begins = Milestone(EventReason.CREATING_VM, asked, event=False)
    known = seen.machine.spec.provider_id
    because = "its VM is on record, but not known to be complete" if known else "it has no VM on record"
    plan = Plan((Call(vm.call),), until_late(seen), because, milestone=begins)
    return plan.sooner(_until_reported(seen, seen.now))


def prolong_token(seen: Seen) -> Plan | None:
    """Ask the driver again for a VM that it has completed, if its node is still awaited after an outage: the
    time to join has begun anew, and the call gives the bootstrap token as much."""
    vm = seen.vm
    if seen.visible_since is None or not vm.settled(Verb.ENSURE) or vm.began is None:
        return None
    if not seen.has_token or seen.problem or seen.node is not None or seen.phase not in states.MAKING:
        return None
    if vm.began >= seen.visible_since:
        return None
    return Plan((Call(Verb.ENSURE),), until_late(seen), "its bootstrap token is to outlast the time to join")


def await_no_node(seen: Seen) -> Plan | None:
    """Without a target cluster a machine is Available as soon as its VM is complete."""
    if seen.settings.joins:
        return None
    if not states.moves(seen.phase, Finding.VM_COMPLETE):
        return Plan(because="its VM exists, and there is no target cluster")
    made = f"VM {seen.machine.spec.provider_id} exists; there is no cluster that it could join"
    report = states.report(seen, Finding.VM_COMPLETE)
    return Plan(
        report=report, because=Finding.VM_COMPLETE.value, milestone=Milestone(EventReason.VM_CREATED, made)
    )


def refuse_name_conflict(seen: Seen) -> Plan | None:
    """Fail a machine whose node name another VM's Node has already: its kubelet would take that over."""
    if not vm_incomplete(seen.machine) or not seen.name_conflict:
        return None
    because = Finding.NODE_NAME_TAKEN.value
    report = states.report(seen, Finding.NODE_NAME_TAKEN)
    name = names.node_name(seen.machine.metadata.labels)
    told = f"Node {name} belongs to another VM: delete that Node if its VM is gone, else delete this machine"
    return Plan(report=report, because=because, warning=(EventReason.MACHINE_FAILED, told))


def _while_running(seen: Seen, vm: VmPlan) -> Plan:
    """While the driver works: Pending when that lasts; Failed past the creation timeout, to be replaced."""
    overdue = Finding.NOT_JOINED if seen.machine.spec.provider_id else Finding.NOT_CREATED
    if is_late(seen) and states.moves(seen.phase, overdue):
        report = states.report(seen, overdue)
        warning = (EventReason.MACHINE_FAILED, report.description)
        return Plan(report=report, because=vm.because, warning=warning)
    plan = Plan(wake=until_late(seen), because=vm.because)
    if not states.moves(seen.phase, Finding.CALL_LASTS) or seen.has_healthy_node:
        return plan  # its status shows the last error, or it will be Running in a moment
    if (wait := _until_reported(seen, seen.vm.began)) > timedelta(0):
        return plan.sooner(wait)
    report = states.report(seen, Finding.CALL_LASTS)
    return replace(plan, report=report, milestone=Milestone(EventReason.CREATING_VM, report.description))


def _until_reported(seen: Seen, began: datetime | None) -> timedelta:
    """How long a call that began then may still last before the status mentions it."""
    return seen.until_worth_reporting(since=began, after=seen.settings.report_creation_after)


def _after_failure(seen: Seen, vm: VmPlan, error: DriverError) -> Plan:
    text = f"Provider error: {error}. Initialize VM Instance" if seen.vm.initializing else (
        f"Cloud provider message - {error}"
    )  # fmt: skip
    report = _failed_call(seen, error, text)
    late, left = until_late(seen), None if vm.wake is None else max(timedelta(0), vm.wake)
    giving_up = is_late(seen) and seen.phase is not Phase.FAILED
    warning = (EventReason.FAILED_CREATE_VM, text)
    if vm.call is not None and not giving_up:
        return Plan((Call(vm.call),), late, vm.because, report, warning)
    return Plan(
        report=report,
        wake=soonest(left, late),
        because=f"the call failed ({error.code.name}); {_next_try(left)}",
        warning=warning,
    )


def _next_try(left: timedelta | None) -> str:
    return f"next try in {time_left(left)}" if left is not None else "next try after a change"


def _failed_call(seen: Seen, error: DriverError, text: str) -> Report:
    """The report of a failed call. What was not even begun is no failure of the machine's creation: it goes
    on by itself, as when its driver dials in (``providers.grpc``)."""
    waits = error.code is Code.Unavailable and not error.begun and not is_late(seen)
    if waits and states.moves(seen.phase, Finding.DRIVER_AWAITED):
        return states.report(seen, Finding.DRIVER_AWAITED, text, error.code.name)
    return creation_failed(seen, error.code, text)


def creation_failed(seen: Seen, code: Code, text: str) -> Report:
    """The report of a failed creation: CrashLoopBackOff, or Failed past the creation timeout."""
    finding = Finding.CREATION_FAILED_LATE if is_late(seen) else Finding.CREATION_FAILED
    return states.report(seen, finding, text, code.name)


def _wants_vm(seen: Seen) -> bool:
    return not seen.recorded or vm_incomplete(seen.machine)


def is_late(seen: Seen) -> bool:
    """The creation deadline has passed, and the machine has no healthy node."""
    return seen.now > seen.creation_deadline and not seen.has_healthy_node


def until_late(seen: Seen) -> timedelta | None:
    """The wait until just past the creation deadline; None when it has passed."""
    left = seen.creation_deadline - seen.now
    return left + delays.JUST_PAST if left >= timedelta(0) else None
