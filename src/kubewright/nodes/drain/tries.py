"""What a session remembers of the requests about pods: what is under way, and what was refused. Pure.

Theory.      The server shows which pods leave. It shows neither that a request is under way, nor that one was
             refused: that only the process knows which sends them. Losing it costs requests, and time until
             a pod that refuses is deleted.
Called by    ``session`` (keeps it), ``plan`` (decides with it), ``removals`` (begins requests).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kubewright.api.core import Pod
from kubewright.nodes.drain.obstacles import Obstacle


@dataclass(frozen=True, slots=True)
class Try:
    """How often the eviction of one pod was refused, and when it last was.

    ``forced``: its deletion with no grace failed, too. ``first`` (when it was first refused) and ``why`` are
    only for messages.
    """

    refused: int
    last: datetime
    forced: bool = False
    first: datetime | None = field(default=None, compare=False)
    why: Obstacle | None = field(default=None, compare=False)


Tries = Mapping[str, Try]
"""By pod uid."""


@dataclass(frozen=True, slots=True)
class UnderWay:
    """The requests of one node that are under way; ``forced``: they delete pods with no grace."""

    uids: frozenset[str] = frozenset()
    forced: bool = False

    def __bool__(self) -> bool:
        return bool(self.uids)

    def yields_to(self, *, forced: bool) -> bool:
        """Whether other requests take the place of these: force does not wait for evictions."""
        return not self or (forced and not self.forced)


IDLE = UnderWay()


def uids(pods: Iterable[Pod]) -> frozenset[str]:
    """The uids of some pods."""
    return frozenset(pod.metadata.uid for pod in pods)
