"""One ControlPlaneSnapshotSchedule, one pass: look, decide, act. And which changes enqueue a schedule.

Called by    ``runtime.controller``; wired by ``world``.
"""

from collections.abc import Iterable
from contextlib import suppress

import structlog

from kubewright.api.cluster.v1beta1 import Cluster
from kubewright.api.controlplane.names import SCHEDULE_LABEL, SCHEDULE_REPORTER
from kubewright.api.controlplane.snapshots import (
    CONTROL_PLANE_RESTORE,
    CONTROL_PLANE_SNAPSHOT,
    CONTROL_PLANE_SNAPSHOT_SCHEDULE,
    ControlPlaneRestore,
    ControlPlaneSnapshot,
    ControlPlaneSnapshotSchedule,
)
from kubewright.api.controlplane.v1alpha4 import NestedControlPlane
from kubewright.api.controlplane.validate import validate_schedule
from kubewright.api.diff import merge_patch
from kubewright.api.faults import summary
from kubewright.controlplanes.caches import Caches
from kubewright.controlplanes.family import pause_of_family
from kubewright.controlplanes.snapshots.schedules.decide import Create, Seen, decide, status_of
from kubewright.kube.informer import Change
from kubewright.kube.patches import onto
from kubewright.runtime.controller import Controller, only, status_alone
from kubewright.runtime.events import ComponentRecorder
from kubewright.runtime.passes import planned
from kubewright.runtime.refused import unless_refused
from kubewright.runtime.result import Result
from kubewright.runtime.world import Environment
from kubewright.wire.errors import AlreadyExists, NotFound
from kubewright.wire.gvk import Key

CONTROLLER = "controlplanesnapshotschedule"
BY_SCHEDULE = "snapshots-by-schedule"
"""Snapshots by ``namespace/name`` of the schedule that created them."""
BY_PLANE = "snapshot-schedules-by-control-plane"
"""Schedules by ``namespace/name`` of the control plane that they name."""

log = structlog.get_logger(__name__)


class Schedules:
    """The reconciler of ControlPlaneSnapshotSchedules."""

    def __init__(self, environment: Environment, caches: Caches) -> None:
        informers = environment.control.caches
        self._caches = caches
        self._client = environment.control.client
        self._recorder = ComponentRecorder(environment.recorder, SCHEDULE_REPORTER)
        self.found = informers.get(CONTROL_PLANE_SNAPSHOT_SCHEDULE)
        self.snapshots = informers.get(CONTROL_PLANE_SNAPSHOT)
        self.restores = informers.get(CONTROL_PLANE_RESTORE)
        self.snapshots.index(BY_SCHEDULE, _schedule)
        self.found.index(BY_PLANE, lambda each: (str(Key(each.namespace, each.spec.control_plane_name)),))

    async def reconcile(self, key: Key) -> Result:
        """One pass.

        Raises:
            ApiError, TransportError: the API server said no for now, or could not be asked.
        """
        found = self.found.get(key)
        if found is None:
            return Result.done()
        return await unless_refused(self._pass(found), found, self._recorder)

    async def _pass(self, found: ControlPlaneSnapshotSchedule) -> Result:
        seen = self.look(found)
        plan = decide(seen)
        planned(plan)
        for step in plan.steps:
            snapshot = step.snapshot
            if isinstance(step, Create):
                with suppress(AlreadyExists):  # an earlier pass did not come to write the status
                    await self._client.create(CONTROL_PLANE_SNAPSHOT, snapshot)
                log.info("created", snapshot=snapshot.name)
            else:
                with suppress(NotFound):
                    place = Key(snapshot.namespace, snapshot.name)
                    await self._client.delete(CONTROL_PLANE_SNAPSHOT, place, uid=snapshot.metadata.uid)
                log.info("deleted", snapshot=snapshot.name)
        if not plan.silent and (patch := merge_patch(found.status, status_of(seen, plan))):
            key, body = Key(found.namespace, found.name), onto({"status": patch}, found.metadata)
            await self._client.patch(CONTROL_PLANE_SNAPSHOT_SCHEDULE, key, body, subresource="status")
        return Result.later(plan.wake)

    def look(self, found: ControlPlaneSnapshotSchedule) -> Seen:
        """Read one schedule, its snapshots, and the restores that need some of them."""
        plane = self._caches.planes.get(Key(found.namespace, found.spec.control_plane_name))
        family = self._caches.family_of(plane) if plane is not None else None
        restores = self.restores.list(found.namespace)
        return Seen(
            found,
            self._client.clock.now(),
            snapshots=tuple(self.snapshots.by(BY_SCHEDULE, str(Key(found.namespace, found.name)))),
            needed=frozenset(name for each in restores if (name := _needed(each))),
            pause=pause_of_family(found.metadata, family),
            problem=summary(validate_schedule(found)),
        )


def wire(environment: Environment) -> Controller:
    """The controller, with watches on everything that a decision reads."""
    caches = Caches(environment.control.caches)
    schedules = Schedules(environment, caches)
    controller = Controller(CONTROLLER, schedules, environment.clock, metrics=environment.metrics)

    def of_snapshot(change: Change[ControlPlaneSnapshot]) -> Iterable[Key]:
        names = [
            name for each in (change.before(), change.after()) if each is not None for name in _schedule(each)
        ]
        return {Key(change.key.namespace, name.partition("/")[2]) for name in names}

    def of_plane(change: Change[NestedControlPlane]) -> Iterable[Key]:
        same = status_alone(change)
        return () if same else schedules.found.keys_by(BY_PLANE, str(change.key))

    def of_cluster(change: Change[Cluster]) -> Iterable[Key]:
        planes = caches.planes_of_cluster(change)
        return {key for plane in planes for key in schedules.found.keys_by(BY_PLANE, str(plane))}

    def of_restore(change: Change[ControlPlaneRestore]) -> Iterable[Key]:
        """The schedules of snapshots that a restore needs, or needed before."""
        before, after = (_needed(each) for each in (change.before(), change.after()))
        keys = (Key(change.key.namespace, name) for name in (before, after) if name and before != after)
        there = (found for key in keys if (found := schedules.snapshots.get(key)) is not None)
        return {Key(each.namespace, name) for each in there if (name := _name(each))}

    controller.watches(schedules.restores, of_restore)
    controller.watches(caches.planes, of_plane)
    controller.watches(caches.clusters, of_cluster)
    controller.watches(schedules.found, only(lambda change: not status_alone(change)))
    return controller.watches(schedules.snapshots, of_snapshot)


def _schedule(snapshot: ControlPlaneSnapshot) -> tuple[str, ...]:
    name = _name(snapshot)
    return (str(Key(snapshot.namespace, name)),) if name else ()


def _needed(restore: ControlPlaneRestore | None) -> str:
    """The snapshot that a restore needs, by name; empty: it names none, has ended, or is gone."""
    return "" if restore is None or restore.status.ready else restore.spec.snapshot_name


def _name(snapshot: ControlPlaneSnapshot) -> str:
    return snapshot.metadata.labels.get(SCHEDULE_LABEL, "")
