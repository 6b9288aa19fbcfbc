"""The changes that the server remembers: for resuming watches and for lists as of a version.

Theory.      Every change holds the state before it, so an older version is the current state with
             the newer changes undone. So page two of a list is consistent with page one minutes later,
             without a copy.
Invariants.  Bounded in number and in bytes, over all collections together. The collection with the
             most changes loses its oldest first: frequent writes of one kind (Leases, Events) do
             not expire the watches of another.
"""

from collections import deque
from collections.abc import Mapping

from kubewright.apiserver.store.records import Change, Record
from kubewright.base.limits import HISTORY_BYTES, WATCH_HISTORY


class Compacted(Exception):
    """The history no longer reaches back to the version asked for."""


class _Changes:
    """The newest changes of one collection, oldest first."""

    def __init__(self) -> None:
        self.changes: deque[Change] = deque()
        self.bytes = 0
        self.forgotten = 0


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
        kept.changes.append(change)
        kept.bytes += size
        self._count += 1
        self._bytes += size
        while self._count > self._most:
            self._forget(max(self._kept.values(), key=lambda each: len(each.changes)))
        while self._bytes > self._most_bytes and self._count > 1:
            self._forget(max(self._kept.values(), key=lambda each: each.bytes))

    def oldest(self, resource: str) -> int:
        """The oldest version from which changes of this collection are complete."""
        kept = self._kept.get(resource)
        return self._start if kept is None else max(self._start, kept.forgotten)

    def since(self, resource: str, version: int) -> list[Change]:
        """The changes of a collection after ``version``, in order.

        Raises:
            Compacted: some of them are forgotten.
        """
        if version < self.oldest(resource):
            raise Compacted
        found = []
        for change in reversed(self._kept[resource].changes if resource in self._kept else ()):
            if change.version <= version:
                break
            found.append(change)
        found.reverse()
        return found

    def before(self, resource: str, version: int) -> Mapping[str, Record | None]:
        """The state as of ``version`` of every key that has changed since; None for a key that did not
        exist. All other keys are as in the current state.

        Raises:
            Compacted: the history does not reach back that far.
        """
        return {change.new.key: change.old for change in reversed(self.since(resource, version))}

    def _forget(self, kept: _Changes) -> None:
        oldest = kept.changes.popleft()
        size = len(oldest.new.data)
        kept.bytes -= size
        kept.forgotten = oldest.version
        self._count -= 1
        self._bytes -= size
