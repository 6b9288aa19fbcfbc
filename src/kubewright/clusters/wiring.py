"""How the controllers of cluster.x-k8s.io are put together, for one term.

Sets.        The controllers are those of ``kubewright.replicas``, with the policies of Cluster API. Both
             count machines by one index. A set is reconciled when a template that it clones, or the control
             plane that it waits for, changes; sets and deployments are when their Cluster is created,
             paused, resumed or deleted.
Invariants.  The controllers of one term share one lookup of providers' objects, so a provider's kind is
             watched once, and from the first reference to it. Workload clusters are those of the term
             (``Environment.workloads``), asked for only where a chosen controller needs them.
Called by    ``clusters.world``, which is imported without it: a program that only lists controllers wires
             none.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from kubewright.api.cluster.v1beta1 import (
    CLUSTER,
    GROUP,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_HEALTH_CHECK,
    MACHINE_SET,
    Cluster,
)
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
from kubewright.runtime.world import Environment, Runnables
from kubewright.wire.gvk import Key


def wire(
    environment: Environment, kinds: Sequence[Kind[Any]], connect: Connect | None, *, strict_running: bool
) -> Runnables:
    """The controllers of these kinds, and others that come with them; the switches are those of ``world``."""
    control = environment.control
    references = References(control.client, control.caches, Contracts())
    verifier = Verifier(environment.clock, connect or by_sockets)
    made = [cluster.wire(environment, references, verifier)]
    background = [references.run, verifier.run]
    if MACHINE in kinds or MACHINE_HEALTH_CHECK in kinds:  # they read Nodes of workload clusters
        environment.workloads().cache(CLUSTER_NODE, INDEXES)
    if MACHINE in kinds:
        workloads = environment.workloads()
        removals = WorkloadRemovals(workloads)
        made.append(machine.wire(environment, references, workloads, removals, strict_running=strict_running))
        background.append(removals.run)
    if MACHINE_DEPLOYMENT in kinds or MACHINE_SET in kinds:  # they share one index of machines
        made += wire_replicas(environment, references)
    if MACHINE_HEALTH_CHECK in kinds:
        made.append(healthcheck.wire(environment, references, environment.workloads()))
    register_families(environment.metrics, control.caches, metrics.families(), kinds)
    return Runnables(made, background)


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
