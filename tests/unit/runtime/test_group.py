"""Groups: each lives for its own Lease, loses it alone, and begins anew with nothing in its memory."""

import asyncio
from contextlib import suppress

import pytest
import structlog
from msgspec import structs

from kubewright.runtime.controller import Controller
from kubewright.runtime.leader import Elector, LostLease
from kubewright.runtime.manager import Group, Manager, Phase, Settings, Work
from kubewright.runtime.passes import idle
from kubewright.runtime.result import Result
from kubewright.testing.clocks import LoopClock
from kubewright.wire.errors import NotFound, ServerError
from kubewright.wire.gvk import Key

A = Key("ns", "a")


class Server:
    """Leases that no two candidates want at the same moment; ``trouble`` is what a request for one meets."""

    def __init__(self):
        self.leases, self.trouble, self.version = {}, {}, 0

    async def get(self, _kind, key):
        if error := self.trouble.get(key.name):
            raise error
        if key.name not in self.leases:
            raise NotFound("none")
        return self.leases[key.name]

    async def create(self, kind, lease, *, namespace=""):
        return await self.replace(kind, Key(namespace, lease.metadata.name), lease)

    async def replace(self, _kind, key, lease):
        if error := self.trouble.get(key.name):
            raise error
        self.version += 1
        meta = structs.replace(lease.metadata, resource_version=str(self.version))
        self.leases[key.name] = structs.replace(lease, metadata=meta)
        return self.leases[key.name]

    def holder(self, name):
        return self.leases[name].spec.holder_identity


class Works:
    """A reconciler that never ends, as a half has them: made anew for each term."""

    def __init__(self, name):
        self.name, self.story, self.ended = name, [], 0

    def begin(self):
        controller = Controller(self.name, self, LoopClock(), workers=1)
        controller.enqueue(A)
        return Work([controller], (), end=self.end)

    def end(self):
        self.ended += 1

    async def reconcile(self, _key):
        self.story.append(("began", now()))
        try:
            await asyncio.sleep(1_000_000)
        finally:
            self.story.append(("cancelled", now()))
        return Result.done()


def now():
    return round(asyncio.get_running_loop().time())


def group(server, works, *, me="me", again=True):
    clock = LoopClock()
    elector = Elector(server, clock, Key("ns", works.name), identity=me)
    settings = Settings(drain_seconds=1)
    return Group(works.name, clock, works.begin, elector=elector, again=again, settings=settings)


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def sets():
    return Works("sets")


@pytest.fixture
def machines():
    return Works("machines")


class Running:
    """A manager of some groups beside the block."""

    def __init__(self, *groups):
        self.stop = asyncio.Event()
        self.manager = Manager((), groups)

    async def __aenter__(self):
        self.task = asyncio.create_task(self.manager.run(self.stop))
        return self.manager

    async def __aexit__(self, *_):
        self.stop.set()
        with suppress(LostLease):
            await self.task


async def test_one_process_works_under_two_leases(server, sets, machines):
    async with Running(group(server, sets), group(server, machines)) as manager:
        await asyncio.sleep(1)
        assert manager.phase is Phase.WORKING
        assert [server.holder(name) for name in ("sets", "machines")] == ["me", "me"]
    assert [server.holder(name) for name in ("sets", "machines")] == ["", ""]
    assert manager.phase is Phase.STOPPED


async def test_a_half_whose_lease_another_holds_waits_while_the_other_half_works(server, sets, machines):
    async with Running(group(server, Works("sets"), me="the original")):
        await asyncio.sleep(1)
        async with Running(group(server, sets), group(server, machines)) as manager:
            async with asyncio.timeout(10):
                await manager.settled()
            await asyncio.sleep(100)
            assert sets.story == []
            assert len(machines.story) == 1
            assert manager.waits_for() == [("ns/sets", "the original")]
            assert manager.not_ready() == ""


async def test_losing_one_lease_stops_that_half_only_and_it_stands_again(server, sets, machines):
    async with Running(group(server, sets), group(server, machines)) as manager:
        await asyncio.sleep(1)
        server.trouble["sets"] = ConnectionRefusedError("refused")
        await asyncio.sleep(99)
        assert sets.story == [("began", 0), ("cancelled", 20)]
        assert sets.ended == 1
        assert manager.not_ready() == ""
        del server.trouble["sets"]
        await asyncio.sleep(20)
        assert [what for what, _ in sets.story] == ["began", "cancelled", "began"]
        assert machines.story == [("began", 0)]


async def test_a_group_that_stands_by_tells_nothing_of_its_last_term(server):
    class Rests(Works):
        async def reconcile(self, _key):
            idle("at rest")
            return Result.done()

    async with Running(group(server, Rests("sets"))) as manager:
        await asyncio.sleep(1)
        assert [each.because for each in manager.plans().passes] == ["at rest"]
        server.trouble["sets"] = ConnectionRefusedError("refused")
        await asyncio.sleep(99)
        assert (manager.plans().passes, manager.status()["controllers"]) == ((), {})
        del server.trouble["sets"]
        await asyncio.sleep(20)
        assert [each.because for each in manager.plans().passes] == ["at rest"]


async def test_a_group_that_does_not_stand_again_ends_with_its_lease(server, sets, machines):
    async with Running(group(server, sets, again=False), group(server, machines)) as manager:
        await asyncio.sleep(1)
        server.trouble["sets"] = ConnectionRefusedError("refused")
        await asyncio.sleep(30)
        assert manager.phase is Phase.STOPPED
    assert machines.story == [("began", 0), ("cancelled", 20)]


@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        pytest.param(ServerError("disk full"), "disk full", id="what the server said"),
        pytest.param(ConnectionRefusedError("refused"), "refused", id="what the network said"),
    ],
)
async def test_the_cause_of_a_lost_lease_is_logged_once(server, sets, trouble, why):
    structlog.reset_defaults()
    with structlog.testing.capture_logs() as lines:
        async with Running(group(server, sets)):
            await asyncio.sleep(1)
            server.trouble["sets"] = trouble
            await asyncio.sleep(600)
            del server.trouble["sets"]
            await asyncio.sleep(60)
    said = [(line["event"], line["why"]) for line in lines if "why" in line]
    assert said == [
        ("the lease cannot be reached", why),
        (
            "work is cancelled; standing for the lease again",
            f"lease ns/sets could not be renewed for 20 s: {why}",
        ),
    ]
    assert "the lease can be reached again" in [line["event"] for line in lines]


async def test_a_stop_reaches_a_half_that_works_and_one_that_waits(server, sets, machines):
    async with Running(group(server, Works("sets"), me="the original")):
        await asyncio.sleep(1)
        async with Running(group(server, sets), group(server, machines)):
            await asyncio.sleep(1)
        assert machines.story == [("began", 1), ("cancelled", 3)]
        assert server.holder("sets") == "the original"


class LosesWhenCancelled:
    """A candidate whose Lease is lost in the moment in which its group is cancelled; a TaskGroup tells the error alone."""

    identity = holder = "me"
    leading = True

    def __init__(self):
        self.terms = 0

    async def run(self, _lead, *, stands_by=None):
        self.terms += 1
        try:
            await asyncio.sleep(1_000_000)
        except asyncio.CancelledError:
            raise LostLease("at the same time") from None


async def test_a_group_that_is_cancelled_while_its_lease_is_lost_does_not_stand_again():
    candidate = LosesWhenCancelled()
    running = asyncio.create_task(
        Group("sets", LoopClock(), lambda: Work((), ()), elector=candidate).run(asyncio.Event())
    )
    await asyncio.sleep(1)
    running.cancel()
    _, still = await asyncio.wait([running], timeout=10)
    assert (still, candidate.terms) == (set(), 1)
