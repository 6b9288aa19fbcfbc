"""The messages of Go's JSON decoder, for objects with wrong JSON types.

Theory.      kube-apiserver decodes a built-in kind into a Go struct, and a custom resource's
             metadata as well. The first value of a wrong type fails with an error that names the
             struct, the path without indexes, and the Go type. Clients show it to users, so the
             message is the same here.
Called by    ``builtin``, ``structural``; ``registry.intake`` answers 400 with the message.
"""

import re
from collections.abc import Iterator
from typing import Any

from kubewright.apiserver.schema.formats import is_base64
from kubewright.apiserver.schema.json_schema import QUANTITY
from kubewright.apiserver.schema.node import Node
from kubewright.base.clock import parse_rfc3339

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
