"""Built-in kinds as protobuf: what Go clients send unless they are told otherwise.

Theory.      client-go's typed clients write ``application/vnd.kubernetes.protobuf``, and so does
             ``kubectl create deployment``. They accept JSON answers, so only requests are decoded.
             A body is a magic word, an envelope with apiVersion and kind, and the object. The
             numbers of its fields are in ``builtin.json``. Go writes every field that is not a
             pointer, zeros included: those count as absent and are left out, as in its JSON.
Invariants.  Pure; for any bytes the outcome is an object or ``Undecodable``.
Called by    ``http.bodies``.
"""

import base64
import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from kubewright.apiserver.schema.builtin import GROUPS, table
from kubewright.apiserver.schema.node import Object
from kubewright.base.clock import rfc3339, rfc3339_micro
from kubewright.wire import gojson
from kubewright.wire.gvk import split_api_version

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PACKAGES = {group: package for package, group in GROUPS.items()}

_BROKEN = (ValueError, LookupError, AttributeError, TypeError, OverflowError, RecursionError, struct.error)
"""What decoding a malformed body may raise."""

Wire = tuple[int, int, Any]
"""Field number, wire type, and an int or the bytes."""


class Undecodable(ValueError):
    """The bytes are not an object of a known kind; the message says why."""


def decode(body: bytes) -> Object:
    """The object in a protobuf body, as its JSON would be.

    Raises:
        Undecodable: it is malformed, or of a kind without a protobuf form here.
    """
    if not body.startswith(_MAGIC):
        words = "provided data does not appear to be a protobuf message, expected prefix 6b 38 73 00"
        raise Undecodable(words)
    try:
        envelope = {number: value for number, _, value in _fields(body[len(_MAGIC) :])}
        head = {number: value.decode() for number, _, value in _fields(envelope.get(1, b""))}
        api_version, kind = head.get(1, ""), head.get(2, "")
        found = _message(_definition(api_version, kind), envelope.get(2, b""))
    except _BROKEN as error:
        raise Undecodable(f"cannot read protobuf: {error}") from None
    if not gojson.writable(found):
        raise Undecodable(f"cannot read protobuf: {gojson.TooDeep()}")
    return {"apiVersion": api_version, "kind": kind, **found}


def _definition(api_version: str, kind: str) -> str:
    group, version = split_api_version(api_version)
    package = "meta" if kind == "DeleteOptions" else _PACKAGES.get(group, "")
    name = f"{package}.{version}.{kind}"
    if name not in table("builtin.json"):
        raise ValueError(f'no kind "{kind}" is registered for version "{api_version}"')
    return name


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("varint too long")


def _fields(data: bytes) -> Iterator[Wire]:
    """Every field of a message, in order."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        value: Any
        if wire == _VARINT:
            value, at = _varint(data, at)
        else:
            if wire == _BYTES:
                size, at = _varint(data, at)
            else:
                size = {_DOUBLE: 8, _FLOAT: 4}[wire]
            value = data[at : at + size]
            at += size
            if len(value) != size:
                raise ValueError("unexpected EOF")
        yield number, wire, value


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _inside(value: bytes) -> dict[int, Any]:
    return {number: inner for number, _, inner in _fields(value)}


def _moment(value: bytes) -> datetime | None:
    """A Timestamp; None for an empty one."""
    given = _inside(value)
    if not given:
        return None
    return _EPOCH + timedelta(seconds=_signed(given.get(1, 0)), microseconds=given.get(2, 0) // 1000)


def _time(value: bytes) -> str | None:
    moment = _moment(value)
    return None if moment is None else rfc3339(moment)


def _micro_time(value: bytes) -> str | None:
    moment = _moment(value)
    return None if moment is None else rfc3339_micro(moment)


def _quantity(value: bytes) -> str:
    return str(_inside(value).get(1, b"0").decode() or "0")


def _int_or_string(value: bytes) -> int | str:
    given = _inside(value)
    return given.get(3, b"").decode() if given.get(1) else _signed(given.get(2, 0))


def _json(value: bytes) -> Any:
    raw = _inside(value).get(1, b"")
    return gojson.loads(raw) if raw else None


_SCHEMA = "apiextensions.v1.JSONSchemaProps"


def _schema_or_array(value: bytes) -> Any:
    given = list(_fields(value))
    many = [_message(_SCHEMA, inner) for number, _, inner in given if number == 2]
    return many or _first_schema(given)


def _schema_or_bool(value: bytes) -> Any:
    given = _inside(value)
    return _message(_SCHEMA, given[2]) if 2 in given else bool(given.get(1))


def _schema_or_strings(value: bytes) -> Any:
    given = list(_fields(value))
    names = [inner.decode() for number, _, inner in given if number == 2]
    return names or _first_schema(given)


def _first_schema(given: list[Wire]) -> Object:
    return next((_message(_SCHEMA, inner) for number, _, inner in given if number == 1), {})


_SCALARS: Mapping[str, Callable[[Any], Any]] = {
    "string": lambda value: value.decode(),
    "bytes": lambda value: base64.b64encode(value).decode(),
    "bool": bool,
    "int32": _signed,
    "int64": _signed,
    "double": lambda value: struct.unpack("<d", value)[0],
    "time": _time,
    "microtime": _micro_time,
    "quantity": _quantity,
    "int-or-string": _int_or_string,
    "object": _json,
    "raw": _json,
    "json": _json,
    "schema-or-array": _schema_or_array,
    "schema-or-bool": _schema_or_bool,
    "schema-or-strings": _schema_or_strings,
}


class _Layout:
    """Where a message's fields go: by number to a JSON name, or to an inlined struct's own layout."""

    def __init__(self) -> None:
        self.fields: dict[int, tuple[str, str]] = {}
        self.inlined: dict[int, _Layout] = {}

    def put(self, path: str, name: str, kind: str) -> None:
        number, _, rest = path.partition(".")
        if rest:
            self.inlined.setdefault(int(number), _Layout()).put(rest, name, kind)
        else:
            self.fields[int(number)] = (name, kind)


@cache
def _layout(definition: str) -> _Layout:
    layout = _Layout()
    for name, line in table("builtin.json")[definition].items():
        if name and not line.startswith("0 "):
            path, kind, *_ = line.split(" ")
            layout.put(path, name, kind)
    return layout


def _message(definition: str, data: bytes) -> Object:
    found: Object = {}
    _read(_layout(definition), data, found)
    return found


def _read(layout: _Layout, data: bytes, found: Object) -> None:
    for number, _, value in _fields(data):
        if (inlined := layout.inlined.get(number)) is not None:
            _read(inlined, value, found)
        elif (field := layout.fields.get(number)) is not None:
            _put(found, *field, value)


def _put(found: Object, name: str, kind: str, value: Any) -> None:
    """One field's value into the object. A zero is kept only where the Go field is a pointer."""
    plain = kind.removeprefix("*")
    if plain.startswith("["):
        found.setdefault(name, []).append(_value(plain[1:-1], value))
    elif plain.startswith("{"):
        key, inner = _entry(plain[1:-1], value)
        found.setdefault(name, {})[key] = inner
    elif (read := _value(plain, value)) is not None and (read not in ("", 0, {}) or plain != kind):
        found[name] = read


def _entry(kind: str, value: bytes) -> tuple[str, Any]:
    """One entry of a map. Lists as values are wrapped into a message of their own."""
    given = _inside(value)
    inner = given.get(2, 0 if kind in ("int32", "int64", "bool") else b"")
    if kind.startswith("["):
        return given.get(1, b"").decode(), [_value(kind[1:-1], item) for _, _, item in _fields(inner)]
    return given.get(1, b"").decode(), _value(kind, inner)


def _value(kind: str, value: Any) -> Any:
    scalar = _SCALARS.get(kind)
    return _message(kind, value) if scalar is None else scalar(value)
