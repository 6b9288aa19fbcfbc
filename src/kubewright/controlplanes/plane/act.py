"""Perform a control plane's plan: its steps, then its status and the events that go with it.

Theory.      Each patch names the uid and the version of the object that was read. If the object has changed
             or gone since, the server answers with a conflict, and the next pass reads it again.
Invariants.  No PUT. The status is written after the steps, onto the version of the object that they left.
Called by    ``wiring``.
"""

from collections.abc import Iterator
from typing import assert_never

import structlog
from msgspec import to_builtins

from kubewright.api.cluster.conditions import READY
from kubewright.api.controlplane.names import (
    FINALIZER,
    PLANE_REPORTER,
    PUBLISHED_ANNOTATION,
    PlaneCondition,
    Reason,
)
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE, NestedControlPlaneStatus
from kubewright.api.meta import ObjectMeta
from kubewright.base.plan import Event
from kubewright.controlplanes.family import KINDS
from kubewright.controlplanes.plane.decide import (
    AddFinalizer,
    Adopt,
    DeleteComponent,
    Plan,
    PublishEndpoint,
    RemoveFinalizer,
    Step,
)
from kubewright.controlplanes.plane.seen import Seen
from kubewright.controlplanes.plane.status import CONTROL_PLANES, status_of
from kubewright.kube.client import Client
from kubewright.kube.patches import onto
from kubewright.runtime.events import Recorder
from kubewright.runtime.reports import Reports
from kubewright.runtime.result import Result
from kubewright.runtime.writer import Writer
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

log = structlog.get_logger(__name__)


class Actor:
    """Performs plans. ``reports`` writes statuses, and knows which changes are our own."""

    def __init__(self, client: Client, recorder: Recorder) -> None:
        self._client = client
        self._writer = Writer(client, NESTED_CONTROL_PLANE, FINALIZER)
        self._recorder = recorder.of(PLANE_REPORTER)
        self.reports = Reports(client, NESTED_CONTROL_PLANE, self._recorder, CONTROL_PLANES)

    async def perform(self, seen: Seen, plan: Plan) -> Result:
        """All steps, then the status; returns when to come back for a status that would be too early.

        Raises:
            ApiError, TransportError: the API server refused a write, or could not be asked.
        """
        meta = seen.family.plane.metadata
        for step in plan.steps:
            meta = await self._step(seen, step, meta)
        if not plan.silent and not plan.ends_the_pass:
            return await self._report(seen, meta)
        return Result.done()

    async def _step(self, seen: Seen, step: Step, meta: ObjectMeta) -> ObjectMeta:
        """One step; the metadata of the control plane after it."""
        match step:
            case AddFinalizer():
                return await self._writer.add_finalizer(meta)
            case PublishEndpoint(endpoint):
                published = {"host": endpoint.host, "port": endpoint.port}
                mark = {"annotations": {PUBLISHED_ANNOTATION: str(endpoint)}}
                body = {"metadata": mark, "spec": {"controlPlaneEndpoint": published}}
                written = await self._writer.patch(meta, body)
                if (before := seen.family.plane.spec.control_plane_endpoint) is not None and before.valid:
                    told = f"its API server is reached at {endpoint} now, no longer at {before}"
                    self._recorder.event(seen.family.plane, Reason.ENDPOINT_MOVED, told)
                return written
            case RemoveFinalizer():
                return await self._writer.remove_finalizer(meta)
            case Adopt(component, found):
                others = [each for each in found.metadata.owner_references if each.uid != seen.owner.uid]
                owners = [*others, seen.owner]
                body = onto({"metadata": {"ownerReferences": to_builtins(owners)}}, found.metadata)
                await self._client.patch(KINDS[component], _key(found.metadata), body)
                log.info("adopted", plane=str(_key(meta)), component=found.name)
            case DeleteComponent(component, found):
                try:
                    await self._client.delete(KINDS[component], _key(found.metadata), uid=found.metadata.uid)
                except NotFound:
                    return meta
                log.info("deleted", plane=str(_key(meta)), component=found.name)
            case _:
                assert_never(step)
        return meta

    async def _report(self, seen: Seen, meta: ObjectMeta) -> Result:
        """Write the status, if it says something new, and send events about the changes."""
        plane = seen.family.plane
        before, after = plane.status, status_of(seen)
        written, again = await self.reports.write(meta, before, after)
        for event in events_of(before, after) if written else ():
            self._recorder.event(plane, event.reason, event.message, warning=event.warning)
        return again


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
