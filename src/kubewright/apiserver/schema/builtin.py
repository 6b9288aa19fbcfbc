"""The schemas of built-in kinds, read from ``builtin.json`` when first needed.

Theory.      Built-in kinds share their definitions: a PodSpec is in six kinds. Definitions are parsed
             into nodes once for all kinds; a kind's validator is compiled from the
             definitions it reaches, when its first object comes, once for all servers of a process.
Invariants.  Loading this module reads no file. The file is read once.
Called by    ``registry.builtin``; ``http.openapi`` asks for ``components``.
"""

from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

import jsonschema_rs
import orjson

from kubewright.apiserver.registry.kind import Cause, Object
from kubewright.apiserver.schema import decode, facts, patterns, walk
from kubewright.apiserver.schema.causes import EMPTY_IS_ABSENT
from kubewright.apiserver.schema.compiled import Compiled
from kubewright.apiserver.schema.formats import OPTIONS
from kubewright.apiserver.schema.json_schema import json_schema
from kubewright.apiserver.schema.node import Node, build
from kubewright.apiserver.schema.notation import REF, OpenApi, read_definition
from kubewright.apiserver.schema.parts import Parts

_STATUS, _CONDITION = "Status", "Condition"
"""Definitions with these suffixes are written by controllers; Go fills missing fields with zeros."""

_LEAST = {"string": "minLength", "array": "minItems"}


Table = Mapping[str, Mapping[str, str]]

GROUPS: Mapping[str, str] = {
    "core": "",
    "apps": "apps",
    "authentication": "authentication.k8s.io",
    "authorization": "authorization.k8s.io",
    "autoscaling": "autoscaling",
    "batch": "batch",
    "certificates": "certificates.k8s.io",
    "coordination": "coordination.k8s.io",
    "discovery": "discovery.k8s.io",
    "events": "events.k8s.io",
    "networking": "networking.k8s.io",
    "node": "node.k8s.io",
    "policy": "policy",
    "rbac": "rbac.authorization.k8s.io",
    "resource": "resource.k8s.io",
    "scheduling": "scheduling.k8s.io",
    "storage": "storage.k8s.io",
    "apiextensions": "apiextensions.k8s.io",
}
"""The packages that definitions are named after, and the API groups they belong to."""


@cache
def table(file: str) -> Table:
    """A data file of this package: definition, field, line. The empty field is the whole definition."""
    found: Table = orjson.loads(files(__package__).joinpath(file).read_bytes())
    return found


@cache
def definition(name: str) -> OpenApi:
    """One definition as OpenAPI, with the defaults and enums of ``facts``.

    Raises:
        KeyError: there is no such definition.
    """
    schema = read_definition(table("builtin.json")[name])
    for field, values in facts.ENUMS.get(name, {}).items():
        schema["properties"][field]["enum"] = list(values)
    for field, value in facts.DEFAULTS.get(name, {}).items():
        schema["properties"][field]["default"] = value
    return schema


def described(name: str) -> OpenApi:
    """The definition with our descriptions, for ``kubectl explain``."""
    schema, words = definition(name), table("descriptions.json")
    own = words.get(name, {})
    common = words["*"] if {"kind", "metadata"} <= schema["properties"].keys() else {}
    whole = {"description": own[""]} if "" in own else {}
    fields = {
        field: ({"description": said} | inner) if (said := own.get(field) or common.get(field)) else inner
        for field, inner in schema["properties"].items()
    }
    return whole | schema | {"properties": fields}


def envelope() -> OpenApi:
    """The fields that every object has, described."""
    properties = described("core.v1.ConfigMap")["properties"]
    return {name: properties[name] for name in ("apiVersion", "kind", "metadata")}


_NODES: dict[str, Node] = {}


def node_of(ref: str) -> Node:
    """The shared node of a definition, by name or by ``$ref``; it may still be under construction."""
    name = ref.removeprefix(REF)
    node = _NODES.get(name)
    if node is None:
        node = _NODES[name] = Node()
        node.type = "object"
        node.struct = name.partition(".")[2]
        build(definition(name), node_of, into=node)
    return node


def _refs(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(ref := schema.get("$ref"), str):
            yield ref.removeprefix(REF)
        for inner in schema.values():
            yield from _refs(inner)


def closure(name: str) -> list[str]:
    """The names of a definition and of all that it refers to, sorted."""
    todo, seen = [name], set[str]()
    while todo:
        if (next_name := todo.pop()) not in seen:
            seen.add(next_name)
            todo += _refs(definition(next_name))
    return sorted(seen)


def _checked(name: str, *, strict: bool) -> dict[str, Any]:
    """A definition for the validator. In a ``status`` nothing is required; elsewhere what is may not be
    empty."""
    schema = json_schema(definition(name), strict=strict)
    if name.rpartition(".")[2] in facts.LENIENT or name.endswith((_STATUS, _CONDITION)):
        schema.pop("required", None)
    if "required" in schema:
        asked = [field for field in schema["required"] if f"{name}.{field}" not in facts.MAY_BE_EMPTY]
        schema = {**schema, "required": asked}
    for field in schema.get("required", ()):
        inner = schema["properties"][field]
        kept = "enum" in inner or field in facts.DEFAULTS.get(name, {})
        if not kept and (least := _LEAST.get(inner.get("type", [""])[0])) is not None:
            schema["properties"][field] = {**inner, least: 1}
    return schema


@cache
def _validator(name: str, *, strict: bool) -> jsonschema_rs.Draft4Validator:
    return _compiled(_schema(name, strict=strict))


def _schema(name: str, *, strict: bool) -> dict[str, Any]:
    defs = {each: _checked(each, strict=strict) for each in closure(name)}
    return {"$ref": f"#/$defs/{name}", "$defs": defs}


def _compiled(schema: dict[str, Any]) -> jsonschema_rs.Draft4Validator:
    """In draft 4, as in Go, ``3.0`` is no integer."""
    return jsonschema_rs.Draft4Validator(schema, pattern_options=patterns.OPTIONS, **OPTIONS)


@cache
def _parts(name: str) -> Parts:
    whole = _schema(name, strict=False)
    return Parts(whole, lambda part: _compiled({**part, "$defs": whole["$defs"]}))


class BuiltinSchema(Compiled):
    """The schema of one built-in kind, by the name of its definition, e.g. ``apps.v1.Deployment``."""

    words = EMPTY_IS_ABSENT

    def __init__(self, name: str) -> None:
        self.name = name

    @cached_property
    def node(self) -> Node:
        return node_of(self.name)

    @cached_property
    def strict(self) -> jsonschema_rs.Draft4Validator:
        return _validator(self.name, strict=True)

    @cached_property
    def loose(self) -> jsonschema_rs.Draft4Validator:
        return _validator(self.name, strict=False)

    def validate(self, obj: Object, old: Object | None = None, part: str = "") -> list[Cause]:
        """What an earlier release let pass, and what is as it was, is not judged again: else an object that
        it stored could be neither labelled nor deleted."""
        found = super().validate(obj, old, part)
        known = super().validate(old) if found and old is not None else []
        return [each for each in found if each not in known]

    @cached_property
    def parts(self) -> Parts:
        return _parts(self.name)

    def whole(self, obj: Object) -> Object:
        """The object with its times and quantities as Go writes them, unless it cannot be read at all."""
        if self.strict.is_valid(obj) or decode.first_error(self.node, obj) is not None:
            return obj
        written: Object = walk.as_go_writes(self.node, obj)
        return written

    def decode_error(self, obj: Object) -> str | None:
        if self.strict.is_valid(obj):
            return None
        return decode.first_error(self.node, obj)

    def without_nulls(self, obj: Object) -> Object:
        clean: Object = walk.zero_nulls(self.node, obj)
        return clean

    def openapi(self) -> Mapping[str, Any]:
        return {"$ref": REF + self.name}

    def components(self) -> Mapping[str, Mapping[str, Any]]:
        return {name: described(name) for name in closure(self.name)}
