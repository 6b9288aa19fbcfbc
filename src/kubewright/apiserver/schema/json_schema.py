"""From OpenAPI as Kubernetes writes it to JSON Schema as a validator reads it.

Theory.      ``jsonschema-rs`` answers "is it valid?" in a microsecond or two. It knows neither
             ``nullable`` nor ``x-kubernetes-int-or-string``, and boolean ``exclusiveMinimum`` is
             from an older draft, so those are rewritten here. The *strict* form forbids unknown
             fields as well: when an object passes it there is nothing to prune or to report.
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
_LEAVES = ["string", "number", "boolean", "null"]
_VALUES = [*_LEAVES[:-1], "array", "object"]
_META: Json = {"type": "object"}
_STRICT_META: Json = {"$ref": "#/$defs/meta.v1.ObjectMeta"}
QUANTITY = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"


def json_schema(schema: OpenApi, *, strict: bool) -> Json:
    """The JSON Schema of a structural schema: draft 2020-12, or draft 4 when it has no exclusive bounds."""
    if (ref := schema.get("$ref")) is not None:
        return {"$ref": "#/$defs/" + ref.rpartition("/")[2]}
    out: Json = {key: schema[key] for key in _COPIED if key in schema}
    _types(out, schema)
    if strict and "type" not in out and not schema.get("nullable"):
        out["type"] = _VALUES
    _ranges(out, schema)
    for key in ("allOf", "anyOf", "oneOf"):
        if key in schema and not _only_types(key, schema):
            out[key] = [json_schema(part, strict=False) for part in schema[key]]
    if "not" in schema:
        out["not"] = json_schema(schema["not"], strict=False)
    _insides(out, schema, strict=strict)
    return out


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


def _only_types(key: str, schema: OpenApi) -> bool:
    """``anyOf: [integer, string]`` beside int-or-string is redundant."""
    return key == "anyOf" and bool(schema.get("x-kubernetes-int-or-string"))


def _ranges(out: Json, schema: OpenApi) -> None:
    for bound in ("Minimum", "Maximum"):
        if schema.get(f"exclusive{bound}") is True and bound.lower() in out:
            out[f"exclusive{bound}"] = out.pop(bound.lower())
    if (limits := _NUMBERS.get(schema.get("format", ""))) is not None:
        low, high = limits
        out["allOf"] = [*out.get("allOf", ()), {"minimum": low, "maximum": high}]


def _insides(out: Json, schema: OpenApi, *, strict: bool) -> None:
    def inner(part: OpenApi) -> Json:
        return json_schema(part, strict=strict)

    if "items" in schema:
        out["items"] = inner(schema["items"])
    if "properties" in schema:
        out["properties"] = {name: inner(part) for name, part in schema["properties"].items()}
    values = schema.get("additionalProperties")
    if isinstance(values, Mapping):
        out["additionalProperties"] = inner(values)
    elif strict and schema.get("type") == "object" and not schema.get("x-kubernetes-preserve-unknown-fields"):
        out["additionalProperties"] = {"type": _LEAVES} if values is True else False
    if schema.get("x-kubernetes-embedded-resource"):
        meta = dict(_STRICT_META if strict else _META)
        envelope: Json = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": meta}
        out["properties"] = out.get("properties", {}) | envelope
        out["required"] = sorted({*out.get("required", ()), "apiVersion", "kind"})
