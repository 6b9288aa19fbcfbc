"""Records, what one write changed, and the changes that the server remembers. Pure.

Theory.      An object is stored as the bytes that go over the wire. A record has beside them only what
             lists and watches filter by, so that they do not decode objects.
             Changes are remembered for watches, and for lists as of a version. Every change holds the state
             before it, so an older version is the current state with the newer changes undone. So page two of
             a list is consistent with page one minutes later, without a copy. A watch is a place in this
             history: what a client has not taken yet is held once, however many clients have not.
Invariants.  Records and changes are immutable and share their bytes: a history of ten thousand
             changes has each state in memory once. They are not tracked by the garbage collector.
             The history is bounded in number and in bytes, over all collections together. The collection with
             the most changes loses its oldest first: frequent writes of one kind (Leases, Events) do
             not expire the watches of another.
"""

from bisect import bisect_right
from collections.abc import Mapping
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

    def _forget(self, kept: _Changes) -> None:
        self._count -= 1
        self._bytes -= len(kept.forget().new.data)
