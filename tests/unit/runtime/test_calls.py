"""Slow calls beside the workers: one at a time for each object, with a deadline, and how each ended."""

import asyncio

import pytest

from kubewright.base.errors import InvalidInput
from kubewright.runtime.calls import Call, Calls
from kubewright.testing.clocks import LoopClock
from kubewright.wire.gvk import Key

A, B = Key("n", "a"), Key("n", "b")


class Caller:
    """Calls whose ends are heard of."""

    def __init__(self, seconds: float = 60.0) -> None:
        self.done: list[Key] = []
        clock = LoopClock()
        assert clock.monotonic() == 0.0
        self.calls: Calls[str] = Calls(clock, self.done.append, seconds=seconds)
        self.made = 0

    async def answer(self) -> str:
        self.made += 1
        await asyncio.sleep(10)
        return f"answer {self.made}"

    async def fail(self) -> str:
        raise InvalidInput("it is wrong")

    async def break_down(self) -> str:
        raise RuntimeError("s3cr3t")


async def test_a_call_runs_beside_and_is_heard_of() -> None:
    caller = Caller()
    assert caller.calls.seen(A) == Call()
    caller.calls.start(A, caller.answer)
    assert caller.calls.seen(A) == Call(running=True)
    await asyncio.sleep(11)
    assert caller.calls.seen(A) == Call(answer="answer 1", ended=10.0)
    assert caller.done == [A]


async def test_one_object_has_one_call_at_a_time_and_others_have_their_own() -> None:
    caller = Caller()
    for key in (A, A, B):
        caller.calls.start(key, caller.answer)
    await asyncio.sleep(11)
    assert (caller.made, set(caller.done), len(caller.done)) == (2, {A, B}, 2)


async def test_a_failure_keeps_the_last_answer_and_is_counted() -> None:
    caller = Caller()
    caller.calls.start(A, caller.answer)
    await asyncio.sleep(11)
    for failures in (1, 2):
        caller.calls.start(A, caller.fail)
        await asyncio.sleep(1)
        call = caller.calls.seen(A)
        assert (call.answer, call.error, call.failures) == ("answer 1", "it is wrong", failures)
    caller.calls.start(A, caller.answer)
    await asyncio.sleep(11)
    assert caller.calls.seen(A) == Call(answer="answer 2", ended=23.0)


async def test_a_defect_is_told_by_its_kind_alone() -> None:
    caller = Caller()
    caller.calls.start(A, caller.break_down)
    await asyncio.sleep(1)
    assert caller.calls.seen(A).error == "RuntimeError"


async def test_a_call_without_an_answer_ends() -> None:
    caller = Caller(seconds=5.0)
    caller.calls.start(A, caller.answer)
    await asyncio.sleep(6)
    assert caller.calls.seen(A).error == "no answer within 5 s"


async def test_the_end_of_a_call_for_what_is_gone_is_not_kept() -> None:
    caller = Caller()
    caller.calls.start(A, caller.answer)
    await asyncio.sleep(1)
    caller.calls.forget(A)
    await asyncio.sleep(11)
    assert caller.calls.seen(A) == Call()


async def test_nothing_runs_on_when_its_owner_ends() -> None:
    caller = Caller()
    owner = asyncio.create_task(caller.calls.run())
    caller.calls.start(A, caller.answer)
    await asyncio.sleep(1)
    owner.cancel()
    with pytest.raises(asyncio.CancelledError):
        await owner
    await asyncio.sleep(20)
    assert caller.done == []


async def test_a_call_that_is_cancelled_from_inside_has_failed_and_is_heard_of() -> None:
    async def cancelled_inside() -> str:
        raise asyncio.CancelledError

    caller = Caller()
    caller.calls.start(A, cancelled_inside)
    await asyncio.sleep(1)
    assert caller.calls.seen(A) == Call(ended=0.0, error="the call was cancelled from inside", failures=1)
    assert caller.done == [A]
