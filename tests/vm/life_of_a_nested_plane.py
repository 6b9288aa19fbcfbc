"""A control plane of real programs on this machine, made of objects, and VMs that join it."""

import asyncio
from typing import Any

from tests.vm import guests, objects
from tests.vm.stage import Stage, Workload, condition, embedded, main

PLANE, NESTED = "controlplane.cluster.x-k8s.io/v1alpha4", "infrastructure.cluster.x-k8s.io/v1alpha4"
COMPONENTS = (
    ("NestedEtcd", "etcd"),
    ("NestedAPIServer", "apiserver"),
    ("NestedControllerManager", "controllerManager"),
)
PLANE_SECONDS, BOOT_SECONDS, GONE_SECONDS = 120, 300, 240
DEPLOYMENT = "machinedeployments.cluster.x-k8s.io/nested-workers"
SHOWN = (
    "clusters",
    "nestedcontrolplanes",
    "machines.cluster.x-k8s.io",
    "kubewrightmachines",
    "kubeadmconfigs",
    "events",
)


async def life(stage: Stage) -> None:
    with stage.steps.step("a control plane of real programs"):
        await stage.apply(*plane())
        await stage.until("the control plane is ready", PLANE_SECONDS, lambda: ready(stage))
    async with Workload.of(stage, "nested") as workload:
        with stage.steps.step("two machines to two nodes that are Ready"):
            await stage.apply(*objects.workers("nested", 2, memory="1Gi"))
            await stage.until("two nodes of machines", BOOT_SECONDS, lambda: workload.joined(2))
        with stage.steps.step("a pod runs and prints; kubectl reads it"):
            await use(stage, workload)
        with stage.steps.step("one machine less, its pod drained"):
            await asyncio.to_thread(stage.kubectl, "scale", DEPLOYMENT, "--replicas=1")
            await stage.until("one node", GONE_SECONDS, lambda: workload.joined(1))
        with stage.steps.step("all gone"):
            await asyncio.to_thread(stage.kubectl, "delete", "cluster", "nested", "--wait=false")
            await stage.until("no cluster and no VM", GONE_SECONDS, lambda: gone(stage))


def plane() -> list[Any]:
    """The objects of examples/cluster-nested.yaml, with the programs of Kubernetes."""
    names = {field: {"name": f"nested-{field.lower()}"} for _, field in COMPONENTS}
    whole = objects.of("NestedControlPlane", "nested", names, PLANE)
    cluster = objects.of("NestedCluster", "nested", {}, NESTED)
    parts = [
        objects.of(kind, names[field]["name"], {"replicas": 1, "channel": "1.36"}, PLANE)
        for kind, field in COMPONENTS
    ]
    return [objects.cluster("nested", whole, cluster), cluster, whole, *parts]


async def ready(stage: Stage) -> bool:
    found = await stage.get("/apis/cluster.x-k8s.io/v1beta1/namespaces/default/clusters/nested")
    return found is not None and condition(found, "ControlPlaneReady") == "True"


async def use(stage: Stage, workload: Workload) -> None:
    """Pods on both nodes: this control plane has no scheduler."""
    for node in await workload.ready_nodes():
        pod = guests.pod(f"on-{node}", node)
        await asyncio.to_thread(workload.kubectl, "apply", "-f", "-", stdin=guests.text(pod))
        name = pod["metadata"]["name"]

        async def printed(name: str = name) -> bool:
            said = await asyncio.to_thread(workload.kubectl.run, "logs", name)
            return said.stdout == f"hello from {name}\n"

        await stage.until(f"pod {name} prints", 90, printed)


async def gone(stage: Stage) -> bool:
    clusters = await stage.items("/apis/cluster.x-k8s.io/v1beta1/namespaces/default/clusters")
    return not clusters and not stage.qemus() and not await stage.items(objects.MACHINES)


if __name__ == "__main__":
    main(embedded, life, SHOWN)
