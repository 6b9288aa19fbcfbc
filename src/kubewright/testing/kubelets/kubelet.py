"""One node, whose kubelet runs the programs of pods as processes of this machine.

Theory.      It looks at the pods of components and at what its supervisor says, and makes one follow the
             other: it takes what has no node, starts what is bound to it, writes what became of it, and ends
             what is deleted before it lets the pod go. It looks after each change, and once a second.
Invariants.  A pod with the name of one that still ends starts only when that one's program has ended. The
             folder of a claim goes when the claim is gone. Nothing is signalled but by the supervisor.
Called by    the conformance suite of hosts.
"""

import asyncio
import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from kubewright.api.controlplane.names import COMPONENT_LABEL
from kubewright.api.core import CONFIG_MAP, NODE, POD, SECRET
from kubewright.api.kinds import dynamic
from kubewright.api.meta import KubeObject
from kubewright.base.clock import rfc3339
from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.hosting.pods.objects import CLAIM
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.processes.supervisor import Supervisor
from kubewright.testing.kubelets.hosts import address_of, hosts_of, knowing, rewrite
from kubewright.testing.kubelets.programs import Ground, outcome_of, program_of, sequence_of
from kubewright.testing.kubelets.statuses import status_of, status_once
from kubewright.wire.errors import AlreadyExists, ApiError, Conflict, NotFound
from kubewright.wire.gvk import Key

LOOK_SECONDS = 1.0
HEARTBEAT_SECONDS = 2.0
END_SECONDS = 20.0
POD_JSON = dynamic(POD.resource)
NODE_JSON = dynamic(NODE.resource)
Pod = Mapping[str, Any]


class Kubelet:
    """A node for the pods of one namespace. ``root``: where programs and claims have their folders.

    ``programs``  paths of programs, by the names that commands of containers have
    ``names``     give programs an ``/etc/hosts`` with the names of pods and Services; this needs root
    """

    def __init__(
        self,
        client: Client,
        root: Path,
        namespace: str,
        *,
        programs: Mapping[str, str] | None = None,
        names: bool = False,
    ) -> None:
        self._client = client
        self._root = root
        self._node = f"node-of-{namespace}"
        self._paths = programs or {}
        self._hosts = root / "hosts" if names else None
        self._informers = Informers(client)
        self._pods = self._informers.get(POD_JSON, namespace=namespace, labels=COMPONENT_LABEL)
        self._claims = self._informers.get(CLAIM, namespace=namespace, labels=COMPONENT_LABEL)
        self._supervisor = Supervisor(root / "pods", client.clock)
        self._changed = asyncio.Event()
        self._beaten = float("-inf")
        self.starts: dict[str, int] = {}
        """How many programs were begun for each pod, by the pod's uid."""

    async def run(self, stop: asyncio.Event) -> None:
        """Be a kubelet until ``stop``; then end all programs, and the node."""
        for informer in (self._pods, self._claims):
            informer.subscribe(lambda _change: self._changed.set())
        self._supervisor.listen(lambda _name: self._changed.set())
        ended = asyncio.Event()
        supervising = asyncio.create_task(self._supervisor.run(ended), name="supervisor of the kubelet")
        informing = asyncio.create_task(self._informers.run(), name="informers of the kubelet")
        try:
            await self._informers.wait_synced(20)
            while not stop.is_set():
                self._changed.clear()
                await self._look()
                await until_one(self._changed, stop)
        finally:
            await self._end_all()
            with suppress(NotFound):
                await self._client.delete(NODE, Key("", self._node))
            ended.set()
            informing.cancel()
            await asyncio.gather(supervising, informing, return_exceptions=True)

    async def _end_all(self) -> None:
        """End every program. Those that outlive the deadline were killed by then."""
        with suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                while names := self._supervisor.recorded():
                    self._changed.clear()
                    for name in names:
                        self._supervisor.drop(name)
                    await self._changed.wait()

    async def _look(self) -> None:
        """One look at everything, and what follows from it. What fails is tried again at the next look."""
        try:
            await self._beat()
            pods = self._pods.list()
            kept = {self._name(each) for each in pods}
            for name in self._supervisor.recorded():
                if name not in kept:
                    self._supervisor.drop(name)
            if self._hosts is not None:
                rewrite(self._hosts, hosts_of(pods))
            for pod in pods:
                with suppress(NotFound, Conflict):
                    await self._tend(pod)
            self._clear()
        except ApiError:
            return

    async def _beat(self) -> None:
        """Say that the node is there, as a kubelet does."""
        now = self._client.clock.monotonic()
        if now < self._beaten + HEARTBEAT_SECONDS:
            return
        self._beaten, moment = now, rfc3339(self._client.clock.now())
        with suppress(AlreadyExists):
            await self._client.create(NODE_JSON, {"metadata": {"name": self._node}})
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": moment}
        await self._client.patch(
            NODE_JSON, Key("", self._node), {"status": {"conditions": [ready]}}, subresource="status"
        )

    async def _tend(self, pod: Pod) -> None:
        metadata = pod["metadata"]
        key, name = Key(metadata["namespace"], metadata["name"]), self._name(pod)
        if "deletionTimestamp" in metadata:
            self._supervisor.drop(name)
            if self._supervisor.status(name) is None:
                await self._client.delete(POD, key, uid=metadata["uid"], grace=0)
                shutil.rmtree(self._supervisor.folder(name), ignore_errors=True)
                return
        elif not pod["spec"].get("nodeName"):
            await self._bind(key)
            return
        await self._report(pod, key, missing=await self._start(pod))

    async def _bind(self, key: Key) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": self._node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": key.name}, "target": target}
        binding = self._client.request(
            "POST", POD.resource.path(key.namespace, key.name, "binding"), msgspec.json.encode(body)
        )
        await self._client.send(binding)

    async def _start(self, pod: Pod) -> str:
        """Have its program run, unless it does; answers what is missing for it."""
        metadata, name = pod["metadata"], self._name(pod)
        if "deletionTimestamp" in metadata or metadata["uid"] in self.starts or self._name_is_taken(pod):
            return ""
        folder = self._supervisor.folder(name)
        try:
            contents, claims = await self._contents(pod), await self._claim_folders(pod)
            ground = Ground(folder, claims, address_of(pod), self._paths)
            make = sequence_of if _is_done_once(pod) else program_of
            program = make(pod, name, ground, lambda kind, wanted: contents[kind, wanted])
        except (InvalidInput, NotFound) as error:
            return str(error)
        self.starts[metadata["uid"]] = 1
        self._supervisor.want(program if self._hosts is None else knowing(program, self._hosts))
        return ""

    def _name_is_taken(self, pod: Pod) -> bool:
        """Whether the program of an earlier pod of this name has not ended."""
        own, prefix = self._name(pod), self._name(pod).rpartition(".")[0]
        return any(each.startswith(f"{prefix}.") and each != own for each in self._supervisor.recorded())

    async def _contents(self, pod: Pod) -> dict[tuple[str, str], Mapping[str, bytes]]:
        """What is in the Secrets and ConfigMaps that its volumes name.

        Raises:
            NotFound: one of them is not there.
        """
        found: dict[tuple[str, str], Mapping[str, bytes]] = {}
        for kind, name in _named(pod):
            key = Key(pod["metadata"]["namespace"], name)
            if kind == "secret":
                found[kind, name] = (await self._client.get(SECRET, key)).data
            else:
                texts = (await self._client.get(CONFIG_MAP, key)).data
                found[kind, name] = {entry: text.encode() for entry, text in texts.items()}
        return found

    async def _report(self, pod: Pod, key: Key, *, missing: str) -> None:
        seen = self._supervisor.status(self._name(pod))
        now = self._client.clock.now()
        if _is_done_once(pod):
            said = outcome_of(self._supervisor.folder(self._name(pod)))
            outcome = json.loads(said.read_text()) if said.exists() else {}
            status = status_once(pod, outcome, address_of(pod), now, missing=missing)
        else:
            status = status_of(pod, seen, address_of(pod), now, missing=missing)
        if any(pod.get("status", {}).get(name) != value for name, value in status.items()):
            patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
            await self._client.patch(POD_JSON, key, patch, subresource="status")

    def _name(self, pod: Pod) -> str:
        """The name of a pod's program: each pod has its own, also one that has the name of an earlier one."""
        metadata = pod["metadata"]
        return f"{metadata['namespace']}/{metadata['name']}.{metadata['uid'][:8]}"

    async def _claim_folders(self, pod: Pod) -> dict[str, Path]:
        """The folder of each claim that its volumes name. A claim that is made anew has another folder.

        Raises:
            NotFound: one of them is not there.
            InvalidInput: one of them is being deleted.
        """
        found, namespace = {}, pod["metadata"]["namespace"]
        for volume in pod["spec"].get("volumes", ()):
            if (named := volume.get("persistentVolumeClaim")) is not None:
                claim = await self._client.get(CLAIM, Key(namespace, named["claimName"]))
                if claim.metadata.deleting:
                    raise InvalidInput(f'persistentvolumeclaim "{claim.name}" is being deleted')
                found[claim.name] = self._claim_folder(claim)
                found[claim.name].mkdir(parents=True, exist_ok=True, mode=0o700)
        return found

    def _claim_folder(self, claim: KubeObject) -> Path:
        return self._root / "claims" / claim.namespace / f"{claim.name}.{claim.metadata.uid[:8]}"

    def _clear(self) -> None:
        """Remove the folders of claims that are gone."""
        there = {self._claim_folder(each) for each in self._claims.list()}
        for folder in (self._root / "claims").glob("*/*"):
            if folder not in there:
                shutil.rmtree(folder, ignore_errors=True)


async def until_one(changed: asyncio.Event, stop: asyncio.Event) -> None:
    """Wait until something changed, it is time to stop, or a second is over."""
    waits = {asyncio.create_task(changed.wait()), asyncio.create_task(stop.wait())}
    await asyncio.wait(waits, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    for each in waits:
        each.cancel()


def _is_done_once(pod: Pod) -> bool:
    return bool(pod["spec"].get("restartPolicy") == "Never")


def _named(pod: Pod) -> set[tuple[str, str]]:
    """The Secrets and ConfigMaps that volumes name."""
    found = set()
    for volume in pod["spec"].get("volumes", ()):
        for source in (volume, *volume.get("projected", {}).get("sources", ())):
            if "secret" in source:
                found.add(("secret", source["secret"].get("secretName") or source["secret"]["name"]))
            if "configMap" in source:
                found.add(("configMap", source["configMap"]["name"]))
    return found
