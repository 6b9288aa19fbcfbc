"""Each fault does what its word says: seen in the world, not in calls."""

from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from kubewright.api.core import LEASE, NAMESPACE
from kubewright.driver.contract import stub
from kubewright.driver.errors import DriverError
from kubewright.kube.client import Client
from kubewright.kube.errors import ConnectFailed, Disconnected, TimedOut, TransportError
from kubewright.testing.clocks import LoopClock
from kubewright.testing.faults import ExecuteLate, Faulty, Script
from kubewright.testing.scenes import class_request
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key
from kubewright.wire.http import Request
from simulation import incidents, schedule
from simulation.cloud import RemoteDriver
from simulation.incidents import LEASE_KEYS
from simulation.journal import LEASE_HALVES
from simulation.loop import Process, SimLoop
from simulation.network import Line
from simulation.person import Person
from simulation.run import captured_logs
from simulation.schedule import Fault, Schedule, parse
from simulation.world import Plot, World

DEFAULT = Key("", "default")


class Scene:
    """An empty world, and what a manager in it would reach."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.person = Person(world)
        self.clock = world.clock("test")
        self.manager = Process(world.loop, "manager-1")
        world.managers.living.append(self.manager)

    @property
    def now(self) -> float:
        return self.clock.monotonic()

    async def inject(self, word: str, after: float = 0.0) -> None:
        """Let a fault begin, and go on a little."""
        self.world.faults.spawn(incidents.WORDS[word](self.world, self.person, self.world.clock("fate")))
        await self.clock.sleep(after or 0.01)

    def client(self, target: bool = False) -> Client:
        """A manager's client, with injected faults."""
        cluster = self.world.target if target else self.world.control
        felt = partial(self.world.injector.of_request, self.manager.name)
        line = Faulty(Line(cluster.host, self.manager), self.clock, felt, spawn=self.world.faults.spawn)
        return Client(line, self.clock)

    async def outcome(self, asked: Callable[[], Coroutine[Any, Any, Any]]) -> str:
        """The outcome of a manager's request: the name of the error, or nothing."""
        return str(await self.manager.spawn(_outcome(asked)))

    async def until(self, asked: Callable[[], Coroutine[Any, Any, Any]], most: float) -> float:
        """When a request succeeds again."""
        while await self.outcome(asked) and self.now < most:
            await self.clock.sleep(0.5)
        return self.now


async def _outcome(asked: Callable[[], Coroutine[Any, Any, Any]]) -> str:
    try:
        await asked()
    except (TransportError, DriverError) as error:
        return error.code.name if isinstance(error, DriverError) else type(error).__name__
    return ""


def play(act: Callable[[Scene], Coroutine[Any, Any, None]], *, apart: bool = False) -> None:
    """Run a test in an empty world."""
    loop = SimLoop(7)
    scene = Scene(World(loop, Plot(7, apart=apart)))

    async def whole() -> None:
        await scene.world.begin()
        scene.world.tell()
        await act(scene)

    with captured_logs(scene.world.journal, plans=False):
        try:
            loop.run_until_complete(whole())
        finally:
            loop.destroy()


def test_every_word_has_a_fault_and_every_fault_a_word() -> None:
    assert set(incidents.WORDS) == set(schedule.AT)


@pytest.mark.parametrize(
    ("word", "seconds", "target"),
    [
        ("unreachable", 20, False),
        ("outage", 150, False),
        ("target-unreachable", 20, True),
        ("target-outage", 400, True),
        ("restart-server", 0.7, False),
        ("restart-target", 0.7, True),
    ],
)
def test_an_outage_refuses_for_its_time(word: str, seconds: float, target: bool) -> None:
    async def act(scene: Scene) -> None:
        await scene.inject(word)
        gone, there = scene.client(target), scene.client(not target)
        assert await scene.outcome(lambda: gone.get(NAMESPACE, DEFAULT)) == ConnectFailed.__name__
        assert await scene.outcome(lambda: there.get(NAMESPACE, DEFAULT)) == ""
        back = await scene.until(lambda: gone.get(NAMESPACE, DEFAULT), most=1000)
        assert seconds <= back <= seconds + 3

    play(act, apart=True)


def test_a_client_that_is_cut_off_receives_nothing_and_others_do() -> None:
    async def act(scene: Scene) -> None:
        await scene.inject("partition")
        request = Request("GET", "/api/v1/namespaces/default")
        line = Line(scene.world.control.host, scene.manager)
        assert await scene.outcome(lambda: line.request(request, timeout=3)) == TimedOut.__name__
        await scene.world.client.get(NAMESPACE, DEFAULT)
        await scene.clock.sleep(40)
        assert await scene.outcome(lambda: line.request(request, timeout=3)) == ""

    play(act)


@pytest.mark.parametrize(
    ("word", "answer"),
    [
        ("storm-lose", "ConnectFailed"),
        ("storm-throttle", "429"),
        ("storm-conflict", "409"),
    ],
)
def test_a_storm_hits_some_requests_and_is_over_soon(word: str, answer: str) -> None:
    async def act(scene: Scene) -> None:
        line = scene.client().transport
        request = Request("PATCH", "/api/v1/namespaces/default", (), {}, b"{}")
        well = await _status(line, request)
        await scene.inject(word)
        assert {await _status(line, request) for _ in range(30)} == {well, answer}
        await scene.clock.sleep(4)
        assert {await _status(line, request) for _ in range(30)} == {well}

    play(act)


async def _status(line: Any, request: Request) -> str:
    try:
        return str((await line.request(request, timeout=5)).status)
    except TransportError as error:
        return type(error).__name__


def test_a_late_request_is_carried_out_after_its_sender_was_killed() -> None:
    async def act(scene: Scene) -> None:
        line = Line(scene.world.control.host, scene.manager)
        faulty = Faulty(line, scene.clock, Script().on(ExecuteLate(40.0)), spawn=scene.world.faults.spawn)
        late = Client(faulty, scene.clock)
        body = {"metadata": {"name": "late"}}
        assert await scene.outcome(lambda: late.create(NAMESPACE, body)) == Disconnected.__name__
        scene.world.managers.kill(scene.manager)
        await scene.clock.sleep(39)
        with pytest.raises(NotFound):
            await scene.world.client.get(NAMESPACE, Key("", "late"))
        await scene.clock.sleep(2)
        await scene.world.client.get(NAMESPACE, Key("", "late"))

    play(act)


@pytest.mark.parametrize(
    ("word", "holder"), [("lease-cleared", ""), ("lease-stolen", "intruder"), ("lease-deleted", "")]
)
def test_the_lease_is_taken_from_a_leader_that_lives(word: str, holder: str) -> None:
    """One of the two Leases, and only one."""

    async def act(scene: Scene) -> None:
        leaders = scene.world.journal.leaders
        for key in LEASE_KEYS:
            lease = {"metadata": {"name": key.name}, "spec": {"holderIdentity": "manager-1_x"}}
            await scene.world.client.create(LEASE, lease, namespace=key.namespace)
        assert [leader.holder for leader in leaders.values()] == ["manager-1_x"] * 2
        await scene.inject(word)
        there = {
            f"{each.metadata.namespace}/{each.metadata.name}" for each in await scene.world.client.list(LEASE)
        }
        gone = LEASE_HALVES.keys() - there
        assert len(gone) == (word == "lease-deleted")
        if not gone:
            assert sorted(leader.name for leader in leaders.values()) == sorted([holder, "manager-1"])

    play(act)


def test_only_renewals_of_the_leader_are_lost() -> None:
    async def act(scene: Scene) -> None:
        await scene.inject("renewals-lost")
        client, body = scene.client(), {"metadata": {"labels": {"a": "b"}}}
        lease = {"metadata": {"name": LEASE_KEYS[0].name}, "spec": {}}
        renew = partial(client.create, LEASE, lease, namespace=LEASE_KEYS[0].namespace)
        assert await scene.outcome(renew) == ConnectFailed.__name__
        assert await scene.outcome(lambda: client.patch(NAMESPACE, DEFAULT, body)) == ""
        assert await scene.until(renew, most=100) >= 45

    play(act)


class _Cloud:
    """A driver that always succeeds."""

    async def create(self, _request: Any) -> None:
        """Make nothing."""

    async def delete(self, _request: Any) -> None:
        """Delete nothing."""


REQUEST = class_request().of(stub("m", "ns"))


@pytest.mark.parametrize(
    ("word", "create", "delete", "seconds"),
    [("no-capacity", "ResourceExhausted", "", 40), ("cloud-down", "Unavailable", "Unavailable", 30)],
)
def test_a_cloud_refuses_for_its_time(word: str, create: str, delete: str, seconds: float) -> None:
    async def act(scene: Scene) -> None:
        choose = partial(scene.world.injector.of_call, "manager-1")
        driver: Any = RemoteDriver(_Cloud(), Process(scene.world.loop, "cloud"), scene.clock, choose)  # type: ignore[arg-type]
        await scene.inject(word)
        assert await scene.outcome(lambda: driver.create(REQUEST)) == create
        assert await scene.outcome(lambda: driver.delete(REQUEST)) == delete
        assert seconds <= await scene.until(lambda: driver.create(REQUEST), most=100) <= seconds + 1

    play(act)


def test_a_slow_process_stands_still_again_and_again() -> None:
    async def act(scene: Scene) -> None:
        ticks: list[float] = []

        async def tick() -> None:
            while True:
                await scene.clock.sleep(0.05)
                ticks.append(scene.now)

        scene.manager.spawn(tick())
        await scene.inject("slow-process", after=40)
        pauses = [after - before for before, after in pairwise(ticks) if after - before > 0.5]
        assert len(pauses) >= 4
        assert max(pauses) <= 3.2
        assert ticks[-1] > 39.5

    play(act)


def test_a_leap_of_the_clocks_is_undone_and_a_skew_is_not() -> None:
    async def act(scene: Scene) -> None:
        managers = scene.world.managers
        managers.living.clear()
        one, two = managers.start(), managers.start()
        await scene.clock.sleep(0.01)
        one.freeze()
        two.freeze()
        await scene.inject("clock-leap")
        assert {managers.ahead(one), managers.ahead(two)} == {3600.0}
        await scene.clock.sleep(301)
        assert {managers.ahead(one), managers.ahead(two)} == {0.0}
        await scene.inject("clock-skew")
        assert sorted(abs(each) for each in (managers.ahead(one), managers.ahead(two))) == [0.0, 90.0]

    play(act)


def test_rare_words_are_drawn_as_often_as_others() -> None:
    drawn: list[Fault] = []
    for seed in range(2000):
        drawn += schedule.draw(LoopClock(seed=seed).random).faults
    words = Counter(fault.word for fault in drawn)
    places = Counter(fault.place for fault in drawn)
    assert set(words) == {word for there in schedule.WORDS.values() for word in there}
    assert min(words.values()) >= 40, words
    assert set(places) == set(schedule.WORDS)
    assert min(places.values()) >= 300, places


def test_a_schedule_of_every_word_can_be_read_back() -> None:
    every = Schedule(
        tuple(Fault(place, 1.0, word) for place, words in schedule.WORDS.items() for word in words)
    )
    assert parse(str(every)) == every
