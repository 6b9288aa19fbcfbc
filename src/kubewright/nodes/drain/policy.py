"""How a node is drained: what an API or a user asks for, as one value. Pure.

Theory.      The Machine API gives pods limited time and then deletes them by force; Cluster API gives
             them as long as they need, or, where a user limits the time, leaves behind those that
             stay longer. ``decide`` knows neither of the two: it reads a ``DrainPolicy``. A policy is
             made for each pass, so a change by a user counts at once, and ``skips`` may look at
             anything that its maker sees: labels, rules, how long a pod has been leaving.
             The default is the gentlest drain: no limit, no force.
Called by    the contexts that own machines (they make policies); ``decide`` and deletions read them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kubewright.api.core import MIRROR_POD_ANNOTATION, Pod
from kubewright.base import delays


def comes_back(pod: Pod) -> bool:
    """Whether the eviction of a pod is in vain: one of a DaemonSet, or a mirror pod."""
    owner = pod.metadata.controller
    return MIRROR_POD_ANNOTATION in pod.metadata.annotations or bool(owner and owner.kind == "DaemonSet")


@dataclass(frozen=True, slots=True)
class Force:
    """When pods are deleted with no grace instead of being evicted. The default is never.

    ``requested``   a user asks for it: all pods
    ``at_timeout``  the time of the drain is over: all pods; otherwise those that are left stay
    ``healthy``     for each of some condition types the status that the node has while its kubelet can end
                    pods; once one has had another status for longer than ``sick_after``: all pods
    ``refusals``    how many evictions of one pod must be refused, or fail otherwise: only this pod; None:
                    that is no reason
    """

    requested: bool = False
    at_timeout: bool = False
    healthy: Mapping[str, str] = field(default_factory=dict)
    sick_after: timedelta = timedelta()
    refusals: int | None = None


@dataclass(frozen=True, slots=True)
class DrainPolicy:
    """What is asked of a drain.

    ``timeout``         how long pods have to leave; None: as long as they need
    ``force``           when they are deleted with no grace
    ``skips``           which pods are left alone: they are neither evicted nor awaited
    ``awaits``          which of the others end by themselves: they are awaited, and not evicted
    ``order``           pods leave when none of a lower order is left, be it evicted or awaited
    ``one_by_one``      pods with a PersistentVolumeClaim leave one after another, not at the same time
    ``detach_timeout``  how long the volumes of pods that left have to be detached; None: as long as they need
    ``reattach_timeout``  how long they then have to be attached to another node; None: as long as they need
    ``poll``            how soon to look again while pods or volumes leave
    """

    timeout: timedelta | None = None
    force: Force = field(default_factory=Force)
    skips: Callable[[Pod], bool] = comes_back
    awaits: Callable[[Pod], bool] = lambda _pod: False
    order: Callable[[Pod], int] = lambda _pod: 0
    one_by_one: bool = True
    detach_timeout: timedelta | None = None
    reattach_timeout: timedelta | None = None
    poll: timedelta = delays.POLL

    def until_detached(self, drained_since: datetime, now: datetime) -> timedelta | None:
        """How long volumes are still awaited, zero or less: no longer; None: without a limit."""
        return None if self.detach_timeout is None else drained_since + self.detach_timeout - now
