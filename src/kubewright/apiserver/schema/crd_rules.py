"""The rules for the schema of a CustomResourceDefinition: it must be structural.

Theory.      Structural means: every field's type is specified once, outside of ``anyOf`` and the like, so
             that pruning and defaulting know the type of each field. ``allOf``, ``anyOf``, ``oneOf`` and
             ``not`` may only narrow values. The messages are kube-apiserver's.
Called by    ``registry.custom.definition``.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kubewright.apiserver.registry.kind import Cause
from kubewright.apiserver.schema.builtin import node_of
from kubewright.apiserver.schema.causes import forbidden, invalid, required, unsupported
from kubewright.apiserver.schema.decode import first_error
from kubewright.apiserver.schema.patterns import is_pattern

OpenApi = Mapping[str, Any]

TYPES = ("array", "boolean", "integer", "number", "object", "string")
_INT_OR_STRING, _PRESERVE = "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"
_EMBEDDED, _LIST, _MAP = "x-kubernetes-embedded-resource", "x-kubernetes-list-type", "x-kubernetes-map-type"
_KEYS = "x-kubernetes-list-map-keys"
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_ONLY_OUTSIDE = ("description", "type", "additionalProperties", "nullable", "title")
"""Keywords that may not be used inside of a junctor (``allOf``, ``anyOf``, ``oneOf``, ``not``)."""


def violations(schema: OpenApi, path: str) -> Iterator[Cause]:
    """Every rule that the root schema breaks."""
    if (malformed := next(_malformed(schema, path), None)) is not None:
        yield malformed
        return
    if not schema.get("type"):
        yield required(f"{path}.type", "must not be empty at the root")
        return
    if schema["type"] != "object":
        yield invalid(f"{path}.type", schema["type"], "must be object at the root")
        return
    meta = schema.get("properties", {}).get("metadata", {})
    if meta.keys() - {"type", "properties", "description"} or meta.get("properties", {}).keys() - _META_NAMES:
        words = (
            "must not specify anything other than name and generateName, but metadata is implicitly specified"
        )
        yield forbidden(f"{path}.properties[metadata]", words)
    yield from _violations(schema, path)


def _malformed(schema: OpenApi, path: str) -> Iterator[Cause]:
    """Wrong types that the decoder does not check: ``items`` and ``additionalProperties`` may also be
    a list or a bool, so it accepts anything there."""
    for word, other in (("items", list), ("additionalProperties", bool)):
        inner = schema.get(word)
        if inner is None or isinstance(inner, other):
            continue
        if (error := first_error(node_of("apiextensions.v1.JSONSchemaProps"), inner)) is not None:
            yield Cause("FieldValueTypeInvalid", f"{path}.{word}", f"Invalid value: {error}")
            return
        yield from _malformed(inner, f"{path}.{word}")
    parts = [(f"properties[{name}]", inner) for name, inner in (schema.get("properties") or {}).items()]
    parts += [(word, inner) for word in _JUNCTORS for inner in schema.get(word) or ()]
    parts += [("not", schema["not"])] if schema.get("not") is not None else []
    for word, inner in parts:
        if not isinstance(inner, Mapping):
            yield Cause("FieldValueTypeInvalid", f"{path}.{word}", "Invalid value: must be a schema")
            return
        yield from _malformed(inner, f"{path}.{word}")


def patterns_in(schema: Any) -> Iterator[str]:
    """Every pattern of a schema, also of one that is malformed."""
    if not isinstance(schema, Mapping):
        return
    if isinstance(pattern := schema.get("pattern"), str):
        yield pattern
    for word in ("items", "additionalProperties", "not"):
        yield from patterns_in(schema.get(word))
    for word in _JUNCTORS:
        parts = schema.get(word)
        for part in parts if isinstance(parts, list) else ():
            yield from patterns_in(part)
    fields = schema.get("properties")
    for part in fields.values() if isinstance(fields, Mapping) else ():
        yield from patterns_in(part)


_META_NAMES = frozenset(("name", "generateName"))


def _violations(schema: OpenApi, path: str) -> Iterator[Cause]:
    yield from _own(schema, path)
    yield from _type(schema, path)
    yield from _extensions(schema, path)
    yield from _list_rules(schema, path)
    for key in _JUNCTORS:
        for index, part in enumerate(schema.get(key) or ()):
            yield from _inside_junctor(part, f"{path}.{key}[{index}]", schema, key)
    if isinstance(schema.get("not"), Mapping):
        yield from _inside_junctor(schema["not"], f"{path}.not", schema, "not")
    yield from _below(schema, path)


def _below(schema: OpenApi, path: str) -> Iterator[Cause]:
    for name, inner in (schema.get("properties") or {}).items():
        yield from _violations(inner, f"{path}.properties[{name}]")
    if isinstance(schema.get("items"), Mapping):
        yield from _violations(schema["items"], f"{path}.items")
    if isinstance(schema.get("additionalProperties"), Mapping):
        yield from _violations(schema["additionalProperties"], f"{path}.additionalProperties")


def _own(schema: OpenApi, path: str) -> Iterator[Cause]:
    """Keywords that are refused everywhere."""
    if "$ref" in schema:
        yield forbidden(f"{path}.$ref", "$ref is not supported")
    if schema.get("uniqueItems"):
        words = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", words)
    if schema.get("additionalProperties") and schema.get("properties"):
        words = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{path}.additionalProperties", words)
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if (pattern := schema.get("pattern")) is not None and not is_pattern(pattern):
        words = "must be a valid regular expression, but isn't: error parsing regexp"
        yield invalid(f"{path}.pattern", pattern, words)


def _type(schema: OpenApi, path: str) -> Iterator[Cause]:
    kind = schema.get("type")
    if kind and kind not in TYPES:
        yield unsupported(f"{path}.type", kind, TYPES)
    if not kind and not schema.get(_INT_OR_STRING) and not schema.get(_PRESERVE) and "$ref" not in schema:
        yield required(f"{path}.type", f"must not be empty for specified {_place(path)}")
    if kind == "array" and schema.get("items") is None:
        yield required(f"{path}.items", "must be specified")


def _place(path: str) -> str:
    return "array items" if path.endswith(".items") else "object fields"


def _extensions(schema: OpenApi, path: str) -> Iterator[Cause]:
    if schema.get(_PRESERVE) is False:
        yield invalid(f"{path}.{_PRESERVE}", False, "must be true or undefined")
    if (map_type := schema.get(_MAP)) is not None and map_type not in ("atomic", "granular"):
        yield unsupported(f"{path}.{_MAP}", map_type, ("atomic", "granular"))
    if schema.get(_EMBEDDED):
        if not schema.get(_PRESERVE) and not schema.get("properties"):
            words = f"must not be empty if {_EMBEDDED} is true without {_PRESERVE}"
            yield required(f"{path}.properties", words)
        if schema.get("type") != "object":
            yield invalid(f"{path}.type", schema.get("type", ""), f"must be object if {_EMBEDDED} is true")


def _list_rules(schema: OpenApi, path: str) -> Iterator[Cause]:
    kind, items = schema.get(_LIST), schema.get("items")
    if kind is None:
        return
    if kind not in ("atomic", "set", "map"):
        yield unsupported(f"{path}.{_LIST}", kind, ("atomic", "set", "map"))
    if schema.get("type") != "array":
        yield invalid(f"{path}.type", schema.get("type", ""), f"must be array if {_LIST} is specified")
    items = items if isinstance(items, Mapping) else {}
    if kind == "map":
        yield from _list_map(schema, items, path)
    if kind == "set" and items.get("type") == "object" and items.get(_MAP) != "atomic":
        words = f"must be atomic as item of a list with {_LIST}=set"
        yield invalid(f"{path}.items.{_MAP}", items.get(_MAP), words)


def _list_map(schema: OpenApi, items: OpenApi, path: str) -> Iterator[Cause]:
    keys = schema.get(_KEYS) or []
    fields = items.get("properties") or {}
    if not keys:
        yield required(f"{path}.{_KEYS}", f"must not be empty if {_LIST} is map")
    if any(key not in fields for key in keys):
        yield invalid(f"{path}.{_KEYS}", keys, "entries must all be names of item properties")
    for key in keys:
        if key in fields and "default" not in fields[key] and key not in (items.get("required") or ()):
            words = f"this property is in {_KEYS}, so it must have a default or be a required property"
            yield required(f"{path}.items.properties[{key}].default", words)


def _inside_junctor(part: OpenApi, path: str, outer: OpenApi, key: str) -> Iterator[Cause]:
    """A part of a junctor: it may narrow values, not specify types."""
    allowed_types = bool(outer.get(_INT_OR_STRING)) and key in ("anyOf", "allOf")
    for word in _ONLY_OUTSIDE:
        if part.get(word) and not (word == "type" and allowed_types):
            yield forbidden(f"{path}.{word}", "must be empty to be structural")
    if "default" in part:
        yield forbidden(f"{path}.default", "must be undefined to be structural")
    for inner_key in _JUNCTORS:
        for index, inner in enumerate(part.get(inner_key) or ()):
            yield from _inside_junctor(inner, f"{path}.{inner_key}[{index}]", outer, inner_key)
    for name, inner in (part.get("properties") or {}).items():
        yield from _inside_junctor(inner, f"{path}.properties[{name}]", {}, "properties")
    if isinstance(part.get("items"), Mapping):
        yield from _inside_junctor(part["items"], f"{path}.items", {}, "items")
