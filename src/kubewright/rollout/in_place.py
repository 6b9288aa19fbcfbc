"""InPlaceUpdate: the members stay; each is updated where it is, and then belongs to the current group.

Theory.      Old groups create no members any more. A member that was updated is *moved*: it changes its
             group, and only then do both sizes follow. Between the two the current group has a member more
             than its size says. Its controller must not take that for a surplus, so moved members carry a
             mark until the size has caught up, and do not count as too many while they do. What old groups
             lose in other ways (a broken machine is deleted) the current group fills with new members. With a
             surge it also gets new members first, so that others may be taken out of service. Who is updated
             next is decided here too (``selectable``): as many as leave the floor available. Members that
             were selected count as not available from that moment on, though they still are.
Invariants.  An update never deletes a member: an old group shrinks by those that have left it, or when the
             fleet is larger than its ceiling, or when the current group has all replicas available. An old
             group's size follows only when its controller has seen the member leave. The current group never
             grows above the replicas.
Source       mcm.md §7.7, §7.9.
Called by    ``planner``; the controller that labels nodes (``selectable``).
"""

from kubewright.rollout.bounds import Bounds
from kubewright.rollout.model import Create, Fleet, Group, Intent, Sizes, freezes, resize
from kubewright.rollout.proportional import to_annotate
from kubewright.rollout.strategies import cut_largest


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
