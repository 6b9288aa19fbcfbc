"""The socket of the embedded server: TLS, on loopback or where a user says; a shutdown within seconds.

Theory.      aiohttp's server without its application layer: one handler, no routes, no middleware.
             Connections are accepted here, and not by asyncio, which in want of files tries a thousand times
             in a row and writes a traceback for each. Shutdown: refuse new connections,
             close idle ones, end watches as at their timeout, give requests in flight a second, then drop
             what is left.
Invariants.  There is no way to serve without authentication, nor, but for ``reach``, beyond loopback.
             A handshake that fails, or bytes that are not a request, cost one debug line.
Called by    the server at start-up. Continues in ``connections`` and ``exchange``.
"""

import asyncio
import errno
import socket
import ssl
from typing import Any

import structlog
from aiohttp import web
from aiohttp.http import HttpProcessingError

from kubewright.apiserver.http.authn import Authenticator
from kubewright.apiserver.http.connections import IDLE_SECONDS, SEND_BYTES, Connection, Connections
from kubewright.apiserver.http.exchange import Exchange
from kubewright.apiserver.http.pki import Pki
from kubewright.apiserver.http.reach import LOOPBACK, Reach, in_url
from kubewright.base.errors import InvalidInput
from kubewright.wire.http import Handler

log = structlog.get_logger("kubewright.apiserver.http")

HOST = LOOPBACK
DEFAULT = Reach()
GRACE = 1.0
"""Seconds that requests under way are given when the server closes."""

HANDSHAKE_SECONDS = 10.0
TLS_END_SECONDS = 0.25
"""For a client to answer the end of TLS; most do at once, some never."""

BACKLOG = 1024
RETRY_SECONDS = 0.1
"""After ``accept`` found no file, or no memory, for a connection."""

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

LINE_BYTES = 64 * 1024
"""Longest request line: selectors and continue tokens are long."""

HEADER_BYTES = 16 * 1024
HEADERS = 128
LINGER_SECONDS = 2.0
"""How long the rest of a refused body is read, so that the client reads the refusal."""


class PortTaken(InvalidInput):
    """Another program listens on the port."""


class Listener:
    """Serves ``handler`` over HTTPS between ``start`` and ``close``.

    Args:
        handler: the API server.
        authenticator: finds the user of each request.
        pki: the server's certificate, and the authority of its clients.
        port: 0 takes a free one; ``port`` and ``url`` tell which.
        reach: which address it listens on.
        held: a socket that is bound to the port already, which nothing else can have taken since.
        connections: those of all listeners of the process.
        tenant: whose cluster this is, if a user of another server has made it (``connections.holder_of``).
    """

    def __init__(
        self,
        handler: Handler,
        authenticator: Authenticator,
        pki: Pki,
        *,
        port: int = 0,
        reach: Reach = DEFAULT,
        held: socket.socket | None = None,
        connections: Connections,
        tenant: str = "",
    ) -> None:
        if not 0 <= port <= 65535:
            raise InvalidInput(f"{port} is not a port; ports go from 0 (any free one) to 65535")
        self.port = port
        self._reach = reach
        self._held = held
        self._pki = pki
        self._connections = connections
        self._exchange = Exchange(handler, authenticator, connections, tenant)
        self._web: web.Server | None = None
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._greeting: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Where clients on this machine find the server."""
        return f"https://{self._reach.local}:{self.port}"

    async def start(self) -> None:
        """Listen.

        Raises:
            InvalidInput: the port is taken (``PortTaken``), or we have no permission to use it.
        """
        tls = self._pki.server_context()
        try:
            self._socket = self._bound()
        except OSError as error:
            refused = PortTaken if error.errno == errno.EADDRINUSE else InvalidInput
            raise refused(_why_not(error, self._reach.address, self.port)) from None
        self.port = int(self._socket.getsockname()[1])
        self._web = web.Server(
            self._exchange.serve,
            handler_cancellation=True,
            access_log=None,
            logger=_Quiet(),
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=LINGER_SECONDS,
            max_line_size=LINE_BYTES,
            max_field_size=HEADER_BYTES,
            max_headers=HEADERS,
            auto_decompress=False,  # kube-apiserver takes no compressed bodies, and bombs are compressed
        )
        accepting = self._accept(self._socket, self._web, tls)
        self._accepting = asyncio.create_task(accepting, name=f"accept connections at port {self.port}")
        log.debug("listening", url=self.url)

    def _bound(self) -> socket.socket:
        """The socket, listening. What a client does not take is buffered by it, in ``SEND_BYTES``."""
        bound = self._held or self._created()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        bound.listen(BACKLOG)
        bound.setblocking(False)
        return bound

    def _created(self) -> socket.socket:
        where = (self._reach.address, self.port)
        if not self._reach.family_of_six:
            return socket.create_server(where, backlog=BACKLOG)
        both = self._reach.address == "::" and socket.has_dualstack_ipv6()
        return socket.create_server(where, family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=both)

    async def _accept(self, listening: socket.socket, serving: web.Server, tls: ssl.SSLContext) -> None:
        loop, clock = asyncio.get_running_loop(), self._connections.clock
        while True:
            try:
                client, _ = await loop.sock_accept(listening)
            except OSError as error:
                log.debug("no connection was accepted", why=str(error))
                if error.errno in _EXHAUSTED:
                    self._connections.make_room(f"the system has no more: {error.strerror}")
                await clock.sleep(RETRY_SECONDS)
                continue
            connection = Connection(serving(), clock, self._connections.forget)
            if self._connections.admit(connection):
                self._greet(connection, client, tls)
            else:
                client.close()
            await clock.sleep(0)  # a flood of clients leaves room for those that are in

    def _greet(self, connection: Connection, client: socket.socket, tls: ssl.SSLContext) -> None:
        greeting = asyncio.create_task(self._agree(connection, client, tls), name="agree upon TLS")
        connection.abort = greeting.cancel
        self._greeting.add(greeting)
        greeting.add_done_callback(self._greeting.discard)

    async def _agree(self, connection: Connection, client: socket.socket, tls: ssl.SSLContext) -> None:
        """Agree upon TLS; from then on asyncio calls ``connection``."""
        loop = asyncio.get_running_loop()
        try:
            plain, _ = await loop.connect_accepted_socket(_Unread, client)
            transport = await loop.start_tls(
                plain,
                connection,
                tls,
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=TLS_END_SECONDS,
            )
            if transport is not None:
                connection.open(plain, transport)
        except (OSError, ValueError) as error:  # ssl's own errors are of these
            self._connections.forget(connection)
            log.debug("a connection went wrong", why=str(error) or type(error).__name__)
        except asyncio.CancelledError:
            self._connections.forget(connection)  # it made room for another
            raise

    async def close(self) -> None:
        """Stop listening and end what is under way; takes some three seconds at most. May be called twice."""
        serving, self._web = self._web, None
        listening, self._socket = self._socket, None
        if serving is None or listening is None or self._accepting is None:
            return
        self._accepting.cancel()
        await asyncio.gather(self._accepting, return_exceptions=True)
        listening.close()
        serving.pre_shutdown()
        await self._exchange.end(GRACE)
        await self._end_greetings()
        await serving.shutdown(TLS_END_SECONDS)

    async def _end_greetings(self) -> None:
        """Who is at the door still has ``GRACE`` to come in and be told that the server shuts down."""
        if greetings := tuple(self._greeting):
            _, late = await asyncio.wait(greetings, timeout=GRACE)
            for greeting in late:
                greeting.cancel()
            await asyncio.gather(*late, return_exceptions=True)


def _why_not(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is taken; choose another with --port, or 0 for a free one"
    if error.errno == errno.EACCES:
        return f"port {port} on {host} is not allowed to you; choose one above 1023 with --port"
    if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
        return f"--address {host} is no address of this machine"
    return f"cannot listen on {in_url(host)}:{port}: {error.strerror or error}"


class _Unread(asyncio.Protocol):
    """Reads nothing: the first bytes are for TLS."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()


class _Quiet:
    """aiohttp's logger: errors of clients become debug lines, and only bugs are logged as errors."""

    def debug(self, message: str, *args: Any, exc_info: object = None) -> None:
        log.debug("a connection went wrong", why=message % args if args else message)

    info = warning = debug

    def exception(self, message: str, *args: Any, exc_info: object = None) -> None:
        if isinstance(exc_info, Exception) and not isinstance(exc_info, HttpProcessingError):
            log.error("a connection failed that should not have", exc_info=exc_info)
        else:
            self.debug(message, *args)

    error = exception
