"""The socket of the embedded server, and HTTP to ``Request`` and ``Response`` values and back.

Theory.      TLS, on loopback or where a user says. aiohttp's server without its application layer: one
             handler, no routes, no middleware. Connections are accepted here, and not by asyncio, which in
             want of files tries a thousand times in a row and writes a traceback for each. Shutdown: refuse
             new connections, close idle ones, end watches as at their timeout, give requests in flight a
             second, then drop what is left.
             The order of a request is authentication, the limits of the body, then the handler, which asks
             for authorization. Every error is answered with a Status; bugs of the server are logged.
Invariants.  There is no way to serve without authentication, nor, but for ``reach``, beyond loopback.
             A handshake that fails, or bytes that are not a request, cost one debug line.
             Every wait has a timeout: for a body, for an answer; clients that do not read are ended by
             ``connections``. No more of a stream is asked for before the client has taken what there is.
             Only work counts as in flight: no client that sends or reads slowly keeps others from theirs.
             One holder of a credential takes half of the places and of the bytes, unless it may all.
             A stream is always closed, whether it ends itself, the client leaves, or the server
             shuts down. When a client disconnects, its request is cancelled, as by a deadline
             in process. The authorization header is not passed on.
Called by    the composition root at start-up. ``authn`` finds the user of a request.
"""

import asyncio
import errno
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import replace
from typing import Any

import structlog
from aiohttp import HttpVersion11, StreamReader, web
from aiohttp.http import HttpProcessingError

from kubewright.apiserver.http import answers, requests
from kubewright.apiserver.http.authn import PREFIX, Authenticator, refuse_anonymous
from kubewright.apiserver.http.connections import (
    IDLE_SECONDS,
    READER_SECONDS,
    SEND_BYTES,
    Connection,
    Connections,
    Received,
    holder_of,
    keep_alive,
)
from kubewright.apiserver.http.pki import Pki
from kubewright.apiserver.http.reach import LOOPBACK, Reach, in_url
from kubewright.base.errors import InvalidInput
from kubewright.base.limits import REQUEST_SECONDS
from kubewright.wire.errors import ApiError, BadRequest, ServerError, TooManyRequests, Unavailable
from kubewright.wire.http import AUTHENTICATED, Handler, Request, Response, upgrade_of

ANSWER_SECONDS = 60.0
"""Timeout for the handler to return its response, as kube-apiserver's ``--request-timeout``."""

PIECE_BYTES = 64 * 1024
"""Large responses are sent in pieces; the next one when the client has taken the last one."""

HELD_BYTES = 128 * 1024 * 1024
"""Large responses that are being sent at one time, one more than these in any case; half of it is the most
for one holder, and one more."""

ARRIVING_BYTES = 128 * 1024 * 1024
"""Bodies of requests that have not arrived as a whole yet; half of it is the most for one user."""

IN_FLIGHT = 400
"""Ordinary requests that are worked on at one time, as kube-apiserver's ``--max-requests-inflight``; half
of it is the most for one holder (``connections.holder_of``). Who may hold all, as the administrator, has as
many again, as kube-apiserver exempts them: else two users could lock them out."""

TOO_MANY = "Too many requests, please try again later."


class Exchange:
    """Turns HTTP into values and back, and tracks the requests in flight."""

    def __init__(
        self, handler: Handler, authenticator: Authenticator, connections: Connections, tenant: str = ""
    ) -> None:
        self._handler, self._authenticator = handler, authenticator
        self._connections, self._tenant = connections, tenant
        self._working = self._arriving = 0
        self._working_of: Counter[str] = Counter()
        self._arriving_of: Counter[str] = Counter()
        self._held_of: Counter[str] = Counter()
        self._held: dict[int, tuple[int, int]] = {}
        """Sizes of the large bodies that are being sent, by their identity, and to how many each is."""
        self._requests: set[asyncio.Task[object]] = set()
        self._streams: set[asyncio.Task[object]] = set()
        self._ending = False

    async def serve(self, http: web.BaseRequest) -> web.StreamResponse:
        """One request, from its headers to the last byte of its answer."""
        connection = _connection_of(http)
        if connection is None:
            return web.Response(status=503)  # the client has left
        connection.serves()
        try:
            if "upgrade" in http.headers and upgrade_of(_headers(http)):
                return await self._upgrading(http, connection)
            return await self._served(http, connection)
        finally:
            connection.waits()

    async def _upgrading(self, http: web.BaseRequest, connection: Connection) -> web.StreamResponse:
        """A request that wants to leave HTTP. What follows its head is kept from aiohttp, so it is the last
        one of the connection, also where it is refused."""
        answer: web.StreamResponse
        try:
            answer = await self._served(http, connection, connection.leaves_http())
        except BadRequest as error:
            answer = await self._whole(http, connection, answers.failure(error))
        except ConnectionError:
            answer = web.Response(status=503)  # to no client: it has left
        answer.force_close()
        return answer

    async def _served(
        self, http: web.BaseRequest, connection: Connection, received: Received | None = None
    ) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._requests.add(task)
        try:
            response = await self._answer(http, connection)
            if response.talk is not None and received is not None:
                response = replace(response, stream=response.talk(received))
            if response.stream is None:
                return await self._whole(http, connection, response)
        finally:
            self._requests.discard(task)
        self._streams.add(task)
        if response.patient:
            connection.patience = READER_SECONDS
        try:
            return await self._stream(http, connection, response)
        finally:
            self._streams.discard(task)

    async def end(self, grace: float) -> None:
        """End every stream now, every other request when it is done or ``grace`` seconds are over.

        Later requests are refused. Takes one and a half times ``grace`` at most.
        """
        self._ending = True
        streams = set(self._streams)
        for task in streams:
            task.cancel()
        under_way = streams | self._requests
        if under_way:
            _, late = await asyncio.wait(under_way, timeout=grace)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=grace / 2)

    async def _answer(self, http: web.BaseRequest, connection: Connection) -> Response:
        try:
            if self._ending:
                raise Unavailable("the server is shutting down", retry_after=1)
            return await self._handled(await self._request(http, connection))
        except ApiError as error:
            return answers.failure(error)
        except TimeoutError:
            said = f"Timeout: request did not complete within the allotted {ANSWER_SECONDS:g} s"
            return answers.failure(ServerError(said, code=504, reason="Timeout"))
        except Exception:
            log.exception("a request failed that should not have", method=http.method, path=http.path)
            said = "Internal error occurred: this is a defect of the server, and its log says more"
            return answers.failure(ServerError(said))

    async def _handled(self, request: Request) -> Response:
        holder = holder_of(request.user)
        own, others = self._working_of[holder], self._working if holder else 0
        if others >= IN_FLIGHT or own >= (IN_FLIGHT // 2 if holder else IN_FLIGHT):
            raise TooManyRequests(TOO_MANY, retry_after=1)
        self._working += 1
        try:
            with _counted(self._working_of, holder, 1):
                async with asyncio.timeout(ANSWER_SECONDS):
                    return await self._handler(request)
        finally:
            self._working -= 1

    async def _request(self, http: web.BaseRequest, connection: Connection) -> Request:
        headers = _headers(http)
        shown = http.get_extra_info("ssl_object")
        certificate = shown.getpeercert(binary_form=True) if shown is not None else None
        user = self._authenticator.user(certificate, headers.pop("authorization", ""))
        refuse_anonymous(user, http.method, http.path)
        known = AUTHENTICATED in user.groups
        if known and not self._connections.recognized(connection, holder_of(user, self._tenant)):
            raise TooManyRequests(TOO_MANY, retry_after=1)  # it has ended: no request of it is performed
        url = http.rel_url
        query = tuple(url.query.items()) if url.raw_query_string else ()
        body = await self._body(http, headers, user.name) if known else b""  # strangers' reads need none
        return Request(http.method, url.path, query, headers, body, user)

    async def _body(self, http: web.BaseRequest, headers: Mapping[str, str], user: str) -> bytes:
        """The whole body; mostly it came with the headers and there is nothing to wait for.

        Raises:
            TooLarge, BadRequest, TooManyRequests
        """
        if not http.body_exists:
            return b""
        requests.bounded(http.content_length or 0)
        if http.content.is_eof():
            return http.content.read_nowait()  # all of it is here, and it is less than a buffer
        if headers.get("expect", "").lower() == "100-continue" and http.version >= HttpVersion11:
            await http.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                return await self._arrived(http.content, user)
        except TimeoutError:
            raise BadRequest(f"the body did not arrive within {REQUEST_SECONDS:g} s") from None
        except web.RequestPayloadError:
            raise BadRequest("the body is not what its headers announce") from None

    async def _arrived(self, content: StreamReader, user: str) -> bytes:
        pieces, size = [], 0
        try:
            while piece := await content.readany():
                pieces.append(piece)
                size += len(piece)
                self._arriving += len(piece)
                self._arriving_of[user] += len(piece)
                requests.bounded(size)
                if self._arriving > ARRIVING_BYTES or self._arriving_of[user] > ARRIVING_BYTES // 2:
                    raise TooManyRequests(TOO_MANY, retry_after=1)
            return b"".join(pieces)
        finally:
            self._arriving -= size
            self._arriving_of[user] -= size
            if not self._arriving_of[user]:
                del self._arriving_of[user]

    async def _whole(
        self, http: web.BaseRequest, connection: Connection, response: Response
    ) -> web.StreamResponse:
        headers, body = _answer_headers(response), response.body
        if len(body) <= PIECE_BYTES:
            small = web.Response(status=response.status, body=body, headers=headers)
            if self._ending:
                small.force_close()
            return small
        holder = "" if self._tenant else self._connections.holder(connection)
        if self._is_too_much(body, holder):
            return await self._whole(
                http, connection, answers.failure(TooManyRequests(TOO_MANY, retry_after=1))
            )
        out = web.StreamResponse(status=response.status, headers=headers)
        out.content_length = len(body)
        with self._holding(body), _counted(self._held_of, holder, len(body)):
            try:
                await out.prepare(http)
                if http.method != "HEAD":
                    await _send(out, connection, body)
            except ConnectionError:
                _abort(http)
        return out

    def _is_too_much(self, body: bytes, holder: str) -> bool:
        if id(body) in self._held:
            return False
        of_holder = self._held_of[holder] if holder else 0
        return bool(self._held and self._held_bytes() + len(body) > HELD_BYTES) or bool(
            of_holder and of_holder + len(body) > HELD_BYTES // 2
        )

    @contextmanager
    def _holding(self, body: bytes) -> Iterator[None]:
        self._held[id(body)] = len(body), self._held.get(id(body), (0, 0))[1] + 1
        try:
            yield
        finally:
            size, times = self._held.pop(id(body))
            if times > 1:
                self._held[id(body)] = size, times - 1

    def _held_bytes(self) -> int:
        return sum(size for size, _ in self._held.values())

    async def _stream(
        self, http: web.BaseRequest, connection: Connection, response: Response
    ) -> web.StreamResponse:
        assert response.stream is not None
        out = web.StreamResponse(status=response.status, headers=_answer_headers(response))
        async with aclosing(response.stream) as chunks:
            try:
                await self._pump(http, connection, chunks, out)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if not self._ending or task is None:
                    raise
                task.uncancel()  # the server shuts down: the stream ends like any other
            except ConnectionError:
                _abort(http)
            except Exception:
                log.exception("a stream failed that should not have", path=http.path)
                _abort(http)
        return out

    async def _pump(
        self,
        http: web.BaseRequest,
        connection: Connection,
        chunks: AsyncIterator[bytes],
        out: web.StreamResponse,
    ) -> None:
        """Send the headers at once, as the first chunk may take long; then each chunk as it comes."""
        await out.prepare(http)
        if self._ending:
            return
        async for chunk in chunks:
            await _send(out, connection, chunk)


@contextmanager
def _counted(counter: Counter[str], holder: str, amount: int) -> Iterator[None]:
    """Count something of a holder while it lasts; a holder of nothing has no entry."""
    counter[holder] += amount
    try:
        yield
    finally:
        counter[holder] -= amount
        if not counter[holder]:
            del counter[holder]


async def _send(out: web.StreamResponse, connection: Connection, content: bytes) -> None:
    """Write, each piece when the one before is with the system.

    Raises:
        ConnectionError: the client has disconnected, or does not read.
    """
    for start in range(0, len(content), PIECE_BYTES):
        await out.write(content[start : start + PIECE_BYTES])
        await connection.written()


def _connection_of(http: web.BaseRequest) -> Connection | None:
    """None: the client has left."""
    protocol = None if http.transport is None else http.transport.get_protocol()
    return protocol if isinstance(protocol, Connection) else None


def _answer_headers(response: Response) -> dict[str, str]:
    if response.talk is not None:
        return dict(response.headers)
    return {
        "content-type": response.content_type,
        "cache-control": "no-cache, private",
        "server": "kubewright",
        **response.headers,
    }


def _headers(http: web.BaseRequest) -> dict[str, str]:
    """With lower-case names; repeated headers are joined by commas or, where values may have commas, by
    newlines. Bytes that are not UTF-8 are replaced."""
    found: dict[str, str] = {}
    for title, text in http.headers.items():
        name = title.lower()
        value = text if text.isascii() else text.encode(errors="surrogateescape").decode(errors="replace")
        joint = "\n" if name.startswith(PREFIX) else ", "
        found[name] = f"{found[name]}{joint}{value}" if name in found else value
    return found


def _abort(http: web.BaseRequest) -> None:
    """Close without the terminating chunk, so that the client does not take a part for the whole."""
    if http.transport is not None:
        http.transport.abort()


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
        keep_alive(bound)  # and so each connection
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
