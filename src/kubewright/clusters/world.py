"""The world of ``cluster.x-k8s.io``: its controllers, and how they are put together.

Theory.      All controllers of the core work under the Lease of Cluster API's own core, so the two never work
             on the same objects at once. MCM has Machines, MachineSets and MachineDeployments too, so the
             names of the controllers of these kinds begin with ``cluster`` here.
Sets.        The controllers are those of ``kubewright.replicas``, with the policies of Cluster API. Both
             count machines by one index. A set is reconciled when a template that it clones, or the control
             plane that it waits for, changes; sets and deployments are when their Cluster is created,
             paused, resumed or deleted.
Invariants.  The controllers of one term share one lookup of providers' objects, so a provider's kind is
             watched once, and from the first reference to it. Workload clusters are those of the term
             (``Environment.workloads``), asked for only where a chosen controller needs them.
Called by    ``compose.worlds``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kubewright.api.cluster import manifests, names
from kubewright.api.cluster.manifests import crds
from kubewright.api.cluster.v1beta1 import (
    CLUSTER,
    GROUP,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_HEALTH_CHECK,
    MACHINE_SET,
    Cluster,
)
from kubewright.api.crd import crd
from kubewright.api.kinds import Kind
from kubewright.clusters import metrics
from kubewright.clusters.cluster import wiring as cluster
from kubewright.clusters.cluster.look import Verifier
from kubewright.clusters.external.fields import Contracts
from kubewright.clusters.healthcheck import wiring as healthcheck
from kubewright.clusters.indexes import BY_CLUSTER, index_by_cluster
from kubewright.clusters.machine import wiring as machine
from kubewright.clusters.machine.act import WorkloadRemovals
from kubewright.clusters.machinedeployment import MachineDeployments
from kubewright.clusters.machineset.member import read
from kubewright.clusters.machineset.policy import Looker, MachineSets
from kubewright.clusters.node import CLUSTER_NODE, INDEXES
from kubewright.clusters.sessions import Connect, by_sockets
from kubewright.kube.informer import Change, Informer
from kubewright.replicas.deployment.act import Deployments
from kubewright.replicas.members import MemberIndex
from kubewright.replicas.set.act import Sets
from kubewright.runtime.controller import Controller, ToKeys, only, spec_or_life
from kubewright.runtime.metrics import register_families
from kubewright.runtime.references.registry import References
from kubewright.runtime.world import ControllerInfo, Environment, Runnables, World
from kubewright.wire.gvk import Key

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

    ``strict_running``: the phase Running of a Machine asks for a Node that is Ready. ``connect``
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
            made += wire_replicas(environment, references)
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


def wire_replicas(environment: Environment, references: References) -> tuple[Controller, Controller]:
    """The controller of deployments and that of sets."""
    control, recorder = environment.control, environment.recorder
    caches, metrics = control.caches, environment.metrics
    clusters = caches.get(CLUSTER)
    index = MemberIndex(caches.get(MACHINE), read, control.client.steady())
    lookup = references.lookup_for(GROUP, MACHINE_SET.resource.kind)
    set_policy = MachineSets(Looker(clusters, caches.get(MACHINE_DEPLOYMENT), lookup))
    sets = Sets(set_policy, caches, recorder, index=index)
    deployments = Deployments(MachineDeployments(clusters), caches, recorder, index=index)
    set_controller, deployment_controller = sets.controller(metrics), deployments.controller(metrics)
    lookup.subscribe(set_controller.enqueue)
    set_controller.watches(clusters, of_cluster(sets.objects))
    deployment_controller.watches(clusters, of_cluster(deployments.objects))
    return deployment_controller, set_controller


def of_cluster(objects: Informer[Any]) -> ToKeys:
    """From a change of a cluster's spec or life, and from its control plane becoming ready, to the objects of
    this kind that belong to it."""
    index_by_cluster(objects)

    def keys(change: Change[Any]) -> Iterable[Key]:
        return objects.keys_by(BY_CLUSTER, str(change.key))

    return only(lambda change: spec_or_life(change) or _control_plane(change), keys)


def _control_plane(change: Change[Cluster]) -> bool:
    before, after = change.before(), change.after()
    if before is None or after is None:
        return True
    return bool(before.status.control_plane_ready) != bool(after.status.control_plane_ready)
