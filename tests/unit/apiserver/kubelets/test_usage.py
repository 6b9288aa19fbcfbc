"""When kubelets are asked what is used, and for how long one that does not answer is waited for. Virtual time."""

import asyncio

import pytest

from kubewright.apiserver.http import usage
from kubewright.apiserver.http.dialing import Dialer
from kubewright.apiserver.http.kubelet_requests import Kubelet
from kubewright.apiserver.http.usage import Summary, Usage
from kubewright.testing.clocks import LoopClock
from kubewright.wire.errors import ServerError


class Asked(Dialer):
    """Answers without connections. ``slow``: nodes whose kubelets do not answer."""

    def __init__(self, *slow: str) -> None:
        super().__init__()
        self.slow, self.asked = slow, list[str]()
        self.at_once = self.most_at_once = 0

    async def whole(self, kubelet: Kubelet, path: str, most: int) -> bytes:
        assert (path, most) == (usage.PATH, usage.SUMMARY_BYTES)
        self.asked.append(kubelet.node)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if kubelet.node in self.slow:
                await asyncio.Event().wait()
            if kubelet.node == "broken":
                raise ServerError("it is broken")
            return b'{"node":{"cpu":{"time":"2026-11-27T12:00:00Z","usageNanoCores":1},"memory":{"workingSetBytes":1}}}'
        finally:
            self.at_once -= 1


def kubelets(*names: str) -> list[Kubelet]:
    return [Kubelet(name, "10.0.0.1", 10250) for name in names]


@pytest.fixture
def clock() -> LoopClock:
    return LoopClock()


async def test_a_summary_is_good_for_a_moment(clock: LoopClock) -> None:
    room, dialer = Usage(clock), Asked()
    for _ in range(3):
        assert (await room.of(kubelets("a"), dialer))["a"].node.usage == {"cpu": "1n", "memory": "0Ki"}
    await clock.sleep(usage.FRESH_SECONDS)
    await room.of(kubelets("a"), dialer)
    assert dialer.asked == ["a", "a"]


async def test_a_kubelet_that_does_not_answer_costs_its_own_time_only(clock: LoopClock) -> None:
    room, dialer = Usage(clock), Asked("slow")
    began = clock.monotonic()
    found = await room.of(kubelets("a", "slow", "broken"), dialer)
    assert clock.monotonic() - began == usage.KUBELET_SECONDS
    assert {name: each.node.usage is not None for name, each in found.items()} == {
        "a": True,
        "slow": False,
        "broken": False,
    }
    await room.of(kubelets("slow"), dialer)
    assert dialer.asked == ["a", "slow", "broken"]  # that it says nothing is good for a moment too


async def test_a_thousand_that_do_not_answer_end_in_time(clock: LoopClock) -> None:
    names = [f"n{number}" for number in range(1000)]
    room, dialer = Usage(clock), Asked(*names)
    began = clock.monotonic()
    found = await room.of(kubelets(*names), dialer)
    assert clock.monotonic() - began == usage.ALL_SECONDS
    assert all(each == Summary() for each in found.values())
    assert dialer.most_at_once == usage.AT_ONCE
    room.close()


async def test_a_client_that_leaves_takes_no_answer_from_others(clock: LoopClock) -> None:
    room, dialer = Usage(clock), Asked("slow")
    leaves = asyncio.create_task(room.of(kubelets("a", "slow"), dialer))
    stays = asyncio.create_task(room.of(kubelets("a", "slow"), dialer))
    await clock.sleep(1)
    leaves.cancel()
    assert (await stays)["a"].node.usage is not None
    assert dialer.asked == ["a", "slow"]
