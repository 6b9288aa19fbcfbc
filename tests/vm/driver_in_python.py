"""A driver by the package for authors: three functions and a main, VMs in memory. A program that a test starts.

python driver_in_python.py ADDRESS
"""

import asyncio
import json
import sys
from collections.abc import Mapping

from kubewright.providers.grpc.client import Provider, ProviderOffer, Target, serve
from kubewright.providers.grpc.messages import MachineClassMeta

FOUND_BY = ("kubernetes.io/cluster/", "kubernetes.io/role/")


class InMemory(Provider):
    """VMs by the tags of their class and the names of their machines."""

    def __init__(self) -> None:
        self._vms: dict[str, tuple[str, str]] = {}

    async def create(
        self, machine_class: MachineClassMeta, _keys: str, _id: str, name: str
    ) -> tuple[str, str]:
        tags = await self._tags(machine_class)
        for number, vm in self._vms.items():
            if vm == (tags, name):
                return number, name
        number = f"memory:///{len(self._vms)}-{name}"
        self._vms[number] = (tags, name)
        return number, name

    async def delete(self, machine_class: MachineClassMeta, _keys: str, machine_id: str) -> None:
        self._vms.pop(machine_id, None)

    async def list(self, machine_class: MachineClassMeta, _keys: str, machine_id: str) -> Mapping[str, str]:
        tags = await self._tags(machine_class)
        return {
            number: name
            for number, (of_class, name) in self._vms.items()
            if of_class == tags and machine_id in ("", number)
        }

    async def _tags(self, machine_class: MachineClassMeta) -> str:
        spec = json.loads(await self.data.machine_class(machine_class))["providerSpec"]
        return ",".join(sorted(key for key in spec["tags"] if key.startswith(FOUND_BY)))


if __name__ == "__main__":
    asyncio.run(serve(ProviderOffer(InMemory(), name="memory"), Target(sys.argv[1])))
