"""Walks over a schema's tree: pruning, defaults, what is unknown or twice there, Go's type errors.

Theory.      A custom resource keeps only what its schema names. Everything else is dropped
             silently, or reported when the client asks for strict validation. Both follow the same
             rule: ``unknown_fields`` reports, ``prune`` drops.
             Built-in kinds are Go structs at kube-apiserver: a value of the wrong type is refused by the
             decoder, before any validation, with the first such value in the order of the document
             (``first_error``).
Invariants.  Nothing here changes its argument: an object that differs is a new one, and shares what
             did not change. Values of a wrong type are left as
             they are: ``validate`` reports those.
"""

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

import orjson

from kubewright.apiserver.schema.causes import Cause, duplicate
from kubewright.apiserver.schema.formats import is_base64
from kubewright.apiserver.schema.node import MISSING, QUANTITY, Node
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


_QUANTITY = re.compile(QUANTITY)
_QUANTITY_WORDS = (
    r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_LIMITS = {"int32": 2**31, "int64": 2**63}


def first_error(node: Node, value: Any) -> str | None:
    """The message for the first value that Go cannot decode, in document order; None if there is none."""
    return next(_errors(node, value, f"Go value of type {node.struct}", ""), None)


def _errors(node: Node, value: Any, place: str, path: str) -> Iterator[str]:
    """``place`` is how Go names the field that ``value`` goes into, its type included."""
    if value is None:
        return
    if (sentence := _mismatch(node, value)) is not None:
        yield sentence.replace("{place}", place)
    elif isinstance(value, dict) and node.fields:
        owner = node.struct.rpartition(".")[2]
        for name, inner in value.items():
            if (child := node.fields.get(name)) is not None:
                where = f"{path}.{name}" if path else name
                inner_place = f"Go struct field {owner}.{where} of type {go_type(child)}"
                yield from _errors(child, inner, inner_place, where)
    elif isinstance(value, dict) and node.values is not None:
        yield from _inside(node.values, value.values(), place, path)
    elif isinstance(value, list) and node.items is not None:
        yield from _inside(node.items, value, place, path)


def _inside(node: Node, values: Any, place: str, path: str) -> Iterator[str]:
    """Items and map values are named by their field, with their own type."""
    inner_place = f"{place.rpartition(' ')[0]} {go_type(node)}"
    for value in values:
        yield from _errors(node, value, inner_place, path)


def _mismatch(node: Node, value: Any) -> str | None:
    """The message for a value of a wrong type, with ``{place}`` for the field; None if the type is right."""
    match node.type, node.format:
        case _, "quantity":
            return None if _is_quantity(value) else _QUANTITY_WORDS
        case _, "int-or-string":
            return None if isinstance(value, str) or _fits(value, "int32") else _unmarshal(value, number=True)
        case "integer", width:
            return None if _fits(value, width) else _unmarshal(value, number=True)
        case "number", _:
            return None if isinstance(value, int | float) and value is not True else _unmarshal(value)
        case "string", form:
            return _text_error(value, form, node.go) if isinstance(value, str) else _unmarshal(value)
        case "boolean", _:
            return None if isinstance(value, bool) else _unmarshal(value)
        case "array", _:
            return None if isinstance(value, list) else _unmarshal(value)
        case "object", _:
            return None if isinstance(value, dict) else _unmarshal(value)
    return None


def _fits(value: Any, width: str) -> bool:
    limit = _LIMITS.get(width, 2**63)
    return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit


def _is_quantity(value: Any) -> bool:
    if isinstance(value, str):
        return _QUANTITY.match(value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text_error(value: str, form: str, go: str) -> str | None:
    if form == "date-time":
        return _time_error(value, ".000000" if go == "v1.MicroTime" else "")
    if form == "byte" and not is_base64(value):
        return f"illegal base64 data at input byte {_good_bytes(value)}"
    return None


def _time_error(value: str, fraction: str) -> str | None:
    """Go reads a fraction of any length where it expects none, and of exactly six digits in a MicroTime."""
    layout = f'parsing time "{value}" as "2006-01-02T15:04:05{fraction}Z07:00": cannot parse'
    try:
        parse_rfc3339(value)
    except ValueError:
        return f'{layout} "{value}" as "2006"'
    if not fraction or _SIX_DIGITS.match(rest := value[_SECONDS:]):
        return None
    left = rest[7:] if _MORE_DIGITS.match(rest) else rest
    return f'{layout} "{left}" as "{"Z07:00" if left != rest else fraction}"'


_SECONDS = len("2006-01-02T15:04:05")
_SIX_DIGITS, _MORE_DIGITS = re.compile(r"\.[0-9]{6}(Z|[+-])"), re.compile(r"\.[0-9]{7}")


def _good_bytes(value: str) -> int:
    good = re.match(r"[A-Za-z0-9+/]*", value)
    return len(good[0]) if good else 0


_FOUND = {bool: "bool", int: "number", float: "number", str: "string", list: "array"}


def _unmarshal(value: Any, *, number: bool = False) -> str:
    """Where a number was expected, Go shows the number that does not fit."""
    found = _FOUND.get(type(value), "object")
    if number and found == "number":
        found = f"number {value}"
    return f"json: cannot unmarshal {found} into {{place}}"


_GO = {"string": "string", "boolean": "bool", "number": "float64"}


def go_type(node: Node) -> str:
    """The Go type of a field: ``int32``, ``[]v1.Container``, ``map[string]string``, ``v1.PodSpec``."""
    if node.struct:
        return node.struct
    if node.format == "int-or-string":
        return "int32"
    if node.type == "integer":
        return node.format
    if node.items is not None:
        return f"[]{go_type(node.items)}"
    if node.values is not None:
        return "v1.ResourceList" if node.values.format == "quantity" else f"map[string]{go_type(node.values)}"
    return "[]uint8" if node.format == "byte" else _GO.get(node.type, "interface {}")
