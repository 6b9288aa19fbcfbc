"""A nested control plane as its user handles it: written, put to sleep, woken, used, deleted.

Called by    ``scenario``; ``changes`` changes it.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kubewright.api.controlplane.names import Component, Phase
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE
from kubewright.api.core import NAMESPACE, SECRET
from kubewright.base.clock import Clock
from kubewright.controlplanes.family import KINDS
from kubewright.kube.client import Client
from kubewright.kube.config import from_secret
from kubewright.kube.errors import TransportError
from kubewright.wire.errors import ApiError
from kubewright.wire.gvk import Key

NAMESPACE_NAME = "bench"
_FIELDS = {
    Component.ETCD: "etcd",
    Component.API_SERVER: "apiserver",
    Component.CONTROLLER_MANAGER: "controllerManager",
}


@dataclass(frozen=True, slots=True)
class Plane:
    """One control plane, by a client of the server where it is an object.

    ``channel``   of its components; empty: they follow ``version``
    ``replicas``  of its API server and controller manager; of its etcd the same, or one more: an odd number
    """

    client: Client
    clock: Clock
    name: str
    channel: str
    replicas: int = 1
    version: str = ""

    @property
    def key(self) -> Key:
        return Key(NAMESPACE_NAME, self.name)

    def part(self, of: str) -> Key:
        """The key of a component, or of a Secret."""
        return Key(NAMESPACE_NAME, f"{self.name}-{of}")

    async def create(self) -> None:
        """Write the four objects."""
        parts: dict[str, Any] = {_FIELDS[each]: {"name": self.part(each).name} for each in KINDS}
        version = {"version": self.version} if self.version else {}
        await self.client.create(NESTED_CONTROL_PLANE, _body(self.name, parts | version))
        channel = {} if self.version else {"channel": self.channel}
        for each, kind in KINDS.items():
            replicas = self.replicas | 1 if each is Component.ETCD else self.replicas
            await self.client.create(kind, _body(self.part(each).name, {"replicas": replicas, **channel}))

    async def set_asleep(self, asleep: bool) -> None:
        """Put it to sleep, or wake it."""
        await self.client.patch(NESTED_CONTROL_PLANE, self.key, {"spec": {"asleep": asleep}})

    async def delete(self) -> None:
        """Delete it with all its parts."""
        await self.client.delete(NESTED_CONTROL_PLANE, self.key)

    async def sleeps(self) -> bool:
        """Whether nothing of it runs."""
        found = [(await self.client.get(kind, self.part(each))).status for each, kind in KINDS.items()]
        return all(each.phase == Phase.SLEEPING and not each.replicas for each in found)

    async def ready(self) -> bool:
        """Whether its status says that it is ready."""
        return (await self.client.get(NESTED_CONTROL_PLANE, self.key)).status.ready

    async def answers(self) -> bool:
        """Whether the default namespace can be read with the kubeconfig that is there now."""
        with suppress(ApiError, TransportError):  # of both servers: under load ours may be late too
            secret = await self.client.get(SECRET, self.part("kubeconfig"))
            transport = from_secret(secret.data["value"])
            try:
                inside = Client(transport, self.clock, name="bench", user_agent="bench")
                await inside.get(NAMESPACE, Key("", "default"))
                return True
            finally:
                await transport.close()
        return False


def _body(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": NAMESPACE_NAME}, "spec": spec}
