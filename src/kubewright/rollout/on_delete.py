"""OnDelete: the current group takes over what somebody else deletes from the old ones.

Old groups are held: they make no member any more, and their size follows the members that are
left. Only when the fleet as a whole is too large do we delete, from the largest old group
first (capi.md §7.9).
"""

from kubewright.rollout.model import Create, Fleet, Group, Hold, Intent, Sizes, resize


def on_delete(fleet: Fleet) -> Sizes:
    """One step of an OnDelete fleet."""
    current = fleet.current
    size = current.size if current else 0
    sizes = {group.name: min(group.size, group.alive) for group in fleet.old}
    _cap(fleet, sizes, sum(sizes.values()) + min(size, fleet.replicas) - fleet.replicas)
    intents: list[Intent] = [
        Hold(group.name, "members of old groups are not replaced")
        for group in fleet.old
        if group.claim > 0 and not group.held
    ]
    for group in fleet.old:
        intents += resize(
            group, sizes[group.name], f"{group.alive} members left, {fleet.replicas} replicas in all"
        )
    wanted = min(size, fleet.replicas)
    wanted += max(0, min(fleet.replicas - wanted, fleet.replicas - _claims(fleet, sizes, wanted)))
    because = "fills what the old groups have lost"
    if current is None:
        intents.append(Create(wanted, because))
    else:
        intents += resize(current, wanted, because)
    return Sizes(tuple(intents), goal=fleet.replicas, ceiling=fleet.replicas)


def _cap(fleet: Fleet, sizes: dict[str, int], excess: int) -> None:
    for group in sorted(fleet.old, key=_largest_first):
        take = max(0, min(sizes[group.name], excess))
        sizes[group.name] -= take
        excess -= take


def _largest_first(group: Group) -> tuple[int, float, str]:
    return (-group.size, group.created, group.name)


def _claims(fleet: Fleet, sizes: dict[str, int], current: int) -> int:
    old = sum(max(sizes[group.name], group.existing) for group in fleet.old)
    return old + max(current, fleet.current.existing if fleet.current else 0)
