"""A world with an API server, a simulated cloud and its kubelets, on virtual time."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog

from kubewright.api.core import LEASE, NODE, POD, Lease, Node, Pod
from kubewright.apiserver.server import ApiServer
from kubewright.driver.contract import Instance, MachineRequest, stub
from kubewright.driver.registry import Settings
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess
from kubewright.providers.sim import driver as make
from kubewright.providers.sim.driver import SimDriver
from kubewright.testing.clocks import LoopClock
from kubewright.testing.scenes import class_request
from kubewright.wire.errors import NotFound, Unavailable, to_status
from kubewright.wire.gvk import Key
from kubewright.wire.http import Request, Response

DOWN = msgspec.json.encode(to_status(Unavailable("down for the test")))


@pytest.fixture(autouse=True)
def silent_log() -> Iterator[None]:
    """Kubelets log what goes wrong, and here some things do."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


class World:
    """One process in front of a cluster: a client, informers, a simulated cloud and its kubelets.

    It starts with the first thing that a test does with it, because only then time is virtual.
    """

    def __init__(self, universe: "Universe", settings: Settings) -> None:
        self.clock = universe.clock
        self.sim: SimDriver = make(settings)
        self.client = Client(InProcess(self._handle), self.clock)
        self.broken = False
        self.writes: Counter[str] = Counter()
        self._universe = universe
        self._running: list[asyncio.Future[None]] = []
        self._starting = asyncio.Lock()

    async def start(self) -> None:
        async with self._starting:
            if not self._running:
                await self._universe.start()
                informers = Informers(self.client)
                self._running = [
                    asyncio.ensure_future(informers.run()),
                    asyncio.ensure_future(self.sim.run(informers)),
                ]

    async def close(self) -> None:
        failed = [task for task in self._running if task.done()]
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self.sim.close()
        for task in failed:
            task.result()

    async def _handle(self, request: Request) -> Response:
        if request.method != "GET":
            if self.broken:
                return Response(503, DOWN)
            self.writes[f"{request.method} {_plural(request.path)}"] += 1
        return await self._universe.handle(request)

    async def vm(self, name: str, **spec: Any) -> Instance:
        """Let the cloud make a VM for a machine."""
        await self.start()
        return await self.sim.create(self.request(name, **spec))

    async def no_vm(self, name: str) -> None:
        await self.sim.delete(self.request(name))

    def request(self, name: str, **spec: Any) -> MachineRequest:
        return class_request("c", "default", **spec).of(stub(name, "default", f"uid-{name}"))

    def vm_id(self, name: str) -> str:
        vm = self.sim.cloud.named(name)
        assert vm is not None
        return vm.id

    async def node(self, name: str) -> Node | None:
        with suppress(NotFound):
            return await self.client.get(NODE, Key("", name))
        return None

    async def lease(self, name: str) -> Lease:
        return await self.client.get(LEASE, Key("kube-node-lease", name))

    async def pod(self, name: str) -> Pod | None:
        with suppress(NotFound):
            return await self.client.get(POD, Key("default", name))
        return None

    async def bind_pod(self, name: str, node: str) -> None:
        spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
        await self.client.create(POD, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})

    async def annotate(self, node: str, fault: str | None) -> None:
        """What ``kubectl annotate node`` does."""
        body = {"metadata": {"annotations": {"sim.kubewright.dev/fault": fault}}}
        await self.client.patch(NODE, Key("", node), body)

    async def condition(self, node: str, kind: str) -> str | None:
        found = await self.node(node)
        assert found is not None
        return next((c.status for c in found.status.conditions if c.type == kind), None)


class Universe:
    """An API server and a clock that outlive the processes in front of them."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self._server: ApiServer | None = None

    async def start(self) -> None:
        if self._server is None:
            self._server = ApiServer(self.clock)
            await self._server.start()

    async def handle(self, request: Request) -> Response:
        assert self._server is not None
        return await self._server.handle(request)

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()

    @asynccontextmanager
    async def process(
        self, options: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> AsyncIterator[World]:
        world = World(self, Settings(self.clock, folder, options or {}))
        try:
            yield world
        finally:
            await world.close()


def _plural(path: str) -> str:
    """The resource of a path, with its subresource: ``nodes/status``."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    return "/".join([parts[0], *parts[2:]])


@pytest.fixture
async def universe() -> AsyncIterator[Universe]:
    universe = Universe()
    yield universe
    await universe.close()


@pytest.fixture
async def world(universe: Universe) -> AsyncIterator[World]:
    async with universe.process() as world:
        yield world
