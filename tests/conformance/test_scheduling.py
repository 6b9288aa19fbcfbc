"""Our scheduler on both servers: what it binds, and what it says of Pods that it cannot place."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from kubewright.testing.api import Object
from kubewright.testing.workloads import Workloads, condition, is_ready

NewWorkloads = Callable[[], AbstractAsyncContextManager[Workloads]]
SCHEDULER = "default-scheduler"


async def make(apps: Workloads, name: str, **spec: object) -> None:
    body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "app:1"}], **spec}}
    (await apps.api.post(apps.api.at("pods"), body)).ok()


async def running(apps: Workloads, name: str) -> Object:
    async def look() -> Object | None:
        pod = (await apps.api.get(apps.api.at("pods", name))).ok()
        return pod if is_ready(pod) else None

    found: Object = await apps.api.eventually(look, f"{name} runs")
    return found


async def nodes_ready(apps: Workloads) -> bool:
    nodes = [(await apps.api.get(f"/api/v1/nodes/{name}")).ok() for name in apps.nodes]
    return all(condition(node, "Ready")[0] == "True" for node in nodes)


async def amend(apps: Workloads, node: str, body: Object) -> None:
    (await apps.api.patch(f"/api/v1/nodes/{node}", body)).ok()


async def test_pods_are_spread_and_run(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        await apps.api.eventually(lambda: nodes_ready(apps), "both nodes are ready")
        for name in ("a", "b"):
            await make(apps, name)
        nodes = {(await running(apps, name))["spec"]["nodeName"] for name in ("a", "b")}
        assert nodes == set(apps.nodes)
        (node,) = {(await running(apps, "a"))["spec"]["nodeName"]}
        told = f"Successfully assigned {apps.api.namespace}/a to {node}"
        await apps.until_events("a", (SCHEDULER, "Normal", "Scheduled", told))


async def test_a_pod_without_a_place_says_why_and_gets_one_later(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        await make(apps, "picky", nodeSelector={"disk": "ssd"})
        why = (
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. no new claims to "
            "deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
        )
        await apps.until_events("picky", (SCHEDULER, "Warning", "FailedScheduling", why))
        pod = (await apps.api.get(apps.api.at("pods", "picky"))).ok()
        assert condition(pod, "PodScheduled") == ("False", "Unschedulable", why)
        (told,) = (each for each in pod["status"]["conditions"] if each["type"] == "PodScheduled")
        assert told["observedGeneration"] == pod["metadata"]["generation"] == 1
        await amend(apps, apps.nodes[1], {"metadata": {"labels": {"disk": "ssd"}}})
        assert (await running(apps, "picky"))["spec"]["nodeName"] == apps.nodes[1]


async def test_a_cordoned_node_gets_no_pods(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        await amend(apps, apps.nodes[0], {"spec": {"unschedulable": True}})
        for name in ("a", "b", "c"):
            await make(apps, name)
        assert {(await running(apps, name))["spec"]["nodeName"] for name in ("a", "b", "c")} == {
            apps.nodes[1]
        }


async def test_room_that_a_pod_leaves_is_given_to_the_next(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        large = {"resources": {"requests": {"cpu": "1500m"}}, "name": "main", "image": "app:1"}
        for name in ("a", "b", "c"):
            await make(apps, name, containers=[large])

        async def one_waits() -> list[str]:
            found = (await apps.api.get(apps.api.at("pods"))).ok()["items"]
            waits = [each for each in found if condition(each, "PodScheduled")[1] == "Unschedulable"]
            return [each["metadata"]["name"] for each in waits]

        (last,) = await apps.api.eventually(one_waits, "one has no room")
        first = next(name for name in ("a", "b", "c") if name != last)
        await apps.delete("pods", first)
        await running(apps, last)


async def test_a_pod_of_a_higher_priority_takes_the_place_of_a_lower_one(new_workloads: NewWorkloads) -> None:
    """Its kubelet ends the victim, as it does a Pod that a user deletes."""
    async with new_workloads() as apps:
        classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
        await apps.api.post(classes, {"metadata": {"name": "urgent"}, "value": 1000})
        large = {"resources": {"requests": {"cpu": "1500m"}}, "name": "main", "image": "app:1"}
        for name in ("a", "b"):
            await make(apps, name, containers=[large])
            await running(apps, name)

        async def known() -> bool:  # a real server's admission knows a class a moment after it was made
            body = {
                "metadata": {"name": "new"},
                "spec": {"containers": [large], "priorityClassName": "urgent"},
            }
            return (await apps.api.post(apps.api.at("pods"), body)).code == 201

        await apps.api.eventually(known, "the Pod is made")
        node = (await running(apps, "new"))["spec"]["nodeName"]
        uid = (await apps.api.get(apps.api.at("pods", "new"))).ok()["metadata"]["uid"]
        left = {each["metadata"]["name"] for each in (await apps.api.get(apps.api.at("pods"))).ok()["items"]}
        (gone,) = {"a", "b", "new"} - left
        await apps.until_events(
            gone, (SCHEDULER, "Normal", "Preempted", f"Preempted by pod {uid} on node {node}")
        )
