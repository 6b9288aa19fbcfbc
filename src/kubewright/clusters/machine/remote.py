"""Calls to workload clusters that hold no worker for long.

Theory.      A cluster whose server accepts connections and does not answer would hold each worker that asks
             it until its deadline, and soon all of them. So a call ends after ``CALL_SECONDS``; one cluster
             gets ``AT_ONCE`` calls at a time; and while one of them takes longer than ``SLOW_SECONDS``, no
             other pass calls the same cluster.
Invariants.  What was refused here was not sent; a cluster that answers is called again in a moment.
Called by    ``look``, ``act``.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kubewright.base.clock import Clock
from kubewright.base.delays import BEHIND, SHORT
from kubewright.base.errors import KubewrightError, Retry
from kubewright.kube.errors import TimedOut
from kubewright.wire.gvk import Key

CALL_SECONDS = 10.0
"""How long the calls of one pass to a workload cluster may take."""

SLOW_SECONDS = 1.0
"""From when on a call keeps others from the same cluster."""


AT_ONCE = 10
"""Passes that may call one cluster at the same time: a fifth of the workers."""


class Slow(KubewrightError):
    """Other passes wait for answers of the same cluster."""

    def __init__(self, message: str, retry: Retry) -> None:
        super().__init__(message)
        self.retry = retry


class Remote:
    """The calls that are under way, by cluster."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun: dict[Key, dict[object, float]] = {}

    @asynccontextmanager
    async def calling(self, cluster: Key) -> AsyncIterator[None]:
        """The time of one pass with a cluster.

        Raises:
            Slow: the cluster is waited for already, or called by many passes.
            TimedOut: it did not answer in time.
        """
        now, begun, me = self._clock.monotonic(), self._begun.setdefault(cluster, {}), object()
        if any(now - since > SLOW_SECONDS for since in begun.values()):
            raise Slow(f"cluster {cluster} is slow to answer, and another pass waits for it", SHORT)
        if len(begun) >= AT_ONCE:
            raise Slow(f"cluster {cluster} is being called by {AT_ONCE} passes already", BEHIND)
        begun[me] = now
        try:
            async with asyncio.timeout(CALL_SECONDS):
                yield
        except TimeoutError:
            raise TimedOut(f"cluster {cluster} did not answer within {CALL_SECONDS:g} s") from None
        finally:
            del begun[me]
            if not begun:
                self._begun.pop(cluster, None)
