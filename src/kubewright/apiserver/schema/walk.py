"""Walks along a schema: which fields are unknown, an object without them, an object with defaults.

Theory.      A custom resource keeps only what its schema names. Everything else is dropped without
             a word, or reported when the client asked for strict validation; both follow the same
             rule, so one walk reports and the other drops, side by side in this file.
Invariants.  Nothing here changes its argument: whoever gets an object back that differs gets a
             new one, sharing what did not change. Values of the wrong type are left alone,
             ``validate`` speaks about those.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Any

from kubewright.apiserver.schema.node import MISSING, Node

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


def default(node: Node, value: Any) -> Any:
    """``value`` with defaults; the same object when nothing was missing."""
    if not node.defaults:
        return value
    if isinstance(value, dict):
        return _default_map(node, value)
    if isinstance(value, list) and node.items is not None:
        items = node.items
        return _each(value, lambda item: default(items, item))
    return value


def _default_map(node: Node, value: dict[str, Any]) -> dict[str, Any]:
    filled = dict(value)
    for name, child in node.default_fields:
        _fill(filled, name, child)
    if node.values is not None and node.values.defaults:
        for name in value.keys() - node.fields.keys():
            _fill(filled, name, node.values)
    same = filled.keys() == value.keys() and all(filled[name] is value[name] for name in value)
    return value if same else filled


def _fill(filled: dict[str, Any], name: str, child: Node) -> None:
    """Default one field. A null where null is not allowed counts as missing."""
    value = filled.get(name, MISSING)
    if value is MISSING or (value is None and not child.nullable):
        if child.default is MISSING:
            return
        value = copy.deepcopy(child.default)
    filled[name] = default(child, value)


def drop_nulls(node: Node, value: Any) -> Any:
    """``value`` without nulls in fields that may not be null: kube-apiserver takes them for absent.

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
