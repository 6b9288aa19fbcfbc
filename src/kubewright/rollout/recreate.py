"""Recreate: everything old goes first, then the current group is made.

While anything old exists, leaving members included, not one new member is asked for: two
templates never run side by side (mcm.md §7.8).
"""

from kubewright.rollout.model import Create, Fleet, Resize, Sizes, resize


def recreate(fleet: Fleet) -> Sizes:
    """One step; the intents are either all about old groups or all about the current one."""
    shrinks: tuple[Resize, ...] = ()
    for group in fleet.old:
        shrinks += resize(group, 0, "recreate: old machines go first")
    if shrinks:
        return Sizes(shrinks, goal=fleet.replicas, ceiling=fleet.replicas)
    if waiting := fleet.existing_old:
        return Sizes(notes=(f"recreate: {waiting} old machines still exist",))
    if fleet.current is None:
        create = Create(fleet.replicas, "recreate: no old machine is left")
        return Sizes((create,), goal=fleet.replicas, ceiling=fleet.replicas)
    growth = resize(fleet.current, fleet.replicas, "recreate: no old machine is left")
    return Sizes(growth, goal=fleet.replicas, ceiling=fleet.replicas)
