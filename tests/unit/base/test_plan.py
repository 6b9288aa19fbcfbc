"""How the plans of several deciders become the plan of one pass."""

from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from kubewright.base.plan import AT_ONCE, Plan, in_order, soonest

SECOND = timedelta(seconds=1)
QUIET: Plan[str] = Plan()
WRITES: Plan[str] = Plan(("write",), None, "something differs")
WAITS: Plan[str] = Plan((), SECOND, "time has to pass")
AGAIN: Plan[str] = Plan(("create",), AT_ONCE, "the number changes", last=True)
LOOKS: Plan[str] = Plan((), AT_ONCE, "nothing was done")


@pytest.mark.parametrize(
    ("deciders", "expected"),
    [
        pytest.param((), QUIET, id="no phase, no plan"),
        pytest.param((QUIET, QUIET), QUIET, id="deciders with nothing to say add nothing"),
        pytest.param(
            (WRITES, WAITS),
            Plan(("write",), SECOND, "something differs; time has to pass"),
            id="steps, wake-ups and reasons of all deciders add up",
        ),
        pytest.param(
            (AGAIN, WRITES),
            AGAIN,
            id="a phase whose steps change what is counted is the last",
        ),
        pytest.param(
            (LOOKS, WRITES),
            Plan(("write",), AT_ONCE, "nothing was done; something differs"),
            id="without steps nothing changes, so the pass goes on",
        ),
    ],
)
def test_deciders_in_order(deciders: tuple[Plan[str], ...], expected: Plan[str]) -> None:
    assert in_order([lambda _, plan=plan: plan for plan in deciders], None, Plan()) == expected


@dataclass(frozen=True)
class Last(Plan[str]):
    """The plan of a phase that is about everything after it."""

    note: str = ""
    last: bool = field(default=True, kw_only=True)


def test_where_each_plan_is_the_last_the_first_one_is_the_plan() -> None:
    last = Last((), SECOND, "time has to pass", "kept")
    assert in_order([lambda _: None, lambda _: last, lambda _: Last(("write",))], None, Last()) == last
    assert in_order([lambda _: None], None, Last()) == Last()


def test_the_soonest_of_no_wake_ups_is_none() -> None:
    assert soonest(None, None) is None
    assert soonest(None, SECOND, AT_ONCE) == AT_ONCE
