"""A whole driver by the package kubewright-driver: six functions and a main. Its VMs are entries in memory.

python memory.py --manager unix:/var/lib/kubewright/grpc/drivers.sock
"""

from collections.abc import Sequence

import msgspec
from kubewright_driver import (
    ClassRequest,
    Instance,
    MachineRequest,
    NotFound,
    Unimplemented,
    VolumeSpec,
    main,
    provider_spec,
)

NAME = "memory"
FOUND_BY = ("kubernetes.io/cluster/", "kubernetes.io/role/")


class Spec(msgspec.Struct, forbid_unknown_fields=True):
    """The providerSpec of a class; a wrong one is refused in one sentence that names the field."""

    tags: dict[str, str] = {}

    @property
    def found_by(self) -> set[tuple[str, str]]:
        """What a VM of this class carries, and no other: without it, none is listed."""
        return {each for each in self.tags.items() if each[0].startswith(FOUND_BY)}


class Vm(msgspec.Struct):
    """A VM: whose it is, and by what it is found again."""

    id: str
    namespace: str
    name: str
    owner_uid: str
    tags: set[tuple[str, str]]

    def shown(self) -> Instance:
        return Instance(self.id, self.name, machine_name=self.name, owner_uid=self.owner_uid)


class Memory:
    """The cloud."""

    def __init__(self) -> None:
        self._vms: dict[str, Vm] = {}
        self._made = 0

    async def create(self, request: MachineRequest) -> Instance:
        spec = provider_spec(request.machine_class.provider_spec, Spec)
        for vm in self._vms.values():  # a creation is asked for again whenever its answer was lost
            if (vm.namespace, vm.name, vm.owner_uid) == (request.namespace, request.name, request.owner_uid):
                return vm.shown()
        self._made += 1
        vm = Vm(f"{NAME}:///{self._made}", request.namespace, request.name, request.owner_uid, spec.found_by)
        self._vms[vm.id] = vm
        return vm.shown()

    async def initialize(self, request: MachineRequest) -> Instance:
        raise Unimplemented("a VM in memory needs nothing after its creation")

    async def delete(self, request: MachineRequest) -> str | None:
        del self._vms[self._found(request).id]
        return None

    async def status(self, request: MachineRequest) -> Instance:
        return self._found(request).shown()

    async def list(self, request: ClassRequest) -> Sequence[Instance]:
        spec = provider_spec(request.machine_class.provider_spec, Spec)
        namespace = request.machine_class.metadata.namespace
        return [
            vm.shown()
            for vm in self._vms.values()
            if vm.namespace == namespace and spec.found_by and spec.found_by <= vm.tags
        ]

    async def volume_ids(self, volumes: Sequence[VolumeSpec]) -> Sequence[str]:
        found = [each.spec.get("csi") or {} for each in volumes]
        return [each["volumeHandle"] for each in found if each.get("driver") == f"{NAME}.example"]

    def _found(self, request: MachineRequest) -> Vm:
        """The VM with the id on record; without one, that of this name and owner."""
        for vm in self._vms.values():
            if vm.namespace != request.namespace:
                continue
            if request.provider_id == vm.id if request.provider_id else (
                (vm.name, vm.owner_uid) == (request.name, request.owner_uid)
            ):  # fmt: skip
                return vm
        raise NotFound(f"there is no VM of machine {request.name}")


if __name__ == "__main__":
    main(Memory(), name=NAME)
