"""From a Struct type to its CustomResourceDefinition.

Theory.      A kind is declared once, as a Struct: its types give the structural schema, ``meta.doc``
             gives descriptions and what a type cannot say (list types, formats, defaults), and
             ``Definition`` gives the rest: names, columns, subresources. Nothing else describes
             a kind of ours, so what ``kubectl explain`` tells is what the code reads.
Invariants.  Pure and deterministic: properties and required fields come sorted. Every schema is
             structural. A type that no schema can express raises ``TypeError`` when the CRD is
             made, never later.
Called by    ``api.machine.manifests`` and the like, once per API group.
"""

import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from inspect import cleandoc
from typing import Annotated, Any, Union, get_args, get_origin

from msgspec import Meta, Struct, UnsetType, json, structs

from kubewright.api.kinds import Kind
from kubewright.api.meta import PRESERVE, ObjectMeta

Schema = dict[str, Any]

_SCALARS: dict[object, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    datetime: {"type": "string", "format": "date-time"},
}


@dataclass(frozen=True, slots=True)
class Column:
    """What ``kubectl get`` prints; a ``priority`` above 0 shows with ``-o wide`` only."""

    name: str
    path: str
    type: str = "string"
    description: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Definition:
    """A CRD apart from its schema.

    ``scale`` holds the paths of the desired and the actual replicas, and, where there is one, that of the
    selector as text.
    """

    kind: Kind[Any]
    columns: Sequence[Column] = ()
    status: bool = True
    scale: tuple[str, str] | tuple[str, str, str] | None = None
    categories: Sequence[str] = ()
    """Words by which ``kubectl get`` finds several kinds at once."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the CRD itself."""
    rules: Sequence[Mapping[str, Any]] = ()
    """Rules of whole objects (``x-kubernetes-validations``), which a kube-apiserver enforces."""


def crd(definition: Definition, *others: Definition) -> Schema:
    """The CustomResourceDefinition (``apiextensions.k8s.io/v1``) of a kind.

    Its objects are stored in the version of ``definition``, and served in those of ``others`` beside.
    """
    resource = definition.kind.resource
    names: Schema = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.kind.lower(),
    }
    if resource.short_names:
        names["shortNames"] = list(resource.short_names)
    if definition.categories:
        names["categories"] = list(definition.categories)
    metadata: Schema = {"name": str(resource)}
    if definition.labels:
        metadata["labels"] = dict(definition.labels)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": resource.group,
            "names": names,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [_version(definition, storage=True), *(_version(each) for each in others)],
        },
    }


def _version(definition: Definition, *, storage: bool = False) -> Schema:
    version: Schema = {
        "name": definition.kind.resource.version,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": json.decode(_root(definition.kind))},
    }
    if definition.rules:
        version["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = [dict(r) for r in definition.rules]
    if subresources := _subresources(definition):
        version["subresources"] = subresources
    if definition.columns:
        version["additionalPrinterColumns"] = [_column(column) for column in definition.columns]
    return version


def schema_of(annotation: Any) -> Schema:
    """The structural schema of a type as it stands in an annotation.

    Raises:
        TypeError: there is none.
    """
    if get_origin(annotation) is Annotated:
        kind, *notes = get_args(annotation)
        schema = schema_of(kind)
        for note in notes:
            schema = {**_described(note), **schema, **_extra(note)}
        return _preserved(schema)
    if annotation in _SCALARS:
        return dict(_SCALARS[annotation])
    if annotation is Any:
        return dict(PRESERVE)
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return _object(annotation)
    return _composed(annotation)


def _composed(annotation: Any) -> Schema:
    """A union, a list or a map."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return _union([arg for arg in args if arg not in (type(None), UnsetType)], annotation)
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return {"type": "array", "items": schema_of(args[0])}
    if isinstance(origin, type) and issubclass(origin, Mapping) and args[0] is str:
        return {"type": "object", "additionalProperties": schema_of(args[1])}
    raise TypeError(f"no structural schema for {annotation!r}")


def _union(members: Sequence[Any], annotation: Any) -> Schema:
    if len(members) == 1:
        return schema_of(members[0])
    if set(members) == {int, str}:
        return {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    raise TypeError(f"no structural schema for {annotation!r}")


def _object(kind: type[Struct]) -> Schema:
    if kind is ObjectMeta:
        return _template_metadata()
    fields = sorted(structs.fields(kind), key=lambda item: item.encode_name)
    schema: Schema = {
        "type": "object",
        "properties": {item.encode_name: schema_of(item.type) for item in fields},
    }
    if required := [item.encode_name for item in fields if _is_required(item.type)]:
        schema["required"] = required
    return schema


@cache
def _root(kind: Kind[Any]) -> bytes:
    """The schema of a whole object: of its metadata, a CRD may say nothing.

    As JSON: to read that is ten times as fast as to look through the types again, and each caller may change
    what it gets.
    """
    schema = _object(kind.type)
    schema["properties"]["metadata"] = {"type": "object"}
    return json.encode({"description": cleandoc(kind.type.__doc__ or ""), **schema})


def _template_metadata() -> Schema:
    """Metadata inside a template. The API server only knows the real one, so here we say that
    labels are text: ``labels: {on: yes}`` in YAML is a map of booleans, which our controllers could not read.
    """
    texts = {"type": "object", "additionalProperties": {"type": "string"}}
    described = {
        "annotations": {"description": "Notes by key; values are text.", **texts},
        "labels": {"description": "Marks by key, to select by; values are text.", **texts},
    }
    return {"type": "object", "properties": described}


def _described(note: Any) -> Schema:
    return {"description": note.description} if isinstance(note, Meta) and note.description else {}


def _extra(note: Any) -> Schema:
    extra = note.extra if isinstance(note, Meta) else None
    return extra.get("schema", {}) if extra else {}


def _is_required(annotation: Any) -> bool:
    notes = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return any(isinstance(note, Meta) and (note.extra or {}).get("required") for note in notes)


def _preserved(schema: Schema) -> Schema:
    """A map that preserves unknown fields must not also have ``additionalProperties``."""
    if schema.get("x-kubernetes-preserve-unknown-fields") and "properties" not in schema:
        return {key: value for key, value in schema.items() if key != "additionalProperties"}
    return schema


def _subresources(definition: Definition) -> Schema:
    found: Schema = {"status": {}} if definition.status else {}
    if definition.scale is not None:
        wanted, actual, *selector = definition.scale
        found["scale"] = {"specReplicasPath": wanted, "statusReplicasPath": actual}
        if selector:
            found["scale"]["labelSelectorPath"] = selector[0]
    return found


def _column(column: Column) -> Schema:
    found: Schema = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.description:
        found["description"] = column.description
    if column.priority:
        found["priority"] = column.priority
    return found
