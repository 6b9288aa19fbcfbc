"""The core of Cluster API on our CRDs, as a provider and a user see it: the Go core, on either server.

The test itself is the provider. What it asks of the core is what providers rely on (S0-33, S0-45): owners, labels,
clones, the fields that are copied, the order of deletion.
"""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.clusters import install, listed, until

from kubewright.api.cluster.manifests import crds
from kubewright.base.clock import SystemClock
from kubewright.kube.config import load
from kubewright.testing.api import Api
from kubewright.testing.real_kubernetes import Options, RealKubernetes, capi, find
from kubewright.testing.servers import embedded_kubeconfig, real_api

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False), pytest.mark.timeout(300)]

GROUP, TOYS, VERSION = "cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io", "v1beta1"
KINDS = ("ToyCluster", "ToyMachine", "ToyMachineTemplate")
FLAGS = ("--feature-gates=MachinePool=false,ClusterResourceSet=false", "--v=0")
"""Without the kinds that only their CRDs have."""


@asynccontextmanager
async def a_server(flavour: str, folder: Path) -> AsyncIterator[tuple[Api, Path]]:
    """A server of its own, and its kubeconfig."""
    if flavour == "real":
        async with (
            RealKubernetes(find(), SystemClock(), Options(fsync=False)) as real_kubernetes,
            real_api(real_kubernetes) as api,
        ):
            yield api, real_kubernetes.kubeconfig
        return
    with embedded_kubeconfig(folder) as kubeconfig:
        transport = load(kubeconfig)
        try:
            yield Api(transport, SystemClock(), flavour), kubeconfig
        finally:
            await transport.close()


@asynccontextmanager
async def a_core(flavour: str, folder: Path) -> AsyncIterator[Api]:
    """A server with our CRDs, the toys of a provider, and the Go core."""
    async with a_server(flavour, folder) as (api, kubeconfig):
        await install(api, [*crds(), *map(toy_crd, KINDS)])
        (await api.post(api.at("secrets"), kubeconfig_secret(kubeconfig.read_bytes()))).ok()
        core = await capi.start(capi.find().core, kubeconfig, folder, api.clock, *FLAGS)
        try:
            yield api
        except AssertionError as error:
            error.add_note(core.last_lines())
            raise
        finally:
            await core.stop()


@pytest.mark.parametrize("flavour", ["embedded", "real"])
async def test_a_cluster_with_machines_comes_up_scales_and_goes(flavour: str, tmp_path: Path) -> None:
    async with a_core(flavour, tmp_path) as api:
        await a_cluster_comes_up(api)
        await its_machines_come_up(api)
        await one_is_deleted_first(api)
        await all_is_deleted_with_the_cluster(api)


async def a_cluster_comes_up(api: Api) -> None:
    (await api.post(toys(api, "clusters"), toy("ToyCluster", "demo"))).ok()
    (await api.post(core(api, "clusters"), CLUSTER)).ok()
    owned = await until(api, toys(api, "clusters", "demo"), lambda it: it["metadata"].get("ownerReferences"))
    assert owned["metadata"]["labels"] == {"cluster.x-k8s.io/cluster-name": "demo"}
    assert [(each["kind"], each["controller"]) for each in owned["metadata"]["ownerReferences"]] == [
        ("Cluster", True)
    ]
    endpoint = {"host": "demo.example", "port": 6443}
    await api.patch(toys(api, "clusters", "demo"), {"spec": {"controlPlaneEndpoint": endpoint}})
    await api.patch(toys(api, "clusters", "demo") + "/status", {"status": {"ready": True}})
    up = await until(api, core(api, "clusters", "demo"), lambda it: phase(it) == "Provisioned")
    assert up["spec"]["controlPlaneEndpoint"] == endpoint
    assert up["status"]["infrastructureReady"] is True
    assert condition(up, "InfrastructureReady")["status"] == "True"


async def its_machines_come_up(api: Api) -> None:
    template = {"spec": {"template": {"spec": {"size": "small"}}}}
    (await api.post(toys(api, "machinetemplates"), toy("ToyMachineTemplate", "small") | template)).ok()
    (await api.post(core(api, "machinedeployments"), DEPLOYMENT)).ok()
    machines = await listed(api, core(api, "machines"), lambda items: len(items) == 2)
    for machine in machines:
        assert ("capi-machineset", "Apply") in appliers(machine)
        name = machine["spec"]["infrastructureRef"]["name"]
        clone = await until(api, toys(api, "machines", name), controlled_by_machine)
        assert clone["spec"] == {"size": "small"}
        assert clone["metadata"]["annotations"]["cluster.x-k8s.io/cloned-from-name"] == "small"
        (await api.post("/api/v1/nodes", node(name))).ok()
        await api.patch(toys(api, "machines", name), {"spec": {"providerID": f"toy:///{name}"}})
        await api.patch(toys(api, "machines", name) + "/status", {"status": {"ready": True}})
    await listed(api, core(api, "machines"), lambda items: all(phase(item) == "Running" for item in items))
    assert (await api.get(f"/api/v1/nodes/{name}")).ok()["metadata"]["annotations"][
        f"{GROUP}/machine"
    ] == name


async def one_is_deleted_first(api: Api) -> None:
    (_, second) = await listed(api, core(api, "machines"), lambda items: len(items) == 2)
    name = second["metadata"]["name"]
    marked = {"metadata": {"annotations": {"cluster.x-k8s.io/delete-machine": "now"}}}
    (await api.patch(core(api, "machines", name), marked)).ok()
    scale = core(api, "machinedeployments", "workers") + "/scale"
    assert (await api.get(scale)).ok()["status"]["replicas"] == 2
    (await api.patch(scale, {"spec": {"replicas": 1}})).ok()
    (left,) = await listed(api, core(api, "machines"), lambda items: len(items) == 1)
    assert left["metadata"]["name"] != name


async def all_is_deleted_with_the_cluster(api: Api) -> None:
    (await api.delete(core(api, "clusters", "demo"))).ok()
    await api.gone(core(api, "clusters", "demo"), seconds=60)
    for path in (
        toys(api, "clusters"),
        toys(api, "machines"),
        core(api, "machines"),
        core(api, "machinesets"),
    ):
        await listed(api, path, lambda items: not items)


def appliers(obj: dict[str, Any]) -> set[tuple[str, str]]:
    """The names and operations of the managers of an object."""
    return {(each["manager"], each["operation"]) for each in obj["metadata"].get("managedFields", ())}


def toy_crd(kind: str) -> dict[str, Any]:
    """A provider's kind without a schema, which follows the core's contract."""
    plural = f"{kind.lower()}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": VERSION, "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    versions = [version | {"subresources": {"status": {}}}]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{TOYS}", "labels": {f"{GROUP}/{VERSION}": VERSION}},
        "spec": {"group": TOYS, "scope": "Namespaced", "names": names, "versions": versions},
    }


def toy(kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": f"{TOYS}/{VERSION}", "kind": kind, "metadata": {"name": name}}


def kubeconfig_secret(kubeconfig: bytes) -> dict[str, Any]:
    """The cluster's own API server is the one that we have: its Nodes are made by the test."""
    metadata = {"name": "demo-kubeconfig", "labels": {f"{GROUP}/cluster-name": "demo"}}
    value = base64.b64encode(kubeconfig).decode()
    return {"metadata": metadata, "type": f"{GROUP}/secret", "data": {"value": value}}


def node(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"providerID": f"toy:///{name}"}}


def reference(kind: str, name: str) -> dict[str, str]:
    return {"apiVersion": f"{TOYS}/{VERSION}", "kind": kind, "name": name, "namespace": "default"}


CLUSTER = {
    "apiVersion": f"{GROUP}/{VERSION}",
    "kind": "Cluster",
    "metadata": {"name": "demo"},
    "spec": {"infrastructureRef": reference("ToyCluster", "demo")},
}
LABELS = {"cluster.x-k8s.io/cluster-name": "demo", "pool": "workers"}
# Under the policy Random, the Go core would not prefer the marked machine to one without a Node.
ROLLING = {"maxSurge": 1, "maxUnavailable": 0, "deletePolicy": "Oldest"}
DEPLOYMENT = {
    "apiVersion": f"{GROUP}/{VERSION}",
    "kind": "MachineDeployment",
    "metadata": {"name": "workers", "labels": {"cluster.x-k8s.io/cluster-name": "demo"}},
    "spec": {
        "clusterName": "demo",
        "replicas": 2,
        "revisionHistoryLimit": 1,
        "minReadySeconds": 0,
        "selector": {"matchLabels": LABELS},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": ROLLING},
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {
                "clusterName": "demo",
                "bootstrap": {"dataSecretName": "mine"},
                "infrastructureRef": reference("ToyMachineTemplate", "small"),
            },
        },
    },
}
"""As the admission webhooks would have completed it."""


def core(api: Api, plural: str, name: str = "") -> str:
    return api.at(plural, name, group=GROUP, version=VERSION)


def toys(api: Api, plural: str, name: str = "") -> str:
    return api.at(f"toy{plural}", name, group=TOYS, version=VERSION)


def phase(item: dict[str, Any]) -> str:
    return str(item.get("status", {}).get("phase", ""))


def condition(item: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(each for each in item["status"]["conditions"] if each["type"] == kind)


def controlled_by_machine(item: dict[str, Any]) -> bool:
    owners = item["metadata"].get("ownerReferences", [])
    return any(each["kind"] == "Machine" and each.get("controller") for each in owners)
