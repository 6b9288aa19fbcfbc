"""The schema of a custom resource: structural OpenAPI v3 out of a CustomResourceDefinition.

Theory.      What ``spec.versions[].schema.openAPIV3Schema`` says describes spec, status and every
             other field; ``apiVersion``, ``kind`` and ``metadata`` are known everywhere. Metadata is
             typed, as it is in built-in kinds. A definition is compiled when it is checked, again when
             it is served, and again in every server of a process; so validators and nodes are cached by
             their content.
Called by    ``registry.custom``.
"""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any

import jsonschema_rs
import orjson

from kubewright.apiserver.registry.kind import Cause, Object, bounded, some
from kubewright.apiserver.schema import builtin, decode, formats, patterns, ratcheting, walk
from kubewright.apiserver.schema.causes import causes
from kubewright.apiserver.schema.compiled import Compiled
from kubewright.apiserver.schema.json_schema import WHOLE, any_whole, json_schema
from kubewright.apiserver.schema.node import Node, build
from kubewright.apiserver.schema.parts import Parts
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
        return self._invalid(obj, old, part) + self._duplicates(obj, old)

    def _invalid(self, obj: Object, old: Object | None, part: str) -> list[Cause]:
        if self.strict.is_valid(obj):
            return []
        whole = None if old is None else ratcheting.Place(self.node, obj, old)
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
        return decode.first_error(builtin.node_of(_META), metadata)

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
        return [cause for cause in self.validate(filled) if cause.message.startswith('Invalid value: "null"')]

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
