"""Drains in two worlds: the embedded server on virtual time, and a real Kubernetes.

Pods of real controllers would need real disks and schedulers; here the test itself attaches and detaches volumes.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from kubewright.api.core import CONFIG_MAP, POD
from kubewright.api.storage import PVC, VOLUME_ATTACHMENT
from kubewright.testing.world import World
from kubewright.wire.gvk import Key

NewWorld = Callable[[], AbstractAsyncContextManager[World]]


class Disks:
    """The volumes and pods of one test, all named after its namespace."""

    def __init__(self, world: World) -> None:
        self._world, self._target = world, world.target
        self._made: list[tuple[Any, Key]] = []

    def name(self, short: str) -> str:
        return f"{self._world.namespace}-{short}"

    async def run(self, short: str, node: str) -> None:
        """A pod with a volume, and a controller that would make it again; the volume is attached to the node."""
        owner = await self._create(CONFIG_MAP, {"metadata": {"name": self.name(f"of-{short}")}})
        size = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
        spec = {"volumeName": self.name(short), **size}
        await self._create(PVC, {"metadata": {"name": self.name(short)}, "spec": spec})
        await self.attach(short, node)
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner.name,
            "uid": owner.metadata.uid,
            "controller": True,
        }
        await self._target.create(
            POD,
            {
                "metadata": {
                    "name": self.name(short),
                    "namespace": "default",
                    "ownerReferences": [reference],
                },
                "spec": {
                    "nodeName": node,
                    "containers": [{"name": "main", "image": "db"}],
                    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": self.name(short)}}],
                },
            },
        )

    async def attach(self, short: str, node: str) -> None:
        """Attach its volume to a node."""
        spec = {
            "attacher": "csi.test",
            "nodeName": node,
            "source": {"persistentVolumeName": self.name(short)},
        }
        key = Key("", f"{self.name(short)}-{node}")
        await self._target.create(VOLUME_ATTACHMENT, {"metadata": {"name": key.name}, "spec": spec})
        await self._target.patch(VOLUME_ATTACHMENT, key, {"status": {"attached": True}}, subresource="status")

    async def detach(self, short: str, node: str) -> None:
        """Detach its volume from a node."""
        await self._target.delete(VOLUME_ATTACHMENT, Key("", f"{self.name(short)}-{node}"))

    async def pods(self) -> set[str]:
        """The short names of the pods that are there."""
        before = f"{self._world.namespace}-"
        found = (pod.name for pod in await self._target.list(POD, "default"))
        return {name.removeprefix(before) for name in found if name.startswith(before)}

    async def left_are(self, *wanted: str) -> None:
        """Wait until these pods are there, and no others."""
        for _ in range(200):
            if (found := await self.pods()) == set(wanted):
                return
            await self._world.clock.sleep(0.1)
        assert found == set(wanted)

    async def tidy(self) -> None:
        for kind, key in self._made:
            await self._target.delete(kind, key)

    async def _create(self, kind: Any, body: dict[str, Any]) -> Any:
        body["metadata"]["namespace"] = "default"
        self._made.append((kind, Key("default", body["metadata"]["name"])))
        return await self._target.create(kind, body)


async def said(world: World, machine: str, part: str) -> None:
    """Wait until the machine says so."""
    for _ in range(200):
        told = (await world.machine(machine)).status.last_operation.description
        if part in told:
            return
        await world.clock.sleep(0.1)
    assert part in told


async def test_pods_with_volumes_leave_one_after_another_as_their_volumes_move(new_world: NewWorld) -> None:
    async with new_world() as world:
        disks, node = Disks(world), f"{world.namespace}-m1"
        await world.make(node)
        await world.settled(1)
        for short in ("db-0", "db-1"):
            await disks.run(short, node)
        await world.run_pod(disks.name("web"), node)
        await world.clock.sleep(1)
        await world.unmake(node)
        await disks.left_are("db-1")
        first, second = (
            f"{disks.name(short)} of default/{disks.name(short)} is to be" for short in ("db-0", "db-1")
        )
        await said(world, node, f"volume {first} detached from the node")
        await disks.detach("db-0", node)
        await said(world, node, f"volume {first} attached to another node")
        assert await disks.pods() == {"db-1"}
        await disks.attach("db-0", "elsewhere")
        await disks.left_are()
        await said(world, node, "1 volumes are still attached. Delete Volume Attachments")
        await disks.detach("db-1", node)
        await said(world, node, f"Volume {second} attached to another node. Delete Volume Attachments")
        assert (await world.look()).vms == 1
        await disks.attach("db-1", "elsewhere")
        await world.until(lambda snapshot: not snapshot.machines, "the machine is gone")
        for short in ("db-0", "db-1"):
            await disks.detach(short, "elsewhere")
        await disks.tidy()
