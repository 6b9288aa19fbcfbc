"""Accepts connections for the servers of ``run`` that anybody may reach: of probes, metrics and reviews.

Theory.      In want of files asyncio's own ``accept`` tries again a thousand times a second, and writes a
             traceback for each; and it has no bound for connections. Here one is accepted at a time. Where
             all places are taken, or the system has no more files, a connection on which no request came yet
             makes room, the oldest first; then the one that has waited the longest for another request.
             Kubelets, Prometheus and API servers ask again on a new connection.
Invariants.  A connection without a request ends after ``FIRST_SECONDS``, a handshake after
             ``HANDSHAKE_SECONDS``, and one that waits for another request after ``IDLE_SECONDS``. One that is
             being answered is never ended here. What clients do costs one line a minute.
Called by    ``health`` and ``webhooks.server``. The API server has its own (``apiserver.http.connections``):
             it tells strangers from users, and no user is known here.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

import structlog
from aiohttp import web

from kubewright.base.clock import Clock, SystemClock

MOST_CONNECTIONS = 256
"""Of one server: a cluster has some API servers, and one Prometheus or two."""

FIRST_SECONDS, IDLE_SECONDS = 30.0, 300.0
"""For a request to begin; and for another one: longer than API servers keep idle connections (90 s), so that
they close first. A POST that meets a connection being closed is not repeated."""

HANDSHAKE_SECONDS, TLS_END_SECONDS = 10.0, 0.25
LOOK_SECONDS, RETRY_SECONDS, QUIET_SECONDS = 1.0, 0.1, 60.0
BACKLOG = 128

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_OF_CLIENTS = (errno.ECONNABORTED, errno.EINTR, errno.EPROTO, errno.EPERM)

log = structlog.get_logger("kubewright.accepting")

Handling = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Accepting:
    """The connections of one server; ``what`` names it in the log."""

    def __init__(self, what: str, *, most: int = MOST_CONNECTIONS, clock: Clock | None = None) -> None:
        self._what, self._most, self._clock = what, most, clock or SystemClock()
        self._open: dict[asyncio.BaseProtocol, _Connection] = {}
        self._greeting: set[asyncio.Task[None]] = set()
        self._told, self._times = float("-inf"), 0

    def __len__(self) -> int:
        return len(self._open)

    async def listen(self, host: str, port: int) -> list[socket.socket]:
        """Sockets at an address, or at all addresses where no host is named.

        Raises:
            OSError: the address cannot be listened on.
        """
        loop = asyncio.get_running_loop()
        bound = await loop.create_server(asyncio.Protocol, host or None, port, start_serving=False)
        found = [each.dup() for each in bound.sockets]
        bound.close()
        try:
            for each in found:
                each.listen(BACKLOG)
                each.setblocking(False)
        except OSError:
            for each in found:
                each.close()
            raise
        return found

    async def serve(
        self, listening: Sequence[socket.socket], inner: web.Server, tls: ssl.SSLContext | None = None
    ) -> None:
        """Accept until cancelled; closes the sockets then, and leaves open connections to ``inner``."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._look(), name=f"{self._what}: look for late connections")
                for each in listening:
                    group.create_task(self._accept(each, inner, tls), name=f"{self._what}: accept")
        finally:
            for each in listening:
                each.close()
            for greeting in tuple(self._greeting):
                greeting.cancel()

    @web.middleware
    async def marks(self, request: web.Request, handler: Handling) -> web.StreamResponse:
        """A middleware of the server: a connection on which a request is answered is not idle."""
        connection = self._open.get(request.protocol)
        if connection is None:
            return await handler(request)
        connection.idle_since = None
        try:
            return await handler(request)
        finally:
            connection.asked, connection.idle_since = True, self._clock.monotonic()

    async def _accept(self, listening: socket.socket, inner: web.Server, tls: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(listening)
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._make_room(f"the system has no more: {error.strerror}")
                elif error.errno not in _OF_CLIENTS:
                    self._warn("no connection is accepted", error.strerror or str(error))
                await self._clock.sleep(RETRY_SECONDS)
                continue
            if len(self._open) >= self._most and not self._make_room("all places are taken"):
                client.close()
            else:
                self._greet(client, inner(), tls)
            await self._clock.sleep(0)  # a flood of clients leaves room for those that are in

    def _greet(self, client: socket.socket, inner: asyncio.Protocol, tls: ssl.SSLContext | None) -> None:
        connection = _Connection(inner, self._clock.monotonic(), self._forget)
        self._open[inner] = connection
        greeting = asyncio.create_task(self._opened(connection, client, tls), name=f"{self._what}: open")
        connection.abort = greeting.cancel
        self._greeting.add(greeting)
        greeting.add_done_callback(self._greeting.discard)

    async def _opened(
        self, connection: "_Connection", client: socket.socket, tls: ssl.SSLContext | None
    ) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                client,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=None if tls is None else TLS_END_SECONDS,
            )
        except (OSError, ValueError) as error:  # ssl's own errors are of these
            self._forget(connection)
            log.debug("a connection went wrong", server=self._what, why=str(error) or type(error).__name__)
        except asyncio.CancelledError:
            self._forget(connection)  # it made room for another
            raise

    def _make_room(self, why: str) -> bool:
        """End a connection that is not being answered; False: there is none."""
        idle = [each for each in self._open.values() if each.idle_since is not None]
        self._warn("connections are ended" if idle else "connections are refused", why)
        if idle:
            self._end(min(idle, key=lambda each: (each.asked, each.idle_since)))
        return bool(idle)

    def _end(self, connection: "_Connection") -> None:
        self._forget(connection)
        connection.abort()

    def _forget(self, connection: "_Connection") -> None:
        self._open.pop(connection.inner, None)

    async def _look(self) -> None:
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            now = self._clock.monotonic()
            for each in tuple(self._open.values()):
                patience = IDLE_SECONDS if each.asked else FIRST_SECONDS
                if each.idle_since is not None and now >= each.idle_since + patience:
                    self._end(each)

    def _warn(self, line: str, why: str) -> None:
        """Write a line, at most once in ``QUIET_SECONDS``, with the number of times that it stands for."""
        self._times += 1
        if (now := self._clock.monotonic()) >= self._told + QUIET_SECONDS:
            log.warning(line, server=self._what, why=why, times=self._times, connections=len(self._open))
            self._told, self._times = now, 0


class _Connection(asyncio.Protocol):
    """One client's connection: hands all to ``inner``, aiohttp's protocol."""

    def __init__(self, inner: asyncio.Protocol, now: float, gone: Callable[["_Connection"], None]) -> None:
        self.inner, self._gone = inner, gone
        self.asked = False
        self.idle_since: float | None = now
        self.abort: Callable[[], object] = lambda: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.abort = cast("asyncio.Transport", transport).abort
        self.inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self.inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self.inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone(self)
        self.inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()
