"""The demo told in virtual time, in a world in memory: to its end, and cut short."""

import asyncio
import io
import re

from rich.console import Console

from kubewright.cli.demo import OPTIONS, run
from kubewright.cli.demo.stage import Stage
from kubewright.cli.demo.story import CHAPTERS
from kubewright.compose.embedded import Embedded
from kubewright.testing.clocks import LoopClock


async def tell(stop: asyncio.Event) -> tuple[bool | None, str]:
    """How the story ended, and what was on the screen."""
    screen = io.StringIO()
    stage = Stage(len(CHAPTERS), Console(file=screen, width=100, highlight=False))
    async with Embedded(None, OPTIONS, LoopClock()) as embedded:
        return await run(embedded, stop, stage), screen.getvalue()


async def test_the_story_ends_well_and_says_what_its_roll_kept() -> None:
    ended_well, screen = await tell(asyncio.Event())
    assert ended_well
    assert screen.count("done in") == len(CHAPTERS)
    ((most, fewest),) = re.findall(r"at most (\d+) machines, at least (\d+) Running", screen)
    assert int(most) <= 7
    assert int(fewest) >= 4
    assert "Nothing is left." in screen


async def test_who_asks_to_stop_is_not_told_that_it_ended() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(4, stop.set)
    ended_well, screen = await tell(stop)
    assert ended_well is None
    assert screen.count("done in") == 1
    assert "What happened" not in screen
