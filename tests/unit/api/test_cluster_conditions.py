"""The arithmetic of Cluster API's conditions."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from kubewright.api.cluster.conditions import (
    ERROR,
    INFO,
    WARNING,
    Source,
    aggregate,
    false_condition,
    in_order,
    mirror,
    ready_of,
    summary,
    true_condition,
    unknown_condition,
    with_conditions,
)
from kubewright.api.cluster.v1beta1 import Condition

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=5)
WAITING = false_condition(
    "InfrastructureReady", "WaitingForInfrastructure", INFO, "the network is being made"
)


def dated(condition, at=NOON):
    return msgspec.structs.replace(condition, last_transition_time=at)


SET = [
    ("a first condition is as old as now", (), WAITING, LATER),
    ("a first condition that brings a time keeps it", (), dated(WAITING), NOON),
    ("the same condition keeps its time", (dated(WAITING),), WAITING, NOON),
    ("another status gets a new time", (dated(true_condition("InfrastructureReady")),), WAITING, LATER),
    (
        "another message gets a new time",
        (dated(false_condition("InfrastructureReady", "WaitingForInfrastructure", INFO, "soon")),),
        WAITING,
        LATER,
    ),
    (
        "another severity gets a new time",
        (dated(false_condition("InfrastructureReady", "WaitingForInfrastructure", ERROR, WAITING.message)),),
        WAITING,
        LATER,
    ),
    ("a condition without a time gets one", (dated(WAITING, None),), WAITING, LATER),
]


@pytest.mark.parametrize(("before", "wanted", "at"), [row[1:] for row in SET], ids=[row[0] for row in SET])
def test_the_time_of_a_condition(before, wanted, at):
    assert with_conditions(before, [wanted], LATER) == (dated(WAITING, at),)


def test_times_have_whole_seconds():
    (written,) = with_conditions((), [true_condition("Ready")], NOON + timedelta(microseconds=7))
    assert (
        msgspec.json.encode(written)
        == b'{"type":"Ready","status":"True","lastTransitionTime":"2030-01-01T12:00:00Z"}'
    )


def test_a_condition_that_is_true_has_no_severity():
    (written,) = with_conditions((), [Condition(type="Ready", status="True", severity=ERROR)], NOON)
    assert written.severity == ""


def test_ready_comes_first_and_the_rest_by_name():
    kinds = ["NodeHealthy", "BootstrapReady", "Ready", "InfrastructureReady"]
    assert [each.type for each in in_order(map(true_condition, kinds))] == [
        "Ready",
        "BootstrapReady",
        "InfrastructureReady",
        "NodeHealthy",
    ]


def test_conditions_of_other_types_stay():
    mine = dated(true_condition("HealthCheckSucceeded"))
    assert with_conditions((mine,), [true_condition("Ready")], LATER) == (
        dated(true_condition("Ready"), LATER),
        mine,
    )


TYPES = ("A", "B", "C")
SUMS = [
    ("no condition has no summary", [], None),
    ("a condition of another type does not count", [true_condition("Other")], None),
    ("Ready does not count in its own summary", [true_condition("Ready")], None),
    ("all True is True", [true_condition("A"), true_condition("B")], true_condition("Ready")),
    ("True weighs more than Unknown", [true_condition("A"), unknown_condition("B", "Lost")], true_condition("Ready")),
    ("Unknown alone is Unknown", [unknown_condition("B", "Lost", "no answer")], unknown_condition("Ready", "Lost", "no answer")),
    ("Info weighs more than True", [true_condition("A"), false_condition("B", "Wait", INFO, "m")], false_condition("Ready", "Wait", INFO, "m")),
    ("Warning weighs more than Info", [false_condition("A", "Wait", INFO), false_condition("B", "Bad", WARNING)],
     false_condition("Ready", "Bad", WARNING)),
    ("Error weighs more than Warning", [false_condition("A", "Bad", WARNING), false_condition("C", "Worse", ERROR)],
     false_condition("Ready", "Worse", ERROR)),
    ("the first type that is listed gives the reason", [false_condition("C", "Third", INFO), false_condition("B", "Second", INFO)],
     false_condition("Ready", "Second", INFO)),
    ("a False without a severity is an Error", [false_condition("A", "Bad", WARNING), false_condition("B", "Bare", "")],
     false_condition("Ready", "Bare", ERROR)),
]  # fmt: skip


@pytest.mark.parametrize(("conditions", "result"), [row[1:] for row in SUMS], ids=[row[0] for row in SUMS])
def test_summary(conditions, result):
    assert summary(conditions, TYPES) == result


STEPS = [
    (
        "the steps that are done are counted",
        [true_condition("A"), false_condition("B", "Wait", INFO)],
        "1 of 2 completed",
    ),
    (
        "a step that has not begun counts among those to do",
        [false_condition("A", "Wait", INFO)],
        "0 of 2 completed",
    ),
    (
        "another type ends the counting",
        [true_condition("A"), false_condition("B", "Wait", INFO, "m"), true_condition("C")],
        "m",
    ),
    ("what is True has no message", [true_condition("A"), true_condition("B")], ""),
]


@pytest.mark.parametrize(("conditions", "message"), [row[1:] for row in STEPS], ids=[row[0] for row in STEPS])
def test_step_counter(conditions, message):
    assert summary(conditions, TYPES, steps=("A", "B")).message == message


LOST = false_condition("Ready", "NodeNotFound", ERROR, "gone")
AGGREGATES = [
    ("no object", [], None),
    ("objects without the condition", [Source("Machine", "a", None)], None),
    ("all ready", [Source("Machine", "a", true_condition("Ready"))], true_condition("MachinesReady")),
    ("the reason names its source", [Source("Machine", "b", LOST), Source("Machine", "a", true_condition("Ready"))],
     false_condition("MachinesReady", "NodeNotFound @ Machine/b", ERROR, "gone")),
    ("of equal ones the first by name", [Source("Machine", "b", LOST), Source("Machine", "a", LOST)],
     false_condition("MachinesReady", "NodeNotFound @ Machine/a", ERROR, "gone")),
    ("a reason that names its source keeps it",
     [Source("MachineSet", "s", false_condition("Ready", "NodeNotFound @ Machine/b", ERROR))],
     false_condition("MachinesReady", "NodeNotFound @ Machine/b", ERROR)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("sources", "result"), [row[1:] for row in AGGREGATES], ids=[r[0] for r in AGGREGATES]
)
def test_aggregate(sources, result):
    assert aggregate("MachinesReady", sources) == result


def test_an_aggregate_counts_the_objects_that_have_no_condition_as_well():
    sources = [
        Source("Machine", name, ready)
        for name, ready in [("a", true_condition("Ready")), ("b", LOST), ("c", None)]
    ]
    assert aggregate("MachinesReady", sources, counted=True).message == "1 of 3 completed"


FALLBACK = false_condition("InfrastructureReady", "WaitingForInfrastructure", INFO)
MIRRORS = [
    ("a source is copied", LOST, FALLBACK, false_condition("InfrastructureReady", "NodeNotFound", ERROR, "gone")),
    ("without a source the fallback", None, FALLBACK, FALLBACK),
    ("without both nothing", None, None, None),
    ("a source without severity takes the fallback's", false_condition("Ready", "Wait", ""), FALLBACK,
     false_condition("InfrastructureReady", "Wait", INFO)),
    ("a True source loses its severity", Condition(type="Ready", status="True", severity=ERROR), FALLBACK,
     true_condition("InfrastructureReady")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "fallback", "result"), [r[1:] for r in MIRRORS], ids=[r[0] for r in MIRRORS]
)
def test_mirror(source, fallback, result):
    assert mirror("InfrastructureReady", source, fallback) == result


def external(*conditions):
    return {"status": {"conditions": list(conditions)}}


READ = [
    ("no object", None, None),
    ("no status", {"spec": {}}, None),
    ("a status that is none", {"status": "fine"}, None),
    ("conditions that are none", {"status": {"conditions": {"Ready": True}}}, None),
    ("an entry that is none", external("Ready", {"type": "Ready", "status": "True"}), true_condition("Ready")),
    ("a status that is none of the three", external({"type": "Ready", "status": True}), None),
    ("a reason that is no text", external({"type": "Ready", "status": "Unknown", "reason": 7}), unknown_condition("Ready", "")),
    ("a time", external({"type": "Ready", "status": "True", "lastTransitionTime": "2030-01-01T12:00:00Z"}),
     dated(true_condition("Ready"))),
    ("a time that is none", external({"type": "Ready", "status": "True", "lastTransitionTime": "noon"}), true_condition("Ready")),
]  # fmt: skip


@pytest.mark.parametrize(("found", "result"), [row[1:] for row in READ], ids=[row[0] for row in READ])
def test_ready_of_an_object_of_any_kind(found, result):
    assert ready_of(found) == result
