"""The evictions and deletions of pods that are under way, of all drains of a cluster, beside the workers.

Theory.      A server may take long over an eviction: it waits for webhooks, and repeats what meets a conflict
             at a budget. A worker that waited would be lost for all other machines, and ten thousand drains
             would hold all workers for hours. So the requests of a pass are a task of its own: ``start``
             returns at once, and ``DrainSession.under_way`` tells the next looks about it. A look that met
             requests under way is repeated when they end. Pods are many, so they do not wait in memory: while
             ``MOST`` requests are under way a drain only stands in line, and looks anew when its turn
             comes.
Invariants.  At most one task for a node at a time; force ends one that evicts. Evictions and forced deletions
             have a lane each, so force waits for no eviction. A request ends by its own deadline. What
             stands in line also looks again by itself (``DrainPlan.wake``), so no turn is lost. ``run`` owns
             the tasks.
Called by    ``machines.machine``, ``machines.orphans``. ``clusters.machine`` limits the calls of a pass to a
             cluster instead, and runs its sessions itself.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice

import structlog

from kubewright.kube.client import Client
from kubewright.nodes.drain.budgets import Budgets
from kubewright.nodes.drain.plan import DrainPlan
from kubewright.nodes.drain.session import AT_ONCE, DrainSession, asked_by

MOST = 200
"""Requests under way in one lane: as many changes as kube-apiserver works on at a time by default
(``--max-mutating-requests-inflight``)."""

Wake = Callable[[], None]
"""Lets the owner of a drain look again, soon."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Lane:
    """``under_way``: requests, at most ``MOST`` but for a single node with more; ``line``: who waits."""

    under_way: int = 0
    line: dict[str, Wake] = field(default_factory=dict)

    def takes(self, width: int) -> bool:
        return not self.under_way or self.under_way + width <= MOST

    def left(self, width: int) -> None:
        """So many requests have ended: wake as many of the line as may find room."""
        self.under_way -= width
        for of in tuple(islice(self.line, max(0, MOST - self.under_way))):
            self.line.pop(of)()


class Removals:
    """The requests of all drains of one cluster, by what is drained: the uid of a machine, a provider id."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._budgets = Budgets(client)
        self._lanes = {False: _Lane(), True: _Lane()}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        """How many nodes have requests under way."""
        return len(self._tasks)

    def start(self, of: str, session: DrainSession, plan: DrainPlan, wake: Wake, *, now: datetime) -> None:
        """Begin what a plan asks for; while requests of this drain are under way, or too many of others,
        nothing happens until ``wake`` is called."""
        lane, width = self._lanes[plan.forced], min(AT_ONCE, len(plan.evict) + len(plan.delete))
        if not width or not session.under_way.yields_to(forced=plan.forced):
            return
        if not lane.takes(width):
            lane.line[of] = wake
            return
        if (before := self._tasks.get(of)) is not None:
            before.cancel()
        lane.line.pop(of, None)
        lane.under_way += width
        session.under_way = asked_by(plan)
        running = session.run(plan, self._client, now=now, budgets=self._budgets)
        task = self._tasks[of] = asyncio.create_task(running, name=f"pods of {of}")
        task.add_done_callback(partial(self._ended, of))
        task.add_done_callback(lambda _task: lane.left(width))
        task.add_done_callback(partial(_settle, session, wake))

    async def run(self) -> None:
        """Own the tasks until cancelled: what is under way then is cancelled too, and the next process looks
        what came of it."""
        try:
            await asyncio.Event().wait()
        finally:
            for lane in self._lanes.values():
                lane.line.clear()
            tasks = tuple(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, of: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(of) is task:
            del self._tasks[of]


def _settle(session: DrainSession, wake: Wake, task: asyncio.Task[None]) -> None:
    """Let the owner look again if its last look met the requests of ``task``, which have ended."""
    if task.cancelled():
        return
    if (error := task.exception()) is not None:
        log.error("unexpected error in requests about pods", exc_info=error)
    if session.met:
        wake()
