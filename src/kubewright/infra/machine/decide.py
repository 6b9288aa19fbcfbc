"""Decide how a KubewrightMachine gets its VM, how the VM goes, and what its status says. Pure.

Theory.      A decider gives a plan or none, and the first plan counts. The order of those for a machine that
             lives is that of Cluster API's contract: a Machine must own the object, the infrastructure of its
             cluster must be ready, and the bootstrap data must be there; then the VM is made, and recorded as
             soon as the driver has answered. ``status.ready`` comes after ``spec.providerID``, because the
             core reads the id when it sees ready. A VM that is complete is not asked for again: whether its
             node is well is the core's question. What is wrong is a condition, with what would mend it;
             nothing here fails for good.
             The core deletes this object when the node has been drained, and the Machine goes only when this
             object is gone. So there is one thing to do: the driver deletes the VM, until it has answered
             that there is none, and no creation that was not answered can still bring one (``driver.life``).
             Neither Machine nor Cluster need exist any more for that. A VM that a Machine's own
             KubewrightMachine has, too, is not this one's: it is a copy.
Invariants.  The driver is called only after our finalizer is on the object. The finalizer goes only after the
             cloud has confirmed. Where the driver cannot be asked (it does not run here, its credentials are
             gone) or refuses, the object of a VM that is known stays, and says why and what to do. One that
             cannot have a VM goes (``driver.life.plan``).
             ``ready`` goes up with the VM's condition and never down: the VM that was complete is there until
             the object is deleted. Equal states give an equal status, so nothing is written for nothing.
Called by    ``act``.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from msgspec import structs

from kubewright.api.cluster.conditions import (
    ERROR,
    INFO,
    TRUE,
    WARNING,
    false_condition,
    summary,
    true_condition,
    with_conditions,
)
from kubewright.api.cluster.v1beta1 import Condition
from kubewright.api.conditions import condition_of
from kubewright.api.core import NodeAddress
from kubewright.api.infra.names import (
    CLOUD_OWNER_ANNOTATION,
    MACHINE_FINALIZER,
    ConditionReason,
    ConditionType,
    EventReason,
)
from kubewright.api.infra.v1beta1 import KubewrightMachineStatus
from kubewright.api.machine.names import FORCE_DELETION_LABEL, force_deletion
from kubewright.base import delays
from kubewright.base.durations import format_duration, time_left
from kubewright.base.plan import AT_ONCE, Awaited, Event, in_order
from kubewright.driver.answers import boot_failure, in_one_line, with_console
from kubewright.driver.errors import DriverError
from kubewright.driver.life.plan import State, VmPlan, Want
from kubewright.infra.machine.seen import AddFinalizer, Call, Plan, ReadConsole, Record, RemoveFinalizer, Seen
from kubewright.infra.provision import new_cloud_owner
from kubewright.wire.naming import machine_name_problem

WAITS_FOR_CLUSTER = ConditionReason.WAITING_FOR_CLUSTER_INFRASTRUCTURE


def waits(reason: ConditionReason, severity: str, message: str) -> Condition:
    """The VM is not there, for this reason."""
    return false_condition(ConditionType.VM_READY, reason, severity, message)


def wait_for_owner(seen: Seen) -> Plan | None:
    """The object waits for a Machine to own it: a set makes it before the Machine."""
    if seen.owner is not None:
        return None
    remedy = "name it in spec.infrastructureRef of a Machine, or delete it"
    owner = Awaited("a Machine that owns it", remedy, seen.machine.metadata.creation_timestamp)
    return _waiting(seen, ConditionReason.WAITING_FOR_OWNER, "no Machine owns it yet", owner)


def respect_failure(seen: Seen) -> Plan | None:
    """What another program has given up stays as it is, until that is taken back."""
    return (
        Plan(because="it has failed for good: failureReason or failureMessage is set")
        if seen.failed
        else None
    )


def wait_for_cluster(seen: Seen) -> Plan | None:
    """Without its Cluster nothing says whether a VM may be made."""
    if seen.cluster is not None or seen.owner is None:
        return None
    name = seen.owner.spec.cluster_name
    cluster, reason = Awaited(f"Cluster {name}", "create it, or delete the Machine"), WAITS_FOR_CLUSTER
    return _waiting(seen, reason, f"there is no Cluster {name}", cluster)


def add_finalizer(seen: Seen) -> Plan | None:
    """The finalizer is there before the cloud is asked; by then it is known for which cluster."""
    meta = seen.machine.metadata
    if MACHINE_FINALIZER in meta.finalizers:
        return None
    if waiting := wait_for_infrastructure(seen):
        return waiting
    owner = meta.annotations.get(CLOUD_OWNER_ANNOTATION) or new_cloud_owner(seen.infrastructure, meta.uid)
    return Plan((AddFinalizer(owner),), AT_ONCE, "it has no finalizer of ours yet", last=True)


def record_vm(seen: Seen) -> Plan | None:
    """Write providerID and place onto the object as soon as the driver has answered them."""
    found = seen.vm.instance
    if found is None or seen.complete or seen.machine.spec.provider_id == found.provider_id:
        return None
    place = seen.owner.spec.failure_domain if seen.owner is not None else None
    made = Event(EventReason.VM_CREATED, f"VM {found.provider_id} exists")
    because = f"its VM is {found.provider_id}"
    return Plan((Record(found, place),), AT_ONCE, because, event=made, last=True)


def wait_for_infrastructure(seen: Seen) -> Plan | None:
    """No VM before the infrastructure of its cluster is ready."""
    if seen.complete or seen.cluster is None or seen.cluster.status.infrastructure_ready:
        return None
    message = f"the infrastructure of cluster {seen.cluster.name} is not ready"
    remedy = "see its condition InfrastructureReady"
    ready = Awaited(f"infrastructure of Cluster {seen.cluster.name}", remedy)
    return _waiting(seen, WAITS_FOR_CLUSTER, message, ready)


def wait_for_data(seen: Seen) -> Plan | None:
    """No VM before there is something that it can boot from."""
    if seen.complete:
        return None
    if not seen.has_data:
        message = "the Machine has no spec.bootstrap.dataSecretName"
        name = Awaited("spec.bootstrap.dataSecretName of the Machine", "see its condition BootstrapReady")
        return _waiting(seen, ConditionReason.WAITING_FOR_BOOTSTRAP_DATA, message, name)
    if not seen.data_problem:
        return None
    report = waits(ConditionReason.WAITING_FOR_BOOTSTRAP_DATA, WARNING, seen.data_problem)
    secret = Awaited("the Secret with its bootstrap data", f"make it anew: {seen.data_problem}")
    lasting = seen.settings.report_after
    return Plan(because=seen.data_problem, report=report, lasting=lasting, awaits=(secret,))


def refuse_invalid(seen: Seen) -> Plan | None:
    """No VM for an object that breaks a rule, or whose driver or credentials are not there."""
    name = "" if seen.recorded else machine_name_problem(seen.machine.name)
    problem = seen.problem or (f"metadata.name {name}" if name else "")
    if seen.complete or not problem or seen.vm.running:
        return None
    report = waits(ConditionReason.INVALID_CONFIGURATION, ERROR, problem)
    warning = Event(EventReason.FAILED_VALIDATION, problem, warning=True)
    return Plan(because=problem, report=report, event=warning, awaits=correction(seen, problem))


def ensure_vm(seen: Seen) -> Plan | None:
    """Have the driver find or create the VM; wait for its answer; repeat a failed call after its pause."""
    if seen.complete:
        return None
    vm = seen.vm_plan(Want.ENSURED)
    if vm.state is State.RUNNING and seen.vm.error is not None:  # the report still tells of the try before
        return Plan(because=vm.because, awaits=vm.awaits)
    if vm.state is not State.RUNNING and vm.error is not None:
        return _not_made(vm)
    if vm.state is not State.RUNNING and vm.call is None:
        return None
    report = waits(ConditionReason.CREATING_VM, INFO, "the driver has been asked for the VM")
    steps = (Call(vm.call),) if vm.call is not None else ()
    lasting = seen.settings.report_creation_after
    return Plan(steps, because=vm.because, report=report, lasting=lasting, awaits=vm.awaits)


def await_node(seen: Seen) -> Plan | None:
    """Report a VM that has become no Node in time, with the end of its console, and take that back when it
    has. Whether the Machine is replaced its health check decides."""
    conditions = seen.machine.status.conditions
    ready = condition_of(conditions, ConditionType.VM_READY)
    since = ready.last_transition_time if ready is not None and ready.status == TRUE else None
    if not seen.complete or since is None:
        return None
    if seen.has_node:
        told = condition_of(conditions, ConditionType.BOOTSTRAPPED)
        joined = true_condition(ConditionType.BOOTSTRAPPED)
        late = told is not None and told.status != TRUE
        return Plan(because="its VM has become a Node", report=joined) if late else None
    within, shown = seen.settings.node_within, seen.console.text if seen.console is not None else ""
    why = boot_failure(shown)
    if (again := _next_look(seen, since, failed=bool(why)) - seen.now) <= timedelta(0):
        return Plan((ReadConsole(),), because="no Node has come of its VM; its console is read")
    if not why and since + within > seen.now:
        return _complete_until(again)
    reason, event = ConditionReason.NODE_MISSING, EventReason.NODE_MISSING
    message = f"no Node has come of its VM in {format_duration(within)}"
    if why:
        reason, event = ConditionReason.BOOT_FAILED, EventReason.BOOT_FAILED
        message = f"no Node has come of its VM: {why}"
    whole = with_console(f"{message}.", shown)
    report = false_condition(ConditionType.BOOTSTRAPPED, reason, WARNING, whole)
    warning = Event(event, in_one_line(whole), warning=True)
    return Plan(wake=again, because=message, report=report, event=warning)


def _next_look(seen: Seen, since: datetime, *, failed: bool) -> datetime:
    """When the console of a VM that is complete since then is to be read: soon, in case that its boot failed,
    and again and again where the driver shows consoles; then every few minutes."""
    late, console = since + seen.settings.node_within, seen.console
    if console is None:
        return min(since + delays.PREFLIGHT, late)
    if failed or console.at >= late:
        return console.at + seen.settings.node_within
    return min(console.at + delays.PREFLIGHT, late) if console.text else late


def report_complete(_seen: Seen) -> Plan:
    """The VM exists, is complete and on record."""
    return _complete_until(None)


def _complete_until(wake: timedelta | None) -> Plan:
    return Plan(wake=wake, because="its VM is complete", report=true_condition(ConditionType.VM_READY))


def _not_made(vm: VmPlan) -> Plan:
    left = vm.wake or timedelta(0)
    message = str(vm.error)
    report = waits(ConditionReason.VM_CREATION_FAILED, WARNING, message)
    if vm.call is not None:
        return Plan((Call(vm.call),), because=vm.because, report=report, awaits=vm.awaits)
    warning = Event(EventReason.FAILED_CREATE_VM, message, warning=True)
    because = f"the cloud refused; next try in {time_left(left)}"
    return Plan(wake=left, because=because, report=report, event=warning, awaits=vm.awaits)


def correction(seen: Seen, problem: str = "") -> tuple[Awaited, ...]:
    """What has to be made or corrected before the driver can be called."""
    what = "what its VM is made with" if seen.source_missing else "a spec that the driver can be given"
    return (Awaited(what, f"mend this: {problem or seen.problem}"),)


def _waiting(seen: Seen, reason: ConditionReason, message: str, awaits: Awaited) -> Plan:
    """Wait for a change of what is missing, and say so, and what a user can do, if it lasts."""
    report = waits(reason, INFO, f"{message}; {awaits.remedy}")
    return Plan(because=message, report=report, lasting=seen.settings.report_after, awaits=(awaits,))


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
        return Plan(because=vm.because, awaits=vm.awaits) if known else _leaving(seen, vm)
    if vm.error is not None:
        return _not_deleted(seen, vm, vm.error)
    if vm.call is not None:
        return replace(_leaving(seen, vm), steps=(Call(vm.call),), wake=None)
    return _leaving(seen, vm) if vm.state is State.DOUBTFUL else None


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


def _leaving(seen: Seen, vm: VmPlan) -> Plan:
    report = waits(ConditionReason.DELETING, INFO, vm.because)
    lasting = seen.settings.report_after
    return Plan(wake=vm.wake, because=vm.because, report=report, lasting=lasting, awaits=vm.awaits)


def _not_deleted(seen: Seen, vm: VmPlan, error: DriverError) -> Plan:
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


Decider = Callable[[Seen], Plan | None]
LIVING: tuple[Decider, ...] = (
    wait_for_owner, respect_failure, wait_for_cluster, add_finalizer, record_vm, wait_for_infrastructure,
    wait_for_data, refuse_invalid, ensure_vm, await_node, report_complete,
)  # fmt: skip
DELETING: tuple[Decider, ...] = (leave_to_original, delete_vm, remove_finalizer)


def decide(seen: Seen) -> Plan:
    """The plan for what is seen now. Pure: an equal ``Seen`` gives an equal plan."""
    if seen.paused:
        return Plan(because="it, or its cluster, is paused")
    if not seen.machine.metadata.deleting:
        return in_order(LIVING, seen, Plan())
    if MACHINE_FINALIZER not in seen.machine.metadata.finalizers:
        return Plan(because="it is being deleted and has no finalizer of ours")
    return in_order(DELETING, seen, Plan())


def machine_status(seen: Seen, report: Condition | None, wall: datetime) -> KubewrightMachineStatus:
    """The status to write; equal to the present one when there is nothing new. ``wall`` dates conditions."""
    status = seen.status
    if report is None:
        return status
    if report.status == TRUE and report.type == ConditionType.VM_READY:
        status = _complete(seen, status)
    return structs.replace(
        status,
        conditions=_conditions(status.conditions, report, wall),
        observed_generation=seen.machine.metadata.generation,
    )


def _complete(seen: Seen, status: KubewrightMachineStatus) -> KubewrightMachineStatus:
    """The status of a machine whose VM is complete: with what the driver said of it, if it was asked."""
    found = seen.vm.instance
    if found is None:
        return structs.replace(status, ready=True)
    addresses = tuple(NodeAddress(type=kind, address=address) for kind, address in found.addresses)
    return structs.replace(
        status,
        ready=True,
        addresses=addresses or status.addresses,
        interruptible=found.interruptible,
        node_name=found.node_name,
    )


def _conditions(before: tuple[Condition, ...], report: Condition, wall: datetime) -> tuple[Condition, ...]:
    found = with_conditions(before, (report,), wall)
    ready = summary(found, (ConditionType.VM_READY,))
    return found if ready is None else with_conditions(found, (ready,), wall)
