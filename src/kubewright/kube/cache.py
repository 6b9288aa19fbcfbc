"""Which objects a cache keeps: lists, watch events and our own writes brought into one order.

Theory.      Three streams bring the states of objects, each with its own delay: pages of lists, watch
             events, and the answers to this process' own writes, which come first of all and let a
             process read what it wrote. The server's history orders them: within one kind a
             resourceVersion grows with every change, and a uid is never used twice. So:

             1. ``seen`` is how far the history is known completely: the version of the last list,
                event or bookmark. Every change up to it has been applied.
             2. An object enters if its version is above that of the object at its key.
             3. An answer to a write enters by rule 2 only if its version is above ``seen``. At or
                below it the watch has shown it, and perhaps its deletion since.
             4. When a write of ours deleted an object, its uid is barred for good: late events and
                pages cannot bring it back. When a write took it out of our selector, it is barred
                up to that version. A bar is dropped when the watch or a list begun later has
                passed it.
             5. DELETED removes the object at the key, unless that is newer than the deletion.
             6. A complete list at version L removes what it does not contain, unless that is above
                L: only a write of ours can be, and the watch from L will confirm it.
             7. A list below ``seen`` means that the history was rewritten (a restored backup). All
                we hold counts as old then, and the list is the truth.

Why it holds.  *Nothing is lost*: an object is refused only in favour of a newer state at its key
             (2), or because the watch has passed it (3), or because its end is certain (4); it is
             removed only by its end (5, 6). *Nothing returns*: a state of a dead object comes
             either before its DELETED was seen, then DELETED is still to come (or the uid is
             barred, 4), or after, then it is a late answer at or below ``seen`` (3) or at or below
             a list's L that did not name it (6). *Own writes show*: an acknowledged write is above
             ``seen`` and enters, or is at or below it and was applied; nothing older replaces it.
Invariants.  Pure of I/O and time. Each step passes every change to the listener, once, in order.
             Caches of several namespaces may share one store: each one touches the objects of its own only.
Called by    ``informer``; ``tests/unit/kube/test_cache_model.py`` tests it with random histories.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from kubewright.api.kinds import Kind, Undecodable
from kubewright.kube import header as headers
from kubewright.kube.client import Written
from kubewright.kube.header import Header
from kubewright.kube.scope import Scope
from kubewright.kube.store import Store
from kubewright.wire.gvk import Key
from kubewright.wire.watch import DELETED

T = TypeVar("T")

FOREVER = 2**63
"""Bar of an object that has ended: above every version."""

BARS = 10_000
"""Most bars we keep, oldest dropped first: as many as a watch may be behind (limits.WATCH_BACKLOG)."""


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """What listeners get: ``old`` is None for an object that is new to us, ``new`` for one that is gone.

    An object that was deleted and made again under its name is two changes. Between two changes
    others may have happened that the server did not send: only ``new`` is current.
    """

    key: Key
    old: Header | None
    new: Header | None
    _decode: Callable[[Header], T]

    def before(self) -> T | None:
        """The object as it was; decoded now. Of one that cannot be read, what can: a change must not go
        unnoticed."""
        return None if self.old is None else self._decode(self.old)

    def after(self) -> T | None:
        """The object as it is; decoded now, as ``before``."""
        return None if self.new is None else self._decode(self.new)


class Cache(Generic[T]):
    """The objects of one kind in one scope, as far as the server has sent them.

    ``store`` is shared with caches of other namespaces; None: it is this cache's own.
    """

    def __init__(
        self,
        kind: Kind[T],
        scope: Scope,
        listener: Callable[[Change[T]], None],
        store: Store[T] | None = None,
    ) -> None:
        self.store = Store(kind) if store is None else store
        self.seen = 0
        self._scope = scope
        self._listener = listener
        self._bars: OrderedDict[str, int] = OrderedDict()
        self._listed: set[Key] = set()
        self._list_version = 0
        self._old_bars: dict[str, int] = {}

    @property
    def bars(self) -> int:
        """How many uids are barred now (rule 4)."""
        return len(self._bars)

    # ------------------------------------------------------------ watch

    def event(self, kind: str, header: Header) -> None:
        """An ADDED, MODIFIED or DELETED of the watch (rules 1, 2, 4, 5)."""
        if kind == DELETED:
            self._drop_bar(header)
            current = self.store.header(header.key)
            if current is not None and current.version <= header.version:
                self._remove(current)
        else:
            self._enter(header)
        self.seen = max(self.seen, header.version)

    def bookmark(self, version: int) -> None:
        """Nothing else happened up to ``version``."""
        self.seen = max(self.seen, version)

    # ------------------------------------------------------------ list

    def begin(self) -> None:
        """A list is about to be asked for."""
        self._listed = set()
        self._list_version = 0
        self._old_bars = dict(self._bars)

    def page(self, version: int, items: list[Header]) -> None:
        """One page of it (rules 2, 4, 7); all pages of a list have one version."""
        if not self._list_version:
            self._list_version = version
            if version < self.seen:
                self._rewind()
        for header in items:
            self._listed.add(header.key)
            self._enter(header)

    def end(self) -> None:
        """That was the last page (rules 1, 4, 6)."""
        version = self._list_version
        for header in self._held():
            if header.key not in self._listed and header.version <= version:
                self._remove(header)
        for uid, bar in self._old_bars.items():
            if self._bars.get(uid) == bar:
                del self._bars[uid]
        self.seen = version
        self._listed, self._old_bars = set(), {}

    def _rewind(self) -> None:
        for header in self._held():
            self.store.put(msgspec.structs.replace(header, version=-1))
        self._bars.clear()
        self._old_bars = {}
        self.seen = 0

    def _held(self) -> list[Header]:
        """The objects of this cache's scope."""
        return [each for each in self.store if self._scope.has_namespace(each.key.namespace)]

    # ------------------------------------------------------------ our own writes

    def wrote(self, written: Written) -> None:
        """The server acknowledged a write of this process (rules 3, 4)."""
        if not self._scope.has_namespace(written.key.namespace):
            return
        if not written.body:
            if written.uid:
                self._ended(written.uid, written.key)
            return
        header, lives = headers.read_answer(written.body, deleted=written.deleted)
        if not lives:
            self._ended(header.uid, header.key)
        elif header.version > self.seen:
            if self._scope.covers(header):
                self._enter(header)
            else:
                self._left(header)

    def _ended(self, uid: str, key: Key) -> None:
        self._bar(uid, FOREVER)
        current = self.store.header(key)
        if current is not None and current.uid == uid:
            self._remove(current)

    def _left(self, header: Header) -> None:
        if self._bars.get(header.uid, 0) < header.version:
            self._bar(header.uid, header.version)
        current = self.store.header(header.key)
        if current is not None and current.version < header.version:
            self._remove(current)

    def _bar(self, uid: str, version: int) -> None:
        if len(self._bars) >= BARS:
            self._bars.popitem(last=False)
        self._bars[uid] = version

    def _drop_bar(self, gone: Header) -> None:
        """The watch sent DELETED: drop the bar of rule 4 if it is over.

        Under a selector DELETED may mean that the object left it, and it may come again before its
        end: then only a list lifts a bar that is there for good.
        """
        bar = self._bars.get(gone.uid)
        if bar is not None and (bar <= gone.version or not self._scope.selective):
            del self._bars[gone.uid]

    # ------------------------------------------------------------ both

    def _enter(self, header: Header) -> None:
        if self._bars and header.version <= self._bars.get(header.uid, -1):
            return
        if self.store.kind.pruned:
            header = self._pruned(header)
        current = self.store.header(header.key)
        if current is not None:
            if current.version >= header.version:
                return
            if current.uid != header.uid:
                self._remove(current)
                current = None
        self.store.put(header)
        self._notify(header.key, current, header)

    def _pruned(self, header: Header) -> Header:
        """With no more of the object than the type has; what cannot be read stays whole."""
        kind = self.store.kind
        try:
            return msgspec.structs.replace(header, data=kind.encode(kind.decode(header.data)))
        except Undecodable:
            return header

    def _remove(self, header: Header) -> None:
        self.store.remove(header)
        self._notify(header.key, header, None)

    def _notify(self, key: Key, old: Header | None, new: Header | None) -> None:
        self._listener(Change(key, old, new, self.store.part))
