"""Decide how the VM of a KubewrightMachine goes, and then its finalizer.

Theory.      The core deletes this object when the node has been drained, and the Machine goes only when this
             object is gone. So there is one thing to do: the driver deletes the VM, until it has answered
             that there is none, and no creation that was not answered can still bring one (``driver.life``).
             Neither Machine nor Cluster need exist any more for that.
Invariants.  The finalizer goes only after the cloud has confirmed. Where the driver cannot be asked (it
             does not run here, its credentials are gone), the object of a VM that is known stays, and says
             why.
Source       capi.md §3.4, §5.7.
Called by    ``decide``.
"""

from dataclasses import replace
from datetime import timedelta

from kubewright.api.cluster.conditions import INFO, WARNING
from kubewright.api.infra.names import ConditionReason, EventReason
from kubewright.base.durations import format_duration
from kubewright.driver.life.plan import State, VmPlan, Want
from kubewright.infra.machine.creation import correction, waits
from kubewright.infra.machine.seen import Seen
from kubewright.infra.machine.steps import Call, Plan, RemoveFinalizer
from kubewright.infra.plan import Event


def delete_vm(seen: Seen) -> Plan | None:
    """Have the driver delete the VM, until it reports none and no late creation can bring one."""
    vm = seen.vm_plan(Want.GONE)
    if vm.state is State.BLOCKED:
        return _blocked(seen)
    if vm.state is State.RUNNING:
        known = seen.vm.error is not None  # the report still tells of the try before
        return Plan(because=vm.because, awaits=vm.awaits) if known else _waiting(seen, vm)
    if vm.error is not None:
        return _after_failure(vm)
    if vm.call is not None:
        return replace(_waiting(seen, vm), steps=(Call(vm.call),), wake=None)
    return _waiting(seen, vm) if vm.state is State.DOUBTFUL else None


def remove_finalizer(seen: Seen) -> Plan:
    """There is no VM, and none can come."""
    vm = seen.machine.spec.provider_id
    event = Event(EventReason.VM_DELETED, f"VM {vm} is deleted") if vm else None
    if vm and not seen.vm.deleted:
        event = Event(EventReason.VM_LEFT_BEHIND, f"VM {vm} was not deleted: {seen.problem}", warning=True)
    return Plan((RemoveFinalizer(),), because="nothing of it exists any more", event=event)


def _waiting(seen: Seen, vm: VmPlan) -> Plan:
    report = waits(ConditionReason.DELETING, INFO, vm.because)
    lasting = seen.settings.report_after
    return Plan(wake=vm.wake, because=vm.because, report=report, lasting=lasting, awaits=vm.awaits)


def _after_failure(vm: VmPlan) -> Plan:
    message = str(vm.error)
    report = waits(ConditionReason.VM_DELETION_FAILED, WARNING, message)
    if vm.call is not None:
        return Plan((Call(vm.call),), because=vm.because, report=report, awaits=vm.awaits)
    warning = Event(EventReason.FAILED_DELETE_VM, message, warning=True)
    because = f"the cloud has not deleted it; next try in {format_duration(vm.wake or timedelta(0))}"
    return Plan(wake=vm.wake, because=because, report=report, event=warning, awaits=vm.awaits)


def _blocked(seen: Seen) -> Plan | None:
    """The driver cannot be asked. The object stays if there is a VM, or if there may be one.

    While credentials or the KubewrightCluster are missing, an earlier process may have asked for a VM. If the
    spec breaks a rule or names an unknown driver, none was asked for unless this process knows of it.
    """
    doubt = seen.doubt_until if seen.source_missing else seen.vm.doubt
    if not (seen.recorded or seen.vm.instance or doubt):
        return None
    message = f"its VM cannot be deleted: {seen.problem}"
    warning = Event(EventReason.FAILED_DELETE_VM, message, warning=True)
    report = waits(ConditionReason.VM_DELETION_FAILED, WARNING, message)
    return Plan(because=message, report=report, event=warning, awaits=correction(seen))
