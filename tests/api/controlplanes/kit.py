"""Control planes with the host of this process, on a server and a clock of their own."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubewright import builtin
from kubewright.api.cluster.manifests import crds as cluster_crds
from kubewright.api.controlplane.manifests import crds
from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.v1alpha4 import (
    NESTED_API_SERVER,
    NESTED_CONTROL_PLANE,
    NESTED_CONTROLLER_MANAGER,
    NESTED_ETCD,
)
from kubewright.api.core import CRD
from kubewright.api.kinds import Kind
from kubewright.apiserver.server import ApiServer
from kubewright.clusters import world as cluster_world
from kubewright.compose.api_servers import Planes
from kubewright.compose.plane_controllers import controllers_of
from kubewright.compose.plane_transports import PlaneTransports
from kubewright.compose.task_hosting import TaskHosting
from kubewright.controlplanes import world
from kubewright.controlplanes.certificates.keeper import SecretKeeper
from kubewright.controlplanes.hosting.contract import Hosts
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess
from kubewright.pki.keys import Algorithm
from kubewright.runtime.events import Recorder
from kubewright.runtime.manager import Group, Manager, Work
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.sessions.session import Fixed, Session
from kubewright.runtime.world import Environment, Runnables
from kubewright.testing.clocks import LoopClock
from kubewright.testing.permissions import PermissionLog
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

NAMESPACE = "default"
KINDS: Mapping[Component, Kind[Any]] = {
    Component.ETCD: NESTED_ETCD,
    Component.API_SERVER: NESTED_API_SERVER,
    Component.CONTROLLER_MANAGER: NESTED_CONTROLLER_MANAGER,
}
NAMES: Mapping[str, Kind[Any]] = {
    "etcd": NESTED_ETCD,
    "apiserver": NESTED_API_SERVER,
    "controllerManager": NESTED_CONTROLLER_MANAGER,
}


@dataclass(frozen=True, slots=True)
class Stage:
    """A server with the controllers of components, and where their control planes are.

    ``client``  a user's; ``log``: what the controllers ask for
    """

    client: Client
    log: PermissionLog
    planes: Planes
    host: TaskHosting
    clock: LoopClock
    informers: Informers

    async def apply(
        self, kind: Kind[Any], name: str, spec: Mapping[str, Any] | None = None, **meta: Any
    ) -> None:
        body = {"metadata": {"name": name, "namespace": NAMESPACE, **meta}, "spec": spec or {}}
        await self.client.create(kind, body)

    async def plane(self, *names: str, plane: str = "demo") -> None:
        """A control plane that names these components, whether they are there or not."""
        await self.apply(
            NESTED_CONTROL_PLANE, plane, {name: {"name": f"{plane}-{name.lower()}"} for name in names}
        )

    async def get(self, kind: Kind[Any], name: str) -> Any:
        try:
            return await self.client.get(kind, Key(NAMESPACE, name))
        except NotFound:
            return None

    async def status(self, kind: Kind[Any], name: str) -> Any:
        found = await self.get(kind, name)
        return None if found is None else found.status

    async def until(self, true: Any, seconds: float = 60.0) -> None:
        """Wait until ``await true()``, on the clock of the test."""
        async with asyncio.timeout(seconds):
            while not await true():
                await self.clock.sleep(0.05)

    async def ready(self, *names: str, plane: str = "demo") -> None:
        """Wait until these components are ready."""

        async def all_ready() -> bool:
            found = [await self.status(NAMES[name], f"{plane}-{name.lower()}") for name in names]
            return all(each is not None and each.ready for each in found)

        await self.until(all_ready)


def made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


@asynccontextmanager
async def stage(
    hosts: Hosts | None = None, *, clusters: bool = False, folder: Path | None = None
) -> AsyncIterator[Stage]:
    """A stage; ``hosts`` stand in the place of the host of this process, ``clusters``: the core runs too.

    With a folder, data of control planes and snapshots outlive it.
    """
    clock = LoopClock()
    server = ApiServer(clock)
    await server.start()
    client = Client(InProcess(server.handle), clock, name="management")
    for crd in (*cluster_crds(), *crds()):
        await client.create(CRD, crd)
    planes = Planes(clock, folder=None if folder is None else made(folder / "clusters"))
    host = TaskHosting(planes, clock, folder, controllers_of(builtin.Settings(run_apps=True), clock))
    snapshots = None if folder is None else made(folder / "snapshots")
    log = PermissionLog(InProcess(server.handle))
    ours = Client(log, clock, name="ours")
    informers, metrics = Informers(ours), Metrics()
    recorder = Recorder(ours, clock, "kubewright", kinds=list(KINDS.values()))
    session = Session(ours, informers)
    environment = Environment(session, Fixed(session), lambda: True, recorder, clock, metrics)
    keeper = SecretKeeper(informers, Algorithm.EC)
    planes_world = world.world(
        lambda _environment: hosts or Hosts(host, snapshots=snapshots),
        lambda _environment: keeper,
        PlaneTransports(planes),
    )
    runnables = planes_world.wire(environment, [each.name for each in world.CONTROLLERS])
    core = cluster_world.world().wire(environment, [cluster_world.CLUSTERS]) if clusters else Runnables(())
    others = Informers(client)
    beside = builtin.controllers(others)
    work = Work(
        [*runnables.controllers, *core.controllers, *beside.controllers],
        [informers, others],
        [*runnables.background, *core.background, *beside.background],
    )
    manager = Manager(
        [informers, others], [Group("controllers", clock, lambda: work)], services=[recorder.run]
    )
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(manager.run(stop))
        await manager.settled()
        try:
            yield Stage(client, log, planes, host, clock, informers)
        finally:
            stop.set()
            await asyncio.wait([running])
            await host.close()
            await planes.close()
    await server.close()
