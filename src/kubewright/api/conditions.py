"""Conditions: find one, and write one, in the status of any kind.

Theory.      ``lastTransitionTime`` says when ``status`` last changed, so a condition that is written again
             with the same status keeps it. A list has at most one condition of a type; a new one comes last.
Called by    the status functions of controllers. ``nodes.marks`` writes a Node's conditions one by one, as
             strategic merge patches, and there the server does what ``with_condition`` does.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Protocol, TypeVar

from msgspec import structs

from kubewright.api.meta import Json


class Conditional(Protocol):
    """What the conditions of all kinds have."""

    @property
    def type(self) -> str: ...

    @property
    def status(self) -> str: ...

    @property
    def last_transition_time(self) -> datetime | None: ...


C = TypeVar("C", bound=Conditional)


def condition_of(conditions: Iterable[C], kind: str) -> C | None:
    """The condition of this type."""
    return next((each for each in conditions if each.type == kind), None)


def true_condition(conditions: Iterable[C], kind: str) -> C | None:
    """The condition of this type if its status is True."""
    return next((each for each in conditions if each.type == kind and each.status == "True"), None)


def with_condition(conditions: Iterable[C], wanted: C) -> tuple[C, ...]:
    """The conditions with ``wanted`` in place of the one of its type; it keeps that one's
    ``lastTransitionTime`` if their statuses are equal."""
    found, struct = {each.type: each for each in conditions}, wanted
    if (known := found.get(wanted.type)) is not None and known.status == wanted.status:
        changed: Any = wanted
        struct = structs.replace(changed, last_transition_time=known.last_transition_time)
    return tuple({**found, wanted.type: struct}.values())


def without_condition(conditions: Iterable[C], kind: str) -> tuple[C, ...]:
    """The conditions without the one of this type."""
    return tuple(each for each in conditions if each.type != kind)


def with_json_condition(status: Mapping[str, Json], wanted: Mapping[str, Json]) -> list[Json]:
    """As ``with_condition``, for a status that is plain JSON; ``wanted`` must have its times set."""
    found = {each.get("type"): each for each in status.get("conditions") or ()}
    return list({**found, wanted["type"]: wanted}.values())
