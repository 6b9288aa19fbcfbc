"""The socket of the embedded server: TLS on loopback, and a graceful shutdown within seconds.

Theory.      aiohttp's server without its application layer: one handler, no routes, no middleware.
             Shutdown: refuse new connections, close idle ones, end watches as at their timeout, give
             requests in flight a second, then drop what is left.
Invariants.  Loopback only; and there is no way to serve without authentication.
             A handshake that fails, or bytes that are not a request, cost one debug line.
Called by    the server at start-up. Continues in ``exchange``.
"""

import asyncio
import errno
import socket
from typing import Any

import structlog
from aiohttp import web
from aiohttp.http import HttpProcessingError

from kubewright.apiserver.http.authn import Authenticator
from kubewright.apiserver.http.exchange import Exchange
from kubewright.apiserver.http.pki import Pki
from kubewright.base.errors import InvalidInput
from kubewright.wire.http import Handler

log = structlog.get_logger("kubewright.apiserver.http")

HOST = "127.0.0.1"
GRACE = 1.0
"""Seconds that requests under way are given when the server closes."""

HANDSHAKE_SECONDS = 10.0
TLS_END_SECONDS = 0.25
"""For a client to answer the end of TLS; most do at once, some never."""

IDLE_SECONDS = 300.0
"""Longer than clients keep idle connections (Go: 90 s), so that the client closes first."""

BACKLOG = 1024
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
        held: a socket that is bound to the port already, which nothing else can have taken since.
    """

    def __init__(
        self,
        handler: Handler,
        authenticator: Authenticator,
        pki: Pki,
        *,
        port: int = 0,
        held: socket.socket | None = None,
    ) -> None:
        if not 0 <= port <= 65535:
            raise InvalidInput(f"{port} is not a port; ports go from 0 (any free one) to 65535")
        self.port = port
        self._held = held
        self._pki = pki
        self._exchange = Exchange(handler, authenticator)
        self._web: web.Server | None = None
        self._socket: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """Where clients on this machine find the server."""
        return f"https://{HOST}:{self.port}"

    async def start(self) -> None:
        """Listen.

        Raises:
            InvalidInput: the port is taken (``PortTaken``), or we have no permission to use it.
        """
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
        try:
            place = {"host": HOST, "port": self.port} if self._held is None else {"sock": self._held}
            self._socket = await asyncio.get_running_loop().create_server(
                self._web,
                **place,
                ssl=self._pki.server_context(),
                backlog=BACKLOG,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=TLS_END_SECONDS,
            )
        except OSError as error:
            refused = PortTaken if error.errno == errno.EADDRINUSE else InvalidInput
            raise refused(_why_not(error, self.port)) from None
        self.port = int(self._socket.sockets[0].getsockname()[1])
        log.debug("listening", url=self.url)

    async def close(self) -> None:
        """Stop listening and end what is under way; takes some two seconds at most. May be called twice."""
        serving, self._web = self._web, None
        listening, self._socket = self._socket, None
        if serving is None:
            return
        if listening is not None:
            listening.close()
        serving.pre_shutdown()
        await self._exchange.end(GRACE)
        await serving.shutdown(TLS_END_SECONDS)


def _why_not(error: OSError, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {HOST} is taken; choose another with --port, or 0 for a free one"
    if error.errno == errno.EACCES:
        return f"port {port} on {HOST} is not allowed to you; choose one above 1023 with --port"
    return f"cannot listen on {HOST}:{port}: {error.strerror or error}"


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
