"""Discovery and OpenAPI: plain and aggregated discovery, OpenAPI documents, and caching."""

from typing import Any

import orjson
import pytest

from kubewright.apiserver.http import discovery, openapi
from kubewright.apiserver.registry import custom
from kubewright.apiserver.registry.builtin import builtin_catalog
from kubewright.apiserver.registry.kind import Catalog
from kubewright.apiserver.schema.node import Object

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
KUBECTL = f"{V2},application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"


SIZE = {"type": "integer", "description": "How big."}
SPEC = {"type": "object", "properties": {"size": SIZE}}
SCHEMA = {"type": "object", "description": "A widget.", "properties": {"spec": SPEC}}
SCALE = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}


def widgets(*versions: str) -> Object:
    """A definition; the first version is the stored one."""
    common = {
        "served": True,
        "schema": {"openAPIV3Schema": SCHEMA},
        "subresources": {"status": {}, "scale": SCALE},
    }
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["w"]},
            "versions": [{**common, "name": name, "storage": name == versions[0]} for name in versions],
        },
    }


@pytest.fixture
def catalog() -> Catalog:
    served = builtin_catalog()
    for kind in custom.kinds(widgets("v1alpha1", "v1", "v1beta1")):
        served.put(kind)
    return served


def get(catalog: Catalog, path: str, accept: str = "application/json") -> Any:
    answer = discovery.respond(catalog, path, accept) or openapi.respond(catalog, path, accept)
    return None if answer is None else orjson.loads(answer.body)


def test_plain_discovery_leads_from_groups_to_resources(catalog: Catalog) -> None:
    assert get(catalog, "/api")["versions"] == ["v1"]
    groups = {group["name"]: group for group in get(catalog, "/apis")["groups"]}
    assert {"apps", "policy", "events.k8s.io", "example.com"} <= groups.keys()
    assert [v["version"] for v in groups["example.com"]["versions"]] == ["v1", "v1beta1", "v1alpha1"]
    assert get(catalog, "/apis/example.com")["preferredVersion"]["version"] == "v1"
    resources = {r["name"]: r for r in get(catalog, "/apis/example.com/v1")["resources"]}
    assert resources.keys() == {"widgets", "widgets/status", "widgets/scale"}
    assert resources["widgets"]["shortNames"] == ["w"]
    assert (resources["widgets/scale"]["group"], resources["widgets/scale"]["kind"]) == (
        "autoscaling",
        "Scale",
    )


def test_groups_of_definitions_come_last_by_name(catalog: Catalog) -> None:
    for group in ("zoo.example.com", "apes.example.com"):
        crd = widgets("v1")
        for kind in custom.kinds({**crd, "spec": {**crd["spec"], "group": group}}):
            catalog.put(kind)
    names = [group["name"] for group in get(catalog, "/apis")["groups"]]
    assert names[-4:] == ["apes.example.com", "example.com", "zoo.example.com", "metrics.k8s.io"]
    builtin = [group["name"] for group in get(builtin_catalog(), "/apis")["groups"]]
    assert names[:-4] == builtin[:-1]


def test_subresources_say_what_kind_they_take(catalog: Catalog) -> None:
    resources = {r["name"]: r for r in get(catalog, "/api/v1")["resources"]}
    assert (resources["pods/eviction"]["group"], resources["pods/eviction"]["kind"]) == ("policy", "Eviction")
    assert resources["serviceaccounts/token"]["kind"] == "TokenRequest"
    assert resources["namespaces/finalize"]["verbs"] == ["update"]
    assert "deletecollection" not in resources["namespaces"]["verbs"]


@pytest.mark.parametrize(
    "path",
    ["/apis/nope", "/apis/nope/v1", "/apis/apps/v2", "/api/v2", "/elsewhere", "/openapi/v3/apis/nope/v1"],
)
def test_what_is_not_served_is_not_answered(catalog: Catalog, path: str) -> None:
    assert get(catalog, path) is None


ACCEPTS = [
    ("kubectl gets the best it knows", KUBECTL, "apidiscovery.k8s.io/v2"),
    ("an older kubectl", KUBECTL.replace("v=v2;", "v=v2beta1;"), "apidiscovery.k8s.io/v2beta1"),
    ("curl", "*/*", "v1"),
    ("a client that likes plain discovery better", f"application/json,{V2}", "v1"),
    ("an unknown version", V2.replace("v=v2", "v=v9") + ",application/json", "v1"),
]


@pytest.mark.parametrize(("accept", "version"), [c[1:] for c in ACCEPTS], ids=[c[0] for c in ACCEPTS])
def test_the_accept_header_decides_how_discovery_answers(catalog: Catalog, accept: str, version: str) -> None:
    answer = discovery.respond(catalog, "/apis", accept)
    assert answer is not None
    assert orjson.loads(answer.body)["apiVersion"] == version
    assert ("as=APIGroupDiscoveryList" in answer.content_type) == version.startswith("apidiscovery")


def test_aggregated_discovery_tells_all_at_once(catalog: Catalog) -> None:
    groups = {group["metadata"]["name"]: group for group in get(catalog, "/apis", V2)["items"]}
    first = groups["example.com"]["versions"][0]
    assert (first["version"], first["freshness"]) == ("v1", "Current")
    (widget,) = first["resources"]
    assert widget["responseKind"] == {"group": "example.com", "version": "v1", "kind": "Widget"}
    assert (widget["scope"], widget["singularResource"]) == ("Namespaced", "widget")
    assert [s["subresource"] for s in widget["subresources"]] == ["scale", "status"]
    (core,) = get(catalog, "/api", V2)["items"]
    assert core["metadata"] == {}
    assert "nodes" in {r["resource"] for r in core["versions"][0]["resources"]}


def test_the_index_names_every_group_version_with_its_hash(catalog: Catalog) -> None:
    paths = get(catalog, "/openapi/v3")["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/example.com/v1beta1"} <= paths.keys()
    assert paths["api/v1"]["serverRelativeURL"].startswith("/openapi/v3/api/v1?hash=")


def test_documents_may_be_cached_by_their_hash(catalog: Catalog) -> None:
    path = "/openapi/v3/apis/apps/v1"
    digest = get(catalog, "/openapi/v3")["paths"]["apis/apps/v1"]["serverRelativeURL"].partition("=")[2]
    plain = openapi.respond(catalog, path, "application/json")
    kept = openapi.respond(catalog, path, "application/json", known_hash=digest)
    same = openapi.respond(catalog, path, "application/json", if_none_match=f'"{digest}"')
    moved = openapi.respond(catalog, path, "application/json", known_hash="old")
    assert plain is not None
    assert kept is not None
    assert same is not None
    assert moved is not None
    assert (plain.status, plain.headers["etag"]) == (200, f'"{digest}"')
    assert "immutable" in kept.headers["cache-control"]
    assert (same.status, same.body) == (304, b"")
    assert (moved.status, moved.headers["location"]) == (301, f"{path}?hash={digest}")


PROTOBUF = "application/com.github.proto-openapi.spec.v{0}@v1.0+protobuf"


def test_protobuf_is_offered_only_as_an_empty_document_of_version_two(catalog: Catalog) -> None:
    two = openapi.respond(catalog, "/openapi/v2", PROTOBUF.format(2))
    three = openapi.respond(catalog, "/openapi/v3/api/v1", PROTOBUF.format(3))
    assert two is not None
    assert three is not None
    assert (two.status, b"2.0" in two.body) == (200, True)
    assert three.status == 406


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(references(inner) for inner in value.values()))
    return set().union(*(references(inner) for inner in value)) if isinstance(value, list) else set()


@pytest.mark.parametrize(
    "where", ["api/v1", "apis/apps/v1", "apis/apiextensions.k8s.io/v1", "apis/example.com/v1"]
)
def test_every_reference_leads_somewhere(catalog: Catalog, where: str) -> None:
    document = get(catalog, f"/openapi/v3/{where}")
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert references(document) <= known
    assert not any("x-go" in name for name in str(document).split("'"))


def test_version_two_has_everything_in_one(catalog: Catalog) -> None:
    document = get(catalog, "/openapi/v2")
    assert references(document) <= {f"#/definitions/{name}" for name in document["definitions"]}
    assert "com.example.v1.Widget" in document["definitions"]


def test_kubectl_finds_what_it_looks_for(catalog: Catalog) -> None:
    document = get(catalog, "/openapi/v3/apis/apps/v1")
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {
        "group": "apps",
        "version": "v1",
        "kind": "Deployment",
    }
    assert "fieldValidation" in {parameter["name"] for parameter in patch["parameters"]}
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
    shown = document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"]
    assert shown["x-kubernetes-group-version-kind"][0]["kind"] == "Deployment"
    assert shown["properties"]["spec"]["allOf"] == [
        {"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"}
    ]


def test_custom_kinds_are_explained_in_their_own_words(catalog: Catalog) -> None:
    document = get(catalog, "/openapi/v3/apis/example.com/v1")
    widget = document["components"]["schemas"]["com.example.v1.Widget"]
    assert widget["description"] == "A widget."
    assert widget["properties"]["spec"]["properties"]["size"]["description"] == "How big."
    patch = document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"]
    assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]
