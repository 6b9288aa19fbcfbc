"""The manager under test: one that runs already, or both halves as processes that the test starts.

Theory.      MCM's own test starts the machine controller manager and the machine controller, each as a
             process with a log of its own. So do we: ``kubewright run`` twice, each with the controllers of
             one half. They are in sessions of their own, so Ctrl-C at the terminal reaches the test alone,
             and they delete what it made. A manager that runs already is used as it is, and no log of it is
             kept.
Invariants.  What is started is stopped, also when the test ends at once; and, on Linux, when it is killed,
             since the next test would find Leases that are held. A log of the run before is kept under
             another name, and one of an earlier run is overwritten.
Called by    ``run``, with programs that the command composes.
"""

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from kubewright.base.errors import InvalidInput

STOP_SECONDS = 20.0
"""How long a process may take to end when it is asked to."""

_SET_PARENT_DEATH_SIGNAL = 1
"""``PR_SET_PDEATHSIG`` of prctl(2)."""

TAIL_BYTES = 2000
"""How much of the end of a log is read to say why a process has ended."""


class Managers(Protocol):
    """The manager under test. ``starts``: the test begins and ends it."""

    @property
    def starts(self) -> bool: ...

    @property
    def told(self) -> str:
        """What is used, for the terminal."""
        ...

    async def start(self) -> None:
        """Begin, or begin again what has ended."""
        ...

    def dead(self) -> Sequence[str]:
        """What should run and does not, with why."""
        ...

    async def stop(self) -> None:
        """End what was begun."""
        ...

    def kill(self) -> None:
        """End it at once; must not wait."""
        ...


class Running:
    """A manager that runs already, and goes on."""

    starts = False
    told = "the manager that runs already is tested; its logs are where it writes them"

    async def start(self) -> None:
        """It runs."""

    def dead(self) -> Sequence[str]:
        """Whether it works is seen by what it does."""
        return ()

    async def stop(self) -> None:
        """It was not begun here."""

    def kill(self) -> None:
        """It was not begun here."""


@dataclass(frozen=True, slots=True)
class Program:
    """One process: its command, and the file that gets what it writes."""

    name: str
    command: Sequence[str]
    log: str


@dataclass(slots=True)
class Local:
    """Processes that the test starts; ``logs`` is the folder of their logs."""

    programs: Sequence[Program]
    logs: Path
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    _running: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)
    _begun: bool = False

    @property
    def starts(self) -> bool:
        return True

    @property
    def told(self) -> str:
        named = " and ".join(str(self.logs / each.log) for each in self.programs)
        return f"the manager is started here; its logs are {named}"

    async def start(self) -> None:
        """As ``Managers.start``.

        Raises:
            InvalidInput: a log cannot be written, or a program cannot be started.
        """
        for program in self.programs:
            process = self._running.get(program.name)
            if process is not None and process.returncode is None:
                continue
            path = self.logs / program.log
            try:
                self.logs.mkdir(parents=True, exist_ok=True)
                if not self._begun and path.exists():
                    path.replace(path.with_name(f"{path.name}.1"))
                self._running[program.name] = await self._started(program, path)
            except OSError as error:
                raise InvalidInput(f"cannot start {program.name}: {error}") from None
        self._begun = True

    async def _started(self, program: Program, path: Path) -> asyncio.subprocess.Process:
        with path.open("ab") as output:
            return await asyncio.create_subprocess_exec(
                *program.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self.environment,
                start_new_session=True,
                preexec_fn=partial(end_with, os.getpid()),
            )

    def dead(self) -> Sequence[str]:
        """As ``Managers.dead``."""
        found = []
        for program in self.programs:
            process = self._running.get(program.name)
            if process is not None and process.returncode is not None:
                said = last_line(self.logs / program.log)
                why = f": {said}" if said else ""
                found.append(f"{program.name} has ended with status {process.returncode}{why}")
        return found

    async def stop(self) -> None:
        """As ``Managers.stop``: they are asked to end, and killed if they do not."""
        alive = [each for each in self._running.values() if each.returncode is None]
        for process in alive:
            with suppress(ProcessLookupError):
                process.terminate()
        waits = [asyncio.ensure_future(process.wait()) for process in alive]
        if waits:
            await asyncio.wait(waits, timeout=STOP_SECONDS)
        self.kill()
        for process in alive:
            await process.wait()

    def kill(self) -> None:
        """As ``Managers.kill``: the whole session of each."""
        for process in self._running.values():
            if process.returncode is None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)


def end_with(parent: int) -> None:
    """In a process that begins: let the kernel ask it to end when its parent is killed. Only Linux can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGTERM))
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)  # it was killed before that


def last_line(path: Path) -> str:
    """The last line of a log that is not empty; nothing where it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - TAIL_BYTES))
            lines = file.read(TAIL_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
