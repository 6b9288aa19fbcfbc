"""``kubewright up --driver qemu``: real VMs beside the simulated cloud, each for the classes that name it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kubewright.api.core import SECRET
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS
from kubewright.base.clock import SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import Options, ServerConfig
from kubewright.driver.contract import ClassRequest, stub
from kubewright.providers.qemu.host import LINE, boot_sector
from kubewright.testing.world import running
from kubewright.wire.gvk import Key

from .bench import SPEC

pytestmark = pytest.mark.looptime(False)
NS, CLOCK = "default", SystemClock()


@asynccontextmanager
async def served(folder: Path, **options: str) -> AsyncIterator[Embedded]:
    images = folder / "data" / "qemu" / "images"
    images.mkdir(parents=True, exist_ok=True)
    (images / "tiny").write_bytes(boot_sector(LINE))
    config = ServerConfig(folder / "data", port=0)
    chosen = Options(driver="qemu", driver_options=options)
    async with Embedded(config, chosen, CLOCK) as world, running(world.serve):
        yield world


def classed(name: str, provider: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": NS},
        "provider": provider,
        "providerSpec": spec,
        "secretRef": {"name": "data", "namespace": NS},
    }


async def provider_ids(world: Embedded, *names: str) -> list[str]:
    """Those of machines, once all have one."""
    async with asyncio.timeout(30):
        while True:
            found = [(await world.client.get(MACHINE, Key(NS, each))).spec.provider_id for each in names]
            if all(found):
                return found
            await CLOCK.sleep(0.05)


async def remove_vms(world: Embedded, of: ClassRequest) -> None:
    for each in await world.driver.list(of):
        left = stub(each.machine_name, NS, each.owner_uid, provider_id=each.provider_id)
        await world.driver.delete(of.of(left))


async def test_each_class_has_its_machines_made_by_the_driver_that_it_names(
    tmp_path: Path, programs: str
) -> None:
    async with served(tmp_path, programs=programs) as world:
        meta = {"name": "data", "namespace": NS}
        await world.client.create(SECRET, {"metadata": meta, "data": {"userData": "I2Nsb3VkLWNvbmZpZwo="}})
        for name, provider, spec in (("real", "qemu", SPEC), ("without-a-name", "", SPEC)):
            await world.client.create(MACHINE_CLASS, classed(name, provider, spec))
        classes = {"a": "real", "b": "without-a-name", "c": "sim-small"}
        for name, each in classes.items():
            spec = {"class": {"kind": "MachineClass", "name": each}}
            await world.client.create(MACHINE, {"metadata": {"name": name, "namespace": NS}, "spec": spec})
        made = [each.partition(":")[0] for each in await provider_ids(world, *classes)]
        there = sorted(each.name[0] for each in (tmp_path / "data/qemu/vms").iterdir() if each.is_dir())
        for each in ("real", "without-a-name"):
            await remove_vms(world, ClassRequest(await world.client.get(MACHINE_CLASS, Key(NS, each))))
    assert (made, there) == (["qemu", "qemu", "sim"], ["a", "b"])


async def test_an_option_that_the_driver_does_not_know_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="netwrk"):
        async with served(tmp_path, netwrk="bridge"):
            pass
