"""One pass over the VMs of one cluster: those that nothing has wanted for long enough are deleted.

Theory.      A cluster's VMs may be in several clouds and accounts: a list is asked for with all that its
             machines and their templates tell drivers. A cluster is looked at after a start, after a
             pause, when a machine is gone that may have left a VM, and every ``period``. Reasons that come
             before the look are gathered into it.
Invariants.  A driver that cannot list is no reason not to ask the others. Before a driver is asked to delete
             a VM the *server* has said that its cluster is not paused and that there is no such machine; the
             call may then wait for its slot (``driver.guard``). A 404 that does not name the machine says
             nothing, for that is the answer, too, while the kind is not served. At rest a pass costs a call
             for each list, and no request to a server.
Called by    ``runtime.controller``, with the key of a KubewrightCluster; put together by ``infra.world``.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

import structlog

from kubewright.api.cluster.names import CLUSTER_NAME_LABEL, DELETE_FOR_MOVE_ANNOTATION
from kubewright.api.cluster.v1beta1 import CLUSTER, Cluster
from kubewright.api.infra.names import CLUSTER_COMPONENT, EventReason
from kubewright.api.infra.v1beta1 import (
    KUBEWRIGHT_CLUSTER,
    KUBEWRIGHT_MACHINE,
    KubewrightCluster,
    KubewrightMachine,
    Provision,
)
from kubewright.base.errors import KubewrightError
from kubewright.driver.contract import ClassRequest, Instance
from kubewright.driver.errors import Unimplemented
from kubewright.driver.life.calls import VmCalls
from kubewright.driver.life.orphans import may_leave_a_vm
from kubewright.infra.caches import Caches, Shared, owner_key
from kubewright.infra.orphans.decide import ListedVm, why_kept_by_cache, why_kept_by_server, why_not_judged
from kubewright.infra.provision import class_request, cloud_owner, domain_of, effective
from kubewright.kube.informer import Change
from kubewright.orphans import Collector, Deletion, Suspects, from_server
from kubewright.orphans import controller as listing
from kubewright.orphans import listed as listed_by
from kubewright.runtime.controller import Controller, spec_or_existence
from kubewright.runtime.events import ComponentRecorder
from kubewright.runtime.result import Result
from kubewright.wire import errors
from kubewright.wire.gvk import Key

log = structlog.get_logger(__name__)


class OrphanVms:
    """The reconciler of KubewrightClusters, as far as VMs without machines are concerned."""

    def __init__(self, shared: Shared, calls: VmCalls) -> None:
        self._shared = shared
        self._caches = shared.caches
        self._settings = shared.settings.orphans
        self._calls = calls
        self._suspects = Suspects(self._settings, shared.clock)
        self._collector = Collector(ClusterPolicy(shared), shared.driver, self._suspects)
        self._moved: dict[Key, set[str]] = {}

    async def reconcile(self, key: Key) -> Result:
        """One pass.

        Raises:
            NotListed: a cloud did not answer with a list.
        """
        cluster = self._caches.clusters.get(key)
        owner = self._caches.cluster_of(cluster) if cluster is not None else None
        if cluster is None:
            self._moved.pop(key, None)
        if cluster is None or owner is None or why_not_judged(cluster, owner):
            self._suspects.forget(key)  # after a pause nothing is suspected yet
            return Result.done()
        began = self._shared.clock.monotonic()
        listed = await self._listed(cluster, owner)
        unwanted = [vm for vm, _ in listed.values() if not why_kept_by_cache(cluster, self._seen(key, vm))]
        noted = self._suspects.note(key, unwanted, began=began)
        if noted.new:
            log.info("VMs of a cluster without a machine", cluster=str(key), vms=noted.new)

        wake = await self._collector.collect(
            key, noted, lambda vm: Target(cluster, listed[vm.provider_id][1])
        )
        return Result.later(self._settings.period).sooner(Result.later(wake))

    def note_deleted(self, key: Key, gone: KubewrightMachine, now: datetime) -> bool:
        """Note that a machine of this cluster is gone; whether it may have left a VM. The VM of one that
        clusterctl has moved is not ours, even if its Cluster is resumed here. ``now`` is of a steady clock.
        """
        if DELETE_FOR_MOVE_ANNOTATION in gone.metadata.annotations:
            self._moved.setdefault(key, set()).add(cloud_owner(KUBEWRIGHT_MACHINE, gone.metadata))
            return False
        recorded = bool(gone.spec.provider_id)
        return may_leave_a_vm(gone.metadata.creation_timestamp, now, recorded=recorded)

    async def _listed(
        self, cluster: KubewrightCluster, owner: Cluster
    ) -> Mapping[str, tuple[Instance, ClassRequest]]:
        """The VMs of a cluster by provider id, each with what its driver was asked."""
        found: dict[str, tuple[Instance, ClassRequest]] = {}
        for request in self._requests(cluster, owner):
            try:
                for vm in await listed_by(self._shared.driver, request, f"cluster {cluster.metadata.name}"):
                    found.setdefault(vm.provider_id, (vm, request))
            except Unimplemented:
                log.debug("this driver cannot list VMs", driver=request.machine_class.provider)
        return found

    def _requests(self, cluster: KubewrightCluster, owner: Cluster) -> Iterator[ClassRequest]:
        """What to ask drivers: each thing that a machine of the cluster tells its own, once."""
        meta, asked = cluster.metadata, []
        for provision in self._provisions(cluster, owner):
            credentials, missing = self._caches.credentials(meta.namespace, provision.credentials_ref)
            if provision in asked or missing or self._shared.driver.problem(provision.driver):
                continue
            asked.append(provision)
            known = cloud_owner(KUBEWRIGHT_CLUSTER, meta)
            yield class_request(provision, meta.namespace, owner.name, known, credentials)

    def _provisions(self, cluster: KubewrightCluster, owner: Cluster) -> Iterator[Provision]:
        """Of its machines, of its templates, and of its failure domains."""
        key = Key(owner.namespace, owner.name)
        yield effective(Provision(), cluster.spec, None)
        for place in cluster.spec.failure_domains.values():
            yield effective(Provision(), cluster.spec, place)
        for template in self._caches.templates.by("owner-cluster", str(key)):
            yield effective(template.spec.template.spec, cluster.spec, None)
        for machine in self._caches.machines.by("cluster", str(key)):
            domain, _ = domain_of(cluster, machine.spec.failure_domain)
            yield effective(machine.spec, cluster.spec, domain)

    def _seen(self, key: Key, vm: Instance) -> ListedVm:
        machines = self._caches.machines
        return ListedVm(
            vm,
            owner_exists=bool(machines.keys_by("cloud-owner", vm.owner_uid)),
            recorded=bool(
                machines.keys_by("provider-id", vm.provider_id)
                or self._caches.core_machines.keys_by("provider-id", vm.provider_id)
            ),
            moved=vm.owner_uid in self._moved.get(key, ()),
            busy=self._calls.busy(vm.owner_uid.rpartition(".")[2]),
            same_name=machines.get(Key(key.namespace, vm.machine_name)) if vm.machine_name else None,
        )


@dataclass(frozen=True, slots=True)
class Target:
    """A cluster whose orphans are deleted. ``request``: what the driver was asked that has listed the VM."""

    cluster: KubewrightCluster
    request: ClassRequest


class ClusterPolicy:
    """The policy of ``orphans.Collector`` for the VMs of a cluster: nothing goes with one.

    Before a driver is asked, the server has said that the cluster is not paused and that there is no such
    machine.
    """

    tells_of_gone = True

    def __init__(self, shared: Shared) -> None:
        self._client = shared.control
        self._recorder = ComponentRecorder(shared.recorder, CLUSTER_COMPONENT)
        self._collected = shared.metrics.counter(
            "cluster_orphan_vms_collected",
            "VMs of clusters that were deleted because no machine wanted them",
            ("namespace", "cluster"),
        )

    async def may_go(self, target: Target, vm: Instance) -> Deletion | str:
        """As ``Policy.may_go``; a server that was asked in vain spares the VM."""
        cluster = target.cluster
        try:
            why = await self._why_kept(cluster, vm)
        except KubewrightError as error:
            why = f"the API server was asked in vain: {error}"
        return why or Deletion(target.request, cluster.metadata.namespace, vm.owner_uid)

    async def is_cleared(self, vm: Instance, deletion: Deletion) -> bool:
        """As ``Policy.is_cleared``: always."""
        return True

    def deleted(self, target: Target, message: str) -> None:
        """As ``Policy.deleted``."""
        self._recorder.event(target.cluster, EventReason.ORPHAN_DELETED, message)
        self._collected.labels(target.cluster.metadata.namespace, target.cluster.metadata.name).inc()

    def failed(self, target: Target, message: str) -> None:
        """As ``Policy.failed``."""
        self._recorder.event(target.cluster, EventReason.FAILED_ORPHAN_DELETE, message, warning=True)

    async def _why_kept(self, cluster: KubewrightCluster, vm: Instance) -> str:
        """What the server says, asked now.

        Raises:
            ApiError, TransportError: it did not say whether there is such a machine.
        """
        client, key = self._client, Key(cluster.metadata.namespace, cluster.metadata.name)
        now, owner = None, None
        with suppress(errors.NotFound):
            now = await client.get(KUBEWRIGHT_CLUSTER, key)
        place = owner_key(now.metadata, CLUSTER) if now is not None else None
        if now is not None and now.metadata.uid == cluster.metadata.uid and place is not None:
            with suppress(errors.NotFound):
                owner = await client.get(CLUSTER, place)
        same_name = await from_server(client, KUBEWRIGHT_MACHINE, Key(key.namespace, vm.machine_name))
        return why_not_judged(now, owner) or why_kept_by_server(vm, same_name)


def wire(shared: Shared, calls: VmCalls) -> Controller:
    """The controller, listening to what may leave a VM behind."""
    caches, settings = shared.caches, shared.settings.orphans
    soon, steady = settings.soon.total_seconds(), shared.control.steady()
    orphans = OrphanVms(shared, calls)
    controller = listing("kubewrightorphan", orphans, shared.clock, shared.metrics)

    def cluster_changed(change: Change[KubewrightCluster]) -> None:
        if spec_or_existence(change):
            controller.enqueue(change.key, "the VMs of a cluster are listed", after=soon)

    def owner_changed(change: Change[Cluster]) -> None:
        for key in caches.clusters_in(change.key) if spec_or_existence(change) else ():
            controller.enqueue(key, f"Cluster {change.key} changed", after=soon)

    def machine_changed(change: Change[KubewrightMachine]) -> None:
        if change.new is not None or (gone := change.before()) is None:
            return
        for key in _clusters_of(caches, gone):
            if orphans.note_deleted(key, gone, steady.now()):
                controller.enqueue(key, f"KubewrightMachine {change.key} may have left a VM", after=soon)

    caches.clusters.subscribe(cluster_changed)
    caches.core_clusters.subscribe(owner_changed)
    caches.machines.subscribe(machine_changed)
    return controller


def _clusters_of(caches: Caches, machine: KubewrightMachine) -> Iterable[Key]:
    name = machine.metadata.labels.get(CLUSTER_NAME_LABEL, "")
    return caches.clusters_in(Key(machine.namespace, name)) if name else ()
