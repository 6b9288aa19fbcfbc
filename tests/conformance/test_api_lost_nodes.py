"""Pods on nodes that fall silent or carry taints ``NoExecute``: who marks them, evicts them and removes them."""

from typing import Any

from kubewright.base.clock import rfc3339
from kubewright.testing.api import Api, Object

TAINT = "example.com/leave"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


async def node(api: Api) -> str:
    name = f"node-{api.namespace}"
    (await api.post("/api/v1/nodes", {"metadata": {"name": name}})).ok()
    return name


async def posted(api: Api, node: str) -> None:
    """The kubelet of a node says that it is ready, once."""
    now = rfc3339(api.clock.now())
    said = {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now}
    (await api.patch(f"/api/v1/nodes/{node}/status", {"status": {"conditions": [said]}})).ok()


async def pod(api: Api, name: str, node: str, *tolerations: Object, **metadata: Any) -> str:
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}], "tolerations": list(tolerations)}
    (await api.post(api.at("pods"), {"metadata": {"name": name, **metadata}, "spec": spec})).ok()
    path = api.at("pods", name)
    conditions = [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady")]
    (await api.patch(f"{path}/status", {"status": {"phase": "Running", "conditions": conditions}})).ok()
    return path


def tolerated(seconds: int | None = None, key: str = TAINT) -> Object:
    brief = {} if seconds is None else {"tolerationSeconds": seconds}
    return {"key": key, "operator": "Exists", "effect": "NoExecute", **brief}


async def taint(api: Api, node: str, *keys: str) -> None:
    taints = [{"key": key, "effect": "NoExecute"} for key in keys]
    (await api.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": taints}})).ok()


async def conditions(api: Api, path: str) -> dict[str, Object]:
    found = (await api.get(path)).ok()["status"].get("conditions", ())
    return {each["type"]: each for each in found}


async def is_leaving(api: Api, path: str) -> bool:
    return "deletionTimestamp" in (await api.get(path)).ok()["metadata"]


async def cleared(api: Api, node: str) -> None:
    for item in (await api.get(api.at("pods"))).ok()["items"]:
        await api.call("DELETE", api.at("pods", item["metadata"]["name"]), {"gracePeriodSeconds": 0})
    await api.call("DELETE", f"/api/v1/nodes/{node}")


async def test_a_taint_no_execute_evicts_what_does_not_tolerate_it(api: Api) -> None:
    name = await node(api)
    paths = {
        "intolerant": await pod(api, "intolerant", name),
        "brief": await pod(api, "brief", name, tolerated(2)),
        "patient": await pod(api, "patient", name, tolerated(3600)),
        "tolerant": await pod(api, "tolerant", name, tolerated()),
        "other": await pod(api, "other", name, {**tolerated(), "effect": "NoSchedule"}),
    }
    await taint(api, name, TAINT)

    async def evicted() -> bool:
        return all([await is_leaving(api, paths[each]) for each in ("intolerant", "brief", "other")])

    await api.eventually(evicted, "the pods leave")
    reasons = {each: (await conditions(api, path)).get("DisruptionTarget") for each, path in paths.items()}
    assert {each: reason and reason["reason"] for each, reason in reasons.items()} == {
        **dict.fromkeys(("intolerant", "brief", "other"), "DeletionByTaintManager"),
        **dict.fromkeys(("patient", "tolerant")),
    }
    assert (await api.get(paths["brief"])).ok()["metadata"]["deletionGracePeriodSeconds"] == 30
    late = await pod(api, "late", name)
    await api.eventually(lambda: is_leaving(api, late), "a pod that comes later leaves too")
    assert not await is_leaving(api, paths["patient"])
    assert not await is_leaving(api, paths["tolerant"])
    await cleared(api, name)


async def test_a_taint_that_is_taken_away_in_time_evicts_nothing(api: Api) -> None:
    name = await node(api)
    path = await pod(api, "p", name, tolerated(3))
    await taint(api, name, TAINT)
    await api.clock.sleep(1)
    await taint(api, name)
    await api.clock.sleep(4)
    assert not await is_leaving(api, path)
    await cleared(api, name)


async def test_pods_that_end_on_a_node_out_of_service_are_removed(api: Api) -> None:
    name = await node(api)
    leaves = await pod(api, "leaves", name)
    stays = await pod(api, "stays", name, tolerated(key=OUT_OF_SERVICE))
    await taint(api, name, OUT_OF_SERVICE)
    await api.gone(leaves, seconds=45)
    assert not await is_leaving(api, stays)
    (await api.delete(stays)).ok()
    await api.gone(stays, seconds=45)
    await cleared(api, name)


async def test_pods_of_a_node_that_falls_silent_are_not_ready(api: Api) -> None:
    name = await node(api)
    await posted(api, name)
    path = await pod(api, "p", name, {"operator": "Exists"})

    async def unready() -> bool:
        return (await conditions(api, path))["Ready"]["status"] == "False"

    await api.eventually(unready, "the pod is not ready", seconds=90)
    assert (await conditions(api, path))["ContainersReady"]["status"] == "True"
    taints = (await api.get(f"/api/v1/nodes/{name}")).ok()["spec"].get("taints", ())
    found = {(each["key"], each["effect"]) for each in taints}
    assert ("node.kubernetes.io/unreachable", "NoSchedule") in found
    await cleared(api, name)
