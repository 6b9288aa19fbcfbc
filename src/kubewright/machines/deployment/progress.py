"""Compute a MachineDeployment's condition ``Progressing``: how its rollout goes. Pure.

Theory.      Each rollout is reported from its beginning, and its completion once. Which rollout the written
             condition is about follows from its message, which names a set: if that is not the current
             set, it is about an earlier rollout, and the present one begins with this report. Whether
             the set was created for this rollout or found, its creationTimestamp and revisions tell. So
             the next report makes up for one that came too early, was refused, or was lost with its
             process, and no order of edits hides a rollout. ``NewMachineSetAvailable`` stays until the next
             rollout: neither a new size nor an unhealthy machine begins one (cluster-autoscaler removes
             machines only while the condition has that reason).
             Progress is what exceeds every earlier report of the same rollout: machines that fail and are
             replaced are no progress, and do not postpone the deadline.
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
from kubewright.machines.machineset.member import stamp
from kubewright.replicas.objects import INVALID
from kubewright.rollout.progress import Counts, Progress, Report, is_complete, progress, seconds_left

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
_PAUSED, _RESUMED = ConditionReason.DEPLOYMENT_PAUSED, ConditionReason.DEPLOYMENT_RESUMED
_COMPLETE, _LATE = ConditionReason.NEW_MACHINE_SET_AVAILABLE, ConditionReason.PROGRESS_DEADLINE_EXCEEDED
_UPDATED, _REFUSED = ConditionReason.MACHINE_SET_UPDATED, ConditionReason.MACHINE_SET_CREATE_ERROR

Condition = MachineDeploymentCondition


@dataclass(frozen=True, slots=True)
class News:
    """What happened in a pass that the caches cannot show.

    ``create_error`` the error that kept the pass from creating a set; empty if none
    ``failed``       a write of the pass failed
    """

    create_error: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """A condition without its times."""

    status: str
    reason: str
    message: str


def progress_word(seen: Seen, news: News) -> Word | None:
    """The condition to write; None leaves it as it is."""
    known, paused = progressing(seen.written), seen.written.spec.paused
    if seen.problem:
        return Word(FALSE, INVALID, seen.problem)
    if news.create_error:
        return _not_made(seen, news.create_error)
    if paused:
        return None if _says(known, _LATE, _PAUSED) else Word(UNKNOWN, _PAUSED, "Deployment is paused")
    if seen.refused:
        return Word(FALSE, ConditionReason.IN_PLACE_UPDATE_UNSUPPORTED, seen.refused)
    if rolled_out(seen):
        return Word(TRUE, _COMPLETE, f"{_subject(seen)} has successfully progressed.")
    if _says(known, _PAUSED):
        return Word(UNKNOWN, _RESUMED, "Deployment is resumed")
    return _first_word(known, seen) if known is None or begins(seen) else _verdict(known, seen)


def begins(seen: Seen) -> bool:
    """Whether no report of the present rollout has been written yet."""
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


def rolled_out(seen: Seen) -> bool:
    """Whether the rollout is complete: all replicas updated and available, old sets empty and sized 0."""
    counted = is_complete(seen.counts, seen.written.spec.replicas)
    return counted and seen.current is not None and not any(group.claim for group in seen.fleet.old)


def progressing(written: MachineDeployment) -> Condition | None:
    """The condition ``Progressing`` on the server; None if there is none."""
    return next((c for c in written.status.conditions if c.type == ConditionType.PROGRESSING), None)


def progress_reported(written: MachineDeployment) -> float | None:
    """The date of the last report of progress, in seconds since the epoch; None when there was none."""
    known = progressing(written)
    return stamp(known.last_update_time or known.last_transition_time) if known is not None else None


def until_late(seen: Seen) -> float | None:
    """Seconds until the progress deadline of the rollout; None if no deadline runs."""
    if seen.written.spec.paused or rolled_out(seen):
        return None
    return seconds_left(_last_report(seen), _clock(seen))


def told_counts(status: MachineDeploymentStatus) -> Counts:
    """The replica counts of a status."""
    return Counts(status.replicas, status.updated_replicas, status.ready_replicas, status.available_replicas)


def _says(known: Condition | None, *reasons: str) -> bool:
    return known is not None and known.reason in reasons


def _subject(seen: Seen) -> str:
    """The subject of the message: the current set, or the deployment before it has one."""
    if seen.current is None:
        return f'Machine Deployment "{seen.written.metadata.name}"'
    return f'MachineSet "{seen.current.metadata.name}"'


def _beginnings(seen: Seen) -> tuple[Word, ...]:
    """The two first reports about the current set: it was created, or it was found."""
    if seen.current is None:
        return ()
    name = seen.current.metadata.name
    made = Word(TRUE, ConditionReason.NEW_MACHINE_SET_CREATED, f'Created new machine set "{name}"')
    found = Word(TRUE, ConditionReason.FOUND_NEW_MACHINE_SET, f'Found new machine set "{name}"')
    return made, found


def _is_about(known: Condition, seen: Seen) -> bool:
    """Whether the message is about the current set or, without one, about the deployment."""
    first = {word.message for word in _beginnings(seen)}
    return known.message.startswith(f"{_subject(seen)} ") or known.message in first


def _first_word(known: Condition | None, seen: Seen) -> Word | None:
    """The first report of a rollout. A set younger than its deployment that was never current before was
    created for it; any other was found."""
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
        case _:  # an earlier report told that it is complete
            return None


def _not_made(seen: Seen, error: str) -> Word:
    """Report a set that cannot be created at once; past the deadline, that the rollout has timed out."""
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
