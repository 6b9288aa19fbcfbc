"""Machines of machine.sapcloud.io as real VMs: made, used, rolled, one killed, deleted."""

import asyncio
from typing import Any

from tests.vm import guests
from tests.vm.stage import NODES, OnKubernetes, Stage, main, on_kubernetes

from kubewright.api.machine.manifests import crds

MACHINES = "/apis/machine.sapcloud.io/v1alpha1/namespaces/default/machines"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENT = "machinedeployments/workers"
POOL = {"pool": "workers"}
BOOT_SECONDS, ROLL_SECONDS, LOST_SECONDS = 300, 600, 420
SMALL, LARGE = "768Mi", "896Mi"
SHOWN = ("machines", "machinesets", "machinedeployments", "nodes", "pods", "csr", "events")


async def life(stage: OnKubernetes) -> None:
    with stage.steps.step("controllers and classes"):
        await install(stage)
    with stage.steps.step("two machines to two nodes that are Ready"):
        await stage.apply(deployment(2))
        first = await stage.until("two machines that run", BOOT_SECONDS, lambda: running(stage, 2, "small"))
    with stage.steps.step("pods run and print; kubectl reads it"):
        await use(stage)
    with stage.steps.step("rolled to more memory, pods drained by eviction"):
        evicted = await rolled(stage)
    assert evicted, "no pod was seen that an eviction ended"
    assert not set(first) & set(stage.qemus()), "VMs of the former class are still there"
    with stage.steps.step("a VM that is killed is replaced"):
        await replaced(stage)
    with stage.steps.step("all gone"):
        for each in (
            "pdb/hello",
            "deployment/hello",
            DEPLOYMENT,
        ):  # a budget holds the last node until its time is up
            await asyncio.to_thread(stage.kubectl, "delete", each, "--wait=false")
        await stage.until("nothing left", ROLL_SECONDS, lambda: nothing(stage))


async def install(stage: OnKubernetes) -> None:
    await stage.apply(*crds())
    stage.run("--machine-health-timeout=20s", "--machine-drain-timeout=3m", "--machine-creation-timeout=5m")
    secret = guests.worker_secret(stage.real.reached_at, stage.real.authority)
    classes = [
        guests.machine_class(name, memory=memory) for name, memory in (("small", SMALL), ("large", LARGE))
    ]
    await stage.apply(secret, *classes, *guests.JOINING)


def deployment(replicas: int) -> Any:
    return {
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineDeployment",
        "metadata": {"name": "workers", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": POOL},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {
                "metadata": {"labels": POOL},
                "spec": {"class": {"kind": "MachineClass", "name": "small"}},
            },
        },
    }


async def running(stage: Stage, count: int, machine_class: str) -> list[str]:
    """The names of the machines once so many run, all of that class, with nodes that are Ready; none before."""
    machines, ready = await stage.items(MACHINES), await stage.ready_nodes()
    right = [
        each["metadata"]["name"]
        for each in machines
        if each["spec"]["class"]["name"] == machine_class
        and each.get("status", {}).get("currentStatus", {}).get("phase") == "Running"
        and each["metadata"]["name"] in ready
        and ready[each["metadata"]["name"]]["spec"].get("providerID") == each["spec"].get("providerID")
    ]
    return right if len(right) == len(machines) == len(ready) == count else []


async def use(stage: Stage) -> None:
    await stage.apply(*guests.app(2))
    pods = await stage.until("two pods that are ready", 90, lambda: ready_pods(stage, 2))
    for pod in pods:
        said = await asyncio.to_thread(stage.kubectl, "logs", pod)
        assert said == f"hello from {pod}\n", said
    inside = await asyncio.to_thread(stage.kubectl, "exec", pods[0], "--", "/bin/busybox", "hostname")
    assert inside.strip() == pods[0], inside


async def ready_pods(stage: Stage, count: int) -> list[str]:
    """The names of the pods, once so many are ready and none goes."""
    pods = await stage.items(PODS)
    ready = [each for each in pods if is_ready(each)]
    return [each["metadata"]["name"] for each in ready] if len(ready) == len(pods) == count else []


def is_ready(pod: Any) -> bool:
    said = {each["type"]: each["status"] for each in pod.get("status", {}).get("conditions") or ()}
    return said.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


async def rolled(stage: Stage) -> set[str]:
    """Roll, and answer the pods that were seen to go because of an eviction."""
    evicted: set[str] = set()

    async def look() -> bool:
        for pod in await stage.items(PODS):
            said = [each.get("reason") for each in pod.get("status", {}).get("conditions") or ()]
            if "EvictionByEvictionAPI" in said:
                evicted.add(pod["metadata"]["name"])
        return bool(await running(stage, 2, "large")) and bool(await ready_pods(stage, 2))

    patch = '{"spec":{"template":{"spec":{"class":{"name":"large"}}}}}'
    await asyncio.to_thread(stage.kubectl, "patch", DEPLOYMENT, "--type=merge", "-p", patch)
    await stage.until("two machines of the larger class", ROLL_SECONDS, look)
    return evicted


async def replaced(stage: Stage) -> None:
    victim = min(stage.qemus())
    stage.kill(victim)

    async def look() -> bool:
        now = await running(stage, 2, "large")
        return bool(now) and victim not in now and bool(await ready_pods(stage, 2))

    await stage.until("another machine in its place", LOST_SECONDS, look)


async def nothing(stage: Stage) -> bool:
    """No machine, no node, no VM, no folder of one, no end of the bridge."""
    if await stage.items(MACHINES) or await stage.items(NODES) or stage.qemus():
        return False
    return stage.network() == ["kubewright0"] and not [each for each in stage.vms.iterdir() if each.is_dir()]


if __name__ == "__main__":
    main(on_kubernetes, life, SHOWN)
