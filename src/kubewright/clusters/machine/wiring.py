"""What wakes a Machine.

Theory.      A Machine is looked at when it changes, when an object of a provider that it refers to does in
             what the contract names (``external.object``), when its Node does, when its cluster is
             connected or lost, when its Cluster is paused or deleted, and when a rollout gives
             its deployment another revision. Nothing else of sets and deployments wakes it: upstream's
             machines are woken by every status of theirs, and that is most of what a rollout costs there.
Called by    ``clusters.world``.
"""

from collections.abc import Callable, Iterable
from typing import Any

from kubewright.api.cluster.v1beta1 import GROUP, MACHINE, Cluster
from kubewright.clusters.external.object import same_for_machine
from kubewright.clusters.machine.act import Machines, WorkloadRemovals
from kubewright.clusters.machine.look import BY_DEPLOYMENT, BY_SET, Caches, Looker, WorkloadCalls, revision
from kubewright.clusters.node import CLUSTER_NODE, ClusterNode
from kubewright.kube.informer import Change
from kubewright.nodes.health import conditions_differ
from kubewright.runtime.controller import Controller, alike
from kubewright.runtime.references.registry import References
from kubewright.runtime.sessions.lending import Workloads
from kubewright.runtime.world import Environment
from kubewright.wire.gvk import Key

WORKERS = 50
"""Passes at one time. Each waits for a few writes and no more, and those of a cluster that hangs are held
back (``look.WorkloadCalls``); upstream has 50 to 100 by now."""


def wire(
    environment: Environment,
    references: References,
    workloads: Workloads,
    removals: WorkloadRemovals,
    *,
    strict_running: bool = False,
) -> Controller:
    """The controller of Machines, listening to everything that a decision looks at."""

    def wake(key: Key, why: str) -> None:
        controller.enqueue(key, why)

    client, informers = environment.control.client, environment.control.caches
    caches, calls = Caches(informers), WorkloadCalls(environment.clock)
    lookup = references.lookup_for(GROUP, MACHINE.resource.kind)
    looker = Looker(client, caches, lookup, workloads, calls, strict_running=strict_running)
    machines = Machines(environment, caches.machines, looker, workloads, calls, removals=removals, wake=wake)
    controller = Controller(
        "clustermachine", machines, environment.clock, workers=WORKERS, metrics=environment.metrics
    )

    def of_cluster(change: Change[Cluster]) -> Iterable[Key]:
        return caches.of_cluster(change.key) if _state(change.before()) != _state(change.after()) else ()

    controller.watches(caches.machines, machines.reports.matters)
    controller.watches(caches.clusters, of_cluster)
    controller.watches(caches.sets, _of_revision(caches, BY_SET))
    controller.watches(caches.deployments, _of_revision(caches, BY_DEPLOYMENT))
    controller.watches_in(
        workloads,
        CLUSTER_NODE,
        lambda cluster, change: machines_of_node(caches, cluster, change),
        caches.of_cluster,
    )
    lookup.subscribe(controller.enqueue, same_for_machine)
    return controller


def _of_revision(caches: Caches, index: str) -> Callable[[Change[Any]], Iterable[Key]]:
    """The machines of a set or deployment that a rollout has given another revision."""

    def keys(change: Change[Any]) -> Iterable[Key]:
        before, after = change.before(), change.after()
        old = revision(before) if before is not None else None
        same = after is None or old == revision(after)
        return () if same else caches.machines.keys_by(index, str(change.key))

    return keys


def _state(cluster: Cluster | None) -> tuple[bool, ...]:
    """What of a Cluster its machines look at."""
    if cluster is None:
        return ()
    return cluster.spec.paused, cluster.metadata.deleting


def machines_of_node(caches: Caches, cluster: Key, change: Change[ClusterNode]) -> Iterable[Key]:
    """The machines with the providerID of a Node that changed in more than its heartbeats."""
    if alike(change, _same):
        return ()
    before, after = change.before(), change.after()
    ids = {each.spec.provider_id: None for each in (before, after) if each is not None}
    return [key for each in ids if each for key in caches.with_provider_id(cluster, each)]


def _same(before: ClusterNode, after: ClusterNode) -> bool:
    """Whether no decision can tell the two apart."""
    return (
        before.spec == after.spec
        and before.metadata.annotations == after.metadata.annotations
        and before.status.node_info == after.status.node_info
        and before.status.volumes_attached == after.status.volumes_attached
        and not conditions_differ(before.status.conditions, after.status.conditions)
    )
