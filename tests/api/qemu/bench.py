"""A folder of VMs for a test, with one image: a disk of 512 bytes that says a line and stops."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from msgspec import structs

from kubewright.base.clock import SystemClock
from kubewright.driver.contract import ClassRequest, Driver, MachineRequest, VolumeSpec, stub
from kubewright.driver.errors import NotFound
from kubewright.driver.registry import Settings
from kubewright.providers.qemu import driver as make
from kubewright.providers.qemu.driver import SETTLED_SECONDS, TEND_SECONDS, WARM_SECONDS, QemuDriver
from kubewright.providers.qemu.host import LINE, boot_sector
from kubewright.testing.driver_conformance import Tagged
from kubewright.testing.scenes import class_request

from . import fake_programs

SPEC: dict[str, Any] = {
    "image": "tiny",
    "memory": "32Mi",
    "disk": "1Mi",
    "architecture": "amd64",
    "accelerator": "tcg",
}


class Ticks(SystemClock):
    """``rests`` is set once the driver has tended its VMs, and rests. Between the ``rounds`` in which it looks after
    those that wait it does not."""

    def __init__(self) -> None:
        super().__init__()
        self.rests = asyncio.Event()
        self.rounds = 0

    async def sleep(self, seconds: float) -> None:
        if seconds == TEND_SECONDS:
            self.rests.set()
        of_warm = seconds in (WARM_SECONDS, SETTLED_SECONDS)
        self.rounds += of_warm
        await super().sleep(0.01 if of_warm else seconds)


class QemuBench:
    """As ``driver_conformance.Bench``."""

    def __init__(self, folder: Path, programs: str, **options: str) -> None:
        self.folder = folder
        self.images = folder / "images"
        self.images.mkdir()
        (self.images / "tiny").write_bytes(boot_sector(LINE))
        self._options = {"images": str(self.images), "programs": programs, **options}
        self.clock = Ticks()
        self.made = self.another()
        self.machine_class = self.tagged({})
        self.other_class = self.class_of(tags={"vm": {"kubernetes.io/cluster/two": "1"}})
        self.broken_class: ClassRequest | None = self.class_of(cpu=2)

    def tagged(self, tags: Mapping[str, str], *, mandatory: bool = True) -> ClassRequest:
        found_by = {"kubernetes.io/cluster/one": "1", "kubernetes.io/role/node": "1"} if mandatory else {}
        return self.class_of(tags={"vm": {**found_by, **tags}, "network": tags, "disk": tags})

    async def tags(self, provider_id: str) -> Tagged:
        records = [json.loads((each / "vm.json").read_bytes()) for each in self.vm_folders]
        (vm,) = [each for each in records if each["provider_id"] == provider_id]
        return {each: vm[each] for each in ("tags", "network_tags", "disk_tags")}

    async def put_tag(self, provider_id: str, key: str, value: str) -> None:
        """By a class that has it, and is forgotten: none but the driver writes records."""
        await self.made.update(self.tagged({key: value}).of(stub("", "ns", provider_id=provider_id)), None)

    async def interrupt(self) -> bool:
        return False

    def class_of(self, **spec: Any) -> ClassRequest:
        return class_request("tiny", provider="qemu", **{**SPEC, **spec})

    def request(
        self,
        name: str = "m1",
        of: ClassRequest | None = None,
        *,
        control_plane: bool = False,
        **data: bytes,
    ) -> MachineRequest:
        asked = (of or self.machine_class).of(stub(name, "ns", f"uid-{name}"))
        secret = structs.replace(asked.secret, data=data)
        return MachineRequest(asked.machine, asked.machine_class, secret, control_plane=control_plane)

    def another(self) -> QemuDriver:
        """A driver on the same folder."""
        return make(Settings(self.clock, self.folder, self._options))

    def install_fakes(self, folder: Path) -> None:
        fake_programs.install(folder)

    async def driver(self) -> Driver:
        return self.made

    async def restarted(self) -> QemuDriver:
        await self.made.close()
        self.clock = Ticks()
        self.made = self.another()
        return self.made

    async def tended(self) -> None:
        """What the driver does for its VMs every few seconds, once."""
        task = asyncio.create_task(self.made.run(None))
        async with asyncio.timeout(20):
            await self.clock.rests.wait()
        task.cancel()
        await asyncio.wait([task])

    def volumes(self) -> tuple[Sequence[VolumeSpec], Sequence[str]]:
        return [VolumeSpec("pv1", {"nfs": {}})], []

    @property
    def vm_folders(self) -> list[Path]:
        """What is in the folder of VMs, but for the lock."""
        return [each for each in sorted((self.folder / "qemu" / "vms").glob("*")) if each.is_dir()]

    async def close(self) -> None:
        """By the records, whatever tags a test has given: a list goes by these."""
        for each in self.vm_folders:
            with suppress(OSError, ValueError, KeyError, NotFound):  # a record that a test has spoiled
                vm = json.loads((each / "vm.json").read_bytes())
                left = stub(vm["name"], vm["namespace"], vm["owner_uid"], provider_id=vm["provider_id"])
                await self.made.delete(self.class_of(tags={"vm": vm["tags"]}).of(left))
        await self.made.close()


AnyBench = TypeVar("AnyBench", bound=QemuBench)


@asynccontextmanager
async def opened(
    folder: Path, programs: str, *, of: type[AnyBench] = QemuBench, **options: str
) -> AsyncIterator[AnyBench]:
    """A bench whose VMs are gone in the end."""
    bench = of(folder, programs, **options)
    try:
        yield bench
    finally:
        await bench.close()
