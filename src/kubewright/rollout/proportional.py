"""Scaling a fleet: a single active group gets all members, several share them.

Theory.      Scaling is told from rolling by the annotations that the last scaling wrote on every
             group: an active group whose ``desired`` is not the fleet's replicas was not sized for the
             new number yet. Several active groups exist only while a rollout is under way; each of
             them keeps its share of the fleet, so that the rollout goes on where it was.
Invariants.  Growth respects the ceiling, and members that are terminating count in it, with one
             exception: a group that is alone does not wait for its own terminating members, or a
             drain of two hours would keep a pool from coming back. A fleet whose active groups
             all have the right annotations is left alone. Between two templates only the strategy decides.
             Rounding is half away from zero, as Go's.
"""

from dataclasses import replace
from enum import Enum

from kubewright.rollout.model import Bounds, Fleet, Group, Intent, Resize, Sizes, resize, room


class Growth(Enum):
    """Which groups get the members that are added while several groups are active."""

    CURRENT = "all of them go to the current group (MCM)"
    SHARED = "each group gets its share (Cluster API)"


def scaling_wanted(fleet: Fleet) -> bool:
    """Whether the number of replicas has changed since the groups were last scaled."""
    if not fleet.active:
        return fleet.replicas > 0 and fleet.current is not None and not fleet.existing_old
    return any(group.desired != fleet.replicas for group in fleet.active)


def scale(fleet: Fleet, limits: Bounds, growth: Growth = Growth.CURRENT) -> Sizes:
    """The sizes for a new number of replicas; no rollout step is taken."""
    if len(fleet.active) <= 1:
        return _scale_one(fleet, limits)
    if _saturated(fleet):
        intents: tuple[Intent, ...] = ()
        for group in fleet.old:
            intents += resize(group, 0, "the current set has all replicas available")
        return Sizes(intents, desired=fleet.replicas, ceiling=limits.ceiling)
    if not scaling_wanted(fleet):
        return Sizes(desired=fleet.replicas, ceiling=limits.ceiling)
    return _scale_many(fleet, limits, growth)


def _scale_one(fleet: Fleet, limits: Bounds) -> Sizes:
    group = next(iter(fleet.active), None) or fleet.current or next(reversed(fleet.old), None)
    if group is None:
        return Sizes(desired=fleet.replicas, ceiling=limits.ceiling, notes=("no set to scale",))
    others = fleet.existing - group.existing
    if others and not fleet.active:
        note = f"{others} replicas of other sets still exist"
        return Sizes(desired=fleet.replicas, ceiling=limits.ceiling, notes=(note,))
    size = min(fleet.replicas, max(group.size, limits.ceiling - others))
    intents = resize(group, size, f"scaled to {fleet.replicas} replicas")
    return Sizes(intents, to_annotate((group,), fleet, limits), fleet.replicas, limits.ceiling)


def _saturated(fleet: Fleet) -> bool:
    """Whether the current group was scaled to this number of replicas and has them all available. One
    that was scaled to another number may have as many available by accident."""
    current = fleet.current
    if current is None or current.desired != fleet.replicas:
        return False
    return current.size == fleet.replicas == current.available


def _scale_many(fleet: Fleet, limits: Bounds, growth: Growth) -> Sizes:
    delta = limits.ceiling - sum(group.size for group in fleet.groups)
    change = min(delta, max(0, room(fleet, limits))) if delta > 0 else delta
    sizes = (
        _grown(fleet, change) if change > 0 and growth is Growth.CURRENT else _shared(fleet, change, limits)
    )
    because = f"scaled to {fleet.replicas} replicas, {limits.ceiling} with surge"
    intents: tuple[Resize, ...] = ()
    for group in fleet.active:
        intents += resize(group, sizes[group.name], because)
    stale = to_annotate(fleet.active, fleet, limits)
    if fleet.paused and change < delta:
        growing = _growing(fleet).name
        note = f"{delta - change} more when terminating replicas are gone"
        return Sizes(
            tuple(replace(each, complete=each.group != growing) for each in intents),
            tuple(name for name in stale if name != growing),
            fleet.replicas,
            limits.ceiling,
            (note,),
        )
    return Sizes(intents, stale, fleet.replicas, limits.ceiling)


def _grown(fleet: Fleet, change: int) -> dict[str, int]:
    growing = _growing(fleet)
    return {group.name: group.size + (change if group.name == growing.name else 0) for group in fleet.active}


def _growing(fleet: Fleet) -> Group:
    """The current group while it is active, else the newest of those that are: the last of them."""
    return fleet.active[-1]


def _shared(fleet: Fleet, delta: int, limits: Bounds) -> dict[str, int]:
    ranked = sorted(
        fleet.active, key=lambda group: (-group.size, group.created if delta < 0 else -group.created)
    )
    sizes, left = {}, delta
    for group in ranked:
        share = _share(group, fleet, limits)
        share = max(share, left) if delta < 0 else min(share, left)
        share = min(share, 0) if delta < 0 else max(share, 0)
        sizes[group.name] = group.size + share
        left -= share
    sizes[ranked[0].name] = max(0, sizes[ranked[0].name] + left)
    return sizes


def _share(group: Group, fleet: Fleet, limits: Bounds) -> int:
    """How much a group grows or shrinks when it keeps its part of the ceiling."""
    if fleet.replicas == 0:
        return -group.size
    base = group.ceiling or fleet.existing or limits.ceiling
    return half_away(group.size * limits.ceiling, base) - group.size


def half_away(numerator: int, denominator: int) -> int:
    """``numerator / denominator`` of whole numbers >= 0, halves rounded away from zero."""
    return (2 * numerator + denominator) // (2 * denominator)


def to_annotate(groups: tuple[Group, ...], fleet: Fleet, limits: Bounds) -> tuple[str, ...]:
    """The groups that do not say yet which replicas and which ceiling they were sized for."""
    wanted = (fleet.replicas, limits.ceiling)
    return tuple(group.name for group in groups if (group.desired, group.ceiling) != wanted)
