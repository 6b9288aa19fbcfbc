"""Request bodies: JSON, YAML or protobuf to objects, and duplicate fields in JSON.

Theory.      orjson silently keeps the last of two equal keys. Finding duplicates needs a second, slower
             parse; it is skipped where encoding the value again gives the same bytes, since then
             there are no duplicates. Our own clients and most others write compact JSON, so
             they never need it.
"""

import json
from collections.abc import Iterator
from typing import Any

import orjson

from kubewright.apiserver.schema import protobuf
from kubewright.base.limits import BODY_BYTES
from kubewright.wire import gojson, goyaml
from kubewright.wire.errors import BadRequest, TooLarge, UnsupportedMedia
from kubewright.wire.http import JSON

Object = dict[str, Any]

YAML = "application/yaml"
YAMLS = (YAML, "text/yaml", "application/x-yaml")
_ACCEPTED = f"{JSON}, {YAML}, {protobuf.MEDIA_TYPE}"
_TOO_DEEP = f"yaml: exceeded max depth of {gojson.MOST_DEPTH}"
_SHOWN = 30
"""Bytes of a body that a refusal shows."""

_HEAD = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
"""The Go type into which kube-apiserver first decodes a body."""


class _Unreadable(ValueError):
    """Why a body cannot be decoded."""


def media_type(content_type: str) -> str:
    """The media type without parameters; JSON when none is given."""
    return content_type.partition(";")[0].strip().lower() or JSON


def read(body: bytes, content_type: str, kind: str) -> Object:
    """The object in a body that should be of ``kind``.

    Raises:
        TooLarge, UnsupportedMedia, BadRequest
    """
    try:
        return _read(body, content_type)
    except _Unreadable as error:
        said = f"the object provided is unrecognized (must be of type {kind}): {error} ({_summary(body)})"
        raise BadRequest(said) from None


def read_options(body: bytes, content_type: str) -> Object:
    """The object in a body of options; an empty object for an empty body.

    Raises:
        TooLarge, UnsupportedMedia, BadRequest
    """
    try:
        return _read(body, content_type) if body else {}
    except _Unreadable as error:
        raise BadRequest(str(error)) from None


def read_patch(body: bytes, *, plainly: bool = False) -> Any:
    """The value of a patch. ``plainly`` leaves ``error decoding patch:`` out of the message.

    Raises:
        TooLarge, BadRequest
    """
    bounded(len(body))
    try:
        return gojson.loads(body)
    except gojson.Unreadable as error:
        raise BadRequest(f"{error}" if plainly else f"error decoding patch: {error}") from None


def read_applied(body: bytes) -> Any:
    """The object of an apply patch, in YAML or JSON: both are read as YAML, in which ``3.0`` is 3.

    Raises:
        TooLarge, BadRequest
    """
    bounded(len(body))
    try:
        return gojson.whole(gojson.loads(body))
    except gojson.TooDeep:
        said = f"error decoding YAML: error converting YAML to JSON: {_TOO_DEEP}"
        raise BadRequest(said) from None
    except gojson.Unreadable:
        try:
            return _yaml(body)
        except _Unreadable as error:
            raise BadRequest(f"error decoding YAML: {error}") from None


def duplicate_fields(body: bytes, value: Any) -> list[str]:
    """Paths of the fields that occur more than once in the JSON ``body``, which decodes to ``value``."""
    if orjson.dumps(value) == body:
        return []
    try:
        pairs = json.loads(body, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return []  # not JSON; in YAML and protobuf duplicates are not looked for
    return list(_duplicates(pairs, ""))


class _Pairs(list[tuple[str, Any]]):
    """The fields of an object in order, duplicates included."""


def _duplicates(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        seen = set()
        for name, inner in value:
            where = f"{path}.{name}" if path else name
            if name in seen:
                yield where
            seen.add(name)
            yield from _duplicates(inner, where)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _duplicates(inner, f"{path}[{index}]")


def _read(body: bytes, content_type: str) -> Object:
    bounded(len(body))
    media = media_type(content_type)
    if media == protobuf.MEDIA_TYPE:
        return _protobuf(body)
    if media != JSON and media not in YAMLS:
        said = "the body of the request was in an unknown format - accepted media types include:"
        raise UnsupportedMedia(f"{said} {_ACCEPTED}")
    value = _json(body) if media == JSON else _yaml(body)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _Unreadable(
            f"couldn't get version/kind; json parse error: {gojson.cannot_unmarshal(value, _HEAD)}"
        )
    return value


def bounded(size: int) -> None:
    """Refuse a body that is too large.

    Raises:
        TooLarge
    """
    if size > BODY_BYTES:
        raise TooLarge(f"Request entity too large: limit is {BODY_BYTES}")


def _json(body: bytes) -> Any:
    try:
        return gojson.loads(body)
    except gojson.Unreadable as error:
        raise _Unreadable(f"couldn't get version/kind; json parse error: {error}") from None


def _yaml(body: bytes) -> Any:
    """The value of a body in YAML; without aliases, of which a few can expand to gigabytes."""
    try:
        return goyaml.loads(body, aliases=False)
    except goyaml.Unreadable as error:
        raise _Unreadable(str(error)) from None


def _protobuf(body: bytes) -> Object:
    try:
        return protobuf.decode(body)
    except protobuf.Undecodable as error:
        raise _Unreadable(str(error)) from None


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    shown, more = body[:_SHOWN], " ..." if len(body) > _SHOWN else ""
    return (shown.decode(errors="replace") if body.startswith(b"{") else shown.hex()) + more
