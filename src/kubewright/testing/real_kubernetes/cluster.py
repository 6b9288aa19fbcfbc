"""A whole control plane in a folder: etcd, kube-apiserver and kube-controller-manager on loopback.

Theory.      Started in order, each when the one below it answers; everything secret is in the
             folder, everything written by the programs too, and the folder goes when they have
             stopped. Ports are chosen free; when another process took one in between, the whole
             start is repeated with others.
Called by    the fixtures of tests/conftest.py, the benchmark.
Continues    in ``commands`` (flags), ``process`` (starting and stopping).
"""

import shutil
import ssl
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp

from kubewright.apiserver.http.kubeconfig import render
from kubewright.base.clock import Clock
from kubewright.pki.tls import unchecked
from kubewright.testing import keys
from kubewright.testing.real_kubernetes import commands
from kubewright.testing.real_kubernetes.binaries import Binaries
from kubewright.testing.real_kubernetes.commands import Line, Options, Ports
from kubewright.testing.real_kubernetes.process import NotReady, Program, free_ports, write_private

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
