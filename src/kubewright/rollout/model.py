"""Fleet, group, sizes and bounds: the values that all planners share.

Theory.      A group is more than three counters. Which member is deleted next is known (each API has a
             ranking), so a group lists the *availability* of its living members in the order of deletion.
             From it follows exactly how many available members any smaller size would cost, whatever
             priorities users have given their machines. Counting "size
             minus available" instead, as both originals do, breaks the floor as soon as an available
             machine is to be deleted before a broken one. ``Bounds`` are maxSurge and maxUnavailable for a
             number of replicas: a percentage of surge is rounded up, one of unavailability down. If both
             result in 0 no step would ever be possible: then one member may be unavailable.
Invariants.  ``available`` counts the members that *stay* when the group reaches its size; those
             that an earlier resize will delete do not count, whether or not they are gone.
             ``existing`` counts everything that may still be a VM, terminating members included.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from kubewright.base.limits import number_of

_PERCENT = re.compile(r"([0-9]+)%")
INT32_MAX = 2**31 - 1

IntOrPercent = int | str


@dataclass(frozen=True, slots=True)
class Bounds:
    """By how many members a fleet may exceed or fall short of its replicas during a rollout."""

    replicas: int
    surge: int = 0
    unavailable: int = 0

    @property
    def ceiling(self) -> int:
        """The most members that may exist; a fleet of no replicas gets no surge."""
        return self.replicas + self.surge if self.replicas > 0 else 0

    @property
    def floor(self) -> int:
        """The fewest members that must be available."""
        return self.replicas - self.unavailable


def resolve(value: IntOrPercent, of: int, *, up: bool) -> int:
    """An absolute number, or a percentage of ``of`` rounded ``up`` or down.

    Raises:
        ValueError: neither a whole number that fits 32 bits nor digits followed by ``%``.
    """
    if isinstance(value, int):
        if not 0 <= value <= INT32_MAX:
            raise ValueError(f"{value} is no whole number between 0 and {INT32_MAX}")
        return value
    if not (match := _PERCENT.fullmatch(value)) or number_of(match[1]) > INT32_MAX:
        raise ValueError(f"{value!r} is neither a whole number nor a percentage such as 25%")
    return (of * int(match[1]) + (99 if up else 0)) // 100


def bounds(replicas: int, surge: IntOrPercent, unavailable: IntOrPercent) -> Bounds:
    """Both limits resolved for ``replicas``.

    Raises:
        ValueError: as ``resolve``.
    """
    above = resolve(surge, replicas, up=True)
    below = min(resolve(unavailable, replicas, up=False), replicas)
    if above == 0 and below == 0 and replicas > 0:
        below = 1
    return Bounds(replicas, above, below)


Rank = tuple[float | str, ...]
"""What members and groups are sorted by, the smallest first; a name at its end makes every order definite."""


@dataclass(frozen=True, slots=True)
class Group:
    """One set as the planners see it. (The groups of controllers in ``runtime`` are something else.)

    ``size`` is its ``spec.replicas``. ``availability`` says for each member that is not being
    deleted, in the order in which they would be, whether it is available; ``ready_not_available`` is the
    number of those that wait only for ``minReadySeconds``. ``terminating`` members are being deleted.
    ``desired`` and ``ceiling`` are the fleet's replicas and replicas plus surge when the group was last
    scaled (the annotations ``desired-replicas`` and ``max-replicas``). ``observed`` says that the group's
    controller has seen its last change; ``frozen``, that it may not create members. ``moved`` members came
    from another group and carry a mark, until the size counts them; ``caught_up`` says that the group's
    controller has seen all that have left. A group that is being deleted has size 0.
    """

    name: str
    created: float = 0.0
    size: int = 0
    availability: tuple[bool, ...] = ()
    terminating: int = 0
    ready_not_available: int = 0
    desired: int | None = None
    ceiling: int | None = None
    revision: int = 0
    observed: bool = True
    frozen: bool = False
    moved: int = 0
    caught_up: bool = True

    @property
    def alive(self) -> int:
        return len(self.availability)

    @property
    def existing(self) -> int:
        return len(self.availability) + self.terminating

    @property
    def expected(self) -> int:
        """The machines that this group has, or will have when its controller has caught up."""
        return max(self.size, self.existing)

    @property
    def available(self) -> int:
        return self.available_at(self.size)

    def available_at(self, size: int) -> int:
        """How many available members stay when the group has shrunk to ``size``."""
        return sum(self.availability[max(0, len(self.availability) - size) :])

    def affordable(self, most: int, cost: int) -> int:
        """The largest shrink of at most ``most`` members that takes at most ``cost`` available ones."""
        count, spent = 0, 0
        for available in self._next_deleted():
            if count == most or spent + available > cost:
                break
            count, spent = count + 1, spent + available
        return count

    def _next_deleted(self) -> Iterator[bool]:
        """The members within the size, in the order of deletion; those not yet created come first."""
        yield from (False for _ in range(self.size - len(self.availability)))
        yield from self.availability[max(0, len(self.availability) - self.size) :]


@dataclass(frozen=True, slots=True)
class Fleet:
    """What a deployment wants and what there is. ``old`` is sorted, oldest first."""

    name: str
    replicas: int
    current: Group | None = None
    old: tuple[Group, ...] = ()
    paused: bool = False

    @property
    def groups(self) -> tuple[Group, ...]:
        return (*self.old, self.current) if self.current else self.old

    @property
    def active(self) -> tuple[Group, ...]:
        """The groups whose size is not 0."""
        return tuple(group for group in self.groups if group.size > 0)

    @property
    def existing(self) -> int:
        return sum(group.existing for group in self.groups)

    @property
    def existing_old(self) -> int:
        return sum(group.existing for group in self.old)

    @property
    def available(self) -> int:
        return sum(group.available for group in self.groups)


@dataclass(frozen=True, slots=True)
class Create:
    """Create the current group, which does not exist yet."""

    size: int
    because: str


@dataclass(frozen=True, slots=True)
class Resize:
    """Give a group another size, and write on it what it was sized for (``desired`` and ``ceiling``).

    ``complete``: False while a later pass has to add the rest. The group then keeps what it was sized for
    before, by which that pass knows that the scaling is not over.
    """

    group: str
    before: int
    after: int
    because: str
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Freeze:
    """Forbid a group to create members: the current group replaces those that it loses."""

    group: str
    because: str


Intent = Create | Resize | Freeze


@dataclass(frozen=True, slots=True)
class Sizes:
    """The answer of the planner: which sizes groups get next, and which groups may create no more members.

    ``to_annotate`` names the groups on which ``desired`` and ``ceiling`` are to be written, beside those
    that an intent touches anyway. ``notes`` say why nothing, or no more, is done.
    """

    intents: tuple[Intent, ...] = ()
    to_annotate: tuple[str, ...] = ()
    desired: int = 0
    ceiling: int = 0
    notes: tuple[str, ...] = ()

    @property
    def idle(self) -> bool:
        return not self.intents and not self.to_annotate

    @property
    def because(self) -> str:
        """All intents with their reasons, and the notes, for logs."""
        return "; ".join([*map(describe, self.intents), *self.notes])


def describe(intent: Intent) -> str:
    """An intent and its reason, for people."""
    match intent:
        case Create(size, because):
            return f"create with {size}: {because}"
        case Resize(name, before, after, because):
            return f"{name} {before} -> {after}: {because}"
        case Freeze(name, because):
            return f"{name} frozen: {because}"
        case _:
            assert_never(intent)


def resize(group: Group, size: int, because: str) -> tuple[Resize, ...]:
    """One resize, or none when the group has that size already."""
    return (Resize(group.name, group.size, size, because),) if size != group.size else ()


def freezes(fleet: Fleet, because: str) -> Iterator[Freeze]:
    """Freeze the old groups that have members, or are to have some, and may still create others."""
    for group in fleet.old:
        if group.expected > 0 and not group.frozen:
            yield Freeze(group.name, because)


def room(fleet: Fleet, limits: Bounds) -> int:
    """How many members may be added; negative when there are too many."""
    return limits.ceiling - sum(group.expected for group in fleet.groups)
