"""``python -m bench.silent``: what clients that do not read cost the embedded server.

``kubewright up`` runs in a process of its own. First 60 watchers begin over 40 Secrets of 0.93 MiB and read
nothing, then each Secret changes three times: what counts is the server's peak of memory. Then 300 watchers
of ConfigMaps read nothing, and ConfigMaps are made one after another: what counts is the time and the CPU of
a write, beside those without any watcher.
"""

import asyncio
import base64
import json
import ssl
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp
from rich.console import Console

from bench.process import usage
from kubewright.base.clock import SystemClock
from kubewright.wire.http import JSON, MERGE_PATCH

CLOCK = SystemClock()
WATCHERS, SECRETS, SECRET_BYTES, ROUNDS = 60, 40, 731_000, 3
MANY, WRITES, SIZES = 300, 1_000, (200, 2_000, 20_000)
CORE = "/api/v1/namespaces/default"

say = Console(highlight=False).print


@dataclass(slots=True)
class Server:
    """A server, one client of it that reads, and those that do not."""

    pid: int
    port: int
    tls: ssl.SSLContext
    client: aiohttp.ClientSession
    silent: list[asyncio.StreamWriter]

    async def ask(self, method: str, path: str, body: object = None) -> bytes:
        data = None if body is None else json.dumps(body)
        headers = {"content-type": MERGE_PATCH if method == "PATCH" else JSON}
        async with self.client.request(method, path, data=data, headers=headers) as answer:
            content = await answer.read()
            assert answer.status < 300, content
            return content

    async def watch_silently(self, path: str, count: int) -> None:
        for _ in range(count):
            _, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.tls)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode())
            self.silent.append(writer)
        await CLOCK.sleep(2)

    def leave(self) -> None:
        for writer in self.silent:
            writer.transport.abort()
        self.silent.clear()


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    with TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        command = (sys.executable, "-m", "kubewright", "up", "--data-dir", str(data))
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        try:
            assert process.stdout is not None
            await process.stdout.readline()
            tls = ssl.create_default_context(cafile=data / "pki" / "ca.pem")
            tls.load_cert_chain(data / "pki" / "admin.pem")
            port = int(json.loads((data / "up.json").read_bytes())["port"])
            where = aiohttp.TCPConnector(ssl=tls)
            async with aiohttp.ClientSession(f"https://127.0.0.1:{port}", connector=where) as client:
                server = Server(process.pid, port, tls, client, [])
                yield server
                server.leave()
        finally:
            process.terminate()
            await process.wait()


async def memory(server: Server) -> None:
    blob = base64.b64encode(bytes(SECRET_BYTES)).decode()
    for number in range(SECRETS):
        body = {"metadata": {"name": f"large{number}"}, "data": {"x": blob}}
        await server.ask("POST", f"{CORE}/secrets", body)
    before = usage(server.pid)
    await server.watch_silently("/api/v1/secrets?watch=1", WATCHERS)
    begun = usage(server.pid)
    for change in range(ROUNDS * SECRETS):
        patch = {"metadata": {"labels": {"change": str(change)}}}
        await server.ask("PATCH", f"{CORE}/secrets/large{change % SECRETS}", patch)
    after = usage(server.pid)
    server.leave()
    say(
        f"{WATCHERS} silent watchers of {SECRETS} Secrets of {len(blob) / 2**20:.2f} MiB: "
        f"{before.resident:.0f} MiB before, {begun.resident:.0f} begun, {after.peak:.0f} at the most"
    )


async def writes(server: Server, name: str, size: int) -> tuple[float, float]:
    """Milliseconds and the server's CPU for each of many writes."""
    began, spent = CLOCK.monotonic(), usage(server.pid).cpu
    for number in range(WRITES):
        body = {"metadata": {"name": f"{name}{number}"}, "data": {"x": "x" * size}}
        await server.ask("POST", f"{CORE}/configmaps", body)
    took, cpu = CLOCK.monotonic() - began, usage(server.pid).cpu - spent
    return 1e3 * took / WRITES, 1e3 * cpu / WRITES


async def cost(server: Server, sizes: Sequence[int]) -> None:
    await writes(server, "warm", sizes[0])
    for size in sizes:
        alone = await writes(server, f"alone{size}-", size)
        found = json.loads(await server.ask("GET", f"{CORE}/configmaps?limit=1"))
        version = found["metadata"]["resourceVersion"]
        await server.watch_silently(f"{CORE}/configmaps?watch=1&resourceVersion={version}", MANY)
        beside = await writes(server, f"beside{size}-", size)
        server.leave()
        say(
            f"a write of {size} bytes: {alone[0]:.2f} ms, {alone[1]:.2f} of CPU; beside {MANY} silent "
            f"watchers {beside[0]:.2f} ms ({beside[0] / alone[0]:.1f} times), {beside[1]:.2f} of CPU"
        )


async def main() -> None:
    """Measure and print."""
    async with serving() as server:
        await memory(server)
    async with serving() as server:
        await cost(server, SIZES)


if __name__ == "__main__":
    asyncio.run(main())
