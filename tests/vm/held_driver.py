"""The simulated cloud as a driver in another process whose calls can be held: a program that tests start and kill.

    python held_driver.py ADDRESS KUBECONFIG CLOUD HELD

``HELD`` is a folder. While its file ``hold`` names a verb, the next call of that verb is carried out, and is never
answered; the file ``reached`` says so.
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kubewright.base.clock import SystemClock
from kubewright.driver.contract import ClassRequest, Instance, MachineRequest, VolumeSpec
from kubewright.driver.registry import Settings, load
from kubewright.kube import config
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.providers.grpc.client import DriverOffer, Target, serve

PROVIDER = "elsewhere"


class Held:
    """A driver whose answer to one verb does not come."""

    def __init__(self, driver: Any, folder: Path) -> None:
        self._driver = driver
        self._folder = folder

    async def _held(self, verb: str) -> None:
        hold = self._folder / "hold"
        if await asyncio.to_thread(lambda: hold.exists() and hold.read_text() == verb):
            (self._folder / "reached").touch()
            await asyncio.Event().wait()

    async def create(self, request: MachineRequest) -> Instance:
        made = await self._driver.create(request)
        await self._held("create")
        return made

    async def initialize(self, request: MachineRequest) -> Instance:
        made = await self._driver.initialize(request)
        await self._held("initialize")
        return made

    async def delete(self, request: MachineRequest) -> str | None:
        state = await self._driver.delete(request)
        await self._held("delete")
        return state

    async def status(self, request: MachineRequest) -> Instance:
        await self._held("status")
        return await self._driver.status(request)

    async def list(self, request: ClassRequest) -> Sequence[Instance]:
        listed = await self._driver.list(request)
        await self._held("list")
        return listed

    async def volume_ids(self, volumes: Sequence[VolumeSpec]) -> Sequence[str]:
        return await self._driver.volume_ids(volumes)

    def hot_fields(self, machine_class: Any) -> Sequence[str]:
        return self._driver.hot_fields(machine_class)

    async def update(self, request: MachineRequest, last_applied: Mapping[str, Any] | None) -> None:
        await self._driver.update(request, last_applied)
        await self._held("update")


async def main(address: str, kubeconfig: Path, cloud: Path, held: Path) -> None:
    clock = SystemClock()
    driver: Any = load("sim", Settings(clock, cloud, {"leaseSeconds": "4"}))
    informers = Informers(Client(config.load(kubeconfig, clock=clock), clock, name="target"))
    offer = DriverOffer(Held(driver, held), clock, PROVIDER, own="sim")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(informers.run())
        tasks.create_task(driver.run(informers))
        tasks.create_task(serve(offer, Target(address), clock))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *map(Path, sys.argv[2:])))
