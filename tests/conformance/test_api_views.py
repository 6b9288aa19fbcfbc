"""Other views of the same objects: tables for people, bare metadata for machines."""

from typing import Any

import pytest

from kubewright.testing.api import Api, Object

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
KUBECTL = f"{TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"

WIDE = 1
COLUMNS: dict[str, list[tuple[str, str, int]]] = {
    "pods": [
        ("Name", "string", 0),
        ("Ready", "string", 0),
        ("Status", "string", 0),
        ("Restarts", "string", 0),
        ("Age", "string", 0),
        ("IP", "string", WIDE),
        ("Node", "string", WIDE),
        ("Nominated Node", "string", WIDE),
        ("Readiness Gates", "string", WIDE),
    ],
    "/api/v1/nodes": [
        ("Name", "string", 0),
        ("Status", "string", 0),
        ("Roles", "string", 0),
        ("Age", "string", 0),
        ("Version", "string", 0),
        ("Internal-IP", "string", WIDE),
        ("External-IP", "string", WIDE),
        ("OS-Image", "string", WIDE),
        ("Kernel-Version", "string", WIDE),
        ("Container-Runtime", "string", WIDE),
    ],
    "/api/v1/namespaces": [("Name", "string", 0), ("Status", "string", 0), ("Age", "string", 0)],
    "configmaps": [("Name", "string", 0), ("Data", "string", 0), ("Age", "string", 0)],
    "secrets": [("Name", "string", 0), ("Type", "string", 0), ("Data", "string", 0), ("Age", "string", 0)],
    "events": [
        ("Last Seen", "string", 0),
        ("Type", "string", 0),
        ("Reason", "string", 0),
        ("Object", "string", 0),
        ("Subobject", "string", WIDE),
        ("Source", "string", WIDE),
        ("Message", "string", 0),
        ("First Seen", "string", WIDE),
        ("Count", "string", WIDE),
        ("Name", "string", WIDE),
    ],
    "leases.coordination.k8s.io": [("Name", "string", 0), ("Holder", "string", 0), ("Age", "string", 0)],
    "poddisruptionbudgets.policy": [
        ("Name", "string", 0),
        ("Min Available", "string", 0),
        ("Max Unavailable", "string", 0),
        ("Allowed Disruptions", "integer", 0),
        ("Age", "string", 0),
    ],
    "deployments.apps": [
        ("Name", "string", 0),
        ("Ready", "string", 0),
        ("Up-to-date", "string", 0),
        ("Available", "string", 0),
        ("Age", "string", 0),
        ("Containers", "string", WIDE),
        ("Images", "string", WIDE),
        ("Selector", "string", WIDE),
    ],
    "replicasets.apps": [
        ("Name", "string", 0),
        ("Desired", "integer", 0),
        ("Current", "integer", 0),
        ("Ready", "integer", 0),
        ("Age", "string", 0),
        ("Containers", "string", WIDE),
        ("Images", "string", WIDE),
        ("Selector", "string", WIDE),
    ],
    "statefulsets.apps": [
        ("Name", "string", 0),
        ("Ready", "string", 0),
        ("Age", "string", 0),
        ("Containers", "string", WIDE),
        ("Images", "string", WIDE),
    ],
    "daemonsets.apps": [
        ("Name", "string", 0),
        ("Desired", "integer", 0),
        ("Current", "integer", 0),
        ("Ready", "integer", 0),
        ("Up-to-date", "integer", 0),
        ("Available", "integer", 0),
        ("Node Selector", "string", 0),
        ("Age", "string", 0),
        ("Containers", "string", WIDE),
        ("Images", "string", WIDE),
        ("Selector", "string", WIDE),
    ],
    "serviceaccounts": [("Name", "string", 0), ("Age", "string", 0)],
    "/api/v1/persistentvolumes": [
        ("Name", "string", 0),
        ("Capacity", "string", 0),
        ("Access Modes", "string", 0),
        ("Reclaim Policy", "string", 0),
        ("Status", "string", 0),
        ("Claim", "string", 0),
        ("StorageClass", "string", 0),
        ("VolumeAttributesClass", "string", 0),
        ("Reason", "string", 0),
        ("Age", "string", 0),
        ("VolumeMode", "string", WIDE),
    ],
    "persistentvolumeclaims": [
        ("Name", "string", 0),
        ("Status", "string", 0),
        ("Volume", "string", 0),
        ("Capacity", "string", 0),
        ("Access Modes", "string", 0),
        ("StorageClass", "string", 0),
        ("VolumeAttributesClass", "string", 0),
        ("Age", "string", 0),
        ("VolumeMode", "string", WIDE),
    ],
    "/apis/storage.k8s.io/v1/volumeattachments": [
        ("Name", "string", 0),
        ("Attacher", "string", 0),
        ("PV", "string", 0),
        ("Node", "string", 0),
        ("Attached", "boolean", 0),
        ("Age", "string", 0),
    ],
    "/apis/scheduling.k8s.io/v1/priorityclasses": [
        ("Name", "string", 0),
        ("Value", "integer", 0),
        ("Global-Default", "boolean", 0),
        ("Age", "string", 0),
        ("PreemptionPolicy", "string", 0),
    ],
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": [
        ("Name", "string", 0),
        ("Created At", "date", 0),
    ],
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": [("Name", "string", 0), ("Created At", "date", 0)],
    "roles.rbac.authorization.k8s.io": [("Name", "string", 0), ("Created At", "date", 0)],
    "rolebindings.rbac.authorization.k8s.io": [
        ("Name", "string", 0),
        ("Role", "string", 0),
        ("Age", "string", 0),
        ("Users", "string", WIDE),
        ("Groups", "string", WIDE),
        ("ServiceAccounts", "string", WIDE),
    ],
}


def where(api: Api, resource: str) -> str:
    plural, _, group = resource.partition(".")
    return resource if resource.startswith("/") else api.at(plural, group=group)


@pytest.mark.parametrize("resource", COLUMNS, ids=[r.rpartition("/")[2] for r in COLUMNS])
async def test_columns(api: Api, resource: str) -> None:
    table = (await api.get(where(api, resource), accept=KUBECTL)).ok()
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    found = [(c["name"], c["type"], c["priority"]) for c in table["columnDefinitions"]]
    assert found == COLUMNS[resource]
    assert table["columnDefinitions"][0]["format"] == ("" if resource == "events" else "name")


POD: Object = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]}
READY = {"type": "Ready", "status": "True"}
STATES: list[tuple[str, Any, list[str]]] = [
    ("pending", None, ["p", "0/2", "Pending", "0"]),
    (
        "running",
        {
            "phase": "Running",
            "conditions": [READY],
            "containerStatuses": [
                {"name": "c", "ready": True, "restartCount": 2, "image": "i", "imageID": "", "state": {"running": {}}},
                {"name": "d", "ready": False, "restartCount": 1, "image": "i", "imageID": "", "state": {"running": {}}},
            ],
        },
        ["p", "1/2", "Running", "3"],
    ),
    (
        "crashing",
        {
            "phase": "Running",
            "containerStatuses": [
                {
                    "name": "c",
                    "ready": False,
                    "restartCount": 0,
                    "image": "i",
                    "imageID": "",
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                }
            ],
        },
        ["p", "0/2", "CrashLoopBackOff", "0"],
    ),
    ("evicted", {"phase": "Failed", "reason": "Evicted"}, ["p", "0/2", "Evicted", "0"]),
    ("completed", {"phase": "Succeeded"}, ["p", "0/2", "Succeeded", "0"]),
]  # fmt: skip


@pytest.mark.parametrize(("status", "cells"), [s[1:] for s in STATES], ids=[s[0] for s in STATES])
async def test_a_pod_in_a_row(api: Api, status: Any, cells: list[str]) -> None:
    (await api.post(api.at("pods"), {"metadata": {"name": "p"}, "spec": POD})).ok()
    if status:
        (await api.patch(api.at("pods", "p") + "/status", {"status": status})).ok()
    (row,) = (await api.get(api.at("pods"), accept=KUBECTL)).ok()["rows"]
    assert row["cells"][:4] == cells
    assert row["cells"][6] == "n1"


async def test_a_pod_that_ends_says_so_in_its_row(api: Api) -> None:
    (await api.post(api.at("pods"), {"metadata": {"name": "p"}, "spec": POD})).ok()
    await api.delete(api.at("pods", "p"))
    (row,) = (await api.get(api.at("pods"), accept=KUBECTL)).ok()["rows"]
    assert row["cells"][2] == "Terminating"


async def test_a_node_in_a_row(api: Api) -> None:
    name = f"{api.namespace}-node"
    path = f"/api/v1/nodes/{name}"
    labels = {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/edge": ""}
    (await api.post("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})).ok()
    status = {
        "conditions": [READY],
        "nodeInfo": {"kubeletVersion": "v1.36.0", "osImage": "Sim", "kernelVersion": "6", "containerRuntimeVersion": "x"},
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
    }  # fmt: skip
    (await api.patch(path + "/status", {"status": status})).ok()
    (await api.patch(path, {"spec": {"unschedulable": True}})).ok()
    (row,) = (await api.get(path, accept=KUBECTL)).ok()["rows"]
    await api.delete(path)
    cells = row["cells"]
    assert cells[:3] == [name, "Ready,SchedulingDisabled", "edge,worker"]
    assert cells[4:] == ["v1.36.0", "10.0.0.1", "<none>", "Sim", "6", "x"]


async def test_rows_carry_what_is_asked_for(api: Api) -> None:
    path = api.at("configmaps")
    (await api.post(path, {"metadata": {"name": "a"}, "data": {"k": "v"}})).ok()
    for include, kind in (
        ("", "PartialObjectMetadata"),
        ("Metadata", "PartialObjectMetadata"),
        ("Object", "ConfigMap"),
    ):
        query = {"includeObject": include} if include else {}
        (row,) = (await api.get(path, accept=TABLE, **query)).ok()["rows"]
        assert row["cells"][:2] == ["a", 1] or row["cells"][:2] == ["a", "1"]
        assert row["object"]["kind"] == kind
        assert row["object"]["metadata"]["name"] == "a"
    (row,) = (await api.get(path, accept=TABLE, includeObject="None")).ok()["rows"]
    assert row.get("object") is None


async def test_a_table_of_pages(api: Api) -> None:
    for name in "abc":
        (await api.post(api.at("configmaps"), {"metadata": {"name": name}})).ok()
    first = (await api.get(api.at("configmaps"), accept=KUBECTL, limit="2")).ok()
    assert [row["cells"][0] for row in first["rows"]] == ["a", "b"]
    rest = (
        await api.get(
            api.at("configmaps"), accept=KUBECTL, limit="2", continue_=first["metadata"]["continue"]
        )
    ).ok()
    assert [row["cells"][0] for row in rest["rows"]] == ["c"]


async def test_bare_metadata(api: Api) -> None:
    path = api.at("configmaps")
    made = (await api.post(path, {"metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": "v"}})).ok()
    one = (await api.get(f"{path}/a", accept=PARTIAL)).ok()
    assert (one["kind"], one["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert one["metadata"] == made["metadata"]
    assert "data" not in one
    many = (await api.get(path, accept=PARTIAL_LIST)).ok()
    assert many["kind"] == "PartialObjectMetadataList"
    assert [item["metadata"] for item in many["items"]] == [made["metadata"]]


async def test_an_unknown_view_falls_back_to_the_next_one_offered(api: Api) -> None:
    answer = await api.get(api.at("configmaps"), accept="application/json;as=Foo;v=v9;g=x,application/json")
    assert answer.ok()["kind"] == "ConfigMapList"


PREFERRED = {
    "application/json;q=0.5, application/yaml;q=0.9": "yaml",
    "application/yaml;q=0.5,application/json": "ConfigMap",
    "application/json;q=0,application/yaml": "yaml",
    "*/*;q=0.1,application/yaml": "yaml",
    f"{TABLE};q=0.5,application/json;q=0.9": "ConfigMap",
    f"{TABLE},application/json": "Table",
    "application/yaml, application/json;q=2": "ConfigMap",
    "application/json;q=x": "ConfigMap",
    "text/html,application/json;q=0.1": "ConfigMap",
}


@pytest.mark.parametrize(("accept", "view"), PREFERRED.items(), ids=PREFERRED)
async def test_a_client_gets_the_view_that_it_prefers(api: Api, accept: str, view: str) -> None:
    (await api.post(api.at("configmaps"), {"metadata": {"name": "p"}})).ok()
    body = (await api.get(api.at("configmaps", "p"), accept=accept)).ok()
    assert (body["kind"] if isinstance(body, dict) else "yaml") == view
