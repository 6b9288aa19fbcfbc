"""What comes next for a restore, and for a snapshot: decisions over values."""

from datetime import UTC, datetime, timedelta

import pytest

from kubewright.api.controlplane.names import FINALIZER, RESTORING_ANNOTATION, Component
from kubewright.api.controlplane.v1alpha4 import (
    CONTROL_PLANE_RESTORE,
    CONTROL_PLANE_SNAPSHOT,
    NESTED_API_SERVER,
    NESTED_CONTROL_PLANE,
    NESTED_CONTROLLER_MANAGER,
    NESTED_ETCD,
)
from kubewright.controlplanes.family import Family
from kubewright.controlplanes.hosting.contract import Replaced
from kubewright.controlplanes.snapshots.files import Taken
from kubewright.controlplanes.snapshots.restoring import decide as restoring
from kubewright.controlplanes.snapshots.taking import decide as taking

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KINDS = {
    Component.ETCD: NESTED_ETCD,
    Component.API_SERVER: NESTED_API_SERVER,
    Component.CONTROLLER_MANAGER: NESTED_CONTROLLER_MANAGER,
}
ANY = "2025-12-31T00:00:00Z"


def family(held="", running=(), ready=False, **plane):
    annotations = {RESTORING_ANNOTATION: held} if held else {}
    found = NESTED_CONTROL_PLANE.from_plain(
        {"metadata": {"name": "demo", "annotations": annotations, **plane}}
    )
    components = {
        name: kind.from_plain(
            {
                "metadata": {"name": f"demo-{name}"},
                "status": {"replicas": int(name in running), "ready": ready},
            }
        )
        for name, kind in KINDS.items()
    }
    return Family(found, None, components)


def a_restore(status=None, **meta):
    meta = {"name": "back", "finalizers": [FINALIZER], **meta}
    return CONTROL_PLANE_RESTORE.from_plain(
        {"metadata": meta, "spec": {"snapshotName": "first"}, "status": status or {}}
    )


def of_a_file():
    spec = {"controlPlaneName": "demo", "file": {"name": "default/demo/first-1"}}
    meta = {"name": "back", "finalizers": [FINALIZER]}
    return CONTROL_PLANE_RESTORE.from_plain({"metadata": meta, "spec": spec})


def a_snapshot(ready=True, policy="", **meta):
    spec = {"controlPlaneName": "demo", "deletionPolicy": policy}
    meta = {"name": "first", "finalizers": [FINALIZER], **meta}
    return CONTROL_PLANE_SNAPSHOT.from_plain({"metadata": meta, "spec": spec, "status": {"ready": ready}})


def seen(**changes):
    values = {"found": a_restore(), "now": NOW, "snapshot": a_snapshot(), "family": family(), **changes}
    return restoring.Seen(**values)


STEPS = {
    "a new one gets its finalizer and does nothing else": (
        seen(found=a_restore(finalizers=[])),
        [restoring.AddFinalizer()],
    ),
    "the file is verified before anything stops": (seen(), [restoring.Verify(), restoring.Stop()]),
    "while a component runs it waits": (seen(family=family("back", [Component.ETCD])), []),
    "when nothing runs the data is replaced": (seen(family=family("back")), [restoring.ReplaceData()]),
    "what is replaced is released, and not replaced again": (
        seen(found=a_restore({"replacedAt": ANY}), family=family("back")),
        [restoring.Release()],
    ),
    "what is replaced and released is done": (seen(found=a_restore({"replacedAt": ANY})), []),
    "one that is replaced is not held up by a snapshot that is gone": (
        seen(found=a_restore({"replacedAt": ANY}), snapshot=None, family=family("back")),
        [restoring.Release()],
    ),
    "it waits for another restore": (seen(family=family("other")), []),
    "it waits for a snapshot that is not complete": (seen(snapshot=a_snapshot(ready=False)), []),
    "it waits for a snapshot that is not there": (seen(snapshot=None), []),
    "a file that no snapshot stands for is verified in the same way": (
        seen(found=of_a_file(), snapshot=None),
        [restoring.Verify(), restoring.Stop()],
    ),
    "it waits for a control plane that is not there": (seen(family=None), []),
    "nothing stops for what cannot be replaced": (seen(unable="it is elsewhere"), []),
    "nothing is done while it is paused": (seen(paused=True), []),
    "one that is deleted before it begins goes": (
        seen(found=a_restore(deletionTimestamp=ANY)),
        [restoring.RemoveFinalizer()],
    ),
    "one that is deleted while the control plane is stopped lets it start": (
        seen(found=a_restore(deletionTimestamp=ANY), family=family("back"), snapshot=None),
        [restoring.Release(), restoring.RemoveFinalizer()],
    ),
    "one that is deleted lets go of nothing that another one stopped": (
        seen(found=a_restore(deletionTimestamp=ANY), family=family("other")),
        [restoring.RemoveFinalizer()],
    ),
}


@pytest.mark.parametrize(("view", "steps"), STEPS.values(), ids=STEPS)
def test_the_steps_of_a_restore(view, steps):
    assert list(restoring.decide(view).steps) == steps


@pytest.mark.parametrize(
    ("view", "phase", "ready"),
    [
        (seen(), "Pending", False),
        (seen(family=family("back", [Component.ETCD])), "Stopping", False),
        (seen(family=family("back")), "Replacing", False),
        (seen(family=family("back"), replaced=Replaced(waits="a pod has no node")), "Replacing", False),
        (seen(family=family("back"), replaced=Replaced("/there")), "Starting", False),
        (seen(found=a_restore({"replacedAt": ANY}), family=family("back", ready=True)), "Starting", False),
        (seen(found=a_restore({"replacedAt": ANY}), family=family()), "Starting", False),
        (seen(found=a_restore({"replacedAt": ANY}), family=family(ready=True)), "Complete", True),
        (seen(found=a_restore({"replacedAt": ANY, "ready": True}), family=family()), "Complete", True),
    ],
    ids=[
        "not begun",
        "stopping",
        "replacing",
        "the host waits",
        "replaced in this pass",
        "not released",
        "starting",
        "running",
        "complete for good",
    ],
)
def test_what_the_status_of_a_restore_says(view, phase, ready):
    status = restoring.status_of(view)
    assert (status.phase, status.ready) == (phase, ready)


@pytest.mark.parametrize(
    ("held", "running", "stops"),
    [
        ("", [], []),
        ("back", [*Component], [Component.CONTROLLER_MANAGER]),
        (
            "back",
            [Component.ETCD, Component.API_SERVER],
            [Component.API_SERVER, Component.CONTROLLER_MANAGER],
        ),
        ("back", [Component.ETCD], [*Component]),
    ],
    ids=["no restore", "first the controllers", "then the API server", "then etcd"],
)
def test_components_stop_for_a_restore_in_the_reverse_of_their_order(held, running, stops):
    needed_by = {
        Component.ETCD: Component.API_SERVER,
        Component.API_SERVER: Component.CONTROLLER_MANAGER,
        Component.CONTROLLER_MANAGER: None,
    }
    found = family(held, running)
    assert [each for each in Component if found.stopped_for(needed_by[each])] == stops


def taken(**changes):
    return taking.Seen(**{"found": a_snapshot(ready=False), "now": NOW, **changes})


OF_SNAPSHOTS = {
    "a new one gets its finalizer": (
        taken(found=a_snapshot(False, finalizers=[])),
        [taking.AddFinalizer()],
    ),
    "one with a finalizer is taken": (taken(), [taking.Take()]),
    "one that is complete is never taken again": (taken(found=a_snapshot()), []),
    "it waits for its control plane": (taken(waiting="there is none"), []),
    "one with a broken spec is not taken": (taken(problem="no"), []),
    "its file stays when it is deleted": (
        taken(found=a_snapshot(deletionTimestamp=ANY)),
        [taking.RemoveFinalizer()],
    ),
    "its file goes before it where it says so": (
        taken(found=a_snapshot(policy="Delete", deletionTimestamp="2025-12-31T23:59:59Z")),
        [taking.DeleteFile(), taking.RemoveFinalizer()],
    ),
    "it goes without its file when that could not be deleted for long": (
        taken(found=a_snapshot(policy="Delete", deletionTimestamp=ANY)),
        [taking.RemoveFinalizer()],
    ),
}


@pytest.mark.parametrize(("view", "steps"), OF_SNAPSHOTS.values(), ids=OF_SNAPSHOTS)
def test_the_steps_of_a_snapshot(view, steps):
    assert list(taking.decide(view).steps) == steps


def test_a_snapshot_that_was_taken_says_how_it_is_recognized():
    status = taking.status_of(taken(taken=Taken("etcd", "3.6.8", 7, "abc")), "a/file")
    assert (status.ready, status.file, status.size, status.sha256) == (True, "a/file", 7, "abc")
    assert status.taken_at == NOW
    later = taking.Seen(a_snapshot(), NOW + timedelta(hours=1), failed="")
    assert taking.status_of(later, "a/file").taken_at is None
