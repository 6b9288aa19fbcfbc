"""Sessions with workload clusters that outlive a term of leadership, lent to each term that needs them.

Theory.      Controllers under several Leases may need the same workload clusters: those of Cluster API's core
             and of its bootstrap provider do. A process has one connection with each cluster all the same.
             It is made while any term of the process needs it; each term borrows: the client that it gets
             writes only while that term may, and the caches are the shared ones, listed anew where a session
             is older than the term (as ``Informers.borrow``: a new leader must know what others wrote).
Invariants.  A process whose groups all stand by has no session: the sessions of a period end with the last
             term that uses them, and have ended before those of the next period begin. A lookup of a term
             answers synced caches, its listeners included, from the moment ``run`` of that term has begun.
Called by    ``compose``, which makes the ``Lender`` and lends to each term.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from kubewright.api.kinds import Kind
from kubewright.kube.errors import TimedOut
from kubewright.kube.transport import Entitled, FencedTransport
from kubewright.runtime.sessions.registry import Indexes
from kubewright.runtime.sessions.session import Health, Listener, Listeners, NotConnected, Session
from kubewright.wire.gvk import Key

FILL_SECONDS = 120.0
"""How long one wait for the lists of a borrowed session lasts; the next begins at once."""


class Workloads(Protocol):
    """Sessions with clusters that come and go, as controllers use them. ``Sessions`` is one."""

    def get(self, cluster: Key, /) -> Session:
        """As ``Lookup.get``."""

    def health(self, cluster: Key, /) -> Health | None:
        """The health of the connection with a cluster; None: it is not wanted."""

    def cache(self, kind: Kind[Any], indexes: Indexes | None = None) -> None:
        """Keep a cache of ``kind``, with these indexes too, in every session that begins from now on."""

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tell ``listener`` of the sessions that there are and of each that begins or ends, until removed."""

    async def run(self) -> None:
        """Connect, and stay connected, until cancelled."""


@dataclass(slots=True)
class _Period:
    """A time in which terms need sessions: what has them, and how many terms use it."""

    workloads: Workloads
    terms: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Lender:
    """The sessions of a process. ``make`` makes what has them, anew for each period; it contacts nothing.

    ``user_agent`` is that of the clients that are lent.
    """

    def __init__(self, make: Callable[[], Workloads], *, user_agent: str = "kubewright") -> None:
        self._make = make
        self._user_agent = user_agent
        self._period: _Period | None = None
        self._begun = asyncio.Event()

    def lend(self, entitled: Entitled) -> "Borrowed":
        """The sessions for one term, in which this process writes only while ``entitled``."""
        return Borrowed(self, entitled, self._user_agent)

    async def run(self) -> None:
        """Have sessions whenever a term uses them, until cancelled."""
        while True:
            await self._begun.wait()
            self._begun.clear()
            if (period := self._period) is None:
                continue
            async with asyncio.TaskGroup() as group:
                running = group.create_task(period.workloads.run(), name="workload clusters")
                await period.over.wait()
                running.cancel()

    @contextmanager
    def used(self) -> Iterator[Workloads]:
        """The sessions of this period, for as long as one term uses them."""
        if self._period is None:
            self._period = _Period(self._make())
            self._begun.set()
        period = self._period
        period.terms += 1
        try:
            yield period.workloads
        finally:
            period.terms -= 1
            if period.terms == 0:
                self._period = None
                period.over.set()


class Borrowed:
    """The sessions of a ``Lender`` as one term sees them (``Workloads``)."""

    def __init__(self, lender: Lender, entitled: Entitled, user_agent: str) -> None:
        self._lender = lender
        self._entitled = entitled
        self._user_agent = user_agent
        self._kinds: dict[Kind[Any], dict[str, Any]] = {}
        self._listeners = Listeners()
        self._workloads: Workloads | None = None
        self._lent: dict[Key, tuple[Session, Session]] = {}
        """By cluster, the session that was borrowed, and what this term has of it."""
        self._filling: dict[Key, asyncio.Task[None]] = {}

    def get(self, cluster: Key, /) -> Session:
        """As ``Lookup.get``."""
        if self._workloads is None:
            raise NotConnected(f"cluster {cluster} is not connected: this process does not lead now")
        session = self._workloads.get(cluster)
        borrowed, ours = self._lent.get(cluster, (None, None))
        if ours is None or borrowed is not session or cluster in self._filling:
            late = "" if ours is None else _trouble(ours)
            raise NotConnected(
                f"cluster {cluster} is not connected: its caches are listed for a new term{late}"
            )
        return ours

    def health(self, cluster: Key, /) -> Health | None:
        """As ``Workloads.health``."""
        return None if self._workloads is None else self._workloads.health(cluster)

    def cache(self, kind: Kind[Any], indexes: Indexes | None = None) -> None:
        """As ``Workloads.cache``; to be called before ``run``."""
        self._kinds.setdefault(kind, {}).update(indexes or {})

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """As ``Workloads.subscribe``."""
        for cluster, (_, ours) in self._lent.items():
            if cluster not in self._filling:
                listener.gained(ours)
        return self._listeners.add(listener)

    async def run(self) -> None:
        """Use the sessions until cancelled."""
        async with asyncio.TaskGroup() as group:
            with self._lender.used() as workloads:
                self._workloads = workloads
                for kind, indexes in self._kinds.items():
                    workloads.cache(kind, indexes)
                older = True  # while ``subscribe`` tells of the sessions that there are

                def found(session: Session) -> None:
                    self._borrow(session, group, older=older)

                unsubscribe = workloads.subscribe(Listener(found, self._lost))
                older = False
                try:
                    await asyncio.Event().wait()
                finally:
                    unsubscribe()
                    self._give_back()

    def _borrow(self, session: Session, group: asyncio.TaskGroup, *, older: bool) -> None:
        """Have a session of this term's own over a session that has begun, perhaps before the term did."""
        cluster, shared = session.cluster, session.client
        transport = FencedTransport(shared.transport, self._entitled)
        client = shared.over(transport, user_agent=self._user_agent)
        ours = Session(client, session.caches.borrow(client, anew=older), cluster)
        for kind, indexes in self._kinds.items():
            informer = ours.caches.get(kind)
            for name, of in indexes.items():
                informer.index(name, of)
        self._lent[cluster] = session, ours
        if all(each.synced for each in ours.caches.statistics()):
            self._listeners.gained(ours)
        else:
            self._filling[cluster] = group.create_task(self._fill(ours), name=f"caches of {cluster}")

    async def _fill(self, ours: Session) -> None:
        """Announce a session when its caches are synced; if it is lost before, this is cancelled."""
        synced = False
        while not synced:
            with suppress(TimedOut):  # ``get`` says what is late
                await ours.caches.wait_synced(FILL_SECONDS)
                synced = True
        del self._filling[ours.cluster]
        self._listeners.gained(ours)

    def _lost(self, session: Session, because: str) -> None:
        """A session has ended."""
        borrowed, ours = self._lent.get(session.cluster, (None, None))
        if ours is None or borrowed is not session:
            return
        del self._lent[session.cluster]
        if filling := self._filling.pop(session.cluster, None):
            filling.cancel()
        else:
            self._listeners.lost(ours, because)
        ours.caches.give_back()

    def _give_back(self) -> None:
        """The term is over."""
        self._workloads = None
        for task in self._filling.values():
            task.cancel()
        self._filling.clear()
        for _, ours in self._lent.values():
            ours.caches.give_back()
        self._lent.clear()


def _trouble(session: Session) -> str:
    """Why a cache of a session is late, as the end of a sentence; empty while nothing is wrong."""
    late = (each for each in session.caches.statistics() if not each.synced and each.trouble)
    return next((f": {each.resource}: {each.trouble}" for each in late), "")
