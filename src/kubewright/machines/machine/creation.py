"""Decide how a machine comes to its VM, and how the VM comes to be known.

Theory.      A machine needs its VM ensured when it has none on record, or when the last attempt
             failed. ``Call(ENSURE)`` finds or makes it; the answer waits in ``seen.vm`` until it
             is recorded. Failures are reported as ``CrashLoopBackOff`` and retried after the time
             that the error's class asks for, or at once when class or secret changed; past the
             creation timeout the machine is ``Failed``, and its set replaces it; not so where its node
             is well: pods may run there, so its VM's completion is tried again until it is known.
             A call that lasts makes the machine Pending, with the time since which the driver has not
             answered; ``timeoutActive`` stays false until the VM is known to be whole.
             A Failed machine that has no set goes on trying, and stays Failed until a node of it is well.
Invariants.  Nothing is asked of a cloud before our finalizer stands and everything is valid.
Source       mcm.md §3.4, §4.2, §4.4, §4.5; defects 24, 27 of §19 are not copied.
Called by    ``decide``. Continues in ``health`` once the VM is on record.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason, OperationState, OperationType, Phase
from kubewright.api.machine.v1alpha1 import Machine
from kubewright.base.clock import rfc3339
from kubewright.base.durations import format_duration
from kubewright.base.errors import After
from kubewright.driver.errors import SHORT, Code, DriverError
from kubewright.machines.machine.observe import Seen
from kubewright.machines.machine.steps import Adorn, Call, Milestone, Plan, Record, Report, Verb

CREATING = "Creating machine on cloud provider"
"""How the description of a machine begins whose VM is being made (mcm.md §4.4)."""


def adorn(seen: Seen, _now: datetime) -> Plan | None:
    """Our finalizer and a deletion priority, on machines that no set of ours made."""
    meta = seen.machine.metadata
    patch: dict[str, Any] = {}
    if names.FINALIZER not in meta.finalizers:
        patch["finalizers"] = names.with_finalizer(meta.finalizers, names.FINALIZER)
    if names.PRIORITY_ANNOTATION not in meta.annotations:
        patch["annotations"] = {names.PRIORITY_ANNOTATION: str(names.DEFAULT_PRIORITY)}
    if not patch:
        return None
    return Plan((Adorn(patch),), wake=timedelta(0), because="it has no finalizer or priority of ours yet")


def record_vm(seen: Seen, _now: datetime) -> Plan | None:
    """Write providerID and node name down, as soon as they are known."""
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
    return Plan((Record(found),), wake=timedelta(0), because=because, milestone=made)


def refuse_invalid(seen: Seen, now: datetime) -> Plan | None:
    """A machine that breaks the rules, or whose class is missing, gets no VM, and says why."""
    if not seen.problem or seen.vm.running or not _wants_vm(seen):
        return None
    report = creation_failed(seen, now, Code.InvalidArgument, seen.problem)
    return Plan(
        report=report,
        wake=until_late(seen, now),
        because=seen.problem,
        warning=(EventReason.FAILED_VALIDATION, seen.problem),
    )


def ensure_vm(seen: Seen, now: datetime) -> Plan | None:
    """Find or make the VM; wait for the answer; try again when it is time."""
    if not _wants_vm(seen) or seen.vm.settled(Verb.ENSURE):
        return None
    if seen.vm.running:
        return _while_running(seen, now)
    if error := seen.vm.failed(Verb.ENSURE):
        return _after_failure(seen, now, error)
    known = seen.machine.spec.provider_id
    because = "its VM is on record, but not whether it is whole" if known else "it has no VM on record"
    asked = f"The driver is asked for a VM of class {seen.machine.spec.machine_class.name}"
    begins = Milestone(EventReason.CREATING_VM, asked, event=False)
    plan = Plan((Call(Verb.ENSURE),), wake=until_late(seen, now), because=because, milestone=begins)
    return replace(plan, wake=plan.sooner(_worth_telling(seen, now)))


def refuse_usurped(seen: Seen, _now: datetime) -> Plan | None:
    """A VM whose node would take over another's Node object never joins as itself: another must be made."""
    if not unsettled(seen.machine) or not seen.usurped:
        return None
    report = Report(Phase.FAILED, OperationType.CREATE, OperationState.FAILED, "VM using old node obj")
    because = "another VM's node has the name that its own will want"
    return Plan(report=report, because=because, warning=(EventReason.MACHINE_FAILED, because))


def unsettled(machine: Machine) -> bool:
    """Whether the VM is not known to be whole: no phase, a failed attempt, or an attempt that lasts."""
    current = machine.status.current_status
    being_made = current.phase == Phase.PENDING and not current.timeout_active
    return being_made or current.phase in (Phase.NONE, Phase.CRASH_LOOP_BACK_OFF)


def joined_too_late(seen: Seen) -> Report:
    """What a machine says whose VM exists, and whose node did not come up within its creation timeout."""
    limit = format_duration(seen.creation_timeout)
    text = f"Machine {seen.machine.metadata.name} failed to join the cluster in {limit}."
    return Report(Phase.FAILED, OperationType.CREATE, OperationState.FAILED, text)


def _while_running(seen: Seen, now: datetime) -> Plan:
    """A call that never answers must not keep its machine from being replaced; one that lasts is told of."""
    because = "the cloud is working on its VM"
    if is_late(seen, now) and seen.phase is not Phase.FAILED:
        report = joined_too_late(seen) if seen.machine.spec.provider_id else _made_too_late(seen, now)
        return Plan(report=report, because=because, warning=(EventReason.MACHINE_FAILED, report.description))
    plan = Plan(wake=until_late(seen, now), because=because)
    if seen.phase not in (Phase.NONE, Phase.PENDING) or _is_well(seen):
        return plan  # it says what the last attempt failed with, or will be Running in a moment
    if (wait := _worth_telling(seen, seen.vm.began)) > timedelta(0):
        return replace(plan, wake=plan.sooner(wait))
    text = f"{CREATING}. The driver has not answered since {_asked(seen, now)}"
    return replace(
        plan,
        report=Report(Phase.PENDING, OperationType.CREATE, OperationState.PROCESSING, text),
        milestone=Milestone(EventReason.CREATING_VM, text),
    )


def _worth_telling(seen: Seen, began: datetime | None) -> timedelta:
    """How long a call that began then may still last without a word."""
    return seen.until_worth_reporting(since=began, after=seen.settings.report_creation_after)


def _made_too_late(seen: Seen, now: datetime) -> Report:
    """What a machine says of whose VM the driver never spoke within its creation timeout."""
    limit, name = format_duration(seen.creation_timeout), seen.machine.metadata.name
    text = f"Machine {name} was not created in {limit}: the driver has not answered since {_asked(seen, now)}"
    code = Code.DeadlineExceeded.name
    return Report(Phase.FAILED, OperationType.CREATE, OperationState.FAILED, text, code)


def _asked(seen: Seen, now: datetime) -> str:
    return rfc3339(seen.vm.began or now)


def _after_failure(seen: Seen, now: datetime, error: DriverError) -> Plan:
    text = f"Provider error: {error}. Initialize VM Instance" if seen.vm.initializing else (
        f"Cloud provider message - {error}"
    )  # fmt: skip
    report = creation_failed(seen, now, error.code, text)
    late, wait = until_late(seen, now), (seen.vm.ended or now) + _pause(seen, error) - now
    giving_up = is_late(seen, now) and seen.phase is not Phase.FAILED
    if (wait <= timedelta(0) or seen.vm.inputs != seen.inputs) and not giving_up:
        return Plan((Call(Verb.ENSURE),), report, wake=late, because="it tries again")
    return Plan(
        report=report,
        wake=max(timedelta(0), wait if late is None else min(wait, late)),
        because=f"the cloud refused ({error.code.name}); next try in {format_duration(wait)}",
        warning=(EventReason.FAILED_CREATE_VM, text),
    )


def _pause(seen: Seen, error: DriverError) -> timedelta:
    """How long to wait after a refusal. Where there is a VM, whatever kept it from being made is over."""
    made = seen.vm.initializing or _is_well(seen)
    if error.code is Code.ResourceExhausted and not made:
        return seen.settings.resource_exhausted_retry
    retry = error.retry if isinstance(error.retry, After) and not made else SHORT
    return timedelta(seconds=retry.seconds)


def creation_failed(seen: Seen, now: datetime, code: Code, text: str) -> Report:
    given_up = seen.phase is Phase.FAILED or is_late(seen, now)
    phase = Phase.FAILED if given_up else Phase.CRASH_LOOP_BACK_OFF
    return Report(phase, OperationType.CREATE, OperationState.FAILED, text, code.name)


def _wants_vm(seen: Seen) -> bool:
    return not seen.recorded or unsettled(seen.machine)


def is_late(seen: Seen, now: datetime) -> bool:
    """The creation deadline is over, and no node has come of it."""
    return now > seen.creation_deadline and not _is_well(seen)


def _is_well(seen: Seen) -> bool:
    return seen.node is not None and seen.health.healthy


def until_late(seen: Seen, now: datetime) -> timedelta | None:
    """The wait until just past the creation deadline; None when that is over."""
    left = seen.creation_deadline - now
    return left + timedelta(milliseconds=1) if left >= timedelta(0) else None
