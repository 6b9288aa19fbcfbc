"""Conditions as Cluster API writes them: make one, set several, summarize, aggregate, mirror.

Theory.      A controller makes conditions (``true_condition``, ``false_condition``, ``unknown_condition``),
             and ``with_conditions`` sets them in a list: Ready first, the rest by type, each with its time.
             Conditions of one object are summarized (``summary``), those of several objects aggregated
             (``aggregate``): the condition with the highest priority gives status, reason and message. False
             with severity Error has the highest, then Warning, then Info, then True, and Unknown the lowest.
Invariants.  A condition of which nothing changed keeps its ``lastTransitionTime``; with another message it
             gets a new one. So that time says when the condition was last written, not since when its status
             is what it is: no controller here counts a time-out from it. Only a False condition has a
             severity.
Source       capi.md §4.5, in whole; the names of types and reasons are in §4.4.
Called by    controllers of ``clusters``, ``bootstrap``, ``infra``. ``api.conditions`` finds and removes
             conditions of any kind, and sets those whose time changes with their status only.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from msgspec import structs

from kubewright.api.cluster.v1beta1.shared import Condition
from kubewright.api.meta import Json
from kubewright.base.clock import parse_rfc3339

READY = "Ready"
PAUSED = "Paused"
"""Of our kinds of control planes: it exists only while the object is paused."""
TRUE, FALSE, UNKNOWN = STATUSES = "True", "False", "Unknown"
ERROR, WARNING, INFO = "Error", "Warning", "Info"

Conditions = tuple[Condition, ...]


def true_condition(condition_type: str) -> Condition:
    """A condition of this type with status True."""
    return Condition(type=condition_type, status=TRUE)


def false_condition(condition_type: str, reason: str, severity: str, message: str = "") -> Condition:
    """A condition of this type with status False."""
    return Condition(type=condition_type, status=FALSE, severity=severity, reason=reason, message=message)


def unknown_condition(condition_type: str, reason: str, message: str = "") -> Condition:
    """A condition of this type with status Unknown."""
    return Condition(type=condition_type, status=UNKNOWN, reason=reason, message=message)


def same_state(one: Condition, other: Condition) -> bool:
    """Whether two conditions are equal but for their times."""
    return structs.replace(one, last_transition_time=None) == structs.replace(
        other, last_transition_time=None
    )


def with_conditions(
    conditions: Iterable[Condition], wanted: Iterable[Condition], now: datetime
) -> Conditions:
    """The conditions with each of ``wanted`` in place of the one of its type, in the order of ``in_order``.

    A condition that changes gets the time ``now``. One of a type that was not there keeps its own time, if it
    has one: a mirrored condition is as old as its source.
    """
    found = {each.type: each for each in conditions}
    for each in wanted:
        new = each if each.status == FALSE else structs.replace(each, severity="")
        old = found.get(new.type)
        if old is None:
            at = new.last_transition_time or now
        else:
            at = (old.last_transition_time or now) if same_state(old, new) else now
        found[new.type] = structs.replace(new, last_transition_time=at)
    return in_order(found.values())


def in_order(conditions: Iterable[Condition]) -> Conditions:
    """Ready first, the rest by type."""
    return tuple(sorted(conditions, key=_order))


class Source(NamedTuple):
    """One object whose condition takes part in an aggregate; None if it has none."""

    kind: str
    name: str
    condition: Condition | None


def summary(
    conditions: Iterable[Condition],
    types: tuple[str, ...],
    *,
    steps: tuple[str, ...] = (),
    target: str = READY,
) -> Condition | None:
    """One condition of type ``target`` for those of these types; None if there is none of them.

    ``steps`` are types that become True one after the other: while no other of ``types`` is there, the
    message of a summary that is not True is ``1 of 2 completed``.
    """
    scope = [each for each in conditions if each.type in types and each.type != target]
    if not scope:
        return None
    top = min(_priority(each) for each in scope)
    first = min((each for each in scope if _priority(each) == top), key=lambda each: types.index(each.type))
    message = first.message
    if steps and all(each.type in steps for each in scope):
        message = _completed(scope, len(steps))
    return _condition_like(target, first, first.reason, message)


def aggregate(target: str, sources: Iterable[Source], *, counted: bool = False) -> Condition | None:
    """One condition of type ``target`` for those of several objects; None if none of them has one.

    The reason says where it comes from (``NodeNotFound @ Machine/worker-3``) unless it says so already.
    ``counted`` makes the message ``3 of 5 completed``.
    """
    every = list(sources)
    there = [(each.condition, each.name, each.kind) for each in every if each.condition is not None]
    if not there:
        return None
    first, name, kind = min(there, key=lambda each: (_priority(each[0]), each[1], each[2]))
    reason = first.reason if "@" in first.reason else f"{first.reason} @ {kind}/{name}"
    message = _completed([each for each, _, _ in there], len(every)) if counted else first.message
    return _condition_like(target, first, reason, message)


def mirror(target: str, source: Condition | None, fallback: Condition | None = None) -> Condition | None:
    """The condition Ready of another object, as a condition of type ``target``.

    Without a source it is ``fallback``. A False without a severity (``metav1.Condition`` has none) takes the
    fallback's.
    """
    if source is None:
        return None if fallback is None else structs.replace(fallback, type=target)
    severity = source.severity or (fallback.severity if fallback is not None else "") or INFO
    return structs.replace(source, type=target, severity=severity if source.status == FALSE else "")


def ready_of(external: Mapping[str, Json] | None) -> Condition | None:
    """The condition Ready of an object of any kind, which is plain JSON; None where none can be read."""
    status = external.get("status") if external is not None else None
    listed = status.get("conditions") if isinstance(status, Mapping) else None
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, Mapping) and each.get("type") == READY and each.get("status") in STATUSES:
            return Condition(
                type=READY,
                status=each["status"],
                severity=_text(each, "severity"),
                reason=_text(each, "reason"),
                message=_text(each, "message"),
                last_transition_time=_time(each),
            )
    return None


def _condition_like(target: str, first: Condition, reason: str, message: str) -> Condition:
    if first.status == TRUE:
        return true_condition(target)
    severity = (first.severity or ERROR) if first.status == FALSE else ""
    return Condition(type=target, status=first.status, severity=severity, reason=reason, message=message)


def _priority(condition: Condition) -> int:
    """0 is the highest priority. A False without a severity counts as an Error."""
    if condition.status == FALSE:
        return {WARNING: 1, INFO: 2}.get(condition.severity, 0)
    return 3 if condition.status == TRUE else 4


def _completed(conditions: list[Condition], of: int) -> str:
    return f"{sum(each.status == TRUE for each in conditions)} of {of} completed"


def _order(condition: Condition) -> tuple[bool, str]:
    return condition.type != READY, condition.type


def _text(condition: Mapping[str, Json], key: str) -> str:
    found = condition.get(key)
    return found if isinstance(found, str) else ""


def _time(condition: Mapping[str, Json]) -> datetime | None:
    try:
        return parse_rfc3339(_text(condition, "lastTransitionTime"))
    except ValueError:
        return None
