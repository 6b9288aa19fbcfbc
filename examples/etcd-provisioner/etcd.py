"""One etcd of one member on loopback, with its data, keys and log in a folder of its own.

Theory.      ``pid`` finds the process in /proc by the flag that names our data folder. So the provisioner
             needs to remember nothing between passes, and one that was killed finds its etcd again.
Invariants.  At most one process has the data. No method waits for etcd to start or to end: the next pass sees
             what came of it. Only ``delete`` deletes data.
"""

import asyncio
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
from contextlib import suppress
from pathlib import Path

import aiohttp
from keys import CLIENT, SERVER

HOST = "127.0.0.1"
GRACE_SECONDS = 10.0
"""From SIGTERM to SIGKILL."""
BETWEEN_STARTS = 2.0
"""Seconds from one start to the next, for an etcd that ends at once."""
HEALTH_SECONDS = 3.0
LINE_CHARS = 300


class Etcd:
    """``folder``: its own; ``program``: the path of etcd. Times are seconds of a monotonic clock."""

    def __init__(self, folder: Path, program: str) -> None:
        self.folder = folder
        self._program = program
        self._data = f"--data-dir={folder / 'data'}"
        self._started = self._asked_to_end = float("-inf")

    @property
    def port(self) -> int:
        """Where clients reach it; chosen once, since the API server is given it as a flag."""
        return self._ports()[0]

    @property
    def pid(self) -> int | None:
        """The process whose flag names our data; None: there is none."""
        with suppress(ChildProcessError):  # one of ours that has ended stays in /proc until it is waited for
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        for each in Path("/proc").iterdir():
            if each.name.isdigit():
                with suppress(OSError):
                    if os.fsencode(self._data) in (each / "cmdline").read_bytes().split(b"\0"):
                        return int(each.name)
        return None

    def start(self, now: float) -> None:
        """Start it, unless it was started a moment ago."""
        if now - self._started < BETWEEN_STARTS:
            return
        self._started = now
        client, peer = (f"https://{HOST}:{port}" for port in self._ports())
        pair, authority = self.folder / SERVER, self.folder / "authority.crt"
        flags = [
            "--name=only",
            self._data,
            *(f"--{each}={client}" for each in ("listen-client-urls", "advertise-client-urls")),
            *(f"--{each}={peer}" for each in ("listen-peer-urls", "initial-advertise-peer-urls")),
            f"--initial-cluster=only={peer}",
            *(f"--{each}={pair}" for each in ("cert-file", "key-file", "peer-cert-file", "peer-key-file")),
            *(f"--{each}={authority}" for each in ("trusted-ca-file", "peer-trusted-ca-file")),
            *("--client-cert-auth=true", "--peer-client-cert-auth=true"),
        ]
        with open(self.folder / "log", "ab") as log:
            subprocess.Popen(  # it goes on when this program ends
                [self._program, *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def end(self, now: float) -> bool:
        """Send SIGTERM, and after ``GRACE_SECONDS`` SIGKILL, a pass each; True: it has ended."""
        pid = self.pid
        if pid is None:
            self._asked_to_end = float("-inf")
            return True
        if self._asked_to_end == float("-inf"):
            self._asked_to_end = now
            os.kill(pid, signal.SIGTERM)
        elif now - self._asked_to_end > GRACE_SECONDS:
            os.kill(pid, signal.SIGKILL)
        return False

    def delete(self) -> None:
        """Delete its folder, with its data; it has ended."""
        shutil.rmtree(self.folder, ignore_errors=True)

    async def trouble(self) -> str:
        """Why it cannot be used, as the API server would see it; empty: it can."""
        as_client = ssl.create_default_context(cafile=str(self.folder / "authority.crt"))
        as_client.load_cert_chain(self.folder / CLIENT)
        timeout = aiohttp.ClientTimeout(total=HEALTH_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(f"https://{HOST}:{self.port}/health", ssl=as_client) as answer,
            ):
                health = (await answer.json(content_type=None)).get("health")
        except (OSError, TimeoutError, aiohttp.ClientError, ValueError) as error:
            return f"etcd does not answer: {type(error).__name__}; {await asyncio.to_thread(self._last_line)}"
        return "" if health == "true" else "etcd says that it is not healthy"

    def _ports(self) -> tuple[int, int]:
        file = self.folder / "ports.json"
        if not file.exists():
            with socket.socket() as one, socket.socket() as other:
                one.bind((HOST, 0))
                other.bind((HOST, 0))
                file.write_text(json.dumps([each.getsockname()[1] for each in (one, other)]))
        client, peer = json.loads(file.read_text())
        return client, peer

    def _last_line(self) -> str:
        with suppress(FileNotFoundError):
            lines = (self.folder / "log").read_text(errors="replace").splitlines()
            return lines[-1][:LINE_CHARS] if lines else "it has written nothing"
        return "it was never started"


def version(program: str) -> str:
    """The version that the program prints; blocks until it has.

    Raises:
        OSError, subprocess.SubprocessError: it cannot be run.
    """
    said = subprocess.run(
        [program, "--version"], check=True, capture_output=True, text=True, timeout=HEALTH_SECONDS * 3
    ).stdout
    return said.partition("etcd Version:")[2].split("\n")[0].strip()
