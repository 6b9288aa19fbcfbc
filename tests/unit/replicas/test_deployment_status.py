"""What a deployment's status says in whatever API: counts, conditions, and the story of one rollout."""

from dataclasses import dataclass
from datetime import timedelta
from operator import attrgetter
from typing import Any

import pytest
from msgspec import structs
from tests.unit.replicas.things import (
    POLICY,
    T0,
    Condition,
    Status,
    ThingDeployment,
    deployment,
    members,
    seen,
    thing_set,
)

from kubewright.replicas.deployment.seen import Failures
from kubewright.replicas.deployment.status import conditions, next_look, progress_reported

NEW = thing_set("new", 3, 2)
ALL = members("new", 3)
YOUNG = members("new", 3, ready_since=None)


def at(seconds: float, written: ThingDeployment, status: Status, *sets: Any, **more: Any) -> Status:
    """The status that follows ``status`` so long after ``T0``."""
    written = structs.replace(written, status=status)
    moment = T0 + timedelta(seconds=seconds)
    more = {"reported": progress_reported(written), "wall": moment, "now": moment.timestamp(), **more}
    failures = more.pop("failures", Failures())
    found: Status = POLICY.status(seen(written, *(sets or (NEW,)), **more), failures)
    return found


def said(status: Status, kind: str = "Progressing") -> tuple[str, str, str]:
    return next(((c.status, c.reason, c.message) for c in status.conditions if c.type == kind), ("", "", ""))


def dates(status: Status, kind: str = "Progressing") -> tuple[float, float]:
    """When a condition was updated and when its status changed, in seconds after ``T0``."""
    (found,) = (c for c in status.conditions if c.type == kind)
    assert found.last_update_time
    assert found.last_transition_time
    since = (found.last_update_time - T0, found.last_transition_time - T0)
    return since[0].total_seconds(), since[1].total_seconds()


def test_counts_come_from_the_members() -> None:
    terminating = members("x", 1, deleting=True)["x-uid"]
    found = at(
        0,
        deployment(meta={"generation": 7}),
        Status(),
        members={"new-uid": (*members("new", 2)["new-uid"], *terminating)},
    )
    assert (found.replicas, found.updated_replicas, found.observed_generation) == (3, 3, 7)
    assert (found.ready_replicas, found.available_replicas, found.unavailable_replicas) == (2, 2, 1)


def test_nothing_is_unavailable_when_all_is_available() -> None:
    assert at(0, deployment(), Status(), members=ALL).unavailable_replicas == 0


def test_a_generation_counts_as_observed_when_the_pass_did_not_fail() -> None:
    written = deployment(meta={"generation": 7})
    assert (
        at(0, written, Status(observed_generation=6), failures=Failures(failed=True)).observed_generation == 6
    )
    assert at(0, deployment(replicas=-1), Status(observed_generation=6)).observed_generation == 6


def test_one_rollout_is_reported_from_its_beginning_to_its_end_with_the_reasons_of_the_policy() -> None:
    written = deployment(progress_deadline_seconds=60)
    first = at(0, written, Status(), members=YOUNG)
    assert said(first) == ("True", "Created", 'Created new set of things "d-new"')
    late = at(61, written, first, members=YOUNG)
    assert said(late) == ("False", "Timed_Out", 'ThingSet "d-new" has timed out progressing.')
    moving = at(70, written, late, members=members("new", 1))
    assert said(moving) == ("True", "Updated", 'ThingSet "d-new" is progressing.')
    done = at(80, written, moving, members=ALL)
    assert said(done) == ("True", "Complete", 'ThingSet "d-new" has successfully progressed.')
    assert at(99, written, done, members=ALL) == done, "what has not changed is not written"


def test_progress_renews_the_update_time_and_a_repeated_failure_does_not() -> None:
    written = deployment()
    first = at(0, written, Status(), members=YOUNG)
    moving = at(10, written, first, members=members("new", 1))
    again = at(20, written, moving, members=members("new", 2))
    assert (dates(moving), dates(again)) == ((10, 0), (20, 0)), "the same words, and new progress"
    failed = at(30, written, again, members=ALL, failures=Failures("no 1", failed=True))
    still = at(40, written, failed, members=ALL, failures=Failures("no 2", failed=True))
    assert (said(failed), said(still)) == (
        ("False", "Create_Error", "no 1"),
        ("False", "Create_Error", "no 2"),
    )
    assert (dates(failed), dates(still)) == ((30, 30), (30, 30))


@dataclass(frozen=True)
class Case:
    name: str
    written: ThingDeployment
    before: Status
    expect: tuple[str, str, str]


def known(status: str, reason: str, message: str = "") -> Status:
    return Status(conditions=(Condition(type="Progressing", status=status, reason=reason, message=message),))


CASES = [
    Case("paused", deployment(paused=True), Status(), ("Unknown", "Paused", "Deployment is paused")),
    Case("paused after it has timed out: that stays", deployment(paused=True), known("False", "Timed_Out", "x"),
         ("False", "Timed_Out", "x")),
    Case("paused already, and another tool said it in its own words", deployment(paused=True),
         known("Unknown", "Paused", "frozen"), ("Unknown", "Paused", "frozen")),
    Case("resumed", deployment(), known("Unknown", "Paused"), ("Unknown", "Resumed", "Deployment is resumed")),
    Case("invalid", deployment(replicas=-1), Status(), ("False", "Invalid", "spec.replicas: negative")),
    Case("about another set: a new rollout begins", deployment(), known("True", "Complete", 'ThingSet "d-x" has'),
         ("True", "Created", 'Created new set of things "d-new"')),
    Case("its set is as old as the deployment", deployment(meta={"creation_timestamp": T0 + timedelta(seconds=2)}),
         Status(), ("True", "Created", 'Created new set of things "d-new"')),
    Case("its set is older: it was found", deployment(meta={"creation_timestamp": T0 + timedelta(seconds=3)}),
         Status(), ("True", "Found", 'Found new set of things "d-new"')),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_the_condition_progressing(case: Case) -> None:
    assert said(at(0, case.written, case.before, members=YOUNG)) == case.expect


def test_without_dates_a_set_was_created_for_its_deployment() -> None:
    dateless = structs.replace(NEW, metadata=structs.replace(NEW.metadata, creation_timestamp=None))
    assert said(at(0, deployment(), Status(), dateless, members=YOUNG))[1] == "Created"


def test_a_rollout_after_another_that_has_no_set_yet_is_reported_about_the_deployment() -> None:
    before = structs.replace(deployment(), status=known("True", "Complete", 'ThingSet "d-x" has'))
    found: Status = POLICY.status(seen(before, reported=T0.timestamp()), Failures())
    assert said(found) == ("True", "Updated", 'Deployment "d" is progressing.')


@pytest.mark.parametrize(
    ("reason", "ago", "expect"),
    [
        pytest.param("Create_Error", 20, ("False", "Create_Error", "no"), id="in time"),
        pytest.param("Create_Error", 60, ("False", "Create_Error", "no"), id="in the last moment"),
        pytest.param("Create_Error", 61, ("False", "Timed_Out", 'ThingSet "d-new" has timed out progressing. no'), id="late"),
        pytest.param("Timed_Out", 20, ("False", "Timed_Out", 'ThingSet "d-new" has timed out progressing. no'),
                     id="late already"),
        pytest.param("Updated", 61, ("False", "Create_Error", "no"), id="said for the first time"),
    ],
)  # fmt: skip
def test_a_set_that_cannot_be_created_is(reason: str, ago: float, expect: tuple[str, str, str]) -> None:
    written = deployment(progress_deadline_seconds=60)
    found = at(
        0,
        written,
        known("False", reason),
        reported=T0.timestamp() - ago,
        failures=Failures("no", failed=True),
    )
    assert said(found) == expect


def test_the_current_set_says_first_why_replicas_fail() -> None:
    def failing(each: Any, message: str) -> Any:
        condition = Condition(type="ReplicaFailure", status="True", reason="Failed", message=message)
        return structs.replace(each, status=Status(conditions=(condition,)))

    old = thing_set("old", 1, 1)
    both = at(0, deployment(), Status(), failing(old, "old"), failing(NEW, "new"), members=YOUNG)
    assert said(both, "ReplicaFailure") == ("True", "Failed", "new")
    assert said(at(0, deployment(), Status(), failing(old, "old"), NEW), "ReplicaFailure")[2] == "old"


def test_a_deployment_of_nothing_is_available_and_one_less_than_wanted_is_not() -> None:
    assert said(at(0, deployment(replicas=0), Status(), thing_set("new", 0, 2)), "Available")[0] == "True"
    assert said(at(0, deployment(), Status(), members=members("new", 2)), "Available")[0] == "False"


@pytest.mark.parametrize(
    ("ready", "spared", "expect"),
    [
        pytest.param(3, 0, ("True", "Available", "Deployment has minimum availability."), id="all"),
        pytest.param(2, 0, ("False", "Unavailable", "Deployment does not have minimum availability."), id="one less"),
        pytest.param(2, 1, ("True", "Available", "Deployment has minimum availability."), id="one is unavailable on purpose"),
    ],
)  # fmt: skip
def test_minimum_availability(ready: int, spared: int, expect: tuple[str, str, str]) -> None:
    picture = seen(deployment(), NEW, members=members("new", ready))
    found = conditions(picture, Failures(), Condition, {}, spared)
    assert said(Status(conditions=found), "Available") == expect


def test_conditions_stay_while_the_deployment_is_being_deleted() -> None:
    before = known("True", "Complete", "x")
    found = at(0, deployment(meta={"deletion_timestamp": T0}), before, members=YOUNG)
    assert found.conditions == before.conditions


@pytest.mark.parametrize(
    ("more", "expect"),
    [
        pytest.param({"members": ALL}, None, id="all is well"),
        pytest.param(
            {"members": members("new", 3, ready_since=T0.timestamp() - 10)},
            20.0,
            id="members are ready, not yet available",
        ),
        pytest.param({"members": YOUNG, "reported": T0.timestamp() - 20}, 41.0, id="the deadline comes"),
        pytest.param({"members": ALL, "reported": T0.timestamp() - 20}, None, id="the rollout is complete"),
    ],
)
def test_when_time_alone_changes_something(more: dict[str, Any], expect: float | None) -> None:
    set_ = structs.replace(NEW, spec=structs.replace(NEW.spec, min_ready_seconds=30))
    written = deployment(progress_deadline_seconds=60, min_ready_seconds=30)
    written = structs.replace(written, status=known("True", "Updated"))
    assert next_look(seen(written, set_, **more)) == expect
