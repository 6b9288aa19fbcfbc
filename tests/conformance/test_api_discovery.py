"""What a client finds out before its first request: versions, groups, kinds, schemas, permissions."""

import json

import pytest

from kubewright.testing.api import Api
from kubewright.wire.release import KUBERNETES

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
EVERYTHING = {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
KINDS = [
    ("/api/v1", "namespaces", "Namespace", False, ["ns"]),
    ("/api/v1", "nodes", "Node", False, ["no"]),
    ("/api/v1", "pods", "Pod", True, ["po"]),
    ("/api/v1", "secrets", "Secret", True, None),
    ("/api/v1", "configmaps", "ConfigMap", True, ["cm"]),
    ("/api/v1", "serviceaccounts", "ServiceAccount", True, ["sa"]),
    ("/api/v1", "events", "Event", True, ["ev"]),
    ("/api/v1", "persistentvolumes", "PersistentVolume", False, ["pv"]),
    ("/api/v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, ["pvc"]),
    ("/apis/events.k8s.io/v1", "events", "Event", True, ["ev"]),
    ("/apis/coordination.k8s.io/v1", "leases", "Lease", True, None),
    ("/apis/storage.k8s.io/v1", "volumeattachments", "VolumeAttachment", False, None),
    ("/apis/policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", True, ["pdb"]),
    ("/apis/apps/v1", "deployments", "Deployment", True, ["deploy"]),
    ("/apis/apps/v1", "replicasets", "ReplicaSet", True, ["rs"]),
    ("/apis/apps/v1", "statefulsets", "StatefulSet", True, ["sts"]),
    ("/apis/apps/v1", "daemonsets", "DaemonSet", True, ["ds"]),
    ("/apis/scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", False, ["pc"]),
    ("/apis/rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", False, None),
    ("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", False, None),
    ("/apis/rbac.authorization.k8s.io/v1", "roles", "Role", True, None),
    ("/apis/rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding", True, None),
    (
        "/apis/apiextensions.k8s.io/v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        False,
        ["crd", "crds"],
    ),
]
SUBRESOURCES = [
    ("/api/v1", "pods/status", "Pod", {"get", "patch", "update"}),
    ("/api/v1", "pods/eviction", "Eviction", {"create"}),
    ("/api/v1", "nodes/status", "Node", {"get", "patch", "update"}),
    ("/api/v1", "serviceaccounts/token", "TokenRequest", {"create"}),
    ("/apis/apps/v1", "deployments/scale", "Scale", {"get", "patch", "update"}),
    ("/apis/apps/v1", "replicasets/scale", "Scale", {"get", "patch", "update"}),
]


async def test_the_core_versions(server: Api) -> None:
    body = (await server.get("/api")).ok()
    assert (body["kind"], body["versions"]) == ("APIVersions", ["v1"])


async def test_the_groups_are_listed_with_their_preferred_versions(server: Api) -> None:
    body = (await server.get("/apis")).ok()
    assert (body["kind"], body["apiVersion"]) == ("APIGroupList", "v1")
    groups = {group["name"]: group for group in body["groups"]}
    wanted = {path.split("/")[2] for path, *_ in KINDS if path.startswith("/apis/")}
    assert wanted <= set(groups)
    apps = groups["apps"]
    assert apps["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    assert apps["versions"] == [{"groupVersion": "apps/v1", "version": "v1"}]
    assert (await server.get("/apis/apps")).ok()["name"] == "apps"


@pytest.mark.parametrize(
    ("path", "plural", "kind", "namespaced", "short"),
    KINDS,
    ids=[f"{k[0].split('/')[2]} {k[1]}" for k in KINDS],
)
async def test_a_kind_is_served(
    server: Api, path: str, plural: str, kind: str, namespaced: bool, short: list[str] | None
) -> None:
    body = (await server.get(path)).ok()
    assert (body["kind"], body["groupVersion"]) == (
        "APIResourceList",
        path.split("/", 2)[2].removeprefix("v1/"),
    )
    found = next(resource for resource in body["resources"] if resource["name"] == plural)
    assert (found["kind"], found["namespaced"], found.get("shortNames")) == (kind, namespaced, short)
    assert found["singularName"] == kind.lower()
    assert set(found["verbs"]) == EVERYTHING - ({"deletecollection"} if plural == "namespaces" else set())


@pytest.mark.parametrize(("path", "name", "kind", "verbs"), SUBRESOURCES, ids=[s[1] for s in SUBRESOURCES])
async def test_a_subresource_is_served(server: Api, path: str, name: str, kind: str, verbs: set[str]) -> None:
    body = (await server.get(path)).ok()
    found = next(resource for resource in body["resources"] if resource["name"] == name)
    assert (found["kind"], set(found["verbs"])) == (kind, verbs)


@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_discovery_in_one_answer(server: Api, path: str) -> None:
    answer = await server.get(path, accept=f"{AGGREGATED},application/json")
    body = answer.ok()
    assert (body["kind"], body["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    groups = {group["metadata"].get("name", ""): group for group in body["items"]}
    group, plural = ("", "pods") if path == "/api" else ("apps", "deployments")
    version = next(v for v in groups[group]["versions"] if v["version"] == "v1")
    found = next(r for r in version["resources"] if r["resource"] == plural)
    assert found["scope"] == "Namespaced"
    assert found["responseKind"]["kind"] == ("Pod" if group == "" else "Deployment")
    assert set(found["verbs"]) == EVERYTHING
    assert "status" in [sub["subresource"] for sub in found["subresources"]]


async def test_schemas_are_offered_per_group(server: Api) -> None:
    index = (await server.get("/openapi/v3")).ok()["paths"]
    for group in ("api/v1", "apis/apps/v1", "apis/coordination.k8s.io/v1"):
        path, _, query = index[group]["serverRelativeURL"].partition("?")
        body = (await server.get(path, **dict(pair.split("=", 1) for pair in query.split("&") if pair))).ok()
        assert body["openapi"].startswith("3.0")
        assert body["components"]["schemas"]


async def test_a_schema_knows_its_kind_and_fields(server: Api) -> None:
    index = (await server.get("/openapi/v3")).ok()["paths"]
    body = (await server.get(index["api/v1"]["serverRelativeURL"].partition("?")[0])).ok()
    gvk = {"group": "", "kind": "ConfigMap", "version": "v1"}
    schema = next(
        schema
        for schema in body["components"]["schemas"].values()
        if gvk in schema.get("x-kubernetes-group-version-kind", [])
    )
    assert {"apiVersion", "kind", "metadata", "data", "binaryData", "immutable"} <= set(schema["properties"])


async def test_the_version(server: Api) -> None:
    body = (await server.get("/version")).ok()
    assert body["major"] == "1"
    assert int(body["minor"].rstrip("+")) >= 34
    assert body["gitVersion"].startswith(KUBERNETES if server.flavour == "embedded" else "v1.")
    assert {"gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"} <= set(body)


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health(server: Api, path: str) -> None:
    answer = await server.get(path)
    assert (answer.code, answer.body) == (200, "ok")


async def test_an_admin_may_do_everything(server: Api) -> None:
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "delete", "resource": "nodes"}},
    }
    answer = await server.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    assert answer.code == 201
    assert answer.ok()["status"]["allowed"] is True


async def test_who_am_i(server: Api) -> None:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    info = (await server.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", body)).ok()["status"][
        "userInfo"
    ]
    assert info["username"]
    assert "system:masters" in info["groups"]


async def test_discovery_is_small_enough_to_read_at_every_start(server: Api) -> None:
    body = (await server.get("/apis", accept=AGGREGATED)).ok()
    assert len(json.dumps(body)) < 500_000


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
async def test_the_root_lists_paths_to_any_method(server: Api, method: str) -> None:
    answer = await server.call(method, "/")
    paths = answer.ok()["paths"]
    assert paths == sorted(paths)
    wanted = {
        "/api",
        "/api/v1",
        "/apis",
        "/apis/",
        "/apis/apps",
        "/apis/apps/v1",
        "/healthz",
        "/livez",
        "/readyz",
    }
    assert wanted | {"/metrics", "/openapi/v2", "/openapi/v3", "/version"} <= set(paths)


async def test_who_may_not_read_the_root_is_told_so(server: Api) -> None:
    answer = await server.as_user("nobody").get("/")
    assert (answer.code, answer.reason) == (403, "Forbidden")
    assert answer.message == 'forbidden: User "nobody" cannot get path "/"'


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/", 200),
        ("/apis", 200),
        ("/apis/apps", 200),
        ("/healthz", 200),
        ("/livez", 200),
        ("/readyz", 200),
        ("/metrics", 200),
        ("/openapi/v2", 200),
        ("/openapi/v3", 200),
        ("/openapi/v3/api/v1", 200),
        ("/nope", 404),
        ("/apis/nope.example.com", 404),
        ("/api", 405),
        ("/api/v1", 405),
        ("/apis/apps/v1", 405),
        ("/version", 405),
        ("/api/v1/namespaces", 405),
        ("/api/v1/namespaces/default", 405),
        ("/apis/apps/v1/namespaces/default/deployments", 405),
    ],
)
async def test_head_is_answered_where_a_path_has_it_and_never_with_a_body(
    server: Api, path: str, code: int
) -> None:
    answer = await server.call("HEAD", path)
    assert (answer.code, bool(answer.body)) == (code, False)
