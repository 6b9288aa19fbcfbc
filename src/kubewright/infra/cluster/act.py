"""One KubewrightCluster, one pass: what is written, asked of the driver, and told to users.

Theory.      As with machines (``infra.machine.act``). Before machines are deleted that nothing owns, the
             server itself is asked whether their Cluster lives: our cache may be late.
Invariants.  No PUT. No step waits for a driver. A machine is deleted only in the version that was seen.
Called by    ``wiring``, ``runtime.controller``.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.api.infra.names import CLOUD_OWNER_ANNOTATION, CLUSTER_COMPONENT, CLUSTER_FINALIZER
from kubewright.api.infra.v1beta1 import (
    KUBEWRIGHT_CLUSTER,
    KUBEWRIGHT_MACHINE,
    KubewrightCluster,
    KubewrightClusterStatus,
)
from kubewright.api.kinds import Kind
from kubewright.api.meta import KubeObject
from kubewright.base.plan import Event
from kubewright.infra.caches import Shared
from kubewright.infra.cluster.decide import cluster_status, decide
from kubewright.infra.cluster.endpoints import EndpointCalls
from kubewright.infra.cluster.look import Looker, cluster_name
from kubewright.infra.cluster.seen import Plan, Seen, Step
from kubewright.infra.plan import Reported
from kubewright.infra.provision import cloud_owner
from kubewright.kube.errors import MayBeGone
from kubewright.runtime.events import ComponentRecorder
from kubewright.runtime.kernel import Effect, ObjectReconciler, Outcome
from kubewright.wire.errors import Conflict
from kubewright.wire.gvk import Key

_CLUSTER_METADATA = Kind(CLUSTER.resource, KubeObject)
"""A Cluster that cannot be read lives or not, too."""


class InfraClusters(ObjectReconciler[KubewrightCluster, Seen, Plan]):
    """The reconciler of KubewrightClusters."""

    def __init__(self, shared: Shared, looker: Looker, calls: EndpointCalls) -> None:
        recorder = ComponentRecorder(shared.recorder, CLUSTER_COMPONENT)
        super().__init__(shared.control, shared.caches.clusters, recorder, finalizer=CLUSTER_FINALIZER)
        self._machines = shared.caches.machines
        self._looker = looker
        self._wall = shared.clock
        self._calls = calls
        self._reported = Reported()

    def forget(self, key: Key, uid: str) -> None:
        """The cluster is gone for good."""
        self._calls.forget(uid)
        self._reported.forget(uid)

    async def look(self, found: KubewrightCluster) -> Seen:
        """As ``Looker.look``."""
        return self._looker.look(found)

    def decide(self, seen: Seen) -> Plan:
        """The plan, without a report that has not lasted long enough."""
        return self._reported.paced(seen.cluster.metadata.uid, decide(seen), seen.now)

    def act(self, seen: Seen, step: Step, outcome: Outcome) -> Effect:
        """What performs a step."""
        meta = seen.cluster.metadata
        match step:
            case Step.ADD_FINALIZER:
                known = {CLOUD_OWNER_ANNOTATION: cloud_owner(KUBEWRIGHT_CLUSTER, meta)}
                return self.add_finalizer(outcome, annotations=known)
            case Step.RESERVE:
                self._calls.reserve(_key(seen), meta.uid, self._looker.request(seen))
                return None
            case Step.RECORD:
                return self._record(seen, outcome)
            case Step.DELETE_MACHINES:
                return self._delete_machines(seen)
            case Step.RELEASE:
                self._calls.release(_key(seen), meta.uid, self._looker.request(seen))
                return None
            case Step.REMOVE_FINALIZER:
                return self.remove_finalizer(outcome)

    def status(self, seen: Seen, plan: Plan, outcome: Outcome) -> KubewrightClusterStatus:
        """As ``decide.cluster_status``."""
        return cluster_status(seen, plan.report, self._wall.now())

    def events(self, seen: Seen, plan: Plan, status: Any, *, written: bool) -> Iterable[Event]:
        """The event of the plan, where its report is new."""
        event = plan.tells(changed=written)
        return () if event is None else (event,)

    async def _record(self, seen: Seen, outcome: Outcome) -> None:
        assert seen.endpoint.address is not None
        host, port = seen.endpoint.address
        await self.patch(outcome, {"spec": {"controlPlaneEndpoint": {"host": host, "port": port}}})

    async def _delete_machines(self, seen: Seen) -> None:
        meta = seen.cluster.metadata
        if not await self._lives(Key(meta.namespace, cluster_name(meta, seen.owner))):
            for each in seen.unowned:
                await self._delete_machine(each)

    async def _lives(self, cluster: Key) -> bool:
        """Whether the server itself shows a Cluster that is not being deleted: our cache may be late."""
        with MayBeGone(cluster.name):
            return not (await self.client.get(_CLUSTER_METADATA, cluster)).metadata.deleting
        return False

    async def _delete_machine(self, key: Key) -> None:
        header = self._machines.header(key)
        if header is not None:
            with MayBeGone(key.name), suppress(Conflict):
                await self.client.delete(
                    KUBEWRIGHT_MACHINE, key, uid=header.uid, resource_version=str(header.version)
                )


def _key(seen: Seen) -> Key:
    return Key(seen.cluster.metadata.namespace, seen.cluster.metadata.name)
