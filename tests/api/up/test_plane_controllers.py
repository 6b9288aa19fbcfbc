"""The scheduler and the controllers of a cluster whose control plane is in this process: when they begin, what they do."""

from typing import Any

from kubewright.compose.api_servers import Plane, Planes
from kubewright.kube.transport import InProcess
from kubewright.providers.sim.tls_bootstrap import PlaneRequest
from kubewright.testing.api import Api, Object
from kubewright.testing.clocks import LoopClock

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SPACE = "/api/v1/namespaces/mine"
ADDRESS = "127.0.0.1:20001"


def api_of(plane: Plane, clock: LoopClock) -> Api:
    """As its users reach it."""
    return Api(InProcess(plane.handle), clock, "embedded")


def deployment(replicas: int) -> Object:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "web:1"}], "tolerations": [{"operator": "Exists"}]},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"metadata": {"name": "web"}, "spec": spec}


def bare(name: str, node: str = "") -> Object:
    """A Pod that goes to any node, also to one that has no kubelet and is not ready for that."""
    spec = {
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "main", "image": "app:1"}],
        **({"nodeName": node} if node else {}),
    }
    return {"metadata": {"name": name}, "spec": spec}


async def placed(api: Api, count: int) -> None:
    """Wait until there are so many Pods, and all have a node."""

    async def look() -> bool:
        found = (await api.get(PODS)).ok()["items"]
        return len(found) == count and all(each["spec"].get("nodeName") for each in found)

    await api.eventually(look, f"{count} Pods have nodes")


async def test_deployments_make_pods_and_the_scheduler_places_them() -> None:
    clock = LoopClock()
    planes = Planes(clock)
    api = api_of(await planes.begin(PlaneRequest(ADDRESS)), clock)
    (await api.post(NODES, {"metadata": {"name": "n"}})).ok()
    (await api.post(DEPLOYMENTS, deployment(3))).ok()
    await placed(api, 3)
    (await api.delete(f"{DEPLOYMENTS}/web")).ok()

    async def ending() -> bool:
        found = (await api.get(PODS)).ok()["items"]
        return all("deletionTimestamp" in each["metadata"] for each in found)

    await api.eventually(ending, "its Pods are told to end, which a kubelet does")
    await planes.close()


async def test_a_pod_that_fits_nowhere_is_unschedulable() -> None:
    clock = LoopClock()
    planes = Planes(clock)
    api = api_of(await planes.begin(PlaneRequest(ADDRESS)), clock)
    (await api.post(PODS, bare("a"))).ok()

    async def told() -> list[Any]:
        pod = (await api.get(f"{PODS}/a")).ok()
        return [(each["status"], each["reason"]) for each in pod["status"].get("conditions", ())]

    assert await api.eventually(told, "it is told so") == [("False", "Unschedulable")]
    await planes.close()


async def test_a_cluster_with_nothing_but_nodes_runs_the_life_cycle_of_nodes_only() -> None:
    clock = LoopClock()
    planes = Planes(clock)
    plane = await planes.begin(PlaneRequest(ADDRESS, tokens=("abcdef.0123456789abcdef",)))
    api = api_of(plane, clock)
    (await api.post(NODES, {"metadata": {"name": "n"}})).ok()
    (await api.patch(f"{NODES}/n", {"metadata": {"labels": {"a": "b"}}})).ok()
    (await api.delete(f"{NODES}/n")).ok()
    (await api.get(PODS)).ok()
    assert not plane.touched.is_set()
    await planes.close()


async def test_a_namespace_and_what_a_foreground_deletion_waits_for_go() -> None:
    clock = LoopClock()
    planes = Planes(clock)
    api = api_of(await planes.begin(PlaneRequest(ADDRESS)), clock)
    (await api.post(NODES, {"metadata": {"name": "n"}})).ok()
    (await api.delete(f"{NODES}/n", {"propagationPolicy": "Foreground"})).ok()
    await api.gone(f"{NODES}/n", seconds=20)
    (await api.post("/api/v1/namespaces", {"metadata": {"name": "mine"}})).ok()
    (await api.delete(SPACE)).ok()
    await api.gone(SPACE, seconds=20)
    await planes.close()


async def test_work_that_a_control_plane_has_kept_is_done_when_it_serves_again(tmp_path: Any) -> None:
    clock = LoopClock()
    planes = Planes(clock, folder=tmp_path)
    plane = await planes.begin(PlaneRequest(ADDRESS))
    silent = Api(InProcess(plane.server.handle), clock, "embedded")  # as its kubelets write
    (await silent.post(PODS, bare("a"))).ok()
    await planes.close()

    later = Planes(clock, folder=tmp_path)
    again = await later.begin(PlaneRequest(ADDRESS))
    api = Api(InProcess(again.server.handle), clock, "embedded")
    (await api.post(NODES, {"metadata": {"name": "n"}})).ok()
    await placed(api, 1)
    await later.pause(ADDRESS)
    await later.begin(PlaneRequest(ADDRESS))
    (await api.post(PODS, bare("b"))).ok()
    await placed(api, 2)
    await later.close()
