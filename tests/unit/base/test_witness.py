"""Since when an object is in its state, as a process sees it: steps of a wall clock make it no older."""

import pytest

from kubewright.base.clock import SteadyClock
from kubewright.base.witness import Witness
from kubewright.testing.clocks import BEGIN, ManualClock

T0 = BEGIN.timestamp()

HOUR = 3600.0

Look = tuple[float, float | None]
"""Seconds that have passed, and the date that is seen then, in seconds from the beginning."""


@pytest.mark.parametrize(
    ("looks", "expect"),
    [
        pytest.param([(5, 2)], 2, id="what was there at the first look is as old as its date"),
        pytest.param([(5, HOUR)], 5, id="but a date in the future is a wrong clock's"),
        pytest.param([(5, 2), (9, 2)], 2, id="the same date is the same fact"),
        pytest.param([(5, 2), (9, 8)], 9, id="a date that this process sees change is of now"),
        pytest.param([(5, 2), (9, -HOUR)], 9, id="whatever it says"),
        pytest.param([(5, 2), (7, None)], None, id="no date, no age"),
        pytest.param([(5, None), (9, 2)], 9, id="what this process sees come is of now"),
        pytest.param([(5, 2), (7, None), (9, 2)], 9, id="and what comes back"),
    ],
)
@pytest.mark.parametrize("step", [0.0, HOUR, -HOUR], ids=["right", "an hour ahead", "an hour behind"])
def test_since(looks: list[Look], expect: float | None, step: float) -> None:
    hands = ManualClock()
    steady = SteadyClock(hands)
    steady.now()
    witness = Witness(lambda: steady.now().timestamp())
    found: float | None = None
    for passed, dated in looks:
        hands.passed, hands.ahead = passed, step
        found = witness.since("key", T0 + dated if dated is not None else None)
    assert found == (T0 + expect if expect is not None else None)


def test_what_is_forgotten_is_seen_for_the_first_time() -> None:
    hands = ManualClock()
    steady = SteadyClock(hands)
    witness = Witness(lambda: steady.now().timestamp())
    witness.since("key", T0 - 9)
    hands.passed = 5.0
    witness.forget("key")
    assert witness.since("key", T0 + 2) == T0 + 2
    assert witness.since("other", T0 + 3) == T0 + 3


def test_a_state_began_before_our_eyes_or_when_its_date_says() -> None:
    hands = ManualClock()
    steady = SteadyClock(hands)
    witness = Witness(lambda: steady.now().timestamp())
    assert witness.began("key", "Running", T0 - 9) is None
    hands.passed = 5.0
    assert witness.began("key", "Running", T0 + 4) is None, "another date of the same state is nothing new"
    assert witness.began("key", "Unknown", T0 - 9) == T0 + 5
    hands.passed = 7.0
    assert witness.began("key", "Unknown", None) == T0 + 5
    assert witness.began("other", "Unknown", T0 + HOUR) == T0 + 7, "a date in the future counts as now"
