"""JSON, with the error messages of Go's decoder: users and clients of Kubernetes search for them."""

from typing import Any

import orjson

_NAMES = {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object"}


class Unreadable(ValueError):
    """The bytes are not JSON; the message says why."""


def loads(data: bytes) -> Any:
    """The value of a JSON document.

    Raises:
        Unreadable
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        short = not data.strip() or str(error).startswith("unexpected end of data")
        raise Unreadable("unexpected end of JSON input" if short else str(error)) from None


def cannot_unmarshal(value: Any, wanted: str) -> str:
    """Go's message for a value of a wrong type: ``json: cannot unmarshal array into Go value of type …``."""
    return f"json: cannot unmarshal {_NAMES.get(type(value), 'null')} into Go value of type {wanted}"
