"""SIGINT and SIGTERM as an event: the first asks to stop, the second stops waiting for it."""

import asyncio
import signal
from collections.abc import Awaitable, Callable


def run_until_signal(work: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run ``work(stop)`` in a new event loop; ``stop`` is set by the first SIGINT or SIGTERM."""
    asyncio.run(_guarded(work))


async def _guarded(work: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def asked() -> None:
        stop.set()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)  # the next one ends the process at once

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked)
    await work(stop)
