"""How a command ends: by a signal, by a mistake of its user, or well.

The first SIGINT or SIGTERM is an event that a command may wait for; the second ends the process at once.
"""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import NoReturn, TypeVar

from kubewright.base.errors import KubewrightError, OnChange, Retry
from kubewright.cli.switches import Unusable

T = TypeVar("T")

REFUSED, MISTYPED = 1, 2
"""Exit statuses: what was asked for cannot be done; what was asked for cannot be understood."""
INTERRUPTED = 130
"""Exit status after Ctrl-C in a command that was not finished, as shells have it."""


class Stopped(KubewrightError):
    """The user has ended a command before it had a result, and it has said what that leaves."""

    retry: Retry = OnChange()


def ended(command: Callable[[], object], program: str) -> None:
    """Run a command; what a user may have caused ends the process with one sentence and a status."""
    try:
        command()
    except Stopped:
        sys.exit(INTERRUPTED)
    except Unusable as error:
        _fail(program, error, MISTYPED)
    except KubewrightError as error:
        _fail(program, error, REFUSED)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output (a pipe) has ended, so no message can reach it
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _fail(program: str, error: KubewrightError, status: int) -> NoReturn:
    print(f"{program}: {error}", file=sys.stderr)
    sys.exit(status)


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
