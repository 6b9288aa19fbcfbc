"""The schema of a custom resource: structural OpenAPI v3 out of a CustomResourceDefinition.

Theory.      What ``spec.versions[].schema.openAPIV3Schema`` says describes spec, status and every
             other field; ``apiVersion``, ``kind`` and ``metadata`` are known everywhere. Metadata is
             typed, as it is in built-in kinds. A definition is compiled when it is checked, again when
             it is served, and again in every server of a process; so validators and nodes are cached by
             their content.
             Ratcheting: a definition may become stricter than the objects that are there. Then each of them
             would be refused whatever is changed in it, were it only the finalizer that keeps it. So an error
             is excused if its place, or one above it, is the same in the old object.
             Which place of the old object is the counterpart of one of the new follows from the schema.
             Fields and the values of maps have the same name. Items of a list that is a map have the same
             keys. Items of other lists have none: such a list is the same as a whole or not at all. Nor has a
             field that the schema does not name, so no map with such a field is the same. The root never is,
             as its metadata is not named.
             Rules (``violations``): every field's type is specified once, outside of ``anyOf`` and the like,
             so that pruning and defaulting know the type of each field. ``allOf``, ``anyOf``, ``oneOf`` and
             ``not`` may only narrow values. The messages are kube-apiserver's.
Invariants.  Pure. A part is compared once, so all errors together cost no more than the object has parts.
             What is below an ``allOf`` is compared as far as the place at which that stands, no further.
Source       kube-apiserver 1.36, observed in tests/conformance/test_api_ratcheting.py.
Called by    ``registry.custom``.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import jsonschema_rs
import orjson

from kubewright.apiserver.cel import rules
from kubewright.apiserver.schema import builtin, formats, patterns, walk
from kubewright.apiserver.schema.builtin import node_of
from kubewright.apiserver.schema.causes import (
    Cause,
    bounded,
    causes,
    forbidden,
    invalid,
    required,
    some,
    unsupported,
)
from kubewright.apiserver.schema.compiled import Compiled, Parts
from kubewright.apiserver.schema.node import ANYTHING, WHOLE, Node, Object, any_whole, build, json_schema
from kubewright.apiserver.schema.patterns import is_pattern
from kubewright.apiserver.schema.walk import first_error, identity, list_key
from kubewright.wire import gojson

OpenApi = Mapping[str, Any]
_META = "meta.v1.ObjectMeta"
_KEPT = 64
"""How many of each are cached: validators, strict and loose ones, and nodes, of some thirty kinds."""


class Structural(Compiled):
    """A compiled ``openAPIV3Schema``; without a schema, everything is accepted and preserved."""

    def __init__(self, schema: OpenApi | None) -> None:
        self.source: OpenApi = schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        self.envelope = True
        self._told: tuple[Object | None, list[str]] = (None, [])

    @classmethod
    def of_value(cls, schema: OpenApi) -> "Structural":
        """A schema of a plain value, without apiVersion, kind and metadata: for checking defaults."""
        made = cls(schema)
        made.envelope = False
        return made

    @cached_property
    def node(self) -> Node:
        return _node(orjson.dumps(self.source), envelope=self.envelope)

    @cached_property
    def strict(self) -> jsonschema_rs.Draft4Validator:
        return self._validator(strict=True)

    @cached_property
    def loose(self) -> jsonschema_rs.Draft4Validator:
        return self._validator(strict=False)

    @cached_property
    def parts(self) -> Parts:
        return _parts(orjson.dumps(self.source), envelope=self.envelope)

    def _validator(self, *, strict: bool) -> jsonschema_rs.Draft4Validator:
        return _compiled(orjson.dumps(self.source), strict=strict, envelope=self.envelope)

    def validate(self, obj: Object, old: Object | None = None, part: str = "") -> list[Cause]:
        causes = self._mistakes(obj, old, part)
        if (tree := self.rules) is None:
            return causes
        if rules.blocked(causes):
            return [*causes, rules.NOT_CHECKED]
        place = None if old is None else Place(self.node, obj, old)
        before = old if old is not None or self.envelope else obj  # a default is its own old value
        found = rules.judged(tree, obj, before, place)
        self._told = (obj, found.warnings)
        return bounded([*causes, *found.causes])

    def excused(self, obj: Object) -> list[str]:
        """What rules say against an object that was just validated, though they let it pass."""
        return self._told[1] if self._told[0] is obj else []

    @cached_property
    def rules(self) -> rules.Ruled | None:
        """The rules in CEL; None if there are none."""
        return rules.compiled(orjson.dumps(self.source), root=self.envelope)

    def _mistakes(self, obj: Object, old: Object | None = None, part: str = "") -> list[Cause]:
        """What the schema says against an object, without its rules."""
        return self._invalid(obj, old, part) + self._duplicates(obj, old)

    def _invalid(self, obj: Object, old: Object | None, part: str) -> list[Cause]:
        if self.strict.is_valid(obj):
            return []
        whole = None if old is None else Place(self.node, obj, old)
        errors = self.errors(obj) if whole is None else self.errors(obj, whole.excuses)
        if part:
            errors = (error for error in errors if error.instance_path[:1] == [part])
        if whole is not None:
            errors = (error for error in errors if not whole.is_excused(error))
        return bounded(causes(errors, self.source), errors)

    def _duplicates(self, obj: Object, old: Object | None) -> list[Cause]:
        """Equal items, unless the object had some before, wherever that was."""
        found = some(walk.duplicates(self.node, obj))
        return [] if found and old is not None and any(walk.duplicates(self.node, old)) else found

    def decode_error(self, obj: Object) -> str | None:
        metadata = obj.get("metadata")
        if self.strict.is_valid(obj) or metadata is None:
            return None
        return walk.first_error(builtin.node_of(_META), metadata)

    def whole(self, obj: Object) -> Object:
        kept: Object = gojson.whole(obj)
        return kept

    def without_nulls(self, obj: Object) -> Object:
        return super().without_nulls(self._with_typed_metadata(obj))

    def _with_typed_metadata(self, obj: Object) -> Object:
        """Metadata has types in Go, whatever the kind."""
        metadata = obj.get("metadata")
        if not isinstance(metadata, dict):
            return obj
        typed = walk.zero_nulls(builtin.node_of(_META), metadata)
        return obj if typed is metadata else {**obj, "metadata": typed}

    def nulls(self, obj: Object) -> list[Cause]:
        filled = walk.default(self.node, self._with_typed_metadata(obj))
        return [
            cause for cause in self._mistakes(filled) if cause.message.startswith('Invalid value: "null"')
        ]

    def openapi(self) -> Mapping[str, Any]:
        properties = {**self.source.get("properties", {}), **builtin.envelope()}
        return {**self.source, "properties": properties}

    def components(self) -> Mapping[str, Mapping[str, Any]]:
        return {name: builtin.described(name) for name in builtin.closure(_META)}


@lru_cache(maxsize=_KEPT)
def _node(source: bytes, *, envelope: bool) -> Node:
    """The tree of a schema, given as JSON."""
    schema = orjson.loads(source)
    return build({**schema, "x-kubernetes-embedded-resource": True} if envelope else schema, builtin.node_of)


@lru_cache(maxsize=_KEPT)
def _compiled(source: bytes, *, strict: bool, envelope: bool) -> jsonschema_rs.Draft4Validator:
    """The validator of a schema, given as JSON."""
    root, options = _root(source, strict=strict, envelope=envelope)
    return patterns.compiled(root, options)


@lru_cache(maxsize=_KEPT)
def _parts(source: bytes, *, envelope: bool) -> Parts:
    """The loose validator of a schema in parts."""
    root, options = _root(source, strict=False, envelope=envelope)
    return Parts(root, lambda part: patterns.compiled(part, options))


def _root(source: bytes, *, strict: bool, envelope: bool) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """What a validator is made of, and its options."""
    names: set[str] = set()
    schema = formats.named(orjson.loads(source), names)
    root = json_schema(schema, strict=strict, whole=strict)
    if envelope:
        meta = {"$ref": f"#/$defs/{_META}"} if strict else {"type": "object"}
        known = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": meta}
        root["properties"] = root.get("properties", {}) | known
    if strict:
        root["$defs"] = {
            each: json_schema(builtin.definition(each), strict=True) for each in builtin.closure(_META)
        } | {WHOLE: any_whole()}
    return root, formats.custom_options(frozenset(names))


_ABOVE = ("allOf", "anyOf", "oneOf", "not")
_DOWN = {"properties": 2, "additionalProperties": 1, "items": 1}
"""Words of a schema's path that lead one level down in the object, and how many parts they take."""


class Place:
    """A schema, and the new and the old value that stand there; the first one is that of whole objects."""

    def __init__(self, node: Node, new: Any, old: Any) -> None:
        self._node, self._new, self._old = node, new, old
        self._below: dict[str | int, Place | None] = {}

    def is_excused(self, error: jsonschema_rs.ValidationError) -> bool:
        """Whether an error of the new object was there in the old one, in a part that did not change."""
        return self.excuses(error.instance_path[: _depth(error.schema_path)])

    def excuses(self, path: Sequence[str | int]) -> bool:
        """Whether what stands there, or something above it, did not change."""
        return any(place.is_same for place in self._on(path))

    @cached_property
    def is_same(self) -> bool:
        """Whether nothing changed here or below."""
        new, old = self._new, self._old
        if isinstance(new, dict) and isinstance(old, dict):
            return new.keys() == old.keys() and all(map(self._is_same_below, new))
        if isinstance(new, list) and isinstance(old, list) and self._node.list_type == "map":
            return len(new) == len(old) and all(map(self._is_same_below, range(len(new))))
        return _is_equal(new, old)

    def below(self, part: str | int) -> "Place | None":
        """The place of a field or an item; None if the old object has no counterpart of it."""
        if part not in self._below:
            self._below[part] = self._item(part) if isinstance(part, int) else self._field(part)
        return self._below[part]

    def _on(self, path: Sequence[str | int]) -> "Iterator[Place]":
        """The places on a path, from below this one on, as far as both objects have them."""
        place: Place | None = self
        for part in path:
            if place is None or (place := place.below(part)) is None:
                return
            yield place

    def _is_same_below(self, part: str | int) -> bool:
        place = self.below(part)
        return place is not None and place.is_same

    def _field(self, name: str) -> "Place | None":
        node, new, old = self._node, self._new, self._old
        if not isinstance(new, dict) or not isinstance(old, dict) or name not in new or name not in old:
            return None
        if node.embedded and name == "metadata":
            return None  # the schema does not name what is in it
        child = node.fields.get(name) or (None if node.values is ANYTHING else node.values)
        return None if child is None else Place(child, new[name], old[name])

    def _item(self, index: int) -> "Place | None":
        items, new = self._node.items, self._new
        if self._node.list_type != "map" or items is None or not isinstance(new, list):
            return None
        key = identity(list_key(self._node, new[index]))
        return Place(items, new[index], self._by_key[key]) if key in self._by_key else None

    @cached_property
    def _by_key(self) -> dict[bytes, Any]:
        """The items of the old list by their keys; of equal ones the first."""
        items = self._old if isinstance(self._old, list) else []
        return {identity(list_key(self._node, item)): item for item in reversed(items)}


def _depth(schema_path: list[str | int]) -> int:
    """How many levels of the object a path in its schema leads down, before it comes to alternatives."""
    depth = at = 0
    while at < len(schema_path):
        word = schema_path[at]
        if word in _ABOVE:
            return depth
        parts = _DOWN.get(str(word), 0)
        depth, at = depth + bool(parts), at + (parts or 1)
    return depth


def _is_equal(new: Any, old: Any) -> bool:
    """Equal as JSON: Python holds 1, 1.0 and true for equal."""
    if type(new) is not type(old):
        return False
    if isinstance(new, dict):
        return new.keys() == old.keys() and all(_is_equal(new[name], old[name]) for name in new)
    if isinstance(new, list):
        return len(new) == len(old) and all(map(_is_equal, new, old))
    return bool(new == old)


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
