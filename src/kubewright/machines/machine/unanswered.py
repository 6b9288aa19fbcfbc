"""Since when the API server of the nodes has not answered what it was asked about a machine.

Theory.      An error without a refusal is mostly over in a moment, and the runtime repeats the pass. While
             the server does not answer at all, no pass of a deletion comes to its end. The status has to say
             what the deletion waits for, and it has to end once it is forced or its time has run out: so
             the machine's controller must know that the silence lasts. The success of a request ends only
             the silence about its own kind: a server whose disk is full shows pods and accepts no write.
Invariants.  What is known here is knowledge of this process; losing it costs ``longest``, never safety.
Called by    ``look``, ``act``.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import Enum

from kubewright.base.errors import KubewrightError
from kubewright.kube.errors import TransportError
from kubewright.machines.machine.steps import Step
from kubewright.wire.errors import ApiError, is_refusal, is_stale


class Read(Enum):
    """What is read live of a machine's node. A server may show nodes and fail to list pods."""

    NODE = "node"
    PODS = "pods"


Request = type[Step] | Read
"""A kind of request: a step's, or one that reads."""

FORGOTTEN_AFTER = timedelta(minutes=5)
"""A failure that was not repeated for so long tells nothing of the server any more: a pass that fails is
repeated within two minutes."""


def is_unanswered(error: KubewrightError) -> bool:
    """Whether the server did not say what it thinks of the request: it is silent, broken or too busy, or it
    does not know us; or something that is no such server answers 404 (``NotFound.names``)."""
    if isinstance(error, ApiError):
        return not is_refusal(error) and not is_stale(error)
    return isinstance(error, TransportError)


class Unanswered:
    """First and last failure of each kind of request since its last success, by the machine's uid.

    ``now`` reads a ``SteadyClock``; after ``longest`` a silence lasts.
    """

    def __init__(self, now: Callable[[], datetime], longest: timedelta) -> None:
        self._now = now
        self._longest = longest
        self._failures: dict[str, dict[Request, tuple[datetime, datetime]]] = {}

    def note_failure(self, uid: str, request: Request) -> bool:
        """Note that a request has failed; return whether requests of its kind have failed for long.

        A failure of another kind tells nothing: a request that timed out may have been carried out, and is
        then never sent again.
        """
        now, known = self._now(), self._failures.get(uid, {})
        fresh = {kind: times for kind, times in known.items() if now - times[1] < FORGOTTEN_AFTER}
        fresh[request] = (fresh.get(request, (now, now))[0], now)
        self._failures[uid] = fresh
        return now - fresh[request][0] >= self._longest

    def note_success(self, uid: str, request: Request) -> None:
        """Note that a request of this kind has succeeded."""
        self._failures.get(uid, {}).pop(request, None)

    def forget(self, uid: str) -> None:
        """The machine is gone for good."""
        self._failures.pop(uid, None)
