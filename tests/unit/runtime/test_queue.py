"""The work queue: cases, and random histories on virtual time."""

import asyncio
from dataclasses import dataclass, field

import looptime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.runtime.queue import OVERTAKEN_BY, Curve, Queue, QueueFull, QueueStatistics
from kubewright.testing.clocks import LoopClock
from kubewright.wire.gvk import Key

A, B, C = Key("ns", "a"), Key("ns", "b"), Key("", "c")


@pytest.fixture
def clock():
    return LoopClock()


@pytest.fixture
def queue(clock):
    return Queue(clock)


async def take(queue):
    """The next key, or a failure after a virtual hour."""
    async with asyncio.timeout(3600):
        wake = await queue.get()
    assert wake is not None
    return wake


async def test_keys_leave_in_the_order_they_came(queue):
    for key in (B, A, C, B):
        queue.add(key)
    assert [(await take(queue)).key for _ in range(3)] == [B, A, C]
    assert queue.statistics().merged == 1


async def test_an_add_during_the_run_leads_to_another_run_after_it(queue):
    queue.add(A, "first")
    assert (await take(queue)).why == "first"
    queue.add(A, "second")
    queue.add(A, "third")
    assert queue.statistics().waiting == 1
    queue.add(B)
    assert (await take(queue)).key == B
    queue.done(A)
    assert (await take(queue)).why == "second"


async def test_a_key_that_adds_itself_goes_to_the_back(queue):
    for key in (A, B):
        queue.add(key)
    queue.add((await take(queue)).key)
    queue.done(A)
    assert [(await take(queue)).key for _ in range(2)] == [B, A]


async def test_a_key_of_low_priority_lets_others_pass_but_not_for_ever(queue):
    queue.add(A, low_priority=True)
    for number in range(OVERTAKEN_BY + 2):
        queue.add(Key("", str(number)))
    order = [(await take(queue)).key for _ in range(OVERTAKEN_BY + 2)]
    assert order.index(A) == OVERTAKEN_BY


async def test_a_key_of_low_priority_that_is_asked_for_now_moves_forward_and_runs_once(queue):
    queue.add(A, low_priority=True)
    queue.add(B, low_priority=True)
    queue.add(B, "now")
    assert [(await take(queue)).key for _ in range(2)] == [B, A]
    for key in (A, B):
        queue.done(key)
    queue.add(C)
    assert (await take(queue)).key == C


async def test_of_several_delays_the_earliest_counts(queue, looptime):
    queue.add_after(A, 30)
    queue.add_after(A, 10, "sooner")
    queue.add_after(A, 20)
    assert (await take(queue)).why == "sooner"
    assert looptime == 10
    queue.done(A)
    assert queue.statistics().delayed == 0


async def test_delays_ring_in_the_order_of_their_moments(queue, looptime):
    for key, seconds in ((A, 3), (B, 1), (C, 2)):
        queue.add_after(key, seconds)
    assert [(await take(queue)).key for _ in range(3)] == [B, C, A]
    assert looptime == 3


async def test_a_pass_that_went_well_ends_the_delays_at_the_latest_from_before_it_and_no_others(
    queue, looptime
):
    """A has one from before its pass; B one that came while its pass ran; C one to the moment."""
    queue.add_after(A, 10, at_latest=True)
    queue.add_after(C, 10)
    for key in (A, B, C):
        queue.add(key)
        await take(queue)
    queue.add_after(B, 10, at_latest=True)
    for key in (A, B, C):
        queue.went_well(key)
        queue.done(key)
    assert [(await take(queue)).key for _ in range(2)] == [C, B]
    assert looptime == 10
    assert queue.statistics().delayed == 0


async def test_a_pass_that_failed_ends_no_delay(queue, looptime):
    queue.add_after(A, 10, at_latest=True)
    queue.add(A)
    await take(queue)
    queue.forget(A)
    queue.done(A)
    await take(queue)
    assert looptime == 10


async def test_two_delays_of_which_one_is_to_the_moment_are_one_to_the_moment(queue, looptime):
    queue.add_after(A, 20)
    queue.add_after(A, 10, at_latest=True)
    queue.add(A)
    await take(queue)
    queue.went_well(A)
    queue.done(A)
    await take(queue)
    assert looptime == 10


@pytest.mark.parametrize("seconds", [0, -1])
async def test_no_delay_means_now(queue, looptime, seconds):
    queue.add_after(A, seconds, "at once")
    assert (await take(queue)).why == "at once"
    assert looptime == 0


async def test_a_delay_of_less_than_a_second_is_kept(queue, looptime):
    queue.add_after(A, 0.5)
    assert (await take(queue)).why == ""
    assert looptime == 0.5


async def test_of_two_delays_to_one_moment_the_first_gives_the_reason(queue):
    queue.add_after(A, 10, "first")
    queue.add_after(A, 10, "second")
    assert queue.statistics().alarms == 1
    assert (await take(queue)).why == "first"


async def test_delays_leave_the_order_of_the_line_alone(queue):
    queue.add(A)
    queue.add(B)
    queue.add_after(Key("", "later"), 60)
    queue.add(C)
    assert [(await take(queue)).key for _ in range(3)] == [A, B, C]


async def test_a_wake_tells_how_long_its_key_stood_in_line(queue):
    queue.add(B)
    await asyncio.sleep(2)
    await take(queue)
    queue.add(A)
    await asyncio.sleep(3)
    wake = await take(queue)
    assert (wake.key, wake.why, wake.waited) == (A, "", 3.0)


async def test_a_picture_shows_who_waits_runs_and_fails_and_since_when(queue):
    assert queue.statistics() == QueueStatistics(0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, False)
    for key in (A, B, A, A, C):
        queue.add(key)
    queue.add_after(Key("", "later"), 60)
    await take(queue)
    await asyncio.sleep(3)
    await take(queue)
    queue.retry(A, at_least=200)
    queue.retry(A, at_least=200)
    await asyncio.sleep(2)
    assert queue.statistics() == QueueStatistics(
        waiting=1,
        running=2,
        delayed=2,
        alarms=2,
        failing=1,
        adds=3,
        merged=2,
        retries=2,
        longest_running=5.0,
        unfinished=7.0,
        closed=False,
    )


async def test_backoff_grows_to_its_cap_and_is_forgotten(clock):
    queue = Queue(clock, curve=Curve(base=1, cap=5, jitter=0))
    assert [queue.retry(A) for _ in range(4)] == [1, 2, 4, 5]
    queue.forget(A)
    assert queue.retry(A) == 1
    assert queue.retry(A, at_least=60) == 60


async def test_a_key_that_never_failed_may_be_forgotten(queue):
    queue.forget(A)
    assert queue.statistics().failing == 0


async def test_a_retry_comes_after_its_backoff_and_says_why(clock, looptime):
    queue = Queue(clock, curve=Curve(base=0.5, jitter=0))
    assert queue.retry(A, "it failed") == 0.5
    assert (await take(queue)).why == "it failed"
    assert looptime == 0.5
    queue.done(A)
    queue.retry(A)
    assert (await take(queue)).why == ""


def test_backoff_is_finite_after_any_number_of_failures():
    assert Curve().delay(100_000, 0.0) == Curve().cap
    assert Curve(base=1, cap=float("inf")).delay(100_000, 0.0) == 2.0**60


@given(st.integers(1, 200), st.floats(0, 1, exclude_max=True))
def test_backoff_stays_within_its_bounds(failures, chance):
    curve = Curve(base=0.1, cap=120, jitter=0.25)
    assert 0.075 <= curve.delay(failures, chance) <= 120


async def test_close_ends_waiting_workers_and_drops_what_waits(queue):
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    queue.add_after(A, 5)
    await asyncio.sleep(0)
    queue.close()
    assert await asyncio.gather(*workers) == [None, None, None]
    queue.add(B)
    queue.add_after(B, 1)
    assert await queue.get() is None
    assert queue.statistics().delayed == 0


async def test_drained_waits_for_the_running_and_only_for_them(queue, looptime):
    queue.add(A)
    queue.add(B)
    await take(queue)

    async def finish():
        await asyncio.sleep(7)
        queue.add(A)
        queue.done(A)

    task = asyncio.create_task(finish())
    queue.close()
    await queue.drained()
    assert looptime == 7
    await task


async def test_a_cancelled_worker_loses_no_key(queue):
    worker = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add(A)
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    assert (await take(queue)).key == A


async def test_a_full_queue_says_so_but_lets_a_running_key_come_back(clock):
    queue = Queue(clock, limit=2)
    queue.add(A)
    await take(queue)
    queue.add(B)
    queue.add_after(C, 9)
    with pytest.raises(QueueFull, match="holds 2 keys"):
        queue.add(Key("", "d"))
    queue.add(A)
    assert queue.retry(A) > 0


async def test_a_full_queue_takes_no_new_delay_but_an_earlier_one_of_a_key_that_it_holds(clock, looptime):
    queue = Queue(clock, limit=1)
    queue.add_after(A, 9)
    with pytest.raises(QueueFull):
        queue.add_after(B, 9)
    queue.add_after(A, 4)
    assert (await take(queue)).key == A
    assert looptime == 4


async def test_a_delay_of_a_key_that_was_running_rings_in_a_full_queue_and_so_do_those_after_it(clock):
    queue, later = Queue(clock, curve=Curve(base=1, jitter=0), limit=2), Key("", "later")
    for key in (A, later):
        queue.add(key)
        await take(queue)
    for key in (B, C):
        queue.add(key)
    queue.retry(A)
    queue.add_after(later, 9)
    for key in (A, later):
        queue.done(key)
    await asyncio.sleep(10)
    assert [(await take(queue)).key for _ in range(4)] == [B, C, A, later]


async def test_void_alarms_are_dropped_when_they_are_many_and_none_that_is_due(queue, looptime):
    alarms = []
    once = Key("", "once")
    queue.add_after(once, 5_000)
    for turn in range(500):
        for key in (A, B, C):
            queue.add_after(key, 10_000 - turn)
            alarms.append(queue.statistics().alarms)
    assert max(alarms) == 2 * 4 + 64
    assert [(await queue.get()).key for _ in range(4)] == [once, A, B, C]
    assert looptime == 10_000 - 499


async def test_void_alarms_do_not_pile_up(queue):
    for turn in range(500):
        queue.add_after(A, 10_000 - turn)
        queue.add_after(B, 0.001)
        queue.done((await take(queue)).key)
    assert queue.statistics().alarms < 200


@dataclass
class Observed:
    """What workers saw, checked against what was asked for."""

    now: object
    running: set = field(default_factory=set)
    begun: list = field(default_factory=list)


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["add", "low-priority", "after", "retry", "pass"]),
        st.sampled_from([A, B, C]),
        st.integers(0, 8),
    ),
    max_size=40,
)


@given(ACTIONS, st.integers(1, 4), st.lists(st.integers(0, 5), min_size=1, max_size=5))
def test_no_history_breaks_the_promises(actions, workers, work_times):
    with looptime_runner() as runner:
        runner.run(_history(actions, workers, work_times))


async def _history(actions, workers, work_times):
    """Serial per key; every request is followed by a run that begins at or after its moment, never before a
    lone delay is over; at the end nothing waits and nothing runs."""
    loop = asyncio.get_running_loop()
    queue, seen = Queue(LoopClock(), curve=Curve(base=1, cap=4)), Observed(loop.time)
    requests = []

    async def work(number):
        turn = number
        while (wake := await queue.get()) is not None:
            assert wake.key not in seen.running, "one key runs twice at once"
            seen.running.add(wake.key)
            seen.begun.append((loop.time(), wake.key))
            await asyncio.sleep(work_times[turn % len(work_times)])
            turn += workers
            seen.running.discard(wake.key)
            queue.done(wake.key)

    crew = [asyncio.create_task(work(number)) for number in range(workers)]
    for verb, key, seconds in actions:
        now = loop.time()
        match verb:
            case "add" | "low-priority":
                queue.add(key, low_priority=verb == "low-priority")
                requests.append((key, now, now))
            case "after":
                queue.add_after(key, seconds)
                requests.append((key, now, now + seconds))
            case "retry":
                requests.append((key, now, now + queue.retry(key)))
            case "pass":
                await asyncio.sleep(seconds)
    await asyncio.sleep(2000)
    _judge(requests, seen.begun, queue.statistics())
    queue.close()
    await asyncio.gather(*crew)


def _judge(requests, begun, statistics):
    assert (statistics.waiting, statistics.running, statistics.delayed) == (0, 0, 0)
    for key, asked, _due in requests:
        assert any(k == key and at >= asked for at, k in begun), "an add was lost"
    for at, key in begun:
        due = [due for k, _asked, due in requests if k == key]
        assert min(due) <= at + 1e-5, "a delay ended early"


def looptime_runner():
    return asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(start=0, noop_cycles=1))
