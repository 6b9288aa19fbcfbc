"""Decide whether a machine's VM is to be changed while it runs, because its class has changed.

Theory.      What VM and class say is compared in ``applied``; here is decided what comes of it. The update is
             marked on the machine, then the driver is called beside the workers; its answer is noted in one
             write, which takes the mark off. While the mark is there the driver is called, also if VM and
             class agree by now: the update before may have done a part. An error is repeated after the
             pause of its code, or at once when class or secrets have changed.
             Nothing else of the machine changes by it: its phase stays, its node is not drained, its set
             counts it as before. ``lastOperation`` is written where the call lasts, or fails, and when that
             is over; of most updates the annotations are the only trace, one write before and one after.
Invariants.  The node's health, and what is written on the node, go first. Not while the machine is being made
             or deleted, nor while its node is updated in place. The driver is not called before the mark is
             written, and never without class and secrets. Nor while a call of the process before may still
             be carried out: it would undo this one.
Source       seed 004, hot update of instances; drivers.md B2, B7 to B16, B19, B22.
Called by    ``decide``.
"""

from dataclasses import replace
from datetime import timedelta

from kubewright.api.machine.names import EventReason, NotApplied, OperationState, OperationType
from kubewright.base import delays
from kubewright.base.durations import time_left
from kubewright.driver.errors import Code, DriverError, During
from kubewright.driver.hot import digest, merged, read, written
from kubewright.driver.life.seen import Verb
from kubewright.machines.machine import states
from kubewright.machines.machine.applied import NO_MARKS, Specs, against, marks, named, on_record
from kubewright.machines.machine.health import follow_node
from kubewright.machines.machine.in_place import update_in_place
from kubewright.machines.machine.seen import Seen
from kubewright.machines.machine.states import Finding
from kubewright.machines.machine.steps import Annotate, Milestone, Plan, UpdateVm

ANOTHER_DRIVER = timedelta(minutes=10)
"""When a driver is asked again what it can change: one in another process may be of another version then."""


def update_vm(seen: Seen) -> Plan | None:
    """The next step of an update of the VM; None: there is none, or something else goes first."""
    specs = seen.specs
    if specs is None or seen.phase not in states.CHANGEABLE or not seen.recorded:
        return None
    found = _next(seen, specs)
    if found is None or update_in_place(seen) is not None:
        return None
    health = follow_node(seen) if seen.settings.joins else Plan(because="its VM exists")
    if health.report is not None:
        return None
    because = found.because if found.steps or found.report else f"{health.because}; {found.because}"
    return replace(found, steps=(*health.steps, *found.steps), because=because).sooner(health.wake)


def _next(seen: Seen, specs: Specs) -> Plan | None:
    vm, why_not = seen.vm, against(specs)
    if vm.running:
        return _while_running(seen) if vm.verb is Verb.UPDATE else None
    if specs.in_flight and vm.settled(Verb.UPDATE) and specs.marked in ("", _hash(vm.applied)):
        return _done(seen, specs)
    if specs.adopts and not specs.unknown:
        return _adopted(specs)
    if specs.unknown:
        return Plan(wake=delays.UNHEARD, because=specs.unknown)
    if why_not is not None and (why_not.kind is not NotApplied.FIXED_FIELDS or not specs.due):
        changes_by_itself = why_not.kind in (NotApplied.FIXED_FIELDS, NotApplied.NO_UPDATES)
        return Plan(wake=ANOTHER_DRIVER if changes_by_itself else None, because=why_not.told)
    if not specs.due or specs.hot is None:
        return None
    if not seen.can_call:
        return Plan(because=f"its VM cannot be updated: {seen.problem}")
    if specs.settled_at is not None and specs.settled_at > seen.now:
        left = specs.settled_at - seen.now + delays.JUST_PAST
        return Plan(wake=left, because="another process may have begun an update of its VM, which is awaited")
    if error := vm.failed(Verb.UPDATE):
        return _after_failure(seen, specs, error)
    return _begin(specs)


def _begin(specs: Specs) -> Plan:
    reaches = tuple(each for each in specs.differs if each not in specs.fixed)
    what = named(reaches) if reaches else "what its class says"
    begins = Milestone(EventReason.UPDATING_VM, f"The driver is asked to give the VM {what}", event=False)
    because = f"its VM is to have {what}"
    if specs.in_flight:
        because = "an update of its VM was begun, and is not known to be done"
    step = UpdateVm({"annotations": marks(specs)}, specs.goal, specs.before)
    return Plan((step,), because=because, milestone=begins)


def _while_running(seen: Seen) -> Plan:
    """The driver works: that is told when it lasts."""
    because = "its VM is being updated"
    wait = seen.until_worth_reporting(since=seen.vm.began, after=seen.settings.report_creation_after)
    if wait > timedelta(0):
        return Plan(wake=wait, because=because)
    if not states.moves(seen.phase, Finding.VM_CHANGES):
        return Plan(because=because)
    report = states.report(seen, Finding.VM_CHANGES)
    told = Milestone(EventReason.UPDATING_VM, report.description)
    return Plan(because=because, report=report, milestone=told)


def _done(seen: Seen, specs: Specs) -> Plan:
    """Note what the VM has by now, and take the marks off, in one write. That its node was updated in place
    meanwhile is noted after it (``_adopted``)."""
    of = "" if specs.adopts else specs.last_of or specs.of
    noted = {**on_record(seen.vm.applied, of), **NO_MARKS}
    last = seen.machine.status.last_operation
    told = last.type == OperationType.UPDATE and last.state != OperationState.SUCCESSFUL
    report = None
    if told and states.moves(seen.phase, Finding.VM_CHANGED):
        report = states.report(seen, Finding.VM_CHANGED)
    done = Milestone(EventReason.VM_UPDATED, "The VM has what its class says", event=report is not None)
    return Plan(
        (Annotate({"annotations": noted}),), because="its VM was updated", report=report, milestone=done
    )


def _adopted(specs: Specs) -> Plan:
    """Its node was updated in place, to what its new class says: but for what only the driver can change. If
    what it had of that cannot be read, it is not known."""
    known = None if specs.last is None else written(merged(specs.wanted, specs.last, specs.hot or ()))
    noted = Annotate({"annotations": on_record(known, specs.of)})
    return Plan((noted,), because=f"its node was updated in place to class {specs.of}")


def _after_failure(seen: Seen, specs: Specs, error: DriverError) -> Plan:
    """Repeat it after its pause; a driver that says only now that it updates no VM has done nothing."""
    changed = seen.vm.inputs != seen.inputs
    if error.code is Code.Unimplemented and error.refuses and not changed:
        because = "its driver changes no VM that runs"
        steps = (Annotate({"annotations": NO_MARKS}),) if specs.marked else ()
        return Plan(steps, because=because)
    left = (seen.vm.ended or seen.now) + error.pause(During.UPDATING) - seen.now
    if left <= timedelta(0) or changed:
        return _begin(specs)
    because = f"the update of its VM failed ({error.code.name}); next try in {time_left(left)}"
    if not error.begun or not states.moves(seen.phase, Finding.VM_NOT_CHANGED):
        return Plan(wake=left, because=because)
    text = f"Cloud provider message - {error}"
    report = states.report(seen, Finding.VM_NOT_CHANGED, text, error.code.name)
    return Plan(wake=left, because=because, report=report, warning=(EventReason.FAILED_UPDATE_VM, text))


def _hash(applied: str) -> str:
    return digest(read(applied) or {})
