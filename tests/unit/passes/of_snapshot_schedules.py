"""Passes over a ControlPlaneSnapshotSchedule: what enqueues it, and which snapshots are made and deleted."""

from datetime import timedelta

from tests.unit.looks import planes
from tests.unit.looks.of_snapshot_schedules import a_schedule, of_schedule
from tests.unit.looks.planes import There, a_cluster, a_plane, a_restore, a_snapshot, key, staged

from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.api.controlplane.snapshots import (
    CONTROL_PLANE_RESTORE,
    CONTROL_PLANE_SNAPSHOT,
    CONTROL_PLANE_SNAPSHOT_SCHEDULE,
)
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE
from kubewright.base.delays import JUST_PAST
from kubewright.controlplanes.snapshots.wiring import wire_schedules as wire
from kubewright.testing.looks import Write
from kubewright.testing.passes import Scene, Stage, changed, gone, put

PATH = CONTROL_PLANE_SNAPSHOT_SCHEDULE.resource.path(planes.NS, "s")
SNAPSHOTS = CONTROL_PLANE_SNAPSHOT.resource.path(planes.NS)


def stage(*there: There) -> Stage:
    return staged(wire, *there)


def complete(name: str, day: int) -> There:
    return of_schedule(name, status={"ready": True}, creationTimestamp=f"2029-12-{day}T00:00:00Z")


def deletes(name: str) -> Write:
    body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": name}}
    return Write("DELETE", f"{SNAPSHOTS}/{name}", body)


QUIET = a_schedule(of={"annotations": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}})
ONE = a_schedule(keep=1, of={"creationTimestamp": "2030-01-01T00:00:00Z"})
OLD, NEW = complete("old", 30), complete("new", 31)
NEEDS = a_restore(snapshotName="old")
MADE = {
    "apiVersion": planes.NESTED,
    "kind": "ControlPlaneSnapshot",
    "metadata": {
        "name": "s-203001010000",
        "namespace": planes.NS,
        "labels": {"controlplane.cluster.x-k8s.io/schedule": "s"},
    },
    "spec": {"controlPlaneName": "p", "location": {}, "deletionPolicy": "Delete"},
    "status": {},
}
SAID = {
    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"}],
    "lastScheduleTime": "2030-01-01T00:00:00Z",
    "nextScheduleTime": "2030-01-01T01:00:00Z",
}
DUE = a_schedule(of={"creationTimestamp": "2029-12-31T23:30:00Z"})
STATUS = Write(
    "PATCH", f"{PATH}/status", {"metadata": {"uid": "s", "resourceVersion": "101"}, "status": SAID}
)
SCENES = (
    Scene(
        "a snapshot is due: it is made, and then the status says for when",
        stage(DUE, a_plane()),
        writes=(Write("POST", SNAPSHOTS, MADE), STATUS),
        because={"n/s": "the next snapshot is due then"},
        due={"n/s": timedelta(hours=1) + JUST_PAST},
    ),
    Scene(
        "the snapshot that is due was made by an earlier pass",
        stage(DUE, of_schedule("s-203001010000")),
        writes=(Write("POST", SNAPSHOTS, MADE), STATUS),
        because={"n/s": "the next snapshot is due then"},
    ),
    Scene(
        "it was moved: nothing is written",
        stage(QUIET),
        wakes={"n/s": "ControlPlaneSnapshotSchedule n/s added"},
        because={"n/s": "paused: clusterctl has moved it to another management cluster"},
    ),
    Scene(
        "a restore that needed the oldest snapshot is complete: now that goes",
        stage(ONE, OLD, NEW, NEEDS),
        changed(CONTROL_PLANE_RESTORE, key("back"), status={"ready": True}),
        {"n/s": "ControlPlaneSnapshot n/old gone"},  # enqueued by the restore, and again by what it deletes
        writes=(deletes("old"),),
    ),
    Scene(
        "a restore that needed the oldest snapshot is gone: now that goes",
        stage(ONE, OLD, NEW, NEEDS),
        gone(CONTROL_PLANE_RESTORE, key("back")),
        writes=(deletes("old"),),
    ),
    Scene(
        "a restore names another snapshot now: now the oldest goes",
        stage(ONE, OLD, NEW, NEEDS),
        changed(CONTROL_PLANE_RESTORE, key("back"), spec={"snapshotName": "new"}),
        writes=(deletes("old"),),
    ),
    Scene(
        "a restore that needs one of its snapshots comes",
        stage(QUIET, OLD),
        put(*NEEDS),
        {"n/s": "ControlPlaneRestore n/back added"},
    ),
    Scene(
        "a restore goes on, which still needs its snapshot",
        stage(QUIET, OLD, NEEDS),
        changed(CONTROL_PLANE_RESTORE, key("back"), status={"phase": "Stopping"}),
        {},
    ),
    Scene("a restore of no schedule's snapshot comes", stage(QUIET, a_snapshot("old")), put(*NEEDS), {}),
    Scene(
        "it changes",
        stage(QUIET),
        changed(CONTROL_PLANE_SNAPSHOT_SCHEDULE, key("s"), metadata={"labels": {"a": "b"}}),
        {"n/s": "ControlPlaneSnapshotSchedule n/s changed"},
    ),
    Scene(
        "its status changes",
        stage(QUIET),
        changed(CONTROL_PLANE_SNAPSHOT_SCHEDULE, key("s"), status={"nextScheduleTime": None}),
        {},
    ),
    Scene("it is gone", stage(QUIET), gone(CONTROL_PLANE_SNAPSHOT_SCHEDULE, key("s")), {}),
    Scene("one of its snapshots comes", stage(QUIET), put(*OLD), {"n/s": "ControlPlaneSnapshot n/old added"}),
    Scene(
        "one of its snapshots changes",
        stage(QUIET, OLD),
        changed(CONTROL_PLANE_SNAPSHOT, key("old"), status={"ready": False}),
        {"n/s": "ControlPlaneSnapshot n/old changed"},
    ),
    Scene("another snapshot comes", stage(QUIET), put(*a_snapshot()), {}),
    Scene("its control plane comes", stage(QUIET), put(*a_plane()), {"n/s": "NestedControlPlane n/p added"}),
    Scene("another control plane comes", stage(QUIET), put(*a_plane("q")), {}),
    Scene(
        "the status of its control plane changes, which it does not read",
        stage(QUIET, a_plane()),
        changed(NESTED_CONTROL_PLANE, key("p"), status={"ready": True}),
        {},
    ),
    Scene(
        "the spec of its Cluster changes",
        stage(QUIET, a_plane(), a_cluster()),
        changed(CLUSTER, key("c"), spec={"paused": True}),
        {"n/s": "Cluster n/c changed"},
    ),
)
