"""Walks over a schema's tree: unknown fields, pruning, defaults, nulls, times, quantities, duplicate items.

Theory.      A custom resource keeps only what its schema names. Everything else is dropped
             silently, or reported when the client asks for strict validation. Both follow the same
             rule: ``unknown_fields`` reports, ``prune`` drops.
Invariants.  Nothing here changes its argument: an object that differs is a new one, and shares what
             did not change. Values of a wrong type are left as
             they are: ``validate`` reports those.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

import orjson

from kubewright.apiserver.registry.kind import Cause
from kubewright.apiserver.schema.causes import duplicate
from kubewright.apiserver.schema.node import MISSING, Node
from kubewright.base.clock import parse_rfc3339, rfc3339, rfc3339_micro
from kubewright.wire.errors import TooLarge
from kubewright.wire.quantity import shown

DEFAULTED_BYTES = 3 * 1024 * 1024
"""Bytes that defaults may add to one object, as much as a request may have."""

_NOTHING = Node()


def _child(node: Node, name: str) -> Node | None:
    """The node of a field; None when the field is unknown here."""
    return node.fields.get(name) or node.values


def unknown_fields(node: Node, value: Any, path: str = "") -> Iterator[str]:
    """Paths of unknown fields in the order of the document."""
    if isinstance(value, dict):
        for name, inner in value.items():
            child = _child(node, name)
            where = f"{path}.{name}" if path else name
            if child is not None:
                yield from unknown_fields(child, inner, where)
            elif not node.open:
                yield where
    elif isinstance(value, list) and (node.items is not None or not node.open):
        for index, item in enumerate(value):
            yield from unknown_fields(node.items or _NOTHING, item, f"{path}[{index}]")


def prune(node: Node, value: Any) -> Any:
    """``value`` without unknown fields; the same object when there are none."""
    if isinstance(value, dict):
        return _prune_map(node, value)
    if isinstance(value, list) and (node.items is not None or not node.open):
        return _each(value, lambda item: prune(node.items or _NOTHING, item))
    return value


def _prune_map(node: Node, value: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    changed = False
    for name, inner in value.items():
        child = _child(node, name)
        if child is None and not node.open:
            changed = True
            continue
        kept[name] = inner if child is None else prune(child, inner)
        changed = changed or kept[name] is not inner
    return kept if changed else value


def _each(values: list[Any], change: Callable[[Any], Any]) -> list[Any]:
    """The list with each item changed; the same list when no item did."""
    fresh = [change(value) for value in values]
    same = all(new is old for new, old in zip(fresh, values, strict=True))
    return values if same else fresh


def as_go_writes(node: Node, value: Any) -> Any:
    """``value`` with times in UTC, ``v1.Time`` in whole seconds; and quantities with a fraction as text.

    No reader of quantities expects a JSON number with a fraction or an exponent.
    """
    if isinstance(value, str):
        write = _TIMES.get(node.go)
        return value if write is None else _written(value, write)
    if isinstance(value, float) and node.format == "quantity":
        return shown(value)
    if isinstance(value, dict):
        fresh = {name: as_go_writes(_child(node, name) or _NOTHING, inner) for name, inner in value.items()}
        return value if all(fresh[name] is value[name] for name in value) else fresh
    if isinstance(value, list) and node.items is not None:
        items = node.items
        return _each(value, lambda item: as_go_writes(items, item))
    return value


_TIMES: Mapping[str, Callable[[datetime], str]] = {"v1.Time": rfc3339, "v1.MicroTime": rfc3339_micro}


def _written(text: str, write: Callable[[datetime], str]) -> str:
    try:
        written = write(parse_rfc3339(text))
    except ValueError:
        return text
    return text if written == text else written


class Allowance:
    """How many bytes defaults may still add to one object: each item of a list gets all of its own."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = DEFAULTED_BYTES

    def spend(self, size: int) -> None:
        """Take a default of this size.

        Raises:
            TooLarge: they add too much; such an object could not be stored either.
        """
        self.left -= size
        if self.left < 0:
            raise TooLarge("etcdserver: request is too large")


def default(node: Node, value: Any, allowance: Allowance | None = None) -> Any:
    """``value`` with defaults; the same object when nothing was missing.

    Raises:
        TooLarge: the defaults come to more than ``DEFAULTED_BYTES``.
    """
    if not node.defaults:
        return value
    allowance = allowance or Allowance()
    if isinstance(value, dict):
        return _default_map(node, value, allowance)
    if isinstance(value, list) and node.items is not None:
        items = node.items
        return _each(value, lambda item: default(items, item, allowance))
    return value


def _default_map(node: Node, value: dict[str, Any], allowance: Allowance) -> dict[str, Any]:
    filled = dict(value)
    for name, child in node.default_fields:
        _fill(filled, name, child, allowance)
    if node.values is not None and node.values.defaults:
        for name in value.keys() - node.fields.keys():
            _fill(filled, name, node.values, allowance)
    same = filled.keys() == value.keys() and all(filled[name] is value[name] for name in value)
    return value if same else filled


def _fill(filled: dict[str, Any], name: str, child: Node, allowance: Allowance) -> None:
    """Default one field. A null where null is not allowed counts as missing."""
    value = filled.get(name, MISSING)
    if value is MISSING or (value is None and not child.nullable):
        if child.default is MISSING:
            return
        allowance.spend(child.default_bytes)
        value = copy.deepcopy(child.default)
    filled[name] = default(child, value, allowance)


def drop_nulls(node: Node, value: Any) -> Any:
    """``value`` without nulls in fields that may not be null: for kube-apiserver they are absent.

    A null in a list stays, and is an error for ``validate``.
    """
    if isinstance(value, dict):
        kept: dict[str, Any] = {}
        changed = False
        for name, inner in value.items():
            child = node.fields.get(name) or node.values
            if inner is None and child is not None and not child.nullable:
                changed = True
                continue
            kept[name] = inner if child is None else drop_nulls(child, inner)
            changed = changed or kept[name] is not inner
        return kept if changed else value
    if isinstance(value, list) and node.items is not None:
        items = node.items
        return _each(value, lambda item: drop_nulls(items, item))
    return value


_ZEROS = {"string": "", "integer": 0, "number": 0, "boolean": False}


def zero_nulls(node: Node, value: Any) -> Any:
    """``value`` with nulls as Go's decoder takes them, for kinds that kube-apiserver has types for.

    In a field null means absent; as an item of a list or a value of a map it is the zero of its type.
    """
    if isinstance(value, dict):
        kept = {
            name: _zero(child) if inner is None else zero_nulls(child, inner)
            for name, inner in value.items()
            if inner is not None or name not in node.fields
            for child in [node.fields.get(name) or node.values or _NOTHING]
        }
        return kept if kept != value else value
    if isinstance(value, list) and node.items is not None:
        items = node.items
        return _each(value, lambda item: _zero(items) if item is None else zero_nulls(items, item))
    return value


def _zero(node: Node) -> Any:
    if node.fields or node.values is not None:
        return {}
    return "0" if node.format == "quantity" else _ZEROS.get(node.type)


def duplicates(node: Node, value: Any, path: str = "") -> Iterator[Cause]:
    """A cause for each duplicate item of a list that is a set or a map.

    ``x-kubernetes-list-type: set`` forbids equal items, ``map`` forbids equal keys. JSON Schema has no
    keyword for the second, so these are checked on the tree, and only where a schema has such lists at all.
    """
    if not node.unique:
        return
    if isinstance(value, dict):
        for name, child in node.unique_fields:
            if name in value:
                yield from duplicates(child, value[name], f"{path}.{name}" if path else name)
        if node.values is not None:
            for name in sorted(value.keys() - node.fields.keys()):
                yield from duplicates(node.values, value[name], f"{path}.{name}" if path else name)
    elif isinstance(value, list) and node.items is not None:
        yield from _twice(node, value, path)
        for index, item in enumerate(value):
            yield from duplicates(node.items, item, f"{path}[{index}]")


def _twice(node: Node, values: list[Any], path: str) -> Iterator[Cause]:
    if node.list_type not in ("set", "map"):
        return
    seen: set[bytes] = set()
    for index, item in enumerate(values):
        key = list_key(node, item)
        known = identity(key)
        if known in seen:
            yield duplicate(f"{path}[{index}]", key)
        seen.add(known)


def list_key(node: Node, item: Any) -> Any:
    """What tells an item of a list that is a map or a set from the others: its keys, or all of it."""
    if node.list_type == "set" or not isinstance(item, dict) or node.items is None:
        return item
    fields = node.items.fields
    defaults = {
        key: fields[key].default for key in node.list_keys if key in fields and fields[key].has_default
    }
    return {key: item.get(key, defaults.get(key)) for key in node.list_keys if key in item or key in defaults}


def identity(key: Any) -> bytes:
    """A key to compare by: all of it, however long, as what a message shows of it is cut."""
    return orjson.dumps(key, option=orjson.OPT_SORT_KEYS)
