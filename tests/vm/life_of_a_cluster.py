"""A cluster of Cluster API on a real management server: kubeadm makes its control plane in one VM, and others join it."""

import asyncio
import json
from typing import Any

from tests.vm import guests, objects
from tests.vm.stage import OnKubernetes, Stage, Workload, main, on_kubernetes

from kubewright.api import catalog

NAME, PLANE = "blue", "blue-control-plane"
CONTROLLERS = "--controllers=*,clusters,bootstrap,infra"
INIT_SECONDS, BOOT_SECONDS, HEALED_SECONDS, GONE_SECONDS = 900, 600, 480, 240
SHOWN = (
    *("clusters", "kubewrightclusters", "machines.cluster.x-k8s.io", "kubewrightmachines", "kubeadmconfigs"),
    *("machinehealthchecks", "events"),
)
NOT_HERE = ["addon/coredns", "addon/kube-proxy"]
"""Phases of kubeadm for which there are no images."""

PATIENT = (
    r"sed -i 's/^kind: InitConfiguration$/&\ntimeouts: {kubernetesAPICall: 10m, controlPlaneComponentHealthCheck: 10m}/'"
    " /run/kubeadm/kubeadm.yaml"
)
"""kubeadm 1.36 gives its API server one minute to give the administrator rights, and four to be healthy: not
always enough without KVM, on cores that others use. Cluster API has a field for the second alone."""
TOLD = "(sleep 240; tail -n 6 /var/log/pods/*/*/*.log > /dev/console 2>&1) &"
"""What the components say goes to the console, where a failed life shows it."""


async def life(stage: OnKubernetes) -> None:
    with stage.steps.step("controllers and kinds"):
        await stage.apply(*catalog.crds())
        stage.run(CONTROLLERS)
    with stage.steps.step("kubeadm init in a VM, until its Node is Ready"):
        await stage.apply(*control_plane())
        await stage.until("a kubeconfig", 60, lambda: stage.get(kubeconfig()))
        async with Workload.of(stage, NAME) as workload:
            await stage.until("one Node", INIT_SECONDS, lambda: workload.joined(1))
    async with Workload.of(stage, NAME) as workload:
        with stage.steps.step("a worker joins"):
            await stage.apply(
                *objects.workers(NAME, 1, version=objects.EARLIER, memory="768Mi"), health_check()
            )
            await stage.until("two Nodes", BOOT_SECONDS, lambda: workload.joined(2))
            assert await workload.kubelets() == [objects.EARLIER, objects.VERSION]
        with stage.steps.step("a pod runs and prints; kubectl reads it"):
            await use(stage, workload)
        with stage.steps.step("the worker is rolled from 1.35 to 1.36"):
            await rolled(stage, workload)
        with stage.steps.step("a worker that is killed is replaced by its MachineHealthCheck"):
            await healed(stage, workload)
    with stage.steps.step("all gone"):
        await asyncio.to_thread(stage.kubectl, "delete", "cluster", NAME, "--wait=false")
        await stage.until("no cluster and no VM", GONE_SECONDS, lambda: gone(stage))


def kubeconfig() -> str:
    return f"/api/v1/namespaces/default/secrets/{NAME}-kubeconfig"


def control_plane() -> list[Any]:
    """A Cluster, and one Machine on which kubeadm makes its control plane."""
    infrastructure = objects.of("KubewrightCluster", NAME, {"driver": "qemu"}, objects.INFRA)
    alone = {
        "extraArgs": {"leader-elect": "false"}
    }  # a lease that is lost to a slow disk or core ends the program
    init = {
        "clusterConfiguration": {"controllerManager": alone, "scheduler": alone},
        "initConfiguration": {"nodeRegistration": objects.REGISTRATION, "skipPhases": NOT_HERE},
        "files": objects.FILES,
        "preKubeadmCommands": [PATIENT, TOLD],
    }
    config = objects.of("KubeadmConfig", PLANE, init, objects.BOOTSTRAP)
    vm = objects.of("KubewrightMachine", PLANE, objects.vm(memory="1900Mi"), objects.INFRA)
    machine = {
        "clusterName": NAME,
        "version": objects.VERSION,
        "bootstrap": {"configRef": objects.reference(config)},
        "infrastructureRef": objects.reference(vm),
    }
    labels = {"cluster.x-k8s.io/control-plane": ""}
    return [
        objects.cluster(NAME, None, infrastructure),
        infrastructure,
        objects.of("Machine", PLANE, machine, labels=labels),
        config,
        vm,
    ]


def health_check() -> Any:
    silent = [{"type": "Ready", "status": each, "timeout": "15s"} for each in ("Unknown", "False")]
    spec = {
        "clusterName": NAME,
        "selector": {"matchLabels": {"pool": "workers"}},
        "unhealthyConditions": silent,
        "nodeStartupTimeout": "10m",
    }
    return objects.of("MachineHealthCheck", NAME, spec)


async def use(stage: Stage, workload: Workload) -> None:
    """The scheduler places it, and it has a token of its account."""
    await asyncio.to_thread(workload.kubectl, "apply", "-f", "-", stdin=guests.text(*guests.app(1)))

    async def printed() -> bool:
        said = await asyncio.to_thread(workload.kubectl.run, "logs", "deployment/hello")
        return said.stdout.startswith("hello from hello-")

    await stage.until("a pod prints", 120, printed)


async def rolled(stage: Stage, workload: Workload) -> None:
    """Only the version is another one: the same image holds both."""
    before = set(stage.qemus())
    version = json.dumps({"spec": {"template": {"spec": {"version": objects.VERSION}}}})
    deployment = f"machinedeployments.cluster.x-k8s.io/{NAME}-workers"
    await asyncio.to_thread(stage.kubectl, "patch", deployment, "--type=merge", "-p", version)

    async def look() -> bool:
        new = await workload.joined(2) and await workload.kubelets() == [objects.VERSION] * 2
        return new and before & set(stage.qemus()) == {PLANE}

    await stage.until("a worker of 1.36 alone", BOOT_SECONDS, look)


async def healed(stage: Stage, workload: Workload) -> None:
    (victim,) = [each for each in stage.qemus() if each != PLANE]
    stage.kill(victim)

    async def look() -> bool:
        return victim not in stage.qemus() and len(stage.qemus()) == 2 and await workload.joined(2)

    await stage.until("another worker", HEALED_SECONDS, look)


async def gone(stage: Stage) -> bool:
    clusters = await stage.items("/apis/cluster.x-k8s.io/v1beta1/namespaces/default/clusters")
    return not clusters and not stage.qemus() and not await stage.items(objects.MACHINES)


if __name__ == "__main__":
    main(on_kubernetes, life, SHOWN)
