"""What a MachineDeployment says about its rollout: the condition ``Progressing``. Pure.

Theory.      A rollout has a beginning, and its end is said once. Which rollout the condition is about is
             read from the object itself: each sentence names its set, and one that does not name the
             current set is about an earlier rollout, so the present one has not been told of yet and
             begins with this report. Whether the set was made or found, its own dates say. So a report that
             came too early, was refused, or died with its process is made up for by the next one, and no
             order of edits hides a rollout. ``NewMachineSetAvailable`` stands until the next rollout:
             neither another size nor a machine that falls ill is one (cluster-autoscaler takes machines
             away only while that word stands).
             Progress is what no earlier report of the same rollout has told: machines that fail and are
             replaced are none, and do not put the deadline off.
Source       mcm.md §2.7, §7.10, §7.11.
Called by    ``status``.
"""

from dataclasses import dataclass

from kubewright.api.machine import names
from kubewright.api.machine.names import ConditionReason, ConditionType
from kubewright.api.machine.v1alpha1 import (
    MachineDeployment,
    MachineDeploymentCondition,
    MachineDeploymentStatus,
)
from kubewright.machines.deployment.observe import Seen
from kubewright.machines.machineset.members import stamp
from kubewright.machines.machineset.status import INVALID
from kubewright.rollout.progress import Counts, Progress, Report, is_complete, progress, seconds_left

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
_PAUSED, _RESUMED = ConditionReason.DEPLOYMENT_PAUSED, ConditionReason.DEPLOYMENT_RESUMED
_COMPLETE, _LATE = ConditionReason.NEW_MACHINE_SET_AVAILABLE, ConditionReason.PROGRESS_DEADLINE_EXCEEDED
_UPDATED, _REFUSED = ConditionReason.MACHINE_SET_UPDATED, ConditionReason.MACHINE_SET_CREATE_ERROR

Condition = MachineDeploymentCondition


@dataclass(frozen=True, slots=True)
class News:
    """What a pass came upon and no look can show: the error that kept it from making a set, or that it
    ``failed`` at something. It fails again for as long as that is so, and is told then."""

    create_error: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """A condition without its times."""

    status: str
    reason: str
    message: str


def progress_word(seen: Seen, news: News) -> Word | None:
    """What is to be said about progress; None leaves the condition as it is."""
    known, paused = progressing(seen.written), seen.written.spec.paused
    if seen.problem:
        return Word(FALSE, INVALID, seen.problem)
    if news.create_error:
        return _not_made(seen, news.create_error)
    if paused:
        return None if _says(known, _LATE, _PAUSED) else Word(UNKNOWN, _PAUSED, "Deployment is paused")
    if seen.refused:
        return Word(FALSE, ConditionReason.IN_PLACE_UPDATE_UNSUPPORTED, seen.refused)
    if at_wish(seen):
        return Word(TRUE, _COMPLETE, f"{_subject(seen)} has successfully progressed.")
    if _says(known, _PAUSED):
        return Word(UNKNOWN, _RESUMED, "Deployment is resumed")
    return _first_word(known, seen) if known is None or begins(seen) else _verdict(known, seen)


def begins(seen: Seen) -> bool:
    """Whether the present rollout has not been told of yet."""
    known = progressing(seen.written)
    if known is None:
        return True
    if known.reason == _RESUMED:
        return False
    if known.reason == _REFUSED:
        return seen.current is not None
    return not _is_about(known, seen) or (
        known.reason == _COMPLETE and any(group.claim for group in seen.fleet.old)
    )


def at_wish(seen: Seen) -> bool:
    """Everything new, everything there, nothing old, neither a machine nor the wish for one."""
    counted = is_complete(seen.counts, seen.written.spec.replicas)
    return counted and seen.current is not None and not any(group.claim for group in seen.fleet.old)


def progressing(written: MachineDeployment) -> Condition | None:
    """The condition as it stands."""
    return next((c for c in written.status.conditions if c.type == ConditionType.PROGRESSING), None)


def progress_reported(written: MachineDeployment) -> float | None:
    """The date of the last report of progress, in seconds since the epoch; None when there was none."""
    known = progressing(written)
    return stamp(known.last_update_time or known.last_transition_time) if known is not None else None


def until_late(seen: Seen) -> float | None:
    """Seconds until the deadline of the rollout; None when there is none to wait for."""
    if seen.written.spec.paused or at_wish(seen):
        return None
    return seconds_left(_last_report(seen), _clock(seen))


def told_counts(status: MachineDeploymentStatus) -> Counts:
    """The numbers of a report."""
    return Counts(status.replicas, status.updated_replicas, status.ready_replicas, status.available_replicas)


def _says(known: Condition | None, *reasons: str) -> bool:
    return known is not None and known.reason in reasons


def _subject(seen: Seen) -> str:
    """Whom the sentence is about."""
    if seen.current is None:
        return f'Machine Deployment "{seen.written.metadata.name}"'
    return f'MachineSet "{seen.current.metadata.name}"'


def _beginnings(seen: Seen) -> tuple[Word, ...]:
    """The first words about the current set: it was made, it was found."""
    if seen.current is None:
        return ()
    name = seen.current.metadata.name
    made = Word(TRUE, ConditionReason.NEW_MACHINE_SET_CREATED, f'Created new machine set "{name}"')
    found = Word(TRUE, ConditionReason.FOUND_NEW_MACHINE_SET, f'Found new machine set "{name}"')
    return made, found


def _is_about(known: Condition, seen: Seen) -> bool:
    """Whether the sentence is one about the set (or, without one, the deployment) as it is now."""
    first = {word.message for word in _beginnings(seen)}
    return known.message.startswith(f"{_subject(seen)} ") or known.message in first


def _first_word(known: Condition | None, seen: Seen) -> Word | None:
    """A set that is younger than its deployment and was never current before has been made for it."""
    if seen.current is None and known is None and not seen.sets:
        return None
    if seen.current is None or (known is not None and _is_about(known, seen)):
        return Word(TRUE, _UPDATED, f"{_subject(seen)} is progressing.")
    meta = seen.current.metadata
    older = (stamp(meta.creation_timestamp) or 0.0) < (stamp(seen.written.metadata.creation_timestamp) or 0.0)
    made, found = _beginnings(seen)
    return found if older or meta.annotations.get(names.REVISION_HISTORY_ANNOTATION) else made


def _verdict(known: Condition, seen: Seen) -> Word | None:
    before = seen.best or told_counts(seen.written.status)
    match progress(before, seen.counts, seen.written.spec.replicas, _last_report(seen), _clock(seen)):
        case Progress.PROGRESSING:
            return Word(TRUE, _UPDATED, f"{_subject(seen)} is progressing.")
        case Progress.TIMED_OUT if known.reason != _LATE:
            return Word(FALSE, _LATE, f"{_subject(seen)} has timed out progressing.")
        case _:  # what is complete was told before
            return None


def _not_made(seen: Seen, error: str) -> Word:
    """A set that cannot be made is told at once, and in time it is a rollout that is late."""
    known, report, (now, deadline) = progressing(seen.written), _last_report(seen), _clock(seen)
    over = report is not None and deadline is not None and report.since + deadline < now
    if _says(known, _LATE) or (_says(known, _REFUSED) and over):
        return Word(FALSE, _LATE, f"{_subject(seen)} has timed out progressing. {error}")
    return Word(FALSE, _REFUSED, error)


def _last_report(seen: Seen) -> Report | None:
    known = progressing(seen.written)
    return Report(seen.reported or 0.0, complete=known.reason == _COMPLETE) if known is not None else None


def _clock(seen: Seen) -> tuple[float, int | None]:
    return seen.time, seen.written.spec.progress_deadline_seconds
