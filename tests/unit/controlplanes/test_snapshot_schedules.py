"""When a schedule creates a snapshot, and which it deletes."""

from datetime import UTC, datetime, timedelta

import pytest

from kubewright.api.controlplane.snapshots import CONTROL_PLANE_SNAPSHOT, CONTROL_PLANE_SNAPSHOT_SCHEDULE
from kubewright.controlplanes.snapshots.schedules import Create, Delete, Seen, decide, snapshot_of, status_of


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


NOW = at("2026-03-10T12:00:30")


def schedule(created="2026-03-01T00:00:00Z", last=None, **spec):
    status = {} if last is None else {"lastScheduleTime": last}
    return CONTROL_PLANE_SNAPSHOT_SCHEDULE.from_plain(
        {
            "metadata": {"name": "nightly", "namespace": "default", "creationTimestamp": created},
            "spec": {"schedule": "0 * * * *", "controlPlaneName": "demo", **spec},
            "status": status,
        }
    )


def snapshot(name, hour, *, ready=True):
    taken = {"ready": True, "takenAt": f"2026-03-10T{hour:02}:00:05Z"} if ready else {}
    meta = {"name": name, "namespace": "default", "creationTimestamp": f"2026-03-10T{hour:02}:00:00Z"}
    return CONTROL_PLANE_SNAPSHOT.from_plain({"metadata": meta, "status": taken})


def test_what_breaks_the_rules_is_told_and_creates_nothing():
    seen = Seen(schedule(schedule="often"), NOW, problem="spec.schedule: it cannot be read")
    plan = decide(seen)
    assert plan.steps == ()
    assert [each.message for each in status_of(seen, plan).conditions] == [seen.problem]


@pytest.mark.parametrize(
    ("spec", "now", "due", "following"),
    [
        ({}, "2026-03-10T12:00:30", "2026-03-10T12:00:00", "2026-03-10T13:00:00"),
        ({}, "2026-03-10T12:00:00", "2026-03-10T12:00:00", "2026-03-10T13:00:00"),
        (
            {"schedule": "0 3 * * *", "timeZone": "Europe/Berlin"},
            "2026-07-10T12:00:00",
            "2026-07-10T01:00:00",
            "2026-07-11T01:00:00",
        ),
        (
            {"schedule": "30 2 * * *", "timeZone": "Europe/Berlin"},
            "2026-10-25T01:10:00",
            "2026-10-25T00:30:00",
            "2026-10-26T01:30:00",
        ),
    ],
    ids=["within the minute", "on the second", "in summer", "in the hour that comes twice, once"],
)
def test_the_times_of_a_schedule(spec, now, due, following):
    plan = decide(Seen(schedule(created="2026-01-01T00:00:00Z", **spec), at(now)))
    assert (plan.due, plan.following) == (at(due), at(following))


@pytest.mark.parametrize(
    ("found", "due"),
    [
        (schedule(), "2026-03-10T12:00:00"),
        (schedule(last="2026-03-10T11:00:00Z"), "2026-03-10T12:00:00"),
        (schedule(last="2026-03-01T11:00:00Z"), "2026-03-10T12:00:00"),
        (schedule(last="2026-03-10T12:00:00Z"), None),
        (schedule(created="2026-03-10T12:00:10Z"), None),
        (schedule(suspend=True), None),
    ],
    ids=[
        "none was taken yet",
        "the next is due",
        "of many that passed only the last",
        "none is due",
        "it was created after its last time",
        "it is suspended",
    ],
)
def test_what_is_due(found, due):
    plan = decide(Seen(found, NOW))
    assert plan.due == (at(due) if due else None)
    assert [step.snapshot.name for step in plan.steps] == (["nightly-202603101200"] if due else [])


def test_it_looks_again_just_after_the_next_time():
    plan = decide(Seen(schedule(last="2026-03-10T12:00:00Z"), NOW))
    assert plan.wake is not None
    assert timedelta(0) < NOW + plan.wake - at("2026-03-10T13:00:00") <= timedelta(seconds=1)


def test_a_snapshot_names_its_schedule_and_goes_with_its_file():
    made = snapshot_of(schedule(location={"folder": "nightly"}), NOW)
    assert made.metadata.labels == {"controlplane.cluster.x-k8s.io/schedule": "nightly"}
    assert made.metadata.owner_references == ()
    assert (made.spec.deletion_policy, made.spec.location.folder) == ("Delete", "nightly")


HOURS = [snapshot(f"s{hour}", hour) for hour in range(5)]


@pytest.mark.parametrize(
    ("snapshots", "keep", "needed", "gone"),
    [
        (HOURS, 5, [], []),
        (HOURS, 3, [], ["s0", "s1"]),
        (HOURS[::-1], 3, [], ["s0", "s1"]),
        (HOURS, 3, ["s0"], ["s1"]),
        (HOURS, None, [], []),
        ([*HOURS[:2], snapshot("late", 0, ready=False)], 2, [], ["late"]),
        ([*HOURS[:2], snapshot("new", 3, ready=False)], 2, [], []),
        ([snapshot("one", 1, ready=False), snapshot("two", 2, ready=False)], 1, [], []),
    ],
    ids=[
        "as many as are kept",
        "the oldest beyond the number",
        "in whatever order they are seen",
        "not one that a restore needs",
        "seven where no number is set",
        "one that a later complete one has overtaken",
        "not one that is being taken",
        "none while none is complete",
    ],
)
def test_which_are_too_many(snapshots, keep, needed, gone):
    found = schedule(last="2026-03-10T12:00:00Z", **({} if keep is None else {"keep": keep}))
    plan = decide(Seen(found, NOW, tuple(snapshots), frozenset(needed)))
    assert all(isinstance(step, Delete) for step in plan.steps)
    assert sorted(step.snapshot.name for step in plan.steps) == gone


def test_a_due_one_is_created_beside_what_is_deleted_and_the_status_says_so():
    seen = Seen(schedule(keep=1), NOW, tuple(HOURS[:2]))
    plan = decide(seen)
    assert {type(step) for step in plan.steps} == {Create, Delete}
    status = status_of(seen, plan)
    assert (status.last_schedule_time, status.next_schedule_time) == (
        at("2026-03-10T12:00:00"),
        at("2026-03-10T13:00:00"),
    )
