"""Where a Pod goes, and why it goes nowhere."""

import json

import pytest

from kubewright.api.core import Node, NodeCondition, NodeSpec, NodeStatus, Taint
from kubewright.api.meta import ObjectMeta
from kubewright.builtin.scheduling.decide import NodeInfo, Placement, place
from kubewright.builtin.scheduling.facts import PODS, NodeFacts, node_facts, read_pod, requests_of

ROOM = {"cpu": 2.0, "memory": 4.0, PODS: 3.0}
FULL = Taint(key="a/b", value="c", effect="NoSchedule")


def pod(*, status=None, metadata=None, requests=None, **spec):
    containers = [{"name": "main", "resources": {"requests": requests or {}}}]
    body = {"metadata": metadata or {}, "spec": {"containers": containers, **spec}, "status": status or {}}
    return read_pod(json.dumps(body).encode())


def node(name="n", used=None, **facts):
    return NodeInfo(NodeFacts(name, **{"allocatable": ROOM, **facts}), used or {})


def affinity(**term):
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


IN = {"key": "disk", "operator": "In", "values": ["ssd"]}
TOLERATION = {"key": "a/b", "operator": "Equal", "value": "c", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        pytest.param(pod(), node(), id="a Pod goes to a healthy node"),
        pytest.param(pod(nodeSelector={"a": "b"}), node(labels={"a": "b", "c": "d"}), id="a selected node"),
        pytest.param(
            pod(affinity=affinity(matchExpressions=[IN])), node(labels={"disk": "ssd"}), id="affinity"
        ),
        pytest.param(
            pod(affinity=affinity(matchFields=[{"key": "metadata.name", "operator": "In", "values": ["n"]}])),
            node(),
            id="affinity by name",
        ),
        pytest.param(pod(tolerations=[TOLERATION]), node(taints=(FULL,)), id="a tolerated taint"),
        pytest.param(
            pod(tolerations=[{"operator": "Exists"}]), node(taints=(FULL,)), id="all taints tolerated"
        ),
        pytest.param(
            pod(tolerations=[{"operator": "Exists"}]),
            node(ready=False, cordoned=True),
            id="even for nodes that are cordoned and not ready",
        ),
        pytest.param(
            pod(), node(taints=(Taint(key="a", effect="PreferNoSchedule"),)), id="a taint that only prefers"
        ),
        pytest.param(pod(requests={"cpu": "500m"}), node(used={"cpu": 1.5}), id="exactly enough room"),
        pytest.param(pod(requests={"cpu": "1500m"}), node(), id="more than half of an empty node"),
        pytest.param(
            pod(requests={"cpu": "0"}), node(used={"cpu": 3.0}), id="who asks for nothing fits everywhere"
        ),
        pytest.param(pod(), node(allocatable={}), id="a node that names no limit for Pods"),
    ],
)
def test_a_pod_is_bound(wanted, found):
    assert place(wanted, [found]) == Placement("n")


@pytest.mark.parametrize(
    ("wanted", "found", "because"),
    [
        pytest.param(pod(), node(cordoned=True), "1 node(s) were unschedulable", id="a cordoned node"),
        pytest.param(
            pod(),
            node(ready=False),
            "1 node(s) had untolerated taint(s)",
            id="a node that is not ready",
        ),
        pytest.param(pod(), node(taints=(FULL,)), "1 node(s) had untolerated taint(s)", id="a taint"),
        pytest.param(
            pod(tolerations=[{**TOLERATION, "value": "d"}]),
            node(taints=(FULL,)),
            "1 node(s) had untolerated taint(s)",
            id="a toleration of another value",
        ),
        pytest.param(
            pod(nodeSelector={"a": "b"}),
            node(labels={"a": "c"}),
            "1 node(s) didn't match Pod's node affinity/selector",
            id="a node that is not selected",
        ),
        pytest.param(
            pod(affinity=affinity(matchExpressions=[IN])),
            node(labels={"disk": "hdd"}),
            "1 node(s) didn't match Pod's node affinity/selector",
            id="a node without affinity",
        ),
        pytest.param(
            pod(requests={"cpu": "1"}), node(used={"cpu": 1.5}), "1 Insufficient cpu", id="too little cpu"
        ),
        pytest.param(
            pod(requests={"gpu": "1"}), node(), "1 Insufficient gpu", id="a resource that the node lacks"
        ),
        pytest.param(pod(), node(used={PODS: 3.0}), "1 Too many pods", id="a full node"),
    ],
)
def test_a_pod_may_not_go(wanted, found, because):
    told = place(wanted, [found]).because
    assert told.startswith(
        f"0/1 nodes are available: {because}. no new claims to deallocate, preemption: 0/1 "
    )


@pytest.mark.parametrize(
    ("wanted", "nodes", "told"),
    [
        pytest.param(
            pod(),
            [node("a", cordoned=True), node("b", used={PODS: 3.0}), node("c", cordoned=True)],
            "0/3 nodes are available: 1 Too many pods, 2 node(s) were unschedulable. no new claims to "
            "deallocate, preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, "
            "2 Preemption is not helpful for scheduling.",
            id="fewer Pods would help on a full node, and not on one that is cordoned",
        ),
        pytest.param(
            pod(requests={"cpu": "3", "memory": "3"}),
            [node("a", used={"memory": 2.0})],
            "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory. no new claims to deallocate, "
            "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
            id="every resource is named, and one that the node never has is for good",
        ),
        pytest.param(
            pod(),
            [*(node(f"a{each}", cordoned=True) for each in range(10)), node("b", used={PODS: 3.0})],
            "0/11 nodes are available: 1 Too many pods, 10 node(s) were unschedulable. no new claims to "
            "deallocate, preemption: 0/11 nodes are available: 1 No preemption victims found for incoming "
            "pod, 10 Preemption is not helpful for scheduling.",
            id="the counts are sorted as texts",
        ),
        pytest.param(
            pod(preemptionPolicy="Never"),
            [node(cordoned=True)],
            "0/1 nodes are available: 1 node(s) were unschedulable. no new claims to deallocate, preemption: "
            "not eligible due to preemptionPolicy=Never.",
            id="a Pod that preempts nothing",
        ),
    ],
)
def test_the_message_about_a_pod_that_fits_nowhere_is_kube_schedulers(wanted, nodes, told):
    assert place(wanted, nodes).because == told


def test_without_nodes_no_pod_is_bound():
    assert place(pod(), []) == Placement("", "no nodes available to schedule pods")


@pytest.mark.parametrize(
    ("nodes", "best"),
    [
        pytest.param([node("a", {"cpu": 1.0}), node("b")], "b", id="the node with least in use"),
        pytest.param(
            [node("a", {PODS: 2.0}), node("b", {PODS: 1.0})], "b", id="then the one with fewest Pods"
        ),
        pytest.param([node("b"), node("a")], "a", id="then the first by name"),
        pytest.param([node("a"), node("b", {"cpu": 1.0})], "a", id="wherever it stands"),
        pytest.param([node("a", {"cpu": 0.2}), node("b")], "b", id="also by little"),
        pytest.param([node("a", {"cpu": 4e-7}), node("b")], "a", id="not by less than a millionth"),
        pytest.param([node("a", {PODS: 1.0}), node("b")], "b", id="one that has no Pod yet"),
        pytest.param(
            [node("a", {"cpu": 1.0}), node("b", {"cpu": 2.0}, allocatable=ROOM | {"cpu": 10.0})],
            "b",
            id="by the share that is in use",
        ),
        pytest.param([node("a"), node("b", allocatable=ROOM | {"cpu": 4.0})], "b", id="with the Pod itself"),
        pytest.param(
            [node("a", allocatable=ROOM | {"memory": 2.0}), node("b")],
            "a",
            id="not by what the Pod does not ask for",
        ),
        pytest.param(
            [node("a", {"memory": 1.0}, allocatable={"cpu": 2.0}), node("b")],
            "a",
            id="nor by what a node does not limit",
        ),
        pytest.param(
            [node("a", {"cpu": 0.5}, allocatable=ROOM | {"cpu": 1.0}), node("b")],
            "b",
            id="on small nodes, too",
        ),
        pytest.param([node("a", cordoned=True), node("b", {"cpu": 1.0})], "b", id="never a cordoned one"),
    ],
)
def test_the_best_of_several(nodes, best):
    assert place(pod(requests={"cpu": "100m"}), nodes) == Placement(best)


def test_a_pod_asks_for_the_sum_of_its_containers_or_its_largest_init_container():
    def part(cpu):
        return {"resources": {"requests": {"cpu": cpu}}}

    wanted = pod(containers=[part("100m"), part("200m")], initContainers=[part("1"), part("50m")])
    assert requests_of(wanted) == {"cpu": 1.0, PODS: 1.0}


@pytest.mark.parametrize(
    ("found", "waits"),
    [
        pytest.param(pod(), True, id="a new Pod"),
        pytest.param(pod(nodeName="n"), False, id="a bound one"),
        pytest.param(pod(schedulerName="mine"), False, id="one of another scheduler"),
        pytest.param(pod(schedulingGates=[{"name": "g"}]), False, id="one behind a gate"),
        pytest.param(pod(status={"phase": "Failed"}), False, id="one that has failed"),
        pytest.param(
            pod(metadata={"deletionTimestamp": "2030-01-01T00:00:00Z"}), False, id="one that is being deleted"
        ),
    ],
)
def test_which_pods_wait_for_a_node(found, waits):
    assert found.waits is waits


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", False)])
def test_a_node_is_ready_as_its_condition_says(status, ready):
    node = Node(
        metadata=ObjectMeta(name="n", labels={"a": "b"}),
        spec=NodeSpec(taints=(FULL,), unschedulable=True),
        status=NodeStatus(
            allocatable={"cpu": "1500m", "odd": "?"}, conditions=(NodeCondition(type="Ready", status=status),)
        ),
    )
    assert node_facts(node) == NodeFacts(
        "n", ready, cordoned=True, labels={"a": "b"}, taints=(FULL,), allocatable={"cpu": 1.5, "odd": 0.0}
    )


def asks(cpu, **more):
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}


SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        pytest.param({"containers": [asks("1"), asks("2")]}, 3, id="containers are added"),
        pytest.param({"containers": [asks("1")], "initContainers": [asks("2"), asks("3")]}, 3, id="the largest"),
        pytest.param({"containers": [asks("1")], "initContainers": [asks("2", **SIDECAR)]}, 3, id="a sidecar stays"),
        pytest.param(
            {"containers": [asks("1")], "initContainers": [asks("1", **SIDECAR), asks("3")]}, 4,
            id="an init container runs beside the sidecar before it",
        ),
        pytest.param(
            {"containers": [asks("1")], "initContainers": [asks("3"), asks("1", **SIDECAR)]}, 3,
            id="and ends before the one after it",
        ),
        pytest.param(
            {"containers": [asks("1")], "resources": {"requests": {"cpu": "5", "example.com/gpu": "1"}}}, 5,
            id="what the whole Pod asks for counts instead",
        ),
        pytest.param({"containers": [asks("1")], "overhead": {"cpu": "250m"}}, 1.25, id="its overhead is added"),
    ],
)  # fmt: skip
def test_what_a_pod_requests_is_what_its_kubelet_will_count(spec, cpu):
    assert requests_of(pod(**spec)) == {"cpu": cpu, PODS: 1.0}
