"""The evictions and deletions of pods that are under way, of all drains of a cluster, beside the workers.

Theory.      A server may take long over an eviction: it waits for webhooks, and repeats what meets a conflict
             at a budget. A worker that waited would be lost for all other machines, and ten thousand drains
             would hold all workers for hours. So the requests of a pass are a task of its own: ``start``
             returns at once, and ``DrainSession.under_way`` tells the next looks about it. When the requests
             have ended, others have room, and a task of its own asks for the budgets behind refusals. Then a
             look that overlapped the requests is repeated. Pods are many, so they do not wait in memory. If a
             node has more than one pass asks anything, the others are looked at when the requests have
             ended. While ``REQUESTS_PER_LANE`` requests are under way, a drain only stands in line, and looks
             anew when its turn comes.
Invariants.  At most one task for a node sends at a time; force ends one that evicts. Evictions and forced
             deletions have a lane each, so force waits for no eviction. A request ends by its own deadline.
             What stands in line also looks again by itself (``DrainPlan.wake``), so no turn is lost. ``run``
             owns the tasks.
Called by    ``machines.machine``, ``machines.orphans``, ``clusters.machine`` (for each workload cluster).
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice

import structlog

from kubewright.base.limits import EVICTIONS_AT_ONCE
from kubewright.kube.client import Client
from kubewright.nodes.drain.budgets import Budgets
from kubewright.nodes.drain.plan import NO_REQUESTS, DrainPlan, Requests
from kubewright.nodes.drain.session import REQUESTS_PER_NODE, DrainSession, Failure, asked_by

REQUESTS_PER_LANE = EVICTIONS_AT_ONCE
"""Requests under way in one lane: as many as are sent at once, so that none waits for its connection while
its deadline runs. kube-apiserver works on 200 changes at a time (``--max-mutating-requests-inflight``)."""

Wake = Callable[[], None]
"""Lets the owner of a drain look again, soon."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Lane:
    """``under_way``: the number of requests, at most ``REQUESTS_PER_LANE``; ``line``: drains that wait."""

    under_way: int = 0
    line: dict[str, Wake] = field(default_factory=dict)

    def takes(self, width: int) -> bool:
        return self.under_way + width <= REQUESTS_PER_LANE

    def ended(self, width: int) -> None:
        """So many requests have ended: wake as many of the line as may find room."""
        self.under_way -= width
        for drain in tuple(islice(self.line, max(0, REQUESTS_PER_LANE - self.under_way))):
            wake = self.line.pop(drain)
            wake()


@dataclass(frozen=True, slots=True)
class _Sending:
    """Requests of one drain that are under way, ``width`` of them at a time; ``more``: other pods wait for
    their end."""

    drain: str
    session: DrainSession
    under_way: Requests
    lane: _Lane
    width: int
    more: bool
    wake: Wake


class Removals:
    """The requests of all drains of one cluster; a drain is named by the uid of its machine, or by the
    provider id of a VM without one."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._budgets = Budgets(client)
        self._lanes = {False: _Lane(), True: _Lane()}
        self._sending: dict[str, asyncio.Task[list[Failure]]] = {}
        self._explaining: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """How many nodes have requests under way."""
        return len(self._sending)

    def start(self, drain: str, session: DrainSession, plan: DrainPlan, wake: Wake, *, now: datetime) -> None:
        """Begin what a plan asks for; while requests of this drain are under way, or too many of others,
        nothing happens until ``wake`` is called."""
        lane, width = self._lanes[plan.forced], min(REQUESTS_PER_NODE, len(plan.evict) + len(plan.delete))
        if not width or not session.under_way.yields_to(forced=plan.forced):
            return
        if not lane.takes(width):
            lane.line[drain] = wake
            return
        if (before := self._sending.get(drain)) is not None:
            before.cancel()
        lane.line.pop(drain, None)
        lane.under_way += width
        session.under_way = asked_by(plan)
        sending = _Sending(drain, session, session.under_way, lane, width, plan.more, wake)
        task = asyncio.create_task(session.send(plan, self.client, now=now), name=f"pods of {drain}")
        self._sending[drain] = task
        task.add_done_callback(partial(self._sent, sending))

    async def run(self) -> None:
        """Own the tasks until cancelled: what is under way then is cancelled too, and the next process looks
        what came of it."""
        try:
            await asyncio.Event().wait()
        finally:
            await self.end()

    async def end(self) -> None:
        """Cancel what is under way, and wait until it has ended."""
        for lane in self._lanes.values():
            lane.line.clear()
        for tasks in (self._sending.values(), self._explaining):  # what was sent is not explained any more
            ended = tuple(tasks)
            for task in ended:
                task.cancel()
            await asyncio.gather(*ended, return_exceptions=True)

    def _sent(self, sending: _Sending, task: asyncio.Task[list[Failure]]) -> None:
        """The requests have ended, or were cancelled before they began."""
        session = sending.session
        if self._sending.get(sending.drain) is task:
            del self._sending[sending.drain]
        if session.under_way is sending.under_way:
            session.under_way = NO_REQUESTS
        sending.lane.ended(sending.width)
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            _log_unexpected(error)
        failed = task.result() if error is None else []
        if failed:
            self._explain(sending, failed)
        if sending.more or (session.overlapped and not failed):
            sending.wake()

    def _explain(self, sending: _Sending, failed: Sequence[Failure]) -> None:
        """Find out about refusals. A look that overlapped the requests, and so has planned without their
        results, is repeated when that is known."""
        explaining = asyncio.create_task(
            sending.session.explain(failed, self._budgets), name=f"refusals of {sending.drain}"
        )
        self._explaining.add(explaining)
        explaining.add_done_callback(partial(self._explained, sending))

    def _explained(self, sending: _Sending, task: asyncio.Task[None]) -> None:
        self._explaining.discard(task)
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            _log_unexpected(error)
        if sending.session.overlapped:
            sending.wake()


def _log_unexpected(error: BaseException) -> None:
    log.error("unexpected error in requests about pods", exc_info=error)
