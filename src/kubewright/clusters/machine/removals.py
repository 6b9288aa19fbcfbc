"""What the drains of Machines ask of pods, in each workload cluster: sent beside the workers.

Theory.      An eviction may take as long as webhooks and budgets of the workload cluster let it, far longer
             than a pass may call a cluster (``calls``). So a pass only lists pods, and
             ``nodes.drain.removals`` sends the requests. Each cluster has its own, with a bound of its own.
Invariants.  What is under way in a cluster is cancelled when its session is lost: its Machines are looked at
             when it is connected again. ``run`` owns the rest.
Called by    ``act``; put together by ``clusters.world``.
"""

import asyncio

from kubewright.nodes.drain.removals import Removals
from kubewright.runtime.sessions.lending import Workloads
from kubewright.runtime.sessions.session import Listener, Session
from kubewright.wire.gvk import Key


class WorkloadRemovals:
    """The requests of drains, by workload cluster."""

    def __init__(self, workloads: Workloads) -> None:
        self._of: dict[Key, Removals] = {}
        self._ending: set[asyncio.Task[None]] = set()
        workloads.subscribe(Listener(lambda _session: None, self._lost))

    def within(self, session: Session) -> Removals:
        """Those of the cluster of this session."""
        known = self._of.get(session.cluster)
        if known is None or known.client is not session.client:
            self._end(session.cluster)
            known = self._of[session.cluster] = Removals(session.client)
        return known

    async def run(self) -> None:
        """Own the requests until cancelled; then they are, too."""
        try:
            await asyncio.Event().wait()
        finally:
            for cluster in tuple(self._of):
                self._end(cluster)
            await asyncio.gather(*self._ending, return_exceptions=True)

    def _lost(self, session: Session, _because: str) -> None:
        self._end(session.cluster)

    def _end(self, cluster: Key) -> None:
        """Cancel what is under way in a cluster."""
        if (removals := self._of.pop(cluster, None)) is not None:
            task = asyncio.create_task(removals.end(), name=f"end of requests about pods of {cluster}")
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
