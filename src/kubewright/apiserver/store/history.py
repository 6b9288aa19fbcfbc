"""Records, the changes that the server remembers, and the watchers that read them.

Theory.      An object is stored as the bytes that go over the wire. A record has beside them only what
             lists and watches filter by, so that they do not decode objects.
             Every change holds the state before it, so an older version is the current state with
             the newer changes undone. So page two of a list is consistent with page one minutes later,
             without a copy.
             A watcher knows up to which version it has read, and reads on in the history when its stream
             asks. So there is one bound for what all watchers have not read yet, that of the history; a
             watcher that falls out of it is closed, as at kube-apiserver: the client resumes at its last
             version, and lists again if that is too old. A change costs nothing for watchers that are
             busy: only those that wait are woken.
             To wake many takes long, and writes have to wait meanwhile. So they are woken in rounds, and
             after each comes a rest of six times its length: watchers take a seventh of the time at most,
             and those that are woken later find more changes at once.
Invariants.  Records and changes are immutable and share their bytes: a history of ten thousand
             changes has each state in memory once. They are not tracked by the garbage collector.
             The history is bounded in number and in bytes, over all collections together. The collection with
             the most changes loses its oldest first: frequent writes of one kind (Leases, Events) do
             not expire the watches of another. To tell watchers never waits and never fails; each gets every
             change once, in order.
"""

import asyncio
import contextvars
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import orjson

from kubewright.base.limits import HISTORY_BYTES, WATCH_HISTORY

NO_LABELS: Mapping[str, str] = {}


class Record(msgspec.Struct, frozen=True, gc=False):
    """One object as of one version.

    ``resource`` is its collection, e.g. ``machines.machine.sapcloud.io``; all versions of a kind
    share it. ``key`` is ``namespace/name``, or ``name`` for cluster-scoped kinds.
    """

    resource: str
    key: str
    version: int
    uid: str
    labels: Mapping[str, str]
    deleting: bool
    data: bytes


class Change(msgspec.Struct, frozen=True, gc=False):
    """One committed write. ``old`` is None for a creation; ``gone`` says that ``new`` is the last
    state of a deleted object, which carries the version of its deletion."""

    new: Record
    old: Record | None = None
    gone: bool = False

    @property
    def version(self) -> int:
        return self.new.version


def record_of(
    resource: str, key: str, version: int, data: bytes, obj: Mapping[str, Any] | None = None
) -> Record:
    """A record from its bytes; ``obj`` is what they decode to, when the caller has it already."""
    metadata = (orjson.loads(data) if obj is None else obj)["metadata"]
    labels = metadata.get("labels") or NO_LABELS
    return Record(
        resource, key, version, metadata.get("uid", ""), labels, "deletionTimestamp" in metadata, data
    )


class Compacted(Exception):
    """The history no longer reaches back to the version asked for."""


class _Changes:
    """The newest changes of one collection, oldest first, found by their versions."""

    def __init__(self) -> None:
        self._changes: list[Any] = []
        self._first = 0
        self.bytes = 0
        self.forgotten = self.latest = 0
        """The version of the newest change that is forgotten, and of the newest of all."""

    def __len__(self) -> int:
        return len(self._changes) - self._first

    def append(self, change: Change) -> None:
        self._changes.append(change)
        self.bytes += len(change.new.data)
        self.latest = change.version

    def forget(self) -> Change:
        """Forget the oldest."""
        oldest: Change = self._changes[self._first]
        self._changes[self._first] = None
        self._first += 1
        if self._first > 1_000 and self._first * 2 > len(self._changes):
            del self._changes[: self._first]
            self._first = 0
        self.bytes -= len(oldest.new.data)
        self.forgotten = oldest.version
        return oldest

    def after(self, version: int, most: int | None) -> list[Change]:
        first = bisect_right(self._changes, version, lo=self._first, key=lambda change: change.version)
        return self._changes[first : None if most is None else first + most]


class History:
    """``start`` is the version at which the history begins."""

    def __init__(self, start: int, *, most: int = WATCH_HISTORY, most_bytes: int = HISTORY_BYTES) -> None:
        self._start = start
        self._most, self._most_bytes = most, most_bytes
        self._kept: dict[str, _Changes] = {}
        self._count = self._bytes = 0

    def append(self, change: Change) -> None:
        kept = self._kept.get(change.new.resource)
        if kept is None:
            kept = self._kept[change.new.resource] = _Changes()
        size = len(change.new.data)
        kept.append(change)
        self._count += 1
        self._bytes += size
        while self._count > self._most:
            self._forget(max(self._kept.values(), key=len))
        while self._bytes > self._most_bytes and self._count > 1:
            self._forget(max(self._kept.values(), key=lambda each: each.bytes))

    def oldest(self, resource: str) -> int:
        """The oldest version from which changes of this collection are complete."""
        kept = self._kept.get(resource)
        return self._start if kept is None else max(self._start, kept.forgotten)

    def latest(self, resource: str) -> int:
        """The version of the last change of a collection since the start; 0: there was none."""
        kept = self._kept.get(resource)
        return 0 if kept is None else kept.latest

    def since(self, resource: str, version: int, most: int | None = None) -> list[Change]:
        """The changes of a collection after ``version``, in order; at most the first ``most`` of them.

        Raises:
            Compacted: some of them are forgotten.
        """
        if version < self.oldest(resource):
            raise Compacted
        kept = self._kept.get(resource)
        return [] if kept is None else kept.after(version, most)

    def before(self, resource: str, version: int) -> Mapping[str, Record | None]:
        """The state as of ``version`` of every key that has changed since; None for a key that did not
        exist. All other keys are as in the current state.

        Raises:
            Compacted: the history does not reach back that far.
        """
        return {change.new.key: change.old for change in reversed(self.since(resource, version))}

    def _forget(self, kept: _Changes) -> None:
        self._count -= 1
        self._bytes -= len(kept.forget().new.data)


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
