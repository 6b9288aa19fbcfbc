"""Deployments and ReplicaSets for tests: what users do with them, and what they see.

Theory.      The same test runs against the embedded server with its own controllers and against a real
             kube-apiserver with a real kube-controller-manager; ``hollow`` brings nodes to both.
Invariants.  Every wait has a deadline.
Called by    tests/conformance/test_apps*.py.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from kubewright.base.clock import SystemClock
from kubewright.kube.client import Client
from kubewright.kube.config import load
from kubewright.testing.api import Api, Object
from kubewright.testing.hollow import SECONDS, hollow_nodes
from kubewright.testing.real_kubernetes import RealKubernetes
from kubewright.testing.servers import embedded_api, real_api
from kubewright.wire.http import STRATEGIC_PATCH

APPS = "apps"
REVISION = "deployment.kubernetes.io/revision"
HASH = "pod-template-hash"
_numbers = itertools.count(1)


def pod_template(name: str, image: str = "app:1", **spec: Any) -> Object:
    """A template whose Pods carry the label ``app=<name>``; ``spec`` adds to the Pod's."""
    containers = [{"name": "main", "image": image}]
    return {"metadata": {"labels": {"app": name}}, "spec": {"containers": containers, **spec}}


NOWHERE = {"nodeSelector": {"nowhere": "to-be-found"}}
"""In a Pod's spec: no node fits, so it never becomes ready."""


class Workloads:
    """What users of ``apps/v1`` do in the namespace of ``api``."""

    def __init__(self, api: Api, nodes: Sequence[str]) -> None:
        self.api = api
        self.nodes = nodes
        self.clock = api.clock

    # ------------------------------------------------------------ what users do

    async def deploy(self, name: str, replicas: int, template: Object | None = None, **spec: Any) -> Object:
        """Create a Deployment; ``spec`` adds to its spec, ``annotations`` to its metadata."""
        meta = {"name": name, "annotations": spec.pop("annotations", {})}
        return await self._create("Deployment", meta, _spec(name, replicas, template, spec))

    async def replicate(
        self, name: str, replicas: int, template: Object | None = None, **spec: Any
    ) -> Object:
        """Create a ReplicaSet that no Deployment owns."""
        return await self._create("ReplicaSet", {"name": name}, _spec(name, replicas, template, spec))

    async def _create(self, kind: str, meta: Object, spec: Object) -> Object:
        body = {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": spec}
        return (await self.api.post(self.api.at(f"{kind.lower()}s", group=APPS), body)).ok()

    async def run_pod(self, name: str, labels: Mapping[str, str]) -> Object:
        """Create a Pod that nothing controls."""
        spec = {"containers": [{"name": "main", "image": "app:1"}]}
        body = {"metadata": {"name": name, "labels": dict(labels)}, "spec": spec}
        return (await self.api.post(self.api.at("pods"), body)).ok()

    async def change(self, name: str, spec: Mapping[str, Any], plural: str = "deployments") -> Object:
        """Merge ``spec`` into a Deployment's (or another object's) spec."""
        return (await self.api.patch(self.api.at(plural, name, group=APPS), {"spec": spec})).ok()

    async def retemplate(self, name: str, image: str = "app:2", **spec: Any) -> Object:
        """Give a Deployment's Pods another image; ``spec`` is merged into the Pod's."""
        template = {"spec": {"containers": [{"name": "main", "image": image}], **spec}}
        body = {"spec": {"template": template}}
        path = self.api.at("deployments", name, group=APPS)
        return (await self.api.patch(path, body, content_type=STRATEGIC_PATCH)).ok()

    async def label(self, pod: str, **labels: str | None) -> None:
        """Set labels of a Pod; None removes one."""
        (await self.api.patch(self.api.at("pods", pod), {"metadata": {"labels": labels}})).ok()

    async def delete(self, plural: str, name: str, propagation: str = "Background") -> None:
        """Delete a Deployment or ReplicaSet, or a Pod."""
        path = self.api.at(plural, name, group="" if plural == "pods" else APPS)
        (await self.api.delete(path, {"propagationPolicy": propagation})).ok()

    # ------------------------------------------------------------ what they see

    async def deployment(self, name: str) -> Object:
        return (await self.api.get(self.api.at("deployments", name, group=APPS))).ok()

    async def replica_set(self, name: str) -> Object:
        return (await self.api.get(self.api.at("replicasets", name, group=APPS))).ok()

    async def sets(self, name: str) -> list[Object]:
        """The ReplicaSets of the Pods ``app=<name>``, by revision."""
        found = await self._list(self.api.at("replicasets", group=APPS), labelSelector=f"app={name}")
        return sorted(found, key=revision)

    async def pods(self, name: str) -> list[Object]:
        """The Pods ``app=<name>`` that are not being deleted."""
        found = await self._list(self.api.at("pods"), labelSelector=f"app={name}")
        return [each for each in found if "deletionTimestamp" not in each["metadata"]]

    async def events(self, about: str) -> set[tuple[str, str, str, str]]:
        """Component, type, reason and message of the events on objects of this name."""
        found = await self._list(self.api.at("events"), fieldSelector=f"involvedObject.name={about}")
        return {
            (each["source"]["component"], each["type"], each["reason"], each["message"]) for each in found
        }

    async def _list(self, path: str, **query: str) -> list[Object]:
        items: list[Object] = (await self.api.get(path, **query)).ok()["items"]
        return items

    async def until(
        self, name: str, met: Callable[[Object], Any], what: str, *, seconds: float = SECONDS
    ) -> Object:
        """Wait until a Deployment is so, and answer it."""

        async def look() -> Object | None:
            found = await self.deployment(name)
            return found if met(found) else None

        try:
            found: Object = await self.api.eventually(look, what, seconds=seconds)
        except AssertionError as late:
            found = await self.deployment(name)
            sets = {each["metadata"]["name"]: each["spec"]["replicas"] for each in await self.sets(name)}
            raise AssertionError(f"{late}; status {found.get('status')}; sets {sets}") from None
        return found

    async def rolled_out(self, name: str, *, seconds: float = SECONDS) -> Object:
        """Wait until a Deployment's controller says that everything is new and available."""
        return await self.until(name, complete, f"{name} is rolled out", seconds=seconds)

    async def pods_are(self, name: str, number: int, *, ready: bool = True) -> list[Object]:
        """Wait until there are so many Pods, all ready."""

        async def look() -> list[Object] | None:
            found = await self.pods(name)
            right = len(found) == number and (not ready or all(map(is_ready, found)))
            return found if right else None

        async def look_again() -> tuple[list[Object]] | None:
            found = await look()
            return None if found is None else (found,)

        (found,) = await self.api.eventually(look_again, f"{number} Pods {name}", seconds=SECONDS)
        return list(found)

    async def until_events(self, about: str, *wanted: tuple[str, str, str, str]) -> None:
        """Wait until these events are there."""

        async def look() -> bool:
            return set(wanted) <= await self.events(about)

        try:
            await self.api.eventually(look, "events", seconds=SECONDS)
        except AssertionError:
            raise AssertionError(
                f"{set(wanted) - await self.events(about)} not in {await self.events(about)}"
            ) from None

    @asynccontextmanager
    async def watching(self, path: str) -> AsyncIterator[list[dict[str, Object]]]:
        """Note, after each change of a collection, all that there is in it by name; ends with the block."""
        states: list[dict[str, Object]] = []
        async with self.api.watch(path, timeoutSeconds="60") as watch:

            async def note() -> None:
                present: dict[str, Object] = {}
                while True:
                    event = await watch.next()
                    obj, name = event["object"], event["object"]["metadata"]["name"]
                    present = {key: value for key, value in present.items() if key != name}
                    if event["type"] != "DELETED":
                        present[name] = obj
                    states.append(present)

            task = asyncio.create_task(note())
            try:
                yield states
            finally:
                task.cancel()
                await asyncio.wait([task])


def _spec(name: str, replicas: int, template: Object | None, more: Object) -> Object:
    selector = {"matchLabels": {"app": name}}
    return {"replicas": replicas, "selector": selector, "template": template or pod_template(name), **more}


def revision(obj: Object) -> int:
    """The revision of a Deployment or ReplicaSet; 0 while it has none."""
    return int(obj["metadata"].get("annotations", {}).get(REVISION, 0))


def complete(deployment: Object) -> bool:
    """What ``kubectl rollout status`` waits for."""
    wanted, status = deployment["spec"]["replicas"], deployment.get("status", {})
    counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")]
    observed: int = status.get("observedGeneration", 0)
    return observed >= deployment["metadata"]["generation"] and counts == [wanted] * 3


def condition(obj: Object, kind: str) -> tuple[str, str, str]:
    """Status, reason and message of a condition; empty ones when it is not there."""
    for each in obj.get("status", {}).get("conditions", ()):
        if each["type"] == kind:
            return each["status"], each.get("reason", ""), each.get("message", "")
    return "", "", ""


def is_ready(pod: Object) -> bool:
    """Whether a Pod serves."""
    return condition(pod, "Ready")[0] == "True" and "deletionTimestamp" not in pod["metadata"]


@asynccontextmanager
async def embedded_workloads() -> AsyncIterator[Workloads]:
    """An embedded server with hollow nodes, in this process and on the event loop's time."""
    async with (
        embedded_api() as api,
        _workloads(api, Client(api.transport, api.clock, name="hollow")) as apps,
    ):
        yield apps


@asynccontextmanager
async def real_workloads(real_kubernetes: RealKubernetes) -> AsyncIterator[Workloads]:
    """A real kube-apiserver and kube-controller-manager with hollow nodes."""
    client = Client(load(real_kubernetes.kubeconfig, clock=SystemClock()), SystemClock(), name="hollow")
    try:
        async with real_api(real_kubernetes) as api, _workloads(api, client) as apps:
            yield apps
    finally:
        await client.close()


@asynccontextmanager
async def _workloads(api: Api, client: Client) -> AsyncIterator[Workloads]:
    name = f"apps-{next(_numbers)}"
    (await api.post("/api/v1/namespaces", {"metadata": {"name": name}})).ok()
    async with hollow_nodes(client) as nodes:
        yield Workloads(Api(api.transport, api.clock, api.flavour, name), nodes)
