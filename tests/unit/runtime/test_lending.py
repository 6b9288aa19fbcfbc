"""Sessions that a process has once, and lends to each term of leadership."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from kubewright.api.kinds import dynamic
from kubewright.kube.client import Client
from kubewright.kube.errors import Deposed
from kubewright.kube.transport import InProcess
from kubewright.runtime.sessions.lending import Lender
from kubewright.runtime.sessions.registry import Sessions
from kubewright.runtime.sessions.session import Listener, NotConnected
from kubewright.testing.clocks import LoopClock
from kubewright.testing.faults import Faulty, Lose
from kubewright.testing.tiny_server import TinyServer
from kubewright.wire.gvk import Key, Resource

MAPS = dynamic(Resource("", "v1", "configmaps", "ConfigMap"))
EAST = Key("fleet", "east")
PATH = "/api/v1/namespaces/default/configmaps/a"
NEW = {"metadata": {"name": "b"}}


class Term:
    """One term: its lookup, what its listener heard, and whether it may write."""

    def __init__(self, world, *kinds):
        self.entitled = True
        self.shown = []
        self.lookup = world.lender.lend(lambda: self.entitled)
        for kind in kinds:
            self.lookup.cache(kind)
        self.lookup.subscribe(
            Listener(
                lambda session: self.shown.append("gained"), lambda session, why: self.shown.append("lost")
            )
        )

    @asynccontextmanager
    async def running(self):
        task = asyncio.create_task(self.lookup.run())
        await asyncio.sleep(2)
        yield self
        task.cancel()
        await asyncio.wait([task])
        await asyncio.sleep(1)

    def names(self):
        return [each.key.name for each in self.lookup.get(EAST).informer(MAPS).headers()]

    def why(self):
        with pytest.raises(NotConnected) as refused:
            self.lookup.get(EAST)
        return str(refused.value)


class World:
    """A toy cluster that every period of sessions is to be connected to, behind a line with a fault."""

    def __init__(self):
        self.clock = LoopClock()
        self.toy, self.fault, self.made = TinyServer(self.clock), None, 0
        self.lines = []
        self.lender = Lender(self.make)

    def make(self):
        self.made += 1
        sessions = Sessions(self.clock, self.reach)
        sessions.want(EAST, "key")
        return sessions

    def reach(self, _cluster, _credentials):
        line = Faulty(InProcess(self.toy.handle), self.clock, lambda _request: self.fault)
        self.lines.append(line)
        return Client(line, self.clock)

    def asked(self, part, since=0.0):
        """The requests for a path, from a moment on; watches are no lists."""
        asked = [each for line in self.lines for each in line.asked]
        found = [request for at, request in asked if at >= since and part in request.path]
        return [each for each in found if each.method == "GET" and not each.param("watch")]

    @asynccontextmanager
    async def running(self):
        before = asyncio.all_tasks()
        task = asyncio.create_task(self.lender.run())
        yield self
        task.cancel()
        await asyncio.wait([task])
        assert asyncio.all_tasks() <= before


@pytest.fixture
def world():
    return World()


async def test_two_terms_share_one_connection_its_probes_and_its_caches(world):
    world.toy.put(PATH, {})
    async with world.running(), Term(world, MAPS).running() as core, Term(world, MAPS).running() as other:
        assert core.names() == other.names() == ["a"]
        began = world.clock.monotonic()
        await asyncio.sleep(100)
        assert len(world.asked("/version", began)) in range(9, 12)
        assert (world.made, core.shown, other.shown) == (1, ["gained"], ["gained"])


async def test_a_session_that_is_made_in_a_term_is_listed_once(world):
    async with world.running(), Term(world, MAPS).running():
        assert len(world.asked("configmaps")) == 1


async def test_a_term_that_finds_a_session_lists_it_anew_and_is_told_when_it_is_full(world):
    async with world.running(), Term(world, MAPS).running() as first:
        world.fault = Lose()
        async with Term(world, MAPS).running() as second:
            assert "listed for a new term: configmaps: " in second.why(), "and why that takes so long"
            assert (first.names(), second.shown) == ([], [])
            world.toy.put(PATH, {})
            world.fault = None
            await asyncio.sleep(40)
            assert (second.names(), second.shown) == (["a"], ["gained"])


async def test_a_term_that_needs_no_caches_is_told_at_once_and_gets_none(world):
    async with world.running(), Term(world).running() as term:
        assert term.shown == ["gained"]
        assert world.asked("configmaps") == []
        with pytest.raises(KeyError):
            term.lookup.get(EAST).informer(MAPS)


async def test_each_term_writes_only_while_it_may(world):
    async with world.running(), Term(world).running() as core, Term(world).running() as other:
        core.entitled = False
        with pytest.raises(Deposed):
            await core.lookup.get(EAST).client.create(MAPS, NEW, namespace="default")
        await other.lookup.get(EAST).client.create(MAPS, NEW, namespace="default")


async def test_what_one_term_writes_is_in_the_cache_of_the_other_when_the_call_returns(world):
    async with world.running(), Term(world).running() as core, Term(world, MAPS).running() as other:
        await core.lookup.get(EAST).client.create(MAPS, NEW, namespace="default")
        assert other.names() == ["b"]


async def test_a_session_outlives_a_term_while_another_uses_it_and_ends_with_the_last(world):
    async with world.running():
        async with Term(world).running() as core:
            async with Term(world, MAPS).running():
                pass
            assert world.made == 1
            assert core.lookup.get(EAST)
        assert "this process does not lead now" in core.why()
        began = world.clock.monotonic()
        await asyncio.sleep(100)
        assert world.asked("/version", began) == []
        async with Term(world).running() as later:
            assert (world.made, later.shown) == (2, ["gained"])


async def test_the_end_of_a_session_is_told_to_each_term_that_knew_of_it(world):
    async with world.running(), Term(world).running() as core, Term(world).running() as other:
        world.fault = Lose()
        await asyncio.sleep(120)
        assert core.shown == other.shown == ["gained", "lost"]
        assert "is not connected" in core.why()


async def test_a_session_that_ends_while_a_term_still_lists_it_was_never_told(world):
    async with world.running(), Term(world, MAPS).running():
        world.fault = Lose()
        async with Term(world, MAPS).running() as second:
            await asyncio.sleep(120)
            assert second.shown == []
            world.fault = None
            await asyncio.sleep(60)
            assert second.shown == ["gained"]


async def test_a_listener_that_comes_late_is_told_of_what_there_is(world):
    async with world.running(), Term(world).running() as term:
        heard = []
        term.lookup.subscribe(Listener(lambda session: heard.append(session.cluster), lambda *_: None))
        assert heard == [EAST]
