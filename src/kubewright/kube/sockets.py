"""The transport over real sockets, on aiohttp: logins, deadlines, errors, streams.

Theory.      aiohttp has the connections and does TLS and HTTP; ``access`` and ``login`` have our
             identity. Bodies go out as the bytes they are (docs/decisions/0018-one-transport.md).
Invariants.  Every failure of aiohttp becomes one of ``kube.errors``. A 401 is repeated once, if new
             credentials can be had: the server did nothing. Proxies come from the kubeconfig, never from
             the environment. Closing waits a moment for requests under way, and leaves no socket open:
             a cancelled request loses its connection to asyncio, which never closes one that is cancelled
             before its TLS handshake begins, and else waits until the server closes it.
Called by    ``config``.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from io import BytesIO
from urllib.parse import quote, urlencode
from weakref import WeakSet

import aiohttp
from yarl import URL

from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput
from kubewright.base.limits import EVICTIONS_AT_ONCE, REQUEST_SECONDS
from kubewright.kube import tls
from kubewright.kube.access import Access, impersonation
from kubewright.kube.answers import failure
from kubewright.kube.errors import (
    BadAnswer,
    ConnectFailed,
    Disconnected,
    LoginFailed,
    TimedOut,
    TransportError,
    Unresolved,
    Untrusted,
)
from kubewright.kube.login import Credentials, Logins
from kubewright.wire.http import JSON, Request, Response

CONNECTIONS = 64
"""Most requests at one time, and so the connections they hold: each costs a TLS handshake and some
300 KiB; an API server is busy with fewer. Watches are not counted, since one that waited for another
to end would wait for ever, and so would the requests behind it. Evictions have as many connections of their
own (``EVICTIONS_AT_ONCE``): a webhook may hold each for a minute, and our Leases are renewed meanwhile."""

EVICTION = "/eviction"
"""How the path of an eviction ends."""

CONNECT_SECONDS = 10.0
"""Deadline for making a connection."""

CHUNK_BYTES = 2**21
"""Read buffer of a connection: what aiohttp takes from the kernel before it makes the server wait."""

PATH_CHARACTERS = "/:@!$&'()*+,;=~"
"""The characters that need no quoting in a URL path (RFC 3986)."""

DRAIN_SECONDS = 2.0
"""How long ``close`` waits for requests under way."""

CLOSING_TURNS = 5
"""Turns of the event loop in which TLS connections that were cut finish closing."""

FAILURES = (TimeoutError, aiohttp.ClientError, OSError, ValueError, InvalidInput)
"""What sending a request may raise beside our own errors."""


class Sockets:
    """A transport over HTTP connections; see ``Transport``."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self.access = access
        self._logins = Logins(access, clock)
        self._clock = clock
        self._slots = asyncio.Semaphore(CONNECTIONS)
        self._eviction_slots = asyncio.Semaphore(EVICTIONS_AT_ONCE)
        self._closed = False
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._session: aiohttp.ClientSession | None = None
        self._retired: aiohttp.ClientSession | None = None
        self._pair: tuple[bytes, bytes] | None = None
        self._opened: WeakSet[socket.socket] = WeakSet()

    async def request(self, request: Request, *, timeout: float) -> Response:
        """As ``Transport.request``."""
        self._begin()
        slots = self._eviction_slots if request.path.endswith(EVICTION) else self._slots
        try:
            async with asyncio.timeout(timeout), slots:
                return await _read(await self._logged_in(request))
        except FAILURES as error:
            raise _translated(error, request, timeout) from error
        finally:
            self._end()

    async def close(self) -> None:
        """As ``Transport.close``; requests under way get ``DRAIN_SECONDS`` to end."""
        self._closed = True
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._idle.wait()
        except TimeoutError:
            pass
        for session in (self._session, self._retired):
            if session is not None:
                await session.close()
        for opened in tuple(self._opened):
            with suppress(OSError):  # closed already, or never connected
                opened.shutdown(socket.SHUT_RDWR)
        for _ in range(CLOSING_TURNS):
            await self._clock.sleep(0)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """As ``Transport.stream``; only the head of the answer has a deadline."""
        if self._closed:
            raise ConnectFailed(f"{self.access.server}: this connection is closed")
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                answer = await self._logged_in(request)
                if answer.status >= 400:
                    raise failure(await _read(answer))
        except FAILURES as error:
            raise _translated(error, request, REQUEST_SECONDS) from error
        try:
            yield _chunks(answer, request)
        finally:
            _cut(answer)

    async def _logged_in(self, request: Request) -> aiohttp.ClientResponse:
        credentials = await self._logins.current()
        answer = await self._send(request, credentials)
        if answer.status != 401 or not self._logins.refused(credentials):
            return answer
        answer.release()
        return await self._send(request, await self._logins.current())

    async def _send(self, request: Request, credentials: Credentials) -> aiohttp.ClientResponse:
        """Send, and answer once the head of the answer is here."""
        headers = dict(request.headers)
        if credentials.authorization:
            headers["authorization"] = credentials.authorization
        session = await self._ready(credentials)
        return await session.request(
            request.method,
            self._url(request),
            data=BytesIO(request.body) if request.body else None,  # aiohttp warns of large bytes
            headers=[*headers.items(), *impersonation(self.access.acts_as)],
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            proxy=self.access.proxy or None,
            server_hostname=self.access.tls_server_name or None,
            allow_redirects=False,
        )

    def _url(self, request: Request) -> URL:
        query = f"?{urlencode(request.query, quote_via=quote)}" if request.query else ""
        return URL(f"{self.access.server}{quote(request.path, safe=PATH_CHARACTERS)}{query}", encoded=True)

    async def _ready(self, credentials: Credentials) -> aiohttp.ClientSession:
        """The session; another one when the client certificate has changed.

        The last one stays open until the next change: its watches end by themselves.
        """
        pair = (credentials.certificate, credentials.key)
        if self._session is None or pair != self._pair:
            oldest, self._retired = self._retired, self._session
            self._session, self._pair = self._make(*pair), pair
            if oldest is not None:
                await oldest.close()
        return self._session

    def _make(self, certificate: bytes, key: bytes) -> aiohttp.ClientSession:
        context = tls.context(self.access, certificate, key)
        connector = aiohttp.TCPConnector(limit=0, ssl=context or True, socket_factory=self._socket)
        return aiohttp.ClientSession(connector=connector, trust_env=False, read_bufsize=CHUNK_BYTES)

    def _socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, *_ = address
        opened = socket.socket(family, kind, protocol)
        self._opened.add(opened)
        return opened

    def _begin(self) -> None:
        if self._closed:
            raise ConnectFailed(f"{self.access.server}: this connection is closed")
        self._under_way += 1
        self._idle.clear()

    def _end(self) -> None:
        self._under_way -= 1
        if not self._under_way:
            self._idle.set()


async def _read(answer: aiohttp.ClientResponse) -> Response:
    body = await answer.read()
    headers = {name.lower(): value for name, value in answer.headers.items()}
    return Response(answer.status, body, headers.get("content-type", JSON), headers)


def _cut(answer: aiohttp.ClientResponse) -> None:
    """End a stream that may go on: a graceful end would wait for a server that keeps sending."""
    transport = answer.connection.transport if answer.connection is not None else None
    answer.close()
    if isinstance(transport, asyncio.WriteTransport):
        transport.abort()


async def _chunks(answer: aiohttp.ClientResponse, request: Request) -> AsyncIterator[bytes]:
    try:
        async for chunk in answer.content.iter_any():
            yield chunk
    except FAILURES as error:
        raise _translated(error, request, 0.0) from error


def _translated(error: Exception, request: Request, timeout: float) -> TransportError:
    """Our error for aiohttp's, whose messages may contain addresses, never credentials."""
    where = f"{request.method} {request.path}"
    match error:
        case aiohttp.ConnectionTimeoutError():
            return ConnectFailed(f"{where}: no connection in time")
        case TimeoutError():
            return TimedOut(f"{where}: no answer within {timeout:g} s")
        case aiohttp.ClientSSLError():
            return Untrusted(f"{where}: {_in_short(error)}")
        case aiohttp.ClientConnectorDNSError():
            return Unresolved(f"{where}: {_in_short(error)}")
        case aiohttp.ClientConnectorError():
            return ConnectFailed(f"{where}: {_in_short(error)}")
        case aiohttp.InvalidURL() | aiohttp.ClientHttpProxyError():
            return ConnectFailed(f"{where}: {error}")
        case aiohttp.ClientResponseError() | ValueError():
            return BadAnswer(f"{where}: {error}")
        case InvalidInput():
            return LoginFailed(f"{where}: {error}")
        case _:
            return Disconnected(f"{where}: {str(error) or type(error).__name__}")


def _in_short(error: aiohttp.ClientConnectorError) -> str:
    """The system's message, without what is known: host, port and TLS parameters."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            said = error.certificate_error
            return str(getattr(said, "verify_message", "") or said)
        case aiohttp.ClientSSLError():
            return str(getattr(error.os_error, "reason", "") or error.os_error)
    cause = error.os_error
    known = cause.errno is not None and cause.errno > 0
    return os.strerror(cause.errno or 0) if known else str(cause.strerror or cause)
