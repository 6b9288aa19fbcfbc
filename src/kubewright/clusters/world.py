"""The world of ``cluster.x-k8s.io``: its controllers, and how they are put together.

Theory.      All controllers of the core work under the Lease of Cluster API's own core, so the two never work
             on the same objects at once. MCM has Machines, MachineSets and MachineDeployments too, so the
             names of the controllers of these kinds begin with ``cluster`` here.
Invariants.  The controllers of one term share one lookup of providers' objects, so a provider's kind is
             watched once, and from the first reference to it. Workload clusters are those of the term
             (``Environment.workloads``), asked for only where a chosen controller needs them.
Source       capi.md §4.3 for the Lease, appendix A for the controllers.
Called by    ``compose.worlds``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kubewright.api.cluster import manifests, names
from kubewright.api.cluster.manifests import crds
from kubewright.api.cluster.v1beta1 import (
    CLUSTER,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_HEALTH_CHECK,
    MACHINE_SET,
)
from kubewright.api.crd import crd
from kubewright.api.kinds import Kind
from kubewright.clusters import metrics, replicas
from kubewright.clusters.cluster import reconciler as cluster
from kubewright.clusters.cluster.verification import Verifier
from kubewright.clusters.external.contract import Contracts
from kubewright.clusters.healthcheck import reconciler as healthcheck
from kubewright.clusters.machine import reconciler as machine
from kubewright.clusters.machine.removals import WorkloadRemovals
from kubewright.clusters.sessions.node import CLUSTER_NODE, INDEXES
from kubewright.clusters.sessions.workload import Connect, by_sockets
from kubewright.runtime.metrics import register_families
from kubewright.runtime.references.registry import References
from kubewright.runtime.world import ControllerInfo, Environment, Runnables, World

CLUSTERS, MACHINES, MACHINE_SETS = "cluster", "clustermachine", "clustermachineset"
MACHINE_DEPLOYMENTS, HEALTH_CHECKS = "clustermachinedeployment", "machinehealthcheck"
NEED_WORKLOAD_CLUSTERS = {MACHINES, HEALTH_CHECKS}
"""The controllers that read Nodes of workload clusters."""

CONTROLLERS = (
    ControllerInfo(
        CLUSTERS,
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
        MACHINE_DEPLOYMENTS,
        "MachineDeployment",
        names.CORE_LEASE,
        "keeps sets of a cluster's machines, sizes them and rolls them out",
    ),
    ControllerInfo(
        MACHINE_SETS,
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
    CLUSTERS: CLUSTER,
    MACHINES: MACHINE,
    MACHINE_DEPLOYMENTS: MACHINE_DEPLOYMENT,
    MACHINE_SETS: MACHINE_SET,
    HEALTH_CHECKS: MACHINE_HEALTH_CHECK,
}
"""The kind of each controller."""

SETS = {MACHINE_DEPLOYMENTS, MACHINE_SETS}
"""The controllers that share one index of machines."""


def _definitions() -> Iterator[Mapping[str, Any]]:
    """Those of its kinds, and those that clusterctl looks for."""
    yield from crds()
    yield from map(crd, manifests.FOR_CLUSTERCTL)


def world(*, strict_running: bool = False, connect: Connect = by_sockets) -> World:
    """This world.

    ``strict_running``: the phase Running of a Machine asks for a Node that is Ready (S0-23). ``connect``
    makes the transports to API servers that are asked what they verify by.
    """

    def wire(environment: Environment, chosen: Sequence[str]) -> Runnables:
        control = environment.control
        references = References(control.client, control.caches, Contracts())
        verifier = Verifier(environment.clock, connect)
        made = [cluster.wire(environment, references, verifier)]
        background = [references.run, verifier.run]
        if not NEED_WORKLOAD_CLUSTERS.isdisjoint(chosen):
            environment.workloads().cache(CLUSTER_NODE, INDEXES)
        if MACHINES in chosen:
            workloads = environment.workloads()
            removals = WorkloadRemovals(workloads)
            made.append(
                machine.wire(environment, references, workloads, removals, strict_running=strict_running)
            )
            background.append(removals.run)
        if not SETS.isdisjoint(chosen):
            made += replicas.wire(environment, references)
        if HEALTH_CHECKS in chosen:
            made.append(healthcheck.wire(environment, references, environment.workloads()))
        register_families(
            environment.metrics,
            control.caches,
            metrics.families(),
            [KINDS[name] for name in KINDS if name in chosen],
        )
        return Runnables([each for each in made if each.name in chosen], background)

    return World(
        "clusters",
        CONTROLLERS,
        wire,
        kinds=tuple(KINDS.values()),
        definitions=_definitions,
        on_request=True,
        filter_label=names.WATCH_FILTER_LABEL,
        reaches_workloads=True,
    )
