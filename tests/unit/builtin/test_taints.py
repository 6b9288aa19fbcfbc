"""How long a pod may stay beside taints that evict."""

import pytest

from kubewright.api.core import Node, NodeSpec, Taint
from kubewright.builtin.nodelife import orders_of, patience
from kubewright.builtin.scheduling.facts import Toleration

A, B = (Taint(key=key, effect="NoExecute", value="v") for key in ("a", "b"))


def tolerated(key="", operator="Exists", seconds=None, **more):
    return Toleration(key=key, operator=operator, toleration_seconds=seconds, **more)


CASES = [
    pytest.param([], [A], 0, id="no toleration"),
    pytest.param([tolerated("b")], [A], 0, id="that of another taint"),
    pytest.param([tolerated("a")], [A], None, id="for ever"),
    pytest.param([tolerated("a", seconds=5)], [A], 5, id="for a time"),
    pytest.param([tolerated("a", seconds=-1)], [A], 0, id="for less than no time"),
    pytest.param([tolerated("a", seconds=5), tolerated("b", seconds=3)], [A, B], 3, id="the shortest counts"),
    pytest.param([tolerated("a", seconds=5), tolerated("b")], [A, B], 5, id="one for ever, one for a time"),
    pytest.param([tolerated("a")], [A, B], 0, id="one of two taints"),
    pytest.param([tolerated(seconds=7), tolerated("a", seconds=1)], [A], 7, id="the first that fits counts"),
    pytest.param([tolerated("a", "Equal", value="v")], [A], None, id="an equal value"),
    pytest.param([tolerated("a", "Equal", value="w")], [A], 0, id="another value"),
    pytest.param([tolerated("a", effect="NoSchedule")], [A], 0, id="another effect"),
    pytest.param([], [], None, id="no taint"),
]


@pytest.mark.parametrize(("tolerations", "taints", "seconds"), CASES)
def test_patience(tolerations, taints, seconds):
    assert patience(tolerations, taints) == seconds


def test_only_taints_no_execute_evict():
    node = Node(spec=NodeSpec(taints=(A, Taint(key="c", effect="NoSchedule"))))
    assert orders_of(node) == (A,)
    assert orders_of(None) == ()
