"""The status of a MachineDeployment, from what was seen and how the pass went. Pure.

Theory.      Numbers come from the machines, not from the sets' status. Progress is measured against
             the status that was last written, and its deadline counts from when that was: as a rule
             we saw it ourselves; a process that begins later reads the date in the condition.
Source       mcm.md §2.7, §7.10-7.12; defects 14, 28 and 29 of §19 are not copied.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from msgspec import structs

from kubewright.api.machine.names import ConditionReason, ConditionType, Phase
from kubewright.api.machine.v1alpha1 import (
    MachineDeployment,
    MachineDeploymentCondition,
    MachineDeploymentStatus,
    MachineSet,
    MachineSummary,
)
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.machines.deployment.observe import Seen
from kubewright.machines.machineset.members import Member, stamp
from kubewright.machines.machineset.status import INVALID, until_available
from kubewright.rollout.progress import Counts, Progress, Report, is_complete, progress, seconds_left

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
_PAUSED, _RESUMED = ConditionReason.DEPLOYMENT_PAUSED, ConditionReason.DEPLOYMENT_RESUMED
_COMPLETE, _LATE = ConditionReason.NEW_MACHINE_SET_AVAILABLE, ConditionReason.PROGRESS_DEADLINE_EXCEEDED


@dataclass(frozen=True, slots=True)
class News:
    """What the pass did: the set that it made, or the error that kept it from making one."""

    created: str = ""
    create_error: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """A condition without its times."""

    status: str
    reason: str
    message: str


Conditions = dict[str, MachineDeploymentCondition]


def deployment_status(seen: Seen, news: News) -> MachineDeploymentStatus:
    """The status as it should be now."""
    before, counts = seen.written.status, seen.counts
    conditions: Conditions = {condition.type: condition for condition in before.conditions}
    if not seen.deleting:
        if not seen.problem:
            _put(conditions, ConditionType.AVAILABLE, _availability(seen, counts), seen.now)
        _report_progress(conditions, seen, counts, news)
        _copy_failure(conditions, seen)
    done = not (news.failed or seen.problem)
    return structs.replace(
        before,
        observed_generation=seen.written.metadata.generation if done else before.observed_generation,
        replicas=counts.replicas,
        updated_replicas=counts.updated,
        ready_replicas=counts.ready,
        available_replicas=counts.available,
        unavailable_replicas=max(sum(group.size for group in seen.groups.values()) - counts.available, 0),
        preserved_failed_replicas=_preserved_failed(seen),
        conditions=tuple(conditions.values()),
        failed_machines=_failed_machines(_members(seen)),
    )


def next_look(seen: Seen) -> float | None:
    """Seconds until time alone changes the status: a machine ready for long enough, a deadline over."""
    waits = [
        until_available(seen.members_of(each), each.spec.min_ready_seconds, seen.time) for each in seen.sets
    ]
    if not seen.written.spec.paused and not is_complete(seen.counts, seen.written.spec.replicas):
        clock = (seen.time, seen.written.spec.progress_deadline_seconds)
        waits.append(seconds_left(_last_report(seen), clock))
    return min((wait for wait in waits if wait is not None), default=None)


def _members(seen: Seen) -> Iterable[Member]:
    return (member for found in seen.members.values() for member in found)


def _availability(seen: Seen, counts: Counts) -> Word:
    floor = seen.strategy.limits(seen.written.spec.replicas).floor - _preserved_failed(seen)
    if counts.available >= max(floor, 0):
        return Word(TRUE, ConditionReason.MINIMUM_REPLICAS_AVAILABLE, "Deployment has minimum availability.")
    told = "Deployment does not have minimum availability."
    return Word(FALSE, ConditionReason.MINIMUM_REPLICAS_UNAVAILABLE, told)


def _report_progress(conditions: Conditions, seen: Seen, counts: Counts, news: News) -> None:
    known = conditions.get(ConditionType.PROGRESSING)
    word = _progress_word(known, seen, counts, news)
    if word is None:
        return
    moving = word.reason == ConditionReason.MACHINE_SET_UPDATED and known is not None
    _put(conditions, ConditionType.PROGRESSING, word, seen.now, refresh=moving)


def _progress_word(
    known: MachineDeploymentCondition | None, seen: Seen, counts: Counts, news: News
) -> Word | None:
    """What is to be said about progress; None leaves the condition as it is."""
    if seen.problem:
        return Word(FALSE, INVALID, seen.problem)
    if news.create_error:
        return Word(FALSE, ConditionReason.MACHINE_SET_CREATE_ERROR, news.create_error)
    if news.created:
        told = f'Created new machine set "{news.created}"'
        return Word(TRUE, ConditionReason.NEW_MACHINE_SET_CREATED, told)
    if (word := _pause_word(known, seen)) is not None or seen.written.spec.paused:
        return word
    if known is None or known.reason in (INVALID, ConditionReason.MACHINE_SET_CREATE_ERROR):
        name = seen.current.metadata.name if seen.current else ""
        found = Word(TRUE, ConditionReason.FOUND_NEW_MACHINE_SET, f'Found new machine set "{name}"')
        return found if name else None
    return _verdict(known, seen, counts)


def _pause_word(known: MachineDeploymentCondition | None, seen: Seen) -> Word | None:
    """Pausing and resuming are told once, and never hide that a deadline was missed."""
    reason = known.reason if known else ""
    if reason == _LATE:
        return None
    if seen.written.spec.paused and reason != _PAUSED:
        return Word(UNKNOWN, _PAUSED, "Deployment is paused")
    if not seen.written.spec.paused and reason == _PAUSED:
        return Word(UNKNOWN, _RESUMED, "Deployment is resumed")
    return None


def _verdict(known: MachineDeploymentCondition, seen: Seen, counts: Counts) -> Word | None:
    spec, before = seen.written.spec, seen.written.status
    last = Counts(before.replicas, before.updated_replicas, before.ready_replicas, before.available_replicas)
    clock = (seen.time, spec.progress_deadline_seconds)
    who = (
        f'MachineSet "{seen.current.metadata.name}"'
        if seen.current
        else f'Machine Deployment "{seen.written.metadata.name}"'
    )
    match progress(last, counts, spec.replicas, _last_report(seen), clock):
        case Progress.COMPLETE:
            return Word(TRUE, _COMPLETE, f"{who} has successfully progressed.")
        case Progress.PROGRESSING:
            return Word(TRUE, ConditionReason.MACHINE_SET_UPDATED, f"{who} is progressing.")
        case Progress.TIMED_OUT:
            return Word(FALSE, _LATE, f"{who} has timed out progressing.")
        case Progress.WAITING:
            return None


def progress_reported(written: MachineDeployment) -> float | None:
    """The date of the last report of progress, in seconds since the epoch; None when there was none."""
    known = _progressing(written)
    return stamp(known.last_update_time or known.last_transition_time) if known is not None else None


def _progressing(written: MachineDeployment) -> MachineDeploymentCondition | None:
    return next((c for c in written.status.conditions if c.type == ConditionType.PROGRESSING), None)


def _last_report(seen: Seen) -> Report | None:
    known = _progressing(seen.written)
    return Report(seen.reported or 0.0, complete=known.reason == _COMPLETE) if known is not None else None


def _copy_failure(conditions: Conditions, seen: Seen) -> None:
    """A deployment fails to have its replicas when one of its sets does; the current set speaks first."""
    kind = ConditionType.REPLICA_FAILURE
    ordered = sorted(seen.sets, key=lambda each: each is not seen.current)
    found = [c for each in ordered for c in _failures(each)]
    if not found:
        conditions.pop(kind, None)
    else:
        _put(conditions, kind, Word(found[0].status, found[0].reason, found[0].message), seen.now)


def _failures(machine_set: MachineSet) -> list[Word]:
    return [
        Word(condition.status, condition.reason, condition.message)
        for condition in machine_set.status.machine_set_condition
        if condition.type == ConditionType.REPLICA_FAILURE and condition.status == TRUE
    ]


def _put(conditions: Conditions, kind: str, word: Word, now: datetime, *, refresh: bool = False) -> None:
    """Say ``word``; what it says already keeps its times, unless progress is to be ``refresh``-ed."""
    known = conditions.get(kind)
    message = word.message[:MESSAGE_CHARS]
    if (
        known is not None
        and not refresh
        and (known.status, known.reason, known.message)
        == (
            word.status,
            word.reason,
            message,
        )
    ):
        return
    since = known.last_transition_time if known is not None and known.status == word.status else now
    conditions[kind] = MachineDeploymentCondition(
        type=kind,
        status=word.status,
        last_update_time=now,
        last_transition_time=since,
        reason=word.reason,
        message=message,
    )


def _preserved_failed(seen: Seen) -> int:
    return sum(
        member.phase is Phase.FAILED and member.preserved_until is not None for member in _members(seen)
    )


def _failed_machines(members: Iterable[Member]) -> tuple[MachineSummary, ...]:
    found = [member.trouble for member in members if member.trouble is not None]
    return tuple(sorted(found, key=lambda summary: summary.name))
