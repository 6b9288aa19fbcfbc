"""X"""

from collections.abc import Iterable
from typing import Any

from kubewright.api.cluster.conditions import INFO, MACHINE_HEALTH_CHECK_COMPONENT, EventReason
from kubewright.api.cluster.v1beta1 import GROUP, MACHINE_HEALTH_CHECK, Cluster, Machine
from kubewright.api.cluster.validate import validate_health_check
from kubewright.api.faults import summary
from kubewright.clusters import owned
from kubewright.clusters.healthcheck.act import Actor
from kubewright.clusters.healthcheck.decide import Judged, decide, status_of, status_of_invalid
from kubewright.clusters.healthcheck.look import Looker, selector_of
from kubewright.clusters.indexes import BY_CLUSTER
from kubewright.clusters.node import CLUSTER_NODE, ClusterNode
from kubewright.clusters.owned import cluster_of
from kubewright.kube.informer import Change
from kubewright.replicas.objects import INVALID
from kubewright.runtime.controller import Controller
from kubewright.runtime.passes import idle, planned
from kubewright.runtime.references.registry import References
from kubewright.runtime.reports import Reports
from kubewright.runtime.result import Result
from kubewright.runtime.sessions.lending import Workloads
from kubewright.runtime.world import Environment
from kubewright.wire.gvk import Key

GATHER_SECONDS = 0.1
"""How long a machine's change waits for others: each pass looks at all machines of a check."""


class HealthChecks:
    """The reconciler of MachineHealthChecks."""

    def __init__(self, environment: Environment, looker: Looker) -> None:
        client = environment.control.client
        self._looker = looker
        recorder = environment.recorder.of(MACHINE_HEALTH_CHECK_COMPONENT)
        self._actor = Actor(client, recorder)
        self.reports = Reports(client, MACHINE_HEALTH_CHECK, recorder)
        self._recorder = recorder
        self._waiting: dict[Key, frozenset[str]] = {}
        """The machines of a check whose Nodes are in a bad state, as events have told."""

    async def reconcile(self, key: Key) -> Result:
        """One pass.

        Raises:
            ApiError, TransportError: the server said no, or could not be asked.
        """
        found = self._looker.checks.get(key)
        if found is None:
            self._looker.forget(key)
            self.reports.forget(key)
            self._waiting.pop(key, None)
            return Result.done()
        seen = self._looker.look(found)
        if found.metadata.deleting or owned.paused_because(found, seen.cluster):
            return Result.done()
        if problem := summary(validate_health_check(seen.check)):
            self.reports.report_problem(found, INVALID, problem)
            idle(f"the health check is not valid: {problem}")
            _, again = await self.reports.write(
                found.metadata, found.status, status_of_invalid(seen, problem)
            )
            return again
        self._send_events(key, Judged(seen))
        plan = decide(seen)
        planned(plan)
        outcome = await self._actor.perform(seen, plan)
        result = Result.later(plan.wake).sooner(await self._report(key, outcome.failed))
        return result.unless(outcome.errors)

    def _send_events(self, key: Key, judged: Judged) -> None:
        """Send an event about each machine whose Node is in an unhealthy condition since the last pass."""
        waiting = judged.waiting
        told = self._waiting.get(key, frozenset())
        self._waiting[key] = frozenset(each.metadata.uid for each in waiting)
        for machine in waiting:
            if machine.metadata.uid not in told:
                message = f"Machine {machine.name} has an unhealthy Node"
                self._recorder.event(machine, EventReason.DETECTED_UNHEALTHY, message)

    async def _report(self, key: Key, failed: dict[str, str]) -> Result:
        """Write the status, and send an event when nothing may be replaced; returns when to look again."""
        found = self._looker.checks.get(key)
        if found is None:
            return Result.done()
        seen = self._looker.look(found)
        allowed = Judged(seen).allowance
        warned = allowed.refusal if allowed.severity != INFO else ""
        self.reports.report_problem(found, EventReason.REMEDIATION_RESTRICTED, warned)
        _, again = await self.reports.write(found.metadata, found.status, status_of(seen, failed))
        return again


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
