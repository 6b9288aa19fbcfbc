"""SIGINT and SIGTERM as an event: the first sets it, the second ends the process at once."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


def run_until_signal(work: Callable[[asyncio.Event], Awaitable[T]]) -> T:
    """Run ``work(stop)`` in a new event loop; ``stop`` is set by the first SIGINT or SIGTERM."""
    return asyncio.run(_guarded(work))


async def _guarded(work: Callable[[asyncio.Event], Awaitable[T]]) -> T:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def asked() -> None:
        stop.set()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)  # the next one ends the process at once

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked)
    return await work(stop)
