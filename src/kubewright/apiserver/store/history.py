"""The changes that the server remembers: for resuming watches and for lists as of a version.

Theory.      Every change holds the state before it, so the past is the present with the newer
             changes taken back. That makes a consistent page two of a list, minutes after page
             one, without copying anything.
Invariants.  Bounded in number and in bytes. What was forgotten is known per collection: a chatty
             kind (Leases, Events) does not cut off the watchers of a quiet one.
"""

from collections import deque
from collections.abc import Iterator, Mapping

from kubewright.apiserver.store.records import Change, Record
from kubewright.base.limits import HISTORY_BYTES, WATCH_HISTORY


class Compacted(Exception):
    """The history no longer reaches back to the version asked for."""


class History:
    """The newest changes, oldest first. ``start`` is the version at which remembering begins."""

    def __init__(self, start: int, *, most: int = WATCH_HISTORY, most_bytes: int = HISTORY_BYTES) -> None:
        self._start = start
        self._most, self._most_bytes = most, most_bytes
        self._changes: deque[Change] = deque()
        self._bytes = 0
        self._forgotten: dict[str, int] = {}

    def append(self, change: Change) -> None:
        self._changes.append(change)
        self._bytes += len(change.new.data)
        while len(self._changes) > self._most or (self._bytes > self._most_bytes and len(self._changes) > 1):
            oldest = self._changes.popleft()
            self._bytes -= len(oldest.new.data)
            self._forgotten[oldest.new.resource] = oldest.version

    def oldest(self, resource: str) -> int:
        """The oldest version from which changes of this collection are complete."""
        return max(self._start, self._forgotten.get(resource, 0))

    def since(self, resource: str, version: int) -> list[Change]:
        """The changes of a collection after ``version``, in order.

        Raises:
            Compacted: some of them are forgotten.
        """
        if version < self.oldest(resource):
            raise Compacted
        found = [change for change in self._newest(version) if change.new.resource == resource]
        found.reverse()
        return found

    def before(self, resource: str, version: int) -> Mapping[str, Record | None]:
        """What to lay over the present to get the collection as of ``version``: the state of every
        key that changed since; None for one that did not exist.

        Raises:
            Compacted: the history does not reach back that far.
        """
        return {change.new.key: change.old for change in reversed(self.since(resource, version))}

    def _newest(self, version: int) -> Iterator[Change]:
        for change in reversed(self._changes):
            if change.version <= version:
                return
            yield change
