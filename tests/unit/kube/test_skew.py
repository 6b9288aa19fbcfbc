"""What an answer's date says about our clock, and what it does not."""

from dataclasses import dataclass
from datetime import timedelta
from operator import attrgetter

import pytest

from kubewright.base.clock import SteadyClock
from kubewright.kube.health import MEASURE_SECONDS, Skew
from kubewright.testing.clocks import BEGIN, ManualClock

DATE = "Tue, 01 Jan 2030 00:00:00 GMT"
"""``BEGIN``, as a server says it."""


@dataclass(frozen=True)
class Case:
    name: str
    date: str
    wall: float
    """Our wall clock, in seconds from the server's date."""
    took: float
    ahead: float
    warns: bool = False


CASES = [
    Case("the same moment", DATE, 0.0, 0.01, 0.0),
    Case("a date has whole seconds", DATE, 0.99, 0.01, 0.0),
    Case("an answer takes its time", DATE, 2.4, 1.5, 0.0),
    Case("a clock that is ahead", DATE, 90.0, 0.01, 90.0, warns=True),
    Case("a clock that is behind", DATE, -90.0, 0.01, -90.0, warns=True),
    Case("two seconds are measured, without a warning", DATE, 2.0, 0.01, 2.0),
    Case("an answer that took too long is not used", DATE, 90.0, 11.0, 0.0),
    Case("no date", "", 90.0, 0.01, 0.0),
    Case("nonsense", "yesterday", 90.0, 0.01, 0.0),
    Case("a date without a zone", "Tue, 01 Jan 2030 00:00:00", 90.0, 0.01, 0.0),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_one_answer_measures(case: Case) -> None:
    skew = Skew()
    assert skew.measure(case.date, BEGIN + timedelta(seconds=case.wall), 5.0, case.took) is case.warns
    assert skew.ahead == case.ahead


def test_a_clock_that_was_right_meanwhile_is_warned_of_again() -> None:
    skew, told = Skew(), []
    for number, wall in enumerate((90, 91, 0, 90)):
        told.append(skew.measure(DATE, BEGIN + timedelta(seconds=wall), number * MEASURE_SECONDS, 0.01))
    assert told == [True, False, False, True]
    assert not skew.measure(DATE, BEGIN, 3 * MEASURE_SECONDS + 1, 0.01)
    assert skew.ahead == 90


def test_a_steady_clock_begins_with_what_is_known() -> None:
    hands, skew = ManualClock(), Skew()
    hands.passed, hands.ahead = 5.0, 3600.0
    steady = SteadyClock(hands, lambda: skew.anchor)
    skew.measure("Tue, 01 Jan 2030 00:00:05 GMT", hands.now(), hands.monotonic(), 0.01)
    hands.passed, hands.ahead = 8.0, 0.0
    assert steady.now() == BEGIN + timedelta(seconds=8)
