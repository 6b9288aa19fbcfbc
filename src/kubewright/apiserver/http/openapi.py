"""OpenAPI: what kinds look like, for ``kubectl explain``, ``apply`` and ``create``.

Theory.      Version 3 is one document per group version and an index of them. Each address in the
             index carries a hash of the document, so a client may cache it for ever.
             Version 2 is all kinds in one document. kubectl needs version 3; of version 2
             it asks for the protobuf form in one case, see ``EMPTY``.
             Operations: clients read three things there: the kind of a path, the patch types of a kind, and
             whether ``fieldValidation`` is understood, in which case kubectl leaves validation to the server.
             So operations are complete in those and brief in the rest.
             Schemas: inside the server a definition is called ``core.v1.Pod``; outside it is
             ``io.k8s.api.core.v1.Pod``, and a reference with other keywords beside it is wrapped into
             ``allOf``, since siblings of ``$ref`` are ignored. Quantities and int-or-strings are definitions
             of their own outside, so that ``kubectl explain`` can name them.
Invariants.  Pure: the same kinds give the same bytes and the same hash.
Called by    ``http.app``; ``respond`` returns None for other paths.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import orjson

from kubewright.apiserver.http.discovery import groups_of, kinds_of, subresources_of
from kubewright.apiserver.registry.kind import Catalog, ServedKind
from kubewright.wire.errors import NotAcceptable, to_status
from kubewright.wire.gvk import Resource
from kubewright.wire.http import JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Response

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


_METHODS: Mapping[str, tuple[str, str]] = {
    "get": ("get", "get"),
    "update": ("put", "put"),
    "patch": ("patch", "patch"),
    "delete": ("delete", "delete"),
}
"""Verb of one object: HTTP method, and what ``x-kubernetes-action`` calls it."""
_COLLECTION: Mapping[str, tuple[str, str]] = {
    "list": ("get", "list"),
    "create": ("post", "post"),
    "deletecollection": ("delete", "deletecollection"),
}
_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_LIST = ("continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "timeoutSeconds", "watch")
_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "post": _WRITE,
    "put": _WRITE,
    "patch": (*_WRITE, "force"),
    "list": _LIST,
    "delete": ("dryRun", "gracePeriodSeconds", "propagationPolicy"),
    "deletecollection": (*_LIST, "dryRun", "gracePeriodSeconds", "propagationPolicy"),
}
_TYPES: Mapping[str, str] = {
    "force": "boolean",
    "gracePeriodSeconds": "integer",
    "limit": "integer",
    "timeoutSeconds": "integer",
    "watch": "boolean",
}


def paths(kinds: tuple[ServedKind, ...], root: str = V3) -> dict[str, Json]:
    """Every path of the kinds with its operations."""
    found: dict[str, Json] = {}
    for kind in kinds:
        for path, item in _paths(kind, root):
            found[path] = item
    return dict(sorted(found.items()))


def _paths(kind: ServedKind, root: str) -> Iterator[tuple[str, Json]]:
    collection = kind.resource.path("{namespace}" if kind.resource.namespaced else "")
    yield collection, _item(kind, _COLLECTION, root)
    if kind.resource.namespaced and "list" in kind.verbs:
        yield kind.resource.path(), {"get": _operation(kind, "list", root)}
    if kind.verbs & _METHODS.keys():
        yield f"{collection}/{{name}}", _item(kind, _METHODS, root)
    if "status" in subresources_of(kind):
        own = {verb: known for verb, known in _METHODS.items() if verb != "delete"}
        yield f"{collection}/{{name}}/status", _item(kind, own, root)


def _item(kind: ServedKind, verbs: Mapping[str, tuple[str, str]], root: str) -> Json:
    return {
        method: _operation(kind, action, root)
        for verb, (method, action) in verbs.items()
        if verb in kind.verbs
    }


def _operation(kind: ServedKind, action: str, root: str) -> Json:
    schema = {"type": "object"} if action in ("list", "deletecollection", "delete") else reference(kind, root)
    operation: Json = {
        "parameters": [_parameter(name, root) for name in _PARAMETERS.get(action, ())],
        "responses": {"200": _answer(schema, root)},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": group_version_kind(kind.resource),
    }
    if action in ("post", "put", "patch"):
        _body(operation, kind, action, schema, root)
    return operation


def _answer(schema: Json, root: str) -> Json:
    if root == V3:
        return {"description": "OK", "content": {JSON: {"schema": schema}}}
    return {"description": "OK", "schema": schema}


def _parameter(name: str, root: str) -> Json:
    kind = {"type": _TYPES.get(name, "string")}
    return {"name": name, "in": "query", **({"schema": kind} if root == V3 else kind)}


def _body(operation: Json, kind: ServedKind, action: str, schema: Json, root: str) -> None:
    patches = (JSON_PATCH, MERGE_PATCH, *((STRATEGIC_PATCH,) if kind.strategic else ()))
    media = patches if action == "patch" else (JSON,)
    given = {"type": "object"} if action == "patch" else schema
    if root == V3:
        content = {name: {"schema": given} for name in media}
        operation["requestBody"] = {"content": content, "required": True}
    else:
        operation["consumes"] = list(media)
        operation["parameters"].append({"name": "body", "in": "body", "required": True, "schema": given})


_INFO = {"title": "Kubewright", "version": "v1"}
_FOREVER = "public, immutable, max-age=31536000"
_JSON = ("application/json", "application/*", "*/*", "")

PROTOBUF_ASKED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""What the answer is called: the name that is asked for is no valid media type."""


def _field(number: int, content: bytes) -> bytes:
    """A length-delimited field; all of ours are shorter than 128 bytes."""
    return bytes((number << 3 | 2, len(content))) + content


_PROTOBUF_INFO = _field(1, b"kubewright") + _field(2, b"v1")
EMPTY = _field(1, b"2.0") + _field(2, _PROTOBUF_INFO) + _field(8, b"")
"""A document of version 2 without kinds.

kubectl asks for protobuf in one case: before it sends the items of a ``kind: List``, it validates them
by this document, and accepts kinds that the document does not contain. So validation is left to the server,
which does it anyway. Source: gnostic's ``openapiv2.Document``: field 1 is ``swagger``, 2 ``info``,
8 ``paths``.
"""


def respond(
    catalog: Catalog, path: str, accept: str, if_none_match: str = "", known_hash: str = ""
) -> Response | None:
    """The answer to a GET of an OpenAPI path; None for other paths, and for groups that are not served.

    ``known_hash`` is the query parameter ``hash``: when it is the document's, the answer may be
    cached for ever; when it is an old one, the client is redirected to the new address.
    """
    if path == "/openapi/v3":
        return _acceptable(accept) or Response(200, orjson.dumps(_index(catalog)))
    if path == "/openapi/v2" and accept.startswith(PROTOBUF_ASKED):
        return Response(200, EMPTY, PROTOBUF)
    if path == "/openapi/v2":
        return _acceptable(accept) or _document(swagger_bytes(tuple(catalog)), if_none_match, "", path)
    kinds = _kinds_at(catalog, path.removeprefix("/openapi/v3/")) if path.startswith("/openapi/v3/") else ()
    if not kinds:
        return None
    return _acceptable(accept) or _document(document_bytes(kinds), if_none_match, known_hash, path)


def _acceptable(accept: str) -> Response | None:
    """None when the client takes JSON, else the refusal."""
    if any(media.partition(";")[0].strip() in _JSON for media in accept.split(",")):
        return None
    error = NotAcceptable("only the following media types are accepted: application/json")
    return Response(406, orjson.dumps(to_status(error)))


def _document(found: tuple[bytes, str], if_none_match: str, known_hash: str, path: str) -> Response:
    body, digest = found
    headers = {"etag": f'"{digest}"', "vary": "Accept"}
    if known_hash and known_hash != digest:
        return Response(301, headers=headers | {"location": f"{path}?hash={digest}"})
    headers["cache-control"] = _FOREVER if known_hash else "no-cache, private"
    if digest in if_none_match:
        return Response(304, headers=headers)
    return Response(200, body, headers=headers)


def _index(catalog: Catalog) -> dict[str, object]:
    found = {}
    for group, versions in groups_of(catalog).items():
        for version in versions:
            where = f"apis/{group}/{version}" if group else f"api/{version}"
            _, digest = document_bytes(tuple(kinds_of(catalog, group, version)))
            found[where] = {"serverRelativeURL": f"/openapi/v3/{where}?hash={digest}"}
    return {"paths": found}


def _kinds_at(catalog: Catalog, where: str) -> tuple[ServedKind, ...]:
    match where.split("/"):
        case ["api", version]:
            return tuple(kinds_of(catalog, "", version))
        case ["apis", group, version]:
            return tuple(kinds_of(catalog, group, version))
    return ()


def version_three(kinds: tuple[ServedKind, ...]) -> Json:
    """The OpenAPI 3.0 document of the kinds of one group version."""
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": paths(kinds),
        "components": {"schemas": definitions(kinds, V3)},
    }


def swagger(kinds: tuple[ServedKind, ...]) -> Json:
    """The OpenAPI 2.0 document of all kinds."""
    return {
        "swagger": "2.0",
        "info": _INFO,
        "paths": paths(kinds, V2),
        "definitions": definitions(kinds, V2),
    }


@lru_cache(maxsize=256)
def document_bytes(kinds: tuple[ServedKind, ...]) -> tuple[bytes, str]:
    """The version 3 document of a group version, and its hash."""
    return _hashed(orjson.dumps(version_three(kinds)))


@lru_cache(maxsize=4)
def swagger_bytes(kinds: tuple[ServedKind, ...]) -> tuple[bytes, str]:
    """The version 2 document of everything, and its hash."""
    return _hashed(orjson.dumps(swagger(kinds)))


def _hashed(body: bytes) -> tuple[bytes, str]:
    return body, hashlib.sha256(body).hexdigest().upper()
