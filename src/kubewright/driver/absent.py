"""No cloud at all: the driver of a process that has no machines to make, and so names none.

Called by    ``compose``, where only the controllers of sets run.
"""

from collections.abc import Sequence

from kubewright.driver.contract import ClassRequest, Instance, MachineRequest, VolumeSpec
from kubewright.driver.errors import Unimplemented


class Absent:
    """A ``driver.contract.Driver`` that can do nothing."""

    async def create(self, request: MachineRequest) -> Instance:
        raise _nothing()

    async def initialize(self, request: MachineRequest) -> Instance:
        raise _nothing()

    async def delete(self, request: MachineRequest) -> None:
        raise _nothing()

    async def status(self, request: MachineRequest) -> Instance:
        raise _nothing()

    async def list(self, request: ClassRequest) -> Sequence[Instance]:
        raise _nothing()

    async def volume_ids(self, volumes: Sequence[VolumeSpec]) -> Sequence[str]:
        raise _nothing()


def _nothing() -> Unimplemented:
    return Unimplemented("this process has no driver")
