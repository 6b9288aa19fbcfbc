"""When a node is well, and when its conditions count as changed."""

import pytest

from kubewright.api.core import NodeCondition
from kubewright.api.machine.names import DEFAULT_NODE_CONDITIONS
from kubewright.nodes.health import conditions_differ, judge

READY = NodeCondition(type="Ready", status="True", reason="KubeletReady")


def bad(kind, status="True", reason="", message=""):
    return NodeCondition(type=kind, status=status, reason=reason, message=message)


CASES = [
    ("no conditions at all", (), "the node has no conditions"),
    ("ready and nothing else", (READY,), ""),
    ("a bad condition that is false", (READY, bad("DiskPressure", "False")), ""),
    ("a bad condition that is true", (READY, bad("DiskPressure", "True")), "DiskPressure is True"),
    ("a bad condition that is unknown", (READY, bad("DiskPressure", "Unknown")), "DiskPressure is Unknown"),
    ("a network that is not there", (READY, bad("NetworkUnavailable")), "NetworkUnavailable is True"),
    ("a network that may not be there", (READY, bad("NetworkUnavailable", "Unknown")),
     "NetworkUnavailable is Unknown"),
    ("a condition that was not asked about", (READY, bad("MemoryPressure")), ""),
    ("the kubelet went silent", (bad("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped."),),
     "Ready is Unknown (NodeStatusUnknown: Kubelet stopped.)"),
    ("two complaints", (bad("Ready", "False"), bad("KernelDeadlock")),
     "Ready is False; KernelDeadlock is True"),
    ("a kubelet that has not spoken yet", (bad("NetworkUnavailable", "False"),), "Ready is not reported"),
]  # fmt: skip


@pytest.mark.parametrize(("conditions", "because"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_judges(conditions, because):
    health = judge(conditions, DEFAULT_NODE_CONDITIONS)
    assert (health.healthy, health.because) == (not because, because)


def test_a_readiness_that_is_listed_as_bad_is_what_the_list_says():
    assert not judge((READY,), ("Ready",)).healthy


DIFFERENCES = [
    ("nothing", (READY,), (READY,), False),
    ("only words", (READY,), (bad("Ready", "True", "Other", "x"),), False),
    ("a status", (READY,), (bad("Ready", "False", "KubeletReady"),), True),
    ("a type that came", (READY,), (READY, bad("X")), True),
    ("a type that went", (READY, bad("X")), (READY,), True),
    ("the order", (READY, bad("X")), (bad("X"), READY), False),
    (
        "the reason of an in-place update",
        (bad("InPlaceUpdate", reason="a"),),
        (bad("InPlaceUpdate", reason="b"),),
        True,
    ),
]


@pytest.mark.parametrize(
    ("old", "new", "differ"), [c[1:] for c in DIFFERENCES], ids=[c[0] for c in DIFFERENCES]
)
def test_notices(old, new, differ):
    assert conditions_differ(old, new, ("InPlaceUpdate",)) is differ
