"""One controller over two API servers that come and go: each ConfigMap of either gets a label."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any

import pytest

from kubewright.api.kinds import dynamic
from kubewright.kube.client import Client
from kubewright.kube.patches import with_uid
from kubewright.runtime.controller import Controller
from kubewright.runtime.manager import Work
from kubewright.runtime.result import Result
from kubewright.runtime.sessions.registry import Sessions
from kubewright.runtime.sessions.session import Lookup
from kubewright.testing.api import Api
from kubewright.testing.clocks import LoopClock
from kubewright.testing.faults import Fault, Faulty, Lose
from kubewright.testing.servers import alone, embedded_api
from kubewright.wire.gvk import Key, Resource

MAPS = dynamic(Resource("", "v1", "configmaps", "ConfigMap"))
EAST, WEST = Key("fleet", "east"), Key("fleet", "west")


class Labels:
    """Labels the ConfigMaps named ``key.name`` in the cluster ``key.namespace``."""

    def __init__(self, clusters: Lookup) -> None:
        self._clusters = clusters

    async def reconcile(self, key: Key) -> Result:
        session = self._clusters.get(Key("fleet", key.namespace))
        for header in session.informer(MAPS).headers():
            if header.key.name == key.name and "seen" not in header.labels:
                body = with_uid({"metadata": {"labels": {"seen": "yes"}}}, header.uid)
                await session.client.patch(MAPS, header.key, body)
        return Result.done()


class Fleet:
    """Two servers, the line to each, and a manager that runs the controller."""

    def __init__(self, servers: Mapping[Key, Api]) -> None:
        self.clock = LoopClock()
        self.servers = servers
        self.faults: dict[Key, Fault | None] = dict.fromkeys(servers)
        self.sessions = Sessions(self.clock, self._reach)
        self.controller = Controller("labels", Labels(self.sessions), self.clock)
        self.controller.watches_in(
            self.sessions, MAPS, lambda cluster, change: [Key(cluster.name, change.key.name)], lambda _: ()
        )

    def _reach(self, cluster: Key, _credentials: str) -> Client:
        line = Faulty(self.servers[cluster].transport, self.clock, lambda _: self.faults[cluster])
        return Client(Kept(line), self.clock, name=str(cluster))

    async def make(self, cluster: Key, name: str) -> None:
        api = self.servers[cluster]
        body = {"metadata": {"name": name}}
        (await api.post(api.at("configmaps"), body)).ok()

    async def labelled(self, cluster: Key, name: str) -> bool:
        api = self.servers[cluster]
        found = (await api.get(api.at("configmaps", name))).ok()
        return found["metadata"].get("labels", {}).get("seen") == "yes"


class Kept:
    """A line to a server that other sessions and the test use too: closing it leaves the server's end open."""

    def __init__(self, line: Faulty) -> None:
        self._line = line
        self.request, self.stream = line.request, line.stream

    async def close(self) -> None:
        self._line.choose = lambda _: Lose()


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    async with AsyncExitStack() as stack:
        servers = {each: await stack.enter_async_context(embedded_api()) for each in (EAST, WEST)}
        made = Fleet(servers)
        manager = alone(made.clock, Work([made.controller], [], [made.sessions.run]))
        stop = asyncio.Event()
        work = asyncio.create_task(manager.run(stop))
        yield made
        stop.set()
        await work


async def test_a_controller_watches_two_clusters_that_come_and_go(fleet: Fleet) -> None:
    async def settled(**expected: Any) -> None:
        await asyncio.sleep(45)
        clusters = {"east": EAST, "west": WEST}
        for place, said in expected.items():
            cluster, _, name = place.partition("_")
            assert await fleet.labelled(clusters[cluster], name) is said, place

    await fleet.make(EAST, "first")
    await fleet.make(WEST, "first")
    await settled(east_first=False, west_first=False)

    fleet.sessions.want(EAST, "a")
    fleet.sessions.want(WEST, "a")
    await settled(east_first=True, west_first=True)

    fleet.faults[EAST] = Lose()
    await asyncio.sleep(120)
    await fleet.make(EAST, "meanwhile")
    await fleet.make(WEST, "meanwhile")
    await settled(east_meanwhile=False, west_meanwhile=True)
    fleet.faults[EAST] = None
    await settled(east_meanwhile=True)

    fleet.sessions.drop(WEST)
    await fleet.make(WEST, "alone")
    await fleet.make(EAST, "alone")
    await settled(west_alone=False, east_alone=True)
    fleet.sessions.want(WEST, "b")
    await settled(west_alone=True)
