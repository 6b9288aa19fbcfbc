"""Scenes of preemption for two schedulers, and what became of them.

Theory.      A ``Scene`` is nodes, Pods on them, budgets and Pods that come. It is played to the real kube-scheduler behind
             a real kube-apiserver, and to ours behind ours. Nodes are objects without kubelets, so a victim stays where it
             is until its scene lets it go, and what is seen does not depend on who is quicker.
Invariants.  Every wait has a deadline. A scene leaves no nodes and Pods behind.
Called by    ``test_preemption``.
"""

import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from kubewright import builtin
from kubewright.api.core import NODE, POD
from kubewright.apiserver.server import ApiServer
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess
from kubewright.runtime.events import Recorder
from kubewright.runtime.manager import Work
from kubewright.testing.api import Api, Object
from kubewright.testing.clocks import LoopClock
from kubewright.testing.servers import alone
from kubewright.testing.world import running

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
NODES = "/api/v1/nodes"
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Runs:
    """A Pod on a node. ``minute``: when it started."""

    name: str
    node: str
    cpu: str = "1"
    priority: int = 0
    minute: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Budget:
    """How many Pods with these labels may go."""

    name: str
    labels: Mapping[str, str]
    allowed: int = 0


@dataclass(frozen=True)
class Scene:
    """``nodes``: the cpu of each. ``wants``: what the Pod ``new`` asks for, and its priority."""

    nodes: Mapping[str, str]
    runs: Sequence[Runs]
    wants: str = "1"
    priority: int = 10
    budgets: Sequence[Budget] = ()
    never: bool = False


class Stage:
    """A server with a scheduler, seen from a namespace of its own."""

    def __init__(self, api: Api) -> None:
        self.api = api

    async def prepare(self, scene: Scene) -> None:
        for name, cpu in scene.nodes.items():
            await self.node(name, cpu)
        for each in scene.budgets:
            await self._budget(each)
        for each in scene.runs:
            more = {"nodeName": each.node}
            await self.pod(each.name, each.cpu, each.priority, labels=dict(each.labels), **more)
            if each.minute is not None:
                started = {
                    "status": {"startTime": f"2026-01-01T00:{each.minute:02d}:00Z", "phase": "Running"}
                }
                path = f"{self.api.at('pods', each.name)}/status"
                (await self.api.patch(path, started)).ok()
        await self._known(scene)

    async def _known(self, scene: Scene) -> None:
        """Let the scheduler see all of it: it places a Pod that fits beside what is there, and that goes again."""
        for node in scene.nodes:
            await self.pod("probe", "0", 0, nodeSelector={"kubernetes.io/hostname": node})
            await self.until_bound("probe", node)
            await self.end("probe")

    async def node(self, name: str, cpu: str) -> None:
        room = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
        meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        made = await self.api.post(
            NODES, {"metadata": meta, "status": {"capacity": room, "allocatable": room}}
        )
        made.ok()
        (
            await self.api.patch(f"{NODES}/{name}", {"spec": {"taints": None}})
        ).ok()  # not ready, says admission

    async def pod(
        self,
        name: str,
        cpu: str,
        priority: int,
        *,
        never: bool = False,
        labels: Object | None = None,
        **spec: Any,
    ) -> None:
        resources = {"requests": {"cpu": cpu}}
        spec["containers"] = [{"name": "main", "image": "app:1", "resources": resources}]
        spec["priorityClassName"] = await self._class(priority, never=never)
        body = {"metadata": {"name": name, "labels": labels or {}}, "spec": spec}

        async def made() -> bool:  # a real server's admission knows a class a moment after it was made
            answer = await self.api.post(self.api.at("pods"), body)
            assert answer.code == 201 or "no PriorityClass" in answer.message, answer.message
            return answer.code == 201

        await self.api.eventually(made, f"pod {name} is made")

    async def _class(self, priority: int, *, never: bool) -> str:
        name = f"{'never' if never else 'p'}{priority}".replace("-", "-minus-")
        policy = {"preemptionPolicy": "Never"} if never else {}
        await self.api.post(CLASSES, {"metadata": {"name": name}, "value": priority, **policy})
        return name

    async def _budget(self, wanted: Budget) -> None:
        spec = {"minAvailable": 1, "selector": {"matchLabels": dict(wanted.labels)}}
        path = self.api.at("poddisruptionbudgets", group="policy")
        (await self.api.post(path, {"metadata": {"name": wanted.name}, "spec": spec})).ok()
        status = {"status": {"disruptionsAllowed": wanted.allowed, "observedGeneration": 1}}
        (await self.api.patch(f"{path}/{wanted.name}/status", status)).ok()

    # ------------------------------------------------------------ what became of it

    async def get(self, name: str) -> Object:
        return (await self.api.get(self.api.at("pods", name))).ok()

    async def pods(self) -> list[Object]:
        found: list[Object] = (await self.api.get(self.api.at("pods"))).ok()["items"]
        return found

    async def victims(self) -> set[str]:
        return {
            each["metadata"]["name"] for each in await self.pods() if "deletionTimestamp" in each["metadata"]
        }

    async def until_victims(self, *names: str) -> None:
        async def look() -> bool:
            return await self.victims() == set(names)

        await self.api.eventually(look, f"{names} have to go")

    async def until_told(self, name: str = "new") -> Object:
        """Wait until a scheduler has said that there is no place, or has promised one; the Pod."""

        async def told() -> Object | None:
            pod = await self.get(name)
            return pod if pod.get("status", {}).get("conditions") else None

        found: Object = await self.api.eventually(told, f"{name} is told something")
        return found

    async def until_promised(self, name: str, node: str) -> None:
        async def promised() -> bool:
            return (await self.get(name)).get("status", {}).get("nominatedNodeName", "") == node

        await self.api.eventually(promised, f"{name} is promised {node or 'nothing'}")

    async def until_bound(self, name: str, node: str) -> Object:
        async def bound() -> Object | None:
            pod = await self.get(name)
            return pod if pod["spec"].get("nodeName") == node else None

        found: Object = await self.api.eventually(bound, f"{name} is on {node}")
        return found

    async def end(self, *names: str) -> None:
        """Let Pods go as a kubelet does when their containers have ended."""
        for name in names:
            (await self.api.delete(self.api.at("pods", name), {"gracePeriodSeconds": 0})).ok()

    async def message(self, name: str = "new") -> str:
        conditions = (await self.get(name)).get("status", {}).get("conditions", ())
        return next((each["message"] for each in conditions if each["type"] == "PodScheduled"), "")

    async def events(self, name: str, reason: str) -> list[Object]:
        fields = f"involvedObject.name={name},reason={reason}"
        found: list[Object] = (await self.api.get(self.api.at("events"), fieldSelector=fields)).ok()["items"]
        return found

    async def clear(self) -> None:
        for each in await self.pods():
            await self.api.delete(self.api.at("pods", each["metadata"]["name"]), {"gracePeriodSeconds": 0})
        for each in (await self.api.get(NODES)).ok()["items"]:
            (await self.api.delete(f"{NODES}/{each['metadata']['name']}")).ok()


@asynccontextmanager
async def stage(api: Api) -> AsyncIterator[Stage]:
    """A new namespace on a server, and nothing left of it."""
    namespace = f"scene-{next(_numbers)}"
    (await api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})).ok()
    found = Stage(Api(api.transport, api.clock, api.flavour, namespace))
    try:
        yield found
    finally:
        await found.clear()


@asynccontextmanager
async def embedded_scheduler() -> AsyncIterator[Stage]:
    """Our server with our scheduler and no other controllers, on the event loop's time."""
    clock = LoopClock()
    server = ApiServer(clock)
    await server.start()
    informers = Informers(Client(InProcess(server.handle), clock, name="embedded"))
    recorder = Recorder(informers.client, clock, "kubewright", kinds=(POD, NODE))
    scheduler = builtin.scheduler(informers, recorder=recorder)
    manager = alone(clock, Work([scheduler], [informers], []), services=[recorder.run])
    try:
        async with running(manager.run), stage(Api(InProcess(server.handle), clock, "embedded")) as found:
            yield found
    finally:
        await server.close()
