"""A stage for processes that come and go: the servers and the cloud stay.

Theory.      ``world.embedded_world`` is one process that owns everything. Here the API servers (one, or
             one for the machines and one for their nodes) and the simulated cloud stand by
             themselves, and any number of controller processes run against them, each with its own
             connections and caches: to be stopped and started anew, to stand by, to be killed.
Invariants.  A process closes nothing that others use. VMs and what users wrote outlive all of them.
Called by    tests/api/machines.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from kubewright import builtin
from kubewright.api.core import CRD, NAMESPACE
from kubewright.api.machine.manifests import crds
from kubewright.apiserver.server import ApiServer
from kubewright.base.clock import Clock
from kubewright.builtin.nodelife import Settings as NodeSettings
from kubewright.compose.on_kubernetes import run_with
from kubewright.compose.options import Election, Options
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess, Nowhere
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.driver import SimDriver
from kubewright.providers.sim.inventory import Store
from kubewright.providers.sim.spec import kubelet_settings
from kubewright.runtime.manager import Work
from kubewright.testing.clocks import LoopClock
from kubewright.testing.faults import Choice, Faulty
from kubewright.testing.servers import alone
from kubewright.testing.world import SHORT_TIMEOUTS, World, running
from kubewright.wire.http import Handler, Request

NAMESPACE_OF_MACHINES = "machines"


class Borrowed(SimDriver):
    """A driver on a cloud that is not its own: closing it leaves the cloud open."""

    async def close(self) -> None:
        """Nothing to put away."""


class Lagging(InProcess):
    """A connection whose watches deliver everything late, as those of a busy server do."""

    def __init__(self, handler: Handler, clock: Clock, seconds: float) -> None:
        super().__init__(handler)
        self._clock = clock
        self._seconds = seconds

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """As ``Transport.stream``."""
        async with super().stream(request) as chunks:
            yield self._delayed(chunks)

    async def _delayed(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            await self._clock.sleep(self._seconds)
            yield chunk


@dataclass(frozen=True, slots=True)
class Process:
    """One running set of controllers."""

    task: asyncio.Task[None]
    stop: asyncio.Event

    async def end(self) -> None:
        """As after SIGTERM."""
        self.stop.set()
        await asyncio.wait([self.task])

    async def kill(self) -> None:
        """As after kill -9, as far as a task can be."""
        self.task.cancel()
        await asyncio.wait([self.task])


@dataclass(frozen=True, slots=True)
class Stage:
    """See the module. ``world`` has the actions."""

    world: World
    control: ApiServer
    target: ApiServer
    cloud: Cloud
    clock: Clock
    options: Options
    lag: float = 0.0
    """How late watches tell our processes what happened, in seconds."""
    target_faults: Choice | None = None
    """What happens to the requests of our processes to the target cluster, if there are two."""

    def begin(self, driver: SimDriver | None = None, *, election: Election | None = None) -> Process:
        """Start a process on this stage; ``driver`` is a ``Borrowed`` one."""
        control = self._client(self.control, "control")
        if not self.options.machine.joins:
            target = Client(Nowhere(self.clock), self.clock, name="target")
        else:
            target = control if self.target is self.control else self._to_target()
        driver = driver or Borrowed(self.cloud, kubelet_settings(self.options.driver_options))
        election, stop = election or Election(enabled=False), asyncio.Event()
        work = run_with(control, target, driver, self.options, election=election, stop=stop)
        return Process(asyncio.create_task(work, name="process"), stop)

    def _client(self, server: ApiServer, name: str) -> Client:
        handle, clock = server.handle, self.clock
        line = Lagging(handle, clock, self.lag) if self.lag else InProcess(handle)
        return Client(line, clock, name=name)

    def _to_target(self) -> Client:
        target = self._client(self.target, "target")
        if self.target_faults is None:
            return target
        return Client(Faulty(target.transport, self.clock, self.target_faults), self.clock, name="target")

    @asynccontextmanager
    async def process(self, driver: SimDriver | None = None) -> AsyncIterator[Process]:
        """A process for the length of a block."""
        process = self.begin(driver)
        try:
            yield process
        finally:
            await process.end()
        process.task.result()


@asynccontextmanager
async def stage(
    options: Options = SHORT_TIMEOUTS,
    *,
    two: bool = False,
    lag: float = 0.0,
    target_faults: Choice | None = None,
) -> AsyncIterator[Stage]:
    """Servers with their own loops, classes and a cloud; no controllers yet. ``two``: two clusters."""
    clock = LoopClock()
    async with AsyncExitStack() as stack:
        control = await stack.enter_async_context(_server(clock, options))
        target = await stack.enter_async_context(_server(clock, options)) if two else control
        here = Client(InProcess(control.handle), clock, name="people")
        there = Client(InProcess(target.handle), clock, name="people") if two else here
        cloud = Cloud(clock, Store(None))
        for crd in crds():
            await here.create(CRD, crd)
        await here.create(NAMESPACE, {"metadata": {"name": NAMESPACE_OF_MACHINES}})
        world = World(here, cloud, clock, NAMESPACE_OF_MACHINES, target=there)
        await world.furnish()
        yield Stage(world, control, target, cloud, clock, options, lag, target_faults)


@asynccontextmanager
async def _server(clock: Clock, options: Options) -> AsyncIterator[ApiServer]:
    """An embedded server with the loops of a kube-controller-manager."""
    server = ApiServer(clock)
    await server.start()
    informers = Informers(Client(InProcess(server.handle), clock, name="embedded"))
    loops = builtin.controllers(informers, settings=builtin.Settings(nodes=NodeSettings(grace=options.grace)))
    manager = alone(clock, Work(loops.controllers, [informers], loops.background))
    try:
        async with running(manager.run):
            yield server
    finally:
        await server.close()
