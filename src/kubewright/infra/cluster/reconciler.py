"""One KubewrightCluster, one pass: look, decide, act. And which changes enqueue it.

Called by    ``runtime.controller``; put together by ``infra.world``.
"""

from contextlib import suppress
from typing import assert_never

from kubewright.api.cluster.names import CLUSTER_NAME_LABEL
from kubewright.api.cluster.v1beta1 import CLUSTER, Cluster, Machine
from kubewright.api.faults import summary
from kubewright.api.infra.names import CLOUD_OWNER_ANNOTATION, CLUSTER_COMPONENT, CLUSTER_FINALIZER
from kubewright.api.infra.v1beta1 import (
    KUBEWRIGHT_CLUSTER,
    KUBEWRIGHT_MACHINE,
    KubewrightCluster,
    KubewrightMachine,
)
from kubewright.api.infra.validate import validate_cluster
from kubewright.api.kinds import Kind
from kubewright.api.meta import KubeObject, ObjectMeta
from kubewright.base.clock import SteadyClock
from kubewright.driver.contract import ClassRequest
from kubewright.infra.caches import Caches, Shared, paused, refers, untold
from kubewright.infra.cluster.decide import Plan, Step, cluster_status, decide
from kubewright.infra.cluster.endpoints import EndpointCalls
from kubewright.infra.cluster.seen import Seen
from kubewright.infra.plan import Reported
from kubewright.infra.provision import class_request, cloud_owner
from kubewright.kube.errors import MayBeGone
from kubewright.kube.informer import Change
from kubewright.runtime.controller import Controller, only, status_alone
from kubewright.runtime.events import ComponentRecorder
from kubewright.runtime.passes import planned
from kubewright.runtime.refused import unless_refused
from kubewright.runtime.result import Result
from kubewright.runtime.writer import Uids, Writer
from kubewright.wire.errors import Conflict
from kubewright.wire.gvk import Key

_CLUSTER_METADATA = Kind(CLUSTER.resource, KubeObject)
"""A Cluster that cannot be read lives or not, too."""


class Looker:
    """Reads KubewrightClusters, from the caches and from what this process knows of its calls. ``clock`` is
    steady."""

    def __init__(self, shared: Shared, calls: EndpointCalls, clock: SteadyClock) -> None:
        self._caches = shared.caches
        self._driver = shared.driver
        self._calls = calls
        self._clock = clock

    def look(self, cluster: KubewrightCluster) -> Seen:
        """Everything that the decision reads."""
        meta, owner = cluster.metadata, self._caches.cluster_of(cluster)
        _, missing = self._caches.credentials(meta.namespace, cluster.spec.credentials_ref)
        name = _cluster_name(meta, owner)
        named = self._caches.cluster_named(meta.namespace, name)
        machines = self._caches.machines_in(Key(meta.namespace, name)) if name else ()
        untellable = untold(self._caches.clusters, Key(meta.namespace, meta.name))
        broken = "" if meta.deleting else summary(validate_cluster(cluster))  # to give back is always right
        wrong = untellable or broken or self._driver.problem(cluster.spec.driver)
        original = self._caches.original_of_cluster(cluster, named)
        return Seen(
            cluster,
            self._clock.now(),
            owner=owner,
            lives=named is not None and not named.metadata.deleting,
            paused=paused(meta, owner),
            machines=machines,
            unowned=self._caches.unowned(machines) if meta.deleting else (),
            original=original.name if original is not None else "",
            problem=wrong or missing,
            offers_endpoints=self._driver.offers_endpoints(cluster.spec.driver),
            endpoint=self._calls.seen(meta.uid),
        )

    def request(self, seen: Seen) -> ClassRequest:
        """What a driver is told in a call about the endpoint of a cluster."""
        spec, meta = seen.cluster.spec, seen.cluster.metadata
        credentials, _ = self._caches.credentials(meta.namespace, spec.credentials_ref)
        known = cloud_owner(KUBEWRIGHT_CLUSTER, meta)
        return class_request(spec, meta.namespace, _cluster_name(meta, seen.owner), known, credentials)


class InfraClusters:
    """The reconciler of KubewrightClusters."""

    def __init__(self, shared: Shared, calls: EndpointCalls, clock: SteadyClock) -> None:
        self._caches = shared.caches
        self._control = shared.control
        self._writer = Writer(shared.control, KUBEWRIGHT_CLUSTER, CLUSTER_FINALIZER)
        self._looker = Looker(shared, calls, clock)
        self._wall = shared.clock
        self._recorder = ComponentRecorder(shared.recorder, CLUSTER_COMPONENT)
        self._calls = calls
        self._reported = Reported()
        self._uids = Uids(self._forget)

    async def reconcile(self, key: Key) -> Result:
        """One pass.

        Raises:
            ApiError, TransportError: the API server said no for now, or could not be asked.
        """
        cluster = self._caches.clusters.get(key)
        self._uids.note(key, cluster.metadata.uid if cluster is not None else "")
        if cluster is None:
            return Result.done()
        seen = self._looker.look(cluster)
        request = self._looker.request(seen)
        plan = self._reported.paced(cluster.metadata.uid, decide(seen), seen.now)
        planned(plan)
        return await unless_refused(self._perform(seen, plan, request), cluster, self._recorder)

    def _forget(self, uid: str) -> None:
        """An object is gone for good."""
        self._calls.forget(uid)
        self._reported.forget(uid)

    async def _perform(self, seen: Seen, plan: Plan, request: ClassRequest) -> Result:
        latest = seen.cluster.metadata
        for step in plan.steps:
            latest = await self._step(seen, step, latest, request)
        changed = False
        if Step.REMOVE_FINALIZER not in plan.steps:
            after = cluster_status(seen, plan.report, self._wall.now())
            changed = await self._writer.report(latest, seen.cluster.status, after)
        if (event := plan.tells(changed=changed)) is not None:
            self._recorder.event(seen.cluster, event.reason, event.message, warning=event.warning)
        return Result.later(plan.wake)

    async def _step(self, seen: Seen, step: Step, meta: ObjectMeta, request: ClassRequest) -> ObjectMeta:
        key = Key(meta.namespace, meta.name)
        match step:
            case Step.ADD_FINALIZER:
                known = {CLOUD_OWNER_ANNOTATION: cloud_owner(KUBEWRIGHT_CLUSTER, meta)}
                return await self._writer.add_finalizer(meta, annotations=known)
            case Step.RESERVE:
                self._calls.reserve(key, meta.uid, request)
            case Step.RECORD:
                assert seen.endpoint.address is not None
                host, port = seen.endpoint.address
                endpoint = {"host": host, "port": port}
                return await self._writer.patch(meta, {"spec": {"controlPlaneEndpoint": endpoint}})
            case Step.DELETE_MACHINES:
                if not await self._lives(Key(key.namespace, _cluster_name(meta, seen.owner))):
                    for each in seen.unowned:
                        await self._delete_machine(each)
            case Step.RELEASE:
                self._calls.release(key, meta.uid, request)
            case Step.REMOVE_FINALIZER:
                return await self._writer.remove_finalizer(meta)
            case _:
                assert_never(step)
        return meta

    async def _lives(self, cluster: Key) -> bool:
        """Whether the server itself shows a Cluster that is not being deleted: our cache may be late."""
        with MayBeGone(cluster.name):
            return not (await self._control.get(_CLUSTER_METADATA, cluster)).metadata.deleting
        return False

    async def _delete_machine(self, key: Key) -> None:
        header = self._caches.machines.header(key)
        if header is not None:
            with MayBeGone(key.name), suppress(Conflict):
                await self._control.delete(
                    KUBEWRIGHT_MACHINE, key, uid=header.uid, resource_version=str(header.version)
                )


def _cluster_name(meta: ObjectMeta, owner: Cluster | None) -> str:
    """The Cluster that a KubewrightCluster is of: its owner, or where there is none what its label says."""
    return owner.name if owner is not None else meta.labels.get(CLUSTER_NAME_LABEL, "")


def wire(shared: Shared) -> tuple[Controller, EndpointCalls]:
    """The controller, listening to everything that a decision looks at; and the calls, to be run."""
    caches, steady = shared.caches, shared.control.steady()
    calls = EndpointCalls(shared.driver, steady, lambda key: controller.enqueue(key, "the cloud answered"))
    controller = Controller(
        "kubewrightcluster",
        InfraClusters(shared, calls, steady),
        shared.clock,
        workers=shared.settings.workers,
        metrics=shared.metrics,
    )
    controller.watches(caches.clusters, only(lambda change: not status_alone(change)))
    controller.watches(
        caches.core_clusters, only(_owner_differs, lambda change: _clusters_of_owner(caches, change))
    )
    controller.watches(
        caches.core_machines,  # the end of one that names a machine which nothing owns
        only(lambda change: change.after() is None, lambda change: _cluster_of_machine(caches, change)),
    )
    controller.watches(caches.machines, lambda change: _cluster_of_machine(caches, change))
    controller.watches(caches.secrets, lambda change: caches.clusters.keys_by("credentials", str(change.key)))
    return controller, calls


def _owner_differs(change: Change[Cluster]) -> bool:
    """Whether something of a Cluster changed that its infrastructure depends on."""
    before, after = change.before(), change.after()
    if before is None or after is None:
        return True
    return (before.spec, before.metadata.deleting) != (after.spec, after.metadata.deleting)


def _clusters_of_owner(caches: Caches, change: Change[Cluster]) -> list[Key]:
    """The KubewrightClusters that a Cluster refers to, or referred to before the change, or whose label
    names it."""
    sides = (change.before(), change.after())
    refs = [each.spec.infrastructure_ref for each in sides if each is not None]
    ours = [ref.name for ref in refs if ref is not None and refers(ref, KUBEWRIGHT_CLUSTER)]
    referred = [Key(change.key.namespace, name) for name in ours]
    return list(dict.fromkeys((*referred, *caches.clusters_in(change.key))))


def _cluster_of_machine(
    caches: Caches, change: Change[KubewrightMachine] | Change[Machine]
) -> tuple[Key, ...]:
    """When a machine is gone or has lost its owners, the KubewrightCluster whose deletion may wait for it."""
    before, after = change.before(), change.after()
    last = after or before
    if last is None or (after is not None and after.metadata.owner_references):
        return ()
    name = last.metadata.labels.get(CLUSTER_NAME_LABEL, "")
    return caches.clusters_in(Key(change.key.namespace, name)) if name else ()
