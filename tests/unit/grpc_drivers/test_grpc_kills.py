"""Kill -9 of either side, at each moment of each call: nothing is lost and nothing is made twice. On virtual time.

The cloud is neither of the two: what was begun there goes on when the driver that began it is gone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from kubewright.driver.contract import ClassRequest, Instance, MachineRequest, Size, VolumeSpec, stub
from kubewright.driver.errors import Code, DriverError, NotFound
from kubewright.driver.registry import Settings
from kubewright.providers.grpc.client import DriverOffer
from kubewright.providers.grpc.dispatch import GrpcDriver
from kubewright.providers.grpc.messages import DriverSide, MCMside, decode
from kubewright.providers.sim import driver as make_sim
from kubewright.providers.sim.driver import SimDriver
from kubewright.testing.clocks import LoopClock
from kubewright.testing.scenes import class_request

from .pipes import Manager

T = TypeVar("T")
TAGS = {"kubernetes.io/cluster/c1": "1", "kubernetes.io/role/node": "1"}
CLASS = class_request("small", tags=TAGS, needsInitialize=True)
PAINTED = class_request("small", tags={"vm": TAGS, "disk": {"colour": "blue"}}, needsInitialize=True)
DISK = VolumeSpec("pv", {"csi": {"driver": "sim.kubewright.dev", "volumeHandle": "disk-7"}})
WORK_SECONDS = 3.0
"""Each call of the cloud takes so long."""

UNSENT, SENT, WORKING, DONE, ANSWERED = MOMENTS = (
    "before it is sent",
    "when it is sent",
    "while the cloud works on it",
    "before it is answered",
    "when it is answered",
)


class GoesOn(SimDriver):
    """The simulated cloud; its calls take their time, and go on without whoever asked. ``heard``: how many
    were asked."""

    heard = 0

    async def create(self, request: MachineRequest) -> Instance:
        return await self._work(lambda: SimDriver.create(self, request))

    async def initialize(self, request: MachineRequest) -> Instance:
        return await self._work(lambda: SimDriver.initialize(self, request))

    async def delete(self, request: MachineRequest) -> None:
        await self._work(lambda: SimDriver.delete(self, request))

    async def status(self, request: MachineRequest) -> Instance:
        return await self._work(lambda: SimDriver.status(self, request))

    async def list(self, request: ClassRequest) -> Sequence[Instance]:
        return await self._work(lambda: SimDriver.list(self, request))

    async def volume_ids(self, volumes: Sequence[VolumeSpec]) -> Sequence[str]:
        return await self._work(lambda: SimDriver.volume_ids(self, volumes))

    async def validate(self, request: ClassRequest) -> None:
        await self._work(lambda: SimDriver.validate(self, request))

    async def size(self, request: ClassRequest) -> Size:
        return await self._work(lambda: SimDriver.size(self, request))

    async def update(self, request: MachineRequest, last_applied: Mapping[str, Any] | None) -> None:
        await self._work(lambda: SimDriver.update(self, request, last_applied))

    async def console(self, request: MachineRequest) -> str:
        async def written() -> str:
            return f"{request.name}: Kernel panic"

        return await self._work(written)

    async def _work(self, call: Callable[[], Awaitable[T]]) -> T:
        self.heard += 1

        async def work() -> T:
            await asyncio.sleep(WORK_SECONDS / 2)
            found = await call()
            await asyncio.sleep(WORK_SECONDS / 2)
            return found

        return await asyncio.shield(asyncio.ensure_future(work()))


@dataclass
class Killing:
    """Ends a stream once, at one moment of one operation."""

    operation: str
    moment: str
    cut: Callable[[], None] = lambda: None
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def asks(self, data: bytes, gone: bool) -> None:
        """As ``Pipe.around``, of what the manager writes."""
        if self._is_it(decode(MCMside, data).operation_type):
            if self.moment == (SENT if gone else UNSENT):
                self.end()
            elif gone and self.moment == WORKING:
                asyncio.get_running_loop().call_later(WORK_SECONDS / 3, self.end)

    def answers(self, data: bytes, gone: bool) -> None:
        """As ``Pipe.around``, of what the driver writes."""
        if self._is_it(decode(DriverSide, data).operation_type):
            if self.moment == DONE and not gone:
                self.end()
            elif self.moment == ANSWERED and gone:
                asyncio.get_running_loop().call_later(0.001, self.end)

    def _is_it(self, operation: str) -> bool:
        return operation == self.operation and not self.done.is_set()

    def end(self) -> None:
        self.done.set()
        self.cut()


class Stage:
    """One cloud, one driver in front of it and one manager, of which either is killed and begins again."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self.cloud = GoesOn(make_sim(Settings(self.clock)).cloud)
        self.manager = Manager()

    async def dialled(self, killing: Killing | None = None) -> None:
        offer = DriverOffer(self.cloud, self.clock, "sim")
        if killing is None:
            await self.manager.dialled(offer)
        else:
            killing.cut = (await self.manager.dialled(offer, killing.asks, killing.answers)).cut

    async def close(self) -> None:
        await self.manager.close()
        await self.cloud.close()

    @property
    def vms(self) -> list[str]:
        return sorted(each.name for each in self.cloud.cloud.vms.values())


def machine(provider_id: str = "") -> MachineRequest:
    return CLASS.of(stub("m1", "ns", "uid-m1", provider_id=provider_id))


@dataclass(frozen=True)
class Case:
    """One call; whether there is a VM before it, and the names of VMs and what is seen of them after it."""

    call: Callable[[GrpcDriver, str], Awaitable[Any]]
    vm_before: bool = True
    vms_after: tuple[str, ...] = ("m1",)
    answer: Callable[[Any], bool] = lambda found: found is None


def named(found: Any) -> bool:
    return isinstance(found, Instance) and found.machine_name == "m1" and found.owner_uid == "uid-m1"


CASES = {
    "create": Case(lambda driver, _: driver.create(machine()), vm_before=False, answer=named),
    "initialize": Case(lambda driver, vm: driver.initialize(machine(vm)), answer=named),
    "delete": Case(lambda driver, vm: driver.delete(machine(vm)), vms_after=()),
    "status": Case(lambda driver, vm: driver.status(machine(vm)), answer=named),
    "list": Case(
        lambda driver, _: driver.list(CLASS), answer=lambda found: len(found) == 1 and named(found[0])
    ),
    "volumeids": Case(
        lambda driver, _: driver.volume_ids([DISK]), answer=lambda found: list(found) == ["disk-7"]
    ),
    "validate": Case(lambda driver, _: driver.validate(CLASS)),
    "size": Case(lambda driver, _: driver.size(CLASS), answer=lambda found: "cpu" in found.capacity),
    "console": Case(lambda driver, vm: driver.console(machine(vm)), answer="m1: Kernel panic".__eq__),
    "update": Case(
        lambda driver, vm: driver.update(
            PAINTED.of(stub("m1", "ns", "uid-m1", provider_id=vm)), CLASS.machine_class.provider_spec
        )
    ),
}


@pytest.mark.parametrize("killed", ["driver", "manager"])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("operation", CASES)
async def test_whichever_side_is_killed_and_when_the_next_try_does_what_was_asked_once(
    operation: str, moment: str, killed: str
) -> None:
    stage, case = Stage(), CASES[operation]
    before = await stage.cloud.create(machine()) if case.vm_before else None
    if before is not None and operation == "status":
        await stage.cloud.initialize(machine(before.provider_id))
    vm, heard, killing = before.provider_id if before else "", stage.cloud.heard, Killing(operation, moment)
    await stage.dialled(killing)
    first = asyncio.ensure_future(case.call(stage.manager.driver, vm))
    await killing.done.wait()
    if killed == "manager":
        first.cancel()
        await stage.manager.close()
        stage.manager = Manager()
    else:
        await asyncio.wait([first])
        _is_honest(first, moment, asked=stage.cloud.heard > heard)
        await asyncio.sleep(0.001)  # the manager reads the end of the stream
    await stage.dialled()
    found = None
    with suppress(NotFound):  # of a deletion: it is gone
        found = await case.call(stage.manager.driver, vm)
    assert operation == "delete" or case.answer(found)
    await asyncio.sleep(2 * WORK_SECONDS)
    assert stage.vms == list(case.vms_after)
    if operation == "update":
        assert [dict(each.boot_disk.tags) for each in stage.cloud.cloud.vms.values()] == [{"colour": "blue"}]
    await stage.close()


def _is_honest(first: asyncio.Future[Any], moment: str, *, asked: bool) -> None:
    """What a caller was told of a call whose stream ended: that nothing was done only if nothing was."""
    error = first.exception()
    assert (error is None) == (moment == ANSWERED)
    if error is not None:
        assert isinstance(error, DriverError)
        assert error.code is Code.Unavailable
        assert not (error.meaning.nothing_done and asked)
