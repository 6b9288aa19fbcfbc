"""One program of the real Kubernetes: started, asked whether it is ready, stopped by its own id.

Theory.      The process is an ordinary child, not tied to an event loop, so that a fixture of a
             whole test session can hold it while every test has a loop of its own. Waiting is
             polling with a deadline; a program that ends early fails the wait at once, with
             the last lines of what it wrote. A keeper, a shell that waits for the end of a pipe,
             ends the program when we die without stopping it, however that happens. Both are in
             sessions of their own: a signal to our whole group, Ctrl-C or the end of ``timeout``,
             reaches us alone, and it is we who stop the programs, in their order.
Invariants.  Only processes that were started here are signalled, each by its id.
Called by    ``cluster``; the benchmark, for the keeper.
"""

import asyncio
import os
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


class Keeper:
    """Ends process ``pid`` with SIGKILL when this process ends, in whatever way, before ``dismiss``."""

    def __init__(self, pid: int) -> None:
        self._shell = subprocess.Popen([*KEEPER, str(pid)], stdin=subprocess.PIPE, start_new_session=True)

    def dismiss(self) -> None:
        """Leave the process alone from now on; to be called while its id is still its own."""
        self._shell.kill()
        self._shell.wait()
        if self._shell.stdin:
            self._shell.stdin.close()


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
                start_new_session=True,
            )
        self._keeper = Keeper(self._child.pid)

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
        await asyncio.to_thread(self._keeper.dismiss)  # first: a process that is gone leaves its id to others
        if self.is_running():
            self._child.kill()
        await asyncio.to_thread(self._child.wait)

    def last_lines(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return "\n".join(lines[-LOG_LINES:])


def free_ports(count: int) -> list[int]:
    """Different ports of 127.0.0.1 that were free just now; another process may still take one first."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def write_private(path: Path, content: bytes) -> None:
    """Write a file that did not exist, for its owner only."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
