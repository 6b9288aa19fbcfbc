"""The operations of a document: which paths a kind has and what may be done there.

Theory.      Clients read three things here: the kind of a path, the patch types of a kind, and
             whether ``fieldValidation`` is understood, in which case kubectl leaves validation to
             the server. So operations are complete in those and brief in the rest.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kubewright.apiserver.http.discovery import subresources_of
from kubewright.apiserver.http.openapi.shapes import V3, group_version_kind, reference
from kubewright.apiserver.registry.kind import ServedKind
from kubewright.wire.http import JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH

Json = dict[str, Any]

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
