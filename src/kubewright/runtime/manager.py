"""The manager: runs the controllers of one process in groups, from their start to an orderly stop.

Theory.      *Services* (health, events) and *informers* run all the time; inside them run the *groups* of
             controllers, each under a Lease of its own or under none, and each goes its own way: it waits for
             its Lease, makes its controllers, waits until their caches are synced, and works. When it loses
             the Lease it drops its controllers and stands for the Lease again, while the other groups go on.
             A new term has new controllers, which remember nothing, since another process may have worked in
             between. A stop goes in this order: no pass begins, running ones get time to finish, the rest is
             cancelled, the Leases are released, the services end.
Invariants.  No pass begins outside a term, nor before the caches are synced. When a Lease is lost
             (``LostLease``), running passes are cancelled at once, without time to finish, and have ended
             before the group stands for the Lease again. What was kept of a term ends with it.
             Every task lives in a TaskGroup of ``run``; when ``run`` returns nothing is left. One group's
             lost Lease stops no other group.
Called by    the composition root, with the event that its signal handlers set.
"""

import asyncio
import gc
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import structlog

from kubewright.base import limits
from kubewright.base.clock import Clock
from kubewright.base.errors import KubewrightError, OnChange, Retry, single
from kubewright.kube.errors import TransportError
from kubewright.kube.informer import Informers, Statistics
from kubewright.runtime.controller import Controller
from kubewright.runtime.leader import Candidate, LostLease
from kubewright.runtime.records import Answer, answer
from kubewright.wire.errors import NotFound

log = structlog.get_logger("kubewright.manager")

Runnable = Callable[[], Awaitable[None]]
"""Runs until it is cancelled."""


class Phase(StrEnum):
    """How far a group, or a manager with all its groups, has come."""

    STARTING = "starting"
    SYNCING = "waiting for caches"
    CANDIDATE = "waiting for the lease"
    WORKING = "working"
    STOPPING = "stopping"
    STOPPED = "stopped"


URGENT_FIRST = (Phase.STARTING, Phase.SYNCING, Phase.STOPPING, Phase.STOPPED, Phase.CANDIDATE, Phase.WORKING)
"""A manager has the phase of that group which comes first here: what a probe should hear of before the
rest."""


class NotSynced(KubewrightError):
    """The caches were not synced in time; the message says which and why."""

    retry: Retry = OnChange()


@dataclass(frozen=True, slots=True)
class Settings:
    """How groups behave; all times in seconds.

    ``sync_seconds``    how long to wait for synced caches; None waits for ever, since a CRD may be
                        installed later. What is missing is logged every ``report_seconds``.
    ``drain_seconds``   the time that running passes get at a stop; the rest of the
                        shutdown's time is for handing over the Lease and writing the last events.
    ``tune_gc``         when caches are synced, exempt what is in memory from Python's garbage collector
                        (``gc.freeze``) and let it run rarely: no pauses with 100,000 cached objects.
    """

    sync_seconds: float | None = None
    report_seconds: float = 10.0
    drain_seconds: float = limits.SHUTDOWN_SECONDS * 0.6
    tune_gc: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """What a group runs in one term: ``controllers``, and ``background`` beside them, on ``informers``.

    ``end`` gives back what was borrowed for this term, which is nothing where the work is for the whole life
    of the process.
    """

    controllers: Sequence[Controller]
    informers: Sequence[Informers]
    background: Sequence[Runnable] = ()
    end: Callable[[], None] = lambda: None


class Group:
    """Controllers under one Lease, or none; see the module.

    ``begin``    makes the work of a term; without a Lease there is one term, and the work may have been made
                 before it
    ``work``     that of the term that runs now; empty outside of a term
    ``again``    stand for the Lease again when a term was lost; else ``run`` ends with ``LostLease``
    ``settled``  is set once the group works, or stands by because another process holds its Lease
    """

    def __init__(
        self,
        name: str,
        clock: Clock,
        begin: Callable[[], Work],
        *,
        elector: Candidate | None = None,
        again: bool = True,
        settings: Settings | None = None,
    ) -> None:
        self.name = name
        self.elector = elector
        self.phase = Phase.STARTING
        self.settled = asyncio.Event()
        self.work = Work((), ())
        self._clock = clock
        self._begin = begin
        self._again = again
        self._settings = settings or Settings()

    async def run(self, stop: asyncio.Event) -> None:
        """Work in terms until ``stop`` is set. A group that does not work yet is cancelled then.

        Raises:
            LostLease: the Lease was lost, and ``again`` is False.
            NotSynced: the caches were not synced within ``sync_seconds``.
        """
        async with asyncio.TaskGroup() as tasks:
            terms = tasks.create_task(self._terms(stop), name=f"terms of {self.name}")
            asked = tasks.create_task(stop.wait(), name="stop")
            await asyncio.wait((terms, asked), return_when=asyncio.FIRST_COMPLETED)
            if self.phase in {Phase.STARTING, Phase.SYNCING, Phase.CANDIDATE}:
                terms.cancel()
            await asyncio.wait((terms,))
            asked.cancel()
        self.phase = Phase.STOPPED

    async def _terms(self, stop: asyncio.Event) -> None:
        if self.elector is None:
            await self._term(stop)
            return
        while not stop.is_set():
            self.phase = Phase.CANDIDATE
            try:
                await self.elector.run(lambda: self._term(stop), stands_by=self.settled.set)
            except LostLease as lost:
                if not self._again:
                    raise
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    raise asyncio.CancelledError from lost  # until Python 3.13 a TaskGroup hides that it came
                log.warning("work is cancelled; standing for the lease again", group=self.name, why=str(lost))

    async def _term(self, stop: asyncio.Event) -> None:
        self.phase = Phase.SYNCING
        self.work = self._begin()
        try:
            await self._wait_for_caches()
            if self._settings.tune_gc:
                tune_gc()
            await self._lead(stop)
        finally:
            self._take_no_more()
            work, self.work = self.work, Work((), ())  # its records and queues tell nothing of the present
            work.end()

    async def _lead(self, stop: asyncio.Event) -> None:
        self.phase = Phase.WORKING
        self.settled.set()
        async with asyncio.TaskGroup() as owner:
            tasks = [start(owner, each) for each in self.work.background]
            tasks += [start(owner, each.run) for each in self.work.controllers]
            try:
                await stop.wait()
            finally:
                self._take_no_more()
            await self._drain()
            cancel(tasks)

    def _take_no_more(self) -> None:
        """Let no pass begin from here on, even where a task ignores its cancellation."""
        self.phase = Phase.STOPPING
        for controller in self.work.controllers:
            controller.close()

    async def _drain(self) -> None:
        """Wait up to ``drain_seconds`` for running passes to finish."""
        try:
            async with asyncio.timeout(self._settings.drain_seconds):
                for controller in self.work.controllers:
                    await controller.drained()
        except TimeoutError:
            counts = ((each.name, each.statistics().running) for each in self.work.controllers)
            late = {name: running for name, running in counts if running}
            log.warning("cancelling reconciliations that did not finish in time", running=late)

    async def _wait_for_caches(self) -> None:
        began, settings = self._clock.monotonic(), self._settings
        for informers in self.work.informers:
            while missing := await self._missing(informers):
                waited = self._clock.monotonic() - began
                if settings.sync_seconds is not None and waited >= settings.sync_seconds:
                    raise NotSynced(f"not ready after {waited:.0f} s: {missing}")
                log.warning(
                    "caches are not synced yet", group=self.name, seconds=round(waited), missing=missing
                )
        log.info("caches are synced", group=self.name, seconds=round(self._clock.monotonic() - began, 3))

    async def _missing(self, informers: Informers) -> str:
        """Wait up to ``report_seconds``; what is not synced then, in words."""
        limit, report = self._settings.sync_seconds, self._settings.report_seconds
        try:
            await informers.wait_synced(report if limit is None else min(limit, report))
        except TransportError:
            return in_words([each for each in informers.statistics() if not each.synced])
        return ""


def in_words(late: Sequence[Statistics]) -> str:
    """Why caches are not synced: one clause per cause. Caches with one cause are named together or
    counted."""
    unserved = [each.resource for each in late if each.trouble.startswith(f"{NotFound.__name__}:")]
    others = [each for each in late if each.resource not in unserved]
    clauses = []
    if unserved:
        asked = "is its CRD installed?" if len(unserved) == 1 else "are their CRDs installed?"
        clauses.append(f"the server does not serve {', '.join(unserved)}; {asked}")
    if others:
        more = f" (and {len(others) - 1} more caches)" if len(others) > 1 else ""
        clauses.append(f"{others[0].resource}: {others[0].trouble or 'no answer yet'}{more}")
    return "; ".join(clauses) or "caches are not synced"


TUNED_SECONDS = 60.0
"""For how long after a collection none is made again: the groups of ``up`` fill their caches at one time. By
the clock of the machine also under simulated time: a collection takes as long there."""


class _Collected:
    """When the garbage of this process, which has one collector, was last collected."""

    at = -math.inf


def tune_gc() -> None:
    """Settings measured for large caches, for the whole process.

    What earlier calls froze is unfrozen first; else objects of past terms would never be freed.
    """
    now = time.monotonic()
    if now - _Collected.at >= TUNED_SECONDS:
        _Collected.at = now
        gc.unfreeze()
        gc.collect()
    gc.freeze()
    gc.set_threshold(*limits.COLLECTIONS)


def start(owner: asyncio.TaskGroup, runnable: Runnable) -> asyncio.Task[None]:
    """A task of ``owner`` that runs ``runnable``, under its own name."""

    async def run() -> None:
        await runnable()

    return owner.create_task(run(), name=getattr(runnable, "__qualname__", "task"))


def cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Ask them all to end."""
    for task in tasks:
        task.cancel()


class Manager:
    """Runs ``groups`` of controllers, and beside them ``services`` and ``informers`` from start to end.

    ``driver_of`` says for people which driver makes the VMs of classes with a provider.
    """

    def __init__(
        self,
        informers: Sequence[Informers],
        groups: Sequence[Group],
        *,
        services: Sequence[Runnable] = (),
        driver_of: Callable[[str], str] = lambda _provider: "",
    ) -> None:
        self._informers = informers
        self._groups = groups
        self._services = services
        self._driver_of = driver_of
        self._ended = False

    async def run(self, stop: asyncio.Event) -> None:
        """Work until ``stop`` is set, then end: within ``limits.SHUTDOWN_SECONDS`` if all servers answer.
        Each step has a deadline of its own, but a task that ignores its cancellation has none.

        Raises:
            LostLease: a group lost its Lease, and does not stand for it again.
            NotSynced: caches were not synced within ``sync_seconds``.
        """
        try:
            async with asyncio.TaskGroup() as outer:
                background = [
                    start(outer, each) for each in (*self._services, *(each.run for each in self._informers))
                ]
                try:
                    async with asyncio.TaskGroup() as inner:
                        for each in self._groups:
                            inner.create_task(each.run(stop), name=each.name)
                finally:
                    cancel(background)
        except BaseExceptionGroup as errors:
            raise single(errors) from None
        finally:
            self._ended = True

    @property
    def phase(self) -> Phase:
        """That of its groups that comes first in ``URGENT_FIRST``; there is at least one group."""
        if self._ended:
            return Phase.STOPPED
        return min((each.phase for each in self._groups), key=URGENT_FIRST.index)

    async def settled(self) -> None:
        """Wait until every group works, or stands by because another process holds its Lease."""
        for each in self._groups:
            await each.settled.wait()

    def waits_for(self) -> list[tuple[str, str]]:
        """For each group that stands by: the Lease that it waits for, and the holder of that Lease."""
        waiting = (each.elector for each in self._groups if each.phase is Phase.CANDIDATE)
        return [(str(elector.key), elector.holder) for elector in waiting if elector is not None]

    def not_ready(self) -> str:
        """Why a readiness probe should fail; empty when ready, as a candidate for a Lease is."""
        return "" if self.phase in {Phase.CANDIDATE, Phase.WORKING} else self.phase.value

    def plans(
        self, *, namespace: str = "", name: str = "", waits: int = 0, provider: str | None = None
    ) -> Answer:
        """The content of ``/debug/plans``: the last passes of this namespace and name; empty: any.

        ``waits``: only those with so many of the longest waits, if it is not 0. ``provider``: of classes;
        the answer says which driver that is, for people.
        All of 100,000 records are 40 MB, and take a third of a second in which nothing else happens.
        """
        kept = (controller.passes for each in self._groups for controller in each.work.controllers)
        found = (record for each in kept for record in each.find(namespace=namespace, name=name))
        driver = "" if provider is None else self._driver_of(provider)
        return answer(found, self.waits_for(), waits, driver)

    def status(self) -> dict[str, Any]:
        """The content of ``/statusz``: the phase, each Lease and its holder, queues and caches."""
        return {
            "phase": self.phase.value,
            "groups": {each.name: _group_status(each) for each in self._groups},
            "controllers": {
                controller.name: asdict(controller.statistics())
                for each in self._groups
                for controller in each.work.controllers
            },
            "clusters": {
                each.client.name: [asdict(informer) for informer in each.statistics()]
                for each in self._informers
            },
        }


def _group_status(group: Group) -> dict[str, Any]:
    elector = group.elector
    lease = None if elector is None else {"name": str(elector.key), "holder": elector.holder}
    return {"phase": group.phase.value, "lease": lease, "leading": elector is None or elector.leading}
