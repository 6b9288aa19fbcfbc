"""What a schema says about a value: whether its parts are managed one by one, and the paths in it.

Theory.      A schema says of each map and list whether its parts are managed one by one (granular) or whether
             it is managed as a whole (atomic). A list is granular if it is a set, or if its items have keys;
             built-in kinds that say nothing else follow their strategic-merge keys. What no schema declares
             is granular in its maps and atomic in its lists.
             An item of a list stands at the path of its keys, not of its index. Items with equal keys are one
             path, without parts.
Invariants.  Pure. A null is there: a manager can own that a field is null.
Continues    in ``changes`` (the difference of two values), ``merging`` (merging and removing).
"""

from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

from kubewright.apiserver.fields import paths
from kubewright.apiserver.fields.paths import Path, Paths
from kubewright.apiserver.schema.node import Node

_FREE: Final = Node()
"""The schema of what no schema declares."""


class Unkeyed(ValueError):
    """An item of a list has no keys, or those of another item; the message says where."""


class Shape(Enum):
    """How a value is managed: as a whole, by its fields, or by its items."""

    LEAF = 0
    MAP = 1
    LIST = 2


def shape(node: Node, value: Any) -> Shape:
    """How the value is managed. A null has the shape of the values that its schema declares."""
    if isinstance(value, dict):
        return Shape.MAP if node.type in ("", "object") and not node.atomic else Shape.LEAF
    if isinstance(value, list):
        return Shape.LIST if _granular(node) else Shape.LEAF
    if value is None and _granular(node):
        return Shape.LIST
    declared = node.type == "object" or node.fields or node.values is not None
    return Shape.MAP if value is None and declared and not node.atomic else Shape.LEAF


def _granular(node: Node) -> bool:
    return node.items is not None and _list_type(node) != "atomic"


def _list_type(node: Node) -> str:
    """``map``, ``set`` or ``atomic``."""
    if node.list_type or "merge" not in node.strategies:
        return node.list_type or "atomic"
    return "map" if node.merge_key else "set"


def field_of(node: Node, name: str) -> Node:
    """The schema of a field."""
    return node.fields.get(name) or node.values or _FREE


def items_of(node: Node) -> Node:
    """The schema of the items of a list."""
    return node.items or _FREE


def element_of(node: Node, item: Any) -> str:
    """The path element of an item of a granular list; an item without keys stands for itself."""
    found = _keys(node, item)
    return paths.keyed(found) if found else paths.valued(item)


def _keys(node: Node, item: Any) -> dict[str, Any]:
    """The keys of an item of a list that is a map; none for those of sets."""
    if _list_type(node) == "set" or not isinstance(item, dict):
        return {}
    fields = items_of(node).fields
    found = {}
    for name in node.list_keys or ((node.merge_key,) if node.merge_key else ()):
        if item.get(name) is not None:
            found[name] = item[name]
        elif name in fields and fields[name].has_default:
            found[name] = fields[name].default
    return found


def indexed(node: Node, values: Any) -> dict[str, list[Any]]:
    """The items of a list (none, if it is null or absent) by their path element, in order."""
    found: dict[str, list[Any]] = {}
    for item in values if isinstance(values, list) else ():
        found.setdefault(element_of(node, item), []).append(item)
    return found


def check(node: Node, value: Any, path: Path = ()) -> None:
    """Check that every item of every granular list has keys, and that no keys come twice.

    Raises:
        Unkeyed: with the path of the list.
    """
    if isinstance(value, dict) and shape(node, value) is Shape.MAP:
        for name, inner in value.items():
            check(field_of(node, name), inner, (*path, paths.field(name)))
    elif isinstance(value, list) and shape(node, value) is Shape.LIST:
        where = paths.shown(path)
        if _list_type(node) == "map" and any(not _keys(node, item) for item in value):
            raise Unkeyed(f"{where}: an item has none of the keys of this list")
        for element, items in indexed(node, value).items():
            if len(items) > 1:
                raise Unkeyed(f"{where}: duplicate entries for key {paths.shown((element,))}")
            check(items_of(node), items[0], (*path, element))


def field_set(node: Node, value: Any) -> Paths:
    """The paths in a value: its leaves, the items of granular lists, and fields that no schema declares."""
    return frozenset(_field_set(node, value, ()))


def _field_set(node: Node, value: Any, path: Path) -> Iterator[Path]:
    if isinstance(value, dict) and shape(node, value) is Shape.MAP:
        for name, inner in value.items():
            where = (*path, paths.field(name))
            yield from _field_set(field_of(node, name), inner, where)
            if inner is None or inner == {} or name not in node.fields:
                yield where
    elif isinstance(value, list) and shape(node, value) is Shape.LIST:
        for element, items in indexed(node, value).items():
            where = (*path, element)
            yield where
            if len(items) == 1:
                yield from _field_set(items_of(node), items[0], where)
    elif shape(node, value) is Shape.LEAF:
        yield path


def with_parents(node: Node, found: Paths) -> Paths:
    """The paths, and each declared field on the way to one of them."""
    more = set(found)
    for path in found:
        at: Node | None = node
        for depth, element in enumerate(path[:-1], 1):
            if at is None:
                break
            if element.startswith("f:"):
                name = element[2:]
                if name in at.fields:
                    more.add(path[:depth])
                at = field_of(at, name)
            else:
                at = at.items
    return frozenset(more)
