"""The strategies without bounds: Recreate and OnDelete.

Recreate     All old groups are emptied before the current group is created. While any old member exists,
             those being deleted included, no new one is created: two templates never run side by side
             (mcm.md §7.8).
OnDelete     The current group replaces what users delete from the old ones. Old groups create no members any
             more, and their size follows the members that are left. Only when the fleet as a whole is too
             large are members deleted, from the largest old group first (capi.md §7.9).
Called by    ``planner``.
"""

from kubewright.rollout.model import Create, Fleet, Group, Intent, Resize, Sizes, freezes, resize


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
