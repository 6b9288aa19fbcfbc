"""A whole cluster on a real kube-apiserver, by the programs of Cluster API and by ours, in each mixture.

One control plane machine and three workers come up, are scaled, rolled and healed, and are deleted; nothing is
left. The infrastructure is ours, on the simulated cloud: its VMs boot from the bootstrap data that they get.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.clusters import (
    BOOTSTRAP,
    CORE,
    GROUP,
    INFRA,
    core,
    example,
    install,
    it_is_deleted,
    it_is_rolled,
    it_is_scaled,
    listed,
    nodes,
    our_part,
    path_of,
    phase,
    simulated_cloud,
    workers,
    workload,
)

from kubewright.api.catalog import crds
from kubewright.base.clock import SystemClock
from kubewright.testing.api import Api
from kubewright.testing.real_kubernetes import Options as ServerOptions
from kubewright.testing.real_kubernetes import RealKubernetes, capi, find
from kubewright.testing.servers import real_api

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False), pytest.mark.timeout(300)]

FLAGS = ("--kube-api-qps=200", "--kube-api-burst=400", "--v=0")
GATES = {
    capi.CORE: "--feature-gates=MachinePool=false,ClusterResourceSet=false",
    capi.BOOTSTRAP: "--feature-gates=MachinePool=false",
}
"""Without the kinds that only their CRDs have."""


@dataclass(frozen=True)
class Mixture:
    """Which parts are ours, by the names of their controllers, and which programs do the rest."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]


MIXTURES = {
    "our core, their bootstrap": Mixture((*CORE, *INFRA), (capi.BOOTSTRAP,)),
    "their core, our bootstrap": Mixture((*BOOTSTRAP, *INFRA), (capi.CORE,)),
    "all ours": Mixture((*CORE, *BOOTSTRAP, *INFRA), ()),
}


@asynccontextmanager
async def managed(mixture: Mixture, folder: Path) -> AsyncIterator[Api]:
    """A real server with our CRDs, on which these programs work."""
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(RealKubernetes(find(), clock, ServerOptions(fsync=False)))
        api = await stack.enter_async_context(real_api(server))
        await install(api, list(crds("clusters", "bootstrap", "infrastructure")))
        cloud, _ = await stack.enter_async_context(simulated_cloud())
        await stack.enter_async_context(our_part(server.kubeconfig, mixture.ours, cloud))
        logs = []
        for name in mixture.theirs:
            program = capi.cache_folder() / name
            manager = await capi.start(program, server.kubeconfig, folder, clock, *FLAGS, GATES[name])
            stack.push_async_callback(manager.stop)
            logs.append(manager)
        try:
            yield api
        except AssertionError as error:
            for program in logs:
                error.add_note(program.last_lines())
            raise


@pytest.mark.parametrize("mixture", MIXTURES.values(), ids=MIXTURES)
async def test_a_cluster_lives(mixture: Mixture, tmp_path: Path) -> None:
    async with managed(mixture, tmp_path) as api:
        await it_comes_up(api)
        async with workload(api) as cluster:
            await it_is_scaled(api, cluster)
            await it_is_rolled(api, cluster)
            await it_is_healed(api, cluster)
        await it_is_deleted(api)


async def test_labels_make_no_machine_and_a_cluster_goes_though_its_deployment_has_left_it(
    tmp_path: Path,
) -> None:
    """Cluster API v1.7.1 makes another machine for each of these changes of labels, and waits for ever."""
    async with managed(MIXTURES["all ours"], tmp_path) as api:
        await it_comes_up(api)
        before = {each["metadata"]["uid"]: each["metadata"]["name"] for each in await workers(api, 3)}
        off = {"metadata": {"labels": {HASH: None}}}
        (await api.patch(core(api, "machines", min(before.values())), off)).ok()
        labels = {f"{GROUP}/deployment-name": "blue-workers", "tier": "x"}
        spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}
        (await api.patch(core(api, "machinedeployments", "blue-workers"), {"spec": spec})).ok()
        after = await workers(api, 3, lambda each: {"tier", HASH} <= each["metadata"]["labels"].keys())
        assert {each["metadata"]["uid"] for each in after} == before.keys()

        orphan = {"propagationPolicy": "Orphan"}
        (await api.delete(core(api, "machinedeployments", "blue-workers"), orphan)).ok()
        sets = core(api, "machinesets")
        (left,) = await listed(api, sets, lambda items: [*map(owners, items)] == [["Cluster"]])
        assert left["spec"]["replicas"] == 3
        await it_is_deleted(api)


HASH = "machine-template-hash"


def owners(item: dict[str, Any]) -> list[str]:
    return [each["kind"] for each in item["metadata"].get("ownerReferences", ())]


async def it_comes_up(api: Api) -> None:
    for body in example():
        (await api.post(path_of(api, body), body)).ok()
    machines = await workers(api, 3)
    (cluster,) = await listed(api, core(api, "clusters"), lambda items: phase(items[0]) == "Provisioned")
    assert {each["type"]: each["status"] for each in cluster["status"]["conditions"]} == {
        "Ready": "True",
        "InfrastructureReady": "True",
        "ControlPlaneInitialized": "True",
    }
    assert all(each["status"]["nodeRef"]["name"] == each["metadata"]["name"] for each in machines)


async def it_is_healed(api: Api, cluster: Api) -> None:
    (await api.post(core(api, "machinehealthchecks"), HEALTH_CHECK)).ok()
    sick = (await workers(api, 4))[0]["metadata"]
    annotation = {"metadata": {"annotations": {f"{GROUP}/remediate-machine": ""}}}
    (await api.patch(core(api, "machines", sick["name"]), annotation)).ok()
    machines = await workers(api, 4, lambda each: each["metadata"]["uid"] != sick["uid"])
    await nodes(cluster, machines)


HEALTH_CHECK = {
    "apiVersion": f"{GROUP}/v1beta1",
    "kind": "MachineHealthCheck",
    "metadata": {"name": "blue-workers"},
    "spec": {
        "clusterName": "blue",
        "maxUnhealthy": "100%",
        "nodeStartupTimeout": "10m0s",
        "selector": {"matchLabels": {f"{GROUP}/deployment-name": "blue-workers"}},
        "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "timeout": "300s"}],
    },
}
