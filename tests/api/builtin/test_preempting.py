"""The scheduler that preempts, where requests fail, and where it ends in the middle."""

import pytest

from kubewright.api.core import NODE, POD
from kubewright.api.kinds import dynamic
from kubewright.builtin import Settings
from kubewright.wire.gvk import Resource

NODES, PODS = dynamic(NODE.resource), dynamic(POD.resource)
CLASSES = dynamic(Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False))
SCHEDULES = Settings(schedule_pods=True, watch_nodes=False)
HIGH = "high"


async def furnish(world, **nodes):
    """Nodes of so many cpus, and a class above 0."""
    await world.create(CLASSES, HIGH, value=10)
    for name, cpu in nodes.items():
        await furnish_node(world, name, cpu)


async def furnish_node(world, name, cpu="1"):
    room = {"cpu": cpu, "pods": "10"}
    await world.create(NODES, name, status={"capacity": room, "allocatable": room})


async def pod(world, name, cpu="1", **spec):
    resources = {"requests": {"cpu": cpu}}
    spec["containers"] = [{"name": "main", "image": "app:1", "resources": resources}]
    return await world.create(PODS, name, spec=spec)


async def leaving(world):
    found = await world.user.list(PODS, "default")
    return {each["metadata"]["name"] for each in found if "deletionTimestamp" in each["metadata"]}


async def promised(world, name, node):
    async def look():
        return (await world.get(PODS, name))["status"].get("nominatedNodeName") == node

    await world.eventually(look, 300)


async def bound(world, name):
    async def look():
        return (await world.get(PODS, name))["spec"].get("nodeName")

    return await world.eventually(look)


async def told(world, name):
    return (await world.get(PODS, name))["status"].get("conditions")


async def test_what_a_scheduler_promised_before_it_ended_the_next_one_keeps(world):
    await furnish(world, a="1")
    await pod(world, "low", nodeName="a")
    await pod(world, "new", priorityClassName=HIGH)
    await world.patch(PODS, "new", {"status": {"nominatedNodeName": "a"}}, subresource="status")
    async with world.controlled(SCHEDULES):
        await world.eventually(lambda: leaving(world))
        await world.delete(PODS, "low", grace=0)
        assert await bound(world, "new") == "a"


@pytest.mark.parametrize("seed", range(5))
async def test_requests_that_fail_cost_no_further_victim(world, seed):
    await furnish(world, a="3")
    for name in ("w", "x", "y"):
        await pod(world, name, nodeName="a")
    world.requests.chance.seed(seed)
    async with world.controlled(SCHEDULES):
        world.requests.trouble = 0.4
        await pod(world, "new", priorityClassName=HIGH)
        await pod(world, "waits")
        await promised(world, "new", "a")
        await world.eventually(lambda: leaving(world), 300)
        world.requests.trouble = 0.0
        assert await leaving(world) == {"y"}
        await world.delete(PODS, "y", grace=0)
        assert await bound(world, "new") == "a"
        assert await leaving(world) == set()


async def test_a_victim_that_has_finished_makes_room_before_its_pod_is_gone(world):
    """A real kubelet reports the end of the containers first, and deletes the Pod then."""
    await furnish(world, a="1")
    await pod(world, "low", nodeName="a")
    async with world.controlled(SCHEDULES):
        await pod(world, "new", priorityClassName=HIGH)
        await world.eventually(lambda: leaving(world))
        await world.patch(PODS, "low", {"status": {"phase": "Failed"}}, subresource="status")
        assert await bound(world, "new") == "a"


async def test_a_pod_that_finds_no_victims_costs_one_request(world):
    await furnish(world, a="1")
    await pod(world, "low", nodeName="a")
    async with world.controlled(SCHEDULES):
        await pod(world, "first")
        await world.eventually(lambda: told(world, "first"))
        world.requests.take()
        await pod(world, "second")
        await world.eventually(lambda: told(world, "second"))
        assert sum(world.requests.take().values()) == 1, "its condition; there is no recorder of events here"


async def test_all_pods_that_wait_are_tried_by_priority_after_room_is_found(world):
    await furnish(world, a="1")
    await pod(world, "full", nodeName="a")
    async with world.controlled(SCHEDULES):
        for number in range(8):
            await pod(world, f"p{number}")
        await world.create(CLASSES, "gentle", value=5, preemptionPolicy="Never")
        await pod(world, "gentle", priorityClassName="gentle")
        await world.delete(PODS, "full", grace=0)
        assert await bound(world, "gentle") == "a"


async def test_room_that_is_needed_no_more_is_given_to_another(world):
    """A toleration that comes late lets the Pod go elsewhere; nothing else happens that could wake the others."""
    await furnish(world, a="2", b="2")
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    await world.patch(NODES, "b", {"spec": {"taints": [taint]}})
    await pod(world, "low", nodeName="a")
    async with world.controlled(SCHEDULES):
        await pod(world, "new", "2", priorityClassName=HIGH)
        await promised(world, "new", "a")
        await pod(world, "rival", priorityClassName=HIGH)
        await world.eventually(lambda: told(world, "rival"))
        await world.patch(PODS, "new", {"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}})
        assert await bound(world, "new") == "b"
        assert await bound(world, "rival") == "a"
        assert await leaving(world) == {"low"}


async def test_a_promise_ends_with_its_node(world):
    await furnish(world, a="1")
    await pod(world, "low", nodeName="a")
    async with world.controlled(SCHEDULES):
        await pod(world, "new", priorityClassName=HIGH)
        await promised(world, "new", "a")
        await world.eventually(lambda: leaving(world))
        await world.delete(NODES, "a")
        await promised(world, "new", None)
        await furnish_node(world, "b")
        assert await bound(world, "new") == "b"


async def test_a_victim_that_does_not_end_costs_no_other_and_keeps_no_pod_from_a_free_node(world):
    await furnish(world, a="1", b="1")
    for name in ("a", "b"):
        await pod(world, f"low-{name}", nodeName=name)
    async with world.controlled(SCHEDULES):
        await pod(world, "new", priorityClassName=HIGH)
        await world.eventually(lambda: leaving(world))
        await furnish_node(world, "c", cpu="500m")  # it is tried again, and does not fit
        await pod(world, "small", "500m")
        assert await bound(world, "small") == "c"
        assert len(await leaving(world)) == 1
        await furnish_node(world, "d")
        assert await bound(world, "new") == "d"
        assert len(await leaving(world)) == 1
