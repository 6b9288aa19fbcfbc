"""One Machine, one pass: look, decide, act, report. And what wakes a Machine.

Theory.      A Machine is looked at when it changes, when an object of a provider that it refers to does in
             what the contract names (``external.object``), when its Node does, when its cluster is
             connected or lost, when its Cluster is paused or deleted, and when a rollout gives
             its deployment another revision. Nothing else of sets and deployments wakes it: upstream's
             machines are woken by every status of theirs, and that is most of what a rollout costs there. The
             status is of a second look, after the steps, if there are any: caches show our own writes.
Invariants.  No pass waits for a pod, a provider or a cluster that does not answer. A state that only lasts
             until the next pass is not written.
Called by    ``runtime.controller``; put together by ``clusters.world``.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from kubewright.api.cluster.conditions import MACHINE_COMPONENT, EventReason
from kubewright.api.cluster.names import MACHINE_FINALIZER
from kubewright.api.cluster.v1beta1 import GROUP, MACHINE, Cluster
from kubewright.base.plan import Plan
from kubewright.clusters import paces
from kubewright.clusters.external.object import same_for_machine
from kubewright.clusters.machine.act import Actor, Outcome, WorkloadRemovals
from kubewright.clusters.machine.decide import decide
from kubewright.clusters.machine.look import BY_DEPLOYMENT, BY_SET, Caches, Looker, WorkloadCalls, revision
from kubewright.clusters.machine.seen import Seen, Step
from kubewright.clusters.machine.status import events_of, status_of
from kubewright.clusters.node import CLUSTER_NODE, ClusterNode
from kubewright.kube.informer import Change
from kubewright.nodes.health import conditions_differ
from kubewright.runtime.controller import Controller, alike
from kubewright.runtime.passes import idle, planned
from kubewright.runtime.references.registry import References
from kubewright.runtime.reports import Reports
from kubewright.runtime.result import Result
from kubewright.runtime.sessions.lending import Workloads
from kubewright.runtime.world import Environment
from kubewright.wire.gvk import Key

PAUSED, UNREAD = "the machine or its cluster is paused", "objects that it refers to are not read yet"
"""Why a pass makes no plan."""

WORKERS = 50
"""Passes at one time. Each waits for a few writes and no more, and those of a cluster that hangs are held
back (``look.WorkloadCalls``); upstream has 50 to 100 by now."""


class Machines:
    """The reconciler of Machines."""

    def __init__(self, environment: Environment, caches: Caches, looker: Looker, actor: Actor) -> None:
        self._machines = caches.machines
        self._looker = looker
        self._actor = actor
        self._recorder = environment.recorder.of(MACHINE_COMPONENT)
        client = environment.control.client
        self.reports = Reports(client, MACHINE, self._recorder, paces.MACHINES)

    async def reconcile(self, key: Key) -> Result:
        """One pass.

        Raises:
            ApiError, TransportError: a server said no, or could not be asked.
        """
        machine = self._machines.get(key)
        if machine is None:
            self._looker.forget(key)
            self.reports.forget(key)
            return Result.done()
        seen = await self._looker.look(machine)
        ours = MACHINE_FINALIZER in machine.metadata.finalizers
        if seen.paused or (seen.incomplete and (ours or machine.metadata.deleting)):
            idle(PAUSED if seen.paused else UNREAD)
            return Result.done()
        plan = decide(seen)
        planned(plan)
        outcome = await self._actor.perform(seen, plan)
        if outcome.gone:
            self._recorder.event(machine, EventReason.DELETED, f"Machine {machine.name} has been deleted")
            return Result.done()
        if plan.ends_the_pass and not outcome.errors:
            return Result.later(plan.wake)
        result = Result.later(plan.wake).sooner(await self._report(key, seen, plan, outcome))
        return result.unless(outcome.errors)

    async def _report(self, key: Key, before: Seen, plan: Plan[Step], outcome: Outcome) -> Result:
        """Write the status, and send the events that go with it; returns when to look again."""
        machine = self._machines.get(key)
        if machine is None or machine.metadata.uid != before.machine.metadata.uid:
            return Result.done()
        seen = before
        if plan.steps or machine is not before.machine:
            seen = replace(self._looker.look_in_caches(machine, before), failed=outcome.failed)
        if seen.incomplete:
            return Result.done()
        status = status_of(seen)
        written, again = await self.reports.write(
            machine.metadata, machine.status, status, urgent=bool(outcome.errors)
        )
        for event in events_of(machine, status) if written else ():
            self._recorder.event(machine, event.reason, event.message, warning=event.warning)
        return again


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
    actor = Actor(client, workloads, calls, looker, removals=removals, wake=wake)
    machines = Machines(environment, caches, looker, actor)
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
