"""What a deployment's status says in every API, from what was seen and what failed in the pass. Pure.

Counts.      Replica counts come from the members, not from the sets' status. A policy builds its status from
             ``counted`` and ``conditions``, and adds its own fields.
Progressing  Each rollout is reported from its beginning, and its completion once. Which rollout the written
             condition is about follows from its message, which names a set: if that is not the current set,
             it is about an earlier rollout, and the present one begins with this report. Its
             creationTimestamp and revisions say whether the set was created for this rollout or found. So a
             later report replaces one that came too early, or was lost with its process, and no order of
             edits hides a rollout. "Complete" stays until the next rollout: neither a new size nor an
             unhealthy member begins one (cluster-autoscaler removes machines only while the condition has
             that reason). Progress is what exceeds every earlier report of the same rollout: members that
             fail and are replaced are no progress, and do not postpone the deadline. Reasons and nouns are
             the policy's.
Invariants.  What has not changed gives an equal status, so nothing is written.
Called by    ``wiring``; ``status`` of each policy.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from kubewright.api.conditions import condition_of, find_true_condition, with_condition, without_condition
from kubewright.base.clock import stamp
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.base.plan import soonest
from kubewright.replicas.deployment.seen import Failures, Seen
from kubewright.replicas.objects import REPLICA_FAILURE, D, DeploymentObject, M, S, until_available
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


def rollout_statement(seen: Seen[D, S, M], failures: Failures) -> Statement | None:
    """The condition to write; None leaves it as it is."""
    known, paused, reasons = progressing(seen.written), seen.deployment.spec.paused, seen.policy.reasons
    if seen.problem:
        return Statement(FALSE, reasons.invalid, seen.problem)
    if failures.create_error:
        return _not_created(seen, failures.create_error)
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


AVAILABLE = "Available"

Copies = Mapping[str, Callable[[S], Statement | None]]
"""By type, how a condition of a deployment follows from one of its sets, beside ReplicaFailure."""


def counted(seen: Seen[D, S, M], failures: Failures) -> dict[str, Any]:
    """The fields of a status that are numbers in every API."""
    counts, done = seen.counts, not (failures.failed or seen.problem)
    written, sizes = seen.written, (group.size for group in seen.groups.values())
    return {
        "observed_generation": written.metadata.generation if done else written.status.observed_generation,
        "replicas": counts.replicas,
        "updated_replicas": counts.updated,
        "ready_replicas": counts.ready,
        "available_replicas": counts.available,
        "unavailable_replicas": max(sum(sizes) - counts.available, 0),
    }


def conditions(
    seen: Seen[D, S, M],
    failures: Failures,
    kind: Callable[..., Any],
    copies: Copies[S],
    unavailable_on_purpose: int = 0,
) -> tuple[Any, ...]:
    """The conditions: Available, Progressing, and those that are copied from the sets.

    Args:
        seen: what there is.
        failures: what failed in the pass.
        kind: the type of a condition.
        copies: how further conditions follow from a set; the current set's go before others'. A set's
            ReplicaFailure is copied in every API.
        unavailable_on_purpose: how many replicas are so.
    """
    found: tuple[Any, ...] = seen.written.status.conditions
    if seen.deleting:
        return found
    made = partial(_condition, kind, seen.wall)
    if not seen.problem:
        found = _put(found, made(AVAILABLE, _availability(seen, unavailable_on_purpose)))
    if (statement := rollout_statement(seen, failures)) is not None:
        updated = _updated(seen, progressing(seen.written), statement)
        found = _put(found, made(PROGRESSING, statement, updated), renewed=updated is not None)
    every: Copies[S] = {REPLICA_FAILURE: partial(_failure, seen), **copies}
    for name, copy in every.items():
        statements = map(copy, _current_first(seen))
        statement = next((each for each in statements if each is not None), None)
        found = without_condition(found, name) if statement is None else _put(found, made(name, statement))
    return found


def _condition(
    kind: Callable[..., Any], now: datetime, name: str, statement: Statement, updated: datetime | None = None
) -> Condition:
    return kind(
        type=name,
        status=statement.status,
        last_update_time=updated or now,
        last_transition_time=now,
        reason=statement.reason,
        message=statement.message[:MESSAGE_CHARS],
    )


def _put(found: tuple[Any, ...], wanted: Condition, *, renewed: bool = False) -> tuple[Any, ...]:
    """The conditions with this one. One that says the same keeps its times, unless it is ``renewed``."""
    known = condition_of(found, wanted.type)
    if known is not None and not renewed and _says(known) == _says(wanted):
        return found
    return with_condition(found, wanted)


def _says(condition: Condition) -> tuple[str, str, str]:
    return condition.status, condition.reason, condition.message


def _current_first(seen: Seen[D, S, M]) -> tuple[S, ...]:
    """The sets, the current one before all others."""
    current, others = seen.current, tuple(each for each in seen.sets if each is not seen.current)
    return others if current is None else (current, *others)


def next_look(seen: Seen[D, S, M]) -> float | None:
    """Seconds until time alone changes the status: ``minReadySeconds`` or the progress deadline is over."""
    waits = [until_available(seen.members_of(s), s.spec.min_ready_seconds, seen.now) for s in seen.sets]
    return soonest(*waits, until_late(seen))


def _failure(seen: Seen[D, S, M], each: S) -> Statement | None:
    found = find_true_condition(seen.policy.set_conditions(each), REPLICA_FAILURE)
    return Statement(TRUE, found.reason, found.message) if found is not None else None


def _availability(seen: Seen[D, S, M], unavailable_on_purpose: int) -> Statement:
    floor = seen.strategy.limits(seen.desired).floor - unavailable_on_purpose
    if seen.counts.available >= max(floor, 0):
        return Statement(TRUE, seen.policy.reasons.available, "Deployment has minimum availability.")
    message = "Deployment does not have minimum availability."
    return Statement(FALSE, seen.policy.reasons.unavailable, message)


def _updated(seen: Seen[D, S, M], known: Condition | None, statement: Statement) -> datetime | None:
    """Progress renews ``lastUpdateTime`` though the message stays the same; a set that still cannot be
    created does not, even if the error's message changes."""
    if statement.reason == seen.policy.reasons.updated:
        return seen.wall
    failing = statement.reason == seen.policy.reasons.create_error
    return known.last_update_time if failing and known and known.reason == statement.reason else None
