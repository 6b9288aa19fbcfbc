"""Namespaces, silent nodes, budgets, and pods of lost nodes, against the embedded server."""

import asyncio

import pytest

from kubewright.api.core import CLUSTER_ROLE, CRD, LEASE, NAMESPACE, NODE, PDB, POD
from kubewright.api.kinds import dynamic
from kubewright.base.clock import rfc3339, rfc3339_micro
from kubewright.wire.errors import TooManyRequests
from kubewright.wire.gvk import Key, Resource

CONFIG_MAP = dynamic(Resource("", "v1", "configmaps", "ConfigMap"))
TOYS = dynamic(Resource("example.org", "v1", "toys", "Toy"))
DEFINITIONS = dynamic(CRD.resource)
KINDS = (CONFIG_MAP, LEASE, NAMESPACE, NODE, PDB, POD)
CONFIG_MAPS, LEASES, NAMESPACES, NODES, BUDGETS, PODS = (dynamic(kind.resource) for kind in KINDS)

# ---------------------------------------------------------------- namespaces


async def test_a_namespace_goes_with_everything_in_it(run):
    await run.create(NAMESPACES, "team")
    for name in ("a", "b"):
        await run.config_map(name, namespace="team")
    await run.delete(NAMESPACES, "team")
    await run.gone(NAMESPACES, "team", seconds=10)
    assert await run.names(CONFIG_MAPS, "team") == set()


async def test_what_holds_a_namespace_is_reported_and_waited_for(run):
    await run.create(NAMESPACES, "team")
    await run.config_map("a", namespace="team", finalizers=["example.org/hold"])
    await run.delete(NAMESPACES, "team")
    await asyncio.sleep(5)
    status = (await run.get(NAMESPACES, "team"))["status"]
    told = {each["type"]: each["message"] for each in status["conditions"] if each["status"] == "True"}
    assert status["phase"] == "Terminating"
    assert (
        told["NamespaceContentRemaining"]
        == "Some resources are remaining: configmaps has 1 resource instances"
    )
    assert "example.org/hold in 1 resource instances" in told["NamespaceFinalizersRemaining"]
    await run.patch(CONFIG_MAPS, "a", {"metadata": {"finalizers": None}}, namespace="team")
    await run.gone(NAMESPACES, "team")


# ---------------------------------------------------------------- silent nodes


async def beat(run, name, stop_after):
    """A kubelet's Lease, renewed every 10 s for a while."""
    spec = {"holderIdentity": name, "leaseDurationSeconds": 40}
    await run.create(LEASES, name, "kube-node-lease", spec=spec)
    for _ in range(int(stop_after / 10)):
        await asyncio.sleep(10)
        renewal = {"spec": {"renewTime": rfc3339_micro(run.clock.now())}}
        await run.patch(LEASES, name, renewal, "kube-node-lease")


async def ready(run, name):
    node = await run.get(NODES, name)
    return next(each for each in node["status"]["conditions"] if each["type"] == "Ready")


async def a_node(run, name):
    if await run.get(NAMESPACES, "kube-node-lease") is None:
        await run.create(NAMESPACES, "kube-node-lease")
    await run.create(NODES, name)
    await post_status(run, name)


async def post_status(run, name):
    now = rfc3339(run.clock.now())
    said = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
    }
    condition = {**said, "lastHeartbeatTime": now, "lastTransitionTime": now}
    await run.patch(NODES, name, {"status": {"conditions": [condition]}}, subresource="status")


async def test_a_node_is_unknown_forty_seconds_after_its_last_heartbeat(run):
    await a_node(run, "n1")
    await beat(run, "n1", 200)
    silent_since = run.clock.monotonic()
    assert (await ready(run, "n1"))["status"] == "True"
    await run.eventually(lambda: is_unknown(run, "n1"), 60)
    assert 39.9 <= run.clock.monotonic() - silent_since <= 41
    said = await ready(run, "n1")
    assert (said["reason"], said["message"]) == ("NodeStatusUnknown", "Kubelet stopped posting node status.")


async def is_unknown(run, name):
    return (await ready(run, name))["status"] == "Unknown"


async def test_a_node_that_is_back_can_fall_silent_again(run):
    await a_node(run, "n1")
    await run.eventually(lambda: is_unknown(run, "n1"), 60)
    await post_status(run, "n1")
    await asyncio.sleep(35)
    assert not await is_unknown(run, "n1")
    await run.eventually(lambda: is_unknown(run, "n1"), 10)


async def test_heartbeats_cost_no_request(run):
    await a_node(run, "n1")
    await asyncio.sleep(5)
    run.requests.take()
    await beat(run, "n1", 600)
    assert run.requests.take() == {}


async def evicting(run, name):
    node = await run.get(NODES, name)
    keys = {each["key"] for each in node["spec"].get("taints", ()) if each["effect"] == "NoExecute"}
    return "node.kubernetes.io/unreachable" in keys


async def test_a_silent_node_evicts_its_pods_after_their_time_while_another_lives(run):
    await a_node(run, "n1")
    await a_node(run, "n2")
    await a_pod(run, "p1")
    alive = asyncio.create_task(beat(run, "n2", 1000))
    await run.eventually(lambda: evicting(run, "n1"), 60)
    pod = await run.get(PODS, "p1")
    assert [each["status"] for each in pod["status"]["conditions"] if each["type"] == "Ready"] == ["False"]
    await asyncio.sleep(290)
    assert "deletionTimestamp" not in (await run.get(PODS, "p1"))["metadata"]
    await asyncio.sleep(20)
    assert "deletionTimestamp" in (await run.get(PODS, "p1"))["metadata"]
    alive.cancel()


async def test_nothing_is_evicted_while_all_nodes_are_silent(run):
    names = ("n1", "n2", "n3")
    for name in names:
        await a_node(run, name)
        await a_pod(run, f"p-{name}", node=name)
        await asyncio.sleep(3)
    for name in names[:2]:
        await run.eventually(lambda name=name: evicting(run, name), 60)
    await run.eventually(lambda: is_unknown(run, "n3"), 60)
    await asyncio.sleep(1)
    assert not any([await evicting(run, name) for name in names])
    await asyncio.sleep(400)
    pods = [await run.get(PODS, f"p-{name}") for name in names]
    assert not any("deletionTimestamp" in pod["metadata"] for pod in pods)
    await post_status(run, "n2")
    await run.eventually(lambda: evicting(run, "n1"), 5)
    assert [await evicting(run, name) for name in names] == [True, False, True]


async def test_lost_nodes_stop_evicting_when_the_last_other_one_is_deleted(run):
    await a_node(run, "n1")
    await a_node(run, "n2")
    alive = asyncio.create_task(beat(run, "n2", 1000))
    await run.eventually(lambda: evicting(run, "n1"), 60)
    alive.cancel()
    await run.delete(NODES, "n2")
    await asyncio.sleep(1)
    assert not await evicting(run, "n1")


async def test_a_pod_that_cannot_be_written_keeps_no_other_from_being_marked_and_evicted(run):
    await a_node(run, "n1")
    await a_node(run, "n2")
    for name in ("p1", "p2", "p3"):
        await a_pod(run, name)
    bad = "/api/v1/namespaces/default/pods/p1/status"
    run.requests.refused.add(bad)
    alive = asyncio.create_task(beat(run, "n2", 3000))
    await run.eventually(lambda: evicting(run, "n1"), 60)
    await asyncio.sleep(1)
    ready = {}
    for name in ("p1", "p2", "p3"):
        conditions = (await run.get(PODS, name))["status"]["conditions"]
        ready[name] = next(each["status"] for each in conditions if each["type"] == "Ready")
    assert ready == {"p1": "True", "p2": "False", "p3": "False"}
    await asyncio.sleep(310)
    leaving = [await run.get(PODS, name) for name in ("p1", "p2", "p3")]
    assert ["deletionTimestamp" in pod["metadata"] for pod in leaving] == [False, True, True]
    run.requests.refused.clear()
    await asyncio.sleep(300)
    assert "deletionTimestamp" in (await run.get(PODS, "p1"))["metadata"]
    alive.cancel()


# ---------------------------------------------------------------- budgets and pods


def toys(**more):
    """The definition of a kind whose objects want a number of pods."""
    numbers = {"type": "object", "properties": {"replicas": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"spec": numbers, "status": numbers}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **more}
    names = {"plural": "toys", "kind": "Toy"}
    return {"group": "example.org", "scope": "Namespaced", "names": names, "versions": [version]}


async def test_a_budget_that_cannot_be_counted_is_counted_again_after_a_while(run):
    await run.create(DEFINITIONS, "toys.example.org", spec=toys())
    toy = await run.create(TOYS, "t", spec={"replicas": 3})
    owner = {
        **run.owner_reference({"apiVersion": "example.org/v1", "kind": "Toy", **toy}),
        "controller": True,
    }
    metadata = {"labels": {"app": "web"}, "ownerReferences": [owner]}
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
    await run.create(NODES, "n1")
    await run.create(PODS, "p", metadata=metadata, spec=spec)
    await run.create(BUDGETS, "b", spec={"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}})
    await asyncio.sleep(1)
    (failed,) = (await run.get(BUDGETS, "b"))["status"]["conditions"]
    assert failed["reason"] == "SyncFailed"
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    await run.patch(DEFINITIONS, "toys.example.org", {"spec": toys(subresources={"scale": scale})})
    await asyncio.sleep(65)
    assert (await run.get(BUDGETS, "b"))["status"]["expectedPods"] == 3


async def a_pod(run, name, *, node="n1", **labels):
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
    await run.create(PODS, name, metadata={"labels": labels or {"app": "web"}}, spec=spec)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await run.patch(PODS, name, {"status": status}, subresource="status")


async def test_a_budget_is_counted_and_spent_by_evictions(run):
    await run.create(NODES, "n1")
    for number in range(3):
        await a_pod(run, f"p{number}")
    selector = {"matchLabels": {"app": "web"}}
    await run.create(BUDGETS, "b", spec={"minAvailable": 2, "selector": selector})
    await asyncio.sleep(1)
    status = (await run.get(BUDGETS, "b"))["status"]
    assert (status["expectedPods"], status["currentHealthy"], status["disruptionsAllowed"]) == (3, 3, 1)
    await run.user.evict(Key("default", "p0"))
    with pytest.raises(TooManyRequests):
        await run.user.evict(Key("default", "p1"))
    await run.delete(PODS, "p0", grace=0)
    await a_pod(run, "p3")
    await asyncio.sleep(1)
    await run.user.evict(Key("default", "p1"))


async def test_an_unchanged_budget_is_not_written(run):
    await run.create(NODES, "n1")
    await a_pod(run, "p0")
    await run.create(BUDGETS, "b", spec={"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}})
    await asyncio.sleep(1)
    run.requests.take()
    await run.patch(PODS, "p0", {"metadata": {"annotations": {"a": "b"}}})
    await a_pod(run, "elsewhere", app="db")
    await asyncio.sleep(30)
    assert run.requests.take() == {}


async def test_pods_of_a_lost_node_are_removed_after_a_while(run):
    for name in ("n1", "n2"):
        await run.create(NODES, name)
    await a_pod(run, "p1")
    await a_pod(run, "p2", node="n2")
    await run.delete(NODES, "n1")
    await asyncio.sleep(39)
    assert await run.names(PODS) == {"p1", "p2"}
    await asyncio.sleep(2)
    assert await run.names(PODS) == {"p2"}


async def test_a_pod_of_a_lost_node_that_cannot_be_written_keeps_no_other_from_being_removed(run):
    await run.create(NODES, "n1")
    for name in ("p1", "p2", "p3"):
        await a_pod(run, name)
    run.requests.refused.add("/api/v1/namespaces/default/pods/p1/status")
    await run.delete(NODES, "n1")
    await asyncio.sleep(45)
    assert await run.names(PODS) == {"p1"}
    run.requests.refused.clear()
    await asyncio.sleep(300)
    assert await run.names(PODS) == set()


async def test_a_node_that_comes_back_keeps_its_pods(run):
    await run.create(NODES, "n1")
    await a_pod(run, "p1")
    await run.delete(NODES, "n1")
    await asyncio.sleep(20)
    await run.create(NODES, "n1")
    await asyncio.sleep(100)
    assert await run.names(PODS) == {"p1"}


# ---------------------------------------------------------------- roles that gather others


async def test_view_gathers_what_a_new_api_gives_it_and_nothing_is_written_twice(run):
    label = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    rule = {"apiGroups": ["example.org"], "resources": ["widgets"], "verbs": ["get"]}
    await run.create(CLUSTER_ROLE, "widgets", metadata={"labels": label}, rules=[rule])

    async def gathered():
        roles = [await run.get(CLUSTER_ROLE, name) for name in ("view", "edit", "admin")]
        return all(rule in role["rules"] for role in roles)

    await run.eventually(gathered, seconds=5)
    view = await run.get(CLUSTER_ROLE, "view")
    await asyncio.sleep(60)
    assert (await run.get(CLUSTER_ROLE, "view"))["metadata"]["resourceVersion"] == view["metadata"][
        "resourceVersion"
    ]
