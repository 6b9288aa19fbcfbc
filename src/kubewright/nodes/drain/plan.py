"""What to do now about the pods of a node that is being drained, as a value.

Invariants.  A pod is in at most one of ``evict``, ``delete`` and ``waiting``.
Called by    ``decide`` makes it, ``session`` and ``removals`` perform it; the contexts that own machines read
             it.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kubewright.api.core import Pod
from kubewright.nodes.drain.obstacles import Held, first_clauses
from kubewright.nodes.drain.volumes import NOTHING_MOVES, Moving, Trip


@dataclass(frozen=True, slots=True)
class DrainPlan:
    """What to do now, and when to look again at the latest.

    ``evict``    pods to evict
    ``delete``   pods to delete with no grace
    ``waiting``  pods that are asked just now or being deleted, wait for their next attempt or their turn, or
                 end by themselves
    ``done``     no pod is left that the drain waits for
    ``forced``   all pods are deleted, none is evicted
    ``more``     further pods are to be asked than one pass touches, when the requests of this one have ended
    ``wake``     when to look again, if nothing else gives reason to before
    ``because``  the state in a clause for messages
    ``held``     pods whose eviction was refused, by obstacle
    ``overdue``  pods that are being deleted, and whose grace period is over
    ``moving``   volumes that no pod of the node uses any more, while they are awaited or late
    ``force_at`` when the first pod is deleted by force; None while no pod is refused or overdue
    ``known``    uids of all pods that the pass saw, also of those that it asks nothing: their tries are kept
    """

    evict: tuple[Pod, ...] = ()
    delete: tuple[Pod, ...] = ()
    waiting: tuple[Pod, ...] = ()
    done: bool = False
    forced: bool = False
    more: bool = False
    wake: timedelta = timedelta()
    because: str = ""
    held: tuple[Held, ...] = ()
    overdue: tuple[Pod, ...] = ()
    moving: Moving = NOTHING_MOVES
    force_at: datetime | None = None
    known: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def failures(self) -> list[str]:
        """What waiting does not end, a clause each: firm obstacles, overdue pods, volumes that are late."""
        firm = [str(held) for held in self.held if held.obstacle.firm]
        return [*firm, *map(_timeout, self.overdue), *map(_attached, self.moving.late)]

    @property
    def failed(self) -> bool:
        """Whether waiting alone will not end it: upstream's drain fails then (mcm.md §5.3 to §5.5)."""
        return bool(self.failures)

    @property
    def obstacles(self) -> str:
        """The failures and then all other obstacles in one clause; empty if there are none."""
        soft = [str(held) for held in self.held if not held.obstacle.firm]
        return first_clauses([*self.failures, *soft])

    @property
    def topics(self) -> frozenset[str]:
        """The obstacles without their counts: an event is sent only for a new one."""
        late = [f"{_full(pod)} is overdue" for pod in self.overdue]
        late += [f"{trip.volume} is attached" for trip in self.moving.late]
        return frozenset(
            (*late, *(held.obstacle.topic for held in self.held if held.obstacle.topic)),
        )

    @property
    def leaving(self) -> int:
        """How many pods are being deleted, and not overdue."""
        return sum(pod.metadata.deleting for pod in self.waiting) - len(self.overdue)


def _timeout(pod: Pod) -> str:
    """Upstream's words for a pod that does not end (mcm.md §5.3)."""
    where = f"scheduled on node {pod.spec.node_name}"
    return f'timeout expired while waiting for pod "{_full(pod)}" terminating {where}'


def _attached(trip: Trip) -> str:
    """Upstream's words for a volume that is not detached in its time (mcm.md §5.5)."""
    return f"timeout while waiting for PVs to detach from node: {trip}"


def _full(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"
