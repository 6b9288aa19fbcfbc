"""Requests as RBAC counts them, and roles as sets of permissions."""

import json
from typing import Any

import pytest

from kubewright.testing.permissions import Permission, asked, granted, missing, unused
from kubewright.wire.http import Request

MACHINES = "/apis/machine.sapcloud.io/v1alpha1"
GROUP = "machine.sapcloud.io"
OWNER = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "MachineSet", "name": "s", "uid": "u"}


def owned(**more: Any) -> bytes:
    return json.dumps({"metadata": {"ownerReferences": [{**OWNER, **more}]}}).encode()


CASES = [
    ("one object is read: get", "GET", "/api/v1/nodes/n1", {}, {("", "nodes", "get", "")}),
    ("all objects are read: list", "GET", "/api/v1/nodes", {}, {("", "nodes", "list", "")}),
    ("a list that goes on: watch", "GET", "/api/v1/nodes", {"watch": "1"}, {("", "nodes", "watch", "")}),
    ("a list in a namespace", "GET", "/api/v1/namespaces/a/pods", {}, {("", "pods", "list", "a")}),
    ("POST creates", "POST", f"{MACHINES}/namespaces/a/machines", {}, {(GROUP, "machines", "create", "a")}),
    ("PUT updates", "PUT", "/apis/coordination.k8s.io/v1/namespaces/a/leases/l", {},
     {("coordination.k8s.io", "leases", "update", "a")}),
    ("PATCH patches", "PATCH", f"{MACHINES}/namespaces/a/machines/m", {}, {(GROUP, "machines", "patch", "a")}),
    ("DELETE of one", "DELETE", "/api/v1/nodes/n1", {}, {("", "nodes", "delete", "")}),
    ("DELETE of all", "DELETE", "/api/v1/nodes", {}, {("", "nodes", "deletecollection", "")}),
    ("a subresource belongs to the resource's name", "PATCH", "/api/v1/nodes/n1/status", {},
     {("", "nodes/status", "patch", "")}),
    ("POST to a subresource creates it", "POST", "/api/v1/namespaces/a/pods/p/eviction", {},
     {("", "pods/eviction", "create", "a")}),
    ("a namespace itself", "GET", "/api/v1/namespaces/a", {}, {("", "namespaces", "get", "")}),
    ("health is no resource", "GET", "/readyz", {}, set()),
    ("discovery is no resource", "GET", MACHINES, {}, set()),
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_a_request_asks_for(
    method: str, path: str, query: dict[str, str], expected: set[tuple[str, str, str, str]]
) -> None:
    assert asked(Request(method, path, tuple(query.items()))) == {Permission(*each) for each in expected}


OWNED = [
    ("a reference that holds its owner", owned(blockOwnerDeletion=True), True),
    ("a reference that does not", owned(), False),
    ("an owner of another API", owned(blockOwnerDeletion=True, kind="Deployment"), False),
    ("no references any more", b'{"metadata": {"ownerReferences": null}}', False),
    ("no object at all", b"what?", False),
]


@pytest.mark.parametrize(("body", "holds"), [c[1:] for c in OWNED], ids=[c[0] for c in OWNED])
def test_owner_references_ask_for_the_owners_finalizers(body: bytes, holds: bool) -> None:
    found = asked(Request("PATCH", f"{MACHINES}/namespaces/a/machines/m", body=body))
    assert (Permission(GROUP, "machinesets/finalizers", "update", "a") in found) is holds


def rule(verbs: list[str], resource: str = "pods") -> dict[str, Any]:
    return {"apiGroups": [""], "resources": [resource], "verbs": verbs}


ROLES = [
    {"kind": "ClusterRole", "metadata": {"name": "c"}, "rules": [rule(["get", "list"])]},
    {"kind": "Role", "metadata": {"name": "r", "namespace": "a"}, "rules": [rule(["delete"])]},
    {"kind": "RoleBinding", "metadata": {"name": "r", "namespace": "a"}},
]


def test_a_role_grants_in_its_namespace_and_a_cluster_role_everywhere() -> None:
    assert {str(each) for each in granted(ROLES)} == {"get pods", "list pods", "delete pods in a"}


def test_what_is_missing_and_what_is_idle() -> None:
    needs = [Permission("", "pods", "get", "b"), Permission("", "pods", "delete", "b")]
    assert [str(each) for each in missing(needs, granted(ROLES))] == ["delete pods in b"]
    assert [str(each) for each in unused(needs, granted(ROLES))] == ["delete pods in a", "list pods"]
