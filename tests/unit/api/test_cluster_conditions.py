"""The arithmetic of Cluster API's conditions (capi.md §4.5)."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from kubewright.api.cluster.conditions import (
    ERROR,
    INFO,
    WARNING,
    Source,
    aggregate,
    in_order,
    mirror,
    not_so,
    ready_of,
    so,
    summary,
    unknown,
    with_conditions,
)
from kubewright.api.cluster.v1beta1.shared import Condition

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=5)
WAITING = not_so("InfrastructureReady", "WaitingForInfrastructure", INFO, "the network is being made")


def dated(condition, at=NOON):
    return msgspec.structs.replace(condition, last_transition_time=at)


SET = [
    ("a first condition is as old as now", (), WAITING, LATER),
    ("a first condition that brings a time keeps it", (), dated(WAITING), NOON),
    ("the same condition keeps its time", (dated(WAITING),), WAITING, NOON),
    ("another status gets a new time", (dated(so("InfrastructureReady")),), WAITING, LATER),
    (
        "another message gets a new time",
        (dated(not_so("InfrastructureReady", "WaitingForInfrastructure", INFO, "soon")),),
        WAITING,
        LATER,
    ),
    (
        "another severity gets a new time",
        (dated(not_so("InfrastructureReady", "WaitingForInfrastructure", ERROR, WAITING.message)),),
        WAITING,
        LATER,
    ),
    ("a condition without a time gets one", (dated(WAITING, None),), WAITING, LATER),
]


@pytest.mark.parametrize(("before", "wanted", "at"), [row[1:] for row in SET], ids=[row[0] for row in SET])
def test_the_time_of_a_condition(before, wanted, at):
    assert with_conditions(before, [wanted], LATER) == (dated(WAITING, at),)


def test_times_have_whole_seconds():
    (written,) = with_conditions((), [so("Ready")], NOON + timedelta(microseconds=7))
    assert (
        msgspec.json.encode(written)
        == b'{"type":"Ready","status":"True","lastTransitionTime":"2030-01-01T12:00:00Z"}'
    )


def test_a_condition_that_is_true_has_no_severity():
    (written,) = with_conditions((), [Condition(type="Ready", status="True", severity=ERROR)], NOON)
    assert written.severity == ""


def test_ready_comes_first_and_the_rest_by_name():
    kinds = ["NodeHealthy", "BootstrapReady", "Ready", "InfrastructureReady"]
    assert [each.type for each in in_order(map(so, kinds))] == [
        "Ready",
        "BootstrapReady",
        "InfrastructureReady",
        "NodeHealthy",
    ]


def test_conditions_of_other_types_stay():
    mine = dated(so("HealthCheckSucceeded"))
    assert with_conditions((mine,), [so("Ready")], LATER) == (dated(so("Ready"), LATER), mine)


TYPES = ("A", "B", "C")
SUMS = [
    ("no condition has no summary", [], None),
    ("a condition of another type does not count", [so("Other")], None),
    ("Ready does not count in its own summary", [so("Ready")], None),
    ("all True is True", [so("A"), so("B")], so("Ready")),
    ("True weighs more than Unknown", [so("A"), unknown("B", "Lost")], so("Ready")),
    ("Unknown alone is Unknown", [unknown("B", "Lost", "no answer")], unknown("Ready", "Lost", "no answer")),
    ("Info weighs more than True", [so("A"), not_so("B", "Wait", INFO, "m")], not_so("Ready", "Wait", INFO, "m")),
    ("Warning weighs more than Info", [not_so("A", "Wait", INFO), not_so("B", "Bad", WARNING)],
     not_so("Ready", "Bad", WARNING)),
    ("Error weighs more than Warning", [not_so("A", "Bad", WARNING), not_so("C", "Worse", ERROR)],
     not_so("Ready", "Worse", ERROR)),
    ("the first type that is listed gives the reason", [not_so("C", "Third", INFO), not_so("B", "Second", INFO)],
     not_so("Ready", "Second", INFO)),
    ("a False without a severity is an Error", [not_so("A", "Bad", WARNING), not_so("B", "Bare", "")],
     not_so("Ready", "Bare", ERROR)),
]  # fmt: skip


@pytest.mark.parametrize(("conditions", "result"), [row[1:] for row in SUMS], ids=[row[0] for row in SUMS])
def test_summary(conditions, result):
    assert summary(conditions, TYPES) == result


STEPS = [
    ("the steps that are done are counted", [so("A"), not_so("B", "Wait", INFO)], "1 of 2 completed"),
    ("a step that has not begun counts among those to do", [not_so("A", "Wait", INFO)], "0 of 2 completed"),
    ("another type ends the counting", [so("A"), not_so("B", "Wait", INFO, "m"), so("C")], "m"),
    ("what is True has no message", [so("A"), so("B")], ""),
]


@pytest.mark.parametrize(("conditions", "message"), [row[1:] for row in STEPS], ids=[row[0] for row in STEPS])
def test_step_counter(conditions, message):
    assert summary(conditions, TYPES, steps=("A", "B")).message == message


LOST = not_so("Ready", "NodeNotFound", ERROR, "gone")
AGGREGATES = [
    ("no object", [], None),
    ("objects without the condition", [Source("Machine", "a", None)], None),
    ("all ready", [Source("Machine", "a", so("Ready"))], so("MachinesReady")),
    ("the reason names its source", [Source("Machine", "b", LOST), Source("Machine", "a", so("Ready"))],
     not_so("MachinesReady", "NodeNotFound @ Machine/b", ERROR, "gone")),
    ("of equal ones the first by name", [Source("Machine", "b", LOST), Source("Machine", "a", LOST)],
     not_so("MachinesReady", "NodeNotFound @ Machine/a", ERROR, "gone")),
    ("a reason that names its source keeps it",
     [Source("MachineSet", "s", not_so("Ready", "NodeNotFound @ Machine/b", ERROR))],
     not_so("MachinesReady", "NodeNotFound @ Machine/b", ERROR)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("sources", "result"), [row[1:] for row in AGGREGATES], ids=[r[0] for r in AGGREGATES]
)
def test_aggregate(sources, result):
    assert aggregate("MachinesReady", sources) == result


def test_an_aggregate_counts_the_objects_that_have_no_condition_as_well():
    sources = [
        Source("Machine", name, ready) for name, ready in [("a", so("Ready")), ("b", LOST), ("c", None)]
    ]
    assert aggregate("MachinesReady", sources, counted=True).message == "1 of 3 completed"


FALLBACK = not_so("InfrastructureReady", "WaitingForInfrastructure", INFO)
MIRRORS = [
    ("a source is copied", LOST, FALLBACK, not_so("InfrastructureReady", "NodeNotFound", ERROR, "gone")),
    ("without a source the fallback", None, FALLBACK, FALLBACK),
    ("without both nothing", None, None, None),
    ("a source without severity takes the fallback's", not_so("Ready", "Wait", ""), FALLBACK,
     not_so("InfrastructureReady", "Wait", INFO)),
    ("a True source loses its severity", Condition(type="Ready", status="True", severity=ERROR), FALLBACK,
     so("InfrastructureReady")),
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
    ("an entry that is none", external("Ready", {"type": "Ready", "status": "True"}), so("Ready")),
    ("a status that is none of the three", external({"type": "Ready", "status": True}), None),
    ("a reason that is no text", external({"type": "Ready", "status": "Unknown", "reason": 7}), unknown("Ready", "")),
    ("a time", external({"type": "Ready", "status": "True", "lastTransitionTime": "2030-01-01T12:00:00Z"}),
     dated(so("Ready"))),
    ("a time that is none", external({"type": "Ready", "status": "True", "lastTransitionTime": "noon"}), so("Ready")),
]  # fmt: skip


@pytest.mark.parametrize(("found", "result"), [row[1:] for row in READ], ids=[row[0] for row in READ])
def test_ready_of_an_object_of_any_kind(found, result):
    assert ready_of(found) == result
