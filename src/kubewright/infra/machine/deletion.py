"""Decide how the VM of a KubewrightMachine goes, and then its finalizer.

Theory.      The core deletes this object when the node has been drained, and the Machine goes only when this
             object is gone. So there is one thing to do: the driver deletes the VM, until it has answered
             that there is none, and no creation that was not answered can still bring one (``driver.life``).
             Neither Machine nor Cluster need exist any more for that.
             A VM that a Machine's own KubewrightMachine has, too, is not this one's: it is a copy.
Invariants.  The finalizer goes only after the cloud has confirmed. Where the driver cannot be asked (it
             does not run here, its credentials are gone) or refuses, the object of a VM that is known stays,
             and says why and what to do. One that cannot have a VM goes (``driver.life.plan``).
Source       capi.md §3.4, §5.7.
Called by    ``decide``.
"""

from dataclasses import replace
from datetime import timedelta

from kubewright.api.cluster.conditions import INFO, WARNING
from kubewright.api.infra.names import ConditionReason, EventReason
from kubewright.api.machine.names import FORCE_DELETION_LABEL, force_deletion
from kubewright.base.durations import time_left
from kubewright.driver.errors import DriverError
from kubewright.driver.life.plan import State, VmPlan, Want
from kubewright.infra.machine.creation import correction, waits
from kubewright.infra.machine.seen import Seen
from kubewright.infra.machine.steps import Call, Plan, RemoveFinalizer
from kubewright.infra.plan import Event


def leave_to_original(seen: Seen) -> Plan | None:
    """A copy of another object goes, and that one's VM stays."""
    if not seen.original:
        return None
    vm = seen.machine.spec.provider_id or seen.machine.name
    told = f"VM {vm} stays: it is KubewrightMachine {seen.original}'s"
    return Plan((RemoveFinalizer(),), because=told, event=Event(EventReason.VM_LEFT_BEHIND, told))


def delete_vm(seen: Seen) -> Plan | None:
    """Have the driver delete the VM, until it reports none and no late creation can bring one."""
    vm = seen.vm_plan(Want.GONE)
    if vm.state is State.BLOCKED:
        return _blocked(seen)
    if vm.state is State.RUNNING:
        known = seen.vm.error is not None  # the report still tells of the try before
        return Plan(because=vm.because, awaits=vm.awaits) if known else _waiting(seen, vm)
    if vm.error is not None:
        return _after_failure(seen, vm, vm.error)
    if vm.call is not None:
        return replace(_waiting(seen, vm), steps=(Call(vm.call),), wake=None)
    return _waiting(seen, vm) if vm.state is State.DOUBTFUL else None


def remove_finalizer(seen: Seen) -> Plan:
    """There is no VM, and none can come."""
    vm = seen.machine.spec.provider_id
    event = Event(EventReason.VM_DELETED, f"VM {vm} is deleted") if vm else None
    if vm and not seen.vm.deleted:
        event = Event(EventReason.VM_LEFT_BEHIND, f"VM {vm} was not deleted: {seen.problem}", warning=True)
    elif seen.left_in_doubt and force_deletion(seen.machine.metadata.labels):
        message = f"a VM may be left behind: {seen.problem or seen.vm.error}"
        event = Event(EventReason.VM_LEFT_BEHIND, message, warning=True)
    return Plan((RemoveFinalizer(),), because="nothing of it exists any more", event=event)


def _waiting(seen: Seen, vm: VmPlan) -> Plan:
    report = waits(ConditionReason.DELETING, INFO, vm.because)
    lasting = seen.settings.report_after
    return Plan(wake=vm.wake, because=vm.because, report=report, lasting=lasting, awaits=vm.awaits)


def _after_failure(seen: Seen, vm: VmPlan, error: DriverError) -> Plan:
    advice = _way_out(seen, error) if error.lasts else ""
    message = f"{error}. {advice}" if advice else str(error)
    report = waits(ConditionReason.VM_DELETION_FAILED, WARNING, message)
    if vm.call is not None:
        return Plan((Call(vm.call),), because=vm.because, report=report, awaits=vm.awaits)
    warning = Event(EventReason.FAILED_DELETE_VM, message, warning=True)
    because = f"the cloud has not deleted it; next try in {time_left(vm.wake or timedelta(0))}"
    return Plan(wake=vm.wake, because=because, report=report, event=warning, awaits=vm.awaits)


def _blocked(seen: Seen) -> Plan:
    """The driver cannot be asked, and there is a VM, or there may be one."""
    advice = _way_out(seen)
    message = f"its VM cannot be deleted: {seen.problem}" + (f". {advice}" if advice else "")
    warning = Event(EventReason.FAILED_DELETE_VM, message, warning=True)
    report = waits(ConditionReason.VM_DELETION_FAILED, WARNING, message)
    wake = None if seen.source_missing or seen.doubt_left <= timedelta(0) else seen.doubt_left
    return Plan(wake=wake, because=message, report=report, event=warning, awaits=correction(seen))


def _way_out(seen: Seen, error: DriverError | None = None) -> str:
    """What a user may do about a driver that cannot be asked, or (``error``) will fail again."""
    mend = "Mend what is missing" if error is None else "Mend providerSpec, credentials or the driver"
    if not (seen.recorded or seen.vm.instance or seen.vm.told):
        return f"{mend}; or, if the cloud has no VM of it, label it {FORCE_DELETION_LABEL}=True"
    return f"{mend}: its VM stays until the driver deletes it" if error is not None and error.refuses else ""
