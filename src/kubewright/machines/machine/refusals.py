"""What follows when an API server refuses a write of a plan, however often it is asked. Pure.

Theory.      A write can fail for a moment, and is simply made anew: the runtime retries. Or it is
             refused: the object would break a rule, a role does not allow it, a webhook forbids it.
             Then asking again helps nobody, and a plan that stops at it would never come further.
             So a refusal is something seen, like a node or a VM: it is remembered for a while, and
             decisions are made with it. ``RULES`` says of each step whether the machine can go on
             without it; where it cannot, it says so in its status, and its time-outs go on.
Invariants.  Every step has its row. What keeps a VM or a person's pods from being lost is never
             skipped: the finalizer before the cloud is asked, the record of the VM of a living machine,
             the cordon before pods are counted, the node before the finalizer. A person who forces a
             deletion skips the last two.
Source       mcm.md §4.13, §5.7 (texts of a deletion). The original retries for ever and says nothing.
Called by    ``look`` (``remember``), ``decide`` (``allowed``, ``patient``), ``act``, ``reconciler``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.driver.errors import MEDIUM, SHORT, Code
from kubewright.machines.machine import steps
from kubewright.machines.machine.creation import creation_failed, is_late, unsettled, until_late
from kubewright.machines.machine.deletion import DELETING_NODE, DRAINING, RELEASING, deletion_failed
from kubewright.machines.machine.observe import Refused, Seen
from kubewright.machines.machine.steps import Plan, Step
from kubewright.wire.errors import ApiError, Forbidden

PAUSE = timedelta(seconds=MEDIUM.seconds)
"""How long a refused write is not sent again, unless it has become another one. Whoever mends a role or a
webhook waits at most so long; whoever mends the object itself does not wait."""

BREATH = timedelta(seconds=SHORT.seconds)
"""How soon a deletion goes on whose state cannot be told."""

GoesOn = Callable[[Seen], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """One row: what the step does, in words, and whether a living and a leaving machine go on without it.

    ``ends`` is how the description of a deletion ends that waits for it: others read that.
    """

    doing: str
    living: GoesOn
    leaving: GoesOn
    ends: str = ""
    event: EventReason = EventReason.FAILED_UPDATE


def _always(_seen: Seen) -> bool:
    return True


def _never(_seen: Seen) -> bool:
    return False


def _has_its_vm(seen: Seen) -> bool:
    """Nothing more is asked of the cloud for it."""
    return seen.recorded and not unsettled(seen.machine)


def _is_out_of_patience(seen: Seen) -> bool:
    return seen.out_of_patience


def _is_forced(seen: Seen) -> bool:
    return names.force_deletion(seen.machine.metadata.labels)


STATUS = "write the machine's status"

RULES: Mapping[type[Step], Rule] = {
    steps.Adorn: Rule("put finalizer and priority onto the machine", _has_its_vm, _always),
    steps.Call: Rule("tell what a driver must know", _always, _always),  # reads; told as the call's end
    steps.Record: Rule("record the machine's VM", _never, _always),
    steps.DeleteMachine: Rule("delete the machine", _always, _always),
    steps.Annotate: Rule("annotate the machine", _always, _always),
    steps.EndPreservation: Rule("take the expiry off the machine", _always, _always),
    steps.MarkPreserved: Rule("mark the node as preserved", _always, _always),
    steps.SayPreserved: Rule("tell of the preservation in the node's status", _always, _always),
    steps.SyncNode: Rule(
        "bring the node in line with the machine", _always, _always, event=EventReason.FAILED_NODE_SYNC
    ),
    steps.Cordon: Rule("cordon the node", _always, _is_out_of_patience, DRAINING),
    steps.MarkTerminating: Rule("mark the node as terminating", _always, _always),
    steps.Drain: Rule("evict pods", _always, _always),  # each pod for itself: nodes.drain
    steps.ReleaseVolumes: Rule("delete the node's VolumeAttachments", _always, _always),
    steps.DeleteNode: Rule("delete the node", _always, _is_forced, DELETING_NODE),
    steps.DropToken: Rule("delete the machine's bootstrap token", _always, _always),
    steps.Release: Rule("take the finalizer off the machine", _never, _never, RELEASING),
}
"""Steps without which a machine goes on are tried again all the same, as long as they are planned."""


def remember(step: Step | None, error: ApiError, now: datetime) -> Refused:
    """A refusal as it is kept; ``step`` None: of the status."""
    code = Code.PermissionDenied if isinstance(error, Forbidden) else Code.InvalidArgument
    doing = RULES[type(step)].doing if step is not None else STATUS
    problem = f"The API server refused to {doing}: {error.message}"[:MESSAGE_CHARS]
    return Refused(step, problem, code, now + PAUSE)


def event_of(refused: Refused) -> EventReason:
    """The reason of the event that tells of it."""
    return RULES[type(refused.step)].event if refused.step is not None else EventReason.FAILED_UPDATE


def mute(seen: Seen) -> bool:
    """Whether the status was refused, and rests: nothing holds a machine up because it cannot tell."""
    return _refusal_of(None, seen) is not None


def allowed(plan: Plan, seen: Seen) -> Plan | None:
    """The plan as far as it is not refused; None when nothing is left of it: the next phase has its turn."""
    refusals = [(step, found) for step in plan.steps if (found := _refusal_of(step, seen)) is not None]
    if not refusals:
        return plan
    leaving = seen.machine.metadata.deleting
    for step, found in refusals:
        rule = RULES[type(step)]
        if not (rule.leaving if leaving else rule.living)(seen):
            return _held(seen, found, rule)
    refused = [step for step, _ in refusals]
    left = tuple(step for step in plan.steps if step not in refused)
    empty = not left and plan.report is None and not plan.wake
    begun = any(isinstance(step, steps.MarkTerminating) for step in refused)  # so it was told before
    return None if empty else replace(plan, steps=left, milestone=None if begun else plan.milestone)


def patient(plan: Plan, seen: Seen) -> Plan:
    """The plan, that also looks again when something that was refused may be tried again.

    What a machine cannot tell it would find again at once, and again: it looks less often until it can.
    """
    rests = [each.until - seen.now for each in seen.refused if seen.now < each.until]
    if not rests:
        return plan
    if mute(seen) and plan.report is not None and plan.wake is not None:
        breath = BREATH if seen.machine.metadata.deleting else min(rests)
        plan = replace(plan, wake=max(plan.wake, breath))
    return replace(plan, wake=plan.sooner(min(rests)))


def _held(seen: Seen, found: Refused, rule: Rule) -> Plan:
    """Nothing goes on before this is done: the machine says so, and its time-outs run."""
    if seen.machine.metadata.deleting:
        report = deletion_failed(f"{found.problem}. Will retry in next sync. {rule.ends}", found.code.name)
        return Plan(report=report, because=found.problem)
    return Plan(
        report=creation_failed(seen, seen.now, found.code, found.problem),
        wake=until_late(seen, seen.now),
        because=found.problem,
        warning=(EventReason.MACHINE_FAILED, found.problem) if is_late(seen, seen.now) else None,
    )


def _refusal_of(step: Step | None, seen: Seen) -> Refused | None:
    """The refusal of this very step that is still remembered."""
    return next((each for each in seen.refused if seen.now < each.until and _same(each.step, step)), None)


def _same(one: Any, other: Any) -> bool:
    """Whether two steps ask for the same; on which version of an object does not matter."""
    return type(one) is type(other) and _content(one) == _content(other)


def _content(step: Any) -> Any:
    patch = getattr(step, "patch", None)
    return _lasting(patch) if isinstance(patch, Mapping) else step


_FLEETING = frozenset(("resourceVersion", "timeAdded", "lastHeartbeatTime", "lastTransitionTime"))
"""What differs between two patches that ask for the same."""


def _lasting(value: Any) -> Any:
    """A patch without what says only when it was made."""
    if isinstance(value, Mapping):
        return {key: _lasting(each) for key, each in value.items() if key not in _FLEETING}
    return [_lasting(each) for each in value] if isinstance(value, list) else value
