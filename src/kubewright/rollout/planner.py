"""The entry point (``plan``) and the strategies: how old members give way to new ones.

A paused fleet is scaled and nothing else. A strategy is a value: to add one is to write a class and its step
here.

RollingUpdate  Two numbers decide. *Room* is what the ceiling leaves above every member that exists or was
               asked for, terminating ones included: the current group may grow by that much. *Spare* is what
               old groups may lose in all: their sizes plus the current group's available members, minus the
               floor. First the old members are deleted that are not available, then as many available ones
               as there are above the floor, oldest group first. Growing never changes what may be shrunk, so
               one plan does both. (MCM uses the same room twice, since it counts only what exists; this
               counts, as Cluster API does, the larger of size and count.)
Recreate       All old groups are emptied before the current group is created. While any old member exists,
               those being deleted included, no new one is created: two templates never run side by side.
InPlaceUpdate  The members stay; each is updated where it is, and then *moved*: it changes its group, and only
               then do both sizes follow. Between the two the current group has a member more than its size
               says. Its controller must not take that for a surplus, so moved members carry a mark until the
               size has caught up. Old groups create no members any more. What they lose in other ways (a
               broken machine is deleted) the current group fills with new members; with a surge it also gets
               new members first, so that others may be taken out of service. Who is updated next is decided
               here too (``selectable``): as many as leave the floor available. Members that were selected
               count as not available from that moment on, though they still are.
OnDelete       The current group replaces what users delete from the old ones. Old groups create no members
               any more, and their size follows the members that are left. Only when the fleet as a whole is
               too large are members deleted, from the largest old group first.
Invariants.    No plan lets more members exist than the ceiling, unless they did already. None takes an
               available member when that would leave fewer than the floor, with one exception: a user has
               given an available machine a priority by which it is deleted before a broken one, and the
               rollout cannot go on in any other way. Then the priority counts more. An update in place
               deletes a member only when the fleet is larger than its ceiling, or when the current group has
               all replicas available; the current group never grows above the replicas, and an old group's
               size follows only when its controller has seen the member leave.
Called by      ``replicas.deployment.seen``; the controller that selects nodes for updates in place.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from kubewright.rollout.model import (
    Bounds,
    Create,
    Fleet,
    Group,
    Intent,
    IntOrPercent,
    Resize,
    Sizes,
    bounds,
    freezes,
    resize,
    room,
)
from kubewright.rollout.proportional import Growth, scale, scaling_wanted, to_annotate


def rolling(fleet: Fleet, limits: Bounds) -> Sizes:
    """One step of a rolling update; empty when there is nothing to do but wait, or nothing at all."""
    growth, notes = grow_current(fleet, limits)
    shrinks = shrink_old(fleet, limits)
    if not growth and not shrinks:
        shrinks = _obey_priorities(fleet, limits)
    if not shrinks and any(group.size for group in fleet.old):
        notes = (*notes, f"old ones stay: {_available(fleet)} available, floor {limits.floor}")
    intents: tuple[Intent, ...] = (*growth, *shrinks)
    return Sizes(intents, desired=fleet.replicas, ceiling=limits.ceiling, notes=notes)


def grow_current(fleet: Fleet, limits: Bounds) -> tuple[tuple[Intent, ...], tuple[str, ...]]:
    """The next size of the current group, and why it is not larger."""
    size = fleet.current.size if fleet.current else 0
    if size > fleet.replicas and fleet.current:
        return resize(fleet.current, fleet.replicas, f"{size} > {fleet.replicas} replicas"), ()
    free = max(0, room(fleet, limits))
    growth = min(free, fleet.replicas - size)
    because = f"room for {free} below the ceiling of {limits.ceiling}"
    done = f"{size + growth} of {fleet.replicas} new" + ("" if growth else f": {because}")
    notes = () if size + growth == fleet.replicas else (done,)
    if fleet.current is None:
        return (Create(growth, because),), notes
    return resize(fleet.current, size + growth, because), notes


def shrink_old(fleet: Fleet, limits: Bounds) -> tuple[Resize, ...]:
    """What the old groups lose now: first unavailable members, then available ones above the floor."""
    spare = _spare(fleet, limits)
    if spare <= 0:
        return ()
    takes = dict.fromkeys((group.name for group in fleet.old), 0)
    surplus = max(0, _available(fleet) - limits.floor)
    _take(fleet.old, takes, spare, 0)
    _take(fleet.old, takes, spare, surplus)
    return _resizes(fleet.old, takes, f"{_available(fleet)} available, floor {limits.floor}")


def _take(groups: Sequence[Group], takes: dict[str, int], most: int, cost: int) -> None:
    """Take more members off the groups, oldest group first: what is taken then is at most ``most`` members in
    all, and at most ``cost`` available ones."""
    for group in groups:
        affordable = max(0, cost - _spent(groups, takes))
        rest = _shrunk(group, takes[group.name])
        takes[group.name] += rest.affordable(most - sum(takes.values()), affordable)


def _obey_priorities(fleet: Fleet, limits: Bounds) -> tuple[Resize, ...]:
    """The exception: all of the current group is available, and the available old members are to be deleted
    before the broken ones, which therefore stay."""
    current = fleet.current
    if current is None or current.available < current.size or current.size >= fleet.replicas:
        return ()
    if any(
        group.terminating or group.ready_not_available or group.alive > group.size for group in fleet.groups
    ):
        return ()
    for group in fleet.old:
        if (broken := min(_spare(fleet, limits), group.size - group.available)) > 0:
            return resize(
                group, group.size - broken, "available ones are to be deleted before the broken ones"
            )
    return ()


def _spare(fleet: Fleet, limits: Bounds) -> int:
    staying = _staying(fleet.current, fleet.replicas)
    return sum(group.size for group in fleet.old) + staying - limits.floor


def _available(fleet: Fleet) -> int:
    return sum(group.available for group in fleet.old) + _staying(fleet.current, fleet.replicas)


def _staying(current: Group | None, replicas: int) -> int:
    """The current group's available members that stay, also when this plan makes it smaller."""
    return current.available_at(min(current.size, replicas)) if current else 0


def _shrunk(group: Group, by: int) -> Group:
    return replace(group, size=group.size - by)


def _spent(groups: Sequence[Group], takes: dict[str, int]) -> int:
    return sum(group.available - _shrunk(group, takes[group.name]).available for group in groups)


def _resizes(groups: Sequence[Group], takes: dict[str, int], because: str) -> tuple[Resize, ...]:
    return tuple(
        Resize(group.name, group.size, group.size - takes[group.name], because)
        for group in groups
        if takes[group.name]
    )


def recreate(fleet: Fleet) -> Sizes:
    """One step; the intents are either all about old groups or all about the current one."""
    shrinks: tuple[Resize, ...] = ()
    for group in fleet.old:
        shrinks += resize(group, 0, "recreate: old replicas go first")
    if shrinks:
        return Sizes(shrinks, desired=fleet.replicas, ceiling=fleet.replicas)
    if waiting := fleet.existing_old:
        note = f"recreate: {waiting} old replicas still exist"
        return Sizes(desired=fleet.replicas, ceiling=fleet.replicas, notes=(note,))
    if fleet.current is None:
        create = Create(fleet.replicas, "recreate: no old replica is left")
        return Sizes((create,), desired=fleet.replicas, ceiling=fleet.replicas)
    growth = resize(fleet.current, fleet.replicas, "recreate: no old replica is left")
    return Sizes(growth, desired=fleet.replicas, ceiling=fleet.replicas)


def on_delete(fleet: Fleet) -> Sizes:
    """One step of an OnDelete fleet."""
    current = fleet.current
    kept = min(current.size if current else 0, fleet.replicas)
    sizes = {group.name: min(group.size, group.alive) for group in fleet.old}
    cut_largest(fleet, sizes, sum(sizes.values()) + kept - fleet.replicas)
    intents: list[Intent] = [*freezes(fleet, "replicas of old sets are not replaced")]
    for group in fleet.old:
        intents += resize(
            group, sizes[group.name], f"it has {group.alive} replicas, {fleet.replicas} are wanted in all"
        )
    lacking = max(0, fleet.replicas - _expected(fleet, sizes, kept))
    wanted = min(fleet.replicas, kept + lacking)
    because = "fills what the old sets have lost"
    if current is None:
        intents.append(Create(wanted, because))
    else:
        intents += resize(current, wanted, because)
    return Sizes(tuple(intents), desired=fleet.replicas, ceiling=fleet.replicas)


def cut_largest(fleet: Fleet, sizes: dict[str, int], excess: int) -> None:
    """Take ``excess`` members off the ``sizes`` of old groups, the largest first; a group may have none."""
    for group in sorted((each for each in fleet.old if each.name in sizes), key=_largest_first):
        take = max(0, min(sizes[group.name], excess))
        sizes[group.name] -= take
        excess -= take


def _largest_first(group: Group) -> tuple[int, float, str]:
    return (-group.size, group.created, group.name)


def _expected(fleet: Fleet, sizes: dict[str, int], current: int) -> int:
    old = sum(max(sizes[group.name], group.existing) for group in fleet.old)
    return old + max(current, fleet.current.existing if fleet.current else 0)


def in_place(fleet: Fleet, limits: Bounds) -> Sizes:
    """The sizes of all groups: one step of an update in place, or of scaling in the middle of one."""
    if not any(group.expected for group in fleet.old):
        return _of_one(fleet, limits)
    wanted, sizes = _current(fleet, limits), _old(fleet)
    if _finished(fleet):
        sizes = dict.fromkeys(sizes, 0)
    there = sum(map(_counted, fleet.old))
    cut_largest(fleet, sizes, there + wanted - limits.ceiling)
    intents: list[Intent] = [*freezes(fleet, "its machines are updated in place, and not replaced")]
    for group in fleet.old:
        because = f"it has {group.alive} machines, {limits.ceiling} in all at most"
        intents += resize(group, sizes.get(group.name, group.size), because)
    has = fleet.current.alive if fleet.current else 0
    intents += _sized(fleet, wanted, f"it has {has} machines, and fills what old sets have lost")
    waiting = sum(group.alive for group in fleet.old)
    note = f"in place: {waiting} of {fleet.replicas} machines are of an older template"
    marks = to_annotate(fleet.groups, fleet, limits)
    return Sizes(tuple(intents), marks, fleet.replicas, limits.ceiling, (note,))


def selectable(fleet: Fleet, limits: Bounds, selected: int, available: int) -> int:
    """How many more members of old groups may be updated now.

    Args:
        fleet: the groups.
        limits: its bounds.
        selected: how many members of old groups are being updated, or are to be.
        available: how many of these are available still, or are counted so and take no work yet.
    """
    to_come = fleet.replicas - (fleet.current.expected if fleet.current else 0) - selected
    spare = fleet.available - available - limits.floor
    return max(0, min(to_come, spare))


def _of_one(fleet: Fleet, limits: Bounds) -> Sizes:
    """Nothing is old: the current group has as many members as there are to be replicas."""
    intents = _sized(fleet, fleet.replicas, "no machine is to be updated in place")
    groups = (fleet.current,) if fleet.current else ()
    marks = () if intents else to_annotate(groups, fleet, limits)
    return Sizes(intents, marks, fleet.replicas, limits.ceiling)


def _sized(fleet: Fleet, size: int, because: str) -> tuple[Intent, ...]:
    if fleet.current is None:
        return (Create(size, because),)
    return resize(fleet.current, size, because)


def _old(fleet: Fleet) -> dict[str, int]:
    """Sizes of the old groups whose controllers have seen the members leave that have left."""
    return {group.name: _counted(group) for group in fleet.old if group.caught_up}


def _counted(group: Group) -> int:
    """An old group's size without those that have left it, and with those that were moved to it."""
    return min(group.alive, group.size + group.moved)


def _current(fleet: Fleet, limits: Bounds) -> int:
    """The current group's size: what it has, those that were moved to it, and what the fleet lacks.

    One that was old a moment ago may still want members that have left it for groups that are old now.
    """
    current = fleet.current or Group("there is none yet")
    old = sum(group.existing if group.frozen else group.expected for group in fleet.old)
    without_lost = max(current.alive, limits.ceiling - old)
    kept = min(current.size, fleet.replicas, without_lost)
    arrived = max(0, min(current.moved, current.alive - kept))
    size = min(fleet.replicas, kept + arrived)
    room = limits.ceiling - old - max(size, current.existing)
    return size + max(0, min(fleet.replicas - size, room))


def _finished(fleet: Fleet) -> bool:
    """The current group has all replicas available without those that are still on their way."""
    current = fleet.current
    return current is not None and not current.moved and current.size == fleet.replicas == current.available


class Strategy(Protocol):
    """How old members give way to new ones."""

    def limits(self, replicas: int) -> Bounds:
        """How far the fleet may be above and below its replicas meanwhile."""

    def step(self, fleet: Fleet) -> Sizes:
        """How the rollout goes on from what there is now; idle sizes mean wait, or done."""


@dataclass(frozen=True, slots=True)
class RollingUpdate:
    """Old and new side by side, within bounds."""

    max_surge: IntOrPercent = 1
    max_unavailable: IntOrPercent = 0

    def limits(self, replicas: int) -> Bounds:
        return bounds(replicas, self.max_surge, self.max_unavailable)

    def step(self, fleet: Fleet) -> Sizes:
        return rolling(fleet, self.limits(fleet.replicas))


@dataclass(frozen=True, slots=True)
class Recreate:
    """All old ones are deleted before the first new one is created."""

    def limits(self, replicas: int) -> Bounds:
        return Bounds(replicas)

    def step(self, fleet: Fleet) -> Sizes:
        return recreate(fleet)


@dataclass(frozen=True, slots=True)
class InPlaceUpdate:
    """Old ones are updated where they are; ``manual``: a user chooses which, so nothing is made on top."""

    max_surge: IntOrPercent = 1
    max_unavailable: IntOrPercent = 0
    manual: bool = False

    def limits(self, replicas: int) -> Bounds:
        return bounds(replicas, 0 if self.manual else self.max_surge, self.max_unavailable)

    def step(self, fleet: Fleet) -> Sizes:
        return in_place(fleet, self.limits(fleet.replicas))


@dataclass(frozen=True, slots=True)
class OnDelete:
    """New ones only replace what users delete."""

    def limits(self, replicas: int) -> Bounds:
        return Bounds(replicas)

    def step(self, fleet: Fleet) -> Sizes:
        return on_delete(fleet)


@dataclass(frozen=True, slots=True)
class Scaling:
    """What differs between the APIs about scaling: ``first``, before any rollout step (MCM)."""

    first: bool
    growth: Growth


MCM_SCALING = Scaling(first=True, growth=Growth.CURRENT)
CAPI_SCALING = Scaling(first=False, growth=Growth.SHARED)


def plan(fleet: Fleet, strategy: Strategy, scaling: Scaling = MCM_SCALING) -> Sizes:
    """What to do next with a fleet.

    An update in place is not scaled first: its own step scales the fleet, too, and deletes no member that
    could be updated instead.
    """
    limits = strategy.limits(fleet.replicas)
    if fleet.paused:
        step = scale(fleet, limits, scaling.growth)
        return replace(step, notes=(*step.notes, "paused"))
    if scaling.first and scaling_wanted(fleet) and not isinstance(strategy, InPlaceUpdate):
        step = scale(fleet, limits, scaling.growth)
        if not step.idle:
            return step
    return strategy.step(fleet)
