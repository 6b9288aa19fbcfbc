"""The example of a cluster whose control plane is objects: it comes up, sleeps and wakes, and goes in any order."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubewright.api import catalog
from kubewright.api.bootstrap.v1beta1 import KUBEADM_CONFIG
from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE, MACHINE_DEPLOYMENT, MACHINE_HEALTH_CHECK
from kubewright.api.controlplane.v1alpha4 import NESTED_API_SERVER, NESTED_CONTROL_PLANE
from kubewright.api.core import CONFIG_MAP, LEASE, NODE, SECRET
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_MACHINE
from kubewright.base.clock import SystemClock
from kubewright.bootstrap.seen import BootstrapSettings
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import Options, ServerConfig
from kubewright.compose.worlds import every_word
from kubewright.kube.client import Client
from kubewright.pki.keys import Algorithm
from kubewright.providers.sim.driver import SimDriver
from kubewright.providers.sim.tls_bootstrap import hosted_already
from kubewright.testing.clocks import LoopClock
from kubewright.testing.world import SHORT_TIMEOUTS, running
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

EXAMPLE = (Path(__file__).parents[3] / "examples" / "cluster-nested.yaml").read_text()
NS = "default"
DEMO = Key(NS, "nested")
KINDS = {
    (each.kind.resource.api_version, each.kind.resource.kind): each.kind
    for api, definitions in catalog.DEFINITIONS.items()
    if api != "clusterctl"  # kinds that no world brings
    for each in definitions
}
EC = BootstrapSettings(algorithm=Algorithm.EC)
"""Keys that are made at once: RSA keys are made in threads, which know nothing of the clock of a test."""
OPTIONS = replace(SHORT_TIMEOUTS, controllers=every_word(SHORT_TIMEOUTS), bootstrap=EC)
NESTED_CLUSTER = ("infrastructure.cluster.x-k8s.io/v1alpha4", "NestedCluster")
GENERIC = ("infrastructure.cluster.x-k8s.io/v1beta1", "KubewrightCluster")
Objects = list[dict[str, Any]]


def example(infrastructure: tuple[str, str] = NESTED_CLUSTER) -> Objects:
    """The objects of the example, on this infrastructure."""
    text = EXAMPLE
    for there, other in zip(NESTED_CLUSTER, infrastructure, strict=True):
        text = text.replace(there, other)
    return [each for each in yaml.safe_load_all(text) if each]


def place(body: dict[str, Any]) -> tuple[Any, Key]:
    return KINDS[body["apiVersion"], body["kind"]], Key(NS, body["metadata"]["name"])


async def create(client: Client, bodies: Iterable[dict[str, Any]]) -> None:
    for body in bodies:
        await client.create(place(body)[0], body, namespace=NS)


async def delete(client: Client, kind: Any, key: Key) -> None:
    try:
        await client.delete(kind, key)
    except NotFound:
        return


@asynccontextmanager
async def everything():
    """All worlds in this process and in memory, on virtual time."""
    embedded = Embedded(None, OPTIONS, LoopClock())
    async with embedded, running(embedded.serve):
        yield embedded


async def nodes_of(embedded: Embedded) -> dict[str, str]:
    """The nodes in the cluster, and whether each is ready; none while it does not answer."""
    cluster = await embedded.client.get(CLUSTER, DEMO)
    plane = embedded.planes.find(str(cluster.spec.control_plane_endpoint))
    if plane is None:
        return {}
    return {each.name: ready_of(each) for each in await plane.client.list(NODE)}


def ready_of(node: Any) -> str:
    return next((each.status for each in node.status.conditions if each.type == "Ready"), "")


async def until(true: Callable[[], Awaitable[bool]], seconds: float = 120) -> None:
    for _ in range(round(seconds / 0.2)):
        if await true():
            return
        await asyncio.sleep(0.2)
    pytest.fail(f"still not: {true.__name__}")


async def until_nodes(embedded: Embedded, wanted: list[str]) -> None:
    """Wait until the nodes of the cluster are so."""

    async def are_so() -> bool:
        return list((await nodes_of(embedded)).values()) == wanted

    await until(are_so)


async def left(client: Client) -> list[str]:
    """What is there of the example, and of the Secrets that were made for it."""
    there = [
        f"{kind.resource.kind} {each.name}" for kind in KINDS.values() for each in await client.list(kind, NS)
    ]
    templates = ("KubeadmConfigTemplate", "KubewrightMachineTemplate", "MachineClass")
    secrets = [each.name for each in await client.list(SECRET, NS) if each.name.startswith("nested")]
    return [each for each in there if not each.startswith(templates)] + secrets


async def versions(client: Client) -> dict[tuple[str, str], str]:
    return {
        (kind.resource.plural, each.name): each.metadata.resource_version
        for kind in KINDS.values()
        for each in await client.list(kind, NS)
    }


@pytest.mark.parametrize("infrastructure", [NESTED_CLUSTER, GENERIC], ids=lambda each: each[1])
async def test_workers_join_a_control_plane_of_objects_and_all_of_it_goes_with_the_cluster(infrastructure):
    async with everything() as embedded:
        client = embedded.client
        await create(client, example(infrastructure))
        await until_nodes(embedded, ["True"] * 3)
        await asyncio.sleep(30)

        cluster, plane = await client.get(CLUSTER, DEMO), await client.get(NESTED_CONTROL_PLANE, DEMO)
        said = {each.type: each.status for each in cluster.status.conditions}
        assert said.items() >= {"Ready": "True", "ControlPlaneInitialized": "True"}.items()
        assert cluster.spec.control_plane_endpoint == plane.spec.control_plane_endpoint
        assert plane.status.external_managed_control_plane
        assert plane.status.version.startswith("v1.36.")
        assert [each.status.phase for each in await client.list(MACHINE, NS)] == ["Running"] * 3
        inner = embedded.planes.find(str(cluster.spec.control_plane_endpoint))
        assert inner is not None
        info = await inner.client.get(CONFIG_MAP, Key("kube-public", "cluster-info"))
        assert str(cluster.spec.control_plane_endpoint) in info.data["kubeconfig"]
        before = await versions(client)
        await asyncio.sleep(600)
        assert await versions(client) == before

        await client.delete(CLUSTER, DEMO)
        await asyncio.sleep(120)
        assert await left(client) == []
        assert isinstance(embedded.driver, SimDriver)
        assert dict(embedded.driver.cloud.vms) == {}
        assert not embedded.planes.is_ours(str(cluster.spec.control_plane_endpoint))


def ref(api_version: str, kind: str) -> dict[str, str]:
    return {"apiVersion": api_version, "kind": kind, "name": "master"}


async def apply_master(client: Client, config: dict[str, Any]) -> None:
    """A machine that says that it is of the control plane."""
    labels = {"cluster.x-k8s.io/cluster-name": "nested", "cluster.x-k8s.io/control-plane": ""}
    meta = {"name": "master", "namespace": NS, "labels": labels}
    await client.create(KUBEWRIGHT_MACHINE, {"metadata": meta, "spec": {}})
    await client.create(KUBEADM_CONFIG, {"metadata": meta, "spec": config})
    spec = {
        "clusterName": "nested",
        "version": "v1.36.3",
        "bootstrap": {"configRef": ref("bootstrap.cluster.x-k8s.io/v1beta1", "KubeadmConfig")},
        "infrastructureRef": ref(GENERIC[0], "KubewrightMachine"),
    }
    await client.create(MACHINE, {"metadata": meta, "spec": spec})


async def test_a_machine_that_joins_as_a_control_plane_does_not_become_one_and_ends_none():
    async with everything() as embedded:
        client = embedded.client
        await create(client, example())
        await until_nodes(embedded, ["True"] * 3)
        await apply_master(client, {"joinConfiguration": {"controlPlane": {}}})
        await asyncio.sleep(60)
        assert isinstance(embedded.driver, SimDriver)
        boots = {vm.name: vm.bootstrap for vm in embedded.driver.cloud.vms.values()}
        address = (await client.get(CLUSTER, DEMO)).spec.control_plane_endpoint
        assert boots["master"].trouble == hosted_already(address)
        await client.delete(MACHINE, Key(NS, "master"))
        await asyncio.sleep(60)
        assert list((await nodes_of(embedded)).values()) == ["True"] * 3


HEALTH_CHECK = {
    "metadata": {"name": "nested", "namespace": NS},
    "spec": {
        "clusterName": "nested",
        "selector": {"matchLabels": {"cluster.x-k8s.io/cluster-name": "nested"}},
        "unhealthyConditions": [
            {"type": "Ready", "status": status, "timeout": "30s"} for status in ("Unknown", "False")
        ],
    },
}


async def test_workers_stay_while_their_control_plane_sleeps_and_what_is_asked_meanwhile_waits_until_it_wakes():
    async with everything() as embedded:
        client = embedded.client
        await create(client, example())
        await until_nodes(embedded, ["True"] * 3)
        await client.create(MACHINE_HEALTH_CHECK, HEALTH_CHECK)
        assert isinstance(embedded.driver, SimDriver)
        vms, before = embedded.driver.cloud.vms, await machines(client)
        running_vms = set(vms)
        await client.patch(NESTED_CONTROL_PLANE, DEMO, {"spec": {"asleep": True}})
        await asyncio.sleep(120)
        assert (await machines(client), set(vms)) == (before, running_vms)
        assert set(before.values()) == {"Running"}

        [deployment] = await client.list(MACHINE_DEPLOYMENT, NS)
        body = {"spec": {"replicas": 4}}
        await client.patch(MACHINE_DEPLOYMENT, Key(NS, deployment.name), body)
        await asyncio.sleep(10)
        [new] = set(await machines(client)) - set(before)
        deleted = min(before)
        await client.delete(MACHINE, Key(NS, deleted))
        await asyncio.sleep(120)
        asleep = await machines(client)
        assert (asleep[new], asleep[deleted], set(vms)) == ("Pending", "Deleting", running_vms)

        await client.patch(NESTED_CONTROL_PLANE, DEMO, {"spec": {"asleep": None}})
        await until_nodes(embedded, ["True"] * 4)
        await asyncio.sleep(60)
        after = await machines(client)
        assert set(after) >= {new, *before} - {deleted}
        assert (deleted in after, list(after.values())) == (False, ["Running"] * 4)


async def machines(client: Client) -> dict[str, str]:
    """The phase of each Machine, by its name."""
    return {each.name: each.status.phase for each in await client.list(MACHINE, NS)}


STEPS = {
    "Cluster": lambda each: place(each)[0] is CLUSTER,
    "NestedControlPlane": lambda each: place(each)[0] is NESTED_CONTROL_PLANE,
    "components": lambda each: (
        place(each)[1].name in ("nested-etcd", "nested-apiserver", "nested-controller-manager")
    ),
}


async def delete_step(client: Client, step: str) -> None:
    if step == "Secrets":
        for each in await client.list(SECRET, NS):
            if each.name.startswith("nested"):
                await delete(client, SECRET, Key(NS, each.name))
        return
    for each in filter(STEPS[step], example()):
        await delete(client, *place(each))


@pytest.mark.parametrize("order", list(permutations([*STEPS, "Secrets"]))[::3], ids=" ".join)
async def test_whatever_is_deleted_first_nothing_is_left(order):
    """E-13, for a whole cluster."""
    async with everything() as embedded:
        client = embedded.client
        await create(client, example())
        await until_nodes(embedded, ["True"] * 3)
        for step in order:
            await delete_step(client, step)
            await asyncio.sleep(1)

        async def all_gone() -> bool:
            return await left(client) == []

        await until(all_gone, 1200)
        assert isinstance(embedded.driver, SimDriver)
        assert dict(embedded.driver.cloud.vms) == {}


@asynccontextmanager
async def up(folder: Path):
    """``kubewright up`` on a folder, with sockets."""
    options = Options(controllers=every_word(Options()))
    async with Embedded(ServerConfig(folder), options, SystemClock()) as embedded, running(embedded.serve):
        yield embedded


@pytest.mark.looptime(False)
async def test_the_kubelets_report_again_after_a_restart_and_after_a_sleep_of_the_api_server(tmp_path):
    async with up(tmp_path / "data") as embedded:
        await create(embedded.client, example())
        await until_nodes(embedded, ["True"] * 3)
    async with up(tmp_path / "data") as embedded:
        await until_reports(embedded)
        server = Key(NS, "nested-apiserver")
        await embedded.client.patch(NESTED_API_SERVER, server, {"spec": {"replicas": 0}})
        await until_nodes(embedded, [])
        await embedded.client.patch(NESTED_API_SERVER, server, {"spec": {"replicas": 1}})
        await until_reports(embedded)
        await until_nodes(embedded, ["True"] * 3)


async def until_reports(embedded: Embedded) -> None:
    """Wait until each of the three kubelets has reported since now."""
    since = SystemClock().now()

    async def reported() -> bool:
        leases = await leases_of(embedded)
        return len(leases) == 3 and min(leases) > since

    await until(reported)


async def leases_of(embedded: Embedded) -> list[datetime]:
    """When the kubelets of the cluster have reported last; none while it does not answer."""
    cluster = await embedded.client.get(CLUSTER, DEMO)
    plane = embedded.planes.find(str(cluster.spec.control_plane_endpoint))
    found = await plane.client.list(LEASE, "kube-node-lease") if plane is not None else []
    return [each.spec.renew_time for each in found if each.spec.renew_time is not None]
