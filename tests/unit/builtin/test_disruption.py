"""The arithmetic of disruption budgets."""

from datetime import UTC, datetime, timedelta

import pytest

from kubewright.api.core import (
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PodStatus,
)
from kubewright.api.meta import Condition, ObjectMeta
from kubewright.builtin.disruption import Seen, judge, portion

T0 = datetime(2030, 1, 1, tzinfo=UTC)


def pods(ready=0, unready=0, deleting=0):
    def pod(name, status, **meta):
        conditions = (Condition(type="Ready", status=status),)
        return Pod(metadata=ObjectMeta(name=name, **meta), status=PodStatus(conditions=conditions))

    return [
        *(pod(f"r{n}", "True") for n in range(ready)),
        *(pod(f"u{n}", "False") for n in range(unready)),
        *(pod(f"d{n}", "True", deletion_timestamp=T0) for n in range(deleting)),
    ]


def budget(disrupted=None, **spec):
    return PodDisruptionBudget(
        metadata=ObjectMeta(name="b", generation=3),
        spec=PodDisruptionBudgetSpec(**spec),
        status=PodDisruptionBudgetStatus(disrupted_pods=disrupted or {}),
    )


CASES = [
    # budget, pods, scale; expected, healthy, desired, allowed
    pytest.param({"min_available": 2}, pods(3), 3, (3, 3, 2, 1), id="one of three may go"),
    pytest.param({"min_available": 3}, pods(3), 3, (3, 3, 3, 0), id="none may go"),
    pytest.param({"min_available": 5}, pods(3), 3, (3, 3, 5, 0), id="too few are never negative"),
    pytest.param({"min_available": 0}, [], 0, (0, 0, 0, 0), id="no pods, nothing to disrupt"),
    pytest.param({"min_available": "50%"}, pods(3), 3, (3, 3, 2, 1), id="a percentage is rounded up"),
    pytest.param({"min_available": "100%"}, pods(3), 3, (3, 3, 3, 0), id="all of them"),
    pytest.param({"max_unavailable": 1}, pods(3), 3, (3, 3, 2, 1), id="one may be unavailable"),
    pytest.param(
        {"max_unavailable": 1}, pods(2, unready=1), 3, (3, 2, 2, 0), id="one is unavailable already"
    ),
    pytest.param({"max_unavailable": 1}, pods(2), 3, (3, 2, 2, 0), id="one does not exist yet"),
    pytest.param(
        {"max_unavailable": "50%"},
        pods(3),
        3,
        (3, 3, 1, 2),
        id="a percentage of unavailable pods is rounded up too",
    ),
    pytest.param({"max_unavailable": 9}, pods(3), 3, (3, 3, 0, 3), id="more unavailable than there are"),
    pytest.param(
        {"min_available": 1},
        pods(1, deleting=1),
        2,
        (2, 1, 1, 0),
        id="a pod that is being deleted does not count",
    ),
    pytest.param({}, pods(2), 0, (0, 2, 0, 0), id="a budget without a number allows nothing"),
    pytest.param({"max_unavailable": 1}, pods(3), 0, (0, 3, 0, 0), id="pods that nothing controls"),
    pytest.param({"min_available": "0%"}, pods(3), 0, (0, 3, 0, 0), id="they have no percentage either"),
]


@pytest.mark.parametrize(("spec", "there", "scale", "numbers"), CASES)
def test_numbers(spec, there, scale, numbers):
    status = judge(Seen(budget(**spec), there, scale), T0).status
    found = (status.expected_pods, status.current_healthy, status.desired_healthy, status.disruptions_allowed)
    assert found == numbers
    assert status.observed_generation == 3


def test_an_announced_disruption_counts_until_it_is_seen_or_expires():
    early, late = T0 - timedelta(seconds=130), T0 - timedelta(seconds=30)
    told = {"r0": late, "r1": early, "d0": late, "gone": late}
    verdict = judge(Seen(budget(told, min_available=1), pods(3, deleting=1), 4), T0)
    assert verdict.status.disrupted_pods == {"r0": late}
    assert verdict.status.current_healthy == 2
    assert verdict.wake == 90
    assert verdict.not_deleted == ("r1",)


@pytest.mark.parametrize(
    ("of", "total", "count"),
    [(3, 10, 3), ("25%", 10, 3), ("0%", 10, 0), ("33%", 300, 99), ("29%", 100, 29), ("x", 9, 0), ("5", 9, 0)],
)
def test_portion(of, total, count):
    assert portion(of, total) == count
