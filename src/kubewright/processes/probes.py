"""Runs the probes of a program, as a kubelet does, and counts how often each failed in a row.

Theory.      Until the startup probe has succeeded once, no other runs; readiness says whether the program can
             be used, liveness whether its process has to be replaced, each with a period of its own. A probe
             has failed when so many of its attempts in a row did (Kubernetes' failureThreshold). ``Answers``
             is pure; ``ask`` contacts the program.
Invariants.  Each attempt has a deadline. A program without a startup probe has started at once, one without
             a readiness probe is ready when it has started.
Source       S3-19; the defaults are Kubernetes'.
Called by    ``supervisor``.
"""

import asyncio
import ssl
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import aiohttp

from kubewright.pki import tls
from kubewright.processes.program import Command, Health, HttpGet, Probe, Program, TcpConnect

GOOD = range(200, 400)
KILLED_WITHIN = 1.0
"""Seconds that a command has to be gone after it was killed."""
UNPROBED = 10.0
"""Seconds between two looks at the size of the output, of a program that has no probe."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What the probes of one process came to: how often each failed in a row, and the last reason.

    ``readiness_in``, ``liveness_in``  seconds from the last round until each of the two is due
    """

    started: bool = False
    ready: bool = False
    startup_failures: int = 0
    readiness_failures: int = 0
    liveness_failures: int = 0
    readiness_in: float = 0.0
    liveness_in: float = 0.0
    message: str = ""

    def next_in(self, program: Program, before: "Answers | None") -> float:
        """Seconds until the next attempt. ``before``: the answers before the last one; None: there were none.

        The first attempt of a probe comes after its delay, the others after its period.
        """
        due = [each for each in self.to_ask(program) if each is not None]
        if not due:
            return UNPROBED
        if before is None or before.started != self.started:
            return min(each.delay for each in due)
        return due[0].period if program.startup in due else self._waits(program)

    def to_ask(self, program: Program) -> tuple[Probe | None, Probe | None, Probe | None]:
        """The startup, readiness and liveness probes of the next round: the first alone, then what is due."""
        if program.startup is not None and not self.started:
            return program.startup, None, None
        waits = self._waits(program)
        return (
            None,
            program.readiness if self.readiness_in <= waits else None,
            program.liveness if self.liveness_in <= waits else None,
        )

    def _waits(self, program: Program) -> float:
        """Seconds from the last round until the next one, of a program that has started."""
        probes = (program.readiness, self.readiness_in), (program.liveness, self.liveness_in)
        return min((seconds for probe, seconds in probes if probe is not None), default=0.0)

    def after(
        self, program: Program, startup: str | None, readiness: str | None, liveness: str | None
    ) -> "Answers":
        """These answers taken in: empty for a success, else why it failed; None: the probe was not due."""
        failed = next((each for each in (startup, readiness, liveness) if each), "")
        waited = self._waits(program)
        found = replace(
            self,
            readiness_in=_left(self.readiness_in - waited, program.readiness, readiness),
            liveness_in=_left(self.liveness_in - waited, program.liveness, liveness),
        )
        if startup is not None:
            found = replace(
                found, started=not startup, startup_failures=_in_a_row(self.startup_failures, startup)
            )
        elif program.startup is None:
            found = replace(found, started=True)
        if readiness is not None:
            row = _in_a_row(self.readiness_failures, readiness)
            enough = program.readiness is not None and row >= program.readiness.failures
            found = replace(found, readiness_failures=row, ready=not readiness or (self.ready and not enough))
        elif program.readiness is None:
            found = replace(found, ready=found.started)
        if liveness is not None:
            found = replace(found, liveness_failures=_in_a_row(self.liveness_failures, liveness))
        fails = found.readiness_failures or found.liveness_failures  # of which one may not have been asked
        return replace(found, message=failed or (self.message if fails else ""))

    def health(self, program: Program) -> Health:
        """What the worker's decision needs of them."""
        unwell = ""
        if program.startup is not None and self.startup_failures >= program.startup.failures:
            unwell = f"it did not start: {self.message}"
        elif program.liveness is not None and self.liveness_failures >= program.liveness.failures:
            unwell = f"its liveness probe fails: {self.message}"
        return Health(self.started, self.ready, unwell, self.message)


async def ask(probe: Probe, folder: Path, program: Program) -> str:
    """One attempt of a probe. Empty for a success, else why it failed, without a full stop."""
    try:
        async with asyncio.timeout(probe.timeout):
            return await _ask(probe, folder, program)
    except TimeoutError:
        return f"no answer within {probe.timeout:g} s"
    except aiohttp.ClientConnectorError as error:  # its own text shows objects of Python
        return f"no connection to {error.host}:{error.port}: {error.os_error.strerror or error.os_error}"
    except (OSError, aiohttp.ClientError) as error:
        return str(error) or type(error).__name__


async def _ask(probe: Probe, folder: Path, program: Program) -> str:
    match probe.check:
        case HttpGet(url):
            async with aiohttp.request("GET", url, ssl=_unchecked(), allow_redirects=False) as answer:
                return "" if answer.status in GOOD else f"{url} answers {answer.status}"
        case TcpConnect(host, port):
            _, writer = await asyncio.open_connection(host, port)
            writer.close()
            return ""
        case Command(argv):
            return await _run(argv, folder, program)


@cache
def _unchecked() -> ssl.SSLContext:
    """TLS that believes any certificate, as a kubelet's probes do; made once, not for each of them."""
    return tls.unchecked()


async def _run(argv: tuple[str, ...], folder: Path, program: Program) -> str:
    uid, gid = program.user or (None, None)
    process = await asyncio.create_subprocess_exec(
        *argv,
        cwd=folder,
        env=dict(program.environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        user=uid,
        group=gid,
        extra_groups=None if uid is None else [],
    )
    try:
        code = await process.wait()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError, TimeoutError):
            process.kill()
            async with asyncio.timeout(KILLED_WITHIN):
                await process.wait()  # else its transport stays open
        raise
    return "" if code == 0 else f"{argv[0]} exits with {code}"


def _left(seconds: float, probe: Probe | None, answer: str | None) -> float:
    """Seconds until a probe is due: its period if it was asked, else what is left of it."""
    return seconds if probe is None or answer is None else probe.period


def _in_a_row(before: int, answer: str) -> int:
    return before + 1 if answer else 0
