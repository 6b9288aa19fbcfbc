"""The schemas of a document: names as upstream has them, references as clients expect them.

Theory.      Inside the server a definition is called ``core.v1.Pod``; outside it is
             ``io.k8s.api.core.v1.Pod``, and a reference with other keywords beside it is wrapped into
             ``allOf``, since siblings of ``$ref`` are ignored. Quantities and int-or-strings are
             definitions of their own outside, so that ``kubectl explain`` can name them.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kubewright.apiserver.registry.kind import ServedKind
from kubewright.wire.gvk import Resource

Json = dict[str, Any]
V3, V2 = "#/components/schemas/", "#/definitions/"

_PREFIXES = {
    "meta": "io.k8s.apimachinery.pkg.apis.",
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.",
}
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_LEAVES: Mapping[str, str] = {"quantity": _QUANTITY, "int-or-string": _INT_OR_STRING}
LEAVES: Mapping[str, Mapping[str, Json]] = {
    V3: {
        _QUANTITY: {
            "description": "An amount such as 500m, 2 or 4Gi.",
            "oneOf": [{"type": "string"}, {"type": "number"}],
        },
        _INT_OR_STRING: {
            "description": "A number, or a string such as 25% or a port's name.",
            "format": "int-or-string",
            "oneOf": [{"type": "integer"}, {"type": "string"}],
        },
    },
    V2: {
        _QUANTITY: {"description": "An amount such as 500m, 2 or 4Gi.", "type": "string"},
        _INT_OR_STRING: {
            "description": "A number, or a string such as 25% or a port's name.",
            "format": "int-or-string",
            "type": "string",
        },
    },
}
_HIDDEN = frozenset(("x-go-type", "x-go-zero", "$ref"))


def public_name(short: str) -> str:
    """``core.v1.Pod`` to ``io.k8s.api.core.v1.Pod``."""
    return _PREFIXES.get(short.partition(".")[0], "io.k8s.api.") + short


def kind_name(resource: Resource) -> str:
    """The name of a custom kind's definition: ``com.example.v1.Widget`` for group ``example.com``."""
    return ".".join([*reversed(resource.group.split(".")), resource.version, resource.kind])


def public(schema: Any, root: str = V3) -> Any:
    """A schema as clients get it; ``root`` is the path of its definitions."""
    if isinstance(schema, list):
        return [public(item, root) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    ref = schema.get("$ref")
    target = ref.rpartition("/")[2] if isinstance(ref, str) else ""
    name = public_name(target) if target else _LEAVES.get(schema.get("format", ""), "")
    if not name or not (target or schema.get("x-kubernetes-int-or-string")):
        return {key: _inner(key, value, root) for key, value in schema.items() if key not in _HIDDEN}
    beside = {
        key: value
        for key, value in schema.items()
        if key not in ("x-kubernetes-int-or-string", "format", *_HIDDEN)
    }
    return beside | {"allOf": [{"$ref": root + name}]} if beside else {"$ref": root + name}


def _inner(key: str, value: Any, root: str) -> Any:
    """Names of properties are not keywords; values of enums, defaults and examples are not schemas."""
    if key == "properties":
        return {name: public(inner, root) for name, inner in value.items()}
    return value if key in ("enum", "default", "example", "required") else public(value, root)


def group_version_kind(resource: Resource) -> Json:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def definitions(kinds: Iterable[ServedKind], root: str) -> dict[str, Json]:
    """Every definition of the kinds, sorted by name, with the kinds marked as such."""
    found: dict[str, Json] = dict(LEAVES[root])
    marks: dict[str, list[Json]] = {}
    for kind in kinds:
        for short, schema in kind.schema.components().items():
            if public_name(short) not in found:
                found[public_name(short)] = public(schema, root)
        own = kind.schema.openapi()
        ref = own.get("$ref")
        name = public_name(ref.rpartition("/")[2]) if ref else kind_name(kind.resource)
        if not ref:
            found[name] = public(own, root)
        marks.setdefault(name, []).append(group_version_kind(kind.resource))
    for name, marked in marks.items():
        found[name] = found[name] | {"x-kubernetes-group-version-kind": marked}
    return dict(sorted(found.items()))


def reference(kind: ServedKind, root: str) -> Json:
    """The reference to a kind's definition."""
    ref = kind.schema.openapi().get("$ref")
    return {"$ref": root + (public_name(ref.rpartition("/")[2]) if ref else kind_name(kind.resource))}
