"""Conditions: find one, and write one, in the status of any kind.

Theory.      ``lastTransitionTime`` says when ``status`` last changed, so a condition that is written again
             with the same status keeps it. A list has at most one condition of a type; a new one comes last.
             Conditions of Nodes and Pods have many writers, each of which sends its own alone, in a strategic
             merge patch: the server puts them in place, and only their date is decided here (``dated``).
             Cluster API has another rule for the date (``api.cluster.conditions``).
Called by    the status functions of controllers and of the server; ``nodes.marks``, for which another reason
             is a transition too, and hollow kubelets.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Protocol, TypeVar

from msgspec import structs

from kubewright.api.core import NodeCondition
from kubewright.api.meta import Json
from kubewright.base.clock import rfc3339


class Conditional(Protocol):
    """What the conditions of all kinds have."""

    @property
    def type(self) -> str: ...

    @property
    def status(self) -> str: ...

    @property
    def last_transition_time(self) -> datetime | None: ...


C = TypeVar("C", bound=Conditional)


def condition_of(conditions: Iterable[C], condition_type: str) -> C | None:
    """The condition of this type."""
    return next((each for each in conditions if each.type == condition_type), None)


def find_true_condition(conditions: Iterable[C], condition_type: str) -> C | None:
    """The condition of this type, if there is one and its status is True; else None."""
    return next((each for each in conditions if each.type == condition_type and each.status == "True"), None)


def is_condition_true(conditions: Iterable[C], condition_type: str) -> bool:
    """Whether there is a condition of this type and its status is True."""
    return find_true_condition(conditions, condition_type) is not None


def dated(wanted: C, known: C | None) -> C:
    """``wanted``, with the transition time of ``known``, which it replaces, if their statuses are equal."""
    if known is None or known.status != wanted.status or known.last_transition_time is None:
        return wanted
    changed: Any = wanted
    kept: C = structs.replace(changed, last_transition_time=known.last_transition_time)
    return kept


def with_condition(conditions: Iterable[C], wanted: C) -> tuple[C, ...]:
    """The conditions with ``wanted``, dated, in place of the one of its type."""
    found = {each.type: each for each in conditions}
    return tuple({**found, wanted.type: dated(wanted, found.get(wanted.type))}.values())


def without_condition(conditions: Iterable[C], condition_type: str) -> tuple[C, ...]:
    """The conditions without the one of this type."""
    return tuple(each for each in conditions if each.type != condition_type)


def with_json_conditions(status: Mapping[str, Json], *wanted: Mapping[str, Json]) -> list[Json]:
    """As ``with_condition``, for a status that is plain JSON; ``wanted`` must have their times set."""
    found = {each.get("type"): each for each in status.get("conditions") or ()}
    for each in wanted:
        known = found.get(each["type"], {})
        same = known.get("status") == each["status"]
        since = (same and known.get("lastTransitionTime")) or each["lastTransitionTime"]
        found[each["type"]] = {**each, "lastTransitionTime": since}
    return list(found.values())


def node_condition(condition: NodeCondition) -> dict[str, Json]:
    """A node's condition for a strategic merge patch: whole, since what is left out stays as it was."""
    heard, since = condition.last_heartbeat_time, condition.last_transition_time
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastHeartbeatTime": rfc3339(heard) if heard else None,
        "lastTransitionTime": rfc3339(since) if since else None,
    }


def since_not_true(conditions: Iterable[Any], condition_type: str) -> datetime | None:
    """Since when a condition has not been True, as it says itself; None: it is True, or there is none."""
    found = condition_of(tuple(conditions), condition_type)
    when: datetime | None = (
        found.last_transition_time if found is not None and found.status != "True" else None
    )
    return when
