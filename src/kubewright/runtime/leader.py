"""Election on a Lease: of several replicas at most one works.

Theory.      The Lease is a record that candidates overwrite by compare-and-swap (a PUT with the
             resourceVersion last read). No process trusts another's clock: a candidate notes on its own
             monotonic clock when it *saw the Lease change* (any write counts, whatever times it
             carries), and may take it once it has not changed for ``leaseDurationSeconds``.
             The leader gives up earlier: ``renew_deadline`` after it *began* its last successful
             renewal. Others can only have seen that renewal later than it began, so
             ``lease_duration - renew_deadline`` remains for stopping. The leader writes nothing more once
             even a candidate that waits less than ``leaseDurationSeconds`` (old client-go) could have
             taken the Lease.
Invariants.  The work is cancelled and has ended before ``run`` releases the Lease. A lost answer, a
             refused connection or a conflict never ends a candidacy, and never by itself a term.
             A term ends when the Lease has another holder, or none: a user who clears the holder asks
             the leader to step down. The leader sees that at its next renewal at the earliest. So a
             candidate takes at once only a Lease that its holder released, after its work had ended;
             a Lease that a user cleared must stay unchanged for its duration like any other.
On request.  In ``up`` all requests of other processes pass through the process that leads. There the leader
             renews only when another process is about to use the Lease (``renew_for_others``): its request
             is handled once the last renewal is younger than ``renew_period``. So a process that looks again
             and again sees the Lease change in time, and the server refuses a write that was computed from a
             Lease that had not changed for longer. Until a process asks, none can have begun to wait, so the
             term is certain; from then on and until the next renewal the rules above hold.
Shared.      Several processes may hold one Lease under one identity (``shared``), so that they exclude all
             others and not each other. Each renews it for itself, and its own renewals say how long it is
             certain. None releases it, since the others work on; it expires after the last has ended.
Several.     A shard works only while it holds its own Lease, and all shards of its number hold the common one
             (``lease``). It stands for its own first (``AllOf``): there the replicas of one shard wait for
             each other, and only the one that leads takes part in the common Lease. A process that needs
             several Leases leads, and writes, only while it holds them all.
Cost.        One request per period and replica: five a minute at the 12 s of ``compose.options``.
             On request: none while no other process asks. Shared: two.
Called by    ``manager``, as a ``Candidate``; ``compose.assembly`` makes an ``Elector`` for each Lease,
             ``compose.embedded`` calls ``renew_for_others``, a group stands again after a ``LostLease``.
             Continues in ``lease``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

import structlog
from msgspec import structs

from kubewright.api.core import LEASE, Lease, LeaseSpec
from kubewright.api.meta import ObjectMeta
from kubewright.base.clock import Clock, new_uid
from kubewright.base.errors import KubewrightError, single
from kubewright.kube.client import Client
from kubewright.runtime.events import Recorder
from kubewright.runtime.lease import Seen, Timings, claimed, released
from kubewright.wire.errors import ApiError, Conflict, NotFound
from kubewright.wire.gvk import Key

REQUEST_SECONDS = 5.0
"""Deadline of one attempt."""

RELEASE_SECONDS = 2.0
"""How long a leader that stops tries to release the Lease."""

log = structlog.get_logger("kubewright.leader")


class LostLease(KubewrightError):
    """This process may not lead any longer; the message says why. Its caches may be out of date."""


class Elector:
    """One candidate for the Lease at ``key``. No other process may have the same ``identity``, unless all of
    them hold it as a ``shared`` one.

    ``renew_on_request``: each request of another process to the Lease waits for ``renew_for_others``; see the
    module.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        key: Key,
        *,
        identity: str,
        timings: Timings | None = None,
        recorder: Recorder | None = None,
        renew_on_request: bool = False,
        shared: bool = False,
    ) -> None:
        self.key = key
        self.identity = identity
        self.timings = timings or Timings()
        self.leading = False
        self._client = client
        self._clock = clock
        self._recorder = recorder
        self._on_request = renew_on_request
        self._shared = shared
        self._asked, self._renewed = asyncio.Event(), asyncio.Event()
        self._seen: Seen | None = None
        self._known = False
        """Whether ``_seen`` is what the server has, since we wrote it last and no other process may."""
        self._claiming = False
        """Whether the Lease may be ours: we have asked for it, whatever became of the request."""
        self._began = 0.0
        self._trouble = self._logged = ""

    @property
    def holder(self) -> str:
        """The holder of the Lease when we last read it; empty when it had none, or before the first read."""
        return self._seen.holder if self._seen else ""

    @property
    def entitled(self) -> bool:
        """Whether no other process can have taken the Lease yet, even if ours stood still. Writes ask it."""
        unseen = self._on_request and not self._asked.is_set()
        return self.leading and (unseen or self._clock.monotonic() < self._began + self.timings.exclusive)

    async def renew_for_others(self) -> bool:
        """Renew the Lease if the last renewal is older than a period, before another process's request for it
        is handled.

        False: it could not be renewed within ``REQUEST_SECONDS``. Then the request must be refused.
        """
        if not self._on_request:
            return True
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                while self.leading and self._due_in() <= 0:
                    self._ask()
                    self._renewed.clear()
                    await self._renewed.wait()
        except TimeoutError:
            return False
        self._asked.set()
        return True

    def _ask(self) -> None:
        """Let the keeper renew at once. No other process has read the Lease since ``_asked`` was cleared, so
        no candidate has begun to wait: count as if the last renewal had begun one period ago."""
        if not self._asked.is_set():
            self._began = self._clock.monotonic() - self.timings.renew_period
            self._asked.set()

    def _due_in(self) -> float:
        """Seconds until the last renewal is a period old."""
        return self._began + self.timings.renew_period - self._clock.monotonic()

    async def run(
        self, lead: Callable[[], Awaitable[None]], *, stands_by: Callable[[], None] = lambda: None
    ) -> None:
        """Wait for the Lease, renew it while ``lead`` runs, and release it when ``lead`` has ended.

        ``stands_by`` is called when another process holds the Lease. ``run`` may be called again afterwards.

        Raises:
            LostLease: our term ended; ``lead`` was cancelled and has ended.
        """
        try:
            await self._until_ours(stands_by)
            self.leading = True
            self._say("became leader")
            try:
                await self._keep_while(lead)
            finally:
                self._say("stopped leading")
        finally:
            if self._claiming:
                await self._release()

    async def _until_ours(self, stands_by: Callable[[], None]) -> None:
        logged = ""
        while not await self._try():
            if self.holder not in ("", self.identity, logged):
                logged = self.holder
                log.info("another holds the lease; standing by", lease=str(self.key), holder=logged)
                stands_by()
            await self._clock.sleep(self._pause())

    async def _keep_while(self, lead: Callable[[], Awaitable[None]]) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                keeper = tasks.create_task(self._keep(), name="lease-keeper")
                await lead()
                keeper.cancel()
        except BaseExceptionGroup as errors:
            raise self._why_ended(errors) from None
        finally:
            self.leading = False
            self._renewed.set()

    def _why_ended(self, errors: BaseExceptionGroup) -> BaseException:
        """Of several errors the lost Lease, after which the process may stand for it again. The others came
        from work that was cancelled for it, and are logged."""
        lost, others = errors.split(LostLease)
        if others is not None and lost is not None:
            log.error("work failed while it was cancelled", lease=str(self.key), exc_info=single(others))
        ended: BaseException = single(errors) if lost is None else lost
        while lost is not None and isinstance(ended, BaseExceptionGroup):  # of two lost Leases one suffices
            ended = ended.exceptions[0]
        return ended

    async def _keep(self) -> None:
        """Renew until cancelled; raise once a renewal is overdue or another process holds the Lease."""
        while True:
            await self._until_due()
            remaining = self._began + self.timings.renew_deadline - self._clock.monotonic()
            if remaining <= 0:
                raise self._overdue("this process stood still")
            try:
                async with asyncio.timeout(remaining):
                    while not await self._try():
                        await self._clock.sleep(self._shortly())
            except TimeoutError:
                raise self._overdue(self._trouble or "the server did not answer") from None

    async def _until_due(self) -> None:
        if self._on_request:
            await self._asked.wait()
        await self._clock.sleep(max(0.0, self._due_in()))

    def _overdue(self, why: str) -> LostLease:
        seconds = self.timings.renew_deadline
        return LostLease(f"lease {self.key} could not be renewed for {seconds:g} s: {why}")

    async def _try(self) -> bool:
        """One attempt to take or renew the Lease: is it ours now?

        Raises:
            LostLease: we led, and the Lease has another holder.
        """
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                ours = await self._attempt()
        except LostLease:
            raise
        except Conflict as error:
            log.debug("lease changed meanwhile", lease=str(self.key))
            self._trouble = f"each renewal met a conflict ({error}); has another process the same identity?"
        except TimeoutError:
            self._troubled(f"no answer within {REQUEST_SECONDS:g} s")
        except ApiError as error:
            self._troubled(str(error), kind=type(error).__name__)
        except (KubewrightError, OSError) as error:
            self._troubled(str(error) or type(error).__name__)
        except Exception as error:
            log.exception("unexpected error in an election", lease=str(self.key))
            self._trouble = f"{type(error).__name__}, see the log"
        else:
            if self._logged:
                log.info("the lease can be reached again", lease=str(self.key))
            self._trouble = self._logged = ""
            return ours
        return False

    def _troubled(self, why: str, *, kind: str = "away") -> None:
        """Note why the Lease cannot be read or written, and log it when the ``kind`` of trouble is new.

        A server that is away is one kind: connection refused, no answer, or a request not sent at all.
        """
        self._trouble = why
        if kind != self._logged:
            self._logged = kind
            log.warning("the lease cannot be reached", lease=str(self.key), why=why)

    async def _attempt(self) -> bool:
        seen = self._seen
        if seen is None or not (self.leading and self._known):
            seen = await self._look()
            if self.leading and seen.lease is not None and seen.holder != self.identity:
                raise LostLease(f"lease {self.key} is held by {seen.holder or 'no process'}")
        if self._clock.monotonic() < seen.free_at:
            return False
        began, self._claiming = self._clock.monotonic(), True
        await self._write(seen.lease, self._claimed(seen.lease))
        self._began = began
        self._asked.clear()
        self._renewed.set()
        return True

    async def _look(self) -> Seen:
        try:
            lease: Lease | None = await self._client.get(LEASE, self.key)
        except NotFound:
            lease = None
        now = self._clock.monotonic()
        before = self._seen
        self._seen = (
            before.then(lease, now, self.identity) if before else Seen.first(lease, now, self.identity)
        )
        return self._seen

    async def _write(self, old: Lease | None, spec: LeaseSpec) -> None:
        """Create or replace the Lease. Until the answer is here, we do not know what it holds."""
        self._known = False
        if old is None:
            lease = Lease(metadata=ObjectMeta(name=self.key.name, namespace=self.key.namespace), spec=spec)
            written = await self._client.create(LEASE, lease, namespace=self.key.namespace)
        else:
            written = await self._client.replace(LEASE, self.key, structs.replace(old, spec=spec))
        self._seen = Seen.first(written, self._clock.monotonic(), self.identity)
        self._known = not self._shared  # the others write it, too

    def _claimed(self, old: Lease | None) -> LeaseSpec:
        return claimed(old, self.identity, self.timings.lease_duration, self._clock.now())

    async def _release(self) -> None:
        """Release the Lease, so that a candidate takes it at its next attempt, before it would expire.

        Best effort: it does expire. Where the answer to our last request was lost, we read it first.
        """
        self._claiming = False
        if self._shared:
            return
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                seen = self._seen if self._known and self._seen else await self._look()
                if seen.lease is not None and seen.holder == self.identity:
                    await self._write(seen.lease, released(seen.lease, self._clock.now()))
                    log.info("released the lease", lease=str(self.key))
        except (KubewrightError, OSError, TimeoutError) as error:
            log.info("lease not released", lease=str(self.key), error=str(error) or type(error).__name__)

    def _say(self, what: str) -> None:
        log.info(what, lease=str(self.key), identity=self.identity)
        if self._recorder is not None:
            lease = Lease(metadata=ObjectMeta(name=self.key.name, namespace=self.key.namespace))
            self._recorder.event(LEASE.to_plain(lease), "LeaderElection", f"{self.identity} {what}")

    def _pause(self) -> float:
        """Seconds until a candidate's next attempt: the period, or less when the Lease is free sooner."""
        period = self.timings.retry_period * (1 + 0.2 * self._clock.random.random())
        if self._seen is None or self._seen.guard == 0:
            return period
        return min(period, max(self._seen.free_at - self._clock.monotonic(), self._shortly()))

    def _shortly(self) -> float:
        return self.timings.retry_period / 5 * (0.5 + self._clock.random.random())


def identity(host: str, clock: Clock) -> str:
    """An identity that no other process has, nor this one after a restart: ``host_uid``."""
    return f"{host}_{new_uid(clock)}"


class Candidate(Protocol):
    """Stands for a Lease, or for several that it needs; see ``Elector``, whose members these are."""

    @property
    def key(self) -> Key: ...
    @property
    def holder(self) -> str: ...
    @property
    def leading(self) -> bool: ...
    @property
    def entitled(self) -> bool: ...
    async def run(
        self, lead: Callable[[], Awaitable[None]], *, stands_by: Callable[[], None] = ...
    ) -> None: ...


class AllOf:
    """A candidate for several Leases, one after the other: it leads while it holds them all.

    It holds the first while it waits for the next. ``key`` and ``holder`` are of the Lease that it waits for;
    while it holds them all, of the last, which is the one that it has in common with other shards.
    """

    def __init__(self, electors: Sequence[Elector]) -> None:
        self._electors = electors

    @property
    def key(self) -> Key:
        """See the class."""
        return self._awaited.key

    @property
    def holder(self) -> str:
        """See the class."""
        return self._awaited.holder

    @property
    def leading(self) -> bool:
        """Whether it holds them all."""
        return all(each.leading for each in self._electors)

    @property
    def entitled(self) -> bool:
        """Whether no other process can have taken one of them yet."""
        return all(each.entitled for each in self._electors)

    async def run(
        self, lead: Callable[[], Awaitable[None]], *, stands_by: Callable[[], None] = lambda: None
    ) -> None:
        """As ``Elector.run``; when one Lease is lost, those before it are released."""
        for each in reversed(self._electors):
            lead = partial(each.run, lead, stands_by=stands_by)
        await lead()

    @property
    def _awaited(self) -> Elector:
        return next((each for each in self._electors if not each.leading), self._electors[-1])
