"""Discovery: which API groups, versions and resources this server serves.

Theory.      There are two ways to ask. The plain one walks ``/api``, ``/apis`` and each group
             version. The aggregated one gets everything in two answers: kubectl since 1.27 asks
             for that and falls back. Both are views of the same catalog.
Invariants.  Pure: the same catalog gives the same bytes. Kinds come in the order in which the catalog
             has them, and so do built-in groups; groups of CRDs follow by name, as at kube-apiserver.
Called by    ``http.app``: ``respond`` returns None for all other paths; ``index`` is the root's answer.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from kubewright.apiserver.registry.kind import Catalog, ServedKind
from kubewright.wire.gvk import Resource, by_preference
from kubewright.wire.http import Response

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
_OWN = ("get", "patch", "update")
_CREATE = ("create",)

Subresource = tuple[str, str, str, tuple[str, ...]]
_SUBRESOURCES: Mapping[str, Subresource] = {
    "scale": ("autoscaling", "v1", "Scale", _OWN),
    "eviction": ("policy", "v1", "Eviction", _CREATE),
    "binding": ("", "v1", "Binding", _CREATE),
    "token": ("authentication.k8s.io", "v1", "TokenRequest", _CREATE),
}
"""Group, version, kind and verbs of subresources that are kinds of their own."""
_VERBS: Mapping[str, tuple[str, ...]] = {"finalize": ("update",), "log": ("get",)}
"""Verbs of subresources that show the object itself, where they are not ``get, patch, update``."""

MEASURED = (
    Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False),
    Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics"),
)
"""What is served and not stored (``http.usage``): a group of an aggregated server on other clusters."""
MEASURED_VERBS = ("get", "list")

_BESIDE = (
    "/api", "/api/v1", "/apis", "/apis/", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3",
    "/readyz", "/version",
)  # fmt: skip
"""Paths that are there whatever kinds are."""


def index(catalog: Catalog) -> Response:
    """The answer at the root: paths, without those of kinds that come and go, as at kube-apiserver."""
    found = {*_BESIDE}
    for kind in catalog:
        if kind.resource.group and not kind.custom:
            found |= {f"/apis/{kind.resource.group}", f"/apis/{kind.resource.api_version}"}
    return Response(200, orjson.dumps({"paths": sorted(found)}, option=orjson.OPT_INDENT_2))


def lacks_head(catalog: Catalog, path: str, found: ServedKind | None) -> bool:
    """Whether what is at a path is read by GET and not by HEAD; ``found`` is the kind that it names.

    So it is where kube-apiserver has a table of verbs: for built-in kinds, the versions of their groups, the
    core group and the version. Custom kinds and all other paths have HEAD.
    """
    if found is not None:
        return not found.custom
    match path.strip("/").split("/"):
        case ["api", *_] | ["version"]:
            return True
        case ["apis", group, version]:
            return any(not kind.custom for kind in kinds_of(catalog, group, version))
    return False


def respond(catalog: Catalog, path: str, accept: str) -> Response | None:
    """The answer to a GET of a discovery path; None for other paths, and for groups that are not served."""
    parts = path.strip("/").split("/")
    if parts in (["api"], ["apis"]) and (version := _aggregated(accept)):
        media = AGGREGATED.format(version)
        return Response(200, orjson.dumps(_everything(catalog, parts[0] == "api", version)), media)
    document = _plain(catalog, parts)
    return None if document is None else Response(200, orjson.dumps(document))


def _aggregated(accept: str) -> str:
    """The version of aggregated discovery that the client takes: ``v2``, ``v2beta1``, or none.

    The first acceptable media type decides, as clients list them by preference.
    """
    for media in accept.split(","):
        words = {word.strip() for word in media.split(";")}
        if {"g=apidiscovery.k8s.io", "as=APIGroupDiscoveryList"} <= words and "application/json" in words:
            for version in ("v2", "v2beta1"):
                if f"v={version}" in words:
                    return version
        elif words & {"application/json", "*/*", "application/*"} and not any("g=" in word for word in words):
            return ""
    return ""


def _plain(catalog: Catalog, parts: list[str]) -> dict[str, Any] | None:
    match parts:
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            groups = [_group(name, served) for name, served in _all_groups(catalog).items() if name]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["apis", group] if group in (known := _all_groups(catalog)) and group:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, known[group])}
        case ["api", version]:
            return _resources(catalog, "", version)
        case ["apis", group, version] if group:
            return _resources(catalog, group, version)
    return None


def groups_of(catalog: Catalog) -> dict[str, list[str]]:
    """Every group with its versions, the preferred one first.

    Groups of CRDs come last, by name: of two that have a kind of one name, kubectl means the first.
    """
    found: dict[str, list[str]] = {}
    for kind in sorted(catalog, key=lambda kind: (kind.custom, kind.resource.group if kind.custom else "")):
        served = found.setdefault(kind.resource.group, [])
        if kind.resource.version not in served:
            served.append(kind.resource.version)
    return {group: by_preference(served) for group, served in found.items()}


def _all_groups(catalog: Catalog) -> dict[str, list[str]]:
    """As ``groups_of``, with those that are not stored at the end: of two kinds of one name kubectl means the
    first."""
    found = groups_of(catalog)
    for each in MEASURED:
        found.setdefault(each.group, [each.version])
    return found


def _measured(group: str, version: str) -> Iterator[Resource]:
    return (each for each in MEASURED if (each.group, each.version) == (group, version))


def kinds_of(catalog: Catalog, group: str, version: str) -> Iterator[ServedKind]:
    """The kinds of one group version."""
    return (k for k in catalog if (k.resource.group, k.resource.version) == (group, version))


def _group(name: str, served: Iterable[str]) -> dict[str, Any]:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in served]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def subresources_of(kind: ServedKind) -> list[str]:
    """The names of a kind's subresources, sorted."""
    return sorted(
        {*kind.subresources, *(("status",) if kind.has_status else ()), *(("scale",) if kind.scale else ())}
    )


def subresource(kind: ServedKind, name: str) -> Subresource:
    """Group, version, kind and verbs of one subresource."""
    own = (kind.resource.group, kind.resource.version, kind.resource.kind, _VERBS.get(name, _OWN))
    return _SUBRESOURCES.get(name, own)


def _resources(catalog: Catalog, group: str, version: str) -> dict[str, Any] | None:
    """The APIResourceList of one group version."""
    listed = [entry for kind in kinds_of(catalog, group, version) for entry in _entries(kind)]
    listed += [
        {"name": each.plural, "singularName": "", "namespaced": each.namespaced, "kind": each.kind,
         "verbs": list(MEASURED_VERBS)}
        for each in _measured(group, version)
    ]  # fmt: skip
    if not listed:
        return None
    group_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": listed}


def _entries(kind: ServedKind) -> Iterator[dict[str, Any]]:
    """A kind and its subresources in plain discovery."""
    resource = kind.resource
    lists = {"shortNames": list(resource.short_names), "categories": list(kind.categories)}
    yield {
        "name": resource.plural,
        "singularName": kind.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": sorted(kind.verbs),
        **{name: words for name, words in lists.items() if words},
    }
    for name in subresources_of(kind):
        group, version, shown, verbs = subresource(kind, name)
        foreign = (group, version) != (resource.group, resource.version)
        yield {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            **({"group": group, "version": version} if foreign else {}),
            "kind": shown,
            "verbs": list(verbs),
        }


def _everything(catalog: Catalog, core: bool, version: str) -> dict[str, Any]:
    """The APIGroupDiscoveryList of the core group, or of all others."""
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": group} if group else {},
                "versions": [_version(catalog, group, name) for name in served],
            }
            for group, served in _all_groups(catalog).items()
            if core == (not group)
        ],
    }


def _version(catalog: Catalog, group: str, version: str) -> dict[str, Any]:
    resources = [_discovered(kind) for kind in kinds_of(catalog, group, version)]
    resources += [
        {"resource": each.plural, "responseKind": _kind_of(group, version, each.kind), "singularResource": "",
         "scope": "Namespaced" if each.namespaced else "Cluster", "verbs": list(MEASURED_VERBS)}
        for each in _measured(group, version)
    ]  # fmt: skip
    return {"version": version, "resources": resources, "freshness": "Current"}


def _discovered(kind: ServedKind) -> dict[str, Any]:
    """A kind and its subresources in aggregated discovery."""
    resource = kind.resource
    lists = {
        "shortNames": list(resource.short_names),
        "categories": list(kind.categories),
        "subresources": [_discovered_part(kind, name) for name in subresources_of(kind)],
    }
    return {
        "resource": resource.plural,
        "responseKind": _kind_of(resource.group, resource.version, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": sorted(kind.verbs),
        **{name: words for name, words in lists.items() if words},
    }


def _discovered_part(kind: ServedKind, name: str) -> dict[str, Any]:
    group, version, shown, verbs = subresource(kind, name)
    return {"subresource": name, "responseKind": _kind_of(group, version, shown), "verbs": list(verbs)}


def _kind_of(group: str, version: str, kind: str) -> dict[str, str]:
    return {"group": group, "version": version, "kind": kind}
