"""Limits of calls to workload clusters, so that a cluster that hangs does not occupy all workers.

Theory.      A server that accepts connections and does not answer would occupy each worker that calls it
             until the call's deadline, and soon all workers. So a call ends after ``CALL_SECONDS``; a cluster
             gets ``CALLS_PER_CLUSTER`` calls at a time; and while one of them takes longer than
             ``SLOW_SECONDS``, no other pass calls that cluster. Evictions are not among them (``removals``).
Invariants.  ``ClusterBusy`` says that nothing was sent; its retry class says when to try again.
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
"""A call that has taken longer keeps others from the same cluster."""


CALLS_PER_CLUSTER = 10
"""Passes that may call one cluster at the same time: a fifth of the workers."""


class ClusterBusy(KubewrightError):
    """Calls of other passes to the same cluster are under way, too slow or too many."""

    def __init__(self, message: str, retry: Retry) -> None:
        super().__init__(message)
        self.retry = retry


class WorkloadCalls:
    """The calls that are under way, by cluster; one for all workers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun: dict[Key, dict[object, float]] = {}

    @asynccontextmanager
    async def to(self, cluster: Key) -> AsyncIterator[None]:
        """A context in which one pass calls a cluster.

        Raises:
            ClusterBusy: another pass waits for an answer already, or ``CALLS_PER_CLUSTER`` passes call it.
            TimedOut: it did not answer in time.
        """
        now, begun, me = self._clock.monotonic(), self._begun.setdefault(cluster, {}), object()
        if any(now - since > SLOW_SECONDS for since in begun.values()):
            raise ClusterBusy(f"cluster {cluster} is slow to answer, and another pass waits for it", SHORT)
        if len(begun) >= CALLS_PER_CLUSTER:
            raise ClusterBusy(
                f"cluster {cluster} is being called by {CALLS_PER_CLUSTER} passes already", BEHIND
            )
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
