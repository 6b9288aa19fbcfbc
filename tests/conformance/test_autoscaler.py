"""What cluster-autoscaler 1.36 does with `--cloud-provider=clusterapi`, request by request, on what `kubewright up` serves.

The program itself is no module of any registry, so `Autoscaler` sends its requests, over TLS, with the two kubeconfigs
that it is given: of the cluster whose Pods it places, and of the one that has the MachineDeployments. Which Pods and which
nodes, the test says; the autoscaler's simulation of a scheduler is not repeated here.
"""

import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubewright.base.clock import SystemClock
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import ServerConfig
from kubewright.compose.worlds import every_word
from kubewright.kube.config import from_secret, load
from kubewright.testing.api import Api, Object
from kubewright.testing.world import SHORT_TIMEOUTS, running
from kubewright.wire.http import JSON_PATCH

pytestmark = [pytest.mark.looptime(False), pytest.mark.timeout(180)]

EXAMPLE = Path(__file__).parents[2] / "examples" / "cluster.yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf,application/json"
"""Go clients of built-in kinds ask for protobuf, and take JSON."""
WATCHED = (
    "/api/v1/namespaces", "/api/v1/nodes", "/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes",
    "/api/v1/pods", "/api/v1/replicationcontrollers", "/api/v1/services", "/apis/apps/v1/daemonsets",
    "/apis/apps/v1/replicasets", "/apis/apps/v1/statefulsets", "/apis/batch/v1/jobs",
    "/apis/policy/v1/poddisruptionbudgets", "/apis/resource.k8s.io/v1/deviceclasses",
    "/apis/resource.k8s.io/v1/resourceclaims", "/apis/resource.k8s.io/v1/resourceslices",
    "/apis/scheduling.k8s.io/v1/priorityclasses", "/apis/storage.k8s.io/v1/csidrivers",
    "/apis/storage.k8s.io/v1/csinodes", "/apis/storage.k8s.io/v1/csistoragecapacities",
    "/apis/storage.k8s.io/v1/storageclasses", "/apis/storage.k8s.io/v1/volumeattachments",
)  # fmt: skip
"""What it lists and watches in the cluster whose Pods it places."""
GROUP = "cluster.x-k8s.io"
SCALED = ("machinedeployments", "machinepools", "machinesets", "machines")
DELETE_MACHINE = f"{GROUP}/delete-machine"
TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"
SIZES = f"{GROUP}/cluster-api-autoscaler-node-group"
NODES = "/api/v1/nodes"
WEB = "/apis/apps/v1/namespaces/default/deployments"
SECONDS = 60.0


class Autoscaler:
    """The requests of the program. ``version`` is the one of Cluster API that the server prefers."""

    def __init__(self, cluster: Api, management: Api) -> None:
        self._cluster = cluster
        self._management = management
        self.version = ""

    async def start(self) -> None:
        """Take the Lease, find the version and the kinds of Cluster API, fill the caches, write the status."""
        lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
        now = "2026-11-27T01:02:03.000004Z"
        holder = {"holderIdentity": "us", "leaseDurationSeconds": 15, "acquireTime": now, "renewTime": now}
        made = await self._cluster.post(lease, {"metadata": {"name": "cluster-autoscaler"}, "spec": holder})
        taken = made.ok()
        (await self._cluster.put(f"{lease}/cluster-autoscaler", taken)).ok()

        group = (await self._management.get(f"/apis/{GROUP}")).ok()
        self.version = group["preferredVersion"]["version"]
        kinds = (await self._management.get(f"/apis/{GROUP}/{self.version}")).ok()["resources"]
        scalable = {each["name"] for each in kinds}
        assert {"machinedeployments", "machinedeployments/scale", "machinesets/scale"} <= scalable
        for path in WATCHED:
            await _cached(self._cluster, path, PROTOBUF)
        for plural in SCALED:
            await _cached(self._management, f"/apis/{GROUP}/{self.version}/{plural}", "application/json")

        status = {"metadata": {"name": "cluster-autoscaler-status"}, "data": {"status": "running"}}
        (await self._cluster.post("/api/v1/namespaces/kube-system/configmaps", status)).ok()

    async def groups(self) -> list[Object]:
        """The deployments with bounds, which are its groups of nodes."""
        found = (await self._management.get(f"/apis/{GROUP}/{self.version}/machinedeployments")).ok()
        bounds = {f"{SIZES}-min-size", f"{SIZES}-max-size"}
        return [each for each in found["items"] if bounds <= each["metadata"].get("annotations", {}).keys()]

    async def can_begin_at_zero(self, group: Object) -> bool:
        """Whether the template of its machines says what a node will offer."""
        ref = group["spec"]["template"]["spec"]["infrastructureRef"]
        name, version = ref["apiVersion"].split("/")
        plural = f"{ref['kind'].lower()}s"
        place = f"/apis/{name}/{version}/namespaces/{group['metadata']['namespace']}/{plural}/{ref['name']}"
        template = (await self._management.get(place)).ok()
        return {"cpu", "memory"} <= template.get("status", {}).get("capacity", {}).keys()

    async def unplaced(self) -> list[str]:
        """The messages about Pods for which there is no node."""
        found = (await self._cluster.get("/api/v1/pods", accept=PROTOBUF)).ok()["items"]
        return [
            each["message"]
            for pod in found
            for each in pod.get("status", {}).get("conditions", ())
            if (each["type"], each["status"], each.get("reason"))
            == ("PodScheduled", "False", "Unschedulable")
        ]

    async def grow(self, group: Object, by: int) -> None:
        path = self._scale_of(group)
        size = (await self._management.get(path)).ok()["spec"].get("replicas", 0)
        (await self._management.patch(path, {"spec": {"replicas": size + by}})).ok()

    async def delete(self, group: Object, node: str) -> str:
        """Taint a node, evict its Pods, mark its machine, and make the group smaller; the machine's name."""
        found = (await self._cluster.get(f"{NODES}/{node}")).ok()
        taints = [
            *found["spec"].get("taints", ()),
            {"key": TO_BE_DELETED, "value": "1", "effect": "NoSchedule"},
        ]
        (
            await self._cluster.put(f"{NODES}/{node}", {**found, "spec": {**found["spec"], "taints": taints}})
        ).ok()
        pods = (await self._cluster.get("/api/v1/pods", fieldSelector=f"spec.nodeName={node}")).ok()["items"]
        for pod in pods:
            await self._evict(pod)
        machine = await self._machine_of(found["spec"]["providerID"])
        path = f"/apis/{GROUP}/{self.version}/namespaces/{machine['metadata']['namespace']}/machines/"
        live = (await self._management.get(path + machine["metadata"]["name"])).ok()
        marks = {
            **live["metadata"].get("annotations", {}),
            DELETE_MACHINE: "2026-11-27 01:02:03.4 +0000 UTC m=+5",
        }
        marked = {**live, "metadata": {**live["metadata"], "annotations": marks}}
        (await self._management.put(path + machine["metadata"]["name"], marked)).ok()
        await self.grow(group, -1)
        return str(machine["metadata"]["name"])

    async def _evict(self, pod: Object) -> None:
        meta = {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]}
        options = {"gracePeriodSeconds": 30}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta, "deleteOptions": options}
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/eviction"
        (await self._cluster.post(path, body)).ok()

    async def _machine_of(self, provider_id: str) -> Object:
        found = (await self._management.get(f"/apis/{GROUP}/{self.version}/machines")).ok()["items"]
        (machine,) = [each for each in found if each["spec"].get("providerID") == provider_id]
        return dict(machine)

    def _scale_of(self, group: Object) -> str:
        meta = group["metadata"]
        namespace = f"/apis/{GROUP}/{self.version}/namespaces/{meta['namespace']}"
        return f"{namespace}/machinedeployments/{meta['name']}/scale"


async def _cached(api: Api, path: str, accept: str) -> None:
    """List a kind, and have its objects by a watch, which is how client-go 0.36 fills a cache."""
    (await api.get(path, accept=accept, limit="500", resourceVersion="0")).ok()
    asked = {
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
    }
    async with api.watch(path, accept=accept, **asked) as watch:
        marks = (await watch.bookmark())["object"]["metadata"].get("annotations", {})
        assert marks.get("k8s.io/initial-events-end") == "true", path


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[tuple[Api, Api]]:
    """`kubewright up` with the cluster of the example, and both as their kubeconfigs reach them."""
    clock, options = SystemClock(), replace(SHORT_TIMEOUTS, controllers=every_word(SHORT_TIMEOUTS))
    async with AsyncExitStack() as stack:
        up = await stack.enter_async_context(Embedded(ServerConfig(folder), options, clock))
        await stack.enter_async_context(running(up.serve))
        transport = load(up.kubeconfig)
        stack.push_async_callback(transport.close)
        management = Api(transport, clock, "embedded")
        for body in filter(None, yaml.safe_load_all(EXAMPLE.read_text())):
            group, _, version = body["apiVersion"].partition("/")
            plural = f"{body['kind'].lower()}s"
            (await management.post(f"/apis/{group}/{version}/namespaces/default/{plural}", body)).ok()
        place = f"/apis/{GROUP}/v1beta1/namespaces/default/machinedeployments/blue-workers"
        bounds = {f"{SIZES}-min-size": "0", f"{SIZES}-max-size": "5"}
        (await management.patch(place, {"metadata": {"annotations": bounds}})).ok()

        async def joined() -> bool:
            found = (await management.get(place)).ok()
            return found.get("status", {}).get("readyReplicas") == 3

        await eventually(management, joined, "its workers have joined")
        found = (await management.get("/api/v1/namespaces/default/secrets/blue-kubeconfig")).ok()
        inside = from_secret(base64.b64decode(found["data"]["value"]))
        stack.push_async_callback(inside.close)
        yield Api(inside, clock, "embedded"), management


async def eventually(api: Api, look: Callable[[], Awaitable[Any]], what: str) -> Any:
    return await api.eventually(look, what, seconds=SECONDS)


async def ready_workers(cluster: Api, count: int) -> list[Object]:
    """The nodes of the workers, once they are so many, and all are Ready."""

    async def look() -> list[Object] | None:
        items = (await cluster.get(NODES)).body.get("items", ())
        workers = [each for each in items if each["metadata"]["name"].startswith("blue-workers")]
        ready = all(_condition(each, "Ready") == "True" for each in workers)
        return workers if len(workers) == count and ready else None

    async def wrapped() -> list[list[Object]] | None:
        found = await look()
        return None if found is None else [found]

    return list((await eventually(cluster, wrapped, f"{count} workers are Ready"))[0])


def _condition(node: Object, kind: str) -> str:
    return next((each["status"] for each in node["status"]["conditions"] if each["type"] == kind), "")


async def replicas(cluster: Api, count: int) -> None:
    scale = f"{WEB}/web/scale"
    (
        await cluster.patch(
            scale, [{"op": "replace", "path": "/spec/replicas", "value": count}], content_type=JSON_PATCH
        )
    ).ok()


async def running_pods(cluster: Api, count: int) -> list[Object]:
    async def look() -> list[list[Object]] | None:
        items = (await cluster.get("/api/v1/namespaces/default/pods")).ok()["items"]
        found = [each for each in items if each["status"].get("phase") == "Running"]
        return [found] if len(found) == len(items) == count else None

    return list((await eventually(cluster, look, f"{count} Pods run"))[0])


def web() -> Object:
    """A deployment of which one Pod fits on a node."""
    container = {"name": "web", "image": "web:1", "resources": {"requests": {"cpu": "1500m"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"metadata": {"name": "web"}, "spec": spec}


async def test_it_scales_from_three_to_four_to_one_to_none_to_one(tmp_path: Path) -> None:
    async with served(tmp_path) as (cluster, management):
        await ready_workers(cluster, 3)
        autoscaler = Autoscaler(cluster, management)
        await autoscaler.start()
        (group,) = await autoscaler.groups()
        assert await autoscaler.can_begin_at_zero(group)

        (await cluster.post(WEB, web())).ok()
        (message,) = await eventually(cluster, autoscaler.unplaced, "a Pod has no place")
        assert message.startswith(
            "0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 Insufficient cpu. "
        )
        await autoscaler.grow(group, 1)
        await ready_workers(cluster, 4)
        await running_pods(cluster, 4)

        await replicas(cluster, 1)
        (kept,) = await running_pods(cluster, 1)
        nodes = [each["metadata"]["name"] for each in await ready_workers(cluster, 4)]
        marked = {await autoscaler.delete(group, node) for node in nodes if node != kept["spec"]["nodeName"]}
        (left,) = await ready_workers(cluster, 1)
        assert left["metadata"]["name"] == kept["spec"]["nodeName"]
        assert marked.isdisjoint(await machines(management, 1))

        await replicas(cluster, 0)
        await running_pods(cluster, 0)
        await autoscaler.delete(group, left["metadata"]["name"])
        await ready_workers(cluster, 0)

        await replicas(cluster, 1)
        await eventually(cluster, autoscaler.unplaced, "the Pod has no place again")
        await autoscaler.grow(group, 1)
        await ready_workers(cluster, 1)
        await running_pods(cluster, 1)


async def test_pods_that_are_evicted_from_a_node_that_goes_run_on_another(tmp_path: Path) -> None:
    async with served(tmp_path) as (cluster, management):
        await ready_workers(cluster, 3)
        autoscaler = Autoscaler(cluster, management)
        await autoscaler.start()
        (group,) = await autoscaler.groups()
        (await cluster.post(WEB, {**web(), "spec": {**web()["spec"], "replicas": 2}})).ok()
        going = (await running_pods(cluster, 2))[0]["spec"]["nodeName"]
        machine = await autoscaler.delete(group, going)
        await ready_workers(cluster, 2)
        assert machine not in await machines(management, 2)
        assert going not in {each["spec"]["nodeName"] for each in await running_pods(cluster, 2)}


async def machines(management: Api, count: int) -> set[str]:
    """The names of the machines of the deployment, once they are so many."""
    path, labels = f"/apis/{GROUP}/v1beta1/machines", f"{GROUP}/deployment-name=blue-workers"

    async def look() -> set[str] | None:
        items = (await management.get(path, labelSelector=labels)).ok()["items"]
        return {each["metadata"]["name"] for each in items} if len(items) == count else None

    return set(await eventually(management, look, f"{count} machines are left"))
