"""The loop: time jumps, order is seeded, killed processes stay dead, frozen ones wait."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

import pytest

from simulation.loop import Deadlock, Livelock, Process, SimClock, SimLoop


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    made = SimLoop(seed=7)
    yield made
    made.destroy()


def _order(seed: int) -> list[int]:
    loop, said = SimLoop(seed), []

    async def say(number: int) -> None:
        said.append(number)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(say(number))

    loop.run_until_complete(main())
    loop.destroy()
    return said


def test_the_seed_decides_which_task_runs_first() -> None:
    assert _order(1) == _order(1)
    assert sorted(_order(1)) == list(range(8))
    assert len({tuple(_order(seed)) for seed in range(5)}) == 5


def test_a_cancelled_timer_changes_no_order() -> None:
    def order(*, cancelled: bool) -> list[int]:
        loop, said = SimLoop(seed=3), []
        for number in range(8):
            loop.call_at(1.0, said.append, number)
            if cancelled:
                loop.call_at(1.0, said.append, -1).cancel()
        loop.run_until_complete(asyncio.sleep(2.0))
        loop.destroy()
        return said

    assert order(cancelled=True) == order(cancelled=False)


def test_a_group_cancels_its_tasks_in_an_order_that_no_address_decides() -> None:
    def order(ballast: int) -> list[int]:
        loop, said = SimLoop(seed=3), []
        kept: list[object] = []

        async def wait(number: int) -> None:
            try:
                await asyncio.sleep(60)
            finally:
                said.append(number)

        async def fail() -> None:
            await asyncio.sleep(1)
            raise ValueError

        async def main() -> None:
            async with asyncio.TaskGroup() as group:
                for number in range(16):
                    kept.append(bytearray(ballast * number))
                    group.create_task(wait(number))
                group.create_task(fail())

        with pytest.raises(ExceptionGroup):
            loop.run_until_complete(main())
        loop.destroy()
        return said

    assert order(0) == order(77) == order(4099)


def test_an_hour_takes_no_time(loop: SimLoop) -> None:
    clock = SimClock(loop, "test")
    began = clock.now()
    loop.run_until_complete(clock.sleep(3600))
    assert (clock.now() - began).total_seconds() == 3600
    assert clock.monotonic() == 3600


def test_a_wall_clock_jumps_alone(loop: SimLoop) -> None:
    clock = SimClock(loop, "test")
    began = clock.now()
    clock.ahead = 90.0
    assert (clock.now() - began).total_seconds() == 90
    assert clock.monotonic() == 0


def _tick(clock: SimClock, said: list[float]) -> Coroutine[Any, Any, None]:
    async def tick() -> None:
        try:
            while True:
                await clock.sleep(1)
                said.append(clock.monotonic())
        finally:
            said.append(-1.0)

    return tick()


def test_what_is_killed_says_nothing_more_not_even_finally(loop: SimLoop) -> None:
    clock, said = SimClock(loop, "test"), []
    killed = Process(loop, "killed")
    killed.spawn(_tick(clock, said))

    async def main() -> None:
        await clock.sleep(2.5)
        killed.kill()
        await clock.sleep(10)
        assert said == [1.0, 2.0]

    loop.run_until_complete(main())


def test_children_die_with_their_process(loop: SimLoop) -> None:
    clock, said = SimClock(loop, "test"), []
    killed = Process(loop, "killed")

    async def parent() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(_tick(clock, said))

    async def main() -> None:
        killed.spawn(parent())
        await clock.sleep(1.5)
        killed.kill()
        await clock.sleep(5)
        assert said == [1.0]

    loop.run_until_complete(main())


def test_what_is_frozen_goes_on_later(loop: SimLoop) -> None:
    clock, said = SimClock(loop, "test"), []
    sleeper = Process(loop, "sleeper")
    sleeper.spawn(_tick(clock, said))

    async def main() -> None:
        await clock.sleep(1.5)
        sleeper.freeze()
        await clock.sleep(10)
        assert said == [1.0]
        sleeper.thaw()
        await clock.sleep(0.1)
        assert said == [1.0, 11.5]

    loop.run_until_complete(main())


def _count_steps(loop: SimLoop, before: dict[int, Callable[[Process], None]]) -> list[str]:
    """Two processes of which one is counted; what each of them did, and when an action came between."""
    clock, said = SimClock(loop, "test"), []
    worker, other = Process(loop, "worker"), Process(loop, "other")
    worker.counted = True

    async def work(name: str) -> None:
        for number in range(3):
            said.append(f"{name} {number}")
            await clock.sleep(1)

    def step_in(act: Callable[[Process], None]) -> None:
        said.append("!")
        act(worker)

    for number, act in before.items():
        loop.before_step(number, partial(step_in, act))

    async def main() -> None:
        worker.spawn(work("worker"))
        await clock.sleep(0.5)
        other.spawn(work("other"))
        await clock.sleep(10)

    loop.run_until_complete(main())
    return said


def test_the_steps_of_a_process_are_counted(loop: SimLoop) -> None:
    _count_steps(loop, {})
    assert loop.steps == 7, "its beginning, three times a timer and a wake-up"


def test_an_action_can_come_before_any_step(loop: SimLoop) -> None:
    """The second turn of the worker needs two steps: its timer is over, and it wakes up."""
    assert _count_steps(loop, {3: lambda _worker: None})[:4] == ["worker 0", "other 0", "!", "worker 1"]


@pytest.mark.parametrize("number", [2, 3])
def test_a_process_that_is_killed_before_a_step_does_not_make_it(loop: SimLoop, number: int) -> None:
    said = _count_steps(loop, {number: Process.kill})
    assert said == ["worker 0", "other 0", "!", "other 1", "other 2"]
    assert loop.steps == number


def test_a_deadlock_is_reported(loop: SimLoop) -> None:
    with pytest.raises(Deadlock):
        loop.run_until_complete(asyncio.wait_for(_for_ever(), None))


async def _for_ever() -> None:
    await asyncio.Event().wait()


def test_a_livelock_is_reported(loop: SimLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulation.loop.TURNS_WITHOUT_TIME", 1000)

    async def circle() -> None:
        while True:  # noqa: ASYNC110 -- the very mistake that is to be caught
            await asyncio.sleep(0)

    with pytest.raises(Livelock):
        loop.run_until_complete(circle())
