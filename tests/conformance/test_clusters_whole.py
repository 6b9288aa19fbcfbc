"""A whole cluster on a real kube-apiserver, by the programs of Cluster API and by ours, in each mixture.

One control plane machine and three workers come up, are scaled, rolled and healed, and are deleted; nothing is
left. The infrastructure is ours, on the simulated cloud: its VMs boot from the bootstrap data that they get. Ours is
the command that a user types, as a process.
"""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.clusters import (
    BOOTSTRAP,
    CORE,
    EXAMPLE,
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
    path_of,
    phase,
    the_command,
    workers,
    workload,
)

from kubewright.api.catalog import crds
from kubewright.base.clock import SystemClock
from kubewright.testing.api import Api
from kubewright.testing.kubectl import Kubectl, find_kubectl
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
        ours = await stack.enter_async_context(the_command(server.kubeconfig, folder, ",".join(mixture.ours)))
        logs = [ours]
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


@pytest.mark.parametrize(
    ("file", "cluster", "workers_", "nodes_"), [("cluster", "blue", 3, 4), ("cluster-nested", "nested", 3, 3)]
)
async def test_the_command_makes_the_cluster_of_the_example(
    tmp_path: Path, file: str, cluster: str, workers_: int, nodes_: int
) -> None:
    """Every word as the documents have it: the CRDs that are printed, the switches, the file, both kubeconfigs."""
    clock, example = SystemClock(), str(EXAMPLE.with_name(f"{file}.yaml"))
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(RealKubernetes(find(), clock, ServerOptions(fsync=False)))
        api = await stack.enter_async_context(real_api(server))
        await install(api, list(crds()))
        controllers = "*,clusters,bootstrap,infra,controlplanes"
        await stack.enter_async_context(the_command(server.kubeconfig, tmp_path, controllers))
        kubectl = Kubectl(find_kubectl(), server.kubeconfig, tmp_path, "real", api.namespace)
        await asyncio.to_thread(kubectl, "apply", "-f", example)
        deployment = f"machinedeployments.cluster.x-k8s.io/{cluster}-workers"
        ready = f"--for=jsonpath={{.status.readyReplicas}}={workers_}"
        await asyncio.to_thread(kubectl, "wait", deployment, ready, "--timeout=35s")
        inside = await kubectl_of_the_cluster(kubectl, cluster, tmp_path)
        names = await asyncio.to_thread(inside, "get", "nodes", "-o", "name")
        assert len(names.split()) == nodes_
        if cluster == "blue":  # a nested control plane has no scheduler
            await asyncio.to_thread(inside, "create", "deployment", "web", "--image=web:1", "--replicas=5")
            await asyncio.to_thread(inside, "rollout", "status", "deployment/web", "--timeout=30s")
        await asyncio.to_thread(kubectl, "delete", "-f", example, "--timeout=35s")


async def test_with_a_folder_the_next_process_goes_on_with_the_clusters(tmp_path: Path) -> None:
    clock, kept = SystemClock(), f"--driver-option=dataDir={tmp_path / 'cloud'}"
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(RealKubernetes(find(), clock, ServerOptions(fsync=False)))
        api = await stack.enter_async_context(real_api(server))
        await install(api, list(crds()))
        kubectl = Kubectl(find_kubectl(), server.kubeconfig, tmp_path, "real", api.namespace)
        async with the_command(server.kubeconfig, tmp_path, "*,clusters,bootstrap,infra", kept):
            await asyncio.to_thread(kubectl, "apply", "-f", str(EXAMPLE))
            before = {each["metadata"]["uid"] for each in await workers(api, 3)}
            inside = await kubectl_of_the_cluster(kubectl, "blue", tmp_path)
        assert "refused" in await asyncio.to_thread(inside.refused, "get", "nodes")
        async with the_command(server.kubeconfig, tmp_path, "*,clusters,bootstrap,infra", kept):
            ready = ("wait", "nodes", "--all", "--for=condition=Ready", "--timeout=30s")
            await asyncio.to_thread(inside, *ready)
            assert {each["metadata"]["uid"] for each in await workers(api, 3)} == before
            await it_is_deleted(api)


async def test_the_command_makes_machines_of_the_classes_in_the_examples(tmp_path: Path) -> None:
    clock, files = (
        SystemClock(),
        [f"-f={EXAMPLE.parent / each}" for each in ("sim-classes.yaml", "workers.yaml")],
    )
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(RealKubernetes(find(), clock, ServerOptions(fsync=False)))
        api = await stack.enter_async_context(real_api(server))
        await install(api, list(crds()))
        program = await stack.enter_async_context(the_command(server.kubeconfig, tmp_path, "*"))
        idle = "start with --controllers '*,clusters,bootstrap,infra,controlplanes,reserves'"
        assert idle in program.last_lines()
        kubectl = Kubectl(find_kubectl(), server.kubeconfig, tmp_path, "real", "default")
        await asyncio.to_thread(kubectl, "apply", *files)
        deployment = "machinedeployments.machine.sapcloud.io/workers"
        await asyncio.to_thread(kubectl, "wait", deployment, "--for=condition=Available", "--timeout=30s")
        nodes = await asyncio.to_thread(
            kubectl, "get", "nodes", "-l", "topology.kubernetes.io/region=sim-1", "-o", "name"
        )
        assert len(nodes.split()) == 3
        await asyncio.to_thread(kubectl, "delete", *files, "--timeout=30s")


async def kubectl_of_the_cluster(kubectl: Kubectl, cluster: str, folder: Path) -> Kubectl:
    """kubectl with the kubeconfig that the users of the cluster get."""
    path = "jsonpath={.data.value}"
    secret = await asyncio.to_thread(kubectl, "get", "secret", f"{cluster}-kubeconfig", "-o", path)
    kubeconfig = folder / f"{cluster}.kubeconfig"
    kubeconfig.write_bytes(base64.b64decode(secret))
    return Kubectl(kubectl.program, kubeconfig, kubectl.home, "embedded", "default")


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
