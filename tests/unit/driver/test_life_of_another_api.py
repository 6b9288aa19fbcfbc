"""A second user of ``driver.life``: a small controller of infrastructure objects that no Machine stands behind.

It brings a key, a uid and a function that makes the request, and knows nothing of ``kubewright.machines``.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from kubewright.api.machine.v1alpha1 import MachineClass
from kubewright.api.meta import ObjectMeta
from kubewright.base.clock import SteadyClock
from kubewright.driver.contract import ClassRequest, Instance, MachineRequest, VolumeSpec, stub
from kubewright.driver.errors import Code, DriverError, NotFound, Unimplemented
from kubewright.driver.life.calls import VmCalls
from kubewright.driver.life.plan import State, Want, Wanted, plan
from kubewright.testing.clocks import LoopClock
from kubewright.wire.gvk import Key

EXHAUSTED = timedelta(minutes=10)
LONG_AGO = datetime(2029, 1, 1, tzinfo=UTC)


@dataclass
class InfraMachine:
    """The object. ``there``: its finalizer keeps it."""

    key: Key
    uid: str
    created: datetime
    image: str = "linux"
    provider_id: str = ""
    deleting: bool = False
    there: bool = True
    ready: bool = False
    problem: str = ""


@dataclass
class Cloud:
    """A cloud of VMs by name. A creation takes ``slow`` seconds; it is given up after ``timeout``, and the
    cloud carries it out all the same."""

    slow: float = 0.0
    timeout: float = 60.0
    full: bool = False
    vms: dict[str, str] = field(default_factory=dict)
    made: int = 0
    _late: set[asyncio.Task[None]] = field(default_factory=set)

    async def create(self, request: MachineRequest) -> Instance:
        if self.full:
            raise DriverError.of(Code.ResourceExhausted, "no capacity")
        work = asyncio.create_task(self._make(request.name, request.owner_uid))
        self._late.add(work)
        try:
            async with asyncio.timeout(self.timeout):
                await asyncio.shield(work)
        except TimeoutError:
            raise DriverError.of(Code.DeadlineExceeded, "late") from None
        return Instance(f"toy://{request.name}", request.name)

    async def _make(self, name: str, owner: str) -> None:
        await asyncio.sleep(self.slow)
        if name not in self.vms:
            self.vms[name] = owner
            self.made += 1

    async def initialize(self, request: MachineRequest) -> Instance:
        raise Unimplemented("initialize")

    async def status(self, request: MachineRequest) -> Instance:
        if request.name not in self.vms:
            raise NotFound(request.name)
        return Instance(f"toy://{request.name}", request.name)

    async def delete(self, request: MachineRequest) -> None:
        await asyncio.sleep(1)
        self.vms.pop(request.name, None)

    async def list(self, request: ClassRequest) -> Sequence[Instance]:
        return []

    async def volume_ids(self, volumes: Sequence[VolumeSpec]) -> Sequence[str]:
        return []


class InfraController:
    """One process of the controller."""

    def __init__(self, objects: dict[Key, InfraMachine], cloud: Cloud) -> None:
        self._objects = objects
        self._woken: asyncio.Queue[Key] = asyncio.Queue()
        self._clock = SteadyClock(LoopClock())
        self._calls = VmCalls(cloud, self._clock, self.wake)

    def wake(self, key: Key) -> None:
        self._woken.put_nowait(key)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._calls.run())
            for key in self._objects:
                self.wake(key)
            while True:
                key = await self._woken.get()
                if (pause := self._reconcile(self._objects[key])) is not None:
                    asyncio.get_running_loop().call_later(pause.total_seconds(), self.wake, key)

    def _reconcile(self, of: InfraMachine) -> timedelta | None:
        """One pass: when to come back, unless a call does that."""
        recorded = bool(of.provider_id)
        doubt = self._calls.doubt_until(
            of.uid, created=of.created, recorded=recorded, confirm_absent=timedelta(seconds=10)
        )
        want = Want.GONE if of.deleting else Want.ENSURED
        seen = self._calls.seen(of.uid)
        wanted = Wanted(want, recorded, doubt_until=doubt, inputs=of.image)
        vm = plan(seen, wanted, EXHAUSTED, self._clock.now())
        of.problem = str(vm.error or "")
        if seen.instance is not None and not of.deleting:
            of.provider_id = seen.instance.provider_id
        if vm.state is State.DONE:
            of.ready, of.there = not of.deleting, not of.deleting
        if vm.call is not None:
            self._calls.start(of.key, of.uid, vm.call, lambda: self._request(of), inputs=of.image)
            return None
        return vm.wake

    async def _request(self, of: InfraMachine) -> MachineRequest:
        """What the driver is told, from the object's own fields."""
        image = MachineClass(metadata=ObjectMeta(name=of.image), provider_spec={"image": of.image})
        machine = stub(of.key.name, of.key.namespace, of.uid, provider_id=of.provider_id)
        return MachineRequest(machine, image)


@asynccontextmanager
async def process(objects: dict[Key, InfraMachine], cloud: Cloud) -> AsyncIterator[InfraController]:
    """A process of the controller that is killed at the end, with the calls that it has in flight."""
    controller = InfraController(objects, cloud)
    running = asyncio.create_task(controller.run())
    try:
        yield controller
    finally:
        running.cancel()
        await asyncio.wait([running])


def one(name: str = "a") -> InfraMachine:
    """An object from before any process began."""
    return InfraMachine(Key("default", name), f"uid-{name}", LONG_AGO)


async def test_a_vm_is_created_and_deleted() -> None:
    infra, cloud = one(), Cloud(slow=2)
    async with process({infra.key: infra}, cloud) as controller:
        await asyncio.sleep(60)
        assert (infra.ready, infra.provider_id, cloud.vms) == (True, "toy://a", {"a": "uid-a"})
        infra.deleting = True
        controller.wake(infra.key)
        await asyncio.sleep(60)
        assert (infra.there, cloud.vms) == (False, {})


async def test_a_creation_without_an_answer_is_found_again_and_not_repeated() -> None:
    infra, cloud = one(), Cloud(slow=4, timeout=1)
    async with process({infra.key: infra}, cloud):
        await asyncio.sleep(2)
        assert "DeadlineExceeded" in infra.problem
        await asyncio.sleep(60)
        assert (infra.ready, infra.problem, cloud.made) == (True, "", 1)


async def test_a_vm_that_comes_after_its_object_was_deleted_is_deleted_too() -> None:
    infra, cloud = one(), Cloud(slow=8, timeout=1)
    async with process({infra.key: infra}, cloud) as controller:
        await asyncio.sleep(2)
        infra.deleting = True
        controller.wake(infra.key)
        await asyncio.sleep(7)
        assert (infra.there, cloud.vms) == (True, {"a": "uid-a"})
        await asyncio.sleep(60)
        assert (infra.there, cloud.vms, cloud.made) == (False, {}, 1)


async def test_a_vm_whose_process_died_during_its_creation_is_deleted_by_the_next_one() -> None:
    infra, cloud = one(), Cloud(slow=5)
    async with process({infra.key: infra}, cloud):
        await asyncio.sleep(1)
    infra.deleting = True
    async with process({infra.key: infra}, cloud):
        await asyncio.sleep(3)
        assert infra.there
        await asyncio.sleep(60)
        assert (infra.there, cloud.vms, cloud.made) == (False, {}, 1)


async def test_a_creation_for_which_there_is_no_room_goes_on_when_the_image_changes() -> None:
    infra, cloud = one(), Cloud(full=True)
    async with process({infra.key: infra}, cloud) as controller:
        await asyncio.sleep(60)
        cloud.full = False
        assert "no capacity" in infra.problem
        infra.image = "smaller"
        controller.wake(infra.key)
        await asyncio.sleep(1)
        assert (infra.ready, infra.problem) == (True, "")


async def test_objects_do_not_wait_for_each_other() -> None:
    many = {infra.key: infra for infra in map(one, "abcdef")}
    cloud = Cloud(slow=10)
    async with process(many, cloud):
        await asyncio.sleep(11)
        assert cloud.made == len(many)
        assert all(infra.ready for infra in many.values())
