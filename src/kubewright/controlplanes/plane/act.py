"""One control plane, one pass on the kernel: reads it, performs its plan, writes its status and events.

Theory.      Each patch names the uid and the version of the object that was read. If the object has changed
             or gone since, the server answers with a conflict, and the next pass reads it again. Before the
             finalizer goes the server is asked which components are left, since caches may lag.
Invariants.  No PUT. The status is written after the steps, onto the version of the object that they left.
Called by    ``runtime.controller``; wired by ``wiring``.
"""

from collections.abc import Awaitable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

import structlog
from msgspec import to_builtins

from kubewright.api.cluster import names as cluster_names
from kubewright.api.cluster.conditions import READY
from kubewright.api.cluster.v1beta1 import ApiEndpoint
from kubewright.api.controlplane.names import (
    FINALIZER,
    PLANE_REPORTER,
    PUBLISHED_ANNOTATION,
    Component,
    PlaneCondition,
    Reason,
)
from kubewright.api.controlplane.v1alpha4 import NestedControlPlane, NestedControlPlaneStatus
from kubewright.api.controlplane.validate import validate_control_plane
from kubewright.api.core import SECRET
from kubewright.api.faults import summary
from kubewright.api.meta import ObjectMeta
from kubewright.base.plan import Event
from kubewright.controlplanes.caches import Caches
from kubewright.controlplanes.family import KINDS, ComponentObject, pause_of
from kubewright.controlplanes.plane.decide import (
    AddFinalizer,
    Adopt,
    DeleteComponent,
    Plan,
    PublishEndpoint,
    RemoveFinalizer,
    Step,
    decide,
)
from kubewright.controlplanes.plane.seen import Rest, Seen, rest_of
from kubewright.controlplanes.plane.status import CONTROL_PLANES, status_of
from kubewright.kube.patches import onto
from kubewright.runtime.events import ComponentRecorder
from kubewright.runtime.kernel import Effect, ObjectReconciler, Outcome
from kubewright.runtime.world import Environment
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

log = structlog.get_logger(__name__)


class ControlPlanes(ObjectReconciler[NestedControlPlane, Seen, Plan]):
    """The reconciler of NestedControlPlanes."""

    def __init__(self, environment: Environment, caches: Caches) -> None:
        recorder = ComponentRecorder(environment.recorder, PLANE_REPORTER)
        super().__init__(
            environment.control.client, caches.planes, recorder, finalizer=FINALIZER, pace=CONTROL_PLANES
        )
        self._caches = caches

    async def look(self, found: NestedControlPlane) -> Seen:
        """Read one control plane and everything around it.

        Raises:
            ApiError, TransportError: the server could not be asked.
        """
        family = self._caches.family_of(found)
        secret = Key(found.namespace, cluster_names.kubeconfig_secret(family.name))
        problem, now = summary(validate_control_plane(found)), self.client.clock.now()
        # A schedule that cannot be read changes nothing: it stays as it was.
        rest = (
            Rest(found.status.asleep)
            if problem
            else rest_of(found.spec, found.metadata.creation_timestamp, now)
        )
        return Seen(
            family,
            now,
            pause=pause_of(found.metadata, cluster=family.cluster),
            problem=problem,
            kubeconfig=await self._exists(secret),
            rest=rest,
            owned=tuple(self._caches.owned_by(found)),
        )

    def decide(self, seen: Seen) -> Plan:
        """As ``decide.decide``."""
        return decide(seen)

    def closer(self, seen: Seen, plan: Plan) -> Awaitable[Seen] | None:
        """Before the finalizer goes, the server is asked whether a component is left."""
        return self._with_owned_on_server(seen) if RemoveFinalizer() in plan.steps else None

    def act(self, seen: Seen, step: Step, outcome: Outcome) -> Effect:
        """What performs a step."""
        match step:
            case AddFinalizer():
                return self.add_finalizer(outcome)
            case RemoveFinalizer():
                return self.remove_finalizer(outcome)
            case PublishEndpoint(endpoint):
                return self._publish(seen, endpoint, outcome)
            case Adopt(component, found):
                return self._adopt(seen, component, found)
            case DeleteComponent(component, found):
                return self._delete(seen, component, found)

    def status(self, seen: Seen, plan: Plan, outcome: Outcome) -> NestedControlPlaneStatus:
        """As ``status.status_of``."""
        return status_of(seen)

    def events(
        self, seen: Seen, plan: Plan, status: NestedControlPlaneStatus, *, written: bool
    ) -> Iterable[Event]:
        """What has changed, as ``events_of``."""
        return events_of(seen.family.plane.status, status) if written else ()

    async def _publish(self, seen: Seen, endpoint: ApiEndpoint, outcome: Outcome) -> None:
        published = {"host": endpoint.host, "port": endpoint.port}
        mark = {"annotations": {PUBLISHED_ANNOTATION: str(endpoint)}}
        await self.patch(outcome, {"metadata": mark, "spec": {"controlPlaneEndpoint": published}})
        if (before := seen.family.plane.spec.control_plane_endpoint) is not None and before.valid:
            told = f"its API server is reached at {endpoint} now, no longer at {before}"
            self.tell(seen.family.plane, Event(Reason.ENDPOINT_MOVED, told))

    async def _adopt(self, seen: Seen, component: Component, found: ComponentObject) -> None:
        others = [each for each in found.metadata.owner_references if each.uid != seen.owner.uid]
        owners = [*others, seen.owner]
        body = onto({"metadata": {"ownerReferences": to_builtins(owners)}}, found.metadata)
        await self.client.patch(KINDS[component], _key(found.metadata), body)
        log.info("adopted", plane=str(_key(seen.family.plane.metadata)), component=found.name)

    async def _delete(self, seen: Seen, component: Component, found: ComponentObject) -> None:
        with suppress(NotFound):
            await self.client.delete(KINDS[component], _key(found.metadata), uid=found.metadata.uid)
            log.info("deleted", plane=str(_key(seen.family.plane.metadata)), component=found.name)

    async def _exists(self, secret: Key) -> bool:
        """Whether a Secret exists. The server is asked, if no cache has it for lack of a label."""
        if self._caches.secrets.header(secret) is not None:
            return True
        try:
            await self.client.get(SECRET, secret)
        except NotFound:
            return False
        return True

    async def _with_owned_on_server(self, seen: Seen) -> Seen:
        """``seen`` with the components that it controls as the server lists them."""
        plane = seen.family.plane
        found: list[tuple[Component, ComponentObject]] = []
        for component, kind in KINDS.items():
            for each in await self.client.list(kind, plane.namespace):
                owner = each.metadata.controller
                if owner is not None and owner.uid == plane.metadata.uid:
                    found.append((component, each))
        return replace(seen, owned=tuple(found))


def events_of(before: NestedControlPlaneStatus, after: NestedControlPlaneStatus) -> Iterator[Event]:
    """Events about what has changed from one status to the next."""
    if after.ready and not before.ready:
        yield Event("Ready", "all components that it names are ready")
    if after.asleep and not before.asleep:
        yield Event("Asleep", _message(after, PlaneCondition.SLEEPING).partition(";")[0])
    if before.asleep and not after.asleep:
        yield Event("Waking", "its components start again, one after the other")
    if before.ready and not after.ready and not after.asleep:
        yield Event("NotReady", _message(after, READY), warning=True)
    for about, reason in _TOLD_ONCE:
        told = _message(after, about, reason)
        if told and told != _message(before, about, reason):
            yield Event(reason, told, warning=True)


_TOLD_ONCE = (
    (PlaneCondition.COMPONENT_CONFLICT, Reason.CONFLICT),
    (PlaneCondition.ENDPOINT_AVAILABLE, Reason.ENDPOINT_MOVED),
)
"""What users have to mend."""


def _message(status: NestedControlPlaneStatus, about: str, reason: str = "") -> str:
    """The message of a condition; only with this reason, if one is named."""
    found = (each for each in status.conditions if each.type == about and reason in ("", each.reason))
    return next((each.message for each in found), "")


def _key(meta: ObjectMeta) -> Key:
    return Key(meta.namespace, meta.name)
