"""The sessions with all wanted workload clusters: the lookup for clusters that come and go.

Theory.      A context says which clusters there are, and by which credentials they are reached (``want``,
             ``drop``), as often as it likes: the same credentials again change nothing, others make a new
             session in the place of the old one. Connecting happens in the background, ``limits.CONNECTS``
             clusters at one time. Where credentials come from, and how they become a client, is not known
             here: ``reach`` is passed in, and with it whether that client may write (``kube.transport``).
Invariants.  ``run`` owns every task; when it ends, no session, task or connection is left. A cluster has
             one session at most: the old one is announced as lost before the new one as gained.
             Caches have the kinds that were asked for by ``cache``, and nothing else.
Called by    the context that knows the clusters, which feeds it; ``lending`` and ``Controller.watches_in``.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kubewright.api.kinds import Kind
from kubewright.base.clock import Clock
from kubewright.base.limits import CONNECTS
from kubewright.kube.client import Client
from kubewright.runtime.sessions.connection import Connection, Indexes, Settings
from kubewright.runtime.sessions.listeners import Listener, Listeners
from kubewright.runtime.sessions.session import Health, NotConnected, Session
from kubewright.runtime.sessions.slots import Slots
from kubewright.wire.gvk import Key

C = TypeVar("C")


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
