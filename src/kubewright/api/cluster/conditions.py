"""The arithmetic of Cluster API's conditions: set one, sum several up, copy one of another object.

Theory.      A controller says what it found by ``so``, ``not_so``, ``unknown``; ``with_conditions``
             writes that into a list: Ready first, the rest by name, each with its time. Several
             conditions become one by their groups: a False Error weighs more than a Warning, that more
             than an Info, that more than a True, and an Unknown least of all; the first of the heaviest
             group gives the reason.
Invariants.  A condition of which nothing changed keeps its ``lastTransitionTime``; with another message it
             gets a new one. So that time says when something was last written, not since when it is so: no
             controller here counts a time-out from it. Severity only goes with False.
Source.      capi.md §4.5, in whole; the names of types and reasons are in §4.4.
Called by    controllers of ``clusters``, ``bootstrap``, ``infra``. ``api.conditions`` finds and removes
             one.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from msgspec import structs

from kubewright.api.cluster.v1beta1.shared import Condition
from kubewright.api.meta import Json
from kubewright.base.clock import parse_rfc3339

READY = "Ready"
TRUE, FALSE, UNKNOWN = STATUSES = "True", "False", "Unknown"
ERROR, WARNING, INFO = "Error", "Warning", "Info"

Conditions = tuple[Condition, ...]


def so(kind: str) -> Condition:
    """The condition of this type is True."""
    return Condition(type=kind, status=TRUE)


def not_so(kind: str, reason: str, severity: str, message: str = "") -> Condition:
    """The condition of this type is False, for this reason."""
    return Condition(type=kind, status=FALSE, severity=severity, reason=reason, message=message)


def unknown(kind: str, reason: str, message: str = "") -> Condition:
    """It is not known whether the condition of this type is True, for this reason."""
    return Condition(type=kind, status=UNKNOWN, reason=reason, message=message)


def same_state(one: Condition, other: Condition) -> bool:
    """They differ in their times at most."""
    return structs.replace(one, last_transition_time=None) == structs.replace(
        other, last_transition_time=None
    )


def with_conditions(
    conditions: Iterable[Condition], wanted: Iterable[Condition], now: datetime
) -> Conditions:
    """The conditions with ``wanted`` in place of those of their types, in the order of the wire.

    A condition that changes gets the time ``now``. One of a type that was not there keeps the time that it
    brings, if any: a mirrored condition is as old as its source.
    """
    found = {each.type: each for each in conditions}
    for each in wanted:
        struct = each if each.status == FALSE else structs.replace(each, severity="")
        known = found.get(struct.type)
        if known is None:
            at = struct.last_transition_time or now
        else:
            at = (known.last_transition_time or now) if same_state(known, struct) else now
        found[struct.type] = structs.replace(struct, last_transition_time=at)
    return in_order(found.values())


def in_order(conditions: Iterable[Condition]) -> Conditions:
    """Ready first, the rest by type."""
    return tuple(sorted(conditions, key=_place))


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
    """What the conditions of these types come to, as the condition ``target``; None if there is none of them.

    ``steps`` are types that stand for steps of one way: while no other of ``types`` is there, the message of
    what is not True is ``1 of 2 completed``.
    """
    scope = [each for each in conditions if each.type in types and each.type != target]
    if not scope:
        return None
    top = min(_weight(each) for each in scope)
    first = min((each for each in scope if _weight(each) == top), key=lambda each: types.index(each.type))
    message = first.message
    if steps and all(each.type in steps for each in scope):
        message = _completed(scope, len(steps))
    return _as(target, first, first.reason, message)


def aggregate(target: str, sources: Iterable[Source], *, counted: bool = False) -> Condition | None:
    """What the conditions of several objects come to; None if none of them has one.

    The reason says where it comes from (``NodeNotFound @ Machine/worker-3``) unless it says so already.
    ``counted`` makes the message ``3 of 5 completed``.
    """
    every = list(sources)
    there = [(each.condition, each.name, each.kind) for each in every if each.condition is not None]
    if not there:
        return None
    first, name, kind = min(there, key=lambda each: (_weight(each[0]), each[1], each[2]))
    reason = first.reason if "@" in first.reason else f"{first.reason} @ {kind}/{name}"
    message = _completed([each for each, _, _ in there], len(every)) if counted else first.message
    return _as(target, first, reason, message)


def mirror(target: str, source: Condition | None, fallback: Condition | None = None) -> Condition | None:
    """The Ready of another object under the type ``target``.

    Without a source it is ``fallback``. A False without a severity (``metav1.Condition`` has none) takes the
    fallback's.
    """
    if source is None:
        return None if fallback is None else structs.replace(fallback, type=target)
    severity = source.severity or (fallback.severity if fallback is not None else "") or INFO
    return structs.replace(source, type=target, severity=severity if source.status == FALSE else "")


def ready_of(external: Mapping[str, Json] | None) -> Condition | None:
    """The Ready in the status of an object of any kind, as plain JSON; None where none can be read."""
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


def _as(target: str, first: Condition, reason: str, message: str) -> Condition:
    if first.status == TRUE:
        return so(target)
    severity = (first.severity or ERROR) if first.status == FALSE else ""
    return Condition(type=target, status=first.status, severity=severity, reason=reason, message=message)


def _weight(condition: Condition) -> int:
    """The place of a condition's group, the heaviest first. A False without a severity counts as an Error."""
    if condition.status == FALSE:
        return {WARNING: 1, INFO: 2}.get(condition.severity, 0)
    return 3 if condition.status == TRUE else 4


def _completed(conditions: list[Condition], of: int) -> str:
    return f"{sum(each.status == TRUE for each in conditions)} of {of} completed"


def _place(condition: Condition) -> tuple[bool, str]:
    return condition.type != READY, condition.type


def _text(struct: Mapping[str, Json], key: str) -> str:
    found = struct.get(key)
    return found if isinstance(found, str) else ""


def _time(struct: Mapping[str, Json]) -> datetime | None:
    try:
        return parse_rfc3339(_text(struct, "lastTransitionTime"))
    except ValueError:
        return None
