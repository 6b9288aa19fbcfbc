"""``kubewright down``: end the ``up`` that serves a data folder, and say so."""

import asyncio
from datetime import timedelta
from pathlib import Path

from kubewright.base.clock import SystemClock
from kubewright.base.errors import InvalidInput, KubewrightError
from kubewright.compose.standing import end, serving


class StillRunning(KubewrightError):
    """The process did not end in time."""


def down(data_dir: Path, timeout: timedelta) -> str:
    """End the process that serves the folder; returns a sentence about what was done.

    Raises:
        InvalidInput: there is no such folder, or its process cannot be ended from here.
        StillRunning: it had not ended after ``timeout``.
    """
    pid = serving(data_dir)
    if pid is None:
        return f"nothing is running on {data_dir}"
    if pid == 0:
        raise InvalidInput(
            f"{data_dir} is served by a process that cannot be seen from here, in another container perhaps; "
            "end it there"
        )
    return asyncio.run(_ended(data_dir, pid, timeout.total_seconds()))


async def _ended(data_dir: Path, pid: int, seconds: float) -> str:
    clock = SystemClock()
    began = clock.monotonic()
    if not await end(data_dir, pid, clock, seconds):
        raise StillRunning(
            f"process {pid} was asked to end {seconds:g} s ago and still serves {data_dir}; wait, or end it "
            f"with kill -KILL {pid}, which loses nothing that was acknowledged"
        )
    return f"process {pid} on {data_dir} has ended, after {clock.monotonic() - began:.1f} s; all data is kept"
