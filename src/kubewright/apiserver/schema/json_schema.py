"""From OpenAPI as Kubernetes writes it to JSON Schema as a validator reads it.

Theory.      ``jsonschema-rs`` answers "is it valid?" in a microsecond or two. It knows neither
             ``nullable`` nor ``x-kubernetes-int-or-string``, so those are rewritten here. The draft is 4,
             as OpenAPI's is: there ``3.0`` is no integer, and an exclusive bound is a boolean.
             The *strict* form forbids unknown fields as well: when an object passes it there is nothing to
             prune or to report. *Whole*, it also forbids each number that Go would write otherwise than it
             was sent (``3.0``, or 2^63, which is a float there): ``gojson.whole`` rewrites those.
Invariants.  Pure. What the rewritten schema accepts is what kube-apiserver accepts; the
             messages are made in ``causes``.
"""

from collections.abc import Mapping
from typing import Any

OpenApi = Mapping[str, Any]
Json = dict[str, Any]

_COPIED = (
    "enum", "maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength", "minProperties",
    "minimum", "multipleOf", "pattern", "required", "uniqueItems",
)  # fmt: skip
_NUMBERS: Mapping[str, tuple[float, float]] = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "float": (-3.4028234663852886e38, 3.4028234663852886e38),
}
_INT64: Json = dict(zip(("minimum", "maximum"), _NUMBERS["int64"], strict=True))
_LEAVES = ["string", "number", "boolean", "null"]
_VALUES = [*_LEAVES[:-1], "array", "object"]
_NO_NUMBER = ["string", "boolean", "null", "array", "object"]
_WHOLE_NUMBER: Json = {
    "anyOf": [{"type": _NO_NUMBER}, {"type": "integer", **_INT64}, {"not": {"multipleOf": 1}}]
}
"""A number that Go writes as it was sent: an integer that an int64 holds, or one with a fraction."""
_META: Json = {"type": "object"}
_STRICT_META: Json = {"$ref": "#/$defs/meta.v1.ObjectMeta"}
QUANTITY = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"


_SECOND = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}"
_TIMES: Mapping[str, str] = {"v1.Time": _SECOND + "Z$", "v1.MicroTime": _SECOND + r"\.[0-9]{6}Z$"}
"""How Go writes the times of built-in kinds: what came otherwise is not taken as it is."""

WHOLE = "whole"
"""The definition of any value whose numbers Go writes as they were sent; what is whole refers to it."""
_WHOLE_REF: Json = {"$ref": f"#/$defs/{WHOLE}"}


def json_schema(schema: OpenApi, *, strict: bool, whole: bool = False) -> Json:
    """The JSON Schema (draft 4) of a structural schema; ``whole`` only where it is strict."""
    if (ref := schema.get("$ref")) is not None:
        return {"$ref": "#/$defs/" + ref.rpartition("/")[2]}
    out: Json = {key: schema[key] for key in _COPIED if key in schema}
    _types(out, schema)
    _exclusive(out, schema)
    if strict and (pattern := _TIMES.get(schema.get("x-go-type", ""))):
        out["pattern"] = pattern
    if strict and schema.get("format") == "quantity":
        out["type"] = [*(each for each in out["type"] if each != "number"), "integer"]  # a fraction: as text
    if strict and "type" not in out and not schema.get("nullable"):
        out["type"] = _VALUES
    for key in ("allOf", "anyOf", "oneOf"):
        if key in schema and not _only_types(key, schema):
            out[key] = [json_schema(part, strict=False) for part in schema[key]]
    if more := [*_ranges(schema), *(_numbers(schema) if whole else ())]:
        out["allOf"] = [*out.get("allOf", ()), *more]
    if "not" in schema:
        out["not"] = json_schema(schema["not"], strict=False)
    _insides(out, schema, strict=strict, whole=whole)
    return out


def any_whole() -> Json:
    """The definition ``WHOLE``."""
    return {
        "type": [*_VALUES, "null"],
        "items": _WHOLE_REF,
        "additionalProperties": _WHOLE_REF,
        **_WHOLE_NUMBER,
    }


def _types(out: Json, schema: OpenApi) -> None:
    if schema.get("x-kubernetes-int-or-string"):
        out["type"] = ["integer", "string"]
    elif "type" in schema:
        out["type"] = [schema["type"]]
    if "type" in out and schema.get("nullable"):
        out["type"] = [*out["type"], "null"]
    if schema.get("format") == "quantity":
        out["type"], out["pattern"] = [*out["type"], "number"], QUANTITY
    elif "format" in schema and "integer" not in out.get("type", ()):
        out["format"] = schema["format"]


def _exclusive(out: Json, schema: OpenApi) -> None:
    """Draft 4 allows the keyword beside its bound only; alone it means nothing."""
    for bound in ("Minimum", "Maximum"):
        if schema.get(f"exclusive{bound}") is True and bound.lower() in out:
            out[f"exclusive{bound}"] = True


def _only_types(key: str, schema: OpenApi) -> bool:
    """``anyOf: [integer, string]`` beside int-or-string is redundant."""
    return key == "anyOf" and bool(schema.get("x-kubernetes-int-or-string"))


def _ranges(schema: OpenApi) -> list[Json]:
    limits = _NUMBERS.get(schema.get("format", ""))
    return [] if limits is None else [dict(zip(("minimum", "maximum"), limits, strict=True))]


def _numbers(schema: OpenApi) -> list[Json]:
    """What is whole about the numbers of a place itself."""
    if schema.get("x-kubernetes-int-or-string") or schema.get("type") == "integer":
        return [] if schema.get("format") in ("int32", "int64") else [dict(_INT64)]
    if "type" not in schema:
        return [dict(_WHOLE_REF)]
    return [dict(_WHOLE_NUMBER)] if schema["type"] == "number" else []


def _insides(out: Json, schema: OpenApi, *, strict: bool, whole: bool) -> None:
    def inner(part: OpenApi) -> Json:
        return json_schema(part, strict=strict, whole=whole)

    opened = schema.get("x-kubernetes-preserve-unknown-fields")
    if "items" in schema:
        out["items"] = inner(schema["items"])
    elif whole and schema.get("type") == "array":
        out["items"] = dict(_WHOLE_REF)
    if "properties" in schema:
        out["properties"] = {name: inner(part) for name, part in schema["properties"].items()}
    values = schema.get("additionalProperties")
    if isinstance(values, Mapping):
        out["additionalProperties"] = inner(values)
    elif strict and schema.get("type") == "object" and not opened:
        out["additionalProperties"] = {"type": _LEAVES, **_WHOLE_NUMBER} if values is True else False
    elif whole and schema.get("type") == "object":
        out["additionalProperties"] = dict(_WHOLE_REF)
    if schema.get("x-kubernetes-embedded-resource"):
        meta = dict(_STRICT_META if strict else _META)
        envelope: Json = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": meta}
        out["properties"] = out.get("properties", {}) | envelope
        out["required"] = sorted({*out.get("required", ()), "apiVersion", "kind"})
