"""By what objects of control planes are paused, and what their statuses say of it: nothing else changes."""

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs
from tests.unit.controlplanes.component_views import NOW, RUNNING, plane, with_meta

from kubewright.api.cluster.names import (
    DELETE_FOR_MOVE_ANNOTATION,
    MANAGED_BY_ANNOTATION,
    PAUSED_ANNOTATION,
)
from kubewright.api.cluster.v1beta1 import CLUSTER, Condition
from kubewright.api.controlplane.snapshots import (
    CONTROL_PLANE_RESTORE,
    CONTROL_PLANE_SNAPSHOT,
    CONTROL_PLANE_SNAPSHOT_SCHEDULE,
)
from kubewright.api.controlplane.v1alpha4 import (
    CONTROL_PLANE_USER,
    NESTED_CLUSTER,
    NestedAPIServerStatus,
    NestedControlPlane,
)
from kubewright.api.meta import ObjectMeta
from kubewright.controlplanes.component import decide as component
from kubewright.controlplanes.component import status as of_component
from kubewright.controlplanes.family import Family, Pause, pause_of
from kubewright.controlplanes.nestedcluster import decide as nestedcluster
from kubewright.controlplanes.plane import decide as of_plane
from kubewright.controlplanes.plane import seen as plane_seen
from kubewright.controlplanes.plane import status as plane_status
from kubewright.controlplanes.snapshots import restoring, schedules, taking
from kubewright.controlplanes.users import decide as users

PLAIN = ObjectMeta(name="front", namespace="team")
MARKED = structs.replace(PLAIN, annotations={PAUSED_ANNOTATION: ""})
MOVED = structs.replace(PLAIN, annotations={DELETE_FOR_MOVE_ANNOTATION: ""})
BOTH = structs.replace(PLAIN, annotations={DELETE_FOR_MOVE_ANNOTATION: "", PAUSED_ANNOTATION: ""})
CLUSTER_PAUSED = CLUSTER.from_plain({"metadata": {"name": "mine"}, "spec": {"paused": True}})
PAUSE = Pause("Cluster mine has spec.paused")
GONE = Pause("clusterctl has moved it to another management cluster", moved=True)


def marked(mark: str) -> NestedControlPlane:
    found = plane()
    return structs.replace(found, metadata=structs.replace(found.metadata, annotations={mark: ""}))


@pytest.mark.parametrize(
    ("found", "pause"),
    [
        pytest.param(pause_of(PLAIN, plane(), CLUSTER.from_plain({})), None, id="nothing pauses it"),
        pytest.param(pause_of(PLAIN), None, id="it belongs to nothing yet"),
        pytest.param(
            pause_of(MARKED, plane()), Pause("it has the annotation cluster.x-k8s.io/paused"), id="its annotation"
        ),
        pytest.param(
            pause_of(PLAIN, marked(PAUSED_ANNOTATION)),
            Pause("NestedControlPlane demo has the annotation cluster.x-k8s.io/paused"),
            id="the annotation of its control plane",
        ),
        pytest.param(pause_of(PLAIN, plane(), CLUSTER_PAUSED), PAUSE, id="its Cluster"),
        pytest.param(pause_of(MOVED), GONE, id="it was moved"),
        pytest.param(pause_of(BOTH, plane(), CLUSTER_PAUSED), GONE, id="it was moved, and is paused for that"),
        pytest.param(pause_of(MARKED, marked(DELETE_FOR_MOVE_ANNOTATION)), GONE, id="its control plane was moved"),
    ],
)  # fmt: skip
def test_by_what_it_is_paused(found, pause):
    assert found == pause


KEPT = Condition(type="Ready", status="True", last_transition_time=NOW)
STALE = Condition(type="Paused", status="True", reason="Paused", last_transition_time=NOW)


def status(found, **fields):
    return structs.replace(found, status=structs.replace(found.status, **fields))


def a_component(pause, *conditions):
    told = NestedAPIServerStatus(ready=True, conditions=conditions)
    seen = replace(RUNNING, component=structs.replace(RUNNING.component, status=told), pause=pause)
    return seen.component.status, component.decide(seen), of_component.status_of(seen)


def a_plane(pause, *conditions):
    found = status(plane(), ready=True, conditions=conditions)
    seen = plane_seen.Seen(Family(found), NOW, pause=pause)
    return found.status, of_plane.decide(seen), plane_status.status_of(seen)


def a_nested_cluster(pause, *conditions):
    found = status(NESTED_CLUSTER.from_plain({"metadata": {"name": "mine"}}), conditions=conditions)
    seen = nestedcluster.Seen(found, NOW, pause=pause)
    return found.status, nestedcluster.decide(seen), nestedcluster.status_of(seen)


def a_user(pause, *conditions):
    found = status(CONTROL_PLANE_USER.from_plain({"metadata": {"name": "eve"}}), conditions=conditions)
    seen = users.Seen(found, NOW, Family(plane()), pause)
    plan = users.decide(seen)
    return found.status, plan, users.status_of(seen, plan)


def a_snapshot(pause, *conditions):
    found = status(CONTROL_PLANE_SNAPSHOT.from_plain({"metadata": {"name": "first"}}), conditions=conditions)
    seen = taking.Seen(found, NOW, pause=pause)
    return found.status, taking.decide(seen), taking.status_of(seen, "a/file")


def a_restore(pause, *conditions):
    found = status(CONTROL_PLANE_RESTORE.from_plain({"metadata": {"name": "back"}}), conditions=conditions)
    seen = restoring.Seen(found, NOW, pause=pause)
    return found.status, restoring.decide(seen), restoring.status_of(seen)


def a_schedule(pause, *conditions):
    plain = {"metadata": {"name": "nightly"}, "spec": {"schedule": "0 1 * * *"}}
    found = status(CONTROL_PLANE_SNAPSHOT_SCHEDULE.from_plain(plain), conditions=conditions)
    seen = schedules.Seen(found, NOW, pause=pause)
    plan = schedules.decide(seen)
    return found.status, plan, schedules.status_of(seen, plan)


KINDS = pytest.mark.parametrize(
    "kind", [a_component, a_plane, a_nested_cluster, a_user, a_snapshot, a_restore, a_schedule]
)


@KINDS
def test_while_it_is_paused_only_the_condition_changes(kind):
    before, plan, after = kind(PAUSE, KEPT)
    assert (plan.steps, plan.because) == ((), "paused: Cluster mine has spec.paused")
    told = Condition(
        type="Paused", status="True", reason="Paused", message=PAUSE.because, last_transition_time=NOW
    )
    assert after == structs.replace(before, conditions=(KEPT, told))


@KINDS
def test_after_the_pause_the_condition_is_gone(kind):
    _, _, after = kind(None, KEPT, STALE)
    assert "Paused" not in {each.type for each in after.conditions}


@pytest.mark.parametrize("kind", [a_component, a_plane, a_nested_cluster, a_snapshot, a_restore, a_schedule])
def test_the_status_of_one_that_was_moved_is_not_written(kind):
    assert kind(PAUSE)[1].silent is False
    assert kind(GONE)[1].silent is True


def test_a_paused_one_of_another_program_is_not_written():
    foreign = with_meta(RUNNING.component, annotations={MANAGED_BY_ANNOTATION: "eco"})
    assert component.decide(replace(RUNNING, component=foreign, pause=PAUSE)).silent


def test_a_pause_that_lasts_writes_nothing_again():
    _, _, once = a_component(PAUSE, KEPT)
    later = replace(
        RUNNING,
        component=structs.replace(RUNNING.component, status=once),
        pause=PAUSE,
        now=NOW + timedelta(days=1),
    )
    assert of_component.status_of(later) == once
