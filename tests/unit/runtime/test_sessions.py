"""Sessions with workload clusters that fail, hang, come, change their credentials and go."""

import asyncio
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from kubewright.api.core import POD
from kubewright.api.kinds import dynamic
from kubewright.base.errors import InvalidInput
from kubewright.base.limits import CONNECTS
from kubewright.kube.client import Client
from kubewright.kube.errors import ConnectFailed
from kubewright.kube.transport import InProcess
from kubewright.runtime.controller import Controller
from kubewright.runtime.queue import Curve
from kubewright.runtime.result import Result
from kubewright.runtime.sessions.registry import Sessions, Settings
from kubewright.runtime.sessions.session import Fixed, Listener, NotConnected, Session
from kubewright.testing.clocks import LoopClock
from kubewright.testing.faults import Answer, Delay, Faulty, Lose
from kubewright.testing.tiny_server import TinyServer
from kubewright.wire.gvk import Key, Resource
from kubewright.wire.http import Response

MAPS = dynamic(Resource("", "v1", "configmaps", "ConfigMap"))
EAST, WEST = Key("fleet", "east"), Key("fleet", "west")
HANGS, REFUSES, EXPIRED, BROKEN = Delay(1e9), Lose(), Answer(401), Answer(503)


class World:
    """Two toy clusters, each behind a line with a fault of its own, and what became of the sessions.

    Credentials are accepted when they are in ``accepted``.
    """

    def __init__(self, **settings):
        self.clock = LoopClock()
        self.toys = {cluster: TinyServer(self.clock) for cluster in (EAST, WEST)}
        self.faults = dict.fromkeys(self.toys)
        self.lines = {cluster: [] for cluster in self.toys}
        self.shown = []
        self.gained, self.lost = asyncio.Event(), asyncio.Event()
        self.reached = 0
        self.sessions = Sessions(self.clock, self.reach, settings=Settings(**settings))
        self.sessions.cache(MAPS)
        self.sessions.subscribe(
            Listener(
                self._gained,
                self._lost,
            )
        )

    def reach(self, cluster, credentials):
        self.reached += 1
        if credentials == "garbage":
            raise InvalidInput("kubeconfig in the Secret: not YAML")
        inner = InProcess(self.toys[cluster].handle)
        line = Faulty(inner, self.clock, lambda _: self.faults[cluster])
        self.lines[cluster].append((credentials, line))
        return Client(line, self.clock, name=str(cluster))

    def _gained(self, session):
        self.shown.append(("gained", session.cluster.name))
        self.gained.set()

    def _lost(self, session, because):
        self.shown.append(("lost", session.cluster.name, because))
        self.lost.set()

    def put(self, cluster, name):
        self.toys[cluster].put(f"/api/v1/namespaces/default/configmaps/{name}", {})

    def probes(self, cluster):
        """When each ``/version`` was asked for, in seconds."""
        asked = [each for _, line in self.lines[cluster] for each in line.asked]
        return [at for at, request in asked if request.path == "/version"]

    def why(self, cluster):
        with pytest.raises(NotConnected) as refused:
            self.sessions.get(cluster)
        return str(refused.value)

    @asynccontextmanager
    async def running(self):
        """The sessions at work; afterwards no task may be left."""
        before = asyncio.all_tasks()
        task = asyncio.create_task(self.sessions.run())
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.wait([task])
            assert asyncio.all_tasks() <= before


@pytest.fixture
def world():
    return World()


async def test_a_lookup_answers_at_once_and_says_why_there_is_no_session(world):
    async with world.running():
        assert world.why(EAST) == "cluster fleet/east is not connected: its credentials are not known"
        world.sessions.want(EAST, "key")
        assert world.why(EAST) == "cluster fleet/east is not connected: the first attempt is under way"
        await asyncio.sleep(1)
        assert world.sessions.get(EAST).cluster == EAST
        assert world.shown == [("gained", "east")]


async def test_a_session_begins_with_full_caches(world):
    world.put(EAST, "a")
    async with world.running():
        world.sessions.want(EAST, "key")
        await asyncio.sleep(1)
        assert [each.key.name for each in world.sessions.get(EAST).informer(MAPS).headers()] == ["a"]


async def test_a_cluster_wanted_before_the_start_is_connected_after_it(world):
    world.sessions.want(EAST, "key")
    await asyncio.sleep(100)
    assert world.probes(EAST) == []
    async with world.running():
        await asyncio.sleep(1)
        assert world.sessions.get(EAST)


async def test_attempts_that_fail_come_at_growing_distances_until_one_succeeds(world):
    world.faults[EAST] = REFUSES
    async with world.running():
        world.sessions.want(EAST, "key")
        await asyncio.sleep(300)
        apart = [later - earlier for earlier, later in pairwise(world.probes(EAST))]
        assert apart[0] < 2
        assert max(apart) <= 30
        assert len(apart) < 20
        assert world.why(EAST).endswith("connection refused (injected)")
        world.faults[EAST] = None
        await asyncio.wait_for(world.gained.wait(), 31)
        assert world.sessions.get(EAST)
        assert world.sessions.health(EAST).error == ""
        assert world.shown == [("gained", "east")]


async def test_a_cluster_that_hangs_delays_no_other(world):
    world.faults[WEST] = HANGS
    async with world.running():
        world.sessions.want(WEST, "key")
        world.sessions.want(EAST, "key")
        await asyncio.sleep(0.1)
        assert world.sessions.get(EAST)
        await asyncio.sleep(1000)
        assert world.sessions.get(EAST)
        assert "no answer within 5 s" in world.why(WEST)
        assert world.shown == [("gained", "east")]


async def test_lists_that_do_not_come_end_an_attempt(world):
    world.toys[EAST].served = lambda path: path == "/version"
    async with world.running():
        world.sessions.want(EAST, "key")
        await asyncio.sleep(119)
        assert world.why(EAST).endswith("the first attempt is under way")
        await asyncio.sleep(2)
        assert "configmaps not listed within 120 s" in world.why(EAST)
        assert world.shown == []


async def test_the_same_credentials_again_change_nothing(world):
    async with world.running():
        world.sessions.want(EAST, "key")
        await asyncio.sleep(1)
        before = world.sessions.get(EAST)
        world.sessions.want(EAST, "key")
        await asyncio.sleep(1)
        assert world.sessions.get(EAST) is before


async def test_other_credentials_make_a_new_session_and_close_the_old_one(world):
    async with world.running():
        world.sessions.want(EAST, "old")
        await asyncio.sleep(1)
        before = world.sessions.get(EAST)
        world.sessions.want(EAST, "new")
        with pytest.raises(NotConnected):
            world.sessions.get(EAST)
        await asyncio.sleep(1)
        assert world.sessions.get(EAST) is not before
        assert [credentials for credentials, _ in world.lines[EAST]] == ["old", "new"]
        because = "its kubeconfig changed, its Cluster is gone, its caches failed, or this process stops"
        assert world.shown == [("gained", "east"), ("lost", "east", because), ("gained", "east")]
        with pytest.raises(ConnectFailed):
            await before.client.list(MAPS)


async def test_credentials_that_cannot_be_read_are_not_tried_again_until_there_are_others(world):
    async with world.running():
        world.sessions.want(EAST, "garbage")
        await asyncio.sleep(1000)
        assert world.why(EAST).endswith("kubeconfig in the Secret: not YAML")
        assert world.reached == 1
        world.sessions.want(EAST, "key")
        await asyncio.sleep(1)
        assert world.sessions.get(EAST)


@pytest.mark.parametrize("fault", [None, HANGS, REFUSES], ids=["connected", "hangs", "refuses"])
async def test_a_dropped_cluster_is_asked_nothing_more(world, fault):
    world.faults[EAST] = fault
    async with world.running():
        left = asyncio.all_tasks()
        world.sessions.want(EAST, "key")
        await asyncio.sleep(3)
        world.sessions.drop(EAST)
        assert world.why(EAST).endswith("its credentials are not known")
        assert world.sessions.health(EAST) is None
        await asyncio.sleep(10)
        assert asyncio.all_tasks() == left
        asked = len(world.lines[EAST][-1][1].asked)
        await asyncio.sleep(1000)
        assert len(world.lines[EAST][-1][1].asked) == asked
        assert [each[:2] for each in world.shown] == (
            [("gained", "east"), ("lost", "east")] if not fault else []
        )


async def test_a_session_outlives_some_missed_probes_and_its_health_tells_of_them(world):
    async with world.running():
        world.sessions.want(EAST, "key")
        await asyncio.sleep(25)
        before, well = world.sessions.get(EAST), world.sessions.health(EAST)
        assert (well.connected, well.answers, well.since, well.error) == (True, True, 0, "")
        world.faults[EAST] = REFUSES
        await asyncio.sleep(25)
        ill = world.sessions.health(EAST)
        assert (ill.connected, ill.answers, ill.error) == (True, False, "connection refused (injected)")
        assert ill.heard < 25 < ill.since < 37
        world.faults[EAST] = None
        await asyncio.sleep(12)
        assert world.sessions.get(EAST) is before
        assert world.sessions.health(EAST).answers
        assert world.sessions.health(EAST).error == ""


async def test_five_missed_probes_end_a_session(world):
    async with world.running():
        world.sessions.want(EAST, "key")
        await asyncio.sleep(1)
        before = world.sessions.get(EAST)
        world.faults[EAST] = BROKEN
        await asyncio.wait_for(world.lost.wait(), 1000)
        assert len(world.probes(EAST)) == 1 + 5
        assert world.shown[1][:2] == ("lost", "east")
        assert "503" in world.shown[1][2]
        assert "503" in world.why(EAST)
        assert not world.sessions.health(EAST).connected
        world.faults[EAST] = None
        await asyncio.sleep(31)
        assert world.sessions.get(EAST) is not before


async def test_missed_probes_count_only_in_a_row(world):
    async with world.running():
        world.sessions.want(EAST, "key")
        for _ in range(4):
            await asyncio.sleep(15)
            world.faults[EAST] = REFUSES
            await asyncio.sleep(30)
            world.faults[EAST] = None
        assert world.shown == [("gained", "east")]


async def test_a_long_session_makes_earlier_failures_forgotten(world):
    world.faults[EAST] = REFUSES
    async with world.running():
        world.sessions.want(EAST, "key")
        await asyncio.sleep(300)
        world.faults[EAST] = None
        await asyncio.sleep(100)
        assert world.sessions.health(EAST).error == ""
        world.faults[EAST] = EXPIRED
        await asyncio.wait_for(world.lost.wait(), 1000)
        world.faults[EAST] = None
        await asyncio.sleep(1.1)
        assert world.sessions.get(EAST)


async def test_a_server_that_says_when_to_come_back_is_left_alone_until_then(world):
    world.faults[EAST] = Answer(503, retry_after=90)
    async with world.running():
        world.sessions.want(EAST, "key")
        await asyncio.sleep(89)
        assert len(world.probes(EAST)) == 1
        await asyncio.sleep(2)
        assert len(world.probes(EAST)) == 2


async def test_a_connection_that_does_not_close_is_left_behind_after_a_while(world):
    async def never():
        await asyncio.sleep(1e9)

    async with world.running():
        left = asyncio.all_tasks()
        world.sessions.want(EAST, "key")
        await asyncio.sleep(1)
        world.lines[EAST][0][1].close = never
        world.sessions.drop(EAST)
        await asyncio.sleep(4)
        assert asyncio.all_tasks() != left
        await asyncio.sleep(2)
        assert asyncio.all_tasks() == left


async def test_credentials_that_are_no_longer_accepted_end_a_session_at_the_first_probe(world):
    async with world.running():
        world.sessions.want(EAST, "key")
        await asyncio.sleep(1)
        world.faults[EAST] = EXPIRED
        await asyncio.sleep(11)
        assert [each[:2] for each in world.shown] == [("gained", "east"), ("lost", "east")]


async def test_a_cluster_that_is_dropped_while_its_session_ends_is_not_connected_to_again(world):
    async with world.running():
        left = asyncio.all_tasks()
        world.sessions.want(EAST, "key")
        await asyncio.sleep(1)
        world.faults[EAST] = EXPIRED
        await asyncio.wait_for(world.lost.wait(), 1000)
        world.sessions.drop(EAST)
        await asyncio.sleep(10)
        assert asyncio.all_tasks() == left


async def test_a_refusal_is_an_answer(world):
    world.toys[EAST].served = lambda path: path != "/version"
    async with world.running():
        world.sessions.want(EAST, "key")
        await asyncio.sleep(1000)
        assert world.shown == [("gained", "east")]


async def test_a_cluster_that_accepts_and_drops_us_in_turn_is_asked_ever_more_rarely(world):
    def one_probe_in_two(request):
        return EXPIRED if request.path == "/version" and len(world.probes(EAST)) % 2 == 0 else None

    def reach(cluster, credentials):
        client = world.reach(cluster, credentials)
        client.transport.choose = one_probe_in_two
        return client

    sessions = Sessions(world.clock, reach)
    world.sessions = sessions
    async with world.running():
        sessions.want(EAST, "key")
        await asyncio.sleep(1000)
        assert 10 < len(world.lines[EAST]) < 35


def many(world, fault, healthy=()):
    """Sessions with any number of clusters, of which all but the ``healthy`` have ``fault``; and when each was
    first reached for."""
    reached = {}

    def reach(cluster, _credentials):
        reached.setdefault(cluster.name, asyncio.get_running_loop().time())
        met = (lambda _: None) if cluster in healthy else fault
        return Client(Faulty(InProcess(TinyServer(world.clock).handle), world.clock, met), world.clock)

    settings = Settings(fill_seconds=5.0, pause=Curve(base=1.0, cap=1.0))
    world.sessions = Sessions(world.clock, reach, settings=settings)
    world.sessions.cache(MAPS)
    return reached


async def connected_after(sessions, cluster):
    """The seconds until there is a session."""
    loop, gained = asyncio.get_running_loop(), asyncio.Event()
    began = loop.time()

    def note(session):
        if session.cluster == cluster:
            gained.set()

    sessions.subscribe(Listener(note, lambda *_: None))
    async with asyncio.timeout(1000):
        await gained.wait()
    return loop.time() - began


async def test_few_clusters_are_connected_to_at_one_time(world):
    reached = many(world, lambda _: HANGS)
    async with world.running():
        for number in range(CONNECTS + 3):
            world.sessions.want(Key("fleet", str(number)), "key")
        await asyncio.sleep(1)
        assert len(reached) == CONNECTS
        await asyncio.sleep(1.1)
        assert len(reached) == CONNECTS + 3


def lists_hang(request):
    return HANGS if "configmaps" in request.path else None


HUNDREDS = [Key("fleet", str(number)) for number in range(5 * CONNECTS)]


@pytest.mark.parametrize(
    "fault",
    [lambda _: HANGS, lists_hang],
    ids=["answer nothing", "answer, and never list"],
)
async def test_clusters_that_fail_do_not_keep_a_new_one_waiting(world, fault):
    many(world, fault, healthy={EAST, WEST})
    async with world.running():
        for each in HUNDREDS:
            world.sessions.want(each, "key")
        world.sessions.want(EAST, "key")
        assert await connected_after(world.sessions, EAST) <= 2 * len(HUNDREDS) / CONNECTS + 1, (
            "all began at once"
        )
        await asyncio.sleep(10)
        world.sessions.want(WEST, "key")
        assert await connected_after(world.sessions, WEST) <= 2.1, "the others have failed before"


async def test_clusters_that_failed_before_have_their_turn_when_no_other_waits(world):
    healed = set()
    many(world, lambda _: None if healed else HANGS)
    some = HUNDREDS[: 3 * CONNECTS]
    async with world.running():
        for each in some:
            world.sessions.want(each, "key")
        await asyncio.sleep(30)
        healed.add("all")
        await asyncio.sleep(15)
        assert [each for each in some if not world.sessions.health(each).connected] == []


async def test_a_cluster_that_is_dropped_while_it_waits_costs_no_slot(world):
    reached = many(world, lambda _: HANGS, healthy={EAST})
    async with world.running():
        for each in HUNDREDS:
            world.sessions.want(each, "key")
        await asyncio.sleep(1)
        for each in HUNDREDS:
            world.sessions.drop(each)
        world.sessions.want(EAST, "key")
        assert await connected_after(world.sessions, EAST) <= 0.2
        assert len(reached) == CONNECTS + 1


async def test_the_end_of_the_sessions_leaves_nothing_behind(world):
    world.faults[WEST] = HANGS
    async with world.running():
        for cluster in (EAST, WEST):
            world.sessions.want(cluster, "key")
        await asyncio.sleep(1)
        session = world.sessions.get(EAST)
    assert [each[:2] for each in world.shown] == [("gained", "east"), ("lost", "east")]
    with pytest.raises(ConnectFailed):
        await session.client.list(MAPS)


async def test_a_listener_that_fails_and_a_defect_hurt_no_session(world):
    def fails(*_):
        raise RuntimeError("a listener's defect")

    world.sessions.subscribe(Listener(fails, fails))
    async with world.running():
        world.sessions.want(EAST, "key")
        await asyncio.sleep(1)
        assert world.sessions.get(EAST)


async def test_a_defect_while_connecting_is_logged_and_tried_again():
    calls = []

    def reach(cluster, _credentials):
        calls.append(cluster)
        raise RuntimeError("a defect of reach")

    world = World()
    world.sessions = Sessions(world.clock, reach)
    async with world.running():
        world.sessions.want(EAST, "key")
        await asyncio.sleep(10)
        assert len(calls) > 2
        assert world.why(EAST).endswith("a defect of ours, see the log: a defect of reach")


async def test_an_attempt_that_is_cancelled_from_inside_is_made_again():
    world = World()
    causes = [asyncio.CancelledError()]

    class Cancelled:
        async def request(self, request, *, timeout):
            raise causes.pop()

        async def close(self):
            pass

    def reach(cluster, credentials):
        return Client(Cancelled(), world.clock) if causes else world.reach(cluster, credentials)

    sessions = Sessions(world.clock, reach)
    task = asyncio.create_task(sessions.run())
    sessions.want(EAST, "key")
    await asyncio.sleep(100)
    assert sessions.get(EAST).cluster == EAST
    task.cancel()
    await asyncio.wait([task])


async def test_a_late_listener_hears_of_the_sessions_that_there_are(world):
    async with world.running():
        world.faults[WEST] = HANGS
        world.sessions.want(EAST, "key")
        world.sessions.want(WEST, "key")
        await asyncio.sleep(1)
        heard = []
        world.sessions.subscribe(Listener(lambda session: heard.append(session.cluster), lambda *_: None))
        assert heard == [EAST]


async def test_indexes_are_those_that_were_asked_for(world):
    world.sessions.cache(MAPS, {"first": lambda found: [found["metadata"]["name"][0]]})
    world.put(EAST, "apple")
    async with world.running():
        world.sessions.want(EAST, "key")
        await asyncio.sleep(1)
        informer = world.sessions.get(EAST).informer(MAPS)
        assert [each.name for each in informer.keys_by("first", "a")] == ["apple"]
        with pytest.raises(KeyError):
            world.sessions.get(EAST).informer(POD)


async def test_the_fixed_lookup_answers_the_same_session_for_every_cluster():
    async def refuses(_request):
        return Response(503)

    client = Client(InProcess(refuses), LoopClock())
    session = Session(client, None)
    fixed = Fixed(session)
    assert fixed.get(EAST) is fixed.get(WEST) is fixed.get() is session


class Looks:
    """Notes which keys were looked at, and asks for the session with the cluster of that name."""

    def __init__(self, world):
        self.world = world
        self.seen = []

    async def reconcile(self, key):
        cluster = Key("fleet", key.namespace)
        self.seen.append(key)
        self.world.sessions.get(cluster)
        return Result.done()

    def taken(self):
        seen, self.seen = sorted(str(key) for key in self.seen), []
        return seen


@asynccontextmanager
async def watching(world):
    """A controller of ``cluster/map``; the map ``main`` belongs to each cluster, whether it is there or not."""
    looks = Looks(world)
    controller = Controller("maps", looks, world.clock)
    controller.watches_in(
        world.sessions,
        MAPS,
        lambda cluster, change: [Key(cluster.name, change.key.name)],
        lambda cluster: [Key(cluster.name, "main")],
    )
    task = asyncio.create_task(controller.run())
    async with world.running():
        try:
            yield looks, controller
        finally:
            controller.close()
            await asyncio.wait([task])


async def test_a_controller_looks_again_at_what_changes_in_any_cluster(world):
    world.put(EAST, "a")
    async with watching(world) as (looks, _):
        world.sessions.want(EAST, "key")
        world.sessions.want(WEST, "key")
        await asyncio.sleep(1)
        assert looks.taken() == ["east/a", "east/main", "west/main"]
        world.put(WEST, "b")
        await asyncio.sleep(1)
        assert looks.taken() == ["west/b"]


async def test_a_controller_is_reported_of_a_cluster_that_is_gained_and_lost_and_retries_nothing_between(
    world,
):
    world.faults[EAST] = REFUSES
    async with watching(world) as (looks, controller):
        world.sessions.want(EAST, "key")
        controller.enqueue(Key("east", "main"))
        await asyncio.sleep(1000)
        assert looks.taken() == ["east/main"]
        world.faults[EAST] = None
        await asyncio.sleep(31)
        assert looks.taken() == ["east/main"]
        world.sessions.drop(EAST)
        await asyncio.sleep(1)
        assert looks.taken() == ["east/main"]
        world.put(EAST, "late")
        await asyncio.sleep(1)
        assert looks.taken() == []


async def order_of_looks(world, meanwhile):
    """The first two looks of a single worker, at ``west/urgent`` and at what ``meanwhile`` brings before it."""
    world.sessions = Sessions(world.clock, world.reach)
    looks = Looks(world)
    controller = Controller("maps", looks, world.clock, workers=1)
    controller.watches_in(
        world.sessions,
        MAPS,
        lambda cluster, change: [Key(cluster.name, change.key.name)],
        lambda cluster: [Key(cluster.name, "main")],
    )
    async with world.running():
        await meanwhile()
        await asyncio.sleep(1)
        controller.enqueue(Key("west", "urgent"))
        task = asyncio.create_task(controller.run())
        await asyncio.sleep(1)
        controller.close()
        await asyncio.wait([task])
    return [str(key) for key in looks.seen]


async def test_what_a_cluster_brings_when_it_is_connected_lets_other_keys_pass(world):
    world.put(EAST, "m")

    async def connect():
        world.sessions.want(EAST, "key")

    assert await order_of_looks(world, connect) == ["west/urgent", "east/m", "east/main"]


async def test_what_changes_in_a_cluster_later_keeps_its_place(world):
    async def change():
        world.sessions.want(EAST, "key")
        await asyncio.sleep(1)
        world.put(EAST, "m")

    assert await order_of_looks(world, change) == ["east/m", "west/urgent", "east/main"]
