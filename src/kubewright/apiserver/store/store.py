"""The store: current objects in memory, writes in batches to the log.

Theory.      A writer reads ``latest`` (which sees what other writers have staged), decides, and
             stages its write in the same turn of the event loop: that is the compare-and-swap.
             The first write of a batch asks the loop for a flush; every write staged until then
             is in the same transaction. Only after the commit does the batch become visible; then the
             watchers get it and its writers are answered.
             Keys are kept in order, and so are those of each value of an index: of what a selector wants by a
             field or a label, a list looks at those that have it, in order, from where its page begins. An
             index of labels is made once lists have looked at as many objects for want of it as it would
             have: so lists of a small namespace, by ever new labels, cost no more than twice what they look
             at. An older version is the present one but for what has changed since, and that is remembered
             for the next page and goes on with each write.
Invariants.  Versions grow by one with each write, over all collections, also across restarts.
             Readers and watchers see committed states only. Watchers of one collection see all
             its changes in the order of versions. When a commit fails nothing of the batch
             becomes visible, its writers are refused, and so is every later write: the
             state of the disk is unknown. Every acknowledged write is on the disk.
             What is kept beside the objects is bounded: ``MOST_INDEXES`` of each collection, of 50 to 170
             bytes an object (they share keys and values with the records), ``MOST_WANTED`` names of indexes
             that are not made, and ``MOST_ASKED`` older versions, none of which outlives its place in the
             history.
Called by    ``registry``. Continues in ``log``, ``history`` and ``watchers``.
"""

import asyncio
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import chain, groupby
from typing import TypeVar

import structlog

from kubewright.apiserver.store.history import (
    Change,
    Compacted,
    History,
    Record,
    record_of,
)
from kubewright.apiserver.store.log import Log, NoLog
from kubewright.apiserver.store.watchers import Watcher, Watchers
from kubewright.base.errors import InvalidInput

log = structlog.get_logger("kubewright.apiserver.store")

_K = TypeVar("_K")
_V = TypeVar("_V")
ValueOf = Callable[[Record], str | None]

_LAST = "\U0010ffff"
"""Greater than every key."""

IDLE_SECONDS = 2.0
"""Time after the last write until the log is checkpointed."""

MOST_INDEXES = 8
"""Indexes of one collection that lists have asked for, and not its kind: those that were asked last."""

FEW = 500
"""Objects that are looked through as fast as an index of them is made."""

MOST_WANTED = 64
"""Labels of one collection without an index for which it is counted what lists have looked at."""

MOST_ASKED = 4
"""Older versions whose differences are kept, for the next page."""


@dataclass(frozen=True, slots=True)
class Having:
    """The objects that have one of ``values``; ``index`` names what ``value_of`` reads, which is always the
    same. ``kept``: the index is made at the first question, and stays; others make room for each other.
    """

    index: str
    values: tuple[str, ...]
    value_of: ValueOf
    kept: bool = False


class Refused(Exception):
    """The store does not take writes (any more); the text says why."""


def _span(keys: Sequence[str], prefix: str, after: str) -> range:
    """Where the keys stand, of those in order, that begin with ``prefix`` and are greater than ``after``."""
    first = bisect_left(keys, max(prefix, after + "\0") if after else prefix)
    return range(first, bisect_left(keys, prefix + _LAST, first) if prefix else len(keys))


def _within(keys: Sequence[str], prefix: str, after: str) -> Iterator[str]:
    return (keys[at] for at in _span(keys, prefix, after))


def _without(keys: list[str], key: str) -> None:
    at = bisect_left(keys, key)
    if at < len(keys) and keys[at] == key:
        del keys[at]


class _Index:
    """The keys of the objects that have a value, in order, by value. A key stands under one value or none.

    A value is read when an object is written, once, and kept beside its key, so that the next write of the
    object finds where the key stood.
    """

    def __init__(self, value_of: ValueOf, records: Iterable[Record] = ()) -> None:
        """``records`` are in the order of their keys."""
        self._value_of = value_of
        self._keys: dict[str, list[str]] = {}
        self._values: dict[str, str] = {}
        for record in records:
            if (value := value_of(record)) is not None:
                self._values[record.key] = value
                self._keys.setdefault(value, []).append(record.key)

    def put(self, record: Record) -> None:
        value = self._value_of(record)
        if self._values.get(record.key) == value:
            return
        self.drop(record.key)
        if value is not None:
            self._values[record.key] = value
            insort(self._keys.setdefault(value, []), record.key)

    def drop(self, key: str) -> None:
        value = self._values.pop(key, None)
        if value is None:
            return
        keys = self._keys[value]
        _without(keys, key)
        if not keys:
            del self._keys[value]

    def count(self, values: Iterable[str], prefix: str) -> int:
        return sum(len(_span(self._keys[value], prefix, "")) for value in values if value in self._keys)

    def scan(self, values: Sequence[str], prefix: str, after: str) -> Iterator[str]:
        """The keys of the objects that have one of these values, in order."""
        each = [_within(self._keys[value], prefix, after) for value in values if value in self._keys]
        return each[0] if len(each) == 1 else merge(*each)


class _Collection:
    """The objects of one resource, by key and in the order of keys."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.keys: list[str] = []
        self.revision = 0
        self._kept: dict[str, _Index] = {}
        self._asked: dict[str, _Index] = {}
        self._wanted: dict[str, int] = {}

    def put(self, record: Record) -> None:
        if record.key not in self.records:
            insort(self.keys, record.key)
        self.records[record.key] = record
        for index in self._indexes():
            index.put(record)

    def drop(self, key: str) -> None:
        if self.records.pop(key, None) is not None:
            _without(self.keys, key)
        for index in self._indexes():
            index.drop(key)

    def _indexes(self) -> Iterator[_Index]:
        return chain(self._kept.values(), self._asked.values())

    def best(self, havings: Sequence[Having], prefix: str) -> tuple[_Index, Having] | None:
        """Of the indexes that there are, the one that leads to the fewest objects; None: there is none."""
        made = [(index, having) for having in havings if (index := self._made(having)) is not None]
        return min(made, key=lambda pair: pair[0].count(pair[1].values, prefix), default=None)

    def want(self, havings: Sequence[Having], prefix: str) -> None:
        """A list is about to look: make the indexes that have become worth it, and note what was used."""
        looked_at = len(_span(self.keys, prefix, ""))
        for having in (having for having in havings if not having.kept):
            if having.index in self._asked:
                self._asked[having.index] = self._asked.pop(having.index)  # the last to make room
            elif looked_at >= FEW:
                self._want(having, looked_at)

    def _want(self, having: Having, looked_at: int) -> None:
        wanted = self._wanted.pop(having.index, 0) + looked_at
        if wanted < len(self.keys):
            _put_last(self._wanted, having.index, wanted, MOST_WANTED)
        else:
            _put_last(self._asked, having.index, self._make(having), MOST_INDEXES)

    def _made(self, having: Having) -> _Index | None:
        """The index, if there is one; one that is kept is made here, once."""
        if not having.kept:
            return self._asked.get(having.index)
        if having.index not in self._kept:
            self._kept[having.index] = self._make(having)
        return self._kept[having.index]

    def _make(self, having: Having) -> _Index:
        return _Index(having.value_of, (self.records[key] for key in self.keys))


def _put_last(kept: dict[_K, _V], key: _K, value: _V, most: int) -> None:
    """Put in a value that is not there; the one that was put in first makes room."""
    kept[key] = value
    if len(kept) > most:
        del kept[next(iter(kept))]


class _Since:
    """What of one collection has changed since an older version. It is kept up with what changes further.

    ``was`` has the state as of that version of each key that has changed; None: there was none.
    """

    def __init__(self, version: int) -> None:
        self.version = self.until = version
        self.was: dict[str, Record | None] = {}
        self._keys: list[str] = []
        self._made: list[str] = []
        self._lost: list[str] = []

    def go_on(self, changes: Iterable[Change], until: int) -> None:
        """Learn the changes after ``self.until``, in order."""
        self.until = until
        for change in changes:
            key = change.new.key
            if key not in self.was:
                self.was[key] = change.old
                insort(self._keys, key)
            if change.old is None or change.gone:  # it has come or gone; all others were there before
                self._count(key, is_there=not change.gone)

    def _count(self, key: str, *, is_there: bool) -> None:
        was_there = self.was[key] is not None
        keys = self._lost if was_there else self._made
        if is_there == was_there:
            _without(keys, key)
        else:
            insort(keys, key)

    def keys(self, prefix: str, after: str) -> Iterator[str]:
        return _within(self._keys, prefix, after)

    def more(self, prefix: str, after: str) -> int:
        """How many more objects there were than there are."""
        return len(_span(self._lost, prefix, after)) - len(_span(self._made, prefix, after))


class Store:
    """See the module. ``log`` decides whether anything outlives the process."""

    def __init__(self, log: Log | None = None) -> None:
        self._log = log or NoLog()
        self._collections: dict[str, _Collection] = {}
        self._staged: dict[tuple[str, str], Record | None] = {}
        self._batch: list[tuple[Change, asyncio.Future[None]]] = []
        self._refusal = ""
        self.broken = asyncio.Event()
        """Set once the disk has failed: from then on every write is refused."""
        self._idle: asyncio.TimerHandle | None = None
        self.version, rows = self._log.load()
        self._reserved = self.version
        self._history = History(self.version)
        self._watchers = Watchers(self._history)
        self._asked: dict[tuple[str, int], _Since] = {}
        for row in rows:
            try:
                self._collection(row[0]).put(record_of(*row))
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise InvalidInput(f"the data file is damaged: {row[0]} {row[1]}: {error}") from None

    # -- reading: committed states only

    def get(self, resource: str, key: str) -> Record | None:
        return self._collection(resource).records.get(key)

    def scan(self, resource: str, prefix: str = "", after: str = "") -> Iterator[Record]:
        """The records whose keys begin with ``prefix`` and are greater than ``after``, in order.

        As of every iterator here, it is to be read before the next write becomes visible.
        """
        collection = self._collection(resource)
        records = collection.records
        return (records[key] for key in _within(collection.keys, prefix, after))

    def scan_at(
        self, version: int, resource: str, prefix: str = "", after: str = "", having: Sequence[Having] = ()
    ) -> Iterator[Record]:
        """The same as of a version; with ``having``, no more than an index of these leads to.

        Among them are all that have one of the values of each; who asks looks at what they have.

        Raises:
            Compacted: the history no longer reaches back to it.
        """
        collection, since = self._collection(resource), self._since(version, resource)
        collection.want(having, prefix)
        best = collection.best(having, prefix)
        if best is None:
            keys = _within(collection.keys, prefix, after)
        else:
            keys = best[0].scan(best[1].values, prefix, after)
        records = collection.records
        if since is None:
            return (records[key] for key in keys)
        was = since.was
        both = (key for key, _ in groupby(merge(keys, since.keys(prefix, after))))
        then = (was[key] if key in was else records[key] for key in both)
        return (record for record in then if record is not None)

    def count_at(self, version: int, resource: str, prefix: str = "", after: str = "") -> int:
        """How many records ``scan_at`` has without ``having``.

        Raises:
            Compacted: as there.
        """
        since = self._since(version, resource)
        now = len(_span(self._collection(resource).keys, prefix, after))
        return now if since is None else now + since.more(prefix, after)

    def count_having(self, having: Sequence[Having], resource: str, prefix: str = "") -> int:
        """How many records ``scan_at`` has now with ``having``; for that, no index of labels is made."""
        collection = self._collection(resource)
        best = collection.best(having, prefix)
        if best is None:
            return len(_span(collection.keys, prefix, ""))
        return best[0].count(best[1].values, prefix)

    def _since(self, version: int, resource: str) -> _Since | None:
        """What has changed since a version; None: nothing."""
        if version >= max(self._history.latest(resource), self._history.oldest(resource)):
            return None
        if version < self._history.oldest(resource):
            raise Compacted
        since = self._asked.pop((resource, version), None) or _Since(version)
        since.go_on(self._history.since(resource, since.until), self.version)
        _put_last(self._asked, (resource, version), since, MOST_ASKED)
        return since

    def count(self, resource: str) -> int:
        return len(self._collection(resource).keys)

    def revision(self, resource: str) -> int:
        """The version of the last change of a collection since the start; it differs if the state differs."""
        return self._collection(resource).revision

    # -- writing: one turn of the loop from ``latest`` to ``put`` or ``remove``

    def latest(self, resource: str, key: str) -> Record | None:
        """The state that a write now would replace, be it committed or only staged."""
        place = (resource, key)
        return self._staged[place] if place in self._staged else self.get(resource, key)

    def next_version(self) -> int:
        """The version that the next staged write must carry, in its bytes and in its record."""
        return self._reserved + 1

    def put(self, new: Record, old: Record | None) -> asyncio.Future[None]:
        """Stage a creation (``old`` is None) or an update. Await the answer: it comes after commit.

        Raises:
            Refused: the store takes no writes.
        """
        return self._stage(Change(new, old))

    def remove(self, last: Record, old: Record) -> asyncio.Future[None]:
        """Stage a deletion; ``last`` is the final state with the deletion's version."""
        return self._stage(Change(last, old, gone=True))

    @property
    def refusal(self) -> str:
        """Why writes are refused; empty while they are taken."""
        return self._refusal

    # -- watching

    def watch(self, resource: str, prefix: str = "", since: int | None = None) -> Watcher:
        """A watcher that begins after version ``since`` (None: now). End it with ``unwatch``.

        Raises:
            Compacted: ``since`` is older than the history, or newer than the store.
        """
        if since is not None and not self._history.oldest(resource) <= since <= self.version:
            raise Compacted
        return self._watchers.begin(resource, prefix, self.version if since is None else since)

    def unwatch(self, watcher: Watcher) -> None:
        self._watchers.remove(watcher)

    def end_watches(self, resource: str) -> None:
        """End every watch of a collection: its kind is no longer served, or is served anew."""
        self._watchers.close(resource)

    # -- closing, and the inner steps of a write

    def close(self) -> None:
        """Commit staged writes, end the watches, close the log."""
        if self._batch:
            self._flush()
        self._refusal = self._refusal or "the server is shutting down"
        self._watchers.close()
        if self._idle is not None:
            self._idle.cancel()
        self._log.close()

    def _collection(self, resource: str) -> _Collection:
        collection = self._collections.get(resource)
        if collection is None:
            collection = self._collections[resource] = _Collection()
        return collection

    def _stage(self, change: Change) -> asyncio.Future[None]:
        if self._refusal:
            raise Refused(self._refusal)
        new = change.new
        assert new.version == self._reserved + 1, "a write must carry the next version"
        assert self.latest(new.resource, new.key) is change.old, "an await came between reading and writing"
        loop = asyncio.get_running_loop()
        if not self._batch:
            loop.call_soon(self._flush)
        self._reserved = new.version
        self._staged[new.resource, new.key] = None if change.gone else new
        committed = loop.create_future()
        self._batch.append((change, committed))
        return committed

    def _flush(self) -> None:
        batch, self._batch, self._staged = self._batch, [], {}
        if not batch:
            return
        try:
            self._log.commit([change for change, _ in batch])
        except Exception as error:  # noqa: BLE001 -- whatever the disk says, the answer is to stop
            self._fail(error, [committed for _, committed in batch])
            return
        for change, committed in batch:
            self._show(change)
            if not committed.done():
                committed.set_result(None)
        for place in [place for place in self._asked if place[1] < self._history.oldest(place[0])]:
            del self._asked[place]  # it would keep what the history has forgotten
        self._await_idle()

    def _show(self, change: Change) -> None:
        collection = self._collection(change.new.resource)
        if change.gone:
            collection.drop(change.new.key)
        else:
            collection.put(change.new)
        self.version = collection.revision = change.version
        self._history.append(change)
        self._watchers.tell(change)

    def _fail(self, error: Exception, waiting: list[asyncio.Future[None]]) -> None:
        self._refusal = f"the data folder cannot be written ({error}); free the disk and restart"
        self.broken.set()
        for committed in waiting:
            if not committed.done():
                committed.set_exception(Refused(self._refusal))
        log.error("no writes any more: " + self._refusal)

    def _await_idle(self) -> None:
        """Checkpoint once nothing was written for a while; under load SQLite does (LOG_PAGES)."""
        if self._idle is None:
            written = self.version
            self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._when_idle, written)

    def _when_idle(self, written: int) -> None:
        self._idle = None
        if written != self.version:
            self._await_idle()
            return
        try:
            self._log.checkpoint()
        except Exception as error:  # noqa: BLE001 -- the same disk, the same answer as for a commit
            self._fail(error, [])
