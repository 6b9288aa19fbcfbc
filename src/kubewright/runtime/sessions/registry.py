"""The sessions with all wanted workload clusters: each connected, probed while it lasts, and connected again.

Theory.      A context says which clusters there are, and by which credentials they are reached (``want``,
             ``drop``), as often as it likes: the same credentials again change nothing, others make a new
             session in the place of the old one. Where credentials come from, and how they become a client,
             is not known here: ``reach`` is passed in, and with it whether that client may write
             (``kube.transport``). A task per cluster (``Connection``) repeats: wait for a slot, ask for
             ``/version``, list into caches, announce the session, probe. When enough probes in a row were not
             answered, or the credentials are no longer accepted (401), the session ends and the task begins
             again, after a pause that doubles. What only other credentials can mend (``OnChange``) is not
             tried again. To connect costs a TLS handshake and full lists, so a start with a thousand clusters
             would stop the program for seconds if all came at once: ``limits.CONNECTS`` connect at one time
             (``Slots``). But an attempt that hangs costs nearly nothing, and hundreds of clusters may hang.
             So an attempt holds its slot for ``patience`` seconds at most, and goes on without it; and
             clusters that failed wait behind those that did not.
Invariants.  ``run`` owns every task; when it ends, no session, task or connection is left. A cluster has one
             session at most: the old one is announced as lost before the new one as gained. A session is
             announced with synced caches, and its end before anything of it is closed. Every request has a
             deadline, so have the first lists, and so has closing. Caches have the kinds that were asked for
             by ``cache``, and nothing else. A session that lasted less than ``steady`` counts as another
             failure, so a cluster that drops each session soon is asked as rarely as one that does not
             answer. Where ``n`` others came before it, a cluster that has not failed waits for ``patience * n
             / size`` seconds at most, and for none that failed. A slot is given back once, whatever ends its
             attempt; what is cancelled while it waits never has one. Intervals and thresholds are those of
             Cluster API's cluster cache.
Called by    the context that knows the clusters, which feeds it; ``lending`` and ``Controller.watches_in``.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar

import structlog

from kubewright.api.kinds import Kind
from kubewright.base.clock import Clock
from kubewright.base.errors import After, KubewrightError, OnChange, single
from kubewright.base.limits import CONNECTS
from kubewright.kube.client import Client
from kubewright.kube.errors import TimedOut, TransportError, failure
from kubewright.kube.informer import Informers
from kubewright.runtime.queue import Curve
from kubewright.runtime.sessions.session import Health, Listener, Listeners, NotConnected, Session
from kubewright.wire.errors import ApiError, Unauthorized
from kubewright.wire.gvk import Key

C = TypeVar("C")


Indexes = Mapping[str, Callable[[Any], Iterable[str]]]
"""By name, the values of an object in an index."""

log = structlog.get_logger("kubewright.sessions")


class Slots:
    """``size`` slots, each held for ``patience`` seconds at most."""

    def __init__(self, size: int, patience: float) -> None:
        self._free = size
        self._patience = patience
        self._numbers = itertools.count()
        self._waiting: list[tuple[bool, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def hold(self, *, failed: bool) -> AsyncIterator[None]:
        """Wait for a slot; ``failed``: this cluster's last attempt failed. The block may outlast the slot."""
        await self._take(failed)
        slot = ExitStack()  # closed by the timer or at the end, and the second time nothing is left to call
        slot.callback(self._give_back)
        end = asyncio.get_running_loop().call_later(self._patience, slot.close)
        try:
            yield
        finally:
            end.cancel()
            slot.close()

    async def _take(self, failed: bool) -> None:
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (failed, next(self._numbers), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the slot came at the same moment
                self._give_back()
            raise

    def _give_back(self) -> None:
        """Hand the slot to the next who waits; a future that is done was cancelled while it waited."""
        while self._waiting:
            *_, turn = heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


@dataclass(frozen=True, slots=True)
class Settings:
    """How connections behave; times in seconds.

    ``probe_period``   from one probe of a connected cluster to the next, give or take a tenth
    ``probe_seconds``  how long a probe waits for its answer
    ``missed``         probes in a row without an answer that end a session
    ``fill_seconds``   how long the first lists may take
    ``slot_seconds``   how long an attempt to connect may keep others waiting
    ``close_seconds``  how long closing a client may take
    ``pause``          between attempts to connect
    ``steady``         a session that lasted so long makes earlier failures forgotten
    """

    probe_period: float = 10.0
    probe_seconds: float = 5.0
    missed: int = 5
    fill_seconds: float = 120.0
    slot_seconds: float = 2.0
    close_seconds: float = 5.0
    pause: Curve = field(default_factory=lambda: Curve(base=1.0, cap=30.0))
    steady: float = 60.0


class Connection:
    """The connection to one cluster with one set of credentials.

    ``reach`` makes a client for it; ``slots`` bounds how many clusters begin to connect at one time.
    """

    def __init__(
        self,
        cluster: Key,
        reach: Callable[[], Client],
        clock: Clock,
        *,
        kinds: Mapping[Kind[Any], Indexes],
        listener: Listener,
        slots: Slots,
        settings: Settings,
    ) -> None:
        self._cluster = cluster
        self._reach = reach
        self._clock = clock
        self._kinds = kinds
        self._listener = listener
        self._slots = slots
        self._settings = settings
        self._session: Session | None = None
        self._gained_at = self._lasted = 0.0
        self._logged = ""
        self.health = Health(connected=False, answers=False, since=clock.monotonic())

    def session(self) -> Session:
        """The session.

        Raises:
            NotConnected: there is none now.
        """
        if self._session is None:
            why = self.health.error or "the first attempt is under way"
            raise NotConnected(f"cluster {self._cluster} is not connected: {why}")
        return self._session

    async def run(self) -> None:
        """Stay connected until cancelled, or until nothing but other credentials can help."""
        failures = 0
        while True:
            self._lasted = 0.0
            error = await self._attempt(failed=failures > 0)
            failures = 1 if self._lasted >= self._settings.steady else failures + 1
            self._note_trouble(error)
            self._say(error)
            if isinstance(error.retry, OnChange):
                return
            pause = self._settings.pause.delay(failures, self._clock.random.random())
            await self._clock.sleep(
                max(pause, error.retry.seconds if isinstance(error.retry, After) else 0.0)
            )

    async def _attempt(self, *, failed: bool) -> KubewrightError:
        """One session, from the attempt to connect to its end. Returns the error that ended it."""
        try:
            await self._hold_session(failed=failed)
        except (Exception, asyncio.CancelledError) as raised:  # one broken cluster never stops the program
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise asyncio.CancelledError from None  # a TaskGroup that ends with an error swallows it
            error = single(raised)
            if isinstance(error, KubewrightError):
                return error
            log.error("a defect in a session", cluster=str(self._cluster), exc_info=error)
            return KubewrightError(f"a defect of ours, see the log: {str(error) or type(error).__name__}")
        return KubewrightError("the session ended without a reason")

    async def _hold_session(self, *, failed: bool) -> None:
        """Connect, list into caches, announce the session, and probe until that fails."""
        async with AsyncExitStack() as opened, asyncio.TaskGroup() as tasks:
            async with self._slots.hold(failed=failed):
                client = self._reach()
                opened.push_async_callback(self._close, client)
                await self._probe(client)
                caches = Informers(client)
                for kind, indexes in self._kinds.items():
                    informer = caches.get(kind)
                    for name, of in indexes.items():
                        informer.index(name, of)
                tasks.create_task(caches.run(), name=f"caches of {self._cluster}")
                await caches.wait_synced(self._settings.fill_seconds)
            self._gain(Session(client, caches, self._cluster))
            because = "its kubeconfig changed, its Cluster is gone, its caches failed, or this process stops"
            try:
                await self._probe_until_lost(client)
            except (ApiError, TransportError) as error:
                because = str(error)
                raise
            finally:
                self._lose(because)

    async def _probe_until_lost(self, client: Client) -> None:
        """Probe; never return.

        Raises:
            ApiError, TransportError: the session is to end, for this reason.
        """
        clock, settings, missed = self._clock, self._settings, 0
        while True:
            await clock.sleep(settings.probe_period * clock.random.uniform(0.9, 1.1))
            try:
                await self._probe(client)
                missed = 0
            except (ApiError, TransportError) as error:
                missed += 1
                self._note_trouble(error)
                if missed >= settings.missed or isinstance(error, Unauthorized):
                    raise

    async def _probe(self, client: Client) -> None:
        """Ask for ``/version``. A refusal is an answer; an error of the server (5xx) and a 401 are none."""
        seconds, began = self._settings.probe_seconds, self._clock.monotonic()
        try:
            async with asyncio.timeout(seconds):  # whatever a transport makes of its ``timeout``
                response = await client.transport.request(client.request("GET", "/version"), timeout=seconds)
        except TimeoutError:
            raise TimedOut(f"no answer within {seconds:g} s") from None
        if response.status >= 500 or response.status == Unauthorized.code:
            raise failure(response)
        client.measure_skew(response, began)
        now, health = self._clock.monotonic(), self.health
        since = health.since if health.answers else now
        error = "" if health.connected else health.error
        self.health = Health(health.connected, answers=True, since=since, heard=now, error=error)

    def _note_trouble(self, error: KubewrightError) -> None:
        health = self.health
        since = self._clock.monotonic() if health.answers else health.since
        self.health = replace(health, answers=False, since=since, error=str(error) or type(error).__name__)

    def _gain(self, session: Session) -> None:
        self._session, self._gained_at, self._logged = session, self._clock.monotonic(), ""
        self.health = replace(self.health, connected=True, error="")
        log.info("connected", cluster=str(self._cluster))
        self._listener.gained(session)

    def _lose(self, because: str) -> None:
        session, self._session = self.session(), None
        self._lasted = self._clock.monotonic() - self._gained_at
        self.health = replace(self.health, connected=False)
        self._listener.lost(session, because)

    def _say(self, error: KubewrightError) -> None:
        """Log each kind of error once, until the cluster is connected again."""
        kind = type(error).__name__
        if kind != self._logged:
            self._logged = kind
            log.warning("not connected", cluster=str(self._cluster), error=str(error))

    async def _close(self, client: Client) -> None:
        try:
            async with asyncio.timeout(self._settings.close_seconds):
                await client.close()
        except Exception:
            log.exception("a client could not be closed", cluster=str(self._cluster))


@dataclass(slots=True)
class _Wanted(Generic[C]):
    """The credentials of a cluster, the connection that uses them, and the task that keeps it."""

    credentials: C
    connection: Connection
    task: asyncio.Task[None] | None = None


class Sessions(Generic[C]):
    """All sessions of one context. ``reach`` makes a client from credentials.

    ``reach`` contacts nothing, and may raise ``InvalidInput``: then only other credentials can help.
    """

    def __init__(
        self, clock: Clock, reach: Callable[[Key, C], Client], *, settings: Settings | None = None
    ) -> None:
        self._clock = clock
        self._reach = reach
        self._settings = settings or Settings()
        self._slots = Slots(CONNECTS, self._settings.slot_seconds)
        self._kinds: dict[Kind[Any], dict[str, Any]] = {}
        self._wanted: dict[Key, _Wanted[C]] = {}
        self._listeners = Listeners()
        self._group: asyncio.TaskGroup | None = None

    def cache(self, kind: Kind[Any], indexes: Indexes | None = None) -> None:
        """Keep a cache of ``kind``, with these indexes too, in every session that begins from now on."""
        self._kinds.setdefault(kind, {}).update(indexes or {})

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tell ``listener`` of the sessions that there are, and from now on of each that begins or ends.

        Returns a function that removes it.
        """
        remove = self._listeners.add(listener)
        for wanted in self._wanted.values():
            if wanted.connection.health.connected:
                listener.gained(wanted.connection.session())
        return remove

    def want(self, cluster: Key, credentials: C) -> None:
        """Be connected to ``cluster`` by ``credentials``. Returns at once."""
        known = self._wanted.get(cluster)
        if known is not None:
            if known.credentials == credentials:
                return
            self.drop(cluster)
        connection = Connection(
            cluster,
            lambda: self._reach(cluster, credentials),
            self._clock,
            kinds=self._kinds,
            listener=Listener(self._listeners.gained, self._listeners.lost),
            slots=self._slots,
            settings=self._settings,
        )
        self._wanted[cluster] = wanted = _Wanted(credentials, connection)
        self._start(cluster, wanted)

    def drop(self, cluster: Key) -> None:
        """Be connected to ``cluster`` no longer. Lookups fail at once; its session closes later."""
        wanted = self._wanted.pop(cluster, None)
        if wanted is not None and wanted.task is not None:
            wanted.task.cancel()

    def get(self, cluster: Key) -> Session:
        """As ``Lookup.get``."""
        if (wanted := self._wanted.get(cluster)) is None:
            raise NotConnected(f"cluster {cluster} is not connected: its credentials are not known")
        return wanted.connection.session()

    def health(self, cluster: Key) -> Health | None:
        """The health of the connection with a cluster; None: it is not wanted."""
        wanted = self._wanted.get(cluster)
        return None if wanted is None else wanted.connection.health

    async def run(self) -> None:
        """Connect, and stay connected, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for cluster, wanted in self._wanted.items():
                    self._start(cluster, wanted)
                await asyncio.Event().wait()
            finally:
                self._group = None

    def _start(self, cluster: Key, wanted: _Wanted[C]) -> None:
        if self._group is not None:
            wanted.task = self._group.create_task(wanted.connection.run(), name=f"session {cluster}")
