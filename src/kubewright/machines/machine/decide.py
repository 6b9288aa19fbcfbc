"""Decide what to do with one machine: of its list of deciders, the first one with a plan counts. Pure.

Theory.      A write may fail for a moment (a conflict, a busy server): the runtime retries the pass. Or the
             server refuses it: the object would be invalid, RBAC does not allow it, a webhook denies it.
             The same write would be refused again, and a plan that stops at it would never get further.
             So a refusal is part of what is seen, like a node or a VM: the process remembers it for
             ``delays.REFUSED``, and decisions take it into account. ``RULES`` says of each step whether the
             machine goes on without it. Where it does not, its status says which write was refused, and its
             time-outs run on.
             Deciders say in ``because`` what they wait for; for a user who asks why a machine stands still,
             ``awaited`` names it, with a way on: the driver, an object that is missing, a node, pods,
             volumes. What there is to be named follows from the same facts, in the order in which the
             deciders ask for them: a stage that is not over hides those after it.
             The decision is a function of what is seen, and time is a part of that. So the same function,
             asked with a later time, says what comes next (``foresee``): past its health timeout an Unknown
             machine is Failed. The plan of a drain in ``Seen`` is of the present, so the end of a drain's
             time is not foreseen. Asked about the machine as a plan will have written it, it says what the
             next pass would do; where that is nothing, the plan ``rests``, and the pass after it is saved.
Invariants.  Every step has its row. Steps that keep a VM or a user's pods from being lost are not skipped:
             the finalizer before the driver is called, the record of a living machine's VM, the cordon
             before pods are evicted, the deletion of the node before the finalizer goes. A user who forces
             a deletion skips the last two; the end of the drain timeout skips the cordon, and, if the node's
             cluster does not answer, the deletion of the node.
             A write about the node of a machine in deletion that its cluster has not answered for long counts
             as refused, for ``delays.UNHEARD``.
             A plan whose steps change what the next pass sees waits for nothing. What is on record (a
             deletion, a phase) dates the wait; of the rest the record of the pass says since when it lasts.
Called by    ``act`` (``decide``, ``refusal_of``), ``look`` (``unread_because``), ``cli.explain``
             (``foresee``). Continues in ``making``, ``living``, ``preservation`` and ``deleting``.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from msgspec import structs

from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason, Phase
from kubewright.base import delays
from kubewright.base.clock import rfc3339
from kubewright.base.errors import KubewrightError
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.base.plan import AT_ONCE, Awaited
from kubewright.driver.errors import Code
from kubewright.driver.life.plan import State, Want, remedy
from kubewright.driver.life.seen import Verb
from kubewright.kube.patches import Contested
from kubewright.machines.machine.deleting import (
    DELETING_NODE,
    DRAINING,
    RELEASING,
    await_call_in_flight,
    cordon,
    delete_first_node,
    delete_node,
    delete_vm,
    deletion_blocked_report,
    detach_volumes,
    drain,
    identify_vm,
    look_for_vm,
    move_volumes,
    remove_finalizer,
    wait_until_readable,
)
from kubewright.machines.machine.living import (
    LACKS,
    delete_when_triggered,
    follow_node,
    update_in_place,
    update_vm,
    wait_while_unreachable,
)
from kubewright.machines.machine.making import (
    add_finalizer,
    await_no_node,
    creation_failed,
    ensure_vm,
    is_late,
    prolong_token,
    record_vm,
    refuse_invalid,
    refuse_name_conflict,
    until_late,
)
from kubewright.machines.machine.preservation import invalid_annotation, new_expiry, next_look, preserve
from kubewright.machines.machine.seen import (
    AddFinalizer,
    Annotate,
    Call,
    Cordon,
    DeleteBootstrapToken,
    DeleteMachine,
    DeleteNode,
    DeleteVolumeAttachments,
    Drain,
    EndPreservation,
    Plan,
    Record,
    Refused,
    RemoveFinalizer,
    Seen,
    SetDrainFailedCondition,
    SetPreservationMarks,
    SetPreservedCondition,
    SetTerminatingCondition,
    SetUpdateCondition,
    Step,
    SyncCapacity,
    SyncNode,
    Unread,
    UpdateVm,
    as_recorded,
    vm_incomplete,
)
from kubewright.machines.machine.states import machine_status
from kubewright.wire.errors import Forbidden, is_refusal

Decider = Callable[[Seen], Plan | None]
LIVING: tuple[Decider, ...] = (
    add_finalizer, record_vm, wait_while_unreachable, delete_when_triggered, preserve, refuse_invalid,
    ensure_vm, prolong_token, update_vm, await_no_node, refuse_name_conflict, update_in_place, follow_node,
)  # fmt: skip
DELETING: tuple[Decider, ...] = (
    await_call_in_flight, delete_first_node, record_vm, identify_vm, wait_until_readable, cordon, look_for_vm,
    drain, detach_volumes, move_volumes, delete_vm, delete_node, remove_finalizer,
)  # fmt: skip


def decide(seen: Seen) -> Plan:
    """The plan for what is seen now. Pure: an equal ``Seen`` gives an equal plan."""
    if seen.machine.metadata.deleting:
        if names.FINALIZER not in seen.machine.metadata.finalizers:
            return Plan(because="it is being deleted and has no finalizer of ours")
        plan = plan_of(DELETING, seen)
    else:
        plan = _with_preservation(plan_of(LIVING, seen), seen)
        if (then := _after(plan, seen)) is not None:
            return then
    return replace(plan, awaits=awaited(seen, plan))


def _after(plan: Plan, seen: Seen) -> Plan | None:
    """The plan that rests: with the wait of the pass that would follow it, where that would do nothing. None:
    it would, or it is not known."""
    after = _as_written(plan, seen)
    if after is None or seen.refused or seen.unread is not None:
        return None
    then = _with_preservation(plan_of(LIVING, after), after)
    told = then.report is not None or then.warning is not None
    if told or then.wake == AT_ONCE or any(step not in plan.steps for step in then.steps):
        return None
    follows = then.because.removesuffix(LACKS) if then.steps else then.because
    because = plan.because if follows in plan.because else f"{plan.because}; {follows}"
    waits = replace(then, steps=())
    return replace(plan, wake=then.wake, because=because, awaits=awaited(after, waits), rests=after.machine)


def _as_written(plan: Plan, seen: Seen) -> Seen | None:
    """What is seen once the plan is carried out, but for the marks of its node, which are as they should be
    then; None: it is not known."""
    machine, begun, report = seen.machine, seen.begun, plan.report
    if not plan.steps and report is None:
        return None
    for step in plan.steps:
        match step:
            case Record(_, notes) if not seen.recorded:
                machine = as_recorded(machine, seen.vm)
                annotations = {**machine.metadata.annotations, **notes}
                meta = structs.replace(machine.metadata, annotations=annotations)
                machine = structs.replace(machine, metadata=meta)
            case SyncNode() | DeleteBootstrapToken():
                pass
            case _:
                return None
    if report is not None:
        if report.phase not in (Phase.PENDING, Phase.RUNNING):
            return None
        machine = structs.replace(machine, status=machine_status(seen, report, seen.wall))
        begun = replace(begun, phase_since=seen.now)
    return replace(seen, machine=machine, begun=begun)


def _with_preservation(plan: Plan, seen: Seen) -> Plan:
    """The plan, with the wake-up of a preservation and a warning about an annotation's unknown value."""
    plan = plan.sooner(next_look(seen))
    if until := new_expiry(seen, seen.phase_after(plan.report)):
        plan = replace(plan, because=f"{plan.because}; it is preserved until {rfc3339(until)}")
    wrong = invalid_annotation(seen)
    if not wrong or plan.report is not None or plan.warning is not None:
        return plan
    return replace(plan, warning=(EventReason.INVALID_PRESERVE, wrong), topics=frozenset((wrong,)))


def plan_of(deciders: tuple[Decider, ...], seen: Seen) -> Plan:
    """The plan of the first decider that has one, without the steps that an API server refuses."""
    plans = (_possible(decider, seen) for decider in deciders)
    found = next((plan for plan in plans if plan is not None), Plan(because="nothing is left to do"))
    return paced(found, seen)


def _possible(decider: Decider, seen: Seen) -> Plan | None:
    plan = decider(seen)
    return allowed(plan, seen) if plan is not None else None


GoesOn = Callable[[Seen], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of ``RULES``.

    ``doing``   what the step does, for messages
    ``living``  whether a machine that is not being deleted goes on without the step
    ``deleting`` whether a machine that is being deleted goes on without it
    ``ends``    the last sentence of ``lastOperation`` while a deletion waits for the step: MCM parses it
    ``event``   the reason of the warning event about the refusal
    """

    doing: str
    living: GoesOn
    deleting: GoesOn
    ends: str = ""
    event: EventReason = EventReason.FAILED_UPDATE


def _always(_seen: Seen) -> bool:
    return True


def _never(_seen: Seen) -> bool:
    return False


def _has_its_vm(seen: Seen) -> bool:
    """The VM is on record and known to be complete: the driver is not asked to create it again."""
    return seen.recorded and not vm_incomplete(seen.machine)


def _is_drain_timed_out(seen: Seen) -> bool:
    return seen.drain_timed_out


def _may_leave_node(seen: Seen) -> bool:
    """A user forces the deletion; or the node's cluster has not answered for long, and time has run out."""
    silent = any(isinstance(each.step, DeleteNode) and each.unanswered for each in seen.refused)
    return names.force_deletion(seen.machine.metadata.labels) or (silent and seen.drain_timed_out)


STATUS = "write the machine's status"

RULES: Mapping[type[Step], Rule] = {
    AddFinalizer: Rule("put finalizer and priority onto the machine", _has_its_vm, _always),
    Call: Rule("read what a driver call needs", _always, _always),  # reads; errors end the call
    Record: Rule("record the machine's VM", _never, _always),
    DeleteMachine: Rule("delete the machine", _always, _always),
    Annotate: Rule("annotate the machine", _always, _always),
    UpdateVm: Rule("mark the machine before its VM is updated", _always, _always),
    EndPreservation: Rule("take the expiry off the machine", _always, _always),
    SetPreservationMarks: Rule("mark the node as preserved", _always, _always),
    SetPreservedCondition: Rule("write the node's Preserved condition", _always, _always),
    SyncNode: Rule(
        "bring the node in line with the machine", _always, _always, event=EventReason.FAILED_NODE_SYNC
    ),
    SyncCapacity: Rule(
        "write the virtual capacity of the node", _always, _always, event=EventReason.FAILED_NODE_SYNC
    ),
    Cordon: Rule("cordon the node", _always, _is_drain_timed_out, DRAINING),
    SetUpdateCondition: Rule("write the node's InPlaceUpdate condition", _always, _always),
    SetTerminatingCondition: Rule("write the node's Terminating condition", _always, _always),
    SetDrainFailedCondition: Rule("write the node's DrainFailed condition", _always, _always),
    Drain: Rule("evict pods", _always, _always),  # refused pod by pod: nodes.drain.session
    DeleteVolumeAttachments: Rule("delete the node's VolumeAttachments", _always, _always),
    DeleteNode: Rule("delete the node", _always, _may_leave_node, DELETING_NODE),
    DeleteBootstrapToken: Rule("delete the machine's bootstrap token", _always, _always),
    RemoveFinalizer: Rule("take the finalizer off the machine", _never, _never, RELEASING),
}
"""A refused step is sent again after ``REFUSED``, while it is still planned."""


def refusal_of(step: Step | None, error: KubewrightError, now: datetime) -> Refused:
    """The refusal of a step, as a process remembers it; ``step`` None: the refusal of the status.

    An error that is no refusal: the target cluster has not answered for long.
    """
    doing = RULES[type(step)].doing if step is not None else STATUS
    if not is_refusal(error):
        problem = f"The target cluster does not answer, asked to {doing}: {error}"[:MESSAGE_CHARS]
        return Refused(step, problem, Code.Unavailable, now + delays.UNHEARD, unanswered=True)
    if isinstance(error, Contested):
        problem = f"It is not tried for now to {doing}: {error.steady}"[:MESSAGE_CHARS]
        return Refused(step, problem, Code.Aborted, now + timedelta(seconds=error.wait))
    code = Code.PermissionDenied if isinstance(error, Forbidden) else Code.InvalidArgument
    problem = f"The API server refused to {doing}: {error}"[:MESSAGE_CHARS]
    return Refused(step, problem, code, now + delays.REFUSED)


def unread_because(error: KubewrightError) -> Unread:
    """What is made of it that node or pods cannot be read, if time alone may change that."""
    if is_refusal(error):
        told, wait = f"The API server refused to show node or pods: {error}", delays.REFUSED
    else:
        told, wait = f"The target cluster does not answer, asked for node and pods: {error}", delays.UNHEARD
    return Unread(told[:MESSAGE_CHARS], wait, unanswered=not is_refusal(error))


def event_of(refused: Refused) -> EventReason:
    """The reason of the event about this refusal."""
    return RULES[type(refused.step)].event if refused.step is not None else EventReason.FAILED_UPDATE


def status_refused(seen: Seen) -> bool:
    """Whether the server refused the status not long ago: then only the status is not written."""
    return _refusal_of(None, seen) is not None


def allowed(plan: Plan, seen: Seen) -> Plan | None:
    """The plan without its refused steps; None when nothing is left of it, so the next decider is asked."""
    refusals = [(step, found) for step in plan.steps if (found := _refusal_of(step, seen)) is not None]
    if not refusals:
        return plan
    deleting = seen.machine.metadata.deleting
    for step, found in refusals:
        rule = RULES[type(step)]
        if not (rule.deleting if deleting else rule.living)(seen):
            return _held(seen, found, rule)
    refused = [step for step, _ in refusals]
    left = tuple(step for step in plan.steps if step not in refused)
    empty = not left and plan.report is None and not plan.wake
    begun = any(isinstance(step, SetTerminatingCondition) for step in refused)  # so an earlier pass told it
    return None if empty else replace(plan, steps=left, milestone=None if begun else plan.milestone)


def paced(plan: Plan, seen: Seen) -> Plan:
    """The plan, with a wake-up for when the first refused write may be sent again.

    While the status itself is refused every pass finds something to report. So that passes do not follow each
    other without a pause, they come at least ``POLL`` apart in a deletion, else when the first refusal ends.
    """
    rests = [each.until - seen.now for each in seen.refused if seen.now < each.until]
    if not rests:
        return plan
    if status_refused(seen) and plan.report is not None and plan.wake is not None:
        pause = delays.POLL if seen.machine.metadata.deleting else min(rests)
        plan = replace(plan, wake=max(plan.wake, pause))
    return plan.sooner(min(rests))


def _held(seen: Seen, found: Refused, rule: Rule) -> Plan:
    """The machine waits until the server accepts this write: its status says so, and its time-outs run on."""
    if seen.machine.metadata.deleting:
        report = deletion_blocked_report(
            f"{found.problem}. Will retry in next sync. {rule.ends}", found.code.name
        )
        left = seen.drain_time_left
        return Plan(report=report, wake=left if left > timedelta(0) else None, because=found.problem)
    return Plan(
        report=creation_failed(seen, found.code, found.problem),
        wake=until_late(seen),
        because=found.problem,
        warning=(EventReason.MACHINE_FAILED, found.problem) if is_late(seen) else None,
    )


def _refusal_of(step: Step | None, seen: Seen) -> Refused | None:
    """The refusal of an equal step, while the process remembers it."""
    return next((each for each in seen.refused if seen.now < each.until and _same(each.step, step)), None)


def _same(one: Any, other: Any) -> bool:
    """Whether two steps ask for the same change, whatever version of the object they were planned from."""
    return type(one) is type(other) and _content(one) == _content(other)


def _content(step: Any) -> Any:
    patch = getattr(step, "patch", None)
    return _lasting(patch) if isinstance(patch, Mapping) else step


_FLEETING = frozenset(("resourceVersion", "timeAdded", "lastHeartbeatTime", "lastTransitionTime"))
"""Fields that differ between two patches although both ask for the same change."""


def _lasting(value: Any) -> Any:
    """A patch without the fields that only say when, or from which version, it was made."""
    if isinstance(value, Mapping):
        return {key: _lasting(each) for key, each in value.items() if key not in _FLEETING}
    return [_lasting(each) for each in value] if isinstance(value, list) else value


WELL = (Phase.RUNNING, Phase.AVAILABLE, Phase.IN_PLACE_UPDATE_SUCCESSFUL)
"""Phases in which a living machine waits for nothing."""
UPDATED = (Phase.IN_PLACE_UPDATING, Phase.IN_PLACE_UPDATE_FAILED)


def awaited(seen: Seen, plan: Plan) -> tuple[Awaited, ...]:
    """What has to come from elsewhere before the machine goes on."""
    calls = any(isinstance(step, Call) for step in plan.steps)
    if plan.steps and plan.wake == AT_ONCE and not calls:
        return ()
    for each in seen.refused:
        if each.problem in plan.because:
            return (Awaited("the API server to take a write", f"mend this: {each.problem}"),)
    phase = seen.phase_after(plan.report)
    found = _of_deletion(seen) if seen.machine.metadata.deleting else _of_life(seen, phase)
    return tuple(found)[:1]


def _of_life(seen: Seen, phase: Phase) -> Iterator[Awaited]:
    """While it is to have a VM and a node; ``phase``: what the plan makes of it."""
    if seen.unreachable:
        remedy = "see whether its API server answers"
        yield Awaited(f"the {seen.unreachable} cluster", remedy)
    wants_vm = not seen.recorded or vm_incomplete(seen.machine)
    if wants_vm and seen.problem and not seen.vm.running:
        yield _correction(seen)
    vm = seen.vm_plan(Want.ENSURED)
    if wants_vm and not seen.has_healthy_node:
        yield from vm.awaits
    yield from _update(seen)
    has_vm = not wants_vm or vm.state is State.DONE
    if has_vm and seen.settings.joins and phase not in WELL:
        yield _node(seen, phase)


def _update(seen: Seen) -> Iterator[Awaited]:
    """What an update of its VM waits for."""
    if seen.vm.running and seen.vm.verb is Verb.UPDATE:
        yield Awaited("the driver to update the VM", "see whether its cloud answers", seen.vm.began)
    if seen.specs is not None and seen.specs.due and (error := seen.vm.failed(Verb.UPDATE)):
        yield Awaited(f"the cloud to take an update of the VM: {error.code.name}", remedy(error.code))


def _node(seen: Seen, phase: Phase) -> Awaited:
    """What is to become of its node."""
    name = names.node_name(seen.machine.metadata.labels) or seen.machine.name
    if phase is Phase.FAILED:
        remedy = "see its set; where it has none, delete it"
        return Awaited(f"Machine {seen.machine.name} to be replaced", remedy, seen.phase_since)
    if phase in UPDATED:
        remedy = "see the agent on the node, which writes the result"
        return Awaited(f"the update of Node {name}", remedy, seen.phase_since)
    if seen.node is None:
        remedy = "see the console of the VM, and whether its kubelet may register under this name"
        return Awaited(f"Node {name}", remedy, seen.phase_since)
    if seen.has_healthy_node:
        return Awaited(f"the critical components of Node {name}", "see its taints", seen.phase_since)
    return Awaited(f"Node {name} to be healthy", "see the conditions of the node", seen.phase_since)


def _of_deletion(seen: Seen) -> Iterator[Awaited]:
    """While it is being deleted: the first stage that is not over."""
    if seen.vm_plan(Want.KNOWN).state is State.RUNNING:
        yield from seen.vm_plan(Want.KNOWN).awaits
    if seen.unread is not None and not seen.drain_timed_out and not seen.vm.running:
        remedy = f"see whether the API server of the nodes answers; {_forced()}"
        yield Awaited("node and pods to be readable", remedy, seen.deleted_at)
    if seen.node is not None and seen.vm.verb is not Verb.DELETE and not seen.vm.absent:
        yield from _of_node(seen, seen.node.metadata.name)
    gone = seen.vm_plan(Want.GONE)
    if gone.state is State.BLOCKED and seen.problem:
        yield _correction(seen)
    yield from gone.awaits
    if seen.node is not None and seen.node.metadata.deleting:
        yield Awaited(f"Node {seen.node.metadata.name} to be deleted", "see the finalizers of the node")


def _of_node(seen: Seen, name: str) -> Iterator[Awaited]:
    """Its node, before the VM goes."""
    if seen.drain is not None and not seen.drain.done:
        remedy = f"see the pods and budgets that status.lastOperation names; {_forced()}"
        yield Awaited(f"the pods of Node {name} to leave", remedy, seen.deleted_at)
    moving = seen.drain is not None and bool(seen.drain.moving)
    if (seen.attachments or moving) and not seen.forced:
        remedy = f"see the driver of the volumes; {_forced()}"
        yield Awaited(f"the volumes of Node {name} to be detached", remedy, seen.drained_since)


def _correction(seen: Seen) -> Awaited:
    """What is missing or wrong, so that the driver cannot be called."""
    needed = "a class and Secrets" if seen.secret_missing else "a class and a spec"
    return Awaited(f"{needed} that the driver can be given", f"mend this: {seen.problem}")


def _forced() -> str:
    return f"label {names.FORCE_DELETION_LABEL}=True ends the wait"


MAX_LOOKS_AHEAD = 4
"""How many later times are tried at most: each is when the plan before it wants to look again."""


@dataclass(frozen=True, slots=True)
class Foresight:
    """``now``: the plan of this moment. ``then``: the next different one, which comes at ``at``; None where
    time alone brings none."""

    now: Plan
    then: Plan | None = None
    at: datetime | None = None


def foresee(seen: Seen, after: timedelta | None = None) -> Foresight:
    """The plan for what is seen, and the one that follows it when time alone goes on.

    ``after``: how long it is until the next pass, where a manager says that; only that time is tried then.
    None: the times at which the plans want to look again.
    """
    now = plan = decide(seen)
    for _ in range(MAX_LOOKS_AHEAD if after is None else 1):
        wait = plan.wake if after is None else after
        if wait is None or wait <= timedelta():
            break
        seen = replace(seen, now=seen.now + wait, wall=seen.wall + wait)
        plan = decide(seen)
        if (plan.because, plan.report) != (now.because, now.report):
            return Foresight(now, plan, seen.wall)
    return Foresight(now)


def outcome(plan: Plan) -> str:
    """A plan as a clause for users: the phase that it reports, its message or reason, its steps."""
    report, steps = plan.report, ", ".join(type(each).__name__ for each in plan.steps)
    phase = report.phase.value if report is not None else ""
    told = report.description.strip() if report is not None and report.description else plan.because
    return ": ".join(filter(None, (phase, told))) + (f" ({steps})" if steps else "")
