"""The schema of a custom resource: structural OpenAPI v3 out of a CustomResourceDefinition.

Theory.      What ``spec.versions[].schema.openAPIV3Schema`` says decides over spec, status and every
             other field; ``apiVersion``, ``kind`` and ``metadata`` are known everywhere. Metadata is
             typed, as it is in built-in kinds.
Called by    ``registry.custom``.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import jsonschema_rs

from kubewright.apiserver.registry.kind import Object
from kubewright.apiserver.schema import builtin, decode
from kubewright.apiserver.schema.compiled import Compiled
from kubewright.apiserver.schema.formats import CHECKS
from kubewright.apiserver.schema.node import OBJECT_META, Node, build
from kubewright.apiserver.schema.normal import normal

OpenApi = Mapping[str, Any]
_META = "meta.v1.ObjectMeta"


class Structural(Compiled):
    """A compiled ``openAPIV3Schema``; without one, everything is kept and accepted."""

    def __init__(self, schema: OpenApi | None) -> None:
        self.source: OpenApi = schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        self.envelope = True
        self.preserves_unknown = bool(self.source.get("x-kubernetes-preserve-unknown-fields"))

    @classmethod
    def of_value(cls, schema: OpenApi) -> "Structural":
        """A schema of a mere value, without apiVersion, kind and metadata: for checking defaults."""
        made = cls(schema)
        made.envelope = False
        return made

    @cached_property
    def node(self) -> Node:
        if not self.envelope:
            return build(self.source, builtin.node_of)
        root = {**self.source, "x-kubernetes-embedded-resource": True}
        return build(root, builtin.node_of)

    @cached_property
    def strict(self) -> jsonschema_rs.Draft202012Validator:
        return self._validator(strict=True)

    @cached_property
    def loose(self) -> jsonschema_rs.Draft202012Validator:
        return self._validator(strict=False)

    def _validator(self, *, strict: bool) -> jsonschema_rs.Draft202012Validator:
        root = normal(self.source, strict=strict)
        if self.envelope:
            self._add_envelope(root, strict=strict)
        return jsonschema_rs.Draft202012Validator(
            root, validate_formats=True, ignore_unknown_formats=True, formats=dict(CHECKS)
        )

    def _add_envelope(self, root: dict[str, Any], *, strict: bool) -> None:
        known: dict[str, Any] = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
        if strict:
            known["metadata"] = {"$ref": f"#/$defs/{_META}"}
            root["$defs"] = {name: normal(builtin.definition(name), strict=True) for name in builtin.closure(_META)}
        root["properties"] = root.get("properties", {}) | known

    def decode_error(self, obj: Object) -> str | None:
        metadata = obj.get("metadata")
        if self.strict.is_valid(obj) or metadata is None:
            return None
        return decode.first_error(builtin.node_of(_META), metadata)

    def openapi(self) -> Mapping[str, Any]:
        envelope = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"$ref": OBJECT_META}}
        properties = {**envelope, **self.source.get("properties", {}), "metadata": envelope["metadata"]}
        return {**self.source, "properties": properties}

    def components(self) -> Mapping[str, Mapping[str, Any]]:
        return {name: builtin.definition(name) for name in builtin.closure(_META)}
