"""The simulated cloud behind the stream keeps the driver contract: as a whole driver, and as the three functions of 2018."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kubewright.api.machine.v1alpha1 import MACHINE_CLASS
from kubewright.driver.answers import CONSOLE_CHARS, boot_failure
from kubewright.driver.contract import ClassRequest, Driver, MachineRequest, Updates, VolumeSpec, stub
from kubewright.driver.errors import DriverError, InvalidArgument, NotFound
from kubewright.driver.guard import GuardedDriver
from kubewright.driver.registry import Settings
from kubewright.providers.grpc.client import DriverOffer, Offer, Provider, ProviderOffer
from kubewright.providers.grpc.messages import MachineClassMeta
from kubewright.providers.sim import driver as make
from kubewright.providers.sim.driver import SimDriver
from kubewright.testing.clocks import LoopClock
from kubewright.testing.driver_conformance import Bench, DriverConformance
from kubewright.testing.scenes import class_request

from .pipes import Manager


class ThreeFunctions(Provider):
    """The simulated cloud as an author of 2018 would have written it: names and ids, no owners."""

    def __init__(self, inner: Driver) -> None:
        self.inner = inner

    async def create(
        self, machine_class: MachineClassMeta, credentials: str, machine_id: str, machine_name: str
    ) -> tuple[str, str]:
        found = await self._class(machine_class)
        made = await self.inner.create(found.of(stub(machine_name, found.machine_class.metadata.namespace)))
        return made.provider_id, made.node_name

    async def delete(self, machine_class: MachineClassMeta, credentials: str, machine_id: str) -> None:
        found = await self._class(machine_class)
        namespace = found.machine_class.metadata.namespace
        for each in await self.inner.list(found):
            if each.provider_id == machine_id:
                gone = stub(each.machine_name, namespace, each.owner_uid, provider_id=machine_id)
                await self.inner.delete(found.of(gone))

    async def list(
        self, machine_class: MachineClassMeta, credentials: str, machine_id: str
    ) -> Mapping[str, str]:
        listed = await self.inner.list(await self._class(machine_class))
        return {each.provider_id: each.machine_name for each in listed}

    async def _class(self, meta: MachineClassMeta) -> ClassRequest:
        text = await self.data.machine_class(meta)
        return ClassRequest(MACHINE_CLASS.decode(text.encode()))


class GrpcBench:
    """A simulated cloud in one end, a manager at the other; with a folder the cloud can be restarted."""

    def __init__(self, spec: dict[str, object], folder: Path | None = None, *, simple: bool = False) -> None:
        self._clock = LoopClock()
        self._folder, self._simple = folder, simple
        self._cloud = make(Settings(self._clock, folder))
        self.manager = Manager()
        tags = {"kubernetes.io/cluster/c1": "1", "kubernetes.io/role/node": "1"}
        self.machine_class = class_request("small", tags=tags, **spec)
        self.other_class = class_request("small", tags={"kubernetes.io/cluster/c2": "1"}, **spec)
        self.broken_class: ClassRequest | None = class_request("broken", bootSecond=3)

    async def driver(self) -> Driver:
        offer: Offer = DriverOffer(self._cloud, self._clock, "sim")
        if self._simple:
            offer = ProviderOffer(ThreeFunctions(self._cloud), name="sim")
        await self.manager.dialled(offer)
        return self.manager.driver

    async def restarted(self) -> Driver | None:
        """Both processes end, and begin again."""
        if self._folder is None:
            return None
        await self.close()
        self._cloud, self.manager = make(Settings(self._clock, self._folder)), Manager()
        return await self.driver()

    def volumes(self) -> tuple[Sequence[VolumeSpec], Sequence[str]]:
        ours = {"csi": {"driver": "sim.kubewright.dev", "volumeHandle": "disk-7"}}
        return [VolumeSpec("pv1", {"nfs": {}}), VolumeSpec("pv2", ours), VolumeSpec("pv3", {"csi": None})], [
            "disk-7"
        ]

    @property
    def tags_of_disks(self) -> list[Mapping[str, str]]:
        return [each.boot_disk.tags for each in self._cloud.cloud.vms.values()]

    async def close(self) -> None:
        await self.manager.close()
        await self._cloud.close()


@asynccontextmanager
async def opened(bench: GrpcBench) -> AsyncIterator[Bench]:
    try:
        yield bench
    finally:
        await bench.close()


class TestWholeDriver(DriverConformance):
    def bench(self) -> AbstractAsyncContextManager[Bench]:
        return opened(GrpcBench({}))


class TestSlowWholeDriverOnFile(DriverConformance):
    """Every call takes its time, VMs are initialized, and both processes begin again."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def bench(self) -> AbstractAsyncContextManager[Bench]:
        slow = {"createSeconds": 40, "bootSeconds": 90, "deleteSeconds": 70, "needsInitialize": True}
        return opened(GrpcBench(slow, self.folder))


class TestThreeFunctions(DriverConformance):
    """A driver of 2018, one message at a time; what it cannot say is not asked of it."""

    def bench(self) -> AbstractAsyncContextManager[Bench]:
        return opened(GrpcBench({}, simple=True))

    @pytest.mark.parametrize("owner", ["", "uid-of-m1"])
    async def test_of_two_vms_of_a_name_only_the_one_whose_id_is_given_goes(self, owner: str) -> None:
        """It is never told owners: a second creation under a name answers with the first VM."""
        async with self.bench() as bench:
            driver = await bench.driver()
            first = await driver.create(bench.machine_class.of(stub("m1", "ns", owner)))
            second = await driver.create(bench.machine_class.of(stub("m1", "ns", "another-owner")))
            assert first.provider_id == second.provider_id


class Talks(SimDriver):
    """The simulated cloud, whose VMs write ``written`` to their consoles; with none it does not answer."""

    written = ""

    async def console(self, _request: MachineRequest) -> str:
        return self.written or await asyncio.Future()


@pytest.fixture
async def talks() -> AsyncIterator[tuple[Talks, GuardedDriver]]:
    """The driver on the other side, and what the controllers have of it here."""
    clock, manager = LoopClock(), Manager()
    talks = Talks(make(Settings(clock)).cloud)
    await manager.dialled(DriverOffer(talks, clock, "sim"))
    yield talks, GuardedDriver(manager.driver, clock)
    await manager.close()
    await talks.close()


VM = class_request("small").of(stub("m1", "ns", "uid", provider_id="sim:///m1"))


async def test_the_end_of_a_console_comes_over_and_tells_that_a_boot_failed(
    talks: tuple[Talks, GuardedDriver],
) -> None:
    """Without what may be secret: it is taken out before it leaves the driver's process."""
    driver, here = talks
    panic = "[ 1.0] Kernel panic - not syncing: VFS: Unable to mount root fs"
    driver.written = "\n".join([*("line" for _ in range(20_000)), "--token abcdef.0123456789abcdef", panic])
    told = await here.console(VM)
    assert told.split("\n")[-1] == panic
    assert boot_failure(told)
    assert "0123456789abcdef" not in told
    assert len(told) <= CONSOLE_CHARS


async def test_a_console_that_is_not_shown_within_seconds_is_not_waited_for(
    talks: tuple[Talks, GuardedDriver],
) -> None:
    _, here = talks
    began = asyncio.get_running_loop().time()
    with pytest.raises(DriverError, match="console of m1"):
        await here.console(VM)
    assert asyncio.get_running_loop().time() - began <= 5


async def test_three_functions_keep_the_contract() -> None:
    """In short what ``TestThreeFunctions`` shows: made once, listed, deleted by name alone, gone."""
    async with opened(GrpcBench({}, simple=True)) as bench:
        driver, request = await bench.driver(), bench.machine_class.of(stub("m1", "ns", "uid"))
        made, again = await driver.create(request), await driver.create(request)
        assert made == again
        assert [each.provider_id for each in await driver.list(bench.machine_class)] == [made.provider_id]
        assert (await driver.status(request)).node_name == made.node_name
        await driver.delete(request)
        with pytest.raises(NotFound):
            await driver.status(request)


async def test_tags_are_updated_on_the_other_side() -> None:
    async with opened(GrpcBench({})) as bench:
        driver, spec = await bench.driver(), bench.machine_class.machine_class.provider_spec
        made = await driver.create(bench.machine_class.of(stub("m1", "ns", "uid")))
        assert isinstance(driver, Updates)
        assert tuple(driver.hot_fields(bench.machine_class.machine_class)) == ("tags", "sourceDestCheck")
        apart = {"vm": spec["tags"], "disk": {"backup": "daily"}}
        now = class_request("small", tags=apart).of(stub("m1", "ns", "uid", provider_id=made.provider_id))
        await driver.update(now, None)
        assert bench.tags_of_disks == [{"backup": "daily"}]
        await driver.update(replace(now, machine_class=bench.machine_class.machine_class), {"tags": apart})
        assert bench.tags_of_disks == [{}]
        await driver.update(now, {})
        with pytest.raises(InvalidArgument, match=r"kubernetes\.io/role/node"):
            await driver.update(replace(now, machine_class=class_request("small").machine_class), spec)


@pytest.mark.parametrize("called", ["elsewhere", "externalDriver"])
async def test_a_driver_that_is_served_under_another_name_takes_the_classes_of_that_name(called: str) -> None:
    clock, manager = LoopClock(), Manager()
    cloud = make(Settings(clock))
    await manager.dialled(DriverOffer(cloud, clock, called, own="sim"))
    of_class = class_request("small", provider="" if called == "externalDriver" else called)
    made = await manager.driver.create(of_class.of(stub("m1", "ns", "uid-m1")))
    assert [each.provider_id for each in await manager.driver.list(of_class)] == [made.provider_id]
    await manager.close()
    await cloud.close()
