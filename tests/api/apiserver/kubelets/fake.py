"""A kubelet that is a few lines in this process: HTTP/1.1 over TLS, one request a connection, and what clients upgrade to.

It wants a client certificate, as a kubelet does, and shows a certificate that it has signed itself.
"""

import asyncio
import base64
import hashlib
import io
import json
import struct
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from kubewright.apiserver.http.pki import LIFETIME
from kubewright.base.clock import SystemClock
from kubewright.pki import tls
from kubewright.pki.certificates import new_authority, new_server
from kubewright.pki.facts import read_user

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
MUCH = 32 * 1024 * 1024
"""More than buffers of systems, TLS and this server are together."""

STARTING = 0.2
"""Seconds that a command takes to start. kubectl before 1.36 loses what comes before it has made its streams ("Unknown stream
id 2, discarding message")."""

STDIN, STDOUT, STDERR, ERROR, CLOSE = 0, 1, 2, 3, 255
"""Channels of ``v5.channel.k8s.io``."""


@dataclass
class Asked:
    """One request."""

    method: str
    path: str
    query: list[tuple[str, str]]
    headers: list[tuple[str, str]]
    user: str
    body: bytes = b""

    def header(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]


@dataclass
class FakeKubelet:
    """``answers``: what is answered to a path, whole; all else as a kubelet would."""

    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    answers: dict[str, bytes] = field(default_factory=dict)
    reads: bool = True
    """Whether it reads what comes on an upgraded connection."""
    pours: bool = False
    """Whether it then sends without end."""
    poured_much: asyncio.Event = field(default_factory=asyncio.Event)
    open: int = 0
    """Connections that there are."""
    lines: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)
    """What a log that is followed prints next; b"" ends it."""

    _gate: asyncio.Event = field(default_factory=asyncio.Event)
    _upgraded: asyncio.StreamWriter | None = None

    def end(self) -> None:
        """End the connection that was upgraded."""
        assert self._upgraded is not None
        self._upgraded.close()

    @asynccontextmanager
    async def serving(self, authority: bytes, certificate: bool = True) -> AsyncIterator["FakeKubelet"]:
        context = tls.server(authority, required=certificate)
        now = SystemClock().now()
        new_server(new_authority("a kubelet", now, LIFETIME), ["127.0.0.1"], now, LIFETIME).load_into(context)
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=context)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield self
            self._gate.set()
            server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            asked = await self._head(reader, writer)
            await self._answer(asked, reader, writer)
        with suppress(ConnectionError):
            writer.close()
            await writer.wait_closed()
        self.open -= 1

    async def _head(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Asked:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, target, _ = head[0].split(" ")
        url = urlsplit(target)
        headers = [(k.lower(), v.strip()) for k, _, v in (line.partition(":") for line in head[1:-2])]
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        user = read_user(shown)[0].name if shown else ""
        asked = Asked(method, url.path, parse_qsl(url.query, keep_blank_values=True), headers, user)
        if length := asked.header("content-length"):
            asked.body = await reader.readexactly(int(length[0]))
        self.asked.append(asked)
        return asked

    async def _answer(self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (fixed := self.answers.get(asked.path)) is not None:
            writer.write(fixed)
        elif upgrade := asked.header("upgrade"):
            if upgrade[0].lower() == "websocket" and "v5.channel.k8s.io" in asked.header(
                "sec-websocket-protocol"
            ):
                await self._exec(asked, reader, writer)
            else:
                await self._echo(upgrade[0], reader, writer)
        elif asked.path.startswith("/containerLogs/"):
            await self._log(asked, writer)
        else:
            shown = {
                "method": asked.method,
                "path": asked.path,
                "query": asked.query,
                "body": asked.body.decode(),
            }
            writer.write(plain(200, json.dumps(shown).encode(), "content-type: application/json"))
        with suppress(ConnectionError):
            await writer.drain()

    async def _log(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        query, container = dict(asked.query), asked.path.rpartition("/")[2]
        lines = [f"{container} {number}\n".encode() for number in range(1, 4)]
        if query.get("previous"):
            writer.write(
                plain(400, f'previous terminated container "{container}" in pod "p" not found'.encode())
            )
            return
        lines = lines[-int(query.get("tailLines", "3")) :]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
        for line in lines:
            writer.write(chunk(line))
        while query.get("follow") and (line := await self.lines.get()):
            writer.write(chunk(line))
            await writer.drain()
        writer.write(chunk(b""))

    async def _echo(self, protocol: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Another protocol: all bytes come back, in capitals."""
        head = f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: {protocol}\r\nConnection: Upgrade\r\n"
        writer.write(
            f"{head}X-Stream-Protocol-Version: v4.channel.k8s.io\r\nSet-Cookie: a=b\r\n\r\n".encode()
        )
        self._upgraded = writer
        await self._gate.wait() if not self.reads else None
        while data := await reader.read(65536):
            writer.write(data.upper())
            await writer.drain()
            poured = 0
            while self.pours:
                writer.write(data * 65536)
                await writer.drain()
                poured += 65536 * len(data)
                if poured > MUCH:
                    self.poured_much.set()

    async def _exec(self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        key = asked.header("sec-websocket-key")[0].encode()
        accept = base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest()).decode()
        head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        protocol = "Sec-WebSocket-Protocol: v5.channel.k8s.io"
        writer.write(f"{head}Sec-WebSocket-Accept: {accept}\r\n{protocol}\r\n\r\n".encode())
        channels = Channels(reader, writer)
        command = [value for key_, value in asked.query if key_ == "command"]
        await asyncio.sleep(STARTING)
        done = await self._run(command, channels)
        status = {"status": "Success"} if done else FAILED
        channels.send(ERROR, json.dumps(status).encode())
        writer.write(b"\x88\x02\x03\xe8")  # close, 1000
        await writer.drain()
        await channels.gone()

    async def _run(self, command: list[str], channels: "Channels") -> bool:
        match command:
            case ["cat"] | []:
                async for data in channels.stdin():
                    channels.send(STDOUT, data)
            case ["tar", "cf", *_, name]:
                channels.send(STDOUT, tarred(name.lstrip("/"), b"from the container\n"))
            case ["tar", *_, "xmf", "-", "-C", _] | ["tar", "-xmf", "-", "-C", _]:
                self.lines.put_nowait(b"".join([data async for data in channels.stdin()]))
            case ["fail"]:
                channels.send(STDERR, b"it failed\n")
                return False
            case _:
                channels.send(STDOUT, " ".join(command).encode() + b"\n")
        return True


FAILED = {
    "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NonZeroExitCode",
    "message": "command terminated with non-zero exit code: exit status 3",
    "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
}  # fmt: skip


class Channels:
    """Messages of a WebSocket, each with its channel."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def send(self, channel: int, data: bytes) -> None:
        payload = bytes([channel]) + data
        size = len(payload)
        head = bytes([0x82, size]) if size < 126 else b"\x82\x7e" + struct.pack(">H", size)
        self._writer.write((head if size < 65536 else b"\x82\x7f" + struct.pack(">Q", size)) + payload)

    async def stdin(self) -> AsyncIterator[bytes]:
        """Until the client closes it."""
        while True:
            kind, payload = await self._message()
            if kind == 8 or payload == bytes([CLOSE, STDIN]):
                return
            if kind == 2 and payload[:1] == bytes([STDIN]):
                yield payload[1:]

    async def gone(self) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await self._message()

    async def _message(self) -> tuple[int, bytes]:
        first, second = await self._reader.readexactly(2)
        size = second & 127
        if size == 126:
            (size,) = struct.unpack(">H", await self._reader.readexactly(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", await self._reader.readexactly(8))
        mask = await self._reader.readexactly(4) if second & 128 else b"\0\0\0\0"
        data = await self._reader.readexactly(size)
        return first & 15, bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))


def plain(code: int, body: bytes, *headers: str) -> bytes:
    """An answer that ends its connection."""
    lines = [f"HTTP/1.1 {code} Said", f"content-length: {len(body)}", "connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def tarred(name: str, content: bytes) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def summary(node: int | None, pods: dict[str, dict[str, tuple[int | None, int]]]) -> bytes:
    """A kubelet's summary: nanocores of the node, and nanocores and bytes of containers by pod."""

    def used(cores: int | None, held: int) -> dict[str, object]:
        rate = {} if cores is None else {"usageNanoCores": cores}
        return {
            "cpu": {"time": "2026-11-27T12:00:00Z", **rate},
            "memory": {"time": "2026-11-27T12:00:00Z", "workingSetBytes": held},
        }

    return json.dumps(
        {
            "node": {"nodeName": "n", **used(node, 512 * 1024 * 1024)},
            "pods": [
                {
                    "podRef": {"name": name, "namespace": "default", "uid": "u"},
                    "containers": [{"name": each, **used(*numbers)} for each, numbers in containers.items()],
                }
                for name, containers in pods.items()
            ],
        }
    ).encode()
