"""The same cluster with VMs that were booted beforehand: how soon it has three Nodes, and one in a dead one's place."""

import asyncio
import json
from typing import Any

from tests.vm import objects
from tests.vm.life_of_a_cluster import (
    BOOT_SECONDS,
    CONTROLLERS,
    GONE_SECONDS,
    HEALED_SECONDS,
    INIT_SECONDS,
    NAME,
    PLANE,
    SHOWN,
    control_plane,
    gone,
    health_check,
    kubeconfig,
)  # fmt: skip
from tests.vm.stage import OnKubernetes, Workload, main, on_kubernetes

from kubewright.api import catalog

WORKERS = 2
MEMORY = {"memory": "768Mi"}
WARM_SECONDS = 900


async def life(stage: OnKubernetes) -> None:
    with stage.steps.step("controllers; three VMs boot, and wait"):
        await stage.apply(*catalog.crds())
        stage.run(CONTROLLERS, f"--driver-option=warm={warm_file(stage)}")
        await stage.until("three VMs wait", WARM_SECONDS, lambda: waiting(stage, 1 + WORKERS))
    with stage.steps.step("a Cluster of one and two, from apply to three Nodes that are Ready"):
        await stage.apply(*control_plane(), *objects.workers(NAME, WORKERS, **MEMORY))
        await stage.until("a kubeconfig", 60, lambda: stage.get(kubeconfig()))
        async with Workload.of(stage, NAME) as workload:
            await stage.until("three Nodes", INIT_SECONDS, lambda: workload.joined(1 + WORKERS))
    async with Workload.of(stage, NAME) as workload:
        with stage.steps.step("each is its own: machine id and boot id"):
            await unique(workload)
        with stage.steps.step("others boot, and wait"):
            await stage.until("VMs wait again", WARM_SECONDS, lambda: waiting(stage, 1 + WORKERS + 2))
        with stage.steps.step("a worker is killed, until it is called unhealthy"):
            await stage.apply(health_check())
            victim = min(each for each in stage.qemus() if each != PLANE)
            stage.kill(victim)
            await stage.until("it is deleted", HEALED_SECONDS, lambda: deleted(stage, victim))
        with stage.steps.step("from then until another one is Ready in its place"):
            await stage.until("three Nodes", BOOT_SECONDS, lambda: workload.joined(1 + WORKERS))
    with stage.steps.step("all gone"):
        await asyncio.to_thread(stage.kubectl, "delete", "cluster", NAME, "--wait=false")
        await stage.until("no cluster and no VM", GONE_SECONDS, lambda: gone(stage))


def warm_file(stage: OnKubernetes) -> str:
    """What is to wait: one for the control plane and the workers."""
    specs = {1: objects.vm(memory="1900Mi"), WORKERS: objects.vm(**MEMORY)}
    path = stage.folder / "warm.yaml"
    path.write_text(
        json.dumps([{"count": count, "providerSpec": spec["providerSpec"]} for count, spec in specs.items()])
    )
    return str(path)


async def waiting(stage: OnKubernetes, count: int) -> bool:
    """Whether so many VMs have come to wait until now: that of the control plane first, then those of workers."""
    return (stage.folder / "kubewright.log").read_text().count("a VM waits for a machine") >= count


async def deleted(stage: OnKubernetes, machine: str) -> bool:
    """Whether its Machine is being deleted, or is gone."""
    machines: list[Any] = await stage.items(objects.MACHINES)
    left = [
        each["spec"]["infrastructureRef"]["name"]
        for each in machines
        if "deletionTimestamp" not in each["metadata"]
    ]
    return machine not in left


async def unique(workload: Workload) -> None:
    """What no two machines may share, as their kubelets say it."""
    nodes = await workload.items("/api/v1/nodes")
    for field in ("machineID", "bootID"):
        said = [each["status"]["nodeInfo"][field] for each in nodes]
        assert len(set(said)) == len(nodes), (field, said)


if __name__ == "__main__":
    main(on_kubernetes, life, SHOWN)
