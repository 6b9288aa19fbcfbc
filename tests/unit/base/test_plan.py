"""How the plans of several phases become the plan of one pass."""

import pytest

from kubewright.base.plan import AT_ONCE, Plan, first, in_order, soonest

SECOND = 1.0
QUIET: Plan[str] = Plan()
WRITES: Plan[str] = Plan(("write",), None, "something differs")
WAITS: Plan[str] = Plan((), SECOND, "time has to pass")
AGAIN: Plan[str] = Plan(("create",), AT_ONCE, "the number changes")
LOOKS: Plan[str] = Plan((), AT_ONCE, "nothing was done")


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        pytest.param((), QUIET, id="no phase, no plan"),
        pytest.param((QUIET, QUIET), QUIET, id="phases with nothing to say add nothing"),
        pytest.param(
            (WRITES, WAITS),
            Plan(("write",), SECOND, "something differs; time has to pass"),
            id="steps, wake-ups and reasons of all phases add up",
        ),
        pytest.param(
            (AGAIN, WRITES),
            AGAIN,
            id="a phase whose steps change what is counted ends the pass",
        ),
        pytest.param(
            (LOOKS, WRITES),
            Plan(("write",), AT_ONCE, "nothing was done; something differs"),
            id="without steps nothing changes, so the pass goes on",
        ),
    ],
)
def test_phases_in_order(phases: tuple[Plan[str], ...], expected: Plan[str]) -> None:
    assert in_order([lambda _, plan=plan: plan for plan in phases], None) == expected


def test_the_first_plan_is_the_plan() -> None:
    assert first([lambda _: None, lambda _: WAITS, lambda _: WRITES], None) == WAITS
    assert first([lambda _: None], None) is None


def test_the_soonest_of_no_wake_ups_is_none() -> None:
    assert soonest(None, None) is None
    assert soonest(None, SECOND, AT_ONCE) == AT_ONCE
