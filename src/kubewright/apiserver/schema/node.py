"""A structural schema as a tree, along which pruning and patching walk; and as JSON Schema. Pure.

Theory.      Walking OpenAPI dicts for every request would be slow, so a ``Node`` has the keywords as
             attributes. Definitions that refer to themselves (JSONSchemaProps) become cycles, so a
             node is built once and shared.
             ``jsonschema_rs`` answers "is it valid?" in a microsecond or two. It knows neither
             ``nullable`` nor ``x-kubernetes-int-or-string``, so those are rewritten here. The draft is 4,
             as OpenAPI's is: there ``3.0`` is no integer, and an exclusive bound is a boolean.
             The *strict* form forbids unknown fields as well: when an object passes it there is nothing to
             prune or to report. *Whole*, it also forbids each number that Go would write otherwise than it
             was sent (``3.0``, or 2^63, which is a float there): ``gojson.whole`` rewrites those.
Invariants.  Nodes do not change once ``build`` has returned. What the rewritten schema accepts is what
             kube-apiserver accepts; the messages are made in ``causes``.
Continues    in ``walk`` and ``compiled``.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson


def at(obj: Any, path: str, otherwise: Any = None) -> Any:
    """The value at a dotted path, or ``otherwise`` where something on the way is missing or null."""
    for name in path.split("."):
        obj = obj.get(name) if isinstance(obj, dict) else None
    return otherwise if obj is None else obj


Object = dict[str, Any]
"""A decoded API object, as JSON gives it."""


MISSING: Final = object()
"""No default: ``None`` would be one."""

OBJECT_META: Final = "#/components/schemas/meta.v1.ObjectMeta"
"""The one definition to which a custom resource's schema refers, implicitly."""

OpenApi = Mapping[str, Any]
Resolve = Callable[[str], "Node"]


class Node:
    """One place of a schema. ``values`` describes a map's values, ``items`` a list's items.

    ``atomic``    a map that has one manager as a whole (x-kubernetes-map-type).
    ``open``      unknown fields are kept here (x-kubernetes-preserve-unknown-fields).
    ``embedded``  the object is a whole API object with apiVersion, kind and metadata.
    ``defaults``  this node or one below it has a default; without one, defaulting skips the subtree. Of
                  an object it visits only ``default_fields``.
    ``unique``    the same for lists whose items must differ, with ``unique_fields``.
    ``zero``      what a Go encoder writes for this field when it was not set, if it writes anything.
    ``struct``    the Go struct that built-in definitions come from, e.g. ``v1.PodSpec``.
    """

    __slots__ = (
        "atomic", "default", "default_bytes", "default_fields", "defaults", "embedded", "fields", "format",
        "go", "items", "list_keys", "list_type", "merge_key", "nullable", "open", "strategies", "struct",
        "type", "unique", "unique_fields", "values", "zero",
    )  # fmt: skip

    def __init__(self) -> None:
        self.type = ""
        self.format = ""
        self.go = ""
        self.struct = ""
        self.fields: dict[str, Node] = {}
        self.values: Node | None = None
        self.items: Node | None = None
        self.atomic = False
        self.open = False
        self.embedded = False
        self.nullable = False
        self.default: Any = MISSING
        self.default_bytes = 0
        self.zero: Any = MISSING
        self.defaults = False
        self.default_fields: tuple[tuple[str, Node], ...] = ()
        self.merge_key: str | None = None
        self.strategies: frozenset[str] = frozenset()
        self.list_type = ""
        self.list_keys: tuple[str, ...] = ()
        self.unique = False
        self.unique_fields: tuple[tuple[str, Node], ...] = ()

    @property
    def has_default(self) -> bool:
        return self.default is not MISSING


ANYTHING: Final = Node()
"""The values of a map about which its schema says nothing (``additionalProperties: true``)."""


def unresolved(ref: str) -> Node:
    """For schemas that cannot contain references: those of CustomResourceDefinitions."""
    raise ValueError(f"$ref {ref!r} is not allowed here")


def build(schema: OpenApi, resolve: Resolve = unresolved, *, into: Node | None = None) -> Node:
    """The tree of a schema; ``resolve`` gives the (maybe unfinished) node of a reference."""
    node = into or Node()
    if (ref := schema.get("$ref")) is not None:
        _copy_into(node, resolve(ref))
    else:
        _shape(node, schema, resolve)
    _extensions(node, schema)
    if node.embedded:
        _embed(node, resolve)
    _sum_up(node)
    return node


def _sum_up(node: Node) -> None:
    """Note which children have defaults or unique lists. Metadata is handled elsewhere."""
    own = [(name, child) for name, child in node.fields.items() if not (node.embedded and name == "metadata")]
    inner = [child for child in (node.values, node.items) if child is not None]
    node.default_fields = tuple((name, child) for name, child in own if child.defaults)
    node.unique_fields = tuple((name, child) for name, child in own if child.unique)
    node.defaults = node.has_default or bool(node.default_fields) or any(child.defaults for child in inner)
    node.unique = (
        node.list_type in ("set", "map") or bool(node.unique_fields) or any(child.unique for child in inner)
    )


def _copy_into(node: Node, target: Node) -> None:
    """Share the content of a definition; keywords beside the reference are the node's own."""
    for name in ("type", "format", "struct", "fields", "values", "items", "open", "atomic", "strategies"):
        setattr(node, name, getattr(target, name))


def _shape(node: Node, schema: OpenApi, resolve: Resolve) -> None:
    node.type = schema.get("type", "")
    node.format = schema.get("format", "")
    for name, child in schema.get("properties", {}).items():
        node.fields[name] = build(child, resolve)
    values = schema.get("additionalProperties")
    if isinstance(values, Mapping):
        node.values = build(values, resolve)
    elif values is True:
        node.values = ANYTHING
    if (items := schema.get("items")) is not None:
        node.items = build(items, resolve)


def _embed(node: Node, resolve: Resolve) -> None:
    """An embedded API object: the schema need not declare apiVersion, kind and metadata."""
    node.fields["metadata"] = resolve(OBJECT_META)
    for name in ("apiVersion", "kind"):
        node.fields.setdefault(name, build({"type": "string"}))


def _extensions(node: Node, schema: OpenApi) -> None:
    node.go = schema.get("x-go-type", node.go)
    node.atomic = schema.get("x-kubernetes-map-type", "atomic" if node.atomic else "") == "atomic"
    node.open = bool(schema.get("x-kubernetes-preserve-unknown-fields", node.open))
    node.embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    node.nullable = bool(schema.get("nullable"))
    node.zero = schema.get("x-go-zero", MISSING)
    node.default = schema.get("default", MISSING)
    if node.default is None and not node.nullable:
        node.default = MISSING
    node.default_bytes = 0 if node.default is MISSING else len(orjson.dumps(node.default))
    node.list_type = schema.get("x-kubernetes-list-type", "")
    node.list_keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
    node.merge_key = schema.get("x-kubernetes-patch-merge-key")
    if strategy := schema.get("x-kubernetes-patch-strategy"):
        node.strategies = frozenset(strategy.split(","))


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
