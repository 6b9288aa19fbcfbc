"""What a deployment's status says in every API, from what was seen and how the pass went. Pure.

Theory.      Replica counts come from the members, not from the sets' status. A policy builds its status from
             ``counted`` and ``conditions``, and adds its own fields. ``progress`` computes the condition
             about the rollout.
Invariants.  What has not changed gives an equal status, so nothing is written.
Source       mcm.md §2.7, §7.10-7.12; defects 14, 28 and 29 of §19 are not copied.
Called by    ``reconciler``; the function ``status`` of each policy.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from kubewright.api.conditions import condition_of, find_true_condition, with_condition, without_condition
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.base.plan import soonest
from kubewright.replicas.deployment.policy import D
from kubewright.replicas.deployment.progress import (
    FALSE,
    PROGRESSING,
    TRUE,
    Condition,
    Statement,
    progressing,
    rollout_statement,
    until_late,
)
from kubewright.replicas.deployment.seen import Seen
from kubewright.replicas.deployment.steps import Outcome
from kubewright.replicas.member import M, until_available
from kubewright.replicas.objects import REPLICA_FAILURE, S

AVAILABLE = "Available"

Copies = Mapping[str, Callable[[S], Statement | None]]
"""By type, how a condition of a deployment follows from one of its sets, beside ReplicaFailure."""


def counted(seen: Seen[D, S, M], outcome: Outcome) -> dict[str, Any]:
    """The fields of a status that are numbers in every API."""
    counts, done = seen.counts, not (outcome.failed or seen.problem)
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
    outcome: Outcome,
    kind: Callable[..., Any],
    copies: Copies[S],
    unavailable_on_purpose: int = 0,
) -> tuple[Any, ...]:
    """The conditions: Available, Progressing, and those that are copied from the sets.

    Args:
        seen: what there is.
        outcome: how the pass went.
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
    if (statement := rollout_statement(seen, outcome)) is not None:
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
