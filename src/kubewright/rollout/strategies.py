"""The strategies without bounds: Recreate, OnDelete, and InPlaceUpdate as far as it is supported.

Recreate     All old groups are emptied before the current group is created. While any old member exists,
             those being deleted included, no new one is created: two templates never run side by side
             (mcm.md §7.8).
OnDelete     The current group replaces what users delete from the old ones. Old groups create no members any
             more, and their size follows the members that are left. Only when the fleet as a whole is too
             large are members deleted, from the largest old group first (capi.md §7.9).
In place     A user who asks for updates in place wants to keep the machines. So this strategy never replaces
             them: while old groups have members they stay as they are, no current group is created, and only
             scaling changes sizes (``proportional``). Without old members there is nothing to update: the
             current group is created, and has as many members as there are to be replicas (mcm.md §7.9, of
             which updating a node in place is not implemented).
Called by    ``planner``.
"""

from kubewright.rollout.model import Create, Fleet, Freeze, Group, Intent, Resize, Sizes, resize

UNSUPPORTED = "updating machines in place is not supported yet: machines of older templates stay as they are"


def recreate(fleet: Fleet) -> Sizes:
    """One step; the intents are either all about old groups or all about the current one."""
    shrinks: tuple[Resize, ...] = ()
    for group in fleet.old:
        shrinks += resize(group, 0, "recreate: old machines go first")
    if shrinks:
        return Sizes(shrinks, desired=fleet.replicas, ceiling=fleet.replicas)
    if waiting := fleet.existing_old:
        return Sizes(notes=(f"recreate: {waiting} old machines still exist",))
    if fleet.current is None:
        create = Create(fleet.replicas, "recreate: no old machine is left")
        return Sizes((create,), desired=fleet.replicas, ceiling=fleet.replicas)
    growth = resize(fleet.current, fleet.replicas, "recreate: no old machine is left")
    return Sizes(growth, desired=fleet.replicas, ceiling=fleet.replicas)


def on_delete(fleet: Fleet) -> Sizes:
    """One step of an OnDelete fleet."""
    current = fleet.current
    size = current.size if current else 0
    sizes = {group.name: min(group.size, group.alive) for group in fleet.old}
    _cap(fleet, sizes, sum(sizes.values()) + min(size, fleet.replicas) - fleet.replicas)
    intents: list[Intent] = [
        Freeze(group.name, "members of old groups are not replaced")
        for group in fleet.old
        if group.expected > 0 and not group.frozen
    ]
    for group in fleet.old:
        intents += resize(
            group, sizes[group.name], f"{group.alive} members left, {fleet.replicas} replicas in all"
        )
    wanted = min(size, fleet.replicas)
    wanted += max(0, min(fleet.replicas - wanted, fleet.replicas - _expected(fleet, sizes, wanted)))
    because = "fills what the old groups have lost"
    if current is None:
        intents.append(Create(wanted, because))
    else:
        intents += resize(current, wanted, because)
    return Sizes(tuple(intents), desired=fleet.replicas, ceiling=fleet.replicas)


def _cap(fleet: Fleet, sizes: dict[str, int], excess: int) -> None:
    for group in sorted(fleet.old, key=_largest_first):
        take = max(0, min(sizes[group.name], excess))
        sizes[group.name] -= take
        excess -= take


def _largest_first(group: Group) -> tuple[int, float, str]:
    return (-group.size, group.created, group.name)


def _expected(fleet: Fleet, sizes: dict[str, int], current: int) -> int:
    old = sum(max(sizes[group.name], group.existing) for group in fleet.old)
    return old + max(current, fleet.current.existing if fleet.current else 0)


def in_place(fleet: Fleet) -> Sizes:
    """The plan: all replicas for the current group, or no change while old groups have members."""
    if is_refused(fleet):
        return Sizes(desired=fleet.replicas, ceiling=fleet.replicas, notes=(UNSUPPORTED,))
    because = "no machine is to be updated in place"
    if fleet.current is None:
        return Sizes((Create(fleet.replicas, because),), desired=fleet.replicas, ceiling=fleet.replicas)
    growth = resize(fleet.current, fleet.replicas, because)
    return Sizes(growth, desired=fleet.replicas, ceiling=fleet.replicas)


def is_refused(fleet: Fleet) -> bool:
    """Whether old groups have, or will have, members that would need an update in place."""
    return any(group.expected for group in fleet.old)
