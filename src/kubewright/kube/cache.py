"""The objects of a kind as bytes, and which are kept: lists, watch events and own writes in one order.

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
The store.   Objects are decoded when a caller looks; the last two thousand looked at stay decoded,
             because a set's machines are read far more often than they change. Structs are frozen,
             so a reader cannot change them; plain dicts are not, and are decoded for each reader, unless
             the kind says that readers share them. The object that was replaced last stays decoded too:
             every listener of the change may look at it.
             Declared indexes need the decoded object, so they remember its values; the built-in two,
             ``owner`` (uid of the controlling owner) and ``namespace``, live on the header alone.
             An object that its type cannot read has all the same a name, an owner, and fields that can be
             read. Indexes hold it by those, or what it needs would look unused; and those who look it up in
             one get that part. While it lives, a reader of it alone gets the error: a part of a spec
             is none. In its deletion the part is what there is to go by.
Invariants.  Pure of I/O and time. Every index agrees with the objects after each call; one whose function
             raises misses that object and hurts nothing else. Each step passes every change to the listener,
             once, in order. Caches of several namespaces may share one store: each one touches the objects of
             its own only.
Called by    ``informer``; ``tests/unit/kube/test_cache_model.py`` tests it with random histories.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec
import structlog

from kubewright.api.kinds import Kind, Undecodable
from kubewright.kube import header as headers
from kubewright.kube.client import Written
from kubewright.kube.header import Header
from kubewright.kube.scope import Scope
from kubewright.wire.gvk import Key
from kubewright.wire.selectors import EVERYTHING, Selector
from kubewright.wire.watch import DELETED

T = TypeVar("T")

log = structlog.get_logger("kubewright.kube")

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


DECODED = 2048
"""Objects per store that stay decoded after a caller looked: up to 7 KiB each."""


class Store(Generic[T]):
    """Headers, and with them the bytes, by key."""

    def __init__(self, kind: Kind[T]) -> None:
        self.kind = kind
        self.bytes = 0
        self._headers: dict[Key, Header] = {}
        self._owners, self._namespaces = _Index(), _Index()
        self._declared: dict[str, _Declared] = {}
        self._decoded: OrderedDict[Key, tuple[Header, T]] = OrderedDict()
        self._replaced: tuple[Header, T | None] | None = None
        self._frozen = _frozen(kind)
        self._keeps = kind.shared or self._frozen

    def __len__(self) -> int:
        return len(self._headers)

    def __iter__(self) -> Iterator[Header]:
        return iter(tuple(self._headers.values()))

    def header(self, key: Key) -> Header | None:
        """What is known without decoding."""
        return self._headers.get(key)

    def put(self, header: Header, obj: T | None = None) -> None:
        """Hold this object; what stood at its key before is replaced. ``obj`` is what it says, where that was
        read already."""
        old = self._headers.get(header.key)
        if old is not None:
            self.bytes -= len(old.data)
            self._replace(old)
        self._headers[header.key] = header
        self.bytes += len(header.data)
        if obj is not None and self._frozen:  # the writer has a dict, too, and may change it
            self._keep(header, obj)
        self._move(header.key, old, header)

    def remove(self, header: Header) -> None:
        """Hold it no longer."""
        del self._headers[header.key]
        self.bytes -= len(header.data)
        self._replace(header)
        self._move(header.key, header, None)
        self._decoded.pop(header.key, None)

    def problem(self, header: Header) -> str:
        """Why the object cannot be read as its kind; empty if it can."""
        try:
            self._whole(header)
        except Undecodable as error:
            return str(error)
        return ""

    def part(self, header: Header) -> T:
        """The object, or as much of it as can be read.

        Raises:
            Undecodable: nothing of it can be.
        """
        try:
            return self._whole(header)
        except Undecodable:
            return self.kind.part(header.data)

    def decode(self, header: Header) -> T:
        """The object itself; in its deletion, as much of it as can be read.

        Raises:
            Undecodable: it does not have the form of its kind, and lives.
        """
        if header.deleting:
            return self.part(header)
        try:
            return self._whole(header)
        except Undecodable as error:
            raise error.of(str(header.key)) from None

    def _whole(self, header: Header) -> T:
        kept = self._decoded.get(header.key)
        if kept is not None and kept[0] is header:
            return kept[1]
        replaced = self._replaced
        if replaced is not None and replaced[0] is header and replaced[1] is not None:
            return replaced[1]
        obj = self.kind.decode(header.data)
        if self._keeps and self._headers.get(header.key) is header:
            self._keep(header, obj)
        elif self._keeps and replaced is not None and replaced[0] is header:
            self._replaced = (header, obj)
        return obj

    def select(self, namespace: str, selector: Selector = EVERYTHING) -> list[T]:
        """The objects there (empty: everywhere) whose labels match.

        Raises:
            Undecodable: one of them cannot be read. Leaving it out would look like its absence.
        """
        found: Iterable[Header] = self._headers.values()
        if namespace:
            found = [self._headers[key] for key in self._namespaces.keys(namespace)]
        if selector:
            found = [header for header in found if selector.matches(header.labels)]
        return [self.decode(header) for header in found]

    def index(self, name: str, of: Callable[[T], Iterable[str]]) -> None:
        """Declare or replace an index; the objects that are here are in it at once."""
        if name in ("owner", "namespace"):
            raise ValueError(f"the index {name!r} is built in")
        declared = self._declared[name] = _Declared(name, lambda header: of(self.part(header)))
        for header in self._headers.values():
            declared.account(header.key, header)

    def keys_by(self, index: str, value: str) -> Collection[Key]:
        """Keys of the objects that have ``value`` in ``index``, in order of arrival.

        Raises:
            KeyError: no such index is declared.
        """
        if index == "owner":
            return self._owners.keys(value)
        if index == "namespace":
            return self._namespaces.keys(value)
        return self._declared[index].index.keys(value)

    def by(self, index: str, value: str) -> list[T]:
        """The objects that have ``value`` in ``index``; of those that cannot be read, what can.

        Raises:
            KeyError: no such index is declared.
        """
        return [self.part(self._headers[key]) for key in self.keys_by(index, value)]

    def _move(self, key: Key, old: Header | None, new: Header | None) -> None:
        for index, of in ((self._owners, _owner), (self._namespaces, _namespace)):
            before, after = of(old), of(new)
            if before != after:
                index.move(key, before, after)
        for declared in self._declared.values():
            declared.account(key, new)

    def _replace(self, old: Header) -> None:
        kept = self._decoded.get(old.key)
        self._replaced = (old, kept[1] if kept is not None and kept[0] is old else None)

    def _keep(self, header: Header, obj: T) -> None:
        if len(self._decoded) >= DECODED and header.key not in self._decoded:
            self._decoded.popitem(last=False)
        self._decoded[header.key] = (header, obj)


class _Declared:
    """An index on the content of objects; remembers the values, as decoding costs more."""

    def __init__(self, name: str, of: Callable[[Header], Iterable[str]]) -> None:
        self.index = _Index()
        self._name = name
        self._of = of
        self._values: dict[Key, tuple[str, ...]] = {}

    def account(self, key: Key, new: Header | None) -> None:
        """The object at ``key`` is now this one, or gone."""
        before = self._values.get(key, ())
        after = self._read(new) if new is not None else ()
        if before == after:
            return
        self.index.move(key, before, after)
        if after:
            self._values[key] = after
        else:
            del self._values[key]

    def _read(self, header: Header) -> tuple[str, ...]:
        try:
            return tuple(dict.fromkeys(self._of(header)))
        except Exception:
            log.exception("an index failed on an object", index=self._name, object=str(header.key))
        return ()


def _owner(header: Header | None) -> tuple[str, ...]:
    return (header.owner_uid,) if header is not None and header.owner_uid else ()


def _namespace(header: Header | None) -> tuple[str, ...]:
    return (header.key.namespace,) if header is not None and header.key.namespace else ()


def _frozen(kind: Kind[T]) -> bool:
    """Whether readers can share one decoded object."""
    return getattr(getattr(kind.type, "__struct_config__", None), "frozen", False)


class _Index:
    """From a value to the keys of the objects that have it. Callers say what a key's values were and are.

    A change touches only the values that came or went, so its cost does not depend on how many objects
    share a value. Keys are in the order in which they came: the same history gives the same order,
    which sets would not (their order changes with each run). Most values are of one object (a node's name, a
    provider ID), so the key of a value's first object stands alone, without a dict of its own: 0.2 KiB.
    """

    def __init__(self) -> None:
        self._keys: dict[str, Key | dict[Key, None]] = {}

    def keys(self, value: str) -> Collection[Key]:
        """The keys with this value, in order of arrival."""
        found = self._keys.get(value, ())
        return (found,) if isinstance(found, Key) else found

    def move(self, key: Key, before: Collection[str], after: Collection[str]) -> None:
        """The values of ``key`` were ``before`` (as said in the last call) and are ``after``."""
        for value in before:
            if value not in after:
                self._leave(value, key)
        for value in after:
            if value not in before:
                self._enter(value, key)

    def _enter(self, value: str, key: Key) -> None:
        found = self._keys.setdefault(value, key)
        if isinstance(found, dict):
            found[key] = None
        elif found is not key:
            self._keys[value] = {found: None, key: None}

    def _leave(self, value: str, key: Key) -> None:
        found = self._keys[value]
        if isinstance(found, dict):
            del found[key]
        if not found or found == key:
            del self._keys[value]


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
                self._enter(header, written.object if written.kind == self.store.kind else None)
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

    def _enter(self, header: Header, obj: T | None = None) -> None:
        """An object, and what it says where that was read already."""
        if self._bars and header.version <= self._bars.get(header.uid, -1):
            return
        if self.store.kind.pruned:
            header = self._pruned(header, obj)
        current = self.store.header(header.key)
        if current is not None:
            if current.version >= header.version:
                return
            if current.uid != header.uid:
                self._remove(current)
                current = None
        self.store.put(header, obj)
        self._notify(header.key, current, header)

    def _pruned(self, header: Header, obj: T | None) -> Header:
        """With no more of the object than the type has; what cannot be read stays whole."""
        kind = self.store.kind
        try:
            whole = kind.decode(header.data) if obj is None else obj
            return msgspec.structs.replace(header, data=kind.encode(whole))
        except Undecodable:
            return header

    def _remove(self, header: Header) -> None:
        self.store.remove(header)
        self._notify(header.key, header, None)

    def _notify(self, key: Key, old: Header | None, new: Header | None) -> None:
        self._listener(Change(key, old, new, self.store.part))
