"""``kubewright demo``: a few machines come up, fail, scale, roll and go, shown while it happens.

Theory.      A temporary ``up`` with short time-outs, and five chapters. A chapter says what a person
             would type, does it through the API, and watches until what it promises is true.
Files        ``view``   machines, nodes and VMs counted, and what changed between two looks (pure)
             ``story``  the chapters: what each does, and when it has ended
             ``lines``  long lines, broken where a reader and a shell can follow (pure)
             ``stage``  how it is shown: line by line, and live on a terminal
"""

import asyncio
import tempfile
from datetime import timedelta
from pathlib import Path

from kubewright.base.clock import SystemClock
from kubewright.base.errors import single
from kubewright.cli.demo.stage import Stage
from kubewright.cli.demo.story import CHAPTERS, Demo, tell
from kubewright.cli.signals import run_until_signal
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import Options, ServerConfig
from kubewright.machines.machine.settings import MachineSettings

OPTIONS = Options(
    driver_options={"leaseSeconds": "2"},
    machine=MachineSettings(health_timeout=timedelta(seconds=3), report_after=timedelta(milliseconds=200)),
    grace=3.0,
)
"""Short enough for a terminal: a silent node counts as failed after seconds, not minutes."""


def demo() -> bool | None:
    """Run all chapters: whether every one ended well, or None when the user stopped the demo."""

    async def work(stop: asyncio.Event) -> bool | None:
        with tempfile.TemporaryDirectory(prefix="kubewright-demo-") as folder:
            async with Embedded(ServerConfig(Path(folder)), OPTIONS, SystemClock()) as embedded:
                return await run(embedded, stop, Stage(len(CHAPTERS)))

    return run_until_signal(work)


async def run(embedded: Embedded, stop: asyncio.Event, stage: Stage) -> bool | None:
    """Run the server and the chapters; None when the user stopped the demo."""
    over = asyncio.Event()
    try:
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(embedded.serve(over))
            telling = group.create_task(tell(Demo(embedded), stage))
            stopping = group.create_task(stop.wait())
            await asyncio.wait((telling, stopping, serving), return_when=asyncio.FIRST_COMPLETED)
            telling.cancel()
            stopping.cancel()
            await asyncio.wait((telling,))
            over.set()
    except BaseExceptionGroup as errors:
        raise single(errors) from None
    return None if telling.cancelled() else telling.result()
