"""``kubewright status`` and ``down``: which process serves a data folder, what is in it, and its end."""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

from kubewright.base.clock import SystemClock, rfc3339
from kubewright.base.durations import human
from kubewright.base.errors import InvalidInput, KubewrightError
from kubewright.cli.counts import counted, ready, state
from kubewright.compose.folder import FolderStatus, end, folder_status, left_running, serving

RUNNING, UNWELL, STOPPED = 0, 1, 3
"""Exit statuses; 3 is what init scripts (LSB) answer for a program that does not run."""


def status(data_dir: Path) -> tuple[str, int]:
    """The text to print, and the exit status.

    Raises:
        InvalidInput: there is no such folder, or a file in it cannot be read.
    """
    clock = SystemClock()
    found = asyncio.run(folder_status(data_dir, clock))
    return page(found, clock.now()), exit_status(found)


def exit_status(found: FolderStatus) -> int:
    """The exit status: whether a server runs, and is ready."""
    if found.pid is None:
        return STOPPED
    return UNWELL if found.trouble else RUNNING


def page(found: FolderStatus, now: datetime) -> str:
    """The text to print: one sentence, then one line per fact."""
    facts = {"data folder": str(found.data_dir.absolute())}
    if found.address is not None:
        facts["url"] = found.address.url
        facts["kubeconfig"] = found.address.kubeconfig
    if found.pid is not None:
        facts["health"] = found.trouble or "ok"
    facts["machines"] = counted(state(machine) for machine in found.machines)
    facts["nodes"] = counted("Ready" if ready(node) else "NotReady" for node in found.nodes)
    lines = [f"  {name + ':':<13}{fact}" for name, fact in facts.items()]
    return "\n".join([_sentence(found, now), *lines])


def _sentence(found: FolderStatus, now: datetime) -> str:
    since = None if found.address is None else found.address.since
    when = "" if since is None else f" since {rfc3339(since)} ({human(now - since)} ago)"
    if found.pid is None:
        last = (
            "" if since is None else f"; it was started last at {rfc3339(since)} ({human(now - since)} ago)"
        )
        return f"kubewright is not running{last}"
    process = f"process {found.pid}" if found.pid else "in a process that cannot be seen from here"
    return f"kubewright is running{when}, {process}"


class StillRunning(KubewrightError):
    """The process did not end in time."""


def down(data_dir: Path, timeout: timedelta) -> str:
    """End the process that serves the folder; returns what was done, and which programs go on.

    Raises:
        InvalidInput: there is no such folder, or its process cannot be ended from here.
        StillRunning: it had not ended after ``timeout``.
    """
    pid = serving(data_dir)
    if pid is None:
        return "\n".join([f"nothing is running on {data_dir}", *_left(data_dir)])
    if pid == 0:
        raise InvalidInput(
            f"{data_dir} is served by a process that cannot be seen from here, in another container perhaps; "
            "end it there"
        )
    told = asyncio.run(_ended(data_dir, pid, timeout.total_seconds()))
    return "\n".join([told, *_left(data_dir)])


def _left(data_dir: Path) -> list[str]:
    """Which programs of nested control planes go on, and how a user ends them; empty: none does."""
    found = left_running(data_dir)
    if not found:
        return []
    return [
        "these programs of nested control planes go on, and the next `kubewright up` finds them:",
        *(f"  {name}, process {pid}" for name, pid in found.items()),
        "to end them for good, delete their control plane, or set its spec.asleep, before `kubewright down`; "
        "now, with",
        f"  kill {' '.join(map(str, found.values()))}",
        "and the next `up` starts them again, with their data",
    ]


async def _ended(data_dir: Path, pid: int, seconds: float) -> str:
    clock = SystemClock()
    began = clock.monotonic()
    if not await end(data_dir, pid, clock, seconds):
        raise StillRunning(
            f"process {pid} was asked to end {seconds:g} s ago and still serves {data_dir}; wait, or end it "
            f"with kill -KILL {pid}, which loses nothing that was acknowledged"
        )
    return f"process {pid} on {data_dir} has ended, after {clock.monotonic() - began:.1f} s; all data is kept"
