"""How the planner sees a deployment's sets, and whether a rollout was reported: whole values are compared."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs
from tests.unit.replicas.things import (
    POLICY,
    T0,
    Condition,
    SetSpec,
    Status,
    ThingSet,
    deployment,
    members,
    seen,
    thing_set,
)

from kubewright.replicas.deployment.status import is_unreported, progress_reported
from kubewright.rollout.model import Group
from kubewright.wire.gvk import Key

from .things import but

NOW = T0.timestamp()
ALL = members("new", 3)
GROUP = Group(
    "d-new", created=NOW + 2, size=3, availability=(True, True, True), desired=3, ceiling=4, revision=2
)
PATIENT = but(POLICY, waits_for_deleting=lambda _deployment: False)


def new(
    *, meta: dict[str, Any] | None = None, observed: int = 0, min_ready: int = 0, **notes: str
) -> ThingSet:
    """The set ``d-new`` of three things."""
    found = thing_set("new", 3, 2, **notes)
    spec: SetSpec = structs.replace(found.spec, min_ready_seconds=min_ready)
    meta_ = structs.replace(found.metadata, **(meta or {}))
    return structs.replace(found, metadata=meta_, spec=spec, status=Status(observed_generation=observed))


def of(*facts: tuple[str, bool]) -> dict[str, Any]:
    """Members by name and whether they are ready, in this order."""
    (first, *_) = ALL["new-uid"]
    return {
        "new-uid": tuple(
            replace(first, key=Key("ns", name), ready_since=NOW - 60 if ready else None)
            for name, ready in facts
        )
    }


LEAVING = {"new-uid": (*members("new", 2)["new-uid"], *members("x", 1, deleting=True)["x-uid"])}
GROUPS = [
    pytest.param(new(), {"members": ALL}, GROUP, id="a set whose members are all available"),
    pytest.param(new(), {}, replace(GROUP, availability=()), id="one without members"),
    pytest.param(new(meta={"creation_timestamp": None}), {"members": ALL}, replace(GROUP, created=0.0),
                 id="one without a date"),
    pytest.param(new(meta={"deletion_timestamp": T0}), {"members": ALL}, replace(GROUP, size=0, observed=False),
                 id="one that is being deleted has size 0"),
    pytest.param(new(meta={"generation": 3}, observed=2), {"members": ALL}, replace(GROUP, observed=False),
                 id="one whose last change its controller has not seen"),
    pytest.param(new(meta={"generation": 3}, observed=3), {"members": ALL}, GROUP, id="or has"),
    pytest.param(new(**{"no-creation": "true"}), {"members": ALL}, replace(GROUP, frozen=True),
                 id="one that may create no members"),
    pytest.param(new(desired="", ceiling=""), {"members": ALL}, replace(GROUP, desired=None, ceiling=None),
                 id="one that was never sized"),
    pytest.param(new(desired="0", ceiling="0"), {"members": ALL}, replace(GROUP, desired=0, ceiling=0),
                 id="one that was sized for none"),
    pytest.param(new(desired="-1", ceiling="x"), {"members": ALL}, replace(GROUP, desired=None, ceiling=None),
                 id="one with sizes that a user wrote"),
    pytest.param(new(min_ready=100), {"members": ALL},
                 replace(GROUP, availability=(False, False, False), ready_not_available=3),
                 id="one whose members are ready, and not yet available"),
    pytest.param(new(), {"members": of(("c", True), ("a", False), ("b", True))},
                 replace(GROUP, availability=(False, True, True)), id="members in the order in which they are deleted"),
    pytest.param(new(), {"members": LEAVING}, replace(GROUP, availability=(True, True), terminating=1),
                 id="a member that is being deleted takes room"),
    pytest.param(new(), {"members": LEAVING, "policy": PATIENT}, replace(GROUP, availability=(True, True)),
                 id="not in every world"),
    pytest.param(new(), {"members": LEAVING, "doubted": {"new-uid": 2}},
                 replace(GROUP, availability=(True, True), terminating=3), id="members that may exist take room, too"),
]  # fmt: skip


@pytest.mark.parametrize(("each", "more", "group"), GROUPS)
def test_a_set_as_the_planner_sees_it(each: ThingSet, more: dict[str, Any], group: Group) -> None:
    assert seen(deployment(), each, **more).groups == {"d-new": group}


def test_members_that_are_being_deleted_are_replicas_in_some_worlds_only() -> None:
    assert seen(deployment(), new(), members=LEAVING).counts.replicas == 3
    assert (
        seen(deployment(), new(), members=LEAVING, policy=but(POLICY, counts_deleting=False)).counts.replicas
        == 2
    )


def known(reason: str, message: str = "", **dates: Any) -> Status:
    return Status(
        conditions=(Condition(type="Progressing", status="True", reason=reason, message=message, **dates),)
    )


OLD = thing_set("old", 1, 1)
DONE = known("Complete", 'ThingSet "d-new" has successfully progressed.')


@pytest.mark.parametrize(
    ("status", "sets", "unreported"),
    [
        pytest.param(Status(), (new(),), True, id="no condition yet"),
        pytest.param(known("Resumed"), (new(),), False, id="resumed: the report goes on"),
        pytest.param(known("Create_Error"), (new(),), True, id="a set that could not be created, and is there now"),
        pytest.param(known("Create_Error"), (), False, id="or still is not"),
        pytest.param(known("Updated", 'ThingSet "d-x" is progressing.'), (new(),), True, id="about another set"),
        pytest.param(DONE, (new(),), False, id="about this one"),
        pytest.param(DONE, (new(), OLD), True, id="complete, and an old set has members again"),
        pytest.param(known("Updated", 'ThingSet "d-new" is progressing.'), (new(), OLD), False,
                     id="a rollout that goes on"),
    ],
)  # fmt: skip
def test_whether_a_rollout_was_reported(status: Status, sets: tuple[ThingSet, ...], unreported: bool) -> None:
    assert is_unreported(seen(structs.replace(deployment(), status=status), *sets)) is unreported


@pytest.mark.parametrize(
    ("status", "when"),
    [
        pytest.param(Status(), None, id="never"),
        pytest.param(known("Updated"), None, id="at an unknown time"),
        pytest.param(known("Updated", last_transition_time=T0), NOW, id="when its status changed"),
        pytest.param(known("Updated", last_transition_time=T0, last_update_time=T0 + timedelta(seconds=5)), NOW + 5,
                     id="or when it was updated since"),
    ],
)  # fmt: skip
def test_when_progress_was_reported(status: Status, when: float | None) -> None:
    assert progress_reported(structs.replace(deployment(), status=status)) == when
