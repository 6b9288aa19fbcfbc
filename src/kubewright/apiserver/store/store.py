"""The store: current objects in memory, writes in batches to the log.

Theory.      A writer reads ``latest`` (which sees what other writers have staged), decides, and
             stages its write in the same turn of the event loop: that is the compare-and-swap.
             The first write of a batch asks the loop for a flush; every write staged until then
             is in the same transaction. Only after the commit does the batch become visible; then the
             watchers get it and its writers are answered.
Invariants.  Versions grow by one with each write, over all collections, also across restarts.
             Readers and watchers see committed states only. Watchers of one collection see all
             its changes in the order of versions. When a commit fails nothing of the batch
             becomes visible, its writers are refused, and so is every later write: the
             state of the disk is unknown. Every acknowledged write is on the disk.
Called by    ``registry``. Continues in ``log``, ``history`` and ``watchers``.
"""

import asyncio
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass

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

ValueOf = Callable[[Record], str]
_NO_KEYS: Set[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Having:
    """The objects that have ``value``; ``index`` names what ``value_of`` reads, which is always the same."""

    index: str
    value: str
    value_of: ValueOf


class Index:
    """See the module. ``value_of`` reads the value of a record; it is pure."""

    def __init__(self, value_of: ValueOf) -> None:
        self._value_of = value_of
        self._keys: dict[str, set[str]] = {}
        self._values: dict[str, str] = {}

    def put(self, record: Record) -> None:
        value = self._value_of(record)
        if self._values.get(record.key) == value:
            return
        self.drop(record.key)
        self._values[record.key] = value
        self._keys.setdefault(value, set()).add(record.key)

    def drop(self, key: str) -> None:
        value = self._values.pop(key, None)
        if value is None:
            return
        keys = self._keys[value]
        keys.discard(key)
        if not keys:
            del self._keys[value]

    def keys(self, value: str) -> Set[str]:
        """The keys of the objects that have this value, in no order."""
        return self._keys.get(value, _NO_KEYS)


log = structlog.get_logger("kubewright.apiserver.store")

_LAST = "\U0010ffff"
"""Greater than every key."""

IDLE_SECONDS = 2.0
"""Time after the last write until the log is checkpointed."""


class Refused(Exception):
    """The store does not take writes (any more); the text says why."""


class _Collection:
    """The objects of one resource, by key and in the order of keys."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.keys: list[str] = []
        self.revision = 0
        self._indexes: dict[str, Index] = {}

    def put(self, record: Record) -> None:
        if record.key not in self.records:
            insort(self.keys, record.key)
        self.records[record.key] = record
        for index in self._indexes.values():
            index.put(record)

    def drop(self, key: str) -> None:
        if self.records.pop(key, None) is not None:
            del self.keys[bisect_left(self.keys, key)]
        for index in self._indexes.values():
            index.drop(key)

    def index(self, name: str, value_of: ValueOf) -> Index:
        """The index of that name; it is made when it is asked for the first time."""
        if (index := self._indexes.get(name)) is None:
            index = self._indexes[name] = Index(value_of)
            for record in self.records.values():
                index.put(record)
        return index

    def span(self, prefix: str, after: str) -> range:
        """Where the keys stand that begin with ``prefix`` and are greater than ``after``."""
        first = bisect_left(self.keys, _first(prefix, after))
        last = bisect_left(self.keys, prefix + _LAST, first) if prefix else len(self.keys)
        return range(first, last)


Was = tuple[str, Record | None]
"""A key, and the record that it had; None: it had none."""


def _first(prefix: str, after: str) -> str:
    """The lowest key with this prefix that is greater than ``after``."""
    return max(prefix, after + "\0") if after else prefix


def _key_of(was: Was) -> str:
    return was[0]


def _merged(now: Iterator[Record], was: Sequence[Was]) -> Iterator[Record]:
    """The records of now, with those of before in the place of all that have changed since."""
    changed = iter(was)
    key, before = next(changed, (_LAST, None))
    for record in now:
        while key < record.key:
            if before is not None:
                yield before
            key, before = next(changed, (_LAST, None))
        if key != record.key:
            yield record
    while key != _LAST:
        if before is not None:
            yield before
        key, before = next(changed, (_LAST, None))


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
        self._last_asked: tuple[tuple[int, str, int], Sequence[Was]] = ((0, "", 0), ())
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
        keys, records = collection.keys, collection.records
        return (records[keys[at]] for at in collection.span(prefix, after))

    def scan_having(
        self, having: Having, resource: str, prefix: str = "", after: str = ""
    ) -> Iterator[Record]:
        """As ``scan``, of the records alone that have a value, found by an index."""
        records = self._collection(resource).records
        keys = sorted(key for key in self._having(having, resource) if key.startswith(prefix) and key > after)
        return (records[key] for key in keys)

    def count_having(self, having: Having, resource: str, prefix: str = "") -> int:
        """How many records ``scan_having`` has."""
        return sum(key.startswith(prefix) for key in self._having(having, resource))

    def _having(self, having: Having, resource: str) -> Set[str]:
        return self._collection(resource).index(having.index, having.value_of).keys(having.value)

    def scan_at(self, version: int, resource: str, prefix: str = "", after: str = "") -> Iterator[Record]:
        """The same as of an older version.

        Raises:
            Compacted: the history no longer reaches back to it.
        """
        was = self._changed_since(version, resource, prefix, after)
        return _merged(self.scan(resource, prefix, after), was) if was else self.scan(resource, prefix, after)

    def count_at(self, version: int, resource: str, prefix: str = "", after: str = "") -> int:
        """How many records ``scan_at`` has.

        Raises:
            Compacted: as there.
        """
        collection = self._collection(resource)
        was = self._changed_since(version, resource, prefix, after)
        more = sum(record is not None for _, record in was)
        less = sum(key in collection.records for key, _ in was)
        return len(collection.span(prefix, after)) + more - less

    def _changed_since(self, version: int, resource: str, prefix: str, after: str) -> Sequence[Was]:
        """The keys that have changed since, in order, with the state as of ``version``."""
        if version == self.version:
            return ()
        asked = (version, resource, self.version)
        if self._last_asked[0] != asked:  # the next page asks for the same
            before = self._history.before(resource, version).items()
            self._last_asked = asked, sorted(before, key=_key_of)
        was = self._last_asked[1]
        first = bisect_left(was, _first(prefix, after), key=_key_of)
        last = bisect_left(was, prefix + _LAST, first, key=_key_of) if prefix else len(was)
        return was[first:last]

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
