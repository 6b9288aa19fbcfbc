"""The transport over real sockets: credentials, TLS, deadlines, errors, streams.

Theory.      ``connections`` carries requests that are answered whole; aiohttp carries watches, and all of a
             server behind a proxy. ``access`` has our identity. Bodies go out as the bytes they are
             (docs/decisions/0018-one-transport.md). A request without the credentials that
             the kubeconfig promises would be made as another user, so a failing plugin or an unreadable token
             file is an error of the request (``LoginFailed``), not a reason to go on without. Plugins and
             files are asked again when their answer grows old, and once after a 401; a 403 is an answer.
             Python reads client certificates only from files, so ours become files for milliseconds.
Invariants.  Every failure of aiohttp becomes one of ``kube.errors``. A 401 is repeated once, if new
             credentials can be had: the server did nothing. Proxies come from the kubeconfig, never from the
             environment. Closing waits a moment for requests under way, and leaves no socket open: a
             cancelled request loses its connection to asyncio, which never closes one that is cancelled
             before its TLS handshake begins, and else waits until the server closes it. One plugin runs at a
             time, with a deadline, without a terminal. Nothing that it prints reaches a log: only that it
             failed, and its exit status. Key files are in a private folder (mode 0700), which is removed when
             the ``with`` ends.
Called by    ``config``.
"""

import asyncio
import base64
import os
import socket
import ssl
import tempfile
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode
from weakref import WeakSet

import aiohttp
import msgspec
from yarl import URL

from kubewright.base.clock import Clock, parse_rfc3339
from kubewright.base.errors import InvalidInput
from kubewright.base.limits import EVICTIONS_AT_ONCE, REQUEST_SECONDS
from kubewright.kube.access import Access, Anonymous, Basic, Login, Plugin, Token, TokenFile, impersonation
from kubewright.kube.connections import CONNECT_SECONDS, Connections
from kubewright.kube.errors import (
    BadAnswer,
    ConnectFailed,
    Disconnected,
    LoginFailed,
    TimedOut,
    TransportError,
    Unresolved,
    Untrusted,
    failure,
)
from kubewright.pki import tls
from kubewright.wire.http import JSON, Request, Response


@contextmanager
def _key_files(certificate: bytes, key: bytes) -> Iterator[tuple[str | None, str | None]]:
    """Paths of the certificate and the key while the block runs; None, None when there are none."""
    if not certificate:
        yield None, None
        return
    with tempfile.TemporaryDirectory(prefix="kubewright-") as folder:
        paths = []
        for name, data in (("tls.crt", certificate), ("tls.key", key)):
            path = Path(folder, name)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
            paths.append(str(path))
        yield paths[0], paths[1]


def tls_context(access: Access, certificate: bytes, key: bytes) -> ssl.SSLContext | None:
    """What a connection to this server needs; None for plain HTTP.

    Raises:
        InvalidInput: the certificates are no certificates.
    """
    if not access.server.startswith("https://"):
        return None
    try:
        made = tls.unchecked() if access.insecure else tls.client(access.ca or None)
        with _key_files(certificate, key) as (certificate_path, key_path):
            if certificate_path:
                made.load_cert_chain(certificate_path, key_path)
    except (ssl.SSLError, ValueError) as error:
        what = "the client certificate or its key" if access.certificate else "the certificate authority"
        raise InvalidInput(f"{access.server}: {what} is not valid PEM, or they do not fit: {error}") from None
    return made


FILE_SECONDS = 60.0
"""How long a token that was read from a file is used before the file is read again."""

PLUGIN_SECONDS = 60.0
"""Deadline of a credential plugin."""

EARLY = timedelta(seconds=30)
"""Credentials are renewed this long before they expire."""

PLUGIN_BYTES = 1 << 20
"""Most output of a plugin that we read."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What proves who we are: a header, a client certificate, or both. PEM; empty means none."""

    authorization: str = field(default="", repr=False)
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)


class Logins:
    """The credentials of one access, kept fresh."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self._login: Login = access.login
        self._given = Credentials("", access.certificate, access.key)
        self._clock = clock
        self._current: Credentials | None = None
        self._until: float | datetime | None = None
        self._renewing = asyncio.Lock()

    async def current(self) -> Credentials:
        """The credentials to use now.

        Raises:
            LoginFailed: the plugin or the token file failed.
        """
        if self._current is not None and not self._old():
            return self._current
        async with self._renewing:
            if self._current is None or self._old():
                self._current = await self._fetch()
        return self._current

    def refused(self, used: Credentials) -> bool:
        """The server did not accept them (401). Answers whether asking again may bring others."""
        if isinstance(self._login, (TokenFile, Plugin)):
            if self._current is used:
                self._current = None
            return True
        return False

    def _old(self) -> bool:
        if isinstance(self._until, datetime):
            return self._clock.now() >= self._until
        return self._until is not None and self._clock.monotonic() >= self._until

    async def _fetch(self) -> Credentials:
        given = self._given
        match self._login:
            case Anonymous():
                return given
            case Token(token):
                return Credentials(f"Bearer {token}", given.certificate, given.key)
            case Basic(user, password):
                pair = base64.b64encode(f"{user}:{password}".encode()).decode()
                return Credentials(f"Basic {pair}", given.certificate, given.key)
            case TokenFile(path):
                self._until = self._clock.monotonic() + FILE_SECONDS
                try:
                    token = path.read_text().strip()
                except OSError as error:
                    raise LoginFailed(f"cannot read the token file {path}: {error.strerror}") from None
                if not token:
                    raise LoginFailed(f"the token file {path} is empty")
                return Credentials(f"Bearer {token}", given.certificate, given.key)
            case Plugin() as plugin:
                return self._parsed(plugin, await _run(plugin))

    def _parsed(self, plugin: Plugin, output: bytes) -> Credentials:
        try:
            answer = _decoder.decode(output)
        except msgspec.DecodeError:
            raise LoginFailed(f"the credential plugin {plugin.command} printed no ExecCredential") from None
        if answer.api_version != plugin.api_version:
            raise LoginFailed(f"the credential plugin {plugin.command} answered in {answer.api_version!r}")
        status = answer.status
        if status is None or not (
            status.token or (status.client_certificate_data and status.client_key_data)
        ):
            raise LoginFailed(f"the credential plugin {plugin.command} gave neither token nor certificate")
        expires = status.expiration_timestamp
        self._until = None if expires is None else parse_rfc3339(expires) - EARLY
        return Credentials(
            f"Bearer {status.token}" if status.token else "",
            (status.client_certificate_data or "").encode() or self._given.certificate,
            (status.client_key_data or "").encode() or self._given.key,
        )


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class _Credential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    status: _Status | None = None


_decoder = msgspec.json.Decoder(_Credential)


async def _run(plugin: Plugin) -> bytes:
    """What the plugin prints."""
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env={**os.environ, **dict(plugin.env), "KUBERNETES_EXEC_INFO": _request(plugin)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=PLUGIN_BYTES,
        )
    except OSError as error:
        hint = f" ({plugin.hint})" if plugin.hint else ""
        raise LoginFailed(
            f"cannot run the credential plugin {plugin.command}: {error.strerror}{hint}"
        ) from None
    try:
        async with asyncio.timeout(PLUGIN_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        raise LoginFailed(f"the credential plugin {plugin.command} took too long") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise LoginFailed(f"the credential plugin {plugin.command} failed with status {process.returncode}")
    return output


def _request(plugin: Plugin) -> str:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.cluster is not None:
        spec["cluster"] = dict(plugin.cluster)
    return msgspec.json.encode(
        {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    ).decode()


CONNECTIONS = 64
"""Most requests at one time, and so the connections they hold: each costs a TLS handshake and some
300 KiB; an API server is busy with fewer. Watches are not counted, since one that waited for another
to end would wait for ever, and so would the requests behind it. Evictions have as many connections of their
own (``EVICTIONS_AT_ONCE``): a webhook may hold each for a minute, and our Leases are renewed meanwhile."""

EVICTION = "/eviction"
"""How the path of an eviction ends."""

CHUNK_BYTES = 2**21
"""Read buffer of a connection: what aiohttp takes from the kernel before it makes the server wait."""

SSLProtocol.max_size = TLS_BYTES = 2**16
"""The buffer of each TLS connection of this process, and the most that is read from it at once: four records.
asyncio's 256 KiB are held by each connection, and are allocated anew for each read, which costs 16 µs."""

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
        self._connections: Connections | None = None
        self._identity: tuple[bytes, bytes] | None = None
        self._direct = not access.proxy and "@" not in access.server
        self._opened: WeakSet[socket.socket] = WeakSet()

    async def request(self, request: Request, *, timeout: float) -> Response:
        """As ``Transport.request``."""
        self._begin()
        slots = self._eviction_slots if request.path.endswith(EVICTION) else self._slots
        try:
            async with asyncio.timeout(timeout), slots:
                if self._direct:
                    return await self._answer(request)
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
        if self._connections is not None:
            self._connections.close()
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

    async def _answer(self, request: Request) -> Response:
        """The whole answer, over a connection of our own."""
        credentials = await self._logins.current()
        response = await self._exchange(request, credentials)
        if response.status != 401 or not self._logins.refused(credentials):
            return response
        return await self._exchange(request, await self._logins.current())

    async def _exchange(self, request: Request, credentials: Credentials) -> Response:
        pair = (credentials.certificate, credentials.key)
        if self._connections is None or pair != self._identity:
            if self._connections is not None:
                self._connections.close()
            encrypted = tls_context(self.access, *pair)
            self._connections = Connections(
                self.access.server, encrypted, self.access.tls_server_name, self._opened
            )
            self._identity = pair
        headers = [*self._headers(request, credentials).items(), *impersonation(self.access.acts_as)]
        return await self._connections.exchange(request, _target(request), headers)

    async def _logged_in(self, request: Request) -> aiohttp.ClientResponse:
        credentials = await self._logins.current()
        answer = await self._send(request, credentials)
        if answer.status != 401 or not self._logins.refused(credentials):
            return answer
        answer.release()
        return await self._send(request, await self._logins.current())

    async def _send(self, request: Request, credentials: Credentials) -> aiohttp.ClientResponse:
        """Send, and answer once the head of the answer is here."""
        headers = self._headers(request, credentials)
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
        return URL(f"{self.access.server}{_target(request)}", encoded=True)

    def _headers(self, request: Request, credentials: Credentials) -> Mapping[str, str]:
        if not credentials.authorization:
            return request.headers
        return {**request.headers, "authorization": credentials.authorization}

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
        encrypted = tls_context(self.access, certificate, key)
        connector = aiohttp.TCPConnector(limit=0, ssl=encrypted or True, socket_factory=self._socket)
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


def _target(request: Request) -> str:
    """The path and the query of a request, quoted."""
    query = f"?{urlencode(request.query, quote_via=quote)}" if request.query else ""
    return f"{quote(request.path, safe=PATH_CHARACTERS)}{query}"


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
