"""One request over HTTP becomes a ``Request`` value, and the ``Response`` value an answer.

Theory.      The handler gets and returns values; this module does the HTTP. The order is
             authentication, the limits of the body, then the handler, which asks for authorization.
             Every error is answered with a Status; bugs of the server are logged.
Invariants.  Every wait has a timeout: for a body, for an answer; clients that do not read are ended by
             ``connections``. No more of a stream is asked for before the client has taken what there is.
             Only work counts as in flight: no client that sends or reads slowly keeps others from theirs.
             One holder of a credential takes half of the places and of the bytes, unless it may all.
             A stream is always closed, whether it ends itself, the client leaves, or the server
             shuts down. When a client disconnects, its request is cancelled, as by a deadline
             in process. The authorization header is not passed on.
Called by    ``listener``. ``authn`` finds the user of a request.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import replace

import structlog
from aiohttp import HttpVersion11, StreamReader, web

from kubewright.apiserver.http import answers, bodies
from kubewright.apiserver.http.authn import Authenticator, refuse_anonymous
from kubewright.apiserver.http.connections import (
    READER_SECONDS,
    Connection,
    Connections,
    Received,
    holder_of,
)
from kubewright.apiserver.http.impersonation import PREFIX
from kubewright.base.limits import REQUEST_SECONDS
from kubewright.wire.errors import ApiError, BadRequest, ServerError, TooManyRequests, Unavailable
from kubewright.wire.http import AUTHENTICATED, Handler, Request, Response, upgrade_of

log = structlog.get_logger("kubewright.apiserver.http")

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
            return web.Response(status=503)  # to nobody: the client has left
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
        bodies.bounded(http.content_length or 0)
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
                bodies.bounded(size)
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
