"""Watchers of changes: each has its own backlog, and a bound on it.

Theory.      A change is added to each watcher's backlog, as a reference; it is encoded only when the
             stream takes it. A watcher whose backlog is full is closed, as at kube-apiserver: the client
             resumes at its last version and loses nothing.
Invariants.  Offering never waits and never fails. ``take`` hands out every change once, in order.
"""

import asyncio
from collections.abc import Iterable, Sequence

from kubewright.apiserver.store.records import Change
from kubewright.base.limits import WATCH_BACKLOG


class Watcher:
    """The changes of one collection under one key prefix (a namespace, one object, or all)."""

    def __init__(self, resource: str, prefix: str) -> None:
        self.resource = resource
        self.closed = False
        self._prefix = prefix
        self._backlog: list[Change] = []
        self._wake: asyncio.Future[None] | None = None

    def offer(self, change: Change) -> None:
        if self.closed or not change.new.key.startswith(self._prefix):
            return
        self._backlog.append(change)
        if len(self._backlog) > WATCH_BACKLOG:
            self.close()
        self._wake_up()

    def extend(self, changes: Iterable[Change]) -> None:
        """Add the changes since the version at which the watch begins."""
        self._backlog.extend(c for c in changes if c.new.key.startswith(self._prefix))

    async def ready(self) -> None:
        """Return when there is a change to take, or the watcher is closed."""
        if self._backlog or self.closed:
            return
        self._wake = asyncio.get_running_loop().create_future()
        try:
            await self._wake
        finally:
            self._wake = None

    def take(self) -> Sequence[Change]:
        taken, self._backlog = self._backlog, []
        return taken

    def close(self) -> None:
        """No more changes; what is in the backlog can still be taken, unless it overflowed."""
        if len(self._backlog) > WATCH_BACKLOG:
            self._backlog = []
        self.closed = True
        self._wake_up()

    def _wake_up(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


class Watchers:
    """All watchers, by collection."""

    def __init__(self) -> None:
        self._by_resource: dict[str, list[Watcher]] = {}

    def add(self, watcher: Watcher) -> None:
        self._by_resource.setdefault(watcher.resource, []).append(watcher)

    def remove(self, watcher: Watcher) -> None:
        watcher.close()
        watching = self._by_resource.get(watcher.resource, [])
        if watcher in watching:
            watching.remove(watcher)

    def tell(self, change: Change) -> None:
        for watcher in self._by_resource.get(change.new.resource, ()):
            watcher.offer(change)

    def close(self, resource: str | None = None) -> None:
        """End the watchers of one collection (its kind is gone), or all of them."""
        for name, watching in self._by_resource.items():
            if resource in (None, name):
                for watcher in watching:
                    watcher.close()
