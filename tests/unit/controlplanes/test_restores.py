"""What comes next for a restore, and for a snapshot: decisions over values."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs, to_builtins

from kubewright.api.controlplane.names import FINALIZER, KEEP_DATA_ANNOTATION, RESTORING_ANNOTATION, Component
from kubewright.api.controlplane.snapshots import CONTROL_PLANE_RESTORE, CONTROL_PLANE_SNAPSHOT
from kubewright.api.controlplane.v1alpha4 import (
    NESTED_API_SERVER,
    NESTED_CONTROL_PLANE,
    NESTED_CONTROLLER_MANAGER,
    NESTED_ETCD,
)
from kubewright.base import delays
from kubewright.base.errors import Backoff, InvalidInput, KubewrightError
from kubewright.base.plan import Plan
from kubewright.controlplanes.family import Family, Pause
from kubewright.controlplanes.hosting.contract import Replaced
from kubewright.controlplanes.snapshots import restoring, taking
from kubewright.controlplanes.snapshots.act import Once
from kubewright.controlplanes.snapshots.files import StoreFailed, Taken
from kubewright.testing.acts import Told
from kubewright.testing.looks import Shelf
from kubewright.wire.gvk import Key

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KINDS = {
    Component.ETCD: NESTED_ETCD,
    Component.API_SERVER: NESTED_API_SERVER,
    Component.CONTROLLER_MANAGER: NESTED_CONTROLLER_MANAGER,
}
ANY = "2025-12-31T00:00:00Z"


SOURCE = {"name": "default/demo/first-1", "sha256": "abc"}
BEGUN = {"source": SOURCE}


def family(held="", running=(), ready=False, ending=(), kept=False, **plane):
    annotations = {RESTORING_ANNOTATION: held} if held else {}
    found = NESTED_CONTROL_PLANE.from_plain(
        {"metadata": {"name": "demo", "annotations": annotations, **plane}}
    )
    components = {
        name: kind.from_plain(
            {
                "metadata": {
                    "name": f"demo-{name}",
                    **({"deletionTimestamp": ANY} if name in ending else {}),
                    **({"annotations": {KEEP_DATA_ANNOTATION: ""}} if kept else {}),
                },
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
    "when nothing runs the file is written into the status before any data is replaced": (
        seen(family=family("back")),
        [restoring.Begin()],
    ),
    "then the data is replaced": (
        seen(found=a_restore(BEGUN), family=family("back")),
        [restoring.ReplaceData()],
    ),
    "one that has begun needs no snapshot any more": (
        seen(found=a_restore(BEGUN), snapshot=None, family=family("back")),
        [restoring.ReplaceData()],
    ),
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
    "nothing is done while it is paused": (seen(pause=Pause("a user wants it")), []),
    "one that is deleted before it begins goes": (
        seen(found=a_restore(deletionTimestamp=ANY)),
        [restoring.RemoveFinalizer()],
    ),
    "one that is deleted while the control plane is stopped lets it start": (
        seen(found=a_restore(deletionTimestamp=ANY), family=family("back"), snapshot=None),
        [restoring.Release(), restoring.RemoveFinalizer()],
    ),
    "one that is deleted after it has begun replaces the data first": (
        seen(found=a_restore(BEGUN, deletionTimestamp=ANY), family=family("back")),
        [restoring.ReplaceData()],
    ),
    "one that is deleted after it has begun waits until its data can be replaced": (
        seen(found=a_restore(BEGUN, deletionTimestamp=ANY), family=family("back"), unable="it lacks etcdutl"),
        [],
    ),
    "one that is deleted and has replaced the data lets the control plane start": (
        seen(found=a_restore({**BEGUN, "replacedAt": ANY}, deletionTimestamp=ANY), family=family("back")),
        [restoring.Release(), restoring.RemoveFinalizer()],
    ),
    "one that is deleted with its etcd has nothing to finish": (
        seen(found=a_restore(BEGUN, deletionTimestamp=ANY), family=family("back", ending=[Component.ETCD])),
        [restoring.Release(), restoring.RemoveFinalizer()],
    ),
    "data that its etcd leaves behind is replaced to the end": (
        seen(
            found=a_restore(BEGUN, deletionTimestamp=ANY),
            family=family("back", ending=[Component.ETCD], kept=True),
        ),
        [restoring.ReplaceData()],
    ),
    "even where the control plane is deleted": (
        seen(found=a_restore(BEGUN), family=family("back", deletionTimestamp=ANY, kept=True)),
        [restoring.ReplaceData()],
    ),
    "one that has not begun lets a control plane end that is deleted": (
        seen(family=family("back", deletionTimestamp=ANY, kept=True)),
        [restoring.Release()],
    ),
    "one that is deleted with its control plane has nothing to finish": (
        seen(found=a_restore(BEGUN, deletionTimestamp=ANY), family=family("back", deletionTimestamp=ANY)),
        [restoring.Release(), restoring.RemoveFinalizer()],
    ),
    "one that is deleted after its control plane was let start by hand goes": (
        seen(found=a_restore(BEGUN, deletionTimestamp=ANY), family=family()),
        [restoring.RemoveFinalizer()],
    ),
    "one that is deleted while it is paused waits": (
        seen(
            found=a_restore(BEGUN, deletionTimestamp=ANY),
            family=family("back"),
            pause=Pause("a user wants it"),
        ),
        [],
    ),
    "what a restore has stopped that is gone, another one takes over": (
        seen(family=family("other"), abandoned=True),
        [restoring.Verify(), restoring.Stop()],
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
        (seen(family=family("back")), "Stopping", False),
        (seen(family=family("back"), begun=True), "Replacing", False),
        (seen(found=a_restore(BEGUN), family=family("back")), "Replacing", False),
        (seen(family=family("back"), begun=True, replaced=Replaced(waits="no node")), "Replacing", False),
        (seen(family=family("back"), replaced=Replaced("/there")), "Starting", False),
        (seen(found=a_restore({"replacedAt": ANY}), family=family("back", ready=True)), "Starting", False),
        (seen(found=a_restore({"replacedAt": ANY}), family=family()), "Starting", False),
        (seen(found=a_restore({"replacedAt": ANY}), family=family(ready=True)), "Complete", True),
        (seen(found=a_restore({"replacedAt": ANY, "ready": True}), family=family()), "Complete", True),
    ],
    ids=[
        "not begun",
        "stopping",
        "stopped, and not begun",
        "begun in this pass",
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


def test_a_restore_says_by_which_file_it_replaces_and_goes_on_with_that_one():
    snapshot = structs.replace(
        a_snapshot(), status=structs.replace(a_snapshot().status, file=SOURCE["name"], sha256="abc")
    )
    status = restoring.status_of(seen(snapshot=snapshot, family=family("back"), begun=True))
    assert to_builtins(status.source) == {**SOURCE, "location": {}}
    changed = structs.replace(a_restore(), status=status)
    assert restoring.source_of(changed, a_snapshot()).file == SOURCE["name"]


def test_a_restore_that_is_deleted_says_that_it_is_finished_first():
    view = seen(
        found=a_restore(BEGUN, deletionTimestamp=ANY),
        family=family("back"),
        replaced=Replaced(waits="demo-etcd-1: its pod is at work"),
    )
    (said,) = restoring.status_of(view).conditions
    told = ", and this restore, which is deleted, goes when that is complete: demo-etcd-1: its pod is at work"
    assert said.message == f"the data is being replaced{told}"


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
    "its file stays while a restore replaces data by it": (
        taken(found=a_snapshot(policy="Delete", deletionTimestamp="2025-12-31T23:59:59Z"), needed_by="back"),
        [],
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
    status = taking.status_of(taken(taken=Taken("etcd", "3.6.8", 7, "abc", "demo-etcd-1")), "a/file")
    assert (status.ready, status.file, status.size, status.sha256) == (True, "a/file", 7, "abc")
    assert status.member == "demo-etcd-1"
    assert status.taken_at == NOW
    later = taking.Seen(a_snapshot(), NOW + timedelta(hours=1), failed="")
    assert taking.status_of(later, "a/file").taken_at is None


class Failing(Once):
    """The reconciler of restores of which every step fails."""

    def __init__(self, shelf, told, found, error):
        super().__init__(shelf.client, shelf.caches.get(CONTROL_PLANE_RESTORE), told)
        self.found, self.error = found, error

    def get(self, key):
        return self.found

    async def look(self, found):
        return restoring.Seen(found, NOW)

    def decide(self, seen):
        return Plan((restoring.ReplaceData(),), because="its data is replaced")

    def act(self, seen, step, outcome):
        raise self.error

    def status(self, seen, plan, outcome):
        return structs.replace(seen.found.status, former_data=seen.failed)

    def news(self, seen, plan, status):
        return ()


@pytest.mark.parametrize(
    ("error", "retry"),
    [
        pytest.param(InvalidInput("no etcdutl"), delays.MEDIUM, id="no change of an object ends it"),
        pytest.param(StoreFailed("no store"), Backoff(), id="it may end by itself"),
    ],
)
async def test_a_step_that_fails_is_told_and_comes_again_by_itself(error, retry):
    """A control plane is stopped meanwhile: what a user mends on a machine starts it, without a change."""
    shelf, told, found = Shelf(), Told(), a_restore(namespace="n", uid="r", resourceVersion="101")
    shelf.lay(CONTROL_PLANE_RESTORE, found)
    with pytest.raises(KubewrightError, match=str(error)) as failed:
        await Failing(shelf, told, found, error).reconcile(Key("n", "back"))
    assert failed.value.retry == retry
    assert told.events == [("back", "Failed", str(error), True)]
    assert shelf.at(CONTROL_PLANE_RESTORE, Key("n", "back"))["status"]["formerData"] == str(error)
