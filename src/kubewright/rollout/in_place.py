"""InPlaceUpdate, as far as it goes today: nothing old is replaced, and nothing old is updated either.

Theory.      Updates in place are asked for by people who want to keep the machines that there are. To replace
             them after all would be the one thing that was not asked for, so old groups stay as they are,
             and only scaling changes them (``proportional``). Without old members there is nothing to
             update: the current group is made, and follows the replicas, as in every strategy.
Source       mcm.md §7.9, of which this is the beginning.
"""

from kubewright.rollout.model import Create, Fleet, Plan, resize

HELD = "updating machines in place is not supported yet: machines of older templates stay as they are"


def in_place(fleet: Fleet) -> Plan:
    """One step: all of it for the current group, or nothing while there is anything old."""
    if is_held(fleet):
        return Plan(goal=fleet.replicas, ceiling=fleet.replicas, notes=(HELD,))
    because = "no machine is to be updated in place"
    if fleet.current is None:
        return Plan((Create(fleet.replicas, because),), goal=fleet.replicas, ceiling=fleet.replicas)
    growth = resize(fleet.current, fleet.replicas, because)
    return Plan(growth, goal=fleet.replicas, ceiling=fleet.replicas)


def is_held(fleet: Fleet) -> bool:
    """Whether there are members that would have to be updated."""
    return any(group.claim for group in fleet.old)
