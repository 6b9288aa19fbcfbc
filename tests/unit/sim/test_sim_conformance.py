"""The simulated cloud keeps the driver contract, in memory, on a file, and when it is slow."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kubewright.base.clock import Clock
from kubewright.driver.contract import ClassRequest, Driver, VolumeSpec
from kubewright.driver.hot import RESOURCES
from kubewright.driver.registry import Settings
from kubewright.providers.sim import driver as make
from kubewright.testing.clocks import LoopClock
from kubewright.testing.driver_conformance import Bench, DriverConformance, Tagged
from kubewright.testing.scenes import class_request


class SimBench:
    """A simulated cloud; with a folder it can be restarted."""

    def __init__(self, spec: dict[str, Any], folder: Path | None = None) -> None:
        self._clock: Clock = LoopClock()
        self._folder = folder
        self._driver = make(Settings(self._clock, folder))
        self._spec = spec
        self.machine_class = self.tagged({})
        self.other_class = class_request("small", tags={"kubernetes.io/cluster/c2": "1"}, **spec)
        self.broken_class: ClassRequest | None = class_request("broken", bootSecond=3)

    def tagged(self, tags: Mapping[str, str], *, mandatory: bool = True) -> ClassRequest:
        found_by = {"kubernetes.io/cluster/c1": "1", "kubernetes.io/role/node": "1"} if mandatory else {}
        each = {"vm": {**found_by, **tags}, "network": tags, "disk": tags}
        return class_request("small", tags=each, **self._spec)

    async def tags(self, provider_id: str) -> Tagged:
        objects = self._driver.cloud.vms[provider_id.rpartition("/")[2]].objects
        return {name: tags for name, (_, tags) in objects.items()}

    async def put_tag(self, provider_id: str, key: str, value: str) -> None:
        for resource in RESOURCES:
            self._driver.cloud.tag(provider_id.rpartition("/")[2], resource, {key: value})

    async def interrupt(self) -> bool:
        half = {"operation": "update", "times": 2, "afterObjects": 1}
        self._spec = {**self._spec, "faults": [half, {**half, "afterObjects": 2}]}
        return True

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
