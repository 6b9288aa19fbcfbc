"""Where a Pod goes, and why it goes nowhere."""

import json

import pytest

from kubewright.api.core import Node, NodeCondition, NodeSpec, NodeStatus, Taint
from kubewright.api.meta import ObjectMeta
from kubewright.builtin.scheduling.decide import Place, Seat, place
from kubewright.builtin.scheduling.facts import PODS, Host, asked, host_of, read_pod

ROOM = {"cpu": 2.0, "memory": 4.0, PODS: 3.0}
FULL = Taint(key="a/b", value="c", effect="NoSchedule")


def pod(*, status=None, metadata=None, requests=None, **spec):
    containers = [{"name": "main", "resources": {"requests": requests or {}}}]
    body = {"metadata": metadata or {}, "spec": {"containers": containers, **spec}, "status": status or {}}
    return read_pod(json.dumps(body).encode())


def seat(name="n", used=None, **facts):
    return Seat(Host(name, **{"allocatable": ROOM, **facts}), used or {})


def affinity(**term):
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


IN = {"key": "disk", "operator": "In", "values": ["ssd"]}
TOLERATION = {"key": "a/b", "operator": "Equal", "value": "c", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        pytest.param(pod(), seat(), id="a Pod goes to a healthy node"),
        pytest.param(pod(nodeSelector={"a": "b"}), seat(labels={"a": "b", "c": "d"}), id="a selected node"),
        pytest.param(
            pod(affinity=affinity(matchExpressions=[IN])), seat(labels={"disk": "ssd"}), id="affinity"
        ),
        pytest.param(
            pod(affinity=affinity(matchFields=[{"key": "metadata.name", "operator": "In", "values": ["n"]}])),
            seat(),
            id="affinity by name",
        ),
        pytest.param(pod(tolerations=[TOLERATION]), seat(taints=(FULL,)), id="a tolerated taint"),
        pytest.param(
            pod(tolerations=[{"operator": "Exists"}]), seat(taints=(FULL,)), id="all taints tolerated"
        ),
        pytest.param(
            pod(tolerations=[{"operator": "Exists"}]), seat(ready=False, cordoned=True), id="even sick ones"
        ),
        pytest.param(
            pod(), seat(taints=(Taint(key="a", effect="PreferNoSchedule"),)), id="a taint that only prefers"
        ),
        pytest.param(pod(requests={"cpu": "500m"}), seat(used={"cpu": 1.5}), id="exactly enough room"),
        pytest.param(pod(), seat(allocatable={}), id="a node that names no limit for Pods"),
    ],
)
def test_a_pod_may_go(wanted, found):
    assert place(wanted, [found]) == Place("n")


@pytest.mark.parametrize(
    ("wanted", "found", "because"),
    [
        pytest.param(pod(), seat(cordoned=True), "1 node(s) were unschedulable", id="a cordoned node"),
        pytest.param(
            pod(),
            seat(ready=False),
            "1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }",
            id="a sick node",
        ),
        pytest.param(pod(), seat(taints=(FULL,)), "1 node(s) had untolerated taint {a/b: c}", id="a taint"),
        pytest.param(
            pod(tolerations=[{**TOLERATION, "value": "d"}]),
            seat(taints=(FULL,)),
            "1 node(s) had untolerated taint {a/b: c}",
            id="a toleration of another value",
        ),
        pytest.param(
            pod(nodeSelector={"a": "b"}),
            seat(labels={"a": "c"}),
            "1 node(s) didn't match Pod's node affinity/selector",
            id="a node that is not selected",
        ),
        pytest.param(
            pod(affinity=affinity(matchExpressions=[IN])),
            seat(labels={"disk": "hdd"}),
            "1 node(s) didn't match Pod's node affinity/selector",
            id="a node without affinity",
        ),
        pytest.param(
            pod(requests={"cpu": "1"}), seat(used={"cpu": 1.5}), "1 Insufficient cpu", id="too little cpu"
        ),
        pytest.param(
            pod(requests={"gpu": "1"}), seat(), "1 Insufficient gpu", id="a resource that it has not"
        ),
        pytest.param(pod(), seat(used={PODS: 3.0}), "1 Too many pods", id="a full node"),
    ],
)
def test_a_pod_may_not_go(wanted, found, because):
    assert place(wanted, [found]) == Place("", f"0/1 nodes are available: {because}.")


def test_all_reasons_are_counted():
    seats = [seat("a", cordoned=True), seat("b", used={PODS: 3.0}), seat("c", cordoned=True)]
    told = "0/3 nodes are available: 1 Too many pods, 2 node(s) were unschedulable."
    assert place(pod(), seats) == Place("", told)


def test_without_nodes_there_is_no_place():
    assert place(pod(), []) == Place("", "no nodes available to schedule pods")


@pytest.mark.parametrize(
    ("seats", "best"),
    [
        pytest.param([seat("a", {"cpu": 1.0}), seat("b")], "b", id="the node with least in use"),
        pytest.param(
            [seat("a", {PODS: 2.0}), seat("b", {PODS: 1.0})], "b", id="then the one with fewest Pods"
        ),
        pytest.param([seat("b"), seat("a")], "a", id="then the first by name"),
        pytest.param([seat("a", cordoned=True), seat("b", {"cpu": 1.0})], "b", id="never one that is closed"),
    ],
)
def test_the_best_of_several(seats, best):
    assert place(pod(requests={"cpu": "100m"}), seats) == Place(best)


def test_a_pod_asks_for_the_sum_of_its_containers_or_its_largest_init_container():
    def part(cpu):
        return {"resources": {"requests": {"cpu": cpu}}}

    wanted = pod(containers=[part("100m"), part("200m")], initContainers=[part("1"), part("50m")])
    assert asked(wanted) == {"cpu": 1.0, PODS: 1.0}


@pytest.mark.parametrize(
    ("found", "waits"),
    [
        pytest.param(pod(), True, id="a new Pod"),
        pytest.param(pod(nodeName="n"), False, id="a bound one"),
        pytest.param(pod(schedulerName="mine"), False, id="one of another scheduler"),
        pytest.param(pod(schedulingGates=[{"name": "g"}]), False, id="one behind a gate"),
        pytest.param(pod(status={"phase": "Failed"}), False, id="one that is over"),
        pytest.param(
            pod(metadata={"deletionTimestamp": "2030-01-01T00:00:00Z"}), False, id="one that is deleted"
        ),
    ],
)
def test_which_pods_wait_for_a_node(found, waits):
    assert found.waits is waits


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", False)])
def test_a_host_is_ready_as_its_node_says(status, ready):
    node = Node(
        metadata=ObjectMeta(name="n", labels={"a": "b"}),
        spec=NodeSpec(taints=(FULL,), unschedulable=True),
        status=NodeStatus(
            allocatable={"cpu": "1500m", "odd": "?"}, conditions=(NodeCondition(type="Ready", status=status),)
        ),
    )
    assert host_of(node) == Host(
        "n", ready, cordoned=True, labels={"a": "b"}, taints=(FULL,), allocatable={"cpu": 1.5, "odd": 0.0}
    )
