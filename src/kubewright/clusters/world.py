"""The world of ``cluster.x-k8s.io``: its controllers, and how they are put together.

Theory.      All controllers of the core work under one Lease, the one of Cluster API's own core: so ours and
             that one never work on the same objects at once.
             A controller of a kind of which another API has one too has a name that begins with ``cluster``.
Invariants.  The controllers of one term share one lookup of providers' objects, so a provider's kind is
             watched once, and from the first reference to it; and one lookup of workload clusters.
Source       capi.md §4.3 for the Lease, appendix A for the controllers.
Called by    ``compose.worlds``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kubewright.api.cluster import names
from kubewright.api.cluster.crds import crds
from kubewright.api.cluster.v1beta1 import (
    CLUSTER,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_HEALTH_CHECK,
    MACHINE_SET,
)
from kubewright.api.kinds import Kind
from kubewright.clusters import metrics
from kubewright.clusters.cluster import reconciler as cluster
from kubewright.clusters.healthcheck import reconciler as healthcheck
from kubewright.clusters.machine import reconciler as machine
from kubewright.clusters.machineset import wiring as machineset
from kubewright.clusters.references.contract import Contracts
from kubewright.clusters.sessions.workload import Connect, WorkloadClusters, by_sockets
from kubewright.runtime.group import Task
from kubewright.runtime.references.registry import References
from kubewright.runtime.world import ControllerInfo, Environment, Runnables, World

MACHINES, HEALTH_CHECKS = "clustermachine", "machinehealthcheck"
IN_CLUSTERS = {MACHINES, HEALTH_CHECKS}
"""The controllers that look into workload clusters."""

CONTROLLERS = (
    ControllerInfo(
        "cluster",
        "Cluster",
        names.CORE_LEASE,
        "gives providers their cluster, copies what they report, and deletes all of it in order",
    ),
    ControllerInfo(
        MACHINES,
        "Machine",
        names.CORE_LEASE,
        "gives providers their machine, follows its node, drains it and deletes all of it in order",
    ),
    ControllerInfo(
        "clustermachinedeployment",
        "MachineDeployment",
        names.CORE_LEASE,
        "keeps sets of a cluster's machines, sizes them and rolls them out",
    ),
    ControllerInfo(
        "clustermachineset",
        "MachineSet",
        names.CORE_LEASE,
        "clones templates and keeps as many machines as a set says",
    ),
    ControllerInfo(
        HEALTH_CHECKS,
        "MachineHealthCheck",
        names.CORE_LEASE,
        "watches the Nodes of machines, and lets their owners replace those that are unhealthy",
    ),
)

KINDS: Mapping[str, Kind[Any]] = {
    "cluster": CLUSTER,
    MACHINES: MACHINE,
    "clustermachinedeployment": MACHINE_DEPLOYMENT,
    "clustermachineset": MACHINE_SET,
    HEALTH_CHECKS: MACHINE_HEALTH_CHECK,
}
"""The kind of each controller."""

SETS = {"clustermachinedeployment", "clustermachineset"}
"""The controllers that share one index of machines."""


def world(connect: Connect = by_sockets, *, strict_running: bool = False) -> World:
    """This world. ``connect`` makes the transports to workload clusters.

    ``strict_running``: the phase Running of a Machine asks for a Node that is Ready (S0-23).
    """

    def wire(environment: Environment, chosen: Sequence[str]) -> Runnables:
        control = environment.control
        references = References(control.client, control.caches, Contracts())
        background: list[Task] = [references.run]
        made = [cluster.wire(environment, references)]
        workloads = WorkloadClusters(
            control, environment.entitled, connect=connect, admits=environment.admits
        )
        if not IN_CLUSTERS.isdisjoint(chosen):
            background.append(workloads.run)
        if MACHINES in chosen:
            made.append(machine.wire(environment, references, workloads, strict_running=strict_running))
        if not SETS.isdisjoint(chosen):
            made += machineset.wire(environment, references)
        if HEALTH_CHECKS in chosen:
            made.append(healthcheck.wire(environment, references, workloads))
        metrics.register(
            environment.metrics, control.caches, [KINDS[name] for name in KINDS if name in chosen]
        )
        return Runnables([each for each in made if each.name in chosen], background)

    return World(
        "clusters",
        CONTROLLERS,
        wire,
        kinds=tuple(KINDS.values()),
        definitions=crds,
        on_request=True,
        filter_label=names.WATCH_FILTER_LABEL,
    )
