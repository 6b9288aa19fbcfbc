"""Informers over a failing transport, on virtual time: nothing lost, nothing asked too often."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog

from kubewright.api.kinds import dynamic
from kubewright.kube.client import Client
from kubewright.kube.errors import TimedOut
from kubewright.kube.informer import Informer, Informers
from kubewright.kube.transport import InProcess
from kubewright.testing import faults
from kubewright.testing.clocks import LoopClock
from kubewright.testing.faults import Answer, Bunch, Cut, Dice, Fault, Faulty, Lag, Lose, Say, Script, Silence
from kubewright.wire import selectors
from kubewright.wire.gvk import Key, Resource
from kubewright.wire.http import Request, Response

THING = dynamic(Resource("example.io", "v1", "things", "Thing"))
PATH = "/apis/example.io/v1/namespaces/n/things"


def thing(name: str, colour: str = "red", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "n", "labels": {"colour": colour}}, "spec": spec}


class World:
    """A toy server behind a faulty transport, a client and its informers."""

    def __init__(self, toy: Any, clock: LoopClock, script: Callable[..., Fault | None]) -> None:
        self.toy, self.clock, self.script = toy, clock, script
        self.wire = Faulty(InProcess(toy.handle), clock, script)
        self.client = Client(self.wire, clock)
        self.informers = Informers(self.client)
        self.things: Informer[dict[str, Any]] = self.informers.get(THING)

    def names(self) -> set[str]:
        return {header.key.name for header in self.things.headers()}

    def truth(self) -> set[tuple[str, str]]:
        metas = [body["metadata"] for body in self.toy.objects.values()]
        return {(meta["name"], meta["resourceVersion"]) for meta in metas}

    def held(self) -> set[tuple[str, str]]:
        return {(header.key.name, str(header.version)) for header in self.things.headers()}


@asynccontextmanager
async def world(toy: Any, clock: LoopClock, script: Callable[..., Fault | None]) -> AsyncIterator[World]:
    made = World(toy, clock, script)
    task = asyncio.create_task(made.informers.run())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.fixture
async def calm(toy, clock) -> AsyncIterator[World]:
    async with world(toy, clock, Script()) as made:
        yield made


FAULTS = {
    "410 in the status": faults.GONE,
    "410 in the body": faults.GONE_IN_STREAM,
    "502 with HTML": faults.BAD_GATEWAY,
    "503 with nothing": faults.UNAVAILABLE,
    "403": faults.FORBIDDEN,
    "end at once": Cut(),
    "a break in the middle of a line": faults.Break(),
    "a line that is no JSON": Say(b"<html>\n"),
    "silence": Silence(),
    "refused connections": Lose(),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("everything", [False, True], ids=["watches fail", "everything fails"])
async def test_a_failing_server_is_asked_slowly_and_nothing_is_missed(toy, clock, fault, everything) -> None:
    toy.put(f"{PATH}/old", thing("old"))
    toy.put(f"{PATH}/doomed", thing("doomed"))
    script = Script()
    async with world(toy, clock, script) as it:
        await it.informers.wait_synced(5)
        script.on(fault, watch=None if everything else True, times=None)
        it.wire.choose = script
        toy.put(f"{PATH}/cut", thing("cut"))  # the open watch is a good one: it tells this
        await clock.sleep(700)  # and ends; all the next ones fail
        toy.remove(f"{PATH}/doomed")
        toy.put(f"{PATH}/new", thing("new"))
        since = clock.monotonic()
        await clock.sleep(600)
        assert 3 < it.wire.count(since=since) < 300
        script.calm()
        await clock.sleep(140)  # silence is noticed after 100 s, then 30 s of pause
        assert it.held() == it.truth()
        assert it.things.statistics().trouble == ""


@pytest.mark.parametrize("seed", range(8))
async def test_after_a_storm_of_faults_cache_and_server_agree(toy, clock, seed) -> None:
    dice = Dice(seed, 0.5)
    async with world(toy, clock, dice) as it:
        for turn in range(60):
            name = f"t{clock.random.randrange(8)}"
            if f"{PATH}/{name}" in toy.objects and turn % 3 == 0:
                toy.remove(f"{PATH}/{name}")
            else:
                toy.put(f"{PATH}/{name}", thing(name, turn=turn))
            if turn % 20 == 19:
                toy.forget()
            await clock.sleep(clock.random.uniform(0, 10))
        dice.calm()
        await clock.sleep(240)
        assert it.held() == it.truth()


@pytest.mark.parametrize("fault", [Lag(3.0), Bunch(4), Silence(1), Cut(1)], ids=repr)
async def test_own_writes_show_at_once_however_late_the_watch_is(toy, clock, fault) -> None:
    async with world(toy, clock, Script().on(fault, watch=True, times=None)) as it:
        await it.informers.wait_synced(5)
        for number in range(12):
            name = f"t{number % 3}"
            key = Key("n", name)
            if it.things.header(key) is None:
                made = await it.client.create(THING, thing(name))
                assert it.things.get(key) == made
            patched = await it.client.patch(THING, key, {"spec": {"number": number}})
            assert it.things.get(key) == patched
            if number % 2:
                await it.client.delete(THING, key)
                assert it.things.get(key) is None
            await clock.sleep(0.5)
            assert (it.things.get(key) is None) == bool(number % 2)
        await clock.sleep(300)
        assert it.held() == it.truth()


async def test_a_cut_resumes_without_listing_again(toy, clock) -> None:
    async with world(toy, clock, Script().on(Cut(1), watch=True, times=50)) as it:
        await it.informers.wait_synced(5)
        for number in range(50):
            toy.put(f"{PATH}/t{number}", thing(f"t{number}"))
            await clock.sleep(2)
        await clock.sleep(60)
        assert len(it.names()) == 50
        assert it.things.statistics().lists == 1


async def test_what_is_borrowed_is_not_older_than_the_borrowing(toy, clock) -> None:
    toy.put(f"{PATH}/a", thing("a"))
    async with world(toy, clock, Script().on(Silence(0), watch=True)) as made:
        await made.informers.wait_synced(5)
        toy.put(f"{PATH}/b", thing("b"))
        await clock.sleep(1)
        assert made.names() == {"a"}
        borrowed = made.informers.borrow(made.informers.client)
        borrowed.get(THING)
        await borrowed.wait_synced(5)
        assert made.names() == {"a", "b"}


async def test_pages_are_one_list(toy, clock) -> None:
    for number in range(1_201):
        toy.put(f"{PATH}/t{number}", thing(f"t{number}"))
    async with world(toy, clock, Script()) as it:
        await it.informers.wait_synced(5)
        assert len(it.names()) == 1_201
        lists = [request for _, request in it.wire.asked if not faults.is_watch(request)]
        assert [request.param("continue") for request in lists] == ["", "500", "1000"]
        assert all(request.param("resourceVersion") == "" for request in lists)


async def test_a_list_forgotten_between_pages_is_taken_whole(toy, clock) -> None:
    for number in range(700):
        toy.put(f"{PATH}/t{number}", thing(f"t{number}"))
    served = iter([None, faults.GONE])
    async with world(toy, clock, lambda request: next(served, None)) as it:
        await it.informers.wait_synced(5)
        assert len(it.names()) == 700


async def test_a_watch_asks_for_bookmarks_and_ends_by_itself(calm) -> None:
    await calm.informers.wait_synced(5)
    await calm.clock.sleep(3_000)
    watches = [request for _, request in calm.wire.asked if faults.is_watch(request)]
    assert 5 <= len(watches) <= 11
    assert all(request.param("allowWatchBookmarks") == "true" for request in watches)
    assert len({request.param("timeoutSeconds") for request in watches}) > 3
    assert all(300 <= int(request.param("timeoutSeconds")) <= 600 for request in watches)


async def test_a_kind_that_is_not_installed_is_awaited(toy, clock) -> None:
    toy.served = lambda path: False
    async with world(toy, clock, Script()) as it:
        with pytest.raises(TimedOut, match=r"things\.example\.io not listed within 60 s: NotFound"):
            await it.informers.wait_synced(60)
        assert it.wire.count() <= 30
        toy.served = lambda path: True
        toy.put(f"{PATH}/a", thing("a"))
        await it.informers.wait_synced(5)
        assert it.names() == {"a"}


async def test_a_line_of_a_megabyte_and_a_half_is_read(calm) -> None:
    await calm.informers.wait_synced(5)
    calm.toy.put(f"{PATH}/big", thing("big", text="x" * 1_500_000))
    await calm.clock.sleep(1)
    assert calm.things.statistics().bytes > 1_500_000


async def test_an_object_made_again_under_its_name_is_two_changes(calm) -> None:
    await calm.informers.wait_synced(5)
    told = []
    calm.things.subscribe(lambda change: told.append((bool(change.old), bool(change.new))))
    calm.toy.put(f"{PATH}/a", thing("a"))
    await calm.clock.sleep(1)
    await calm.client.delete(THING, Key("n", "a"))
    await calm.client.create(THING, thing("a"))
    await calm.clock.sleep(1)
    assert told == [(False, True), (True, False), (False, True)]


async def test_a_listener_hears_what_is_there_and_then_each_change_decoded(calm) -> None:
    calm.toy.put(f"{PATH}/a", thing("a", size=1))
    await calm.clock.sleep(1)
    told = []
    stop = calm.things.subscribe(lambda change: told.append((change.before(), change.after())))
    calm.toy.put(f"{PATH}/a", thing("a", size=2))
    await calm.clock.sleep(1)
    stop()
    calm.toy.remove(f"{PATH}/a")
    await calm.clock.sleep(1)
    sizes = [tuple(side and side["spec"]["size"] for side in pair) for pair in told]
    assert sizes == [(None, 1), (1, 2)]


async def test_after_a_listener_that_raises_the_others_are_called(calm) -> None:
    await calm.informers.wait_synced(5)
    heard = []

    def bad(change: Any) -> None:
        raise RuntimeError("bad listener")

    calm.things.subscribe(bad)
    calm.things.subscribe(heard.append)
    calm.toy.put(f"{PATH}/a", thing("a"))
    await calm.clock.sleep(1)
    assert len(heard) == 1
    assert calm.things.statistics().listener_errors == 1


async def test_indexes_follow_changes(calm) -> None:
    calm.toy.put(f"{PATH}/a", thing("a", node="x"))
    await calm.clock.sleep(1)
    calm.things.index("node", lambda obj: [obj["spec"]["node"]])
    calm.toy.put(f"{PATH}/b", thing("b", node="x"))
    await calm.clock.sleep(1)
    assert [obj["metadata"]["name"] for obj in calm.things.by("node", "x")] == ["a", "b"]
    calm.toy.put(f"{PATH}/a", thing("a", node="y"))
    calm.toy.remove(f"{PATH}/b")
    await calm.clock.sleep(1)
    assert calm.things.keys_by("node", "x") == ()
    assert calm.things.keys_by("node", "y") == (Key("n", "a"),)
    assert [calm.things.count_by("node", value) for value in "xy"] == [0, 1]


async def test_lists_are_limited_by_namespace_and_labels(calm) -> None:
    calm.toy.put(f"{PATH}/a", thing("a", "red"))
    calm.toy.put(f"{PATH}/b", thing("b", "blue"))
    await calm.clock.sleep(1)
    blue = calm.things.list("n", selector=selectors.parse("colour=blue"))
    assert [obj["metadata"]["name"] for obj in blue] == ["b"]
    assert calm.things.list("elsewhere") == []


async def test_informers_are_shared_and_stop_with_their_last_holder(calm) -> None:
    again = calm.informers.get(THING)
    assert again is calm.things
    await calm.informers.wait_synced(5)
    calm.informers.release(again)
    calm.toy.put(f"{PATH}/a", thing("a"))
    await calm.clock.sleep(1)
    assert calm.names() == {"a"}
    calm.informers.release(calm.things)
    asked = calm.wire.count()
    await calm.clock.sleep(2_000)
    assert calm.wire.count() == asked
    assert calm.informers.statistics() == []
    assert calm.informers.get(THING) is not calm.things


async def test_giving_back_ends_the_borrowers_subscriptions_and_no_others(calm) -> None:
    await calm.informers.wait_synced(5)
    borrowed = calm.informers.borrow(calm.client.over(calm.client.transport, user_agent="term"))
    mine = borrowed.get(THING)
    for heard, informer in ((told := []), mine), ((others := []), calm.things):
        informer.subscribe(lambda change, heard=heard: heard.append(change.key.name))
    await borrowed.wait_synced(5)
    calm.toy.put(f"{PATH}/a", thing("a"))
    await calm.clock.sleep(1)
    borrowed.give_back()
    calm.toy.put(f"{PATH}/b", thing("b"))
    await calm.clock.sleep(1)
    assert (told, others) == (["a"], ["a", "b"])
    assert calm.names() == {"a", "b"}
    assert borrowed.statistics() == []


async def test_what_is_borrowed_is_listed_first(calm) -> None:
    """A watch that is late must not make a leader act on what was before its term."""
    await calm.informers.wait_synced(5)
    lists = calm.things.statistics().lists
    borrowed = calm.informers.borrow(calm.client)
    mine = borrowed.get(THING)
    assert not mine.synced
    await borrowed.wait_synced(5)
    assert calm.things.statistics().lists == lists + 1
    assert borrowed.get(THING) is mine
    assert calm.things.statistics().lists == lists + 1


async def test_an_informer_that_only_a_borrower_used_stops_when_given_back(calm) -> None:
    await calm.informers.wait_synced(5)
    borrowed = calm.informers.borrow(calm.client)
    borrowed.get(THING, labels="colour=red")
    await borrowed.wait_synced(5)
    assert len(calm.informers.statistics()) == 2
    borrowed.give_back()
    assert [each.scope.labels for each in calm.informers.statistics()] == [""]


async def test_a_write_of_a_borrower_is_in_the_shared_cache_when_it_returns(calm) -> None:
    await calm.informers.wait_synced(5)
    client = calm.client.over(calm.client.transport, user_agent="term")
    mine = calm.informers.borrow(client).get(THING)
    await client.create(THING, thing("a"))
    assert calm.names() == {"a"}
    assert mine.get(Key("n", "a")) is not None


async def test_a_server_that_is_away_is_logged_once_however_many_watch_it(toy, clock) -> None:
    script = Script()
    structlog.reset_defaults()
    async with world(toy, clock, script) as it:
        watching = [
            it.things,
            *(it.informers.get(THING, labels=f"colour={each}") for each in ("red", "blue")),
        ]
        await it.informers.wait_synced(5)
        with structlog.testing.capture_logs() as lines:
            script.on(Lose(), times=None)
            await clock.sleep(700)
            assert all(each.statistics().failures for each in watching)
            script.calm()
            await clock.sleep(140)
            assert not any(each.statistics().failures for each in watching)
    assert [line["event"] for line in lines] == ["cannot watch; trying again", "watching again"]


async def test_an_outage_is_over_for_a_watch_that_is_refused_after_it(toy, clock) -> None:
    script = Script()
    structlog.reset_defaults()
    async with world(toy, clock, script) as it:
        await it.informers.wait_synced(5)
        with structlog.testing.capture_logs() as lines:
            for fault in (Lose(), Answer(403), None, Lose()):
                script.calm()
                if fault is not None:
                    script.on(fault, times=None)
                await clock.sleep(700)
    told = [(line["event"], line.get("trouble", "").partition(":")[0]) for line in lines]
    assert told == [
        ("cannot watch; trying again", "ConnectFailed"),
        ("watching again", ""),
        ("cannot watch; trying again", "Forbidden"),
        ("watching again", ""),
        ("cannot watch; trying again", "ConnectFailed"),
    ]


async def test_a_stream_that_fell_silent_shows_nothing_since_it_was_last_heard(toy, clock) -> None:
    """The silence is noticed after 100 s. All of them count: the nodes' heartbeats may have been lost in them."""
    script = Script().on(Silence(after=1), watch=True)
    async with world(toy, clock, script) as it:
        await it.informers.wait_synced(5)
        await clock.sleep(20)
        toy.put(f"{PATH}/heard", thing("heard"))
        await clock.sleep(1)
        heard = clock.monotonic()
        toy.put(f"{PATH}/unheard", thing("unheard"))
        await clock.sleep(90)
        seen = it.things.visibility
        assert seen.lost_for(clock.monotonic()) == 0  # not noticed yet
        await clock.sleep(100)
        now = clock.monotonic()
        assert it.names() == {"heard", "unheard"}
        assert seen.lost_for(now) == 0
        assert seen.visible_for(now, 95) < now - heard - 95


async def test_a_stream_that_ends_in_time_was_seen_to_its_end(clock) -> None:
    """For a minute nothing was heard, and nothing was missed: the silence is no gap."""

    async def nothing() -> AsyncIterator[bytes]:
        await clock.sleep(60)
        for never in ():
            yield never

    async def answer(request: Request) -> Response:
        if request.param("watch"):
            return Response(200, stream=nothing())
        return Response(200, b'{"kind":"List","metadata":{"resourceVersion":"1"},"items":[]}')

    informers = Informers(Client(InProcess(answer), clock))
    things = informers.get(THING)
    task = asyncio.create_task(informers.run())
    await clock.sleep(330)
    statistics, now = things.statistics(), clock.monotonic()
    task.cancel()
    await asyncio.wait([task])
    assert (statistics.lists, statistics.watches) == (1, 6)
    assert things.visibility.visible_for(now, 5) == float("inf")
