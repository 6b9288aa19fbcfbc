"""Who dies first.

Theory.      A ranking maps a member to a tuple; the smaller tuple dies first. Each world has its
             own ranking, a line of criteria of which the first difference decides, and every
             ranking ends with the name, so that two controllers that see the same members choose
             the same victims.
Source       mcm.md §6.5 (six criteria), capi.md §7.5 with the ranks of its HEAD.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeVar

Rank = tuple[float | str, ...]
M = TypeVar("M")


class Mortal(Protocol):
    """What every ranking may ask of a member."""

    @property
    def name(self) -> str: ...

    @property
    def created(self) -> float: ...


class McmMember(Mortal, Protocol):
    """What MCM's ranking asks.

    ``stage`` is the phase's rank, 0 for Terminating to 6 for Running. ``marked_at`` is when the
    autoscaler chose the member. ``preserved_until`` is None when nobody preserves it.
    """

    @property
    def priority(self) -> int: ...

    @property
    def stage(self) -> int: ...

    @property
    def marked_at(self) -> float | None: ...

    @property
    def preserved_until(self) -> float | None: ...

    @property
    def auto_preserved(self) -> bool: ...


def mcm_ranking(now: float) -> Callable[[McmMember], Rank]:
    """MCM's six criteria, at the time ``now``: preservation counts only while it lasts."""

    def rank(member: McmMember) -> Rank:
        until = member.preserved_until
        preserved = until is not None and until > now
        keep = (1, 0 if member.auto_preserved else 1, until or 0.0) if preserved else (0, 0, 0.0)
        marked = (0, member.marked_at) if member.marked_at is not None else (1, 0.0)
        return (*keep, member.priority, *marked, member.stage, member.created, member.name)

    return rank


class DeletePolicy(Enum):
    """Cluster API's ``deletePolicy``: what decides between members that are all fine."""

    RANDOM = "Random"
    NEWEST = "Newest"
    OLDEST = "Oldest"


DELETING, MARKED, UPDATING, UNHEALTHY, ANY = 100.0, 80.0, 75.0, 50.0, 20.0
TEN_DAYS = 864_000.0


class CapiMember(Mortal, Protocol):
    """What Cluster API's ranking asks. ``marked`` stands for the annotation ``delete-machine``."""

    @property
    def deleting(self) -> bool: ...

    @property
    def marked(self) -> bool: ...

    @property
    def updating(self) -> bool: ...

    @property
    def healthy(self) -> bool: ...


def capi_priority(member: CapiMember, policy: DeletePolicy, now: float) -> float:
    """Cluster API's number from 0 (must stay) to 100 (is going already)."""
    if member.deleting:
        return DELETING
    if member.marked:
        return MARKED
    if member.updating:
        return UPDATING
    if not member.healthy:
        return UNHEALTHY
    if policy is DeletePolicy.RANDOM:
        return ANY
    age = now - member.created
    if member.created <= 0 or age <= 0:
        return 0.0
    oldness = UNHEALTHY * (1 - math.exp(-age / TEN_DAYS))
    return oldness if policy is DeletePolicy.OLDEST else UNHEALTHY - oldness


def capi_ranking(policy: DeletePolicy, now: float) -> Callable[[CapiMember], Rank]:
    """Highest priority first, ties by name."""
    return lambda member: (-capi_priority(member, policy, now), member.name)


@dataclass(frozen=True, slots=True)
class McmFacts:
    """A member with exactly what MCM's ranking asks: for tests, previews and simulations."""

    name: str
    created: float = 0.0
    priority: int = 3
    stage: int = 6
    marked_at: float | None = None
    preserved_until: float | None = None
    auto_preserved: bool = False


@dataclass(frozen=True, slots=True)
class CapiFacts:
    """A member with exactly what Cluster API's ranking asks."""

    name: str
    created: float = 0.0
    deleting: bool = False
    marked: bool = False
    updating: bool = False
    healthy: bool = True


def in_line(members: Iterable[M], ranking: Callable[[M], Rank]) -> list[M]:
    """The members in the order of their death."""
    return sorted(members, key=ranking)
