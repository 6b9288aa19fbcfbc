"""Read everything that a decision about one Machine looks at, into one value.

Theory.      All of it is in caches, of the management cluster and of the machine's own, but for three things:
             the pods of a Node that is being drained, its volume attachments, and drain rules. Caches of the
             first two would cost more memory than everything else, in each of thousands of clusters; and the
             kind of the last may not be installed. They are listed only in the stage that needs them.
Calls.       A server that accepts connections and does not answer would occupy each worker that calls it
             until the call's deadline, and soon all workers. So a call ends after ``CALL_SECONDS``; a cluster
             gets ``CALLS_PER_CLUSTER`` calls at a time; and while one of them takes longer than
             ``SLOW_SECONDS``, no other pass calls that cluster. Evictions are not among them (``act``).
Invariants.  A Node is cordoned before its pods are listed. What a process remembers of a Machine (its drain,
             when things began) costs requests or time when it is lost, never safety. ``ClusterBusy`` says
             that nothing was sent; its retry class says when to try again.
Called by    ``wiring``; ``act`` for its calls.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import ConditionType, Reason
from kubewright.api.cluster.v1beta1 import (
    CLUSTER,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_DRAIN_RULE,
    MACHINE_SET,
    Machine,
    MachineSet,
)
from kubewright.api.cluster.validate import default_set
from kubewright.api.conditions import find_true_condition
from kubewright.api.core import NAMESPACE
from kubewright.api.meta import Object
from kubewright.api.storage import VOLUME_ATTACHMENT
from kubewright.base.clock import Clock
from kubewright.base.delays import BEHIND, SHORT
from kubewright.base.errors import KubewrightError, Retry
from kubewright.base.witness import Witness
from kubewright.clusters.external.object import External, look_up
from kubewright.clusters.indexes import (
    BY_CLUSTER,
    BY_CONTROL_PLANE,
    index_active_control_planes,
    index_by_cluster,
)
from kubewright.clusters.machine import deletion
from kubewright.clusters.machine.deletion import NO_RULES, DrainRules, rules_for
from kubewright.clusters.machine.seen import DeletionState, Seen, Workload
from kubewright.clusters.node import BY_PROVIDER_ID, CLUSTER_NODE, ClusterNode
from kubewright.clusters.owned import cluster_of
from kubewright.kube.client import Client
from kubewright.kube.errors import TimedOut
from kubewright.kube.informer import Informers
from kubewright.nodes.drain.session import DrainSession
from kubewright.replicas.objects import read_selector
from kubewright.runtime.references.registry import ControllerLookup
from kubewright.runtime.sessions.lending import Workloads
from kubewright.runtime.sessions.session import NotConnected
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

CALL_SECONDS = 10.0
"""How long the calls of one pass to a workload cluster may take."""

SLOW_SECONDS = 1.0
"""A call that has taken longer keeps others from the same cluster."""


CALLS_PER_CLUSTER = 10
"""Passes that may call one cluster at the same time: a fifth of the workers."""


class ClusterBusy(KubewrightError):
    """Calls of other passes to the same cluster are under way, too slow or too many."""

    def __init__(self, message: str, retry: Retry) -> None:
        super().__init__(message)
        self.retry = retry


class WorkloadCalls:
    """The calls that are under way, by cluster; one for all workers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun: dict[Key, dict[object, float]] = {}

    @asynccontextmanager
    async def to(self, cluster: Key) -> AsyncIterator[None]:
        """A context in which one pass calls a cluster.

        Raises:
            ClusterBusy: another pass waits for an answer already, or ``CALLS_PER_CLUSTER`` passes call it.
            TimedOut: it did not answer in time.
        """
        now, begun, me = self._clock.monotonic(), self._begun.setdefault(cluster, {}), object()
        if any(now - since > SLOW_SECONDS for since in begun.values()):
            raise ClusterBusy(f"cluster {cluster} is slow to answer, and another pass waits for it", SHORT)
        if len(begun) >= CALLS_PER_CLUSTER:
            raise ClusterBusy(
                f"cluster {cluster} is being called by {CALLS_PER_CLUSTER} passes already", BEHIND
            )
        begun[me] = now
        try:
            async with asyncio.timeout(CALL_SECONDS):
                yield
        except TimeoutError:
            raise TimedOut(f"cluster {cluster} did not answer within {CALL_SECONDS:g} s") from None
        finally:
            del begun[me]
            if not begun:
                self._begun.pop(cluster, None)


MACHINES_BY_PROVIDER_ID = "machines-with-provider-id"
BY_SET, BY_DEPLOYMENT = "machines-of-set", "machines-of-deployment"

LATEST = datetime.max.replace(tzinfo=UTC)


class Caches:
    """The informers, and questions about the machines in them."""

    def __init__(self, informers: Informers) -> None:
        self.machines = informers.get(MACHINE)
        self.clusters = informers.get(CLUSTER)
        self.sets = informers.get(MACHINE_SET)
        self.deployments = informers.get(MACHINE_DEPLOYMENT)
        index_by_cluster(self.machines)
        index_by_cluster(self.sets)
        self.machines.index(MACHINES_BY_PROVIDER_ID, _provider_ids)
        index_active_control_planes(self.machines)
        self.machines.index(BY_SET, _sets)
        self.machines.index(BY_DEPLOYMENT, _deployments)

    def of_cluster(self, cluster: Key) -> Iterable[Key]:
        """The machines of a cluster."""
        return self.machines.keys_by(BY_CLUSTER, str(cluster))

    def with_provider_id(self, cluster: Key, provider_id: str) -> Iterable[Key]:
        """The machines of a cluster with this providerID."""
        return self.machines.keys_by(MACHINES_BY_PROVIDER_ID, f"{cluster} {provider_id}")

    def active_control_plane_machines(self, cluster: Key) -> int:
        """How many machines of a cluster's control plane are not being deleted."""
        return self.machines.count_by(BY_CONTROL_PLANE, str(cluster))

    def provider_id_taken_by(self, machine: Machine) -> str:
        """Another machine that has this one's providerID and precedence: the one that has a Node, else the
        oldest. Empty: this machine is the only one, or has precedence."""
        if not machine.spec.provider_id:
            return ""
        same = self.machines.by(MACHINES_BY_PROVIDER_ID, f"{cluster_of(machine)} {machine.spec.provider_id}")
        first = min(same, key=_precedence, default=machine)
        return "" if first.name == machine.name else first.name

    def has_maker(self, machine: Machine) -> bool:
        """Whether what made a machine without a controller, by its label, is there and will adopt it.

        Of a set that is known: it must select the machine. A control plane and a pool are other programs'.
        """
        meta, cluster = machine.metadata, self.clusters.get(cluster_of(machine))
        if meta.controller is not None:
            return True
        if names.CONTROL_PLANE_NAME_LABEL in meta.labels:
            return cluster is not None and cluster.spec.control_plane_ref is not None
        if names.POOL_NAME_LABEL in meta.labels:
            return True
        name = meta.labels.get(names.SET_NAME_LABEL)
        sets = self.sets.by(BY_CLUSTER, str(cluster_of(machine))) if name else []
        return any(names.label_value(each.name) == name and _adopts(each, machine) for each in sets)

    def outdated(self, machine: Machine) -> bool:
        """A rollout of the machine's deployment is going to replace it: its set has an older revision."""
        meta, owner = machine.metadata, machine.metadata.controller
        name = meta.labels.get(names.DEPLOYMENT_NAME_LABEL)
        if not name or owner is None:
            return False
        members = self.sets.get(Key(meta.namespace, owner.name))
        deployment = self.deployments.get(Key(meta.namespace, name))
        if members is None or deployment is None:
            return False
        mine, wanted = revision(members), revision(deployment)
        return mine is not None and wanted is not None and mine < wanted


def revision(found: Object) -> int | None:
    """The revision of a set or a deployment; None where none can be read."""
    told = found.metadata.annotations.get(names.REVISION_ANNOTATION, "")
    return int(told) if told.isascii() and told.isdigit() else None


def _adopts(machine_set: MachineSet, machine: Machine) -> bool:
    selector, _ = read_selector(default_set(machine_set).spec.selector)
    return not machine_set.metadata.deleting and selector.matches(machine.metadata.labels)


def _precedence(machine: Machine) -> tuple[bool, datetime, str]:
    created = machine.metadata.creation_timestamp
    return machine.status.node_ref is None, created or LATEST, machine.name


def _provider_ids(machine: Machine) -> Iterator[str]:
    if machine.spec.provider_id:
        yield f"{cluster_of(machine)} {machine.spec.provider_id}"


def _sets(machine: Machine) -> Iterator[str]:
    if (owner := machine.metadata.controller) is not None:
        yield str(Key(machine.metadata.namespace, owner.name))


def _deployments(machine: Machine) -> Iterator[str]:
    if name := machine.metadata.labels.get(names.DEPLOYMENT_NAME_LABEL):
        yield str(Key(machine.metadata.namespace, name))


TIMED_PARTS = ("deleted", "drain", "detach")
"""The parts of a deletion that have a time-out."""


@dataclass(slots=True)
class Notes:
    """What a process remembers of a Machine that is being deleted; of its Node as in ``DeletionState``."""

    drain: DrainSession = field(default_factory=DrainSession)
    node_error: str = ""
    node_error_since: datetime | None = None


class Looker:
    """Looks at Machines."""

    def __init__(
        self,
        client: Client,
        caches: Caches,
        references: ControllerLookup,
        workloads: Workloads,
        calls: WorkloadCalls,
        *,
        strict_running: bool = False,
    ) -> None:
        self._control = client
        self._strict_running = strict_running
        self._clock = client.clock
        self._steady = client.steady()
        self._caches = caches
        self._references = references
        self._workloads = workloads
        self._calls = calls
        self._witness = Witness(self._steady.now)
        self._notes: dict[str, Notes] = {}
        self._uids: dict[Key, str] = {}

    async def look(self, machine: Machine) -> Seen:
        """What there is; what cannot be read from the machine's own cluster is named in the result.

        Raises:
            ClusterBusy: another pass waits for an answer of that cluster.
        """
        seen = self.look_in_caches(machine)
        if not machine.metadata.deleting:
            return seen
        return await self._with_certainty(await self._with_pods_and_volumes(seen))

    def look_in_caches(self, machine: Machine, before: Seen | None = None) -> Seen:
        """What the caches show; what ``look`` asks servers for is taken from ``before``."""
        key, spec = Key(machine.metadata.namespace, machine.metadata.name), machine.spec
        self._remember(key, machine.metadata.uid)
        config = spec.bootstrap.config_ref
        seen = Seen(
            machine,
            self._steady.now(),
            self._clock.now(),
            look_up(self._references, key, spec.infrastructure_ref),
            cluster=self._caches.clusters.get(cluster_of(machine)),
            bootstrap=None if config is None else look_up(self._references, key, config),
            workload=self._workload(machine),
            has_maker=self._caches.has_maker(machine),
            outdated=self._caches.outdated(machine),
            strict_running=self._strict_running,
        )
        if before is None:
            return replace(seen, deletion=self._deletion_state(seen, DeletionState()))
        return replace(
            seen,
            infrastructure=as_certain(seen.infrastructure, before.infrastructure),
            bootstrap=None if seen.bootstrap is None else as_certain(seen.bootstrap, before.bootstrap),
            deletion=self._deletion_state(seen, before.deletion),
        )

    def notes(self, uid: str) -> Notes:
        """What is remembered of a Machine that is being deleted."""
        return self._notes.setdefault(uid, Notes())

    def forget(self, key: Key) -> None:
        """There is no such Machine any more."""
        self._references.forget(key)
        if uid := self._uids.pop(key, ""):
            self._notes.pop(uid, None)
            for each in TIMED_PARTS:
                self._witness.forget(f"{uid} {each}")

    def _remember(self, key: Key, uid: str) -> None:
        if self._uids.get(key, uid) != uid:
            self.forget(key)
        self._uids[key] = uid

    def _workload(self, machine: Machine) -> Workload:
        """What the caches of the machine's cluster show."""
        wanted, ref = machine.spec.provider_id, machine.status.node_ref
        cluster = cluster_of(machine)
        if not wanted and ref is None:
            return Workload()
        try:
            nodes = self._workloads.get(cluster).informer(CLUSTER_NODE)
        except NotConnected as error:
            return Workload(unreachable=str(error), unreachable_for=self._unreachable_for(cluster))
        found = nodes.by(BY_PROVIDER_ID, wanted) if wanted else []
        named = nodes.get(Key("", ref.name)) if ref is not None else None
        if machine.metadata.deleting and named is not None and (named in found or not found):
            found = [named] if not named.spec.provider_id or named.spec.provider_id == wanted else []
        return Workload(nodes=tuple(found), taken_by=self._caches.provider_id_taken_by(machine))

    def _unreachable_for(self, cluster: Key) -> timedelta:
        """How long a cluster has been unreachable; for ever, where none was ever asked for."""
        health = self._workloads.health(cluster)
        if health is None:
            return timedelta.max
        return timedelta(seconds=self._clock.monotonic() - health.since)

    def _deletion_state(self, seen: Seen, before: DeletionState) -> DeletionState:
        meta, status = seen.machine.metadata, seen.machine.status
        began = {}
        for each, kind in zip(
            TIMED_PARTS[1:],
            (ConditionType.PRE_DRAIN_HOOK_SUCCEEDED, ConditionType.DRAINING_SUCCEEDED),
            strict=True,
        ):
            condition = find_true_condition(status.conditions, kind) if meta.deleting else None
            dated = condition.last_transition_time if condition is not None else None
            began[each] = self._witness.since(f"{meta.uid} {each}", dated)
        deleted = self._witness.since(f"{meta.uid} deleted", meta.deletion_timestamp)
        if not meta.deleting:
            return DeletionState()
        ref = seen.cluster.spec.control_plane_ref if seen.cluster is not None else None
        key, notes = Key(meta.namespace, meta.name), self.notes(meta.uid)
        control_plane: External | None = look_up(self._references, key, ref) if ref is not None else None
        return replace(
            before,
            control_plane=control_plane,
            active_control_planes=self._caches.active_control_plane_machines(seen.cluster_key),
            node_error=notes.node_error,
            node_error_since=notes.node_error_since,
            deleted_at=deleted,
            drain_since=began["drain"],
            detach_since=began["detach"],
        )

    async def _with_pods_and_volumes(self, seen: Seen) -> Seen:
        """What was seen, with pods and volumes of the Node in the stages that wait for these."""
        if names.MACHINE_FINALIZER not in seen.machine.metadata.finalizers or seen.workload.unreachable:
            return seen
        try:
            client = self._workloads.get(seen.cluster_key).client
            async with self._calls.to(seen.cluster_key):
                for node in seen.workload.nodes:
                    seen = await self._with_pods(seen, node, client)
                    seen = await self._with_volumes(seen, node, client)
        except ClusterBusy:
            raise
        except KubewrightError as error:
            message = f"of cluster {seen.cluster_key} pods, volumes or drain rules are not known: {error}"
            return replace(seen, deletion=replace(seen.deletion, unread=message))
        return seen

    async def _with_certainty(self, seen: Seen) -> Seen:
        """What was seen; in the stages that wait for objects of providers, it is asked whether there can be
        any where none is found."""
        if deletion.stage(seen).reason is Reason.WAITING_FOR_INFRASTRUCTURE_DELETION:
            seen = replace(seen, infrastructure=await self._certain(seen.infrastructure))
        if (
            deletion.stage(seen).reason is Reason.WAITING_FOR_BOOTSTRAP_DELETION
            and seen.bootstrap is not None
        ):
            seen = replace(seen, bootstrap=await self._certain(seen.bootstrap))
        return seen

    async def _certain(self, external: External) -> External:
        if not external.uncertain:
            return external
        ref = external.ref
        return external.if_served(served=await self._references.is_served(ref.group, ref.kind))

    async def _with_pods(self, seen: Seen, node: ClusterNode, client: Client) -> Seen:
        if deletion.stage(seen).reason is not Reason.DRAINING_NODE or not node.spec.unschedulable:
            return seen
        rules = await self._rules(seen, client)
        plan = await self.notes(seen.machine.metadata.uid).drain.look(
            client,
            node.name,
            deletion.drain_policy(seen, node, rules),
            now=seen.now,
            started=seen.deletion.drain_since or seen.now,
            conditions=node.status.conditions,
        )
        return replace(seen, deletion=replace(seen.deletion, drain=plan))

    async def _rules(self, seen: Seen, client: Client) -> DrainRules:
        """What MachineDrainRules say, listed anew as pods are; none where their kind is certainly not there:
        else a pod would be evicted that a rule keeps."""
        resource = MACHINE_DRAIN_RULE.resource
        try:
            found = await self._control.list(MACHINE_DRAIN_RULE, seen.machine.metadata.namespace)
        except NotFound:
            if await self._references.is_served(resource.group, resource.kind):
                raise
            return NO_RULES
        rules = rules_for(seen.machine, seen.cluster, found)
        if not rules.by_namespace:
            return rules
        namespaces = {each.name: each.metadata.labels for each in await client.list(NAMESPACE)}
        return replace(rules, namespaces=namespaces)

    async def _with_volumes(self, seen: Seen, node: ClusterNode, client: Client) -> Seen:
        """The volumes that the Node names; where it names none, those of attachments."""
        attached = tuple(each.name for each in node.status.volumes_attached)
        # with a volume that may be attached: is this the stage, if there are any?
        probe = replace(seen, deletion=replace(seen.deletion, volumes=attached or ("unknown",)))
        if deletion.stage(probe).reason is not Reason.WAITING_FOR_VOLUME_DETACH:
            return seen
        if not attached:
            listed = await client.list(VOLUME_ATTACHMENT)
            attached = tuple(sorted(each.name for each in listed if each.spec.node_name == node.name))
        return replace(seen, deletion=replace(seen.deletion, volumes=attached))


def as_certain(now: External, before: External | None) -> External:
    """What is found now, with what was certain before: that there can be no such object."""
    if now.found is not None or now.transient or before is None or not before.gone:
        return now
    return replace(now, gone=True)
