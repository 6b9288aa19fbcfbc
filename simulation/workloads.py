"""What a cluster does for pods beside the managers: volumes are attached and detached, lost pods replaced.

Theory.      Of kube-controller-manager the managers run only what the embedded server cannot do without
             (``builtin``). Drains also meet the attach-detach controller with a CSI driver's attacher, and
             controllers of pods. Both are here in the smallest form that a drain can tell from the real
             ones: a volume stays attached for a while after its pod has gone, its VolumeAttachment is held
             by a finalizer meanwhile, and it is attached to one node at a time; a pod that leaves is made
             again on a node that takes pods, and one with a volume only when it is gone.
Invariants.  It never fails and never dies, and its line is good: faults are for managers. It waits for
             steps of the world and does nothing else, so stories without such pods take the same way.
Called by    ``Person.workloads``, in stories about pods.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kubewright.api.core import POD
from kubewright.api.storage import PVC, VOLUME_ATTACHMENT, PersistentVolumeClaim
from kubewright.kube.errors import TransportError
from kubewright.wire.errors import AlreadyExists, ApiError, NotFound
from kubewright.wire.gvk import Key
from simulation.journal import ATTACHMENTS, NODES, PODS, Object, Write
from simulation.loop import Process
from simulation.rules.facts import (
    deleting,
    ended,
    is_ready,
    volume_claims,
    volume_of,
)

if TYPE_CHECKING:
    from simulation.world import World

ATTACHER = "sim.kubewright.dev"
FINALIZER = "external-attacher/sim-kubewright-dev"
"""What a CSI driver's attacher leaves on a VolumeAttachment until the volume is detached."""
DETACH_SECONDS = 4.0
"""From the last pod of a volume on a node to its end there."""
RETRY_SECONDS = 0.5
APP = "app"
"""The label by which pods belong together."""


@dataclass(frozen=True, slots=True)
class App:
    """So many pods of one kind, on nodes that take pods. ``grace`` is how long each takes to end;
    ``claims``: each has a name and a volume of its own, as in a StatefulSet."""

    name: str
    namespace: str
    count: int
    grace: int
    claims: bool = False


class Workloads:
    """For one world. It sleeps until a story asks for volumes or for an app."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._clock = world.clock("workloads")
        self._news = asyncio.Event()
        self._process: Process | None = None
        self._detaching: set[str] = set()
        self._apps: dict[str, App] = {}
        self._made = 0

    def begin(self) -> None:
        """Attach and detach volumes from now on."""
        if self._process is None:
            self._process = Process(self._world.loop, "workloads")
            self._world.journal.listen(self._entered)
            self._process.spawn(self._run(), name="workloads")

    def keep(self, app: App) -> None:
        """Keep so many pods of this app from now on."""
        self._apps[app.name] = app
        self.begin()
        self._news.set()

    def whole(self) -> bool:
        """Whether every app has its pods, and all of them run on nodes that are there."""
        return all(len(list(self._ready(app))) == app.count for app in self._apps.values())

    def _entered(self, write: Write) -> None:
        if write.committed and write.kind in (PODS, NODES, ATTACHMENTS):
            self._news.set()

    async def _run(self) -> None:
        while True:
            self._news.clear()
            for act in (*self._of_volumes(), *self._of_apps()):
                await self._do(act)
            await self._news.wait()

    async def _do(self, act: Callable[[], Awaitable[Any]]) -> None:
        """What cannot be done now is tried again in a moment, if it is still to be done."""
        try:
            await act()
        except (AlreadyExists, NotFound):
            return
        except (TransportError, ApiError):
            await self._clock.sleep(RETRY_SECONDS)
            self._news.set()

    # ------------------------------------------------------------ volumes

    def _of_volumes(self) -> Iterator[Callable[[], Awaitable[Any]]]:
        there = self._world.journal.objects[ATTACHMENTS]
        used = {_attachment(claim, node): (claim, node) for claim, node in self._mounts()}
        taken = {str(found["spec"]["source"]["persistentVolumeName"]) for found in there.values()}
        for name, (claim, node) in used.items():
            if name in there and not there[name].get("status", {}).get("attached"):
                yield partial(self._is_attached, name)
            elif volume_of(claim) not in taken:
                yield partial(self._attach, name, claim, node)
        for name, found in there.items():
            if deleting(found) and name not in self._detaching and self._process is not None:
                self._detaching.add(name)
                self._process.spawn(self._detach(name), name=f"detach {name}")
            elif name not in used and not deleting(found):
                yield partial(self._world.nodes.delete, VOLUME_ATTACHMENT, Key("", name))

    def _mounts(self) -> Iterator[tuple[str, str]]:
        """Each claim of a pod, and the pod's node."""
        for pod in self._world.journal.objects[PODS].values():
            if not ended(pod):
                for claim in volume_claims(pod):
                    yield claim, str(pod["spec"].get("nodeName", ""))

    async def _attach(self, name: str, claim: str, node: str) -> None:
        source = {"persistentVolumeName": volume_of(claim)}
        spec = {"attacher": ATTACHER, "nodeName": node, "source": source}
        body = {"metadata": {"name": name, "finalizers": [FINALIZER]}, "spec": spec}
        await self._world.nodes.create(VOLUME_ATTACHMENT, body)

    async def _is_attached(self, name: str) -> None:
        status = {"status": {"attached": True}}
        await self._world.nodes.patch(VOLUME_ATTACHMENT, Key("", name), status, subresource="status")

    async def _detach(self, name: str) -> None:
        """The attacher needs a while; then the finalizer goes, and the VolumeAttachment with it."""
        await self._clock.sleep(DETACH_SECONDS)
        while name in self._world.journal.objects[ATTACHMENTS]:
            freed = {"metadata": {"finalizers": None}}
            await self._do(partial(self._world.nodes.patch, VOLUME_ATTACHMENT, Key("", name), freed))
        self._detaching.discard(name)
        self._news.set()

    # ------------------------------------------------------------ apps

    def _of_apps(self) -> Iterator[Callable[[], Awaitable[Any]]]:
        for app in self._apps.values():
            if app.claims:
                yield from self._with_claims(app)
                continue
            homes = [str(pod["spec"]["nodeName"]) for pod in self._there(app)]
            for _ in range(app.count - len(homes)):
                if (node := self._roomiest(homes)) is None:
                    break
                homes.append(node)
                self._made += 1
                yield partial(self._world.nodes.create, POD, _pod_of(app, self._made, node))

    def _with_claims(self, app: App) -> Iterator[Callable[[], Awaitable[Any]]]:
        homes = [str(pod["spec"]["nodeName"]) for pod in self._there(app)]
        for number in range(app.count):
            name, pods = f"{app.name}-{number}", self._world.journal.objects[PODS]
            if f"{app.namespace}/{name}" in pods or (node := self._roomiest(homes)) is None:
                continue
            homes.append(node)
            yield partial(self._run_with_claim, app, number, node)

    async def _run_with_claim(self, app: App, number: int, node: str) -> None:
        """The claim of a pod controls it here, since it is what outlives it."""
        pod = _pod_of(app, number, node)
        claim = await self.claim(pod["metadata"]["name"], app.namespace)
        owner = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "controller": True}
        pod["metadata"]["ownerReferences"] = [{**owner, "name": claim.name, "uid": claim.metadata.uid}]
        source = {"claimName": claim.name}
        pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": source}]
        await self._world.nodes.create(POD, pod)

    async def claim(self, name: str, namespace: str) -> PersistentVolumeClaim:
        """The PersistentVolumeClaim of this name, with its volume; made if there is none."""
        size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        spec = {"volumeName": volume_of(name), **size}
        with suppress(AlreadyExists):
            body = {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
            return await self._world.nodes.create(PVC, body)
        return await self._world.nodes.get(PVC, Key(namespace, name))

    def _there(self, app: App) -> Iterator[Object]:
        """The pods of an app that are not leaving."""
        for pod in self._world.journal.objects[PODS].values():
            if pod["metadata"].get("labels", {}).get(APP) == app.name and not deleting(pod):
                yield pod

    def _ready(self, app: App) -> Iterator[Object]:
        nodes = self._world.journal.objects[NODES]
        return (pod for pod in self._there(app) if is_ready(pod) and pod["spec"]["nodeName"] in nodes)

    def _roomiest(self, homes: list[str]) -> str | None:
        """The node that takes pods and has the fewest of them."""
        nodes = self._world.journal.objects[NODES]
        takes = sorted(name for name, node in nodes.items() if is_ready(node) and not _closed(node))
        return min(takes, key=homes.count, default=None)


def _pod_of(app: App, number: int, node: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"{app.name}-{number}",
            "namespace": app.namespace,
            "labels": {APP: app.name},
        },
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": app.grace,
            "containers": [{"name": "main", "image": "busybox"}],
        },
    }


def _attachment(claim: str, node: str) -> str:
    return f"csi-{claim}-{node}"


def _closed(node: Object) -> bool:
    taints = node["spec"].get("taints") or ()
    return bool(node["spec"].get("unschedulable") or deleting(node) or taints)
