"""A whole control plane in a folder: etcd, kube-apiserver and kube-controller-manager on loopback.

Theory.      Started in order, each when the one below it answers; everything secret is in the
             folder, everything written by the programs too, and the folder goes when they have
             stopped. Ports are chosen free; when another process took one in between, the whole
             start is repeated with others.
Called by    the fixtures of tests/conftest.py, the benchmark.
Continues    in ``commands`` (flags), ``Process`` (starting and stopping).
"""

import asyncio
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp

from kubewright.apiserver.http.kubeconfig import render
from kubewright.base.clock import Clock
from kubewright.base.errors import KubewrightError
from kubewright.pki.tls import unchecked
from kubewright.testing import keys
from kubewright.testing.real_kubernetes import commands
from kubewright.testing.real_kubernetes.binaries import Binaries
from kubewright.testing.real_kubernetes.commands import Line, Options, Ports

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


MANAGER = ("system:kube-controller-manager", "system:masters")
KUBELETS_CLIENT = ("kube-apiserver-kubelet-client", "system:masters")
READY_SECONDS = 60.0
PROBE = aiohttp.ClientTimeout(total=2.0)
STARTS = 3


class RealKubernetes:
    """``async with RealKubernetes(find(), clock) as real``: ready inside, stopped and gone after.

    ``url`` is the API server's, ``kubeconfig`` the path of a kubeconfig with inline credentials of
    a cluster admin, ``folder`` holds the programs' logs until the end.
    """

    def __init__(self, binaries: Binaries, clock: Clock, options: Options | None = None) -> None:
        self.binaries = binaries
        self.folder = Path()
        self.url = ""
        self._clock = clock
        self._options = options or Options()
        self._keys = keys.in_memory(clock, *filter(None, [self._options.reached_at]))
        self._programs: list[Program] = []

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "admin.kubeconfig"

    @property
    def reached_at(self) -> str:
        """The URL by which machines reach it."""
        return f"https://{self._options.reached_at}:{self.url.rpartition(':')[2]}"

    @property
    def authority(self) -> bytes:
        """The certificate by which all know it, PEM."""
        return self._keys.authority

    @property
    def pids(self) -> dict[str, int]:
        """Process ids by program name, for measurements."""
        return {program.name: program.pid for program in self._programs}

    def kubeconfig_for(self, user: str, *groups: str) -> bytes:
        """A kubeconfig with a fresh client certificate for ``user``."""
        return render(self.url, self._keys.authority, self._keys.issue(user, *groups))

    async def start(self) -> Self:
        """Start everything and wait until it answers; ``stop`` must follow.

        Raises:
            NotReady: a program ended or was not ready in time, three times in a row.
        """
        for attempt in range(1, STARTS + 1):
            try:
                await self._start_once()
                return self
            except BaseException as error:
                await self.stop()
                if not isinstance(error, NotReady) or attempt == STARTS:
                    raise
        raise AssertionError("unreachable")

    async def stop(self) -> None:
        """Stop what was started, last first, and remove the folder. Harmless when repeated."""
        while self._programs:
            await self._programs.pop().stop()
        if self.folder != Path():
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = Path()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _start_once(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="kubewright-real-"))
        ports = Ports(*free_ports(5))
        self.url = f"https://127.0.0.1:{ports.apiserver}"
        self._write_identities()
        async with AsyncExitStack() as stack:
            http = await stack.enter_async_context(aiohttp.ClientSession(timeout=PROBE))
            probe = _Probe(http, self._keys.client_context())
            await self._run(commands.etcd, ports, probe, f"http://127.0.0.1:{ports.etcd}/readyz")
            await self._run(commands.apiserver, ports, probe, f"{self.url}/readyz")
            health = "https://127.0.0.1:{}/healthz".format
            await self._run(commands.controller_manager, ports, probe, health(ports.manager))
            if self._options.scheduler:
                await self._run(commands.scheduler, ports, probe, health(ports.scheduler))

    async def _run(self, command: Line, ports: Ports, probe: "_Probe", ready: str) -> None:
        words = command(self.binaries, self.folder, ports, self._options)
        program = Program(words, self.folder / f"{command.__name__}.log", self._clock)
        self._programs.append(program)
        await program.wait_until(lambda: probe.answers(ready), READY_SECONDS)

    def _write_identities(self) -> None:
        server = self._keys.server
        files = {
            "ca.crt": self._keys.authority,
            "ca.key": self._keys.signer.key,
            "server.crt": server.certificate,
            "server.key": server.key,
            "admin.kubeconfig": render(self.url, self._keys.authority, self._keys.admin),
            "manager.kubeconfig": self.kubeconfig_for(*MANAGER),
        }
        if self._options.reached_at:
            client = self._keys.issue(*KUBELETS_CLIENT)
            files |= {"kubelets.crt": client.certificate, "kubelets.key": client.key}
        for name, content in files.items():
            write_private(self.folder / name, content)


class _Probe:
    """Asks a program whether it is ready."""

    def __init__(self, http: aiohttp.ClientSession, tls: ssl.SSLContext) -> None:
        self._http = http
        self._tls = tls
        self._unverified = unchecked()

    async def answers(self, url: str) -> bool:
        # The controller manager signs its health page itself; nothing secret goes there.
        tls = self._unverified if url.endswith("/healthz") else self._tls
        try:
            async with self._http.get(url, ssl=tls) as answer:
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False
