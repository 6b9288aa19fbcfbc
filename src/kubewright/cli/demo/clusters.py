"""The story of a cluster of Cluster API: it comes up, a worker dies, the workers roll, all of it goes.

Theory.      Its nodes are in the cluster's own API server, which the simulated cloud starts when the control
             plane boots. What is known of a machine beside its phase, from its node and its health check, is
             in its conditions.
Called by    ``demo``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubewright.api import catalog
from kubewright.api.cluster.conditions import FALSE, UNKNOWN, ClusterPhase, ConditionType, MachinePhase
from kubewright.api.cluster.names import CONTROL_PLANE_LABEL, DEPLOYMENT_NAME_LABEL
from kubewright.api.cluster.v1beta1 import (
    CLUSTER,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_HEALTH_CHECK,
    Cluster,
    Machine,
)
from kubewright.api.conditions import condition_of
from kubewright.api.core import NODE, Node
from kubewright.api.kinds import Kind
from kubewright.cli.counts import ready
from kubewright.cli.demo.story import Chapter, Demo, Story
from kubewright.cli.demo.view import GONE, Row, View, Words
from kubewright.compose import worlds
from kubewright.compose.options import Options
from kubewright.wire.gvk import Key

Object = dict[str, Any]

CLUSTER_NAME = "blue"
CONTROL_PLANE, WORKERS = "blue-control-plane", "blue-workers"
VERSION = "v1.34.0"
SILENT_FOR = "3s"
"""How long a node may be silent before the health check has its machine replaced."""

_CORE, _BOOTSTRAP, _INFRA = (
    f"{group}cluster.x-k8s.io/v1beta1" for group in ("", "bootstrap.", "infrastructure.")
)


def example() -> list[Object]:
    """One control plane machine and three workers, in the order of the example."""
    return [
        _cluster(),
        _object(_INFRA, "KubewrightCluster", CLUSTER_NAME, {}),
        _control_plane(),
        _object(_BOOTSTRAP, "KubeadmConfig", CONTROL_PLANE, {"initConfiguration": {}}),
        _object(_INFRA, "KubewrightMachine", CONTROL_PLANE, {}),
        _workers(),
        _object(_BOOTSTRAP, "KubeadmConfigTemplate", WORKERS, {"template": {"spec": _joining()}}),
        _object(_INFRA, "KubewrightMachineTemplate", WORKERS, {"template": {"spec": {}}}),
    ]


def health_check() -> Object:
    """Workers whose node is silent are replaced."""
    spec = {
        "clusterName": CLUSTER_NAME,
        "selector": {"matchLabels": {DEPLOYMENT_NAME_LABEL: WORKERS}},
        "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "timeout": SILENT_FOR}],
    }
    return _object(_CORE, "MachineHealthCheck", WORKERS, spec)


def _cluster() -> Object:
    pods, services = {"cidrBlocks": ["10.244.0.0/16"]}, {"cidrBlocks": ["10.96.0.0/16"]}
    spec = {
        "clusterNetwork": {"pods": pods, "services": services},
        "infrastructureRef": _ref(_INFRA, "KubewrightCluster", CLUSTER_NAME),
    }
    return _object(_CORE, "Cluster", CLUSTER_NAME, spec)


def _control_plane() -> Object:
    spec = _machine(
        _ref(_BOOTSTRAP, "KubeadmConfig", CONTROL_PLANE), _ref(_INFRA, "KubewrightMachine", CONTROL_PLANE)
    )
    made = _object(_CORE, "Machine", CONTROL_PLANE, spec)
    return {**made, "metadata": {**made["metadata"], "labels": {CONTROL_PLANE_LABEL: ""}}}


def _workers() -> Object:
    machine = _machine(
        _ref(_BOOTSTRAP, "KubeadmConfigTemplate", WORKERS), _ref(_INFRA, "KubewrightMachineTemplate", WORKERS)
    )
    spec = {"clusterName": CLUSTER_NAME, "replicas": 3, "selector": {}, "template": {"spec": machine}}
    return _object(_CORE, "MachineDeployment", WORKERS, spec)


def _machine(bootstrap: Object, infrastructure: Object) -> Object:
    """The spec of a machine."""
    return {
        "clusterName": CLUSTER_NAME,
        "version": VERSION,
        "bootstrap": {"configRef": bootstrap},
        "infrastructureRef": infrastructure,
    }


def _joining() -> Object:
    flags = {"node-labels": "example.com/pool=workers"}
    return {"joinConfiguration": {"nodeRegistration": {"kubeletExtraArgs": flags}}}


def _object(api_version: str, kind: str, name: str, spec: Mapping[str, Any]) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}


def _ref(api_version: str, kind: str, name: str) -> Object:
    return {"apiVersion": api_version, "kind": kind, "name": name}


NAMESPACE = "default"
NEW = "v1.34.1"
"""Where the workers go: no kubelet may be of a later minor version than its API server."""

UNHEALTHY = "Unhealthy"
"""No phase: a machine that its health check found unhealthy is Running until it is deleted."""

WORDS = Words(
    "A cluster is an object in the API, and so is each of its machines, which asks for one VM, here of a "
    "simulated cloud; the first VM runs the cluster's own API server, and every VM joins that as a node.",
    "version",
    {
        MachinePhase.UNKNOWN: ("its node is silent", "their nodes are silent"),
        UNHEALTHY: ("its node stayed silent", "their nodes stayed silent"),
        MachinePhase.DELETING: ("its node is drained", "their nodes are drained"),
        GONE: ("its VM is deleted", "their VMs are deleted"),
        MachinePhase.PENDING: ("its bootstrap data is awaited", "their bootstrap data is awaited"),
        MachinePhase.PROVISIONING: ("its VM is being made", "their VMs are being made"),
        MachinePhase.PROVISIONED: ("its VM boots, and joins", "their VMs boot, and join"),
        MachinePhase.RUNNING: ("its node has joined", "their nodes have joined"),
    },
    {
        ClusterPhase.PROVISIONING: "its address is awaited",
        ClusterPhase.PROVISIONED: "its API server has an address now",
        ClusterPhase.DELETING: "its machines go first",
    },
)

_SHORT = Options(driver_options={"leaseSeconds": "2"}, grace=3.0)
OPTIONS = Options(
    driver_options=_SHORT.driver_options, grace=_SHORT.grace, controllers=worlds.every_word(_SHORT)
)
"""Short enough for a terminal, as those of the machines' story."""

KINDS: Mapping[str, Kind[Any]] = {
    each.kind.resource.kind: each.kind
    for api in ("clusters", "bootstrap", "infrastructure")
    for each in catalog.DEFINITIONS[api]
}


def view(machines: Iterable[Machine], clusters: Sequence[Cluster], nodes: Sequence[Node], vms: int) -> View:
    """Count what is there; there is one cluster at most."""
    rows = tuple(
        Row(
            machine.name,
            machine.spec.version or "",
            state(machine),
            machine.status.node_ref.name if machine.status.node_ref is not None else "",
        )
        for machine in sorted(machines, key=lambda machine: machine.name)
    )
    phases = [cluster_phase(cluster) for cluster in clusters]
    return View(rows, sum(map(ready, nodes)), len(nodes), vms, *phases[:1])


def state(machine: Machine) -> str:
    """A machine's phase, or what its health check or its node has to say while it is Running."""
    if machine.metadata.deleting:
        return MachinePhase.DELETING.value
    phase, conditions = machine.status.phase or MachinePhase.PENDING.value, machine.status.conditions
    if phase != MachinePhase.RUNNING:
        return phase
    healthy = condition_of(conditions, ConditionType.HEALTH_CHECK_SUCCEEDED)
    if healthy is not None and healthy.status == FALSE:
        return UNHEALTHY
    node = condition_of(conditions, ConditionType.NODE_HEALTHY)
    return MachinePhase.UNKNOWN.value if node is not None and node.status == UNKNOWN else phase


def cluster_phase(cluster: Cluster) -> str:
    """A cluster's phase, shown even before a controller has written it."""
    if cluster.metadata.deleting:
        return ClusterPhase.DELETING.value
    return cluster.status.phase or ClusterPhase.PROVISIONING.value


@dataclass(slots=True)
class Clusters(Demo):
    """A cluster, whose nodes join its own API server; its health check counts the ``healthy`` workers."""

    healthy: int = 0

    async def look(self) -> View:
        """What is there now."""
        client = self.embedded.client
        clusters = await client.list(CLUSTER, NAMESPACE)
        machines = await client.list(MACHINE, NAMESPACE)
        checks = await client.list(MACHINE_HEALTH_CHECK, NAMESPACE)
        self.healthy = sum(each.status.current_healthy or 0 for each in checks)
        return view(machines, clusters, await self.nodes(clusters), len(self.cloud.vms))

    async def nodes(self, clusters: Sequence[Cluster]) -> Sequence[Node]:
        """The nodes in the API servers of these clusters, so far as they serve."""
        found: list[Node] = []
        for cluster in clusters:
            plane = self.embedded.planes.find(str(cluster.spec.control_plane_endpoint))
            if plane is not None:
                found += await plane.client.list(NODE)
        return found

    async def create(self) -> None:
        for body in example():
            await self.embedded.client.create(KINDS[body["kind"]], body, namespace=NAMESPACE)

    async def watch(self) -> None:
        await self.embedded.client.create(MACHINE_HEALTH_CHECK, health_check(), namespace=NAMESPACE)

    async def kill_one(self) -> None:
        """Kill the first of the workers."""
        rows = (await self.look()).rows
        self.kill(next(row.name for row in rows if row.name != CONTROL_PLANE))

    async def roll(self) -> None:
        await self.count_anew()
        change = {"spec": {"template": {"spec": {"version": NEW}}}}
        await self.embedded.client.patch(MACHINE_DEPLOYMENT, Key(NAMESPACE, WORKERS), change)

    async def delete(self) -> None:
        await self.embedded.client.delete(CLUSTER, Key(NAMESPACE, CLUSTER_NAME))


def rolled(now: View) -> bool:
    """Whether all workers are of the new version, and the control plane is as it was."""
    versions = {row.sort for row in now.rows if row.name != CONTROL_PLANE}
    return now.settled(4) and versions == {NEW}


CHAPTERS = (
    Chapter(
        "A cluster comes up: one control plane machine, three workers",
        "kubectl apply -f cluster.yaml",
        Clusters.create,
        lambda _demo, now: now.settled(4),
    ),
    Chapter(
        "A health check watches the workers",
        "kubectl apply -f health-check.yaml",
        Clusters.watch,
        lambda demo, now: now.settled(4) and demo.healthy == 3,
        remark=lambda demo: (
            f"{demo.healthy} of 3 workers are healthy; one whose node is silent for {SILENT_FOR} is replaced"
        ),
    ),
    Chapter(
        "A worker dies, and is replaced",
        "(one VM is powered off)",
        Clusters.kill_one,
        lambda demo, now: now.settled(4) and not demo.survived(now) and demo.healthy == 3,
    ),
    Chapter(
        "Roll the workers to a new version, at most 1 more and none less",
        "kubectl patch md blue-workers --type merge "
        f'-p \'{{"spec": {{"template": {{"spec": {{"version": "{NEW}"}}}}}}}}\'',
        Clusters.roll,
        lambda _demo, now: rolled(now),
        remark=lambda demo: demo.extremes,
    ),
    Chapter(
        "Delete everything",
        "kubectl delete cluster blue",
        Clusters.delete,
        lambda _demo, now: now.empty,
    ),
)

CLUSTERS = Story(WORDS, OPTIONS, Clusters, CHAPTERS)
