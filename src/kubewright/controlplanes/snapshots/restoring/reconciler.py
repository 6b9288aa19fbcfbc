"""One ControlPlaneRestore, one pass: look, decide, act. And which changes enqueue a restore.

Called by    ``runtime.controller``; wired by ``world``.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, assert_never

import structlog

from kubewright.api.cluster.names import left_alone
from kubewright.api.controlplane.names import FINALIZER, RESTORING_ANNOTATION
from kubewright.api.controlplane.reasons import RESTORE_REPORTER
from kubewright.api.controlplane.v1alpha4 import (
    CONTROL_PLANE_RESTORE,
    CONTROL_PLANE_SNAPSHOT,
    ControlPlaneRestore,
    NestedControlPlane,
)
from kubewright.api.controlplane.validate import validate_restore
from kubewright.api.diff import merge_patch
from kubewright.api.faults import summary
from kubewright.api.meta import with_finalizer, without_finalizer
from kubewright.base.errors import KubewrightError
from kubewright.controlplanes.caches import Caches
from kubewright.controlplanes.hosting.hosts import Hosts
from kubewright.controlplanes.snapshots.restoring.act import Restorer
from kubewright.controlplanes.snapshots.restoring.decide import (
    AddFinalizer,
    Plan,
    Release,
    RemoveFinalizer,
    ReplaceData,
    Seen,
    Step,
    Stop,
    Verify,
    decide,
    plane_name,
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

CONTROLLER = "controlplanerestore"

log = structlog.get_logger(__name__)


class Restores:
    """The reconciler of ControlPlaneRestores."""

    def __init__(self, environment: Environment, caches: Caches, hosts: Hosts) -> None:
        self._client = environment.control.client
        self._caches = caches
        self._restorer = Restorer(self._client, hosts)
        self._recorder = ComponentRecorder(environment.recorder, RESTORE_REPORTER)
        self.found = environment.control.caches.get(CONTROL_PLANE_RESTORE)
        self.snapshots = environment.control.caches.get(CONTROL_PLANE_SNAPSHOT)

    async def reconcile(self, key: Key) -> Result:
        """One pass.

        Raises:
            ApiError, TransportError: the API server said no for now, or could not be asked.
            KubewrightError: a step did not work this time.
        """
        found = self.found.get(key)
        if found is None:
            return Result.done()
        return await unless_refused(self._pass(found), found, self._recorder)

    def look(self, found: ControlPlaneRestore) -> Seen:
        """Read one restore, its snapshot and its control plane."""
        snapshot = self.snapshots.get(Key(found.namespace, found.spec.snapshot_name))
        plane = self._held(found) or self._caches.planes.get(
            Key(found.namespace, plane_name(found, snapshot))
        )
        family = self._caches.family_of(plane) if plane is not None else None
        complete = snapshot is not None and snapshot.status.ready
        return Seen(
            found,
            self._client.clock.now(),
            snapshot=snapshot,
            family=family,
            paused=left_alone(found.metadata.annotations),
            problem=summary(validate_restore(found)),
            unable=self._restorer.unable(family, snapshot)
            if family is not None and snapshot is not None and complete
            else "",
        )

    def _held(self, found: ControlPlaneRestore) -> NestedControlPlane | None:
        """The control plane that is stopped for this restore; it is found even if the snapshot is gone."""
        there = self._caches.planes.list(found.namespace)
        named = (each for each in there if each.metadata.annotations.get(RESTORING_ANNOTATION) == found.name)
        return next(named, None)

    async def _pass(self, found: ControlPlaneRestore) -> Result:
        seen = self.look(found)
        plan = decide(seen)
        log.debug("plan", because=plan.because, steps=[type(step).__name__ for step in plan.steps])
        for step in plan.steps:
            try:
                seen = await self._step(seen, step)
            except (ApiError, TransportError):
                raise
            except KubewrightError as error:
                await self._report(replace(seen, failed=str(error)), plan)
                raise
        await self._report(seen, plan)
        return Result.later(plan.wake)

    async def _step(self, seen: Seen, step: Step) -> Seen:
        meta = seen.restore.metadata
        key = Key(meta.namespace, meta.name)
        match step:
            case AddFinalizer():
                body = onto({"metadata": {"finalizers": with_finalizer(meta.finalizers, FINALIZER)}}, meta)
                await self._client.patch(CONTROL_PLANE_RESTORE, key, body)
            case RemoveFinalizer():
                left = without_finalizer(meta.finalizers, FINALIZER)
                try:
                    body = onto({"metadata": {"finalizers": left or None}}, meta)
                    await self._client.patch(CONTROL_PLANE_RESTORE, key, body)
                except NotFound:
                    return seen
            case Verify():
                assert seen.snapshot is not None, "without a snapshot it waits"
                await self._restorer.verify(seen.snapshot)
            case Stop() | Release():
                assert seen.family is not None, "without a control plane it waits"
                await self._restorer.hold(seen.family.plane, meta.name if step == Stop() else "")
            case ReplaceData():
                assert seen.snapshot is not None, "without a snapshot it waits"
                assert seen.family is not None, "without a control plane it waits"
                former = await self._restorer.replace(seen.family, seen.snapshot, meta.uid)
                return replace(seen, former=former)
            case _:
                assert_never(step)
        return seen

    async def _report(self, seen: Seen, plan: Plan) -> None:
        """Write the status, if it has changed, and send events about it."""
        if plan.silent and not seen.failed:
            return
        found, status = seen.restore, status_of(seen)
        if patch := merge_patch(found.status, status):
            key = Key(found.namespace, found.name)
            body = onto({"status": patch}, found.metadata)
            await self._client.patch(CONTROL_PLANE_RESTORE, key, body, subresource="status")
        if status.phase != found.status.phase:
            self._recorder.event(found, status.phase, plan.because or "its control plane is ready")
        if seen.failed:
            self._recorder.event(found, "Failed", seen.failed, warning=True)


def wire(environment: Environment, hosts: Hosts) -> Controller:
    """The controller, with watches on everything that a decision reads.

    There are few restores, and most are done: a change enqueues all of its namespace that are not done.
    """
    caches = Caches(environment.control.caches)
    restores = Restores(environment, caches, hosts)
    controller = Controller(CONTROLLER, restores, environment.clock, metrics=environment.metrics)

    def unfinished(change: Change[Any]) -> Iterable[Key]:
        there = restores.found.list(change.key.namespace)
        return [Key(each.namespace, each.name) for each in there if not each.status.ready]

    controller.watches(restores.found, only(lambda change: not status_alone(change) or _is_replaced(change)))
    for informer in caches.components.values():
        controller.watches(informer, unfinished)
    controller.watches(restores.snapshots, unfinished)
    return controller.watches(caches.planes, unfinished)


def _is_replaced(change: Change[ControlPlaneRestore]) -> bool:
    """Whether this change says that the data was replaced: then the control plane may start."""
    before, after = change.before(), change.after()
    done = after is not None and after.status.replaced_at is not None
    return done and (before is None or before.status.replaced_at is None)
