"""A management cluster with our infrastructure provider, and a test that plays core and bootstrap provider.

The API server and the simulated cloud stay; processes of the provider come and go. No fixture: those run before
virtual time begins.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from kubewright.api.catalog import RULES
from kubewright.api.cluster.manifests import crds as cluster_crds
from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE
from kubewright.api.core import CRD, EVENT, NAMESPACE, SECRET
from kubewright.api.infra.manifests import crds as infra_crds
from kubewright.api.infra.v1beta1 import (
    KUBEWRIGHT_CLUSTER,
    KUBEWRIGHT_MACHINE,
    KubewrightCluster,
    KubewrightMachine,
)
from kubewright.apiserver.server import ApiServer
from kubewright.driver.contract import Driver
from kubewright.driver.guard import Listener
from kubewright.infra.settings import InfraSettings
from kubewright.infra.world import CONTROLLERS, world
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.driver import SimDriver
from kubewright.providers.sim.inventory import Store
from kubewright.runtime.events import Recorder
from kubewright.runtime.manager import Work
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.sessions.session import Fixed, Session
from kubewright.runtime.world import Environment
from kubewright.testing.clocks import LoopClock
from kubewright.testing.permissions import PermissionLog
from kubewright.testing.servers import alone
from kubewright.testing.world import running
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

NS = "fleet"
GROUP = "infrastructure.cluster.x-k8s.io/v1beta1"
ENDPOINT = {"host": "10.0.0.1", "port": 6443}
DATA = b"#cloud-config\n"


def _ignore(_driver: str) -> Listener:
    return lambda _ended: None


class Borrowed(SimDriver):
    """A driver on a cloud that is not its own: closing it leaves the cloud open."""

    async def close(self) -> None:
        """Nothing to put away."""


class Management:
    """What the core and the bootstrap provider would write, and what can be seen."""

    def __init__(self, server: ApiServer, clock: LoopClock) -> None:
        self.clock = clock
        self.cloud = Cloud(clock, Store(None))
        self.people = Client(InProcess(server.handle), clock, name="people")
        self.line = PermissionLog(InProcess(server.handle))

    @asynccontextmanager
    async def provider(self, driver: Driver | None = None) -> AsyncIterator[None]:
        """A process of our provider; killed at the end of the block."""
        client = Client(self.line, self.clock, name="provider", one_clock=True)
        caches = Informers(client)
        session = Session(client, caches)
        recorder = Recorder(
            client, self.clock, "kubewright", kinds=(KUBEWRIGHT_CLUSTER, KUBEWRIGHT_MACHINE, SECRET)
        )
        environment = Environment(session, Fixed(session), lambda: True, recorder, self.clock, Metrics())
        one = world({"sim": driver or Borrowed(self.cloud)}, "sim", _ignore, InfraSettings())
        made = one.wire(environment, [each.name for each in CONTROLLERS])
        work = Work(made.controllers, [caches], made.background)
        manager = alone(self.clock, work, services=[recorder.run])
        async with running(manager.run):
            await asyncio.sleep(0.5)
            yield

    async def cluster(self, name: str = "demo", *, infra: dict[str, Any] | None = None, **spec: Any) -> None:
        """A Cluster with its KubewrightCluster, as after the core has claimed it."""
        ref = {"apiVersion": GROUP, "kind": "KubewrightCluster", "name": name, "namespace": NS}
        body = {"metadata": {"name": name, "namespace": NS}, "spec": {"infrastructureRef": ref, **spec}}
        owner = await self.people.create(CLUSTER, body)
        meta = self._meta(name, name, "Cluster", owner.metadata.uid)
        await self.people.create(KUBEWRIGHT_CLUSTER, {"metadata": meta, "spec": infra or {}})

    async def machine(
        self,
        name: str,
        *,
        cluster: str = "demo",
        data: str = "data",
        spec: dict[str, Any] | None = None,
        annotations: Mapping[str, str] | None = None,
        **own: Any,
    ) -> None:
        """A Machine with its KubewrightMachine, as after the core has claimed it."""
        ref = {"apiVersion": GROUP, "kind": "KubewrightMachine", "name": name, "namespace": NS}
        config = {"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta1", "kind": "KubeadmConfig", "name": name}
        bootstrap = {"dataSecretName": data} if data else {"configRef": config}
        body = {"clusterName": cluster, "infrastructureRef": ref, "bootstrap": bootstrap, **own}
        meta = {"name": name, "namespace": NS, "labels": {"cluster.x-k8s.io/cluster-name": cluster}}
        owner = await self.people.create(MACHINE, {"metadata": meta, "spec": body})
        mine = self._meta(name, cluster, "Machine", owner.metadata.uid)
        mine["annotations"] = dict(annotations or {})
        await self.people.create(KUBEWRIGHT_MACHINE, {"metadata": mine, "spec": spec or {}})

    async def infrastructure_ready(self, name: str = "demo") -> None:
        await self.people.patch(
            CLUSTER, Key(NS, name), {"status": {"infrastructureReady": True}}, subresource="status"
        )

    async def data(self, name: str = "data", **data: bytes) -> None:
        """The Secret with bootstrap data."""
        import base64

        coded = {key: base64.b64encode(value).decode() for key, value in (data or {"value": DATA}).items()}
        await self.people.create(SECRET, {"metadata": {"name": name, "namespace": NS}, "data": coded})

    async def change(self, name: str, **spec: Any) -> None:
        """Patch a Machine."""
        await self.people.patch(MACHINE, Key(NS, name), {"spec": spec})

    async def pause(self, paused: bool = True) -> None:
        await self.people.patch(CLUSTER, Key(NS, "demo"), {"spec": {"paused": paused}})

    async def delete(self, name: str) -> None:
        """Delete a KubewrightMachine, as the core does when the node has been drained."""
        await self.people.delete(KUBEWRIGHT_MACHINE, Key(NS, name))

    async def infra(self, name: str = "m1") -> KubewrightMachine | None:
        try:
            return await self.people.get(KUBEWRIGHT_MACHINE, Key(NS, name))
        except NotFound:
            return None

    async def infra_cluster(self, name: str = "demo") -> KubewrightCluster:
        return await self.people.get(KUBEWRIGHT_CLUSTER, Key(NS, name))

    async def events(self) -> list[str]:
        return sorted({each.reason for each in await self.people.list(EVENT, NS)})

    async def until(
        self, met: Callable[[KubewrightMachine | None], bool], name: str = "m1", seconds: float = 60
    ) -> Any:
        """Wait until it is true of a KubewrightMachine."""
        deadline = self.clock.monotonic() + seconds
        while not met(found := await self.infra(name)):
            assert self.clock.monotonic() < deadline, f"not within {seconds:g} s: {found}"
            await self.clock.sleep(0.1)
        return found

    def vms(self) -> list[str]:
        return sorted(vm.name for vm in self.cloud.vms.values())

    @staticmethod
    def _meta(name: str, cluster: str, kind: str, uid: str) -> dict[str, Any]:
        owner = {
            "apiVersion": "cluster.x-k8s.io/v1beta1",
            "kind": kind,
            "name": name,
            "uid": uid,
            "controller": True,
        }
        labels = {"cluster.x-k8s.io/cluster-name": cluster}
        return {"name": name, "namespace": NS, "labels": labels, "ownerReferences": [owner]}


@asynccontextmanager
async def management_cluster(*, cloud: Cloud | None = None, seed: int = 0) -> AsyncIterator[Management]:
    """An empty management cluster with the CRDs of the core and of our provider, and a cloud: its own, or that
    of another. ``seed`` is that of its uids.
    """
    clock = LoopClock(seed=seed)
    server = ApiServer(clock, admission=RULES)
    await server.start()
    try:
        found = Management(server, clock)
        found.cloud = cloud or found.cloud
        for crd in (*cluster_crds(), *infra_crds()):
            await found.people.create(CRD, crd)
        await found.people.create(NAMESPACE, {"metadata": {"name": NS}})
        yield found
    finally:
        await server.close()
