"""The notation of ``builtin.json``, and its translation into OpenAPI.

Theory.      The file has one definition per Go struct, with one line per field::

                 "replicas":   "1 *int32"
                 "template":   "3 core.v1.PodTemplateSpec required"
                 "containers": "2 [core.v1.Container] required by(name) patch(merge) key(name)"
                 "data":       "2 {bytes}"

             First comes the field's number in protobuf, ``2.1`` inside of an inlined struct. A type
             is a scalar, another definition, a list ``[…]`` or a map ``{…}``; a star: the Go field
             is a pointer, so that zero and absent differ. Keywords follow: ``required``;
             ``by(a,b)``, the keys of a list that is a map; ``set``; ``patch(…)`` and ``key(…)``,
             for strategic merge patches; ``atomic``, a map or list with one manager; ``=<json>``, a default.
             The entry with the empty name has the keywords of the whole definition.
Called by    ``builtin``, ``protobuf``; written by ``tools/builtin_schemas.py``.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import orjson

OpenApi = dict[str, Any]
Define = Callable[[OpenApi, str], None]

_ANYTHING: OpenApi = {"x-kubernetes-preserve-unknown-fields": True}
_SCALARS: Mapping[str, OpenApi] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "double": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time", "x-go-type": "v1.Time"},
    "microtime": {"type": "string", "format": "date-time", "x-go-type": "v1.MicroTime"},
    "quantity": {"x-kubernetes-int-or-string": True, "format": "quantity"},
    "int-or-string": {"x-kubernetes-int-or-string": True, "format": "int-or-string"},
    "object": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "json": _ANYTHING,
    "schema-or-array": _ANYTHING,
    "schema-or-bool": _ANYTHING,
    "schema-or-strings": _ANYTHING,
}
_ZEROS: Mapping[str, Any] = {"string": "", "bool": False, "int32": 0, "int64": 0, "double": 0}
_WORD = re.compile(r"(required|set|atomic|by|patch|key|=)(?:\(([^)]*)\))?(.*)")
REF = "#/components/schemas/"


def read_type(text: str) -> OpenApi:
    """The schema of a type: ``[string]`` is a list, ``{quantity}`` a map, ``core.v1.Pod`` a reference."""
    if text.startswith("["):
        return {"type": "array", "items": read_type(text[1:-1])}
    if text.startswith("{"):
        return {"type": "object", "additionalProperties": read_type(text[1:-1])}
    if (scalar := _SCALARS.get(text)) is not None:
        return dict(scalar)
    return {"$ref": REF + text}


def _list_keys(schema: OpenApi, keys: str) -> None:
    schema["x-kubernetes-list-type"] = "map"
    schema["x-kubernetes-list-map-keys"] = keys.split(",")


def _shape(schema: OpenApi) -> str:
    return "list" if schema.get("type") == "array" else "map"


_WORDS: Mapping[str, Define] = {
    "required": lambda schema, _: None,
    "set": lambda schema, _: schema.update({"x-kubernetes-list-type": "set"}),
    "atomic": lambda schema, _: schema.update({f"x-kubernetes-{_shape(schema)}-type": "atomic"}),
    "by": _list_keys,
    "patch": lambda schema, given: schema.update({"x-kubernetes-patch-strategy": given}),
    "key": lambda schema, given: schema.update({"x-kubernetes-patch-merge-key": given}),
    "=": lambda schema, given: schema.update({"default": orjson.loads(given)}),
}


def read_words(words: list[str], schema: OpenApi) -> OpenApi:
    """Apply the keywords to ``schema``."""
    for word in words:
        match = _WORD.fullmatch(word)
        if match is None:
            raise ValueError(f"{word!r} is not a keyword of the notation")
        _WORDS[match[1]](schema, match[2] or match[3])
    return schema


def _zero(kind: str, words: list[str]) -> OpenApi:
    """What Go writes for a field that was not set: a struct always, any other only where it is required."""
    if kind not in _SCALARS and kind[0] not in "*[{":
        return {"x-go-zero": {}}
    if "required" not in words:
        return {}
    return {"x-go-zero": _ZEROS.get(kind)}


def read_definition(lines: Mapping[str, str]) -> OpenApi:
    """A whole definition as OpenAPI; references stay references."""
    schema: OpenApi = {"type": "object", "properties": {}}
    required = []
    for name, line in lines.items():
        number, *words = line.split(" ")
        if not name:
            read_words([number, *words], schema)
            continue
        head, *words = words
        schema["properties"][name] = read_words(words, read_type(head.removeprefix("*"))) | _zero(head, words)
        if "required" in words:
            required.append(name)
    return schema | ({"required": required} if required else {})
