"""The store: batches, compare-and-swap, snapshots, watchers, and what happens when the disk fails."""

import asyncio
import tracemalloc
import weakref
from collections.abc import Iterable, Sequence
from itertools import islice

import orjson
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from kubewright.apiserver.store import Change, Compacted, Record, Refused, Store, record_of
from kubewright.apiserver.store.history import History
from kubewright.apiserver.store.log import NoLog, Row
from kubewright.apiserver.store.watchers import ROUND, TAKEN, TAKEN_BYTES, Watcher
from kubewright.base.errors import InvalidInput

THINGS = "things"


class Recorder(NoLog):
    """Keeps the size of each batch; fails when told to."""

    def __init__(self, rows: Iterable[Row] = (), version: int = 0) -> None:
        self.batches: list[int] = []
        self.full = False
        self._rows, self._version = rows, version

    def load(self) -> tuple[int, Iterable[Row]]:
        return self._version, self._rows

    def commit(self, changes: Sequence[Change]) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        self.batches.append(len(changes))


def record(store: Store, key: str, value: int = 0, resource: str = THINGS) -> Record:
    version = store.next_version()
    data = {
        "metadata": {"name": key, "resourceVersion": str(version), "labels": {"v": str(value)}},
        "v": value,
    }
    return record_of(resource, key, version, orjson.dumps(data), data)


def put(store: Store, key: str, value: int = 0, resource: str = THINGS) -> asyncio.Future[None]:
    return store.put(record(store, key, value, resource), store.latest(resource, key))


def remove(store: Store, key: str) -> asyncio.Future[None]:
    old = store.latest(THINGS, key)
    assert old is not None
    return store.remove(record(store, key), old)


def keys(store: Store, *place: str) -> list[str]:
    return [each.key for each in store.scan(THINGS, *place)]


async def test_writes_of_one_turn_share_a_commit_and_are_answered_after_it() -> None:
    log = Recorder()
    store = Store(log)
    waiting = [put(store, f"k{n}") for n in range(5)]
    assert log.batches == []
    assert keys(store) == []
    assert store.latest(THINGS, "k0") is not None
    await asyncio.gather(*waiting)
    assert log.batches == [5]
    assert keys(store) == ["k0", "k1", "k2", "k3", "k4"]
    assert store.version == 5


async def test_a_write_sees_what_was_staged_before_it_in_the_same_batch() -> None:
    store = Store()
    first, second = put(store, "a", 1), put(store, "a", 2)
    third = remove(store, "a")
    assert store.latest(THINGS, "a") is None
    await asyncio.gather(first, second, third)
    assert store.get(THINGS, "a") is None
    assert store.version == 3


async def test_a_write_that_did_not_see_the_latest_state_is_a_mistake() -> None:
    store = Store()
    await put(store, "a")
    old = store.get(THINGS, "a")
    await put(store, "a", 1)
    with pytest.raises(AssertionError):
        store.put(record(store, "a", 2), old)


async def test_keys_are_listed_in_order_under_a_prefix_after_a_key() -> None:
    store = Store()
    await asyncio.gather(*(put(store, key) for key in ("b/2", "a/1", "b/1", "bb/1", "b/3")))
    assert keys(store) == ["a/1", "b/1", "b/2", "b/3", "bb/1"]
    assert keys(store, "b/") == ["b/1", "b/2", "b/3"]
    assert keys(store, "b/", "b/1") == ["b/2", "b/3"]
    assert keys(store, "c/") == []
    await asyncio.gather(*(put(store, key) for key in ("A", "b/10", "b/z")))
    assert keys(store)[0] == "A"
    assert keys(store, "b/", "b/1") == ["b/10", "b/2", "b/3", "b/z"]
    assert next(store.scan_at(store.version - 1, THINGS)).key == "A"


async def test_a_list_can_be_read_as_of_an_older_version() -> None:
    store = Store()
    await asyncio.gather(put(store, "a", 1), put(store, "b", 1))
    then = store.version
    await asyncio.gather(put(store, "a", 2), put(store, "c", 1), remove(store, "b"))
    was = [(each.key, each.labels["v"]) for each in store.scan_at(then, THINGS)]
    assert was == [("a", "1"), ("b", "1")]
    assert keys(store) == ["a", "c"]
    assert [each.key for each in store.scan_at(then, THINGS, "", "a")] == ["b"]
    with pytest.raises(Compacted):
        list(store.scan_at(-1, THINGS))


async def test_a_revision_tells_two_states_of_a_collection_apart() -> None:
    store = Store()
    await put(store, "a")
    await put(store, "x", resource="others")
    assert (store.revision(THINGS), store.revision("others"), store.revision("none")) == (1, 2, 0)


async def test_a_watcher_that_has_something_to_read_is_ready_at_once() -> None:
    store = Store()
    watcher = store.watch(THINGS)
    await put(store, "a")
    async with asyncio.timeout(1):
        await watcher.ready()


async def test_ending_the_watches_of_one_collection_leaves_the_others() -> None:
    store = Store()
    ended, others = store.watch(THINGS), store.watch("others")
    store.end_watches(THINGS)
    assert (ended.closed, others.closed) == (True, False)


async def test_the_log_is_checkpointed_when_nothing_was_written_for_a_while() -> None:
    moments: list[float] = []

    class Log(NoLog):
        def checkpoint(self) -> None:
            moments.append(asyncio.get_running_loop().time())

    store = Store(Log())
    await put(store, "a")
    await asyncio.sleep(1.5)
    await put(store, "b")
    await asyncio.sleep(60)
    assert moments == [4.0]


OPERATIONS = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 3)), max_size=30)


@given(OPERATIONS, st.integers(0, 30), st.sampled_from(["", "b"]))
def test_a_list_can_be_read_as_of_every_version_in_the_history(
    steps: list[tuple[str, int]], moment: int, after: str
) -> None:
    async def play() -> None:
        store, moments = Store(), {0: dict[str, str]()}
        for key, value in steps:
            if value or store.latest(THINGS, key) is None:
                await put(store, key, value)
            else:
                await remove(store, key)
            moments[store.version] = {r.key: r.labels["v"] for r in store.scan(THINGS)}
        version = min(moment, store.version)
        then = {r.key: r.labels["v"] for r in store.scan_at(version, THINGS, "", after)}
        assert then == {key: v for key, v in moments[version].items() if key > after}
        assert store.count_at(version, THINGS, "", after) == len(then)

    asyncio.run(play())


@pytest.mark.parametrize("back", [0, 1])
def test_the_beginning_of_a_list_costs_no_memory_for_the_rest_of_it(back: int) -> None:
    """So pages of a list take time in proportion to their own size, also once the collection has changed."""
    store = Store(Recorder(_rows(20_000), version=20_000))

    async def first_of_a_page() -> int:
        await put(store, "k10000")
        tracemalloc.start()
        try:
            page = list(islice(store.scan_at(store.version - back, THINGS, "", "k10000"), 10))
            left = store.count_at(store.version - back, THINGS, "", page[-1].key)
            assert (page[0].key, left) == ("k10001", 9_989)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert asyncio.run(first_of_a_page()) < 20_000


def _rows(count: int) -> Iterable[Row]:
    for n in range(count):
        yield THINGS, f"k{n:05}", n + 1, b'{"metadata":{"name":"x"}}'


async def test_a_watcher_gets_every_change_after_its_version_once_and_in_order() -> None:
    store = Store()
    await put(store, "n/a", 1)
    since = store.version
    await put(store, "n/b", 1)
    watcher = store.watch(THINGS, "n/", since)
    await asyncio.gather(put(store, "n/a", 2), put(store, "m/x"), remove(store, "n/b"))
    await put(store, "n/a", 9, "others")
    seen = [(change.new.key, change.old is None, change.gone) for change in watcher.take()]
    assert seen == [("n/b", True, False), ("n/a", False, False), ("n/b", False, True)]
    assert watcher.take() == []


async def test_a_sleeping_watcher_wakes_for_a_change_and_at_the_end() -> None:
    store = Store()
    watcher = store.watch(THINGS)
    waiting = asyncio.ensure_future(watcher.ready())
    await asyncio.sleep(0)
    assert not waiting.done()
    await put(store, "a")
    await waiting
    assert len(watcher.take()) == 1
    waiting = asyncio.ensure_future(watcher.ready())
    await asyncio.sleep(0)
    store.end_watches(THINGS)
    await waiting
    assert watcher.closed


async def test_a_watcher_that_does_not_read_is_cut_off() -> None:
    store = Store()
    watcher = store.watch(THINGS)
    for _ in range(3):
        await asyncio.gather(*(put(store, f"k{n}", n) for n in range(5_000)))
    assert watcher.take() == []
    assert watcher.closed
    await watcher.ready()


async def test_what_was_changed_before_a_watch_ended_can_still_be_taken() -> None:
    store = Store()
    watcher = store.watch(THINGS)
    await put(store, "before")
    store.end_watches(THINGS)
    await put(store, "after")
    assert [each.new.key for each in watcher.take()] == ["before"]
    assert watcher.take() == []


async def test_a_watcher_takes_a_bounded_part_at_one_time() -> None:
    store = Store()
    watcher = store.watch(THINGS)
    await asyncio.gather(*(put(store, f"k{n}") for n in range(2 * TAKEN + 1)))
    assert [len(watcher.take()) for _ in range(4)] == [TAKEN, TAKEN, 1, 0]
    large = Store()
    watcher = large.watch(THINGS)
    for n in range(5):
        data = orjson.dumps({"metadata": {"name": f"k{n}"}, "x": "x" * (TAKEN_BYTES // 2)})
        await large.put(record_of(THINGS, f"k{n}", large.next_version(), data), None)
    assert [len(watcher.take()) for _ in range(4)] == [2, 2, 1, 0]


async def test_many_that_wait_are_woken_in_rounds_with_rests_for_others_between() -> None:
    store, turns = Store(), list[str]()

    async def watch(watcher: Watcher) -> None:
        await watcher.ready()
        turns.append("watcher")

    watching = [asyncio.create_task(watch(store.watch(THINGS))) for _ in range(3 * ROUND)]
    await asyncio.sleep(0)
    await put(store, "a")
    while not all(each.done() for each in watching):
        turns.append("other")
        await asyncio.sleep(0)
    rounds = "".join(each[0] for each in turns).replace("o", " ").split()
    assert [len(each) for each in rounds] == [ROUND, ROUND, ROUND]


async def test_the_store_forgets_a_watcher_whose_watch_has_ended() -> None:
    store = Store()
    watcher, other = store.watch(THINGS), store.watch(THINGS)
    for _ in range(2):  # a second time does no harm
        store.unwatch(watcher)
    await put(store, "a")
    assert (watcher.take(), len(other.take())) == ([], 1)
    gone = weakref.ref(watcher)
    del watcher
    assert gone() is None


async def test_a_watch_from_a_version_that_never_was_is_refused() -> None:
    with pytest.raises(Compacted):
        Store().watch(THINGS, "", 1)


def change(version: int, resource: str = THINGS, size: int = 10) -> Change:
    return Change(Record(resource, f"k{version}", version, "", {}, False, b"x" * size))


def test_history_drops_changes_of_the_busiest_collection_first() -> None:
    history = History(0, most=3)
    history.append(change(1, "quiet"))
    for version in range(2, 6):
        history.append(change(version, "chatty"))
    assert [each.version for each in history.since("chatty", 3)] == [4, 5]
    with pytest.raises(Compacted):
        history.since("chatty", 2)
    assert history.since("unknown", 0) == []
    assert [each.version for each in history.since("quiet", 0)] == [1]


def test_history_is_bounded_in_bytes_but_keeps_the_newest_change() -> None:
    history = History(0, most_bytes=100)
    for version in range(1, 4):
        history.append(change(version, size=60))
    history.append(change(4, size=1_000))
    assert [each.version for each in history.since(THINGS, 3)] == [4]
    with pytest.raises(Compacted):
        history.since(THINGS, 2)


def test_history_knows_the_bytes_that_it_holds() -> None:
    history = History(0, most_bytes=100)
    for version, size in enumerate((70, 50, 50), start=1):
        history.append(change(version, size=size))
    assert [each.version for each in history.since(THINGS, 1)] == [2, 3]


def test_history_drops_changes_of_the_collection_with_most_bytes() -> None:
    history = History(0, most_bytes=100)
    for version, (resource, size) in enumerate(
        [("a", 80), ("a", 10), ("b", 20), ("c", 20), ("b", 55)], start=1
    ):
        history.append(change(version, resource, size))
    assert (history.oldest("a"), history.oldest("b"), history.oldest("c")) == (1, 3, 0)


async def test_after_a_restart_old_watches_are_compacted_and_versions_go_on() -> None:
    data = orjson.dumps({"metadata": {"name": "a", "labels": {"x": "y"}, "deletionTimestamp": "t"}})
    store = Store(Recorder([(THINGS, "a", 7, data)], version=9))
    found = store.get(THINGS, "a")
    assert found is not None
    assert (found.version, found.labels, found.deleting) == (7, {"x": "y"}, True)
    with pytest.raises(Compacted):
        store.watch(THINGS, "", 8)
    store.watch(THINGS, "", 9)
    assert store.next_version() == 10


@pytest.mark.parametrize(
    ("data", "uid", "labels", "deleting"),
    [
        pytest.param(b'{"metadata":{"name":"a"}}', "", {}, False, id="none of it"),
        pytest.param(
            b'{"metadata":{"uid":"u","labels":{"x":"y"}}}', "u", {"x": "y"}, False, id="uid, labels"
        ),
        pytest.param(b'{"metadata":{"deletionTimestamp":"t"}}', "", {}, True, id="a deletion"),
    ],
)
def test_a_record_has_what_lists_filter_by(
    data: bytes, uid: str, labels: dict[str, str], deleting: bool
) -> None:
    assert record_of(THINGS, "a", 7, data) == Record(THINGS, "a", 7, uid, labels, deleting, data)


@pytest.mark.parametrize("data", [b"{", b"[]", b"{}", b'{"metadata":5}'], ids=str)
def test_a_damaged_object_is_named(data: bytes) -> None:
    with pytest.raises(InvalidInput, match="the data file is damaged: things a"):
        Store(Recorder([(THINGS, "a", 7, data)], version=9))


async def test_a_failed_commit_refuses_its_writers_and_all_later_ones_and_shows_nothing() -> None:
    log = Recorder()
    store = Store(log)
    await put(store, "kept")
    watcher = store.watch(THINGS)
    log.full = True
    waiting = [put(store, "a"), put(store, "kept", 5)]
    with structlog.testing.capture_logs() as told:
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(outcome, Refused) for outcome in outcomes)
    assert {str(outcome) for outcome in outcomes} == {store.refusal}
    assert "No space left" in store.refusal
    assert [line["event"] for line in told] == [f"no writes any more: {store.refusal}"]
    log.full = False
    with pytest.raises(Refused):
        put(store, "b")
    assert keys(store) == ["kept"]
    assert store.version == 1
    assert watcher.take() == []


async def test_a_cancelled_caller_does_not_undo_its_write() -> None:
    store = Store()
    waiting = put(store, "a")
    waiting.cancel()
    await put(store, "b")
    assert keys(store) == ["a", "b"]


async def test_closing_commits_what_is_staged_and_refuses_what_comes_later() -> None:
    log = Recorder()
    store = Store(log)
    waiting = put(store, "a")
    store.close()
    await waiting
    assert log.batches == [1]
    with pytest.raises(Refused, match=r"^the server is shutting down$"):
        put(store, "b")


async def test_a_closed_watcher_has_not_ended_before_it_has_taken_all_that_was() -> None:
    store = Store()
    watcher = store.watch(THINGS, "n/")
    await asyncio.gather(*(put(store, f"m/{number}") for number in range(TAKEN)))
    await put(store, "n/a")
    store.end_watches(THINGS)
    assert (watcher.take(), watcher.ended) == ([], False)
    assert ([change.new.key for change in watcher.take()], watcher.ended) == (["n/a"], True)
