"""Objects of one kind by key, as bytes, with indexes. No history, no rules: see ``cache``.

Theory.      Objects are decoded when a caller looks; the last two thousand looked at stay decoded,
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
Invariants.  Every index agrees with the objects after each call. An index whose function raises misses that
             object and hurts nothing else. ``decode`` of a living object that cannot be read raises
             ``Undecodable``.
Called by    ``cache``.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Generic, TypeVar

import structlog

from kubewright.api.kinds import Kind, Undecodable
from kubewright.kube.header import Header
from kubewright.wire.gvk import Key
from kubewright.wire.selectors import EVERYTHING, Selector

T = TypeVar("T")

DECODED = 2048
"""Objects per store that stay decoded after a caller looked: up to 7 KiB each."""

log = structlog.get_logger("kubewright.kube")


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
        self._keeps = kind.shared or _frozen(kind)

    def __len__(self) -> int:
        return len(self._headers)

    def __iter__(self) -> Iterator[Header]:
        return iter(tuple(self._headers.values()))

    def header(self, key: Key) -> Header | None:
        """What is known without decoding."""
        return self._headers.get(key)

    def put(self, header: Header) -> None:
        """Hold this object; what stood at its key before is replaced."""
        old = self._headers.get(header.key)
        if old is not None:
            self.bytes -= len(old.data)
            self._replace(old)
        self._headers[header.key] = header
        self.bytes += len(header.data)
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
