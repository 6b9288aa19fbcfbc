"""A whole small world for sets and deployments: a server, both controllers, and machines that come and go.

The machine controller is played by ``Machines``: it lets a machine become Running a moment after its
creation, and lets it go a moment after its deletion, unless a test tells it otherwise by name.
An observer with a cache of its own watches every machine, so that what must hold at every moment
is checked at every moment.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from kubewright.api.core import CRD, EVENT
from kubewright.api.kinds import Kind
from kubewright.api.machine import names
from kubewright.api.machine.manifests import crds
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import (
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    Machine,
    MachineDeployment,
    MachineSet,
)
from kubewright.api.meta import integer
from kubewright.apiserver.server import ApiServer
from kubewright.base.clock import Clock, rfc3339
from kubewright.base.errors import KubewrightError
from kubewright.kube.cache import Change
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess
from kubewright.machines.deployment import MACHINE_DEPLOYMENTS
from kubewright.machines.machineset.member import read
from kubewright.machines.machineset.policy import LimitedMachineSets
from kubewright.machines.settings import SetSettings
from kubewright.replicas.deployment.act import Deployments
from kubewright.replicas.members import MemberIndex
from kubewright.replicas.set.act import Sets
from kubewright.runtime.events import Recorder
from kubewright.runtime.manager import Work
from kubewright.testing.clocks import LoopClock
from kubewright.testing.faults import Fault, Faulty, Script, is_watch
from kubewright.testing.servers import alone
from kubewright.wire.gvk import Key
from kubewright.wire.http import Request

NAMESPACE = "default"
MOMENT = 0.25
Kinds = Kind[Any]


@dataclass
class Machines:
    """The machine controller's part. ``stuck`` machines never run, ``clinging`` ones never go."""

    client: Client
    clock: Clock
    boot: float = 1.0
    stop: float = 1.0
    stuck: Callable[[Machine], bool] = lambda _machine: False
    clinging: Callable[[Machine], bool] = lambda _machine: False
    _met: set[tuple[str, bool]] = field(default_factory=set)

    async def run(self, informers: Informers) -> None:
        """Play until cancelled."""
        async with asyncio.TaskGroup() as group:

            def changed(change: Change[Machine]) -> None:
                new = change.new
                if new is not None and (new.uid, new.deleting) not in self._met:
                    self._met.add((new.uid, new.deleting))
                    group.create_task(self._end(change) if new.deleting else self._begin(change))

            informers.get(MACHINE).subscribe(changed)
            await informers.run()

    async def _begin(self, change: Change[Machine]) -> None:
        machine = change.after()
        assert machine is not None
        await self.clock.sleep(self.boot)
        if not self.stuck(machine):
            await self.phase(machine, Phase.RUNNING)

    async def _end(self, change: Change[Machine]) -> None:
        machine = change.after()
        assert machine is not None
        await self.clock.sleep(self.stop)
        while self.clinging(machine):
            await self.clock.sleep(1.0)
        with suppress(KubewrightError):
            body = {"metadata": {"uid": machine.metadata.uid, "finalizers": None}}
            await self.client.patch(MACHINE, Key(machine.namespace, machine.name), body)

    async def phase(self, machine: Machine, phase: Phase) -> None:
        """Report a phase, as the machine controller would."""
        now = rfc3339(self.clock.now())
        status = {
            "currentStatus": {"phase": phase, "lastUpdateTime": now},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}],
        }
        body = {"metadata": {"uid": machine.metadata.uid}, "status": status}
        with suppress(KubewrightError):
            key = Key(machine.namespace, machine.name)
            await self.client.patch(MACHINE, key, body, subresource="status")


@dataclass
class Bounds:
    """The most machines that existed at any moment, and the fewest that were available."""

    most: int = 0
    fewest: int = 1_000_000


@dataclass
class World:
    """What tests ask and tell. ``faults`` fails the controllers' requests only."""

    client: Client
    observer: Informers
    machines: Machines
    faults: Script
    clock: Clock
    server: ApiServer
    transport: Faulty
    created: dict[str, str] = field(default_factory=dict)
    bounds: Bounds = field(default_factory=Bounds)
    restart: Callable[[], Any] = lambda: None

    def watch(self) -> None:
        """Keep book of every machine that ever was and of how many there are."""
        self.observer.get(MACHINE).subscribe(self._noted)

    def _noted(self, change: Change[Machine]) -> None:
        if change.new is not None:
            self.created[change.new.uid] = change.key.name
        self.bounds.most = max(self.bounds.most, len(self.all()))
        self.bounds.fewest = min(self.bounds.fewest, len(self.running()))

    def measure(self) -> Bounds:
        """Begin to measure anew."""
        self.bounds = Bounds(len(self.all()), len(self.running()))
        return self.bounds

    def all(self) -> list[Machine]:
        """Every machine, leaving ones included."""
        return self.observer.get(MACHINE).list()

    def running(self, class_name: str = "") -> list[Machine]:
        """Machines that run and stay."""
        return [
            m
            for m in self.all()
            if m.status.current_status.phase == Phase.RUNNING
            and not m.metadata.deleting
            and class_name in ("", m.spec.machine_class.name)
        ]

    async def deploy(self, name: str = "md", **spec: Any) -> None:
        """A deployment; ``of`` names its class."""
        await self.client.create(MACHINE_DEPLOYMENT, deployment(name, **spec), namespace=NAMESPACE)

    async def change(self, spec: Mapping[str, Any], name: str = "md", **metadata: Any) -> None:
        """Patch a deployment."""
        body = {"spec": spec, **({"metadata": metadata} if metadata else {})}
        await self.client.patch(MACHINE_DEPLOYMENT, Key(NAMESPACE, name), body)

    async def roll(self, class_name: str, name: str = "md") -> None:
        """Change the class."""
        await self.change({"template": {"spec": {"class": {"name": class_name}}}}, name)

    async def deployment(self, name: str = "md") -> MachineDeployment:
        return await self.client.get(MACHINE_DEPLOYMENT, Key(NAMESPACE, name))

    async def sets(self) -> list[MachineSet]:
        """All sets, oldest revision first."""
        found = await self.client.list(MACHINE_SET, NAMESPACE)
        return sorted(found, key=lambda s: integer(s.metadata.annotations, names.REVISION_ANNOTATION))

    async def events(self) -> list[tuple[str, str]]:
        """Reason and message of every event."""
        await self.clock.sleep(5)
        return [(e.reason, e.message) for e in await self.client.list(EVENT, NAMESPACE)]

    async def until(self, done: Callable[[], bool], seconds: float = 600) -> None:
        """Wait until something holds."""
        async with asyncio.timeout(seconds):
            while not done():
                await self.clock.sleep(MOMENT)

    async def settle(self, count: int, class_name: str = "", seconds: float = 600) -> None:
        """Wait until exactly so many machines run and no other one exists; then for all reports."""
        await self.until(lambda: len(self.running(class_name)) == count == len(self.all()), seconds)
        await self.clock.sleep(2)

    def requests(self, method: str, path: str) -> list[Request]:
        """What the controllers asked; ``/machines/`` is the collection and what is in it."""
        return [r for _, r in self.transport.asked if r.method == method and path in f"{r.path}/"]


def deployment(name: str = "md", *, replicas: int = 3, of: str = "small", kind: str = "RollingUpdate",
               surge: int | str = 1, unavailable: int | str = 0, **spec: Any) -> dict[str, Any]:  # fmt: skip
    strategy: dict[str, Any] = {"type": kind}
    if kind == "RollingUpdate":
        strategy["rollingUpdate"] = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "strategy": strategy,
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"class": {"kind": "MachineClass", "name": of}},
            },
            **spec,
        },
    }


@asynccontextmanager
async def controllers(transport: Faulty, clock: Clock) -> AsyncIterator[None]:
    """One process of controllers, from its start to its end; left by an exception it just dies."""
    client = Client(transport, clock)
    informers = Informers(client)
    recorder = Recorder(client, clock, "test", kinds=(MACHINE_SET, MACHINE_DEPLOYMENT))
    index = MemberIndex(informers.get(MACHINE), read, client.steady())
    deployments = Deployments(MACHINE_DEPLOYMENTS, informers, recorder, index=index)
    policy = LimitedMachineSets(SetSettings(), deployments.objects, index.owned_by, lambda: None)
    sets = Sets(policy, informers, recorder, index=index)
    found = [sets.controller(), deployments.controller()]
    manager = alone(clock, Work(found, [informers]))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(manager.run(asyncio.Event())), group.create_task(recorder.run())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


class Process:
    """The controllers as something that can be killed and started."""

    def __init__(self, transport: Faulty, clock: Clock) -> None:
        self._transport, self._clock = transport, clock
        self._running = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def restart(self) -> None:
        """Kill without a word, start anew with empty memory."""
        await self.kill()
        self._task = asyncio.create_task(self._live())

    async def kill(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _live(self) -> None:
        async with controllers(self._transport, self._clock):
            await asyncio.Event().wait()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    clock = LoopClock()
    server = ApiServer(clock)
    await server.start()
    client = Client(InProcess(server.handle), clock)
    for definition in crds():
        await client.create(CRD, definition)
    faults = Script()
    transport = Faulty(InProcess(server.handle), clock, faults)
    observer = Informers(client)
    machines = Machines(client, clock)
    process = Process(transport, clock)
    made = World(client, observer, machines, faults, clock, server, transport, restart=process.restart)
    made.watch()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(observer.run()), group.create_task(machines.run(Informers(client)))]
        await observer.wait_synced(10)
        await process.restart()
        yield made
        await process.kill()
        for task in tasks:
            task.cancel()
    await server.close()


@dataclass
class On:
    """What happens to the watches and the creations of one resource."""

    resource: str
    watch: Fault | None = None
    creation: Fault | None = None
    times: int = 1_000_000

    def __call__(self, request: Request) -> Fault | None:
        if not request.path.endswith(f"/{self.resource}"):
            return None
        if is_watch(request):
            return self.watch
        if request.method != "POST" or self.times == 0:
            return None
        self.times -= 1
        return self.creation
