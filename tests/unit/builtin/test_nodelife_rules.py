"""What a silent node gets told."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from msgspec import structs

from kubewright.api.core import Node, NodeCondition, NodeSpec, NodeStatus, Taint
from kubewright.api.meta import ObjectMeta
from kubewright.base.clock import rfc3339
from kubewright.builtin.nodelife import (
    NOT_READY,
    OWNED,
    UNREACHABLE,
    Settings,
    grace_of,
    heartbeat,
    taint_patch,
    unknown,
)

T0, T1 = datetime(2030, 1, 1, tzinfo=UTC), datetime(2030, 1, 2, tzinfo=UTC)
OURS = Taint(key="node.machine.sapcloud.io/not-managed-by-mcm", effect="NoSchedule")


def node(*conditions, taints=()):
    return Node(
        metadata=ObjectMeta(name="n", creation_timestamp=T0),
        spec=NodeSpec(taints=taints),
        status=NodeStatus(conditions=conditions),
    )


def posted(type_, status):
    return NodeCondition(type=type_, status=status, last_heartbeat_time=T0, last_transition_time=T0)


def test_posted_conditions_become_unknown_and_keep_their_heartbeat():
    said = {each.type: each for each in unknown(node(posted("Ready", "True")), T1)}
    ready = said["Ready"]
    assert (ready.status, ready.reason) == ("Unknown", "NodeStatusUnknown")
    assert ready.message == "Kubelet stopped posting node status."
    assert (ready.last_heartbeat_time, ready.last_transition_time) == (T0, T1)


def test_conditions_that_never_came_say_so():
    said = unknown(node(), T1)
    assert tuple(each.type for each in said) == OWNED
    assert {each.reason for each in said} == {"NodeStatusNeverUpdated"}
    assert {each.last_heartbeat_time for each in said} == {T0}


def test_what_is_unknown_already_is_not_written_again():
    silent = node(*(posted(type_, "Unknown") for type_ in OWNED))
    assert unknown(silent, T1) == ()


def test_conditions_of_others_are_left_alone():
    said = unknown(node(*(posted(type_, "True") for type_ in (*OWNED, "NetworkUnavailable"))), T1)
    assert "NetworkUnavailable" not in {each.type for each in said}


def test_a_node_that_never_posted_gets_more_time():
    settings = Settings(grace=40, startup=60)
    assert (grace_of(node(posted("Ready", "True")), settings), grace_of(node(), settings)) == (40, 60)


def test_heartbeat():
    assert heartbeat(None) is None
    assert heartbeat(node()) is None
    assert heartbeat(node(posted("Ready", "True"))) == T0


@pytest.mark.parametrize(
    ("status", "before", "keys"),
    [
        pytest.param("True", (OURS,), None, id="a ready node keeps its taints"),
        pytest.param("Unknown", (OURS,), {OURS.key, UNREACHABLE}, id="a silent one is unreachable"),
        pytest.param("False", (), {NOT_READY}, id="one that is not ready is not ready"),
        pytest.param(
            "True", (OURS, Taint(key=UNREACHABLE, effect="NoSchedule")), {OURS.key}, id="back again"
        ),
        pytest.param(
            "False",
            (Taint(key=UNREACHABLE, effect="NoSchedule"),),
            {NOT_READY},
            id="unreachable before, now not ready",
        ),
    ],
)
def test_taints(status, before, keys):
    patch = taint_patch(node(posted("Ready", status), taints=before), T1)
    assert ({each["key"] for each in patch["spec"]["taints"]} if patch else None) == keys


def test_taints_that_are_there_are_not_written_again():
    silent = node(posted("Ready", "Unknown"))
    found = taint_patch(silent, T1 + timedelta(microseconds=7))["spec"]["taints"]
    times = {each["effect"]: each.get("timeAdded") for each in found}
    assert times == {"NoSchedule": None, "NoExecute": rfc3339(T1)}
    marked = structs.replace(silent, spec=NodeSpec(taints=msgspec.convert(found, tuple[Taint, ...])))
    assert taint_patch(marked, T1 + timedelta(hours=1)) == {}


def test_a_node_of_a_cluster_whose_nodes_are_all_silent_evicts_nothing():
    silent = node(posted("Ready", "Unknown"))
    (taint,) = taint_patch(silent, T1, evicts=False)["spec"]["taints"]
    assert (taint["key"], taint["effect"]) == (UNREACHABLE, "NoSchedule")
    evicting = (Taint(key=UNREACHABLE, effect="NoSchedule"), Taint(key=UNREACHABLE, effect="NoExecute"))
    patch = taint_patch(node(posted("Ready", "Unknown"), taints=evicting), T1, evicts=False)
    assert patch["spec"]["taints"] == [{"key": UNREACHABLE, "effect": "NoSchedule"}]
