"""An embedded server with its built-in controllers, in one loop on virtual time."""

import asyncio
import logging
import random
from collections import Counter
from contextlib import asynccontextmanager

import pytest
import structlog

from kubewright.api.kinds import dynamic
from kubewright.apiserver.server import ApiServer
from kubewright.builtin import Settings, controllers
from kubewright.kube.client import Client
from kubewright.kube.errors import ConnectFailed, Disconnected
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess
from kubewright.runtime.manager import Work
from kubewright.testing.clocks import LoopClock
from kubewright.testing.servers import alone
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key, Resource
from kubewright.wire.http import Response

CONFIG_MAPS = dynamic(Resource("", "v1", "configmaps", "ConfigMap"))


class Wire:
    """A transport that counts requests by method and path (streams as WATCH), and fails in every way
    with the probability ``trouble``. ``refused``: the paths of patches that are always refused."""

    def __init__(self, inner):
        self.inner, self.seen = inner, Counter()
        self.trouble, self.chance = 0.0, random.Random(0)
        self.refused = set()

    async def request(self, request, *, timeout):
        self.seen[request.method, request.path] += 1
        if request.method == "PATCH" and request.path in self.refused:
            return Response(422)
        how = self.chance.choice(("refused", "busy", "lost")) if self._fails() else ""
        if how == "refused":
            raise ConnectFailed("refused")
        if how == "busy":
            return Response(503)
        response = await self.inner.request(request, timeout=timeout)
        if how == "lost":
            raise Disconnected("the answer was lost")
        return response

    @asynccontextmanager
    async def stream(self, request):
        self.seen["WATCH", request.path] += 1
        if self._fails():
            raise ConnectFailed("refused")
        async with self.inner.stream(request) as chunks:
            yield chunks

    def _fails(self):
        return self.chance.random() < self.trouble

    async def close(self):
        await self.inner.close()

    def take(self):
        """What was asked since the last time, watches left out."""
        taken = {place: times for place, times in self.seen.items() if place[0] != "WATCH"}
        self.seen.clear()
        return taken


class World:
    """The server as a user sees it. ``requests`` counts what the controllers ask, not the user."""

    def __init__(self, server, clock):
        self.server, self.clock = server, clock
        self.user = Client(InProcess(server.handle), clock, name="user")
        self.requests = Wire(InProcess(server.handle))

    @staticmethod
    def owner_reference(owner, blocks=True):
        return {
            "apiVersion": owner.get("apiVersion", "v1"),
            "kind": owner.get("kind", "ConfigMap"),
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": blocks,
        }

    async def create(self, kind, name, namespace="default", **rest):
        metadata = {"name": name, **rest.pop("metadata", {})}
        return await self.user.create(kind, {"metadata": metadata, **rest}, namespace=namespace)

    async def config_map(self, name, *owners, blocks=True, namespace="default", **metadata):
        refs = [self.owner_reference(each, blocks) for each in owners]
        metadata = {"ownerReferences": refs, **metadata} if refs else metadata
        return await self.create(CONFIG_MAPS, name, namespace, metadata=metadata)

    async def get(self, kind, name, namespace="default"):
        try:
            return await self.user.get(kind, key_of(kind, name, namespace))
        except NotFound:
            return None

    async def delete(self, kind, name, namespace="default", **options):
        await self.user.delete(kind, key_of(kind, name, namespace), **options)

    async def patch(self, kind, name, body, namespace="default", **options):
        return await self.user.patch(kind, key_of(kind, name, namespace), body, **options)

    async def names(self, kind, namespace="default"):
        return {each["metadata"]["name"] for each in await self.user.list(kind, namespace)}

    async def eventually(self, check, seconds=30.0):
        """Ask every virtual 0.1 s until the answer is true."""
        async with asyncio.timeout(seconds):
            while not (answer := await check()):  # noqa: ASYNC110  virtual
                await asyncio.sleep(0.1)
        return answer

    async def gone(self, kind, *names, seconds=30.0):
        await self.eventually(lambda: self._absent(kind, names), seconds)

    async def _absent(self, kind, names):
        return not set(names) & await self.names(kind)

    @asynccontextmanager
    async def controlled(self, settings=None):
        """Run the built-in controllers meanwhile."""
        informers = Informers(Client(self.requests, self.clock, name="embedded"))
        built = controllers(informers, settings=settings or Settings())
        manager = alone(self.clock, Work(built.controllers, [informers], built.background))
        stop = asyncio.Event()
        task = asyncio.create_task(manager.run(stop))
        try:
            yield
        finally:
            stop.set()
            await task


def key_of(kind, name, namespace):
    return Key(namespace if kind.resource.namespaced else "", name)


@pytest.fixture(autouse=True)
def silent_log():
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


@pytest.fixture
async def world():
    clock = LoopClock()
    server = ApiServer(clock)
    await server.start()
    try:
        yield World(server, clock)
    finally:
        await server.close()


@pytest.fixture
async def run(world):
    """A world whose controllers run."""
    async with world.controlled():
        yield world
