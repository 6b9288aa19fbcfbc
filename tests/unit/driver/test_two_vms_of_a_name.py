"""The conformance suite notices a driver that deletes the wrong one of two VMs of one name."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

import pytest

from kubewright.driver.contract import ClassRequest, Instance, MachineRequest, VolumeSpec
from kubewright.testing.driver_conformance import Bench, DriverConformance
from kubewright.testing.scenes import class_request


class ByOwner:
    """A cloud that may have several VMs of a name; it deletes the one whose id it is given."""

    machine_class = class_request("small")
    other_class = class_request("large")
    broken_class: ClassRequest | None = None

    def __init__(self) -> None:
        self.vms: list[Instance] = []

    async def driver(self) -> "ByOwner":
        return self

    async def restarted(self) -> None:
        return None

    def volumes(self) -> tuple[Sequence[VolumeSpec], Sequence[str]]:
        return [], []

    async def create(self, request: MachineRequest) -> Instance:
        made = Instance(f"cloud:///{len(self.vms)}", request.name, request.name, request.owner_uid)
        self.vms.append(made)
        return made

    async def initialize(self, request: MachineRequest) -> Instance:
        raise NotImplementedError

    async def delete(self, request: MachineRequest) -> str | None:
        self.vms = [vm for vm in self.vms if not self.is_meant(vm, request)]
        return None

    def is_meant(self, vm: Instance, request: MachineRequest) -> bool:
        return vm.provider_id == request.provider_id

    async def status(self, request: MachineRequest) -> Instance:
        raise NotImplementedError

    async def list(self, request: ClassRequest) -> Sequence[Instance]:
        return self.vms

    async def volume_ids(self, volumes: Sequence[VolumeSpec]) -> Sequence[str]:
        return []


class ByName(ByOwner):
    """One that looks VMs up by their names where it is not told of an owner."""

    def is_meant(self, vm: Instance, request: MachineRequest) -> bool:
        return vm.machine_name == request.name and request.owner_uid in ("", vm.owner_uid)


class Suite(DriverConformance):
    def __init__(self, cloud: ByOwner) -> None:
        self._cloud = cloud

    def bench(self) -> AbstractAsyncContextManager[Bench]:
        @asynccontextmanager
        async def opened() -> AsyncIterator[Bench]:
            yield self._cloud

        return opened()


@pytest.mark.parametrize(
    ("cloud", "owner", "kept"),
    [
        pytest.param(ByOwner(), "", True, id="by provider id"),
        pytest.param(ByName(), "", False, id="by name alone: the other one goes as well"),
        pytest.param(ByName(), "uid-of-m1", True, id="by name and owner"),
    ],
)
async def test_a_driver_deletes_the_vm_whose_id_it_is_given(cloud: ByOwner, owner: str, kept: bool) -> None:
    with nullcontext() if kept else pytest.raises(AssertionError):
        await Suite(cloud).test_of_two_vms_of_a_name_only_the_one_whose_id_is_given_goes(owner)
