"""RollingUpdate: grow the current group up to the ceiling, shrink the old ones down to the floor.

Theory.      Two numbers decide. *Room* is what the ceiling leaves above every member that exists or
             was asked for, terminating ones included: the current group may grow by that much.
             *Spare* is what old groups may lose in all: their sizes plus the current group's
             available members, minus the floor. First the old members are deleted that are not
             available, then as many available ones as there are above the floor, oldest group
             first. Growing never changes what may be shrunk, so one plan does both.
Invariants.  A plan never lets more members exist than the ceiling, unless they did already. It
             never takes an available member when that would leave fewer than the floor, with one
             exception: a user has given an available machine a priority by which it is deleted before a
             broken one, and the rollout cannot go on in any other way. Then the priority counts more.
Source       mcm.md §7.6-7.7 and capi.md §7.9, which agree; where MCM counts only what exists and
             so uses the same room twice, this takes Cluster API's larger of size and count.
"""

from collections.abc import Sequence
from dataclasses import replace

from kubewright.rollout.bounds import Bounds
from kubewright.rollout.model import Create, Fleet, Group, Intent, Resize, Sizes, resize


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


def room(fleet: Fleet, limits: Bounds) -> int:
    """How many members may be added; negative when there are too many."""
    return limits.ceiling - sum(group.expected for group in fleet.groups)


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
