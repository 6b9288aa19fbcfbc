"""``kubewright demo``: the story of a few machines, told while it happens.

Theory.      A temporary ``up`` with short patience, and five chapters. A chapter says what a person
             would type, does it through the API, and watches until what it promises is true.
Files        ``view``   what the world looks like, counted (pure)
             ``story``  the chapters: what is done, and when it is done
             ``stage``  how it is shown: live on a terminal, line by line elsewhere
"""

import asyncio
import contextlib
import tempfile
from datetime import timedelta
from pathlib import Path

from kubewright.base.clock import SystemClock
from kubewright.cli.demo.stage import Stage
from kubewright.cli.demo.story import CHAPTERS, World, tell
from kubewright.cli.signals import run_until_signal
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import Options, Place
from kubewright.machines.machine.settings import MachineSettings

OPTIONS = Options(
    driver_options={"leaseSeconds": "2"},
    machine=MachineSettings(health_timeout=timedelta(seconds=3), report_after=timedelta(milliseconds=200)),
    grace=3.0,
)
"""Impatient enough for a terminal: a silent node is given up after seconds, not minutes."""


def demo() -> int:
    """Tell the story; the exit status is 0 when every chapter ended well."""
    failed: list[bool] = []

    async def work(stop: asyncio.Event) -> None:
        with tempfile.TemporaryDirectory(prefix="kubewright-demo-") as folder:
            async with Embedded(Place(Path(folder)), OPTIONS, SystemClock()) as embedded:
                failed.append(not await _told(embedded, stop))

    run_until_signal(work)
    return int(any(failed) or not failed)


async def _told(embedded: Embedded, stop: asyncio.Event) -> bool:
    """Run the world and tell the story in it, until it is over or somebody asks to stop."""
    over = asyncio.Event()
    stage = Stage(len(CHAPTERS))
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(embedded.serve(over))
        telling = group.create_task(tell(World(embedded), stage))
        stopping = group.create_task(stop.wait())
        await asyncio.wait((telling, stopping, serving), return_when=asyncio.FIRST_COMPLETED)
        if not telling.done():
            telling.cancel()
        stopping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await telling
        over.set()
    return telling.done() and not telling.cancelled() and telling.result()
