"""One ControlPlaneSnapshotSchedule, one pass: look, decide, act. And which changes enqueue a schedule.

Called by    ``runtime.controller``; wired by ``world``.
"""

from collections.abc import Iterable
from contextlib import suppress

import structlog

from kubewright.api.cluster.names import left_alone
from kubewright.api.controlplane.names import SCHEDULE_LABEL
from kubewright.api.controlplane.reasons import SCHEDULE_REPORTER
from kubewright.api.controlplane.v1alpha4 import (
    CONTROL_PLANE_RESTORE,
    CONTROL_PLANE_SNAPSHOT,
    CONTROL_PLANE_SNAPSHOT_SCHEDULE,
    ControlPlaneSnapshot,
    ControlPlaneSnapshotSchedule,
)
from kubewright.api.controlplane.validate import validate_schedule
from kubewright.api.diff import merge_patch
from kubewright.api.faults import summary
from kubewright.controlplanes.snapshots.schedules.decide import Create, Seen, decide, status_of
from kubewright.kube.informer import Change
from kubewright.kube.patches import onto
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import ComponentRecorder
from kubewright.runtime.mapping import only, status_alone
from kubewright.runtime.refused import unless_refused
from kubewright.runtime.result import Result
from kubewright.runtime.world import Environment
from kubewright.wire.errors import AlreadyExists, NotFound
from kubewright.wire.gvk import Key

CONTROLLER = "controlplanesnapshotschedule"
BY_SCHEDULE = "snapshots-by-schedule"
"""Snapshots by ``namespace/name`` of the schedule that created them."""

log = structlog.get_logger(__name__)


class Schedules:
    """The reconciler of ControlPlaneSnapshotSchedules."""

    def __init__(self, environment: Environment) -> None:
        informers = environment.control.caches
        self._client = environment.control.client
        self._recorder = ComponentRecorder(environment.recorder, SCHEDULE_REPORTER)
        self.found = informers.get(CONTROL_PLANE_SNAPSHOT_SCHEDULE)
        self.snapshots = informers.get(CONTROL_PLANE_SNAPSHOT)
        self.restores = informers.get(CONTROL_PLANE_RESTORE)
        self.snapshots.index(BY_SCHEDULE, _schedule)

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
        key = Key(found.namespace, found.name)
        restores = self.restores.list(found.namespace)
        seen = Seen(
            found,
            self._client.clock.now(),
            snapshots=tuple(self.snapshots.by(BY_SCHEDULE, str(key))),
            needed=frozenset(each.spec.snapshot_name for each in restores if not each.status.ready),
            paused=left_alone(found.metadata.annotations),
            problem=summary(validate_schedule(found)),
        )
        plan = decide(seen)
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
            body = onto({"status": patch}, found.metadata)
            await self._client.patch(CONTROL_PLANE_SNAPSHOT_SCHEDULE, key, body, subresource="status")
        return Result.later(plan.wake)


def wire(environment: Environment) -> Controller:
    """The controller, with watches on everything that a decision reads."""
    schedules = Schedules(environment)
    controller = Controller(CONTROLLER, schedules, environment.clock, metrics=environment.metrics)

    def of_snapshot(change: Change[ControlPlaneSnapshot]) -> Iterable[Key]:
        names = [
            name for each in (change.before(), change.after()) if each is not None for name in _schedule(each)
        ]
        return {Key(change.key.namespace, name.partition("/")[2]) for name in names}

    controller.watches(schedules.found, only(lambda change: not status_alone(change)))
    return controller.watches(schedules.snapshots, of_snapshot)


def _schedule(snapshot: ControlPlaneSnapshot) -> tuple[str, ...]:
    name = _name(snapshot)
    return (str(Key(snapshot.namespace, name)),) if name else ()


def _name(snapshot: ControlPlaneSnapshot) -> str:
    return snapshot.metadata.labels.get(SCHEDULE_LABEL, "")
