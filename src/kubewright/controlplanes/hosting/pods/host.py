"""Runs components in pods: the methods of ``Hosting``.

Theory.      Every question is answered from informers, which hold only objects with our labels. Every effect
             is decided by ``objects`` and made by one request, whose answer the informers show at once.
             Nothing is kept here, so another process can go on at any time. The number of instances grows
             only after what a smaller number ended is gone, since the controller of StatefulSets would wait
             for such a claim for ever: it watches none.
Invariants.  Deletions name the uid of the object that was seen. ``remove`` deletes the volume claims before
             the StatefulSet, and once more after it: a process that crashes in between still finds the
             StatefulSet, and begins again.
Source       S3-03, S3-19; E-13.
Called by    ``compose``; the controllers of components, as ``Hosting``.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from kubewright.api.cluster.names import SERVICE_DOMAIN
from kubewright.api.controlplane.names import COMPONENT_LABEL, ROLE_LABEL, Component
from kubewright.api.kinds import Kind
from kubewright.api.meta import KubeObject
from kubewright.base.errors import InvalidInput, KubewrightError, OnChange, Retry
from kubewright.controlplanes.hosting.contract import (
    Replaced,
    Replacement,
    Running,
    Workload,
    WorkloadAddresses,
    WorkloadIdentity,
)
from kubewright.controlplanes.hosting.member_data import NotReplaced
from kubewright.controlplanes.hosting.pods import objects, reading, restore_pods
from kubewright.controlplanes.hosting.pods.objects import (
    CLAIM,
    FINISHED,
    INSTANCE,
    KINDS,
    OUR_LABELS,
    SERVICE,
    WORKLOAD,
    Change,
    ComponentPod,
    Create,
    Leave,
    Obstacle,
    controller_of,
    decide,
    outdated,
)
from kubewright.controlplanes.hosting.pods.restoring import Replacer
from kubewright.controlplanes.templates.catalog import Manifest
from kubewright.kube.informer import Change as Changed
from kubewright.kube.informer import Informers
from kubewright.wire.errors import AlreadyExists, Conflict, NotFound
from kubewright.wire.gvk import Key

BY_WORKLOAD = "controlplanes.workload"
NO_IMAGE = (
    "an etcd in pods is restored by pods with the image of this program, which it does not know: start "
    "it with --restore-image"
)
ETCD_CLAIMS = f"{COMPONENT_LABEL},{ROLE_LABEL}={Component.ETCD}"
"""The label selector of the claims of all etcds."""


class Obstructed(KubewrightError):
    """An object of the same name that is not ours, or is being deleted, is in the way; it may go."""


class Unseen(KubewrightError):
    """The controller of StatefulSets has not seen yet what was written; ``listen`` reports when it has."""

    retry: Retry = OnChange()


class PodHosting:
    """Components in pods of the cluster of these informers.

    ``domain``         that of the cluster's Services
    ``restore_image``  the image of this program, with which pods put snapshots in place; empty: not known
    """

    def __init__(
        self, informers: Informers, *, domain: str = SERVICE_DOMAIN, restore_image: str = ""
    ) -> None:
        self._client = informers.client
        self._domain = domain
        self._sets = informers.get(WORKLOAD, labels=OUR_LABELS)
        self._services = informers.get(SERVICE, labels=OUR_LABELS)
        self._pods = informers.get(INSTANCE, labels=OUR_LABELS)
        self._pods.index(BY_WORKLOAD, _workload)
        self._claims = informers.get(CLAIM, labels=ETCD_CLAIMS)
        self._can_restore = bool(restore_image)
        self._replacer = Replacer(self._client, restore_image)

    def addresses(self, identity: WorkloadIdentity, replicas: int) -> WorkloadAddresses:
        """As ``Hosting.addresses``; the endpoint of a load balancer is not known before it has an address."""
        service = self._services.get(Key(identity.namespace, identity.workload))
        own = service if service is not None and controller_of(service) == identity.object.uid else None
        return reading.addresses(identity, replicas, own, self._domain)

    def problem_of(self, workload: Workload) -> str:
        """As ``Hosting.problem_of``."""
        if problem := objects.unfit(workload):
            return problem
        for manifest in objects.wanted(workload):
            seen = self._seen(
                KINDS[manifest["kind"]], workload.identity.namespace, manifest["metadata"]["name"]
            )
            match decide(seen, manifest):
                case Obstacle(why, passes=False):
                    return why
        return ""

    def must_reserve(self, workload: Workload) -> bool:
        """As ``Reserves.must_reserve``, of Services."""
        if objects.unfit(workload):
            return False
        wanted = {each["metadata"]["name"]: each for each in objects.services(workload)}
        namespace = workload.identity.namespace
        return any(outdated(self._seen(SERVICE, namespace, name), each) for name, each in wanted.items())

    def status(self, identity: WorkloadIdentity) -> Running:
        """As ``Hosting.status``."""
        own, services = self._stateful_set(identity), self._services.by("owner", identity.object.uid)
        found = reading.running(identity, own, self._instances(identity), services)
        if own is None:
            names = self._claim_names(identity)
            data = restore_pods.ordinals(identity, names) if identity.component is Component.ETCD else None
            return replace(found, kept=restore_pods.kept(identity, names), data=data)
        stopped = not found.replicas and not found.instances
        data = restore_pods.with_data(own, identity, self._claim_names(identity)) if stopped else None
        return replace(found, data=data)

    async def reserve(self, workload: Workload) -> None:
        """As ``Reserves.reserve``.

        Raises:
            InvalidInput, Obstructed: as of ``apply``.
        """
        await self._write_all(objects.services(workload))

    async def apply(self, workload: Workload) -> None:
        """As ``Hosting.apply``.

        Raises:
            InvalidInput: what there is has to be changed by a user first; ``problem_of`` says the same.
            Obstructed: an object of that name is another's, or is still being deleted; or the number grows
                while what a smaller one ended is still there.
        """
        if problem := objects.unfit(workload):
            raise InvalidInput(problem)
        if workload.replicas:
            await self._end_restoring(workload.identity)
        await self._end_leaving(workload)
        await self._write_all(objects.wanted(workload))

    async def replace(self, identity: WorkloadIdentity, ordinal: int) -> None:
        """As ``Hosting.replace``.

        Raises:
            Unseen: the pod would come back as it was.
        """
        found = self._stateful_set(identity)
        pod = next((each for each in self._instances(identity) if reading.ordinal_of(each) == ordinal), None)
        if found is None or pod is None or pod.metadata.deleting:
            return
        if not reading.observed(found):
            raise Unseen(f"the controller of StatefulSets has not seen the change of {identity.workload} yet")
        await self._delete(INSTANCE, Key(identity.namespace, pod.name), pod.metadata.uid)

    async def remove(self, identity: WorkloadIdentity, *, keep_data: bool) -> None:
        """As ``Hosting.remove``; pods end with the grace that their template gives them."""
        for pod in self._restore_pods(identity):
            await self._replacer.delete(pod)
        if not keep_data:
            await self._delete_claims(identity)
        found = self._stateful_set(identity)
        if found is not None and not found["metadata"].get("deletionTimestamp"):
            key = Key(identity.namespace, identity.workload)
            await self._delete(WORKLOAD, key, found["metadata"]["uid"], propagation="Foreground")
        for service in self._services.by("owner", identity.object.uid):
            metadata = service["metadata"]
            await self._delete(SERVICE, Key(identity.namespace, metadata["name"]), metadata["uid"])
        if not keep_data:
            await self._delete_claims(identity)

    def lacks_to_replace(self) -> str:
        """As ``ReplacesData.lacks_to_replace``."""
        return "" if self._can_restore else NO_IMAGE

    async def replace_data(self, identity: WorkloadIdentity, by: Replacement) -> Replaced:
        """As ``ReplacesData.replace_data``."""
        found = self._stateful_set(identity)
        if found is None:
            raise NotReplaced(f"there is no StatefulSet {identity.workload} of this etcd")
        if found["spec"].get("replicas", 1) or self._instances(identity):
            raise NotReplaced(f"{identity.workload} still runs")
        return await self._replacer.replace(identity, found, self._restore_pods(identity), by)

    def listen(self, changed: Callable[[Key], None]) -> None:
        """As ``Hosting.listen``."""

        def tell(change: Changed[Any]) -> None:
            header = change.new or change.old
            if header is not None:
                changed(Key(change.key.namespace, header.labels[COMPONENT_LABEL]))

        for informer in (self._sets, self._services, self._pods, self._claims):
            informer.subscribe(tell)

    # ------------------------------------------------------------------ look
    def _stateful_set(self, identity: WorkloadIdentity) -> dict[str, Any] | None:
        """The StatefulSet of a component, if the component's object controls it."""
        found = self._sets.get(Key(identity.namespace, identity.workload))
        return found if found is not None and controller_of(found) == identity.object.uid else None

    def _instances(self, identity: WorkloadIdentity) -> list[ComponentPod]:
        """The pods of its StatefulSet, even after that is gone; none while a foreign one has the name."""
        if (
            self._stateful_set(identity) is None
            and self._sets.header(Key(identity.namespace, identity.workload)) is not None
        ):
            return []
        return self._pods.by(BY_WORKLOAD, f"{identity.namespace}/{identity.workload}")

    def _restore_pods(self, identity: WorkloadIdentity) -> list[ComponentPod]:
        """The pods that replace its data, or have replaced it."""
        pods = self._pods.by("owner", identity.object.uid)
        return [each for each in pods if each.metadata.labels.get(ROLE_LABEL) == restore_pods.ROLE]

    def _claim_names(self, identity: WorkloadIdentity) -> list[str]:
        """The claims of a component that are there."""
        claims = [each for each in self._claims.list(identity.namespace) if not each.metadata.deleting]
        selected = objects.selector(identity).items()
        return [each.name for each in claims if selected <= each.metadata.labels.items()]

    def _seen(self, kind: Kind[dict[str, Any]], namespace: str, name: str) -> dict[str, Any] | None:
        informer = self._sets if kind is WORKLOAD else self._services
        return informer.get(Key(namespace, name))

    # ------------------------------------------------------------------ act
    async def _write_all(self, manifests: Iterable[Manifest]) -> None:
        for manifest in manifests:
            kind, metadata = KINDS[manifest["kind"]], manifest["metadata"]
            await self._write(kind, manifest, self._seen(kind, metadata["namespace"], metadata["name"]))

    async def _write(
        self, kind: Kind[dict[str, Any]], manifest: Manifest, seen: dict[str, Any] | None
    ) -> None:
        key = Key(manifest["metadata"]["namespace"], manifest["metadata"]["name"])
        match decide(seen, manifest):
            case Create():
                try:
                    await self._client.create(kind, manifest)
                except AlreadyExists:  # ours, but not in our caches or without labels; or a foreign one
                    found = await self._client.get(kind, key)
                    await self._write(kind, manifest, found)
            case Change(patch):
                await self._client.patch(kind, key, patch)
            case Obstacle(why, passes):
                raise Obstructed(why) if passes else InvalidInput(why)
            case Leave():
                pass

    async def _end_restoring(self, identity: WorkloadIdentity) -> None:
        """Delete the pods that replace its data; those that are done or at work.

        Raises:
            Obstructed: one is still at work, with the volume.
        """
        for pod in self._restore_pods(identity):
            await self._replacer.delete(pod)
            if pod.status.phase not in FINISHED:
                raise Obstructed(f"the pod {pod.name}, which replaces the data, ends first")

    async def _end_leaving(self, workload: Workload) -> None:
        """Refuse a larger number while pods and claims of the instances that it adds are there from before.

        Raises:
            Obstructed: the StatefulSet's controller has not finished the smaller number.
        """
        identity, found = workload.identity, self._stateful_set(workload.identity)
        first = found["spec"].get("replicas", 1) if found is not None else workload.replicas
        if found is None or first >= workload.replicas:
            return
        added = range(first, workload.replicas)
        names = {name for each in added for name in restore_pods.claims_of(found, identity, each).values()}
        claims = [each for each in await self._list_claims(identity) if each.name in names]
        pods = [each for each in self._instances(identity) if reading.ordinal_of(each) in added]
        if why := reading.leaving(found, pods, claims):
            raise Obstructed(why)

    async def _delete(self, kind: Kind[Any], key: Key, uid: str, *, propagation: str = "") -> None:
        """Delete this very object; it may be gone already, and another may have its name."""
        with suppress(NotFound, Conflict):
            await self._client.delete(kind, key, uid=uid, propagation=propagation)

    async def _list_claims(self, identity: WorkloadIdentity) -> Sequence[KubeObject]:
        selected = ",".join(f"{name}={value}" for name, value in objects.selector(identity).items())
        return await self._client.list(CLAIM, identity.namespace, labels=selected)

    async def _delete_claims(self, identity: WorkloadIdentity) -> None:
        for claim in await self._list_claims(identity):
            if not claim.metadata.deleting:
                await self._delete(CLAIM, Key(claim.namespace, claim.name), claim.metadata.uid)


def _workload(pod: ComponentPod) -> Iterable[str]:
    """The StatefulSet of a pod that is an instance, as the index has it."""
    name = reading.workload_of(pod)
    return [f"{pod.namespace}/{name}"] if name and reading.ordinal_of(pod) is not None else []
