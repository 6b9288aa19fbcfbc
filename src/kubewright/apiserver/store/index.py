"""An index of one collection: the keys of the objects that have a value.

Theory.      A list of the pods of one node looks through all pods unless the store knows which have that
             value. A value is read when an object is written, once, and kept beside its key, so that
             the next write of the object finds where the key stood.
Invariants.  After ``put`` and ``drop`` of every change, ``keys`` of a value are those of the objects that
             have it now. A key stands under one value.
Called by    ``store``, which makes an index when a list asks for it the first time.
"""

from collections.abc import Callable, Set
from dataclasses import dataclass

from kubewright.apiserver.store.records import Record

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
