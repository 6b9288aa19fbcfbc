"""Watchers: each a place in the history of a collection.

Theory.      A watcher knows up to which version it has read, and reads on in the history when its stream
             asks. So there is one bound for what all watchers have not read yet, that of the history; a
             watcher that falls out of it is closed, as at kube-apiserver: the client resumes at its last
             version, and lists again if that is too old. A change costs nothing for watchers that are
             busy: only those that wait are woken.
             To wake many takes long, and writes have to wait meanwhile. So they are woken in rounds, and
             after each comes a rest of six times its length: watchers take a seventh of the time at most,
             and those that are woken later find more changes at once.
Invariants.  To tell never waits and never fails. ``take`` hands out every change once, in order.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Sequence

from kubewright.apiserver.store.history import Change, Compacted, History

TAKEN, TAKEN_BYTES = 500, 1024 * 1024
"""Changes that a watcher takes at one time: what a client that does not read holds beside the history."""

ROUND = 4
"""Watchers that are woken at one time."""

REST = 6.0
"""Length of the rest after a round, in rounds."""

LONGEST_REST = 0.02
"""Seconds between two rounds, whatever else the process did during the first."""


class Watcher:
    """The changes of one collection under one key prefix (a namespace, one object, or all) after ``at``."""

    def __init__(
        self, history: History, resource: str, prefix: str, at: int, waiting: "dict[Watcher, None]"
    ) -> None:
        self.resource = resource
        self.closed = False
        self._history, self._prefix, self._at = history, prefix, at
        self._until: int | None = None
        self._waiting = waiting
        self._wake: asyncio.Future[None] | None = None

    async def ready(self) -> None:
        """Return when there may be a change to take, or the watcher is closed."""
        if self.closed or self._behind():
            return
        self._wake = asyncio.get_running_loop().create_future()
        self._waiting[self] = None
        try:
            await self._wake
        finally:
            self._wake = None
            self._waiting.pop(self, None)

    @property
    def ended(self) -> bool:
        """Whether it is closed, and all changes from before were taken."""
        return self.closed and not self._behind()

    def take(self) -> Sequence[Change]:
        """The next changes, a bounded number; none: there are no more now, or ``ready`` returns at once."""
        try:
            found = self._history.since(self.resource, self._at, TAKEN) if self._behind() else ()
        except Compacted:
            self.close()
            self._until = self._at
            return []
        taken, size = [], 0
        for change in found:
            if size >= TAKEN_BYTES or (self._until is not None and change.version > self._until):
                break
            self._at = change.version
            if change.new.key.startswith(self._prefix):
                taken.append(change)
                size += len(change.new.data)
        return taken

    def close(self) -> None:
        """No more changes; those that were before can still be taken."""
        if not self.closed:
            self.closed, self._until = True, self._history.latest(self.resource)
        self.awake()

    def concerns(self, change: Change) -> bool:
        """Whether a watcher that waits is to read this change; it counts as read if not."""
        if change.new.key.startswith(self._prefix):
            return True
        self._at = change.version
        return False

    def awake(self) -> None:
        self._waiting.pop(self, None)
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _behind(self) -> bool:
        latest = self._history.latest(self.resource)
        return self._at < (latest if self._until is None else min(latest, self._until))


class Watchers:
    """All watchers of a history, by collection."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._all: dict[str, dict[Watcher, None]] = {}
        self._waiting: dict[str, dict[Watcher, None]] = {}
        self._rounds = Rounds()

    def begin(self, resource: str, prefix: str, at: int) -> Watcher:
        waiting = self._waiting.setdefault(resource, {})
        watcher = Watcher(self._history, resource, prefix, at, waiting)
        self._all.setdefault(resource, {})[watcher] = None
        return watcher

    def remove(self, watcher: Watcher) -> None:
        watcher.close()
        self._all.get(watcher.resource, {}).pop(watcher, None)

    def tell(self, change: Change) -> None:
        """Wake those that wait for such a change, which is in the history already."""
        if waiting := self._waiting.get(change.new.resource):
            for watcher in [each for each in waiting if each.concerns(change)]:
                del waiting[watcher]
                self._rounds.add(watcher)

    def close(self, resource: str | None = None) -> None:
        """End the watchers of one collection (its kind is gone), or all of them."""
        for name, watching in self._all.items():
            if resource in (None, name):
                for watcher in watching:
                    watcher.close()


class Rounds:
    """Wakes watchers: at once where few are to be woken, otherwise ``ROUND`` by ``ROUND``.

    Rounds go on in the context of the store, not in that of the request whose write begins one: what becomes
    of that request concerns no watcher.
    """

    def __init__(self) -> None:
        self._context = contextvars.copy_context()
        self._queue: deque[Watcher] = deque()
        self._began: float | None = None
        self._left = 0

    def add(self, watcher: Watcher) -> None:
        if self._began is None:
            self._begin()
        if self._left and not self._queue:
            self._left -= 1
            watcher.awake()
        else:
            self._queue.append(watcher)

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        self._began, self._left = loop.time(), ROUND
        # The tasks that are woken now have their turn in between.
        loop.call_soon(loop.call_soon, self._done, context=self._context)

    def _done(self) -> None:
        """The watchers of this round have had their turn."""
        assert self._began is not None
        loop = asyncio.get_running_loop()
        if self._left:
            self._began = None
            return
        rest = min(LONGEST_REST, REST * (loop.time() - self._began))
        loop.call_later(rest, self._next, context=self._context)

    def _next(self) -> None:
        self._began = None
        if self._queue:
            self._begin()
        while self._queue and self._left:
            self._left -= 1
            self._queue.popleft().awake()
