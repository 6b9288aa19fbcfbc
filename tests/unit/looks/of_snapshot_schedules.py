"""Scenes of a ControlPlaneSnapshotSchedule: what the caches hold, and what the look must say of it."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from kubewright.api.controlplane.snapshots import CONTROL_PLANE_SNAPSHOT_SCHEDULE
from kubewright.controlplanes.family import Pause
from kubewright.controlplanes.snapshots.act import Schedules
from kubewright.controlplanes.snapshots.schedules import Seen
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Look, Named, Scene

from . import planes
from .planes import Planes, There, a_cluster, a_plane, a_restore, a_snapshot


def a_schedule(status: dict[str, Any] | None = None, **spec: Any) -> There:
    of = spec.pop("of", {})
    given = {"controlPlaneName": "p", "schedule": "0 * * * *", **spec}
    made = {"metadata": planes.meta("s", **of), "spec": given, "status": status or {}}
    return CONTROL_PLANE_SNAPSHOT_SCHEDULE, CONTROL_PLANE_SNAPSHOT_SCHEDULE.from_plain(made)


def of_schedule(name: str, schedule: str = "s", status: Any = None, **of: Any) -> There:
    """A snapshot that a schedule has created."""
    return a_snapshot(name, status, of={"labels": {"controlplane.cluster.x-k8s.io/schedule": schedule}, **of})


def scene(of: There, *there: There, at: float = 0) -> Callable[[], Awaitable[Seen]]:
    async def look() -> Seen:
        shelf = Planes()
        reconciler = Schedules(shelf.environment, shelf.in_caches)
        await shelf.holds(*there)
        shelf.clock.passed = at
        return await reconciler.look(of[1])

    return look


FOUND = a_schedule()
LOOK = Look(
    "controlplanes.snapshots.act",
    Seen,
    (
        Scene(
            "a schedule without anything",
            scene(FOUND),
            {"schedule": FOUND[1], "now": BEGIN, "snapshots": (), "needed": frozenset(), "pause": None}
            | {"problem": ""},
        ),
        Scene(
            "its snapshots, and restores that need some",
            scene(
                a_schedule(keep=3),
                of_schedule("one"),
                of_schedule("two"),
                of_schedule("three", "other"),
                a_snapshot("by-hand"),
                a_restore("waits", snapshotName="one"),
                a_restore("done", {"ready": True}, snapshotName="two"),
                a_restore("file", controlPlaneName="p", file={"name": "n/p/one-1"}),
                at=60,
            ),
            {"schedule": a_schedule(keep=3)[1], "now": BEGIN + timedelta(minutes=1)}
            | {"snapshots": (Named("one"), Named("two")), "needed": frozenset(("one",))},
        ),
        Scene(
            "it cannot be read when it is due",
            scene(a_schedule(schedule="often")),
            {
                "problem": 'spec.schedule: Invalid value: "often": a schedule has five fields: minute, hour, '
                "day of month, month, day of week"
            },
        ),
        Scene(
            "its Cluster is paused",
            scene(FOUND, a_plane(), a_cluster(paused=True)),
            {"pause": Pause("Cluster c has spec.paused")},
        ),
        Scene(
            "its control plane is paused",
            scene(FOUND, a_plane(of=planes.PAUSED)),
            {"pause": Pause("NestedControlPlane p has the annotation cluster.x-k8s.io/paused")},
        ),
    ),
)
