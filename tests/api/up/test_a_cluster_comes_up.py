"""`kubewright up` in memory: a user applies a cluster, and all of our providers bring it up, and take it down again."""

import asyncio
from typing import Any

import pytest

from kubewright.api.bootstrap.v1beta1 import KUBEADM_CONFIG
from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE
from kubewright.api.core import CRD, NAMESPACE, NODE
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_CLUSTER, KUBEWRIGHT_MACHINE
from kubewright.api.machine.v1alpha1 import MACHINE_CLASS
from kubewright.base.errors import InvalidInput
from kubewright.clusters.node import CLUSTER_NODE
from kubewright.compose import worlds
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import Options
from kubewright.kube.client import Client
from kubewright.providers.sim.driver import SimDriver
from kubewright.testing.clocks import LoopClock
from kubewright.testing.world import running
from kubewright.wire.gvk import Key
from kubewright.wire.http import Request

NS = "fleet"
INFRA = "infrastructure.cluster.x-k8s.io/v1beta1"
BOOTSTRAP = "bootstrap.cluster.x-k8s.io/v1beta1"
SENTINEL = {"/run/cluster-api/bootstrap-success.complete": "success\n"}


def ref(api_version: str, kind: str, name: str) -> dict[str, str]:
    return {"apiVersion": api_version, "kind": kind, "name": name}


async def apply_cluster(client: Client) -> None:
    """A cluster whose endpoint the driver finds."""
    meta = {"name": "demo", "namespace": NS}
    await client.create(KUBEWRIGHT_CLUSTER, {"metadata": meta, "spec": {}})
    spec = {"infrastructureRef": ref(INFRA, "KubewrightCluster", "demo")}
    await client.create(CLUSTER, {"metadata": meta, "spec": spec})


async def apply_machine(
    client: Client, name: str, config: dict[str, Any], *, control_plane: bool = False
) -> None:
    labels = {"cluster.x-k8s.io/cluster-name": "demo"}
    if control_plane:
        labels["cluster.x-k8s.io/control-plane"] = ""
    meta = {"name": name, "namespace": NS, "labels": labels}
    await client.create(KUBEWRIGHT_MACHINE, {"metadata": meta, "spec": {}})
    await client.create(KUBEADM_CONFIG, {"metadata": meta, "spec": config})
    spec = {
        "clusterName": "demo",
        "version": "v1.31.0",
        "bootstrap": {"configRef": ref(BOOTSTRAP, "KubeadmConfig", name)},
        "infrastructureRef": ref(INFRA, "KubewrightMachine", name),
    }
    await client.create(MACHINE, {"metadata": meta, "spec": spec})


async def phases(client: Client) -> dict[str, str]:
    return {each.name: each.status.phase for each in await client.list(MACHINE, NS)}


async def scraped(client: Client) -> dict[str, float]:
    """The numbers that `up` shows."""
    answer = await client.transport.request(Request("GET", "/metrics"), timeout=5)
    rows = [each.rpartition(" ") for each in answer.body.decode().splitlines() if not each.startswith("#")]
    return {name: float(value) for name, _, value in rows}


async def until(client: Client, wanted: dict[str, str], seconds: int = 120) -> None:
    """Wait until the machines have these phases."""
    for _ in range(seconds):
        if (found := await phases(client)) == wanted:
            return
        await asyncio.sleep(1)
    raise AssertionError(f"{found} instead of {wanted}")


@pytest.mark.parametrize(
    ("named", "groups", "classes"),
    [
        pytest.param(["machines"], {"machine.sapcloud.io"}, True, id="machines of MCM alone"),
        pytest.param(
            ["clusters", "infra"],
            {"cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io", "clusterctl.cluster.x-k8s.io"},
            False,
            id="two of Cluster API",
        ),
    ],
)
async def test_worlds_can_be_left_out(named: list[str], groups: set[str], classes: bool) -> None:
    some = Options(controllers=tuple(each.name for each in worlds.named(named)))
    embedded = Embedded(None, some, LoopClock())
    async with embedded, running(embedded.serve):
        assert {each.name.partition(".")[2] for each in await embedded.client.list(CRD)} == groups
        if classes:
            assert [each.name for each in await embedded.client.list(MACHINE_CLASS, "default")]


def test_a_world_that_there_is_not_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no world machine; there are: machines, clusters"):
        worlds.named(["machine", "clusters"])


async def test_a_cluster_comes_up_and_goes() -> None:
    everything = Options(controllers=worlds.every_word(Options()))
    embedded = Embedded(None, everything, LoopClock())
    async with embedded, running(embedded.serve):
        client = embedded.client
        await client.create(NAMESPACE, {"metadata": {"name": NS}})
        await apply_cluster(client)
        await apply_machine(client, "cp", {"initConfiguration": {}}, control_plane=True)
        for name in ("w1", "w2"):
            await apply_machine(client, name, {"joinConfiguration": {}})
        await until(client, {"cp": "Running", "w1": "Running", "w2": "Running"})

        cluster = await client.get(CLUSTER, Key(NS, "demo"))
        assert cluster.status.phase == "Provisioned"
        plane = embedded.planes.find(str(cluster.spec.control_plane_endpoint))
        assert plane is not None
        nodes = {each.name: each for each in await plane.client.list(NODE)}
        assert set(nodes) == {"cp", "w1", "w2"}
        info = [each.status.node_info for each in await plane.client.list(CLUSTER_NODE)]
        assert [each.kubelet_version for each in info] == ["v1.31.0"] * 3
        machines = await client.list(MACHINE, NS)
        assert [each.status.node_info.kubelet_version for each in machines] == ["v1.31.0"] * 3
        assert (
            nodes["w1"].spec.taints == ()
        )  # the core has taken off the one of a node that is not its own yet
        assert await client.list(NODE) == []
        numbers = await scraped(client)
        assert numbers['capi_machines{cluster_name="demo",namespace="fleet",phase="Running"}'] == 3
        assert numbers['capi_cluster_status_phase{name="demo",namespace="fleet",phase="Provisioned"}'] == 1
        assert isinstance(embedded.driver, SimDriver)
        vms = embedded.driver.cloud.vms.values()
        assert [dict(vm.bootstrap.files) for vm in vms if vm.bootstrap] == [SENTINEL] * 3

        await client.delete(CLUSTER, Key(NS, "demo"))
        for _ in range(120):
            if not (left := [*await client.list(CLUSTER, NS), *await client.list(KUBEWRIGHT_MACHINE, NS)]):
                break
            await asyncio.sleep(1)
        assert left == []
        assert embedded.planes.find(plane.address) is None
        assert embedded.driver.cloud.vms == {}
