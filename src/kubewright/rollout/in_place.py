"""The strategy InPlaceUpdate, as far as it is supported: old members are neither replaced nor updated.

Theory.      A user who asks for updates in place wants to keep the machines. So this strategy never replaces
             them: while old groups have members they stay as they are, no current group is created, and
             only scaling changes sizes (``proportional``). Without old members there is nothing to update:
             the current group is created, and has as many members as there are to be replicas.
Source       mcm.md §7.9, of which updating a node in place is not implemented.
"""

from kubewright.rollout.model import Create, Fleet, Sizes, resize

HELD = "updating machines in place is not supported yet: machines of older templates stay as they are"


def in_place(fleet: Fleet) -> Sizes:
    """The plan: all replicas for the current group, or no change while old groups have members."""
    if is_held(fleet):
        return Sizes(goal=fleet.replicas, ceiling=fleet.replicas, notes=(HELD,))
    because = "no machine is to be updated in place"
    if fleet.current is None:
        return Sizes((Create(fleet.replicas, because),), goal=fleet.replicas, ceiling=fleet.replicas)
    growth = resize(fleet.current, fleet.replicas, because)
    return Sizes(growth, goal=fleet.replicas, ceiling=fleet.replicas)


def is_held(fleet: Fleet) -> bool:
    """Whether old groups have members, or replicas asked for, that would have to be updated."""
    return any(group.claim for group in fleet.old)
