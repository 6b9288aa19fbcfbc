"""The managers of a world: processes that begin with empty memory, and can be killed at any await.

Theory.      What runs in such a process is the product as ``compose`` puts it together, and the loops of
             kube-controller-manager beside it, on connections into which the plot may inject faults. A killed
             manager is replaced ``RESTART_SECONDS`` later, as a Deployment's pod would be. One that is
             started again under ``Plot.stale`` is connected to a server that lags behind: a list asks for
             exactly one older version, which the history still has, and the watch that goes on from there is
             begun a while later, as a follower of a replicated API server may show it.
Called by    ``world``; killed by ``incidents`` and by ``Plot.kill_after``.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kubewright import builtin
from kubewright.base.clock import Clock
from kubewright.builtin.nodelife import Settings as NodeSettings
from kubewright.clusters.sessions import Connect, by_sockets
from kubewright.compose.assembly import Assembly
from kubewright.compose.options import Election
from kubewright.driver.contract import Driver
from kubewright.kube.client import Client
from kubewright.kube.transport import Nowhere, Transport
from kubewright.machines.world import Half
from kubewright.runtime.leader import identity
from kubewright.runtime.manager import Manager, Settings
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.sessions.session import NAMELESS
from kubewright.runtime.world import Environment, Runnables
from kubewright.runtime.world import World as ApiWorld
from kubewright.testing.faults import Faulty
from kubewright.wire.http import Request, Response
from simulation import requests
from simulation.cloud import RemoteDriver
from simulation.journal import MACHINE_DEPLOYMENTS, MACHINE_SETS, MACHINES, NODES
from simulation.loop import Process, SimClock
from simulation.network import RESTART_SECONDS, Line, SimServer
from simulation.staleness import CONTROL, TARGET, Received
from simulation.tally import MANAGER

if TYPE_CHECKING:
    from simulation.world import World

BEHIND_SECONDS = 3.0
"""How long a manager sees the older state."""


class StaleLists:
    """``inner`` as of ``version``, for the first seconds."""

    def __init__(self, inner: Transport, clock: Clock, version: int) -> None:
        self._inner = inner
        self._clock = clock
        self._version = max(1, version)
        self._until = clock.monotonic() + BEHIND_SECONDS

    async def request(self, request: Request, *, timeout: float) -> Response:
        """As ``Transport.request``; lists are old."""
        if self._behind and _begins_list(request):
            old = (("resourceVersion", str(self._version)), ("resourceVersionMatch", "Exact"))
            asked = replace(request, query=(*request.query, *old))
            response = await self._inner.request(asked, timeout=timeout)
            if response.status < 400:
                return response
        return await self._inner.request(request, timeout=timeout)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """As ``Transport.stream``; watches are silent for the first seconds."""
        return self._stream(request)

    @asynccontextmanager
    async def _stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        if self._behind:
            await self._clock.sleep(self._until - self._clock.monotonic())
        async with self._inner.stream(request) as chunks:
            yield chunks

    async def close(self) -> None:
        """As ``Transport.close``."""
        await self._inner.close()

    @property
    def _behind(self) -> bool:
        return self._clock.monotonic() < self._until


def _begins_list(request: Request) -> bool:
    return bool(request.method == "GET" and request.param("limit") and not request.param("continue"))


READ_BY = {
    Half.SETS: (MACHINES, MACHINE_SETS, MACHINE_DEPLOYMENTS),
    Half.MACHINES: (MACHINES, MACHINE_SETS, NODES),
}
"""The resources on which each half bases its decisions."""


class Managers:
    """The managers that live, and how to start and kill one."""

    def __init__(self, world: "World", cloud: Process) -> None:
        self.living: list[Process] = []
        self.extra_worlds: list[ApiWorld] = []
        """Further APIs with their controllers (``runtime.world``) that every manager runs."""
        self.own_worlds: Callable[[Process, Driver], Sequence[ApiWorld]] = lambda _process, _driver: ()
        """The same for APIs that need the driver, or a host of the manager that runs them."""
        self.connect: Callable[[Process], Connect] = lambda _process: by_sockets
        """How a manager reaches workload clusters."""
        self.extra_resources: dict[str, str] = {}
        """Their resources on which decisions are based, as ``staleness.CONTROL``."""
        self._world = world
        self._cloud = cloud
        self._ahead = 0.0
        self._started = 0
        self.unseen = (0, 0)
        """The control cluster's versions that the last manager's lists do not show, under ``Plot.stale``."""
        self._walls: dict[Process, SimClock] = {}
        self._chance = world.clock("managers").random

    def leader(self, half: Half) -> Process | None:
        """The manager that works on this now, if any does."""
        if not self._world.plot.elect:
            return self.living[0] if self.living else None
        name = self._world.journal.leaders[half].name
        return next((each for each in self.living if each.name == name), None)

    def one_that_works(self) -> Process | None:
        """A manager that leads a half now, if any does; where two lead one half each, either."""
        found = dict.fromkeys(each for half in Half if (each := self.leader(half)) is not None)
        return self._chance.choice(list(found)) if len(found) > 1 else next(iter(found), None)

    @property
    def led_since(self) -> float | None:
        """Since when each half has had its present leader; None while one has none."""
        if any(self.leader(half) is None for half in Half):
            return None
        return max(leader.since for leader in self._world.journal.leaders.values())

    def duties(self) -> Iterator[tuple[Process, str]]:
        """Which manager may act now on which resource: without a leader, each that lives."""
        for half in Half:
            leader = self.leader(half)
            for process in self.living if leader is None else (leader,):
                for resource in READ_BY[half]:
                    yield process, resource

    def start(self) -> Process:
        """One more manager, with nothing in its memory."""
        self._started += 1
        process = Process(self._world.loop, f"{MANAGER}-{self._started}")
        process.counted = True
        self.living.append(process)
        self._world.journal.say("world", f"{process.name} starts")
        if self._world.plot.stale and self._world.counts.kills:
            self.unseen = (self._world.control.version - self._world.plot.stale, self._world.control.version)
        process.spawn(self._manage(process), name="manager")
        return process

    def kill(self, process: Process) -> None:
        """``kill -9``, and a new one a moment later."""
        if not process.alive:
            return
        process.kill()
        self.living.remove(process)
        for cluster in self._world.clusters:
            cluster.host.leave(process)
        self._world.counts.kills += 1
        self._world.journal.say("world", f"{process.name} is killed")
        self._world.faults.spawn(self._again())

    def kill_leader(self) -> None:
        """The same for one that leads, if any does."""
        if (process := self.one_that_works()) is not None:
            self.kill(process)

    def before_step(self, number: int, act: Callable[[], object]) -> None:
        """Call ``act`` before the managers' ``number``-th step from now."""
        self._world.loop.before_step(self._world.loop.steps + number, act)

    def kill_all(self) -> None:
        """The same for every manager that lives."""
        for process in tuple(self.living):
            self.kill(process)

    def step_clocks(self, seconds: float) -> None:
        """The wall clocks of all managers jump, and those of later ones with them."""
        self._ahead += seconds
        for clock in self._walls.values():
            clock.ahead += seconds

    def ahead(self, process: Process) -> float:
        """By how much a manager's wall clock is wrong, in seconds."""
        return self._walls[process].ahead

    def skew_clock(self, process: Process, seconds: float) -> None:
        """The wall clock of one manager jumps, and stays wrong."""
        self._walls[process].ahead += seconds

    async def _again(self) -> None:
        await self._world.clock("fate").sleep(RESTART_SECONDS)
        self.start()

    async def _manage(self, process: Process) -> None:
        """What ``kubewright run`` does."""
        world, clock = self._world, self._world.clock(process.name)
        clock.ahead = self._ahead
        self._walls[process] = clock
        control = self._client(world.control, process, clock)
        target = self._target(control, process, clock)
        choose = partial(world.injector.of_call, process.name)
        heard = partial(requests.called, world.journal, process.name)
        remote = RemoteDriver(world.driver, self._cloud, world.clock("calls"), choose, heard)
        driver = world.between(remote, process.name)
        machine = replace(world.plot.options.machine, joins=world.joins)
        options = replace(world.plot.options, controllers=("*",), machine=machine)
        assembly = Assembly(
            control,
            target,
            driver,
            options,
            Metrics(),
            beside=[
                _loops(world.plot.options.grace, joins=world.joins),
                *self.extra_worlds,
                *self.own_worlds(process, driver),
            ],
            connect=self.connect(process),
        )
        who = identity(process.name, clock) if world.plot.elect else ""
        groups = assembly.groups(Election(enabled=world.plot.elect), who, Settings())
        manager = Manager(assembly.informers, groups, services=assembly.services)
        try:
            await manager.run(asyncio.Event())
        except Exception as error:
            world.loop.trouble.append(f"{process.name} has ended: {type(error).__name__}: {error}")
            raise

    def _target(self, control: Client, process: Process, clock: SimClock) -> Client:
        """Of the cluster that VMs join."""
        world = self._world
        if not world.joins:
            return Client(Nowhere(clock), clock, name=world.target.name)
        return self._client(world.target, process, clock) if world.plot.apart else control

    def _client(self, cluster: SimServer, process: Process, clock: SimClock) -> Client:
        """On a connection with faults."""
        world = self._world
        line: Transport = Line(cluster.host, process)
        if world.plot.stale and world.counts.kills:
            world.counts.note_fault("at:older-world")
            line = StaleLists(line, clock, cluster.version - world.plot.stale)
        faulty = Faulty(
            line,
            clock,
            lambda request: world.injector.of_request(process.name, request),
            asked=deque(maxlen=0),
            spawn=world.faults.spawn,
        )
        heard = {
            **({**CONTROL, **self.extra_resources} if cluster is world.control else {}),
            **(TARGET if cluster is world.target else {}),
        }
        return Client(Received(faulty, world.staleness, process, heard), clock, name=cluster.name)


def _loops(grace: float, *, joins: bool) -> ApiWorld:
    """The loops of kube-controller-manager for both clusters: where the sets are kept, so in one process.

    Where VMs join no cluster, there is but that of the machines.
    """
    settings = builtin.Settings(nodes=NodeSettings(grace=grace), aggregate_roles=False)

    def wire(environment: Environment, _chosen: Sequence[str]) -> Runnables:
        target = environment.targets.get(NAMELESS).caches if joins else environment.control.caches
        caches = dict.fromkeys((environment.control.caches, target))
        loops = [builtin.controllers(each, settings=settings) for each in caches]
        return Runnables(
            [each for loop in loops for each in loop.controllers],
            [each for loop in loops for each in loop.background],
        )

    return ApiWorld("builtin", [replace(each, lease=Half.SETS) for each in builtin.CONTROLLERS], wire)
