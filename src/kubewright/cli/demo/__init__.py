"""``kubewright demo``: machines, or a cluster, come up, fail, roll and go, shown while it happens.

Theory.      A temporary ``up`` with short time-outs, and a story of five chapters. A chapter says what a
             person would type, does it through the API, and watches until what it promises is true.
Files        ``view``       machines, nodes and VMs counted, and what changed between two looks (pure)
             ``story``      what every story has: chapters, what each does, and when it has ended
             ``machines``   the story of a few machines of ``machine.sapcloud.io``
             ``clusters``   the story of a cluster of Cluster API, and the objects of that cluster
             ``stage``      how it is shown: line by line, with long lines broken, and live on a terminal
"""

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubewright.base.clock import SystemClock
from kubewright.base.errors import InvalidInput, single
from kubewright.cli.demo.clusters import CLUSTERS
from kubewright.cli.demo.machines import MACHINES
from kubewright.cli.demo.stage import Stage
from kubewright.cli.demo.story import Story, tell
from kubewright.cli.switches import run_until_signal
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import ServerConfig

STORIES: Mapping[str, Story[Any]] = {"machines": MACHINES, "clusters": CLUSTERS}


def demo(name: str) -> bool | None:
    """Tell a story: whether every chapter ended well, or None when the user stopped the demo.

    Raises:
        InvalidInput: there is no such story.
    """
    if (story := STORIES.get(name)) is None:
        raise InvalidInput(f"no demo of {name!r}; there are: {', '.join(STORIES)}")

    async def work(stop: asyncio.Event) -> bool | None:
        with tempfile.TemporaryDirectory(prefix="kubewright-demo-") as folder:
            async with Embedded(ServerConfig(Path(folder)), story.options, SystemClock()) as embedded:
                return await run(story, embedded, stop, Stage(story.words, len(story.chapters)))

    return run_until_signal(work)


async def run(story: Story[Any], embedded: Embedded, stop: asyncio.Event, stage: Stage) -> bool | None:
    """Run the server and the chapters; None when the user stopped the demo."""
    over = asyncio.Event()
    try:
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(embedded.serve(over))
            telling = group.create_task(tell(story, embedded, stage))
            stopping = group.create_task(stop.wait())
            await asyncio.wait((telling, stopping, serving), return_when=asyncio.FIRST_COMPLETED)
            telling.cancel()
            stopping.cancel()
            await asyncio.wait((telling,))
            over.set()
    except BaseExceptionGroup as errors:
        raise single(errors) from None
    return None if telling.cancelled() else telling.result()
