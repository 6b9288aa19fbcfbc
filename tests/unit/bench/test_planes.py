"""How many control planes the bench asks for, and what it says that it waits for."""

import pytest
from bench.planes.memory import fitting
from bench.planes.waiting import waits_for

from kubewright.api.cluster.conditions import READY, false_condition, true_condition
from kubewright.api.controlplane.names import PlaneCondition
from kubewright.api.controlplane.v1alpha4 import NestedControlPlane, NestedControlPlaneStatus
from kubewright.api.meta import ObjectMeta


@pytest.mark.parametrize(
    ("asked", "each", "free", "count"),
    [
        pytest.param(20, 300.0, 22_000.0, 20, id="there is memory for all: all"),
        pytest.param(20, 400.0, 7_048.0, 10, id="2 GiB stay free, and each may grow by a quarter"),
        pytest.param(20, 400.0, 2_500.0, 0, id="there is no memory for one: none"),
        pytest.param(20, 400.0, 1_000.0, 0, id="less is free than should stay free: none"),
    ],
)
def test_of_real_control_planes_as_many_are_asked_for_as_the_memory_holds(asked, each, free, count):
    assert fitting(asked, each, free) == count


def plane(name, *conditions, ready=False):
    return NestedControlPlane(
        metadata=ObjectMeta(name=name), status=NestedControlPlaneStatus(ready=ready, conditions=conditions)
    )


GOOD = plane("good", true_condition(READY), ready=True)
STARTS = false_condition(READY, "NotReady", "Info", "NestedEtcd a-etcd is not ready")
LATE = false_condition(PlaneCondition.UP_TO_DATE, "NotUpToDate", "Info", "it is late")
ROLLS = true_condition(PlaneCondition.ROLLING_OUT)


@pytest.mark.parametrize(
    ("planes", "told"),
    [
        pytest.param([], "0 of 0 ready", id="none"),
        pytest.param([GOOD], "1 of 1 ready", id="nothing is missing"),
        pytest.param([plane("a")], "0 of 1 ready; a: its controller has not looked at it yet", id="new"),
        pytest.param(
            [GOOD, plane("a", STARTS, LATE), plane("b", LATE)],
            "1 of 3 ready; a: NestedEtcd a-etcd is not ready",
            id="the first that is not ready, by the reason that comes first",
        ),
        pytest.param(
            [plane("a", true_condition(READY), LATE, ROLLS, ready=True)],
            "1 of 1 ready; a: it is late; RollingOut",
            id="ready, and a change goes on",
        ),
    ],
)
def test_what_is_waited_for_is_said_in_the_words_of_the_status(planes, told):
    assert waits_for(planes) == told
