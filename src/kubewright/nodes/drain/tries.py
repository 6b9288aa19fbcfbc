"""What a session remembers of the requests about pods: what is under way, and what failed. Pure.

Theory.      The server shows which pods leave. It does not show that a request is under way, nor that one has
             failed; only the process that sends the requests knows. Losing it costs requests, and time until
             a pod that refuses is deleted.
Called by    ``session`` (keeps it), ``decide`` (decides with it), ``removals`` (begins requests).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kubewright.api.core import Pod
from kubewright.nodes.drain.obstacles import Obstacle


@dataclass(frozen=True, slots=True)
class Try:
    """What came of the requests about one pod so far; none of them succeeded.

    ``failed``   how many: refused evictions, and all requests that ended with another error
    ``last``     when the last of them ended
    ``forced``   how many of them were deletions of a forced drain
    ``refused``  such a deletion was refused by a rule (RBAC, a webhook), and would be refused again
    ``first``    when the first of them ended, and ``why`` the pod stays: only for messages
    """

    failed: int
    last: datetime
    forced: int = 0
    refused: bool = False
    first: datetime | None = field(default=None, compare=False)
    why: Obstacle | None = field(default=None, compare=False)


Tries = Mapping[str, Try]
"""By pod uid."""


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests of one node that are under way; ``forced``: they delete pods with no grace."""

    uids: frozenset[str] = frozenset()
    forced: bool = False

    def __bool__(self) -> bool:
        return bool(self.uids)

    def yields_to(self, *, forced: bool) -> bool:
        """Whether other requests take the place of these: force does not wait for evictions."""
        return not self or (forced and not self.forced)


NO_REQUESTS = Requests()


def uids(pods: Iterable[Pod]) -> frozenset[str]:
    """The uids of some pods."""
    return frozenset(pod.metadata.uid for pod in pods)
