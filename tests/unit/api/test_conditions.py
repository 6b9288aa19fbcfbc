"""Conditions: one of a type in a list, and a date that moves with the status alone."""

from datetime import UTC, datetime

import pytest

from kubewright.api.conditions import (
    find_true_condition,
    node_condition,
    with_condition,
    with_json_conditions,
    without_condition,
)
from kubewright.api.core import NodeCondition
from kubewright.api.meta import Condition

THEN, NOW = datetime(2030, 1, 1, tzinfo=UTC), datetime(2030, 1, 2, tzinfo=UTC)
THEN_TEXT, NOW_TEXT = "2030-01-01T00:00:00Z", "2030-01-02T00:00:00Z"


def condition(kind: str, status: str, message: str, since: datetime | None) -> Condition:
    return Condition(type=kind, status=status, message=message, last_transition_time=since)


WANTED = condition("A", "True", "new", NOW)
OTHER = condition("B", "True", "", THEN)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param((), (WANTED,), id="the first one"),
        pytest.param((OTHER,), (OTHER, WANTED), id="a new type comes last"),
        pytest.param(
            (condition("A", "True", "old", THEN), OTHER),
            (condition("A", "True", "new", THEN), OTHER),
            id="the same status keeps place and date",
        ),
        pytest.param(
            (condition("A", "False", "new", THEN), OTHER),
            (WANTED, OTHER),
            id="another status keeps the place and moves the date",
        ),
        pytest.param((condition("A", "True", "new", None),), (WANTED,), id="one that has no date gets one"),
    ],
)
def test_a_condition_is_put_among_others(before: tuple[Condition, ...], after: tuple[Condition, ...]) -> None:
    assert with_condition(before, WANTED) == after
    told = with_json_conditions({"conditions": [_json(each) for each in before]}, _json(WANTED))
    assert told == [_json(each) for each in after], "plain JSON"


def test_plain_json_takes_several_conditions_and_a_status_without_any() -> None:
    assert with_json_conditions({}, _json(WANTED), _json(OTHER)) == [_json(WANTED), _json(OTHER)]
    assert with_json_conditions({"conditions": None}, _json(OTHER)) == [_json(OTHER)]


def test_a_condition_counts_only_while_it_is_true() -> None:
    assert find_true_condition((OTHER, WANTED), "A") == WANTED
    assert find_true_condition((condition("A", "Unknown", "", None),), "A") is None
    assert without_condition((OTHER, WANTED), "A") == (OTHER,)


def test_a_nodes_condition_is_sent_whole_so_that_old_words_do_not_stay() -> None:
    assert node_condition(NodeCondition(type="Ready", status="True", last_transition_time=THEN)) == {
        "type": "Ready",
        "status": "True",
        "reason": "",
        "message": "",
        "lastHeartbeatTime": None,
        "lastTransitionTime": THEN_TEXT,
    }


def _json(found: Condition) -> dict[str, str | None]:
    dates = {THEN: THEN_TEXT, NOW: NOW_TEXT, None: None}
    since = dates[found.last_transition_time]
    return {"type": found.type, "status": found.status, "message": found.message, "lastTransitionTime": since}
