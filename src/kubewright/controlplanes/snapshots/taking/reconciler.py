"""One ControlPlaneSnapshot, one pass: look, decide, act. And which changes enqueue a snapshot.

Called by    ``runtime.controller``; wired by ``world``.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, assert_never

import structlog

from kubewright.api.cluster.names import left_alone
from kubewright.api.controlplane.names import FINALIZER, Component
from kubewright.api.controlplane.reasons import SNAPSHOT_REPORTER
from kubewright.api.controlplane.v1alpha4 import (
    CONTROL_PLANE_SNAPSHOT,
    ControlPlaneSnapshot,
    NestedControlPlane,
)
from kubewright.api.controlplane.validate import validate_snapshot
from kubewright.api.diff import merge_patch
from kubewright.api.faults import summary
from kubewright.api.meta import with_finalizer, without_finalizer
from kubewright.base import delays
from kubewright.base.errors import KubewrightError
from kubewright.controlplanes.caches import Caches
from kubewright.controlplanes.component.policies import etcd_addresses
from kubewright.controlplanes.family import Family, keys_of
from kubewright.controlplanes.hosting.hosts import Hosts
from kubewright.controlplanes.snapshots.taking.act import Taker, file_of
from kubewright.controlplanes.snapshots.taking.decide import (
    AddFinalizer,
    DeleteFile,
    Plan,
    RemoveFinalizer,
    Seen,
    Step,
    Take,
    decide,
    status_of,
)
from kubewright.kube.errors import TransportError
from kubewright.kube.informer import Change
from kubewright.kube.patches import onto
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import ComponentRecorder
from kubewright.runtime.mapping import only, status_alone
from kubewright.runtime.refused import unless_refused
from kubewright.runtime.result import Result
from kubewright.runtime.world import Environment
from kubewright.wire.errors import ApiError, NotFound
from kubewright.wire.gvk import Key

CONTROLLER = "controlplanesnapshot"
BY_PLANE = "snapshots-by-control-plane"
"""Snapshots by ``namespace/name`` of the control plane that they name."""

log = structlog.get_logger(__name__)


class Snapshots:
    """The reconciler of ControlPlaneSnapshots."""

    def __init__(self, environment: Environment, caches: Caches, hosts: Hosts) -> None:
        self._client = environment.control.client
        self._caches = caches
        self._taker = Taker(self._client, hosts)
        self._recorder = ComponentRecorder(environment.recorder, SNAPSHOT_REPORTER)
        self.found = environment.control.caches.get(CONTROL_PLANE_SNAPSHOT)
        self.found.index(BY_PLANE, lambda each: (str(Key(each.namespace, each.spec.control_plane_name)),))

    async def reconcile(self, key: Key) -> Result:
        """One pass.

        Raises:
            ApiError, TransportError: the API server said no for now, or could not be asked.
            KubewrightError: the snapshot could not be taken, or its file not deleted, this time.
        """
        found = self.found.get(key)
        if found is None:
            return Result.done()
        return await unless_refused(self._pass(found), found, self._recorder)

    async def _pass(self, found: ControlPlaneSnapshot) -> Result:
        plane = self._caches.planes.get(Key(found.namespace, found.spec.control_plane_name))
        family = self._caches.family_of(plane) if plane is not None else None
        seen = Seen(
            found,
            self._client.clock.now(),
            paused=left_alone(found.metadata.annotations),
            problem=summary(validate_snapshot(found)),
            waiting=_waiting(found, family),
        )
        plan = decide(seen)
        log.debug("plan", because=plan.because, steps=[type(step).__name__ for step in plan.steps])
        for step in plan.steps:
            try:
                seen = await self._step(seen, step, family)
            except (ApiError, TransportError):
                raise
            except KubewrightError as error:
                await self._report(replace(seen, failed=str(error)), plan)
                if found.metadata.deleting:  # it ends in time, whatever the error says of trying again
                    return Result.later(delays.UNHEARD)
                raise
        await self._report(seen, plan)
        return Result.later(plan.wake)

    async def _step(self, seen: Seen, step: Step, family: Family | None) -> Seen:
        meta = seen.snapshot.metadata
        key = Key(meta.namespace, meta.name)
        match step:
            case AddFinalizer():
                finalizers = with_finalizer(meta.finalizers, FINALIZER)
                body = onto({"metadata": {"finalizers": finalizers}}, meta)
                await self._client.patch(CONTROL_PLANE_SNAPSHOT, key, body)
            case Take():
                assert family is not None, "without a control plane it waits"
                return replace(seen, taken=await self._taker.take(seen.snapshot, family))
            case DeleteFile():
                await self._taker.delete_file(seen.snapshot)
            case RemoveFinalizer():
                left = without_finalizer(meta.finalizers, FINALIZER)
                try:
                    body = onto({"metadata": {"finalizers": left or None}}, meta)
                    await self._client.patch(CONTROL_PLANE_SNAPSHOT, key, body)
                except NotFound:
                    return seen
            case _:
                assert_never(step)
        return seen

    async def _report(self, seen: Seen, plan: Plan) -> None:
        """Write the status, if it has changed, and send events about it."""
        if plan.silent and not seen.failed:
            return
        found = seen.snapshot
        status = status_of(seen, file_of(found))
        if patch := merge_patch(found.status, status):
            key = Key(found.namespace, found.name)
            body = onto({"status": patch}, found.metadata)
            await self._client.patch(CONTROL_PLANE_SNAPSHOT, key, body, subresource="status")
        if status.ready and not found.status.ready:
            self._recorder.event(found, "Taken", f"{status.size} bytes are kept as {status.file}")
        if seen.failed:
            self._recorder.event(found, "Failed", seen.failed, warning=True)


def _waiting(found: ControlPlaneSnapshot, family: Family | None) -> str:
    """Why there is nothing to copy yet; empty: there is."""
    if family is None:
        return f"there is no NestedControlPlane {found.spec.control_plane_name}"
    plane = family.plane.name
    if family.restore:
        return f"ControlPlaneRestore {family.restore} replaces the data of NestedControlPlane {plane}"
    etcd = family.components.get(Component.ETCD)
    if etcd is None:
        return "" if etcd_addresses(family) else f"NestedControlPlane {plane} has no etcd yet"
    return "" if etcd.status.ready else f"NestedEtcd {etcd.name} is not ready"


def wire(environment: Environment, hosts: Hosts) -> Controller:
    """The controller, with watches on everything that a decision reads."""
    caches = Caches(environment.control.caches)
    snapshots = Snapshots(environment, caches, hosts)
    controller = Controller(CONTROLLER, snapshots, environment.clock, metrics=environment.metrics)

    def of_plane(change: Change[Any]) -> Iterable[Key]:
        return snapshots.found.keys_by(BY_PLANE, str(change.key))

    def of_etcd(change: Change[Any]) -> Iterable[Key]:
        return {
            key
            for plane in caches.planes.list(change.key.namespace)
            if _names(plane, change.key)
            for key in snapshots.found.keys_by(BY_PLANE, str(Key(plane.namespace, plane.name)))
        }

    controller.watches(snapshots.found, only(lambda change: not status_alone(change)))
    controller.watches(caches.planes, of_plane)
    return controller.watches(caches.components[Component.ETCD], of_etcd)


def _names(plane: NestedControlPlane, etcd: Key) -> bool:
    return keys_of(plane).get(Component.ETCD) == etcd
