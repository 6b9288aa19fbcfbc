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
from kubewright.cli.demo import manifests
from kubewright.cli.demo.story import Chapter, Demo, Story
from kubewright.cli.demo.view import GONE, Row, View, Words
from kubewright.compose import worlds
from kubewright.compose.options import Options
from kubewright.wire.gvk import Key

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
        for body in manifests.example():
            await self.embedded.client.create(KINDS[body["kind"]], body, namespace=NAMESPACE)

    async def watch(self) -> None:
        await self.embedded.client.create(MACHINE_HEALTH_CHECK, manifests.health_check(), namespace=NAMESPACE)

    async def kill_one(self) -> None:
        """Kill the first of the workers."""
        rows = (await self.look()).rows
        self.kill(next(row.name for row in rows if row.name != manifests.CONTROL_PLANE))

    async def roll(self) -> None:
        await self.count_anew()
        change = {"spec": {"template": {"spec": {"version": NEW}}}}
        await self.embedded.client.patch(MACHINE_DEPLOYMENT, Key(NAMESPACE, manifests.WORKERS), change)

    async def delete(self) -> None:
        await self.embedded.client.delete(CLUSTER, Key(NAMESPACE, manifests.CLUSTER_NAME))


def rolled(now: View) -> bool:
    """Whether all workers are of the new version, and the control plane is as it was."""
    versions = {row.sort for row in now.rows if row.name != manifests.CONTROL_PLANE}
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
            f"{demo.healthy} of 3 workers are healthy; one whose node is silent for "
            f"{manifests.SILENT_FOR} is replaced"
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
