"""The demo's stories told in virtual time, in worlds in memory: to their ends, and cut short."""

import asyncio
import io
import re
from typing import Any

import pytest
from rich.console import Console

from kubewright.cli.demo import run
from kubewright.cli.demo.clusters import CLUSTERS, KINDS, NAMESPACE
from kubewright.cli.demo.machines import MACHINES
from kubewright.cli.demo.stage import Stage
from kubewright.cli.demo.story import Story
from kubewright.compose.embedded import Embedded
from kubewright.testing.clocks import LoopClock


async def tell(story: Story[Any], stop: asyncio.Event) -> tuple[bool | None, str]:
    """How the story ended, and what was on the screen."""
    async with Embedded(None, story.options, LoopClock()) as embedded:
        return await told(story, embedded, stop)


async def told(story: Story[Any], embedded: Embedded, stop: asyncio.Event) -> tuple[bool | None, str]:
    """The same, in a world whose objects can be seen afterwards."""
    screen = io.StringIO()
    stage = Stage(story.words, len(story.chapters), Console(file=screen, width=100, highlight=False))
    return await run(story, embedded, stop, stage), screen.getvalue()


@pytest.mark.parametrize(
    ("story", "most", "fewest"),
    [pytest.param(MACHINES, 7, 4, id="machines"), pytest.param(CLUSTERS, 5, 4, id="clusters")],
)
async def test_a_story_ends_well_and_says_what_its_roll_kept(
    story: Story[Any], most: int, fewest: int
) -> None:
    ended_well, screen = await tell(story, asyncio.Event())
    assert ended_well
    assert screen.count("done in") == len(story.chapters)
    ((at_most, at_least),) = re.findall(r"at most (\d+) machines, at least (\d+) Running", screen)
    assert int(at_most) <= most
    assert int(at_least) >= fewest
    assert "Nothing is left." in screen


async def test_nothing_of_the_cluster_is_left() -> None:
    async with Embedded(None, CLUSTERS.options, LoopClock()) as embedded:
        await told(CLUSTERS, embedded, asyncio.Event())
        left = {name: await embedded.client.list(kind, NAMESPACE) for name, kind in KINDS.items()}
    assert {name: found for name, found in left.items() if found} == {}


async def test_a_cluster_that_comes_up_is_told_from_its_address_to_its_workers() -> None:
    _, screen = await tell(CLUSTERS, asyncio.Event())
    told = (
        "the cluster is Provisioned",
        "3 v1.34.0 machines are Pending: their bootstrap data is awaited",
        "v1.34.0 machines are Running: their nodes have joined",
        "machines: 4 Running; nodes: 4 of 4 ready",
    )
    places = [screen.index(each) for each in told]
    assert places == sorted(places)


async def test_a_worker_that_dies_is_told_from_its_silence_to_its_replacement() -> None:
    _, screen = await tell(CLUSTERS, asyncio.Event())
    (victim,) = set(re.findall(r"(blue-workers-\S+) is Unknown: its node is silent", screen))
    told = (f"{victim} is Unknown", f"{victim} is gone", "4/5 ")
    places = [screen.index(each) for each in told]
    assert places == sorted(places)


async def test_a_cluster_comes_up_heals_rolls_and_goes_in_less_than_90_seconds() -> None:
    _, screen = await tell(CLUSTERS, asyncio.Event())
    (seconds,) = re.findall(r"all together +([\d.]+)", screen)
    assert float(seconds) < 90


async def test_who_asks_to_stop_is_not_told_that_it_ended() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(4, stop.set)
    ended_well, screen = await tell(MACHINES, stop)
    assert ended_well is None
    assert screen.count("done in") == 1
    assert "What happened" not in screen
