"""The simulated cloud keeps the driver contract, in memory, on a file, and when it is slow."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from kubewright.base.clock import Clock
from kubewright.driver.contract import ClassRequest, Driver, VolumeSpec
from kubewright.driver.registry import Settings
from kubewright.providers.sim import driver as make
from kubewright.testing.clocks import LoopClock
from kubewright.testing.driver_conformance import Bench, DriverConformance
from kubewright.testing.scenes import class_request


class SimBench:
    """A simulated cloud; with a folder it can be restarted."""

    def __init__(self, spec: dict[str, object], folder: Path | None = None) -> None:
        self._clock: Clock = LoopClock()
        self._folder = folder
        self._driver = make(Settings(self._clock, folder))
        tags = {"kubernetes.io/cluster/c1": "1", "kubernetes.io/role/node": "1"}
        self.machine_class = class_request("small", tags=tags, **spec)
        self.other_class = class_request("small", tags={"kubernetes.io/cluster/c2": "1"}, **spec)
        self.broken_class: ClassRequest | None = class_request("broken", bootSecond=3)

    async def driver(self) -> Driver:
        return self._driver

    async def restarted(self) -> Driver | None:
        if self._folder is None:
            return None
        await self._driver.close()
        self._driver = make(Settings(self._clock, self._folder))
        return self._driver

    def volumes(self) -> tuple[Sequence[VolumeSpec], Sequence[str]]:
        ours = {"csi": {"driver": "sim.kubewright.dev", "volumeHandle": "disk-7"}}
        return [VolumeSpec("pv1", {"nfs": {}}), VolumeSpec("pv2", ours), VolumeSpec("pv3", {"csi": None})], [
            "disk-7"
        ]

    async def close(self) -> None:
        await self._driver.close()


@asynccontextmanager
async def opened(bench: SimBench) -> AsyncIterator[Bench]:
    try:
        yield bench
    finally:
        await bench.close()


class TestInMemory(DriverConformance):
    def bench(self) -> AbstractAsyncContextManager[Bench]:
        return opened(SimBench({}))


class TestSlowOnFile(DriverConformance):
    """Every call takes its time, VMs are initialized, and the next process reads the file."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def bench(self) -> AbstractAsyncContextManager[Bench]:
        slow = {"createSeconds": 40, "bootSeconds": 90, "deleteSeconds": 70, "needsInitialize": True}
        return opened(SimBench(slow, self.folder))
