"""HTTP/1.1 connections for requests that are answered whole: kept, and used for one request at a time.

Theory.      A controller sends twelve small requests for each machine of a roll. aiohttp takes 100 µs of
             processor time for one, this a quarter of that (docs/decisions/0078-the-cost-of-a-pass.md): it
             writes a head and a body, reads a head and a body, and has no cookies, redirects, forms or hooks.
             Watches, and what passes through a proxy, stay with aiohttp (``sockets``).
Invariants.  A connection has one request under way; one that was cancelled, or whose answer was not read to
             its end, is ended and not kept. A kept one ends after ``KEPT_SECONDS`` without a request. Where a
             kept connection turns out to be ended before anything of the answer came, a request that may be
             sent twice by its method (RFC 9110 §9.2.2) is sent once more on a new one. A kept one on which
             anything has come since, or whose last request was answered before it was sent whole, is not used
             again: the next answer would be another request's. A head, a line, an answer and the heads before
             it have a bound. An answer whose length or form can be read in two ways is none (``BadAnswer``).
             No header can hold a line break.
Called by    ``sockets``, which has deadlines, credentials and the number of requests at one time.
"""

import asyncio
import os
import re
import socket
import ssl
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakSet

from yarl import URL

from kubewright.kube.errors import BadAnswer, ConnectFailed, Disconnected, Unresolved, Untrusted
from kubewright.wire.http import JSON, Request, Response

CONNECT_SECONDS = 10.0
"""Deadline for making a connection."""

ADDRESS_SECONDS = 2.0
"""Deadline for an address of the server, if there is another one to try."""

KEPT_SECONDS = 15.0
"""How long a connection without a request is kept."""

HEAD_BYTES, ANSWER_BYTES = 2**16, 2**29
"""The largest head of an answer, and the largest answer: a list that comes in one page."""

_Address = tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]
IDEMPOTENT = frozenset(("GET", "HEAD", "PUT", "DELETE"))
_STATUS_LINE = re.compile(r"HTTP/1\.([01]) ([1-9][0-9]{2})(?: .*)?")
_FIELD = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*)")
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]*)?")
_FRAMING = frozenset(("content-length", "transfer-encoding", "content-encoding", "connection"))
"""The fields that say where an answer ends and what it is packed in: each of several counts."""

INTERIM_HEADS = 16
"""How many heads may come before that of the answer: 100 and 103 of servers, 102 of proxies."""


class Connections:
    """Those to ``server``, an URL with the path before all paths. ``opened`` gets each socket."""

    def __init__(
        self,
        server: str,
        encrypted: ssl.SSLContext | None,
        server_name: str,
        opened: "WeakSet[socket.socket]",
    ) -> None:
        try:
            url = URL(server, encoded=True)
            self._host, self._port = url.raw_host or "", url.port or (443 if encrypted else 80)
        except ValueError as error:
            raise ConnectFailed(f"{server}: {error}") from None
        self._encrypted = encrypted
        self._server_name = server_name or self._host.rstrip(".")  # as in certificates
        self._opened = opened
        self._kept: list[_Connection] = []
        self._reached: object = None
        """The address to which the last connection was made: of several, it is tried first."""
        self._closed = False
        self._sweeping: asyncio.TimerHandle | None = None
        _, _, rest = server.partition("://")
        authority, slash, path = rest.partition("/")
        self._prefix, self._authority = slash + path, authority

    async def exchange(self, request: Request, target: str, headers: Sequence[tuple[str, str]]) -> Response:
        """Send a request, with these headers instead of its own, and read its answer.

        Raises:
            TransportError: there was no answer.
            ValueError: a header cannot be sent.
        """
        head = self._head(request, target, headers)
        connection = self._take()
        if connection is not None:
            try:
                return await self._on(connection, request, head)
            except Disconnected:
                if connection.begun or request.method not in IDEMPOTENT:
                    raise
        return await self._on(await self._connected(_where(request)), request, head)

    def close(self) -> None:
        """End those that are kept; the others when their request ends."""
        self._closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        while self._kept:
            self._kept.pop().end()

    def _head(self, request: Request, target: str, headers: Sequence[tuple[str, str]]) -> bytes:
        lines = [f"{request.method} {self._prefix}{target} HTTP/1.1", f"host: {self._authority}"]
        lines += [f"{name}: {value}" for name, value in headers]
        if request.body or request.method in ("POST", "PUT", "PATCH"):
            lines.append(f"content-length: {len(request.body)}")
        lines += ("accept-encoding: gzip", "", "")
        text = "\r\n".join(lines)
        if text.count("\n") != len(lines) - 1 or text.count("\r") != len(lines) - 1 or "\0" in text:
            raise ValueError("a header holds a line break")
        return text.encode()

    async def _on(self, connection: "_Connection", request: Request, head: bytes) -> Response:
        try:
            response = await connection.exchange(request, head)
        except BaseException:  # cancelled too: what comes would be taken for the next answer
            connection.end()
            raise
        if connection.reusable and not self._closed:
            connection.since = asyncio.get_running_loop().time()
            self._kept.append(connection)
            self._sweep_later()
        else:
            connection.end()
        return response

    def _take(self) -> "_Connection | None":
        """The connection that was used last, if it can be used again."""
        now = asyncio.get_running_loop().time()
        while self._kept:
            connection = self._kept.pop()
            if now - connection.since < KEPT_SECONDS and connection.quiet:
                return connection
            connection.end()
        return None

    def _sweep_later(self) -> None:
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(KEPT_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """End what was kept for too long."""
        self._sweeping = None
        oldest = asyncio.get_running_loop().time() - KEPT_SECONDS
        for connection in self._kept:
            if connection.since <= oldest or not connection.alive:
                connection.end()
        self._kept = [connection for connection in self._kept if connection.alive]
        if self._kept:
            self._sweep_later()

    async def _connected(self, where: str) -> "_Connection":
        """A new connection.

        Raises:
            ConnectFailed: there is none; nothing was sent.
        """
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await self._connect()
        except TimeoutError:
            raise ConnectFailed(f"{where}: no connection in time") from None
        except ssl.SSLCertVerificationError as error:
            raise Untrusted(f"{where}: {error.verify_message or error}") from error
        except ssl.SSLError as error:
            raise Untrusted(f"{where}: {error.reason or error}") from error
        except socket.gaierror as error:
            raise Unresolved(f"{where}: {error.strerror or error}") from error
        except UnicodeError as error:
            raise Unresolved(f"{where}: {self._host[:80]} cannot be the name of a host") from error
        except OSError as error:
            known = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else ""
            raise ConnectFailed(f"{where}: {known or error.strerror or error}") from error

    async def _connect(self) -> "_Connection":
        loop = asyncio.get_running_loop()
        failure: OSError | None = None
        addresses = sorted(await self._addresses(loop), key=lambda known: known[4] != self._reached)
        for number, (family, kind, protocol, _, address) in enumerate(addresses, 1):
            try:
                opened = socket.socket(family, kind, protocol)
            except OSError as error:
                failure = error
                continue
            self._opened.add(opened)
            try:
                opened.setblocking(False)
                async with asyncio.timeout(ADDRESS_SECONDS if number < len(addresses) else None):
                    await loop.sock_connect(opened, address)
            except OSError as error:  # too late as well
                opened.close()
                failure = error
                continue
            except BaseException:
                opened.close()
                raise
            self._reached = address
            return await self._encrypt(loop, opened)
        raise failure or OSError("the name has no address")

    async def _addresses(self, loop: asyncio.AbstractEventLoop) -> Sequence[_Address]:
        try:  # a name is looked up in a thread, which an address needs not
            return socket.getaddrinfo(
                self._host, self._port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )
        except socket.gaierror:
            return await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)

    async def _encrypt(self, loop: asyncio.AbstractEventLoop, opened: socket.socket) -> "_Connection":
        """The connection on this socket, after the TLS handshake if there is one."""
        name = self._server_name if self._encrypted else None
        try:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            _, connection = await loop.create_connection(
                partial(_Connection, opened), sock=opened, ssl=self._encrypted, server_hostname=name
            )
        except BaseException:  # asyncio would wait until the server ends it
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
            raise
        return connection


class _Connection(asyncio.Protocol):
    """One connection, and what has come of the answer to the request that is under way."""

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        self.reusable = False
        self.begun = False
        self.since = 0.0
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Response] | None = None
        self._where, self._bodiless = "", False
        self._buffer = bytearray()
        self._status, self._interim, self._headers = 0, 0, dict[str, str]()
        self._body = bytearray()
        self._size, self._length = 0, -1
        """What came of the body, and how long it is: -1 in chunks, -2 until the connection ends."""

    @property
    def alive(self) -> bool:
        """Whether a request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def quiet(self) -> bool:
        """Whether it is alive, and nothing has come that the event loop has not read yet: the end of the
        connection, or what would be taken for the answer to the next request."""
        try:
            if self.alive:
                self._socket.recv(1, socket.MSG_PEEK)
            return False
        except BlockingIOError:
            return True
        except OSError:
            return False

    def end(self) -> None:
        """End it at once: a graceful end would wait for the server."""
        if self._transport is not None:
            self._transport.abort()

    async def exchange(self, request: Request, head: bytes) -> Response:
        """Send, and wait for the answer."""
        assert self._transport is not None
        self._where, self._bodiless = _where(request), request.method == "HEAD"
        self.begun = self.reusable = False
        self._status = self._interim = self._size = 0
        self._buffer.clear()
        self._body.clear()
        if self._transport.is_closing():
            raise Disconnected(f"{self._where}: Server disconnected")
        self._answer = asyncio.get_running_loop().create_future()
        try:
            self._transport.write(head + request.body if request.body else head)
            return await self._answer
        finally:
            self._answer = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As asyncio calls it."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        """As asyncio calls it."""
        if self._answer is None or self._answer.done():
            return
        if self._status and self._length == -2 and error is None:
            self._guarded(self._finish)
        else:
            said = str(error) if error is not None else "Server disconnected"
            self._answer.set_exception(Disconnected(f"{self._where}: {said}"))

    def data_received(self, data: bytes) -> None:
        """As asyncio calls it."""
        if self._answer is None or self._answer.done():  # nothing was asked
            self.reusable = False
            self.end()
            return
        self.begun = True
        self._guarded(partial(self._read, data))

    def _guarded(self, read: Callable[[], None]) -> None:
        """Go on reading; what is no answer is the end of it."""
        try:
            read()
        except (ValueError, zlib.error) as error:
            assert self._answer is not None
            self.reusable = False
            self._answer.set_exception(BadAnswer(f"{self._where}: {error}"))

    def _read(self, data: bytes) -> None:
        if not self._status:
            self._buffer += data
            rest = self._read_head()
            if rest is None:
                return
            data = rest
        self._read_body(data)

    def _read_head(self) -> bytes | None:
        """Read the head of the answer; what follows it, or None: it is not here yet.

        Raises:
            ValueError: it is none.
        """
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
            line = _STATUS_LINE.fullmatch(first)
            if line is None or (status := int(line[2])) == 101:  # no other protocol was asked for
                raise ValueError("the answer is not HTTP/1")
            del self._buffer[: end + 4]
            if status >= 200:  # the others only say that an answer will come
                self._status, self._headers = status, _headers(lines)
                self._frame(line[1])
                rest = bytes(self._buffer)
                self._buffer.clear()
                return rest
            self._interim += 1
            if self._interim > INTERIM_HEADS:
                raise ValueError("the answer does not come: only heads that announce it")
        if len(self._buffer) > HEAD_BYTES:
            raise ValueError("the head of the answer is too large")
        return None

    def _frame(self, minor: str) -> None:
        """How the body ends, and whether the connection goes on after it; ``minor`` is of the version."""
        headers = self._headers
        options = {option.strip().lower() for option in headers.get("connection", "").split(",")}
        self.reusable = minor == "1" and "close" not in options
        if self._bodiless or self._status in (204, 304):
            self._length = 0
        elif "transfer-encoding" in headers:
            if "content-length" in headers:
                raise ValueError("the answer has two lengths")
            if headers["transfer-encoding"].lower() != "chunked":
                raise ValueError("the answer has an unknown transfer encoding")
            self._length = -1
        elif (length := headers.get("content-length")) is not None:
            if not (length.isascii() and length.isdigit()):
                raise ValueError("the length of the answer is no number")
            self._length = int(length)
        else:
            self._length, self.reusable = -2, False

    def _read_body(self, data: bytes) -> None:
        self._size += len(data)
        if max(self._size, self._length) > ANSWER_BYTES:
            raise ValueError("the answer is too large")
        if self._length == -1:
            self._buffer += data
            self._read_chunks()
            return
        self._body += data
        if 0 <= self._length <= self._size:
            if self._size > self._length:
                raise ValueError("the answer is longer than it says")
            self._finish()

    def _read_chunks(self) -> None:
        buffer = self._buffer
        while (end := buffer.find(b"\r\n")) >= 0:
            line = _CHUNK.fullmatch(buffer, 0, end)
            if line is None:
                raise ValueError("a chunk of the answer has no size")
            size = int(line[1], 16)
            after = end + 2 + size
            if not size:
                if (last := buffer.find(b"\r\n\r\n", end)) >= 0:  # behind the trailers, if there are any
                    self.reusable = self.reusable and last + 4 == len(buffer)
                    buffer.clear()
                    self._finish()
                break
            if len(buffer) < after + 2:
                return
            if buffer[after : after + 2] != b"\r\n":
                raise ValueError("a chunk of the answer is not as long as it says")
            self._body += buffer[end + 2 : after]
            del buffer[: after + 2]
        if len(buffer) > HEAD_BYTES:
            raise ValueError("a line of the answer is too long")

    def _finish(self) -> None:
        assert self._answer is not None
        body = bytes(self._body)
        self._body.clear()
        encoding = self._headers.get("content-encoding", "identity").lower()
        if encoding == "gzip" and body:
            unpacking = zlib.decompressobj(31)
            body = unpacking.decompress(body, ANSWER_BYTES)
            if not unpacking.eof or unpacking.unused_data:
                raise ValueError("the answer is too large, not whole, or goes on behind its end")
        elif encoding not in ("identity", "gzip"):
            raise ValueError("the answer has an unknown encoding")
        kind = self._headers.get("content-type", JSON)
        assert self._transport is not None
        if self._transport.get_write_buffer_size():  # answered before the request was sent whole
            self.reusable = False
        self._answer.set_result(Response(self._status, body, kind, self._headers))


def _headers(lines: list[str]) -> dict[str, str]:
    """The fields of a head, with names in lower case.

    Raises:
        ValueError: a line is no field.
    """
    fields: dict[str, str] = {}
    for line in lines:
        field = _FIELD.fullmatch(line)
        if field is None:
            raise ValueError("the answer has a header that is none")
        name, value = field[1].lower(), field[2].rstrip(" \t")
        fields[name] = f"{fields[name]}, {value}" if name in _FRAMING and name in fields else value
    return fields


def _where(request: Request) -> str:
    return f"{request.method} {request.path}"
