"""Request bodies: JSON, YAML or protobuf to plain values, and which fields stood in them twice.

Theory.      A JSON reader keeps the last of two equal keys and says nothing. To report doubles we
             would have to read everything a second, slower time; so first we ask whether the
             value written out again is the body: then there can be no doubles. Our own clients
             and most others write compact JSON and never pay.
"""

import json
from collections.abc import Iterator
from typing import Any

import orjson
import yaml

from kubewright.apiserver.schema import protobuf
from kubewright.base.limits import BODY_BYTES
from kubewright.wire.errors import BadRequest, TooLarge, UnsupportedMedia
from kubewright.wire.http import JSON

YAML = "application/yaml"
_ACCEPTED = f"{JSON}, {YAML}, {protobuf.MEDIA_TYPE}"


def media_type(content_type: str) -> str:
    """The media type without parameters; JSON when none is given."""
    return content_type.partition(";")[0].strip().lower() or JSON


def read(body: bytes, content_type: str, kind: str) -> Any:
    """The value of a body that should be an object of ``kind``.

    Raises:
        TooLarge, UnsupportedMedia, BadRequest
    """
    if len(body) > BODY_BYTES:
        raise TooLarge(f"Request entity too large: limit is {BODY_BYTES}")
    media = media_type(content_type)
    if media == JSON:
        return _json(body, kind)
    if media in (YAML, "text/yaml"):
        return _yaml(body, kind)
    if media == protobuf.MEDIA_TYPE:
        return _protobuf(body, kind)
    said = "the body of the request was in an unknown format - accepted media types include:"
    raise UnsupportedMedia(f"{said} {_ACCEPTED}")


def read_patch(body: bytes) -> Any:
    """The value of a patch.

    Raises:
        TooLarge, BadRequest
    """
    if len(body) > BODY_BYTES:
        raise TooLarge(f"Request entity too large: limit is {BODY_BYTES}")
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"error decoding patch: {error}") from None


def doubled(body: bytes, value: Any) -> list[str]:
    """Paths of fields that stand more than once in the JSON ``body``, of which ``value`` was read."""
    if orjson.dumps(value) == body:
        return []
    try:
        pairs = json.loads(body, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return []  # YAML, which keeps no trace of doubles
    return list(_doubles(pairs, ""))


class _Pairs(list[tuple[str, Any]]):
    """An object as its fields stood."""


def _doubles(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        seen = set()
        for name, inner in value:
            where = f"{path}.{name}" if path else name
            if name in seen:
                yield where
            seen.add(name)
            yield from _doubles(inner, where)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _doubles(inner, f"{path}[{index}]")


def _json(body: bytes, kind: str) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        said = str(error) if body else "unexpected end of JSON input"
        raise _unrecognized(kind, f"couldn't get version/kind; json parse error: {said}") from None


def _yaml(body: bytes, kind: str) -> Any:
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(body, Loader=yaml.CSafeLoader)):
            raise yaml.YAMLError("aliases are not accepted")  # a few of them can mean gigabytes
        value = yaml.load(body, Loader=_Loader)
        return orjson.loads(orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS))
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        raise _unrecognized(kind, f"yaml: {str(error).splitlines()[0]}") from None


def _protobuf(body: bytes, kind: str) -> Any:
    try:
        return protobuf.decode(body)
    except protobuf.Undecodable as error:
        raise _unrecognized(kind, str(error)) from None


def _unrecognized(kind: str, why: str) -> BadRequest:
    return BadRequest(f"the object provided is unrecognized (must be of type {kind}): {why}")


class _Loader(yaml.CSafeLoader):
    """Plain data only; times stay text, as in JSON."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
