"""The delay queue: when a key is looked at, by whom, and never by two at once."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from kubewright.providers.sim.delay_queue import DelayQueue
from kubewright.testing.clocks import LoopClock


async def test_keys_come_in_the_order_of_their_times() -> None:
    queue: DelayQueue[str] = DelayQueue(clock := LoopClock())
    for key, due in (("b", 5.0), ("a", 9.0), ("c", 1.0)):
        queue.at(key, due)
    assert [(await queue.take(), clock.monotonic()) for _ in range(3)] == [
        ("c", 1.0),
        ("b", 5.0),
        ("a", 9.0),
    ]


async def test_the_earliest_time_counts_also_while_a_worker_waits() -> None:
    queue: DelayQueue[str] = DelayQueue(clock := LoopClock())
    queue.at("a", 100.0)
    waiting = asyncio.ensure_future(queue.take())
    await asyncio.sleep(1)
    queue.at("a", 3.0)
    queue.at("a", 50.0)
    assert (await waiting, clock.monotonic()) == ("a", 3.0)


async def test_a_key_that_a_worker_has_is_given_to_no_other_and_its_times_are_kept() -> None:
    queue: DelayQueue[str] = DelayQueue(clock := LoopClock())
    queue.soon("a")
    assert await queue.take() == "a"
    queue.soon("a")
    second = asyncio.ensure_future(queue.take())
    await asyncio.sleep(5)
    assert not second.done()
    queue.done("a", 60.0)
    assert (await second, clock.monotonic()) == ("a", 5.0)


async def test_a_dropped_key_is_not_looked_at() -> None:
    queue: DelayQueue[str] = DelayQueue(LoopClock())
    queue.soon("a")
    queue.at("b", 1.0)
    queue.drop("a")
    assert await queue.take() == "b"
    assert len(queue) == 0


async def test_idle_waits_for_the_worker_that_has_a_key() -> None:
    queue: DelayQueue[str] = DelayQueue(clock := LoopClock())
    await queue.idle("a")
    queue.soon("a")
    await queue.take()
    waiting = asyncio.ensure_future(queue.idle("a"))
    await asyncio.sleep(2)
    queue.done("a", None)
    await waiting
    assert clock.monotonic() == 2


_steps = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20), st.integers(0, 3)), max_size=30)


@given(_steps)
async def test_every_key_is_taken_when_it_is_due_and_by_one_worker(
    steps: list[tuple[str, int, int]],
) -> None:
    queue: DelayQueue[str] = DelayQueue(clock := LoopClock())
    holding: set[str] = set()
    served: dict[str, float] = {}
    asked: dict[str, float] = {}

    async def work() -> None:
        while True:
            key = await queue.take()
            assert key not in holding
            holding.add(key)
            served[key] = clock.monotonic()
            await clock.sleep(0.5)
            holding.remove(key)
            queue.done(key, None)

    workers = [asyncio.ensure_future(work()) for _ in range(3)]
    for key, delay, pause in steps:
        queue.at(key, clock.monotonic() + delay)
        asked[key] = clock.monotonic()
        await clock.sleep(pause)
    await clock.sleep(60)
    for worker in workers:
        worker.cancel()
    ends = await asyncio.gather(*workers, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ends)
    assert len(queue) == 0
    assert all(served[key] >= moment for key, moment in asked.items())
