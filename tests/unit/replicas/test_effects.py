"""Many requests of one pass: how many are under way at once, which are never sent, and in which order they fail."""

import asyncio
from collections.abc import Sequence

import pytest

from kubewright.base.errors import KubewrightError
from kubewright.replicas.writes import run_parallel, slow_start
from kubewright.runtime.kernel import MAX_IN_FLIGHT
from kubewright.testing.clocks import LoopClock


class Server:
    """Answers each request in a later turn. ``broken``: what it refuses; ``most``: the most that were under way."""

    def __init__(self, *broken: int) -> None:
        self.broken = broken
        self.clock = LoopClock()
        self.asked: list[int] = []
        self.under_way = self.most = self.cancelled = 0

    async def effect(self, item: int) -> KubewrightError | None:
        self.asked.append(item)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            for _ in range(3 - item % 3):  # the first is not the first to be answered
                await self.clock.sleep(0)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.under_way -= 1
        return KubewrightError(str(item)) if item in self.broken else None


def texts(errors: Sequence[KubewrightError]) -> list[str]:
    return [str(each) for each in errors]


@pytest.mark.parametrize(
    ("count", "most"), [(0, 0), (1, 1), (5, 5), (MAX_IN_FLIGHT, 32), (MAX_IN_FLIGHT + 1, 32), (100, 32)]
)
async def test_all_are_sent_and_only_so_many_are_under_way_at_once(count, most):
    server = Server()
    assert await run_parallel(range(count), server.effect) == []
    assert (sorted(server.asked), server.most, server.under_way) == (list(range(count)), most, 0)


async def test_errors_come_in_the_order_of_the_items_whichever_is_answered_first():
    server = Server(0, 2, 40)
    assert texts(await run_parallel(range(50), server.effect)) == ["0", "2", "40"]
    assert len(server.asked) == 50, "the failure of one does not stop the others"


async def test_the_error_of_a_single_one_is_told():
    assert texts(await run_parallel([7], Server(7).effect)) == ["7"]


async def test_batches_double_while_all_is_well():
    server = Server()
    assert await slow_start(range(20), server.effect) == []
    assert server.asked == sorted(server.asked)
    assert (len(server.asked), server.most) == (20, 8)  # 1, 2, 4, 8, and 5 that are left


@pytest.mark.parametrize(
    ("broken", "sent", "told"),
    [((0,), 1, ["0"]), ((1,), 3, ["1"]), ((2,), 3, ["2"]), ((4, 6), 7, ["4", "6"]), ((19,), 20, ["19"])],
)
async def test_the_first_batch_with_an_error_is_the_last(broken, sent, told):
    server = Server(*broken)
    assert texts(await slow_start(range(20), server.effect)) == told
    assert sorted(server.asked) == list(range(sent))


@pytest.mark.parametrize("count", [1, 50])
async def test_a_cancelled_call_leaves_nothing_under_way(count):
    server = Server()
    call = asyncio.create_task(run_parallel(range(count), server.effect))
    await server.clock.sleep(0)
    await server.clock.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (server.under_way, server.cancelled) == (0, min(count, MAX_IN_FLIGHT))
