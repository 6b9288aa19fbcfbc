"""One program of the judge: started, asked whether it is ready, stopped by its own id.

Theory.      The process is an ordinary child, not tied to an event loop, so that a fixture of a
             whole test session can hold it while every test has a loop of its own. Waiting is
             polling with a deadline; a program that ends early fails the wait at once, with
             the last lines of what it wrote. A keeper, a shell that waits for the end of a pipe,
             ends the program when we die without stopping it, however that happens.
Invariants.  Only processes that were started here are signalled, each by its id.
Called by    ``cluster``.
"""

import asyncio
import socket
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from kubewright.base.clock import Clock
from kubewright.base.errors import KubewrightError

POLL_SECONDS = 0.05
STOP_SECONDS = 10.0
LOG_LINES = 15
KEEPER = ("/bin/sh", "-c", 'read -r _; kill -KILL "$0"')
"""Waits until our end of its standard input is closed, then ends the process whose id is ``$0``."""


class NotReady(KubewrightError):
    """A program ended, or did not become ready in time; the message quotes its last lines."""


class Program:
    """A child process that writes its output into ``log``."""

    def __init__(self, command: Sequence[str | Path], log: Path, clock: Clock) -> None:
        self.name = Path(command[0]).name
        self._log = log
        self._clock = clock
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
            )
        self._keeper = subprocess.Popen([*KEEPER, str(self._child.pid)], stdin=subprocess.PIPE)

    @property
    def pid(self) -> int:
        return self._child.pid

    def is_running(self) -> bool:
        return self._child.poll() is None

    async def wait_until(self, ready: Callable[[], Awaitable[bool]], seconds: float) -> None:
        """Poll ``ready`` until it says yes.

        Raises:
            NotReady: the program ended, or ``seconds`` passed.
        """
        deadline = self._clock.monotonic() + seconds
        while not await ready():
            if not self.is_running():
                raise NotReady(f"{self.name} ended with status {self._child.returncode}: {self.last_lines()}")
            if self._clock.monotonic() > deadline:
                raise NotReady(f"{self.name} was not ready after {seconds:g} s: {self.last_lines()}")
            await self._clock.sleep(POLL_SECONDS)

    async def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Ask the program to end, wait, and end it. Harmless when it has ended."""
        if self.is_running():
            self._child.terminate()
            deadline = self._clock.monotonic() + seconds
            while self.is_running() and self._clock.monotonic() < deadline:
                await self._clock.sleep(POLL_SECONDS)
        self._keeper.kill()  # first: once the program is gone, its id may belong to somebody else
        if self.is_running():
            self._child.kill()
        for ended in (self._keeper, self._child):
            await asyncio.to_thread(ended.wait)
        if self._keeper.stdin:
            self._keeper.stdin.close()

    def last_lines(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return "\n".join(lines[-LOG_LINES:])


def free_ports(count: int) -> list[int]:
    """Different ports of 127.0.0.1 that were free just now; somebody may still be quicker."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
