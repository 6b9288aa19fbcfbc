"""Decide what is due for one ControlPlaneSnapshotSchedule, and which of its snapshots are too many. Pure.

Theory.      The name of a snapshot contains the minute for which it is created, so two processes that create
             it for the same time create one object. Of the times that passed while no program ran, a snapshot
             is taken for the last one. A new schedule begins with the first time after its creation.
Invariants.  Only complete snapshots count against ``keep``. The newest complete one is never deleted, nor one
             that an unfinished restore names. Deleting a schedule deletes no snapshot, because snapshots have
             no owner.
Called by    ``act``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from msgspec import structs

from kubewright.api.cluster.conditions import ERROR, READY, false_condition, true_condition, with_conditions
from kubewright.api.controlplane import schedules
from kubewright.api.controlplane.names import SCHEDULE_LABEL, Reason
from kubewright.api.controlplane.snapshots import (
    ControlPlaneSnapshot,
    ControlPlaneSnapshotSchedule,
    ControlPlaneSnapshotScheduleStatus,
    ControlPlaneSnapshotSpec,
)
from kubewright.api.controlplane.v1alpha4 import DELETE
from kubewright.api.meta import ObjectMeta
from kubewright.base import plan
from kubewright.base.delays import JUST_PAST
from kubewright.base.plan import Awaited
from kubewright.controlplanes.family import Pause, with_pause, without_pause

KEEP = 7


@dataclass(frozen=True, slots=True)
class Seen:
    """One schedule, and all around it.

    ``snapshots``  those that it has created
    ``needed``     the names of snapshots that unfinished restores name
    ``pause``      by what it, its control plane or its Cluster is paused
    ``problem``    how its spec breaks the rules of its kind, a sentence
    """

    schedule: ControlPlaneSnapshotSchedule
    now: datetime
    snapshots: Sequence[ControlPlaneSnapshot] = ()
    needed: frozenset[str] = frozenset()
    pause: Pause | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Create:
    """Create a snapshot."""

    snapshot: ControlPlaneSnapshot


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a snapshot beyond the number to keep."""

    snapshot: ControlPlaneSnapshot


Step = Create | Delete


@dataclass(frozen=True, slots=True)
class Plan(plan.Plan[Step]):
    """What to do now. ``due``: the time for which a snapshot is created; ``following``: the next one.

    ``problem``  why nothing can be planned, a sentence
    """

    due: datetime | None = None
    following: datetime | None = None
    problem: str = ""


def decide(seen: Seen) -> Plan:
    """The plan for what is seen now. An equal ``Seen`` gives an equal plan."""
    schedule = seen.schedule
    if schedule.metadata.deleting:
        return Plan(because="it is being deleted", silent=True)
    if seen.pause is not None:
        return Plan(because=f"paused: {seen.pause.because}", silent=seen.pause.moved)
    if seen.problem:
        mended = Awaited("a spec without mistakes", f"mend this: {seen.problem}")
        return Plan(because=seen.problem, problem=seen.problem, awaits=(mended,))
    if schedule.spec.suspend:
        return Plan(because="it is suspended")
    since = schedule.status.last_schedule_time or schedule.metadata.creation_timestamp or seen.now
    expression, zone = schedule.spec.schedule, schedule.spec.time_zone
    before, following = (find(expression, zone, seen.now) for find in (schedules.latest, schedules.following))
    steps: list[Step] = [Delete(each) for each in too_many(seen)]
    due = before if before is not None and before > since else None
    if due is not None:
        steps.append(Create(snapshot_of(schedule, due)))
    wake = following - seen.now + JUST_PAST if following is not None else None
    return Plan(tuple(steps), wake, "the next snapshot is due then", due=due, following=following)


def snapshot_of(schedule: ControlPlaneSnapshotSchedule, due: datetime) -> ControlPlaneSnapshot:
    """The snapshot for one time."""
    meta = ObjectMeta(
        name=f"{schedule.name}-{due:%Y%m%d%H%M}",
        namespace=schedule.namespace,
        labels={SCHEDULE_LABEL: schedule.name},
    )
    spec = ControlPlaneSnapshotSpec(
        control_plane_name=schedule.spec.control_plane_name,
        location=schedule.spec.location,
        deletion_policy=DELETE,
    )
    return ControlPlaneSnapshot(metadata=meta, spec=spec)


def too_many(seen: Seen) -> list[ControlPlaneSnapshot]:
    """The complete ones beyond ``keep``, and incomplete ones older than the newest complete one."""
    free = [each for each in seen.snapshots if not each.metadata.deleting and each.name not in seen.needed]
    complete = sorted((each for each in seen.snapshots if each.status.ready), key=_age, reverse=True)
    beyond = complete[max(1, KEEP if seen.schedule.spec.keep is None else seen.schedule.spec.keep) :]
    newest = _age(complete[0])[0] if complete else datetime.min.replace(tzinfo=UTC)
    late = [each for each in free if not each.status.ready and _age(each)[0] < newest]
    return [each for each in (*beyond, *late) if each in free]


def _age(snapshot: ControlPlaneSnapshot) -> tuple[datetime, str]:
    """A sort key by creation, so how long a snapshot took does not matter."""
    return snapshot.metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC), snapshot.name


def status_of(seen: Seen, plan: Plan) -> ControlPlaneSnapshotScheduleStatus:
    """The status, as it is to be written after the plan was performed."""
    before = seen.schedule.status
    if seen.pause is not None:
        return structs.replace(before, conditions=with_pause(before.conditions, seen.pause, seen.now))
    said = true_condition(READY)
    if plan.problem:
        said = false_condition(READY, Reason.INVALID_CONFIGURATION, ERROR, plan.problem)
    return structs.replace(
        before,
        last_schedule_time=plan.due or before.last_schedule_time,
        next_schedule_time=plan.following,
        conditions=with_conditions(without_pause(before.conditions), [said], seen.now),
        observed_generation=seen.schedule.metadata.generation,
    )
