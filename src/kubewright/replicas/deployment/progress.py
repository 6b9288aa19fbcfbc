"""Compute a deployment's condition ``Progressing``, the report on its rollout. Pure.

Theory.      Each rollout is reported from its beginning, and its completion once. Which rollout the written
             condition is about follows from its message, which names a set: if that is not the current set,
             it is about an earlier rollout, and the present one begins with this report. Its
             creationTimestamp and revisions say whether the set was created for this rollout or found. So a
             later report replaces one that came too early, or was lost with its process, and no order of
             edits hides a rollout. "Complete" stays until the next rollout: neither a new size nor an
             unhealthy member begins one (cluster-autoscaler removes machines only while the condition has
             that reason). Progress is what exceeds every earlier report of the same rollout: members that
             fail and are replaced are no progress, and do not postpone the deadline.
Source       mcm.md §2.7, §7.10, §7.11; the reasons and nouns are the policy's.
Called by    ``status``.
"""

from dataclasses import dataclass
from typing import Any

from kubewright.api.conditions import condition_of
from kubewright.base.clock import stamp
from kubewright.replicas.deployment.policy import D
from kubewright.replicas.deployment.seen import Seen
from kubewright.replicas.deployment.steps import Outcome
from kubewright.replicas.member import M
from kubewright.replicas.objects import DeploymentObject, S
from kubewright.rollout.progress import (
    Counts,
    LastReport,
    Progress,
    Timing,
    is_complete,
    progress,
    seconds_left,
)

PROGRESSING = "Progressing"
TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"

Condition = Any
"""A condition of a deployment, of its API's type."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A condition without its times."""

    status: str
    reason: str
    message: str


def rollout_statement(seen: Seen[D, S, M], outcome: Outcome) -> Statement | None:
    """The condition to write; None leaves it as it is."""
    known, paused, reasons = progressing(seen.written), seen.deployment.spec.paused, seen.policy.reasons
    if seen.problem:
        return Statement(FALSE, reasons.invalid, seen.problem)
    if outcome.create_error:
        return _not_created(seen, outcome.create_error)
    if paused:
        statement = Statement(UNKNOWN, reasons.paused, "Deployment is paused")
        return None if _has_reason(known, reasons.timed_out, reasons.paused) else statement
    if rolled_out(seen):
        return Statement(TRUE, reasons.complete, f"{_subject(seen)} has successfully progressed.")
    if reasons.resumed and _has_reason(known, reasons.paused):
        return Statement(UNKNOWN, reasons.resumed, "Deployment is resumed")
    return (
        _first_statement(known, seen)
        if known is None or is_unreported(seen)
        else _later_statement(known, seen)
    )


def is_unreported(seen: Seen[D, S, M]) -> bool:
    """Whether no report of the present rollout has been written yet."""
    known, reasons = progressing(seen.written), seen.policy.reasons
    if known is None:
        return True
    if known.reason == reasons.resumed:
        return False
    if known.reason == reasons.create_error:
        return seen.current is not None
    return not _is_about(known, seen) or (
        known.reason == reasons.complete and any(group.expected for group in seen.fleet.old)
    )


def rolled_out(seen: Seen[D, S, M]) -> bool:
    """Whether the rollout is complete: all replicas updated and available, old sets empty and sized 0."""
    counted = is_complete(seen.counts, seen.desired)
    return counted and seen.current is not None and not any(group.expected for group in seen.fleet.old)


def progressing(written: DeploymentObject) -> Condition | None:
    """The condition ``Progressing`` on the server; None if there is none."""
    return condition_of(written.status.conditions, PROGRESSING)


def progress_reported(written: DeploymentObject) -> float | None:
    """The date of the last report of progress, in seconds since the epoch; None when there was none."""
    known = progressing(written)
    return stamp(known.last_update_time or known.last_transition_time) if known is not None else None


def until_late(seen: Seen[D, S, M]) -> float | None:
    """Seconds until the progress deadline of the rollout; None if no deadline runs."""
    if seen.deployment.spec.paused or rolled_out(seen):
        return None
    return seconds_left(_last_report(seen), _timing(seen))


def reported_counts(status: Any) -> Counts:
    """The replica counts of a status."""
    return Counts(status.replicas, status.updated_replicas, status.ready_replicas, status.available_replicas)


def _has_reason(known: Condition | None, *reasons: str) -> bool:
    return known is not None and known.reason in reasons


def _subject(seen: Seen[D, S, M]) -> str:
    """The subject of the message: the current set, or the deployment before it has one."""
    if seen.current is None:
        return f'{seen.policy.words.deployment} "{seen.written.name}"'
    return f'{seen.policy.set_kind.resource.kind} "{seen.current.name}"'


def _first_reports(seen: Seen[D, S, M]) -> tuple[Statement, ...]:
    """The two first reports about the current set: it was created, or it was found."""
    if seen.current is None:
        return ()
    reasons, subject = seen.policy.reasons, f'new {seen.policy.words.set} "{seen.current.name}"'
    created = Statement(TRUE, reasons.created, f"Created {subject}")
    return created, Statement(TRUE, reasons.found, f"Found {subject}")


def _is_about(known: Condition, seen: Seen[D, S, M]) -> bool:
    """Whether the message is about the current set or, without one, about the deployment."""
    first = {each.message for each in _first_reports(seen)}
    return known.message.startswith(f"{_subject(seen)} ") or known.message in first


def _first_statement(known: Condition | None, seen: Seen[D, S, M]) -> Statement | None:
    """The first report of a rollout. A set younger than its deployment that was never current before was
    created for it; any other was found."""
    if seen.current is None and known is None and not seen.sets:
        return None
    if seen.current is None or (known is not None and _is_about(known, seen)):
        return _progressing_statement(seen)
    meta = seen.current.metadata
    older = (stamp(meta.creation_timestamp) or 0.0) < (stamp(seen.written.metadata.creation_timestamp) or 0.0)
    created, found = _first_reports(seen)
    return found if older or meta.annotations.get(seen.policy.metadata_keys.history) else created


def _later_statement(known: Condition, seen: Seen[D, S, M]) -> Statement | None:
    before, timed_out = seen.best or reported_counts(seen.written.status), seen.policy.reasons.timed_out
    match progress(before, seen.counts, seen.desired, _last_report(seen), _timing(seen)):
        case Progress.PROGRESSING:
            return _progressing_statement(seen)
        case Progress.TIMED_OUT if known.reason != timed_out:
            return Statement(FALSE, timed_out, f"{_subject(seen)} has timed out progressing.")
        case _:  # an earlier report says so already
            return None


def _progressing_statement(seen: Seen[D, S, M]) -> Statement:
    return Statement(TRUE, seen.policy.reasons.updated, f"{_subject(seen)} is progressing.")


def _not_created(seen: Seen[D, S, M], error: str) -> Statement:
    """Report a set that cannot be created at once; past the deadline, that the rollout has timed out."""
    known, report, timing = progressing(seen.written), _last_report(seen), _timing(seen)
    timed_out, create_error = seen.policy.reasons.timed_out, seen.policy.reasons.create_error
    over = report is not None and timing.deadline is not None and report.since + timing.deadline < timing.now
    if _has_reason(known, timed_out) or (_has_reason(known, create_error) and over):
        return Statement(FALSE, timed_out, f"{_subject(seen)} has timed out progressing. {error}")
    return Statement(FALSE, create_error, error)


def _last_report(seen: Seen[D, S, M]) -> LastReport | None:
    known = progressing(seen.written)
    if known is None:
        return None
    return LastReport(seen.reported or 0.0, complete=known.reason == seen.policy.reasons.complete)


def _timing(seen: Seen[D, S, M]) -> Timing:
    return Timing(seen.now, seen.deployment.spec.progress_deadline_seconds)
