"""Decide how a machine comes to its VM, and how the VM comes to be known.

Theory.      A machine needs its VM ensured when it has none on record, or when the last attempt
             failed. ``Call(ENSURE)`` finds or makes it; the answer waits in ``seen.vm`` until it
             is recorded. Failures are reported as ``CrashLoopBackOff`` and retried after the time
             that the error's class asks for, or at once when class, secret or machine changed;
             past the creation timeout the machine is ``Failed``, and its set replaces it.
Invariants.  Nothing is asked of a cloud before our finalizer stands and everything is valid.
Source       mcm.md §3.4, §4.2, §4.4, §4.5; defects 24, 27 of §19 are not copied.
Called by    ``decide``. Continues in ``health`` once the VM is on record.
"""

from datetime import datetime, timedelta
from typing import Any

from kubewright.api.machine import names
from kubewright.api.machine.names import OperationState, OperationType, Phase
from kubewright.base.durations import format_duration
from kubewright.base.errors import After
from kubewright.driver.errors import Code, DriverError
from kubewright.machines.machine.observe import Seen
from kubewright.machines.machine.steps import Adorn, Call, Plan, Record, Report, Verb

UNSETTLED = ("", Phase.CRASH_LOOP_BACK_OFF)
"""Phases in which the VM is not known to be complete."""


def adorn(seen: Seen, _now: datetime) -> Plan | None:
    """Our finalizer and a deletion priority, on machines that no set of ours made."""
    meta = seen.machine.metadata
    patch: dict[str, Any] = {}
    if names.FINALIZER not in meta.finalizers:
        patch["finalizers"] = [*meta.finalizers, names.FINALIZER]
    if names.PRIORITY_ANNOTATION not in meta.annotations:
        patch["annotations"] = {names.PRIORITY_ANNOTATION: str(names.DEFAULT_PRIORITY)}
    if not patch:
        return None
    return Plan((Adorn(patch),), wake=timedelta(0), because="it has not our finalizer or priority yet")


def refuse_invalid(seen: Seen, now: datetime) -> Plan | None:
    """A machine that breaks the rules, or whose class is missing, gets no VM, and says why."""
    if not seen.problem or not _wants_vm(seen):
        return None
    error = DriverError.of(Code.InvalidArgument, seen.problem)
    report = _failed(seen, now, error.code, seen.problem)
    return Plan(
        report=report,
        wake=_until(now, seen.creation_deadline),
        because=seen.problem,
        warning=("FailedValidation", seen.problem),
    )


def ensure_vm(seen: Seen, now: datetime) -> Plan | None:
    """Find or make the VM; wait for the answer; try again when it is time."""
    if not _wants_vm(seen) or seen.vm.settled(Verb.ENSURE):
        return None
    if seen.vm.running:
        wake = _until(now, seen.creation_deadline)
        return Plan(wake=wake, because=f"the cloud is busy with {_name(seen.vm.verb)}")
    if seen.vm.verb is Verb.ENSURE and seen.vm.error is not None:
        return _after_failure(seen, now, seen.vm.error)
    return Plan((Call(Verb.ENSURE),), because="it has no VM on record")


def record_vm(seen: Seen, _now: datetime) -> Plan | None:
    """Write providerID and node name down, as soon as they are known."""
    if (found := seen.vm.instance) is None or not _unrecorded(seen):
        return None
    return Plan((Record(found),), wake=timedelta(0), because=f"its VM is {found.provider_id}")


def _after_failure(seen: Seen, now: datetime, error: DriverError) -> Plan:
    again = (seen.vm.ended or now) + _pause(seen, error)
    text = f"Provider error: {error}. Initialize VM Instance" if seen.vm.initializing else (
        f"Cloud provider message - {error}"
    )  # fmt: skip
    record = (Record(seen.vm.instance),) if seen.vm.instance and _unrecorded(seen) else ()
    if now >= again or seen.vm.inputs != seen.inputs:
        return Plan(
            (*record, Call(Verb.ENSURE)),
            report=_failed(seen, now, error.code, text),
            because="it tries again",
        )
    deadline = _until(now, seen.creation_deadline)
    wait = again - now
    return Plan(
        record,
        report=_failed(seen, now, error.code, text),
        wake=min(wait, deadline) if deadline else wait,
        because=f"the cloud refused ({error.code.name}); next try in {format_duration(wait)}",
        warning=("FailedCreateVM", text),
    )


def _pause(seen: Seen, error: DriverError) -> timedelta:
    if error.code is Code.ResourceExhausted:
        return seen.settings.resource_exhausted_retry
    return timedelta(seconds=error.retry.seconds if isinstance(error.retry, After) else 5)


def _failed(seen: Seen, now: datetime, code: Code, text: str) -> Report:
    late = now > seen.creation_deadline
    phase = Phase.FAILED if late else Phase.CRASH_LOOP_BACK_OFF
    return Report(phase, OperationType.CREATE, OperationState.FAILED, text, code.name)


def _wants_vm(seen: Seen) -> bool:
    machine = seen.machine
    known = machine.spec.provider_id and machine.metadata.labels.get(names.NODE_LABEL)
    return not known or seen.phase in UNSETTLED


def _unrecorded(seen: Seen) -> bool:
    found, machine = seen.vm.instance, seen.machine
    recorded = (machine.spec.provider_id, machine.metadata.labels.get(names.NODE_LABEL, ""))
    return found is not None and recorded != (found.provider_id, found.node_name)


def _until(now: datetime, deadline: datetime) -> timedelta | None:
    """The wait until just past a deadline; None when it is over."""
    return deadline - now + timedelta(milliseconds=1) if deadline >= now else None


def _name(verb: Verb | None) -> str:
    return verb.value if verb else "nothing"
