"""At most one process acts on the components of control planes: the one that has the Lease."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace

from kubewright.api.cluster.manifests import crds as cluster_crds
from kubewright.api.controlplane.manifests import crds
from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE
from kubewright.api.core import CRD
from kubewright.apiserver.server import ApiServer
from kubewright.compose.on_kubernetes import run_with
from kubewright.compose.options import Election, Options
from kubewright.controlplanes.family import KINDS
from kubewright.kube.client import Client
from kubewright.kube.transport import InProcess, Transport
from kubewright.testing.clocks import LoopClock
from kubewright.wire.gvk import Key
from kubewright.wire.http import Request, Response

SETS = "/apis/apps/v1/namespaces/default/statefulsets"


class Writes:
    """``inner``; ``seen`` are the writes of objects, but for Leases and events."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.seen: list[str] = []

    async def request(self, request: Request, *, timeout: float) -> Response:
        if request.method != "GET" and not any(each in request.path for each in ("/leases", "/events")):
            self.seen.append(f"{request.method} {request.path}")
        return await self._inner.request(request, timeout=timeout)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


@asynccontextmanager
async def process(server: ApiServer, clock: LoopClock) -> AsyncIterator[Writes]:
    """``kubewright run`` with the controllers of control planes, whose components are StatefulSets."""
    writes = Writes(InProcess(server.handle))
    client, stop = Client(writes, clock, name="control"), asyncio.Event()
    options = replace(Options(), controllers=("controlplanes",))
    work = asyncio.create_task(run_with(client, client, None, options, election=Election(), stop=stop))
    try:
        yield writes
    finally:
        work.cancel()  # in the middle of whatever it does
        with suppress(asyncio.CancelledError):
            await work


async def test_of_two_processes_one_acts_and_when_it_is_killed_the_other_goes_on() -> None:
    clock = LoopClock()
    server = ApiServer(clock)
    await server.start()
    user = Client(InProcess(server.handle), clock, name="user")
    for crd in (*cluster_crds(), *crds()):
        await user.create(CRD, crd)
    async with AsyncExitStack() as later:
        async with process(server, clock) as first:
            await clock.sleep(30)
            second = await later.enter_async_context(process(server, clock))
            await clock.sleep(30)
            await components(user)
            await clock.sleep(60)
            assert first.seen.count(f"POST {SETS}") == 1
            assert second.seen == []
        acted = len(first.seen)
        await user.patch(
            KINDS[Component.ETCD], Key("default", "demo-etcd"), {"spec": {"extraArgs": {"debug": "true"}}}
        )
        await clock.sleep(60)
        assert f"PATCH {SETS}/demo-etcd" in second.seen
        assert len(first.seen) == acted
    await server.close()


async def components(user: Client) -> None:
    fields = {
        "etcd": Component.ETCD,
        "apiserver": Component.API_SERVER,
        "controllerManager": Component.CONTROLLER_MANAGER,
    }
    spec = {field: {"name": f"demo-{each}"} for field, each in fields.items()}
    meta = {"name": "demo", "namespace": "default"}
    await user.create(NESTED_CONTROL_PLANE, {"metadata": meta, "spec": spec})
    for each, kind in KINDS.items():
        await user.create(kind, {"metadata": meta | {"name": f"demo-{each}"}, "spec": {"channel": "1.36"}})
