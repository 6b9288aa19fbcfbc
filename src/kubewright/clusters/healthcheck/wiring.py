"""What wakes a health check: its machines, their Nodes, its Cluster, and objects that it refers to."""

from collections.abc import Iterable
from typing import Any

from kubewright.api.cluster.v1beta1 import GROUP, MACHINE_HEALTH_CHECK, Cluster, Machine
from kubewright.clusters.healthcheck.act import HealthChecks
from kubewright.clusters.healthcheck.look import Looker, selector_of
from kubewright.clusters.indexes import BY_CLUSTER
from kubewright.clusters.node import CLUSTER_NODE, ClusterNode
from kubewright.clusters.owned import cluster_of
from kubewright.kube.informer import Change
from kubewright.runtime.controller import Controller
from kubewright.runtime.references.registry import References
from kubewright.runtime.sessions.lending import Workloads
from kubewright.runtime.world import Environment
from kubewright.wire.gvk import Key

GATHER_SECONDS = 0.1
"""How long a machine's change waits for others: each pass looks at all machines of a check."""


def wire(environment: Environment, references: References, workloads: Workloads) -> Controller:
    """The controller of health checks, listening to everything that a decision looks at."""
    control, kind = environment.control, MACHINE_HEALTH_CHECK.resource.kind
    lookup = references.lookup_for(GROUP, kind)
    looker = Looker(control.caches, lookup, workloads, control.client.steady())
    checks = HealthChecks(environment, looker)
    controller = Controller("machinehealthcheck", checks, environment.clock, metrics=environment.metrics)

    def of_cluster(cluster: Key) -> Iterable[Key]:
        return looker.checks.keys_by(BY_CLUSTER, str(cluster))

    def of_clusters_change(change: Change[Cluster]) -> Iterable[Key]:
        return of_cluster(change.key) if _state(change.before()) != _state(change.after()) else ()

    def of_machine(change: Change[Machine]) -> Iterable[Key]:
        """The checks that watch a machine, or watched it before."""
        found = [each for each in (change.before(), change.after()) if each is not None]
        clusters = {str(cluster_of(each)) for each in found}
        checks = (check for cluster in clusters for check in looker.checks.by(BY_CLUSTER, cluster))
        return {
            Key(check.namespace, check.name)
            for check in checks
            if any(selector_of(check).matches(each.metadata.labels) for each in found)
        }

    def of_node(cluster: Key, change: Change[ClusterNode]) -> Iterable[Key]:
        before, after = change.before(), change.after()
        if before is not None and after is None:
            looker.forget_node(before)
        return of_cluster(cluster) if _states(before) != _states(after) else ()

    controller.watches(looker.checks, checks.reports.matters)
    controller.watches(looker.machines, of_machine, gather=lambda _change: GATHER_SECONDS)
    controller.watches(looker.clusters, of_clusters_change)
    controller.watches_in(workloads, CLUSTER_NODE, of_node, of_cluster)
    lookup.subscribe(controller.enqueue)
    return controller


def _state(cluster: Cluster | None) -> Any:
    """What of a Cluster its health checks look at."""
    if cluster is None:
        return None
    conditions = [(each.type, each.status) for each in cluster.status.conditions]
    return cluster.metadata.uid, cluster.spec.paused, conditions


def _states(node: ClusterNode | None) -> Any:
    """What of a Node health checks look at: not its heartbeats."""
    if node is None:
        return None
    return [(each.type, each.status, each.last_transition_time) for each in node.status.conditions]
