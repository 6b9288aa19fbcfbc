"""The manager: one process of controllers, from its first moment to its last.

Theory.      Four layers, each started after and stopped before the one around it:
             *services* (health, events) and *informers* run all the time; then the caches must be
             full; then, with an elector, we must lead; then *controllers* and *background* work.
             Stopping goes the other way: no more keys, running reconciliations get time to finish,
             what is left is cancelled, the Lease is let go, the services end.
Invariants.  Every task lives in a TaskGroup of ``run``; when ``run`` returns nothing is left. A
             controller never works on a cache that is not full. After the end of a term (``LostLease``)
             nothing is finished politely: it is cancelled at once.
Called by    the composition root, with the event that its signal handlers set.
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import structlog

from kubewright.base import limits
from kubewright.base.clock import Clock
from kubewright.base.errors import KubewrightError, OnChange, Retry, single
from kubewright.kube.errors import TransportError
from kubewright.kube.informer import Statistics
from kubewright.kube.informers import Informers
from kubewright.runtime.controller import Controller
from kubewright.runtime.leader import Elector
from kubewright.wire.errors import NotFound

log = structlog.get_logger("kubewright.manager")

Task = Callable[[], Awaitable[None]]


class Phase(StrEnum):
    """How far a manager has come."""

    STARTING = "starting"
    SYNCING = "waiting for caches"
    CANDIDATE = "waiting for the lease"
    WORKING = "working"
    STOPPING = "stopping"
    STOPPED = "stopped"


class NotSynced(KubewrightError):
    """The caches were not full in time; the message says which and why."""

    retry: Retry = OnChange()


@dataclass(frozen=True, slots=True)
class Settings:
    """How a manager behaves; all times in seconds.

    ``sync_seconds``    how long to wait for full caches; None waits for ever, since a CRD may be
                        installed later. What is missing is said every ``report_seconds``.
    ``drain_seconds``   what running reconciliations get at the end; the rest of the shutdown's time
                        is for handing over the Lease and writing the last events.
    ``tune_gc``         after the start, move what lives for ever out of the garbage collector's
                        sight and let it run rarely: no pauses with 100,000 cached objects.
    """

    sync_seconds: float | None = None
    report_seconds: float = 10.0
    drain_seconds: float = limits.SHUTDOWN_SECONDS * 0.6
    tune_gc: bool = False


class Manager:
    """Runs controllers. ``background`` works beside them (only while leading), ``services`` always.

    ``working`` is set once the controllers run.
    """

    def __init__(
        self,
        clock: Clock,
        controllers: Sequence[Controller],
        informers: Sequence[Informers],
        *,
        background: Sequence[Task] = (),
        services: Sequence[Task] = (),
        elector: Elector | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.phase = Phase.STARTING
        self.working = asyncio.Event()
        self._clock = clock
        self._controllers = controllers
        self._informers = informers
        self._background = background
        self._services = services
        self._elector = elector
        self._settings = settings or Settings()

    async def run(self, stop: asyncio.Event) -> None:
        """Work until ``stop`` is set, then end within ``limits.SHUTDOWN_SECONDS``.

        Raises:
            LostLease: another replica leads now.
            NotSynced: the caches were not full within ``sync_seconds``.
        """
        try:
            async with asyncio.TaskGroup() as group:
                around = [
                    _start(group, task) for task in (*self._services, *(each.run for each in self._informers))
                ]
                try:
                    await self._work_until(stop)
                finally:
                    _cancel(around)
        except BaseExceptionGroup as errors:
            raise single(errors) from None
        finally:
            self.phase = Phase.STOPPED

    def not_ready(self) -> str:
        """What a readiness probe should hear: empty when all is well. A waiting candidate is ready."""
        return "" if self.phase in {Phase.CANDIDATE, Phase.WORKING} else self.phase.value

    def status(self) -> dict[str, Any]:
        """A picture for people and for ``/statusz``: how far we are, who leads, queues and caches."""
        elector = self._elector
        return {
            "phase": self.phase.value,
            "leader": None if elector is None else {"holder": elector.holder, "leading": elector.leading},
            "controllers": {each.name: asdict(each.statistics()) for each in self._controllers},
            "clusters": {
                each.client.name: [asdict(informer) for informer in each.statistics()]
                for each in self._informers
            },
        }

    async def _work_until(self, stop: asyncio.Event) -> None:
        """Everything inside the services. A stop before we work needs no politeness."""
        async with asyncio.TaskGroup() as group:
            work = group.create_task(self._work(stop), name="work")
            asked = group.create_task(stop.wait(), name="stop")
            await asyncio.wait((work, asked), return_when=asyncio.FIRST_COMPLETED)
            if self.phase in {Phase.SYNCING, Phase.CANDIDATE}:
                work.cancel()
            await asyncio.wait((work,))
            asked.cancel()

    async def _work(self, stop: asyncio.Event) -> None:
        self.phase = Phase.SYNCING
        await self._wait_for_caches()
        if self._settings.tune_gc:
            tune_gc()
        if self._elector is None:
            await self._lead(stop)
        else:
            self.phase = Phase.CANDIDATE
            await self._elector.run(lambda: self._take_over(stop))

    async def _take_over(self, stop: asyncio.Event) -> None:
        """Lead, with caches that know all that the leader before us wrote.

        A candidate's watch may be late or broken. Who leads by it makes VMs for machines that are gone.
        """
        for informers in self._informers:
            informers.refresh()
        await self._wait_for_caches()
        await self._lead(stop)

    async def _wait_for_caches(self) -> None:
        began, settings = self._clock.monotonic(), self._settings
        for informers in self._informers:
            while missing := await self._missing(informers):
                waited = self._clock.monotonic() - began
                if settings.sync_seconds is not None and waited >= settings.sync_seconds:
                    raise NotSynced(f"not ready after {waited:.0f} s: {missing}")
                log.warning("waiting", seconds=round(waited), missing=missing)
        log.info("caches are full", seconds=round(self._clock.monotonic() - began, 3))

    async def _missing(self, informers: Informers) -> str:
        """Wait one report's time; what is not full then, in words."""
        limit = self._settings.sync_seconds
        patience = (
            self._settings.report_seconds if limit is None else min(limit, self._settings.report_seconds)
        )
        try:
            await informers.wait_synced(patience)
        except TransportError:
            return in_words([each for each in informers.statistics() if not each.synced])
        return ""

    async def _lead(self, stop: asyncio.Event) -> None:
        self.phase = Phase.WORKING
        self.working.set()
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [_start(group, task) for task in self._background]
                tasks += [_start(group, each.run) for each in self._controllers]
                try:
                    await stop.wait()
                finally:
                    self._take_no_more()
                await self._drain()
                _cancel(tasks)
        finally:
            self.phase = Phase.STOPPING

    def _take_no_more(self) -> None:
        """No key is begun from here on, whatever ended our work, and whoever ignores his cancellation."""
        self.phase = Phase.STOPPING
        for controller in self._controllers:
            controller.close()

    async def _drain(self) -> None:
        """Let what runs finish, for a while."""
        try:
            async with asyncio.timeout(self._settings.drain_seconds):
                for controller in self._controllers:
                    await controller.drained()
        except TimeoutError:
            late = {
                each.name: running for each in self._controllers if (running := each.statistics().running)
            }
            log.warning("cancelling reconciliations that did not finish in time", running=late)


def in_words(late: Sequence[Statistics]) -> str:
    """Why caches are not full: one clause per cause. What fails alike is told once, and counted."""
    unserved = [each.resource for each in late if each.trouble.startswith(f"{NotFound.__name__}:")]
    others = [each for each in late if each.resource not in unserved]
    clauses = []
    if unserved:
        asked = "is its CRD installed?" if len(unserved) == 1 else "are their CRDs installed?"
        clauses.append(f"the server does not serve {', '.join(unserved)}; {asked}")
    if others:
        more = f" (and {len(others) - 1} more caches)" if len(others) > 1 else ""
        clauses.append(f"{others[0].resource}: {others[0].trouble or 'no answer yet'}{more}")
    return "; ".join(clauses) or "caches are not full"


def tune_gc() -> None:
    """Settings measured for large caches (python-libs.md §6.2): for the whole process, once."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 1000)


def _start(group: asyncio.TaskGroup, task: Task) -> asyncio.Task[None]:
    async def run() -> None:
        await task()

    return group.create_task(run(), name=getattr(task, "__qualname__", "task"))


def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
