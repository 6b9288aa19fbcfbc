"""JSON, with the error messages of Go's decoder: users and clients of Kubernetes search for them."""

import re
from typing import Any

import orjson

MOST_DEPTH = 240
"""Levels of nesting that a document may have. Go's decoder takes 10,000; ``orjson`` writes 254, and what the
server puts around an object, such as a list or the fields of its managers, takes a few of these."""

_SPARE = 254 - MOST_DEPTH
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[{\]}]', re.DOTALL)

_NAMES = {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object"}


class Unreadable(ValueError):
    """The bytes are not JSON; the message says why."""


class TooDeep(Unreadable):
    """They are nested too deep; ``bracket`` opens one level too many."""

    def __init__(self, bracket: str = "{") -> None:
        super().__init__(f"invalid character '{bracket}' exceeded max depth")


def loads(data: bytes) -> Any:
    """The value of a JSON document.

    Raises:
        Unreadable
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if bracket := _too_many(data):
            raise TooDeep(bracket) from None
        short = not data.strip() or str(error).startswith("unexpected end of data")
        raise Unreadable("unexpected end of JSON input" if short else str(error)) from None
    if _may_be_deep(data) and not writable(value):
        raise TooDeep(_too_many(data))
    return value


def writable(value: Any) -> bool:
    """Whether a value has no more levels of nesting than ``MOST_DEPTH``."""
    for _ in range(_SPARE):
        value = [value]
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError:
        return False
    return True


LEVEL_OF_OBJECT, LEVEL_OF_EVENT, LEVEL_OF_LIST = 2, 3, 4
"""How many brackets stand around ``spec.replicas`` in an object, in an event of a watch, in a list."""

MOST_READ = 400
"""Levels that every reader of JSON here can read, wherever it is called. A real API server takes 10,000."""

OMITTED = b'"it is nested too deeply"'
"""Stands for a value that was cut out: a text, so that no reader takes what is left for the whole."""


def shallow(data: bytes, level: int) -> bytes:
    """A document in which ``OMITTED`` stands for each value that is nested too deep to be read.

    A value begins where ``level`` brackets are open. Without this one object of one user would make the list
    of its kind unreadable. The same bytes where no value is nested deeper than ``MOST_READ`` levels.
    """
    if data.count(b"{") + data.count(b"[") <= MOST_READ:
        return data
    parts, kept, start, depth, deepest = list[bytes](), 0, 0, 0, 0
    for token in _TOKENS.finditer(data):
        found = token.group()
        if found in b"[{":
            if depth == level:
                start, deepest = token.start(), 0
            depth += 1
            deepest = max(deepest, depth)
        elif found in b"]}":
            depth -= 1
            if depth == level and deepest > MOST_READ:
                parts += (data[kept:start], OMITTED)
                kept = token.end()
    return b"".join((*parts, data[kept:]))


def _may_be_deep(data: bytes) -> bool:
    return data.count(b"{") + data.count(b"[") > MOST_DEPTH


def _too_many(data: bytes) -> str:
    """The bracket that opens one level too many; empty if none does."""
    depth = 0
    for token in _TOKENS.finditer(data) if _may_be_deep(data) else ():
        found = token.group()
        depth += (found in b"[{") - (found in b"]}")
        if depth > MOST_DEPTH:
            return found.decode()
    return ""


LARGEST_WHOLE = 2**53 - 1
"""The largest float that counts as an integer: above, not every integer has a float of its own."""


def whole(value: Any) -> Any:
    """The value with its numbers as they come out of a Go program that has no types for it.

    Its decoder makes an int64 of ``3``, and a float of ``3.0``, of ``1e3`` and of what no int64 holds; its
    encoder writes the float 3.0 as ``3``. The same object when nothing is to be changed.
    """
    kind = type(value)
    if kind is dict:
        fresh = {name: whole(inner) for name, inner in value.items()}
        return value if all(fresh[name] is inner for name, inner in value.items()) else fresh
    if kind is list:
        items = [whole(item) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    if kind is float:
        return int(value) if value.is_integer() and abs(value) <= LARGEST_WHOLE else value
    if kind is int:
        return value if -(2**63) <= value < 2**63 else float(value)
    return value


def cannot_unmarshal(value: Any, wanted: str) -> str:
    """Go's message for a value of a wrong type: ``json: cannot unmarshal array into Go value of type …``."""
    return f"json: cannot unmarshal {_NAMES.get(type(value), 'null')} into Go value of type {wanted}"
