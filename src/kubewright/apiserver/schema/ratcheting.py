"""What an update may leave as it was, though the schema of its kind forbids it: validation ratcheting.

Theory.      A definition may become stricter than the objects that are there. Then each of them would be
             refused whatever is changed in it, were it only the finalizer that keeps it. So an error is
             excused if its place, or one above it, is the same in the old object.
             Which place of the old object is the counterpart of one of the new follows from the schema.
             Fields and the values of maps have the same name. Items of a list that is a map have the same
             keys. Items of other lists have none: such a list is the same as a whole or not at all. Nor has a
             field that the schema does not name, so no map with such a field is the same. The root never is,
             as its metadata is not named.
Invariants.  Pure. A part is compared once, so all errors together cost no more than the object has parts.
             What is below an ``allOf`` is compared as far as the place at which that stands, no further.
Source       kube-apiserver 1.36, observed in tests/conformance/test_api_ratcheting.py.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import jsonschema_rs

from kubewright.apiserver.schema.node import ANYTHING, Node
from kubewright.apiserver.schema.walk import identity, list_key

_ABOVE = ("allOf", "anyOf", "oneOf", "not")
_DOWN = {"properties": 2, "additionalProperties": 1, "items": 1}
"""Words of a schema's path that lead one level down in the object, and how many parts they take."""


class Place:
    """A schema, and the new and the old value that stand there; the first one is that of whole objects."""

    def __init__(self, node: Node, new: Any, old: Any) -> None:
        self._node, self._new, self._old = node, new, old
        self._below: dict[str | int, Place | None] = {}

    def is_excused(self, error: jsonschema_rs.ValidationError) -> bool:
        """Whether an error of the new object was there in the old one, in a part that did not change."""
        return self.excuses(error.instance_path[: _depth(error.schema_path)])

    def excuses(self, path: Sequence[str | int]) -> bool:
        """Whether what stands there, or something above it, did not change."""
        return any(place.is_same for place in self._on(path))

    @cached_property
    def is_same(self) -> bool:
        """Whether nothing changed here or below."""
        new, old = self._new, self._old
        if isinstance(new, dict) and isinstance(old, dict):
            return new.keys() == old.keys() and all(map(self._is_same_below, new))
        if isinstance(new, list) and isinstance(old, list) and self._node.list_type == "map":
            return len(new) == len(old) and all(map(self._is_same_below, range(len(new))))
        return _is_equal(new, old)

    def below(self, part: str | int) -> "Place | None":
        """The place of a field or an item; None if the old object has no counterpart of it."""
        if part not in self._below:
            self._below[part] = self._item(part) if isinstance(part, int) else self._field(part)
        return self._below[part]

    def _on(self, path: Sequence[str | int]) -> "Iterator[Place]":
        """The places on a path, from below this one on, as far as both objects have them."""
        place: Place | None = self
        for part in path:
            if place is None or (place := place.below(part)) is None:
                return
            yield place

    def _is_same_below(self, part: str | int) -> bool:
        place = self.below(part)
        return place is not None and place.is_same

    def _field(self, name: str) -> "Place | None":
        node, new, old = self._node, self._new, self._old
        if not isinstance(new, dict) or not isinstance(old, dict) or name not in new or name not in old:
            return None
        if node.embedded and name == "metadata":
            return None  # the schema does not name what is in it
        child = node.fields.get(name) or (None if node.values is ANYTHING else node.values)
        return None if child is None else Place(child, new[name], old[name])

    def _item(self, index: int) -> "Place | None":
        items, new = self._node.items, self._new
        if self._node.list_type != "map" or items is None or not isinstance(new, list):
            return None
        key = identity(list_key(self._node, new[index]))
        return Place(items, new[index], self._by_key[key]) if key in self._by_key else None

    @cached_property
    def _by_key(self) -> dict[bytes, Any]:
        """The items of the old list by their keys; of equal ones the first."""
        items = self._old if isinstance(self._old, list) else []
        return {identity(list_key(self._node, item)): item for item in reversed(items)}


def _depth(schema_path: list[str | int]) -> int:
    """How many levels of the object a path in its schema leads down, before it comes to alternatives."""
    depth = at = 0
    while at < len(schema_path):
        word = schema_path[at]
        if word in _ABOVE:
            return depth
        parts = _DOWN.get(str(word), 0)
        depth, at = depth + bool(parts), at + (parts or 1)
    return depth


def _is_equal(new: Any, old: Any) -> bool:
    """Equal as JSON: Python holds 1, 1.0 and true for equal."""
    if type(new) is not type(old):
        return False
    if isinstance(new, dict):
        return new.keys() == old.keys() and all(_is_equal(new[name], old[name]) for name in new)
    if isinstance(new, list):
        return len(new) == len(old) and all(map(_is_equal, new, old))
    return bool(new == old)
