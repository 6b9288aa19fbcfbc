"""The interface to an API server, two methods and ``close``; and the transports that need no network.

Theory.      A transport moves one ``wire.http.Request`` to a server and brings the answer back;
             it knows connections, TLS and credentials, and nothing about kinds, retries or caches.
             All of those are above it, and so are the same in process and over a socket.
             ``InProcess``  The embedded server is ``async (Request) -> Response``, so the client can simply
                            call it: no ports, no waiting on the kernel, and exact virtual time.
             ``Nowhere``    Machines may have no cluster that their VMs join (``--target-kubeconfig none``).
                            Controllers still ask for nodes, and the answer that lets all of them go on is
                            that there is none: lists are empty, objects are not found (each by its name: that
                            is certain), a watch shows nothing. So no controller has to know two kinds of
                            worlds.
             ``FencedTransport``  A leader that stood still (a paused VM) goes on with the requests
                            that it was about to send, and for a moment does not know that another leads.
                            Cancelling its work comes too late for what is sent in that moment. So each write
                            asks, right before it is sent, whether the term can still be ours: a comparison of
                            two numbers.
Invariants.  ``request`` answers whatever status the server gave; only the lack of an answer is an error
             (``kube.errors``). ``stream`` answers only when the server said 2xx. Cancelling either leaves no
             request behind on our side. Deadlines, errors and the closing of streams are in process those of
             a real connection. The fence lets reads, watches and Events pass: caches of candidates stay warm.
             What it refuses was not sent.
Implemented  by these and ``sockets.Sockets`` (HTTP connections); wrapped by ``discovery.MetadataOnly`` and
             ``testing.faults.Faulty``.
Called by    ``cli up`` and nearly every test (in process), ``compose.on_kubernetes`` (nowhere),
             ``compose.assembly`` (the fence, with ``runtime.leader.Elector.entitled``).
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import replace
from typing import Protocol

import msgspec

from kubewright.base.clock import Clock
from kubewright.base.limits import REQUEST_SECONDS
from kubewright.kube.errors import BadAnswer, ConnectFailed, Deposed, TimedOut, failure
from kubewright.wire.errors import ApiError, MethodNotAllowed, NotFound, to_status
from kubewright.wire.http import Handler, Request, Response


class Transport(Protocol):
    """How requests reach one API server."""

    async def request(self, request: Request, *, timeout: float) -> Response:
        """Send, and read the whole answer; ``timeout`` in seconds covers all of it.

        Raises:
            TransportError: there was no answer.
        """

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Send, and read the answer's body as it comes: chunks of any size, cut anywhere.

        ``wire.watch.Lines`` puts them together. The iterator ends when the server closes cleanly.

        Raises:
            ApiError: the server refused (400 and above).
            TransportError: there was no answer, or it broke off (also while iterating).
        """

    async def close(self) -> None:
        """Give up all connections. Later requests raise ``ConnectFailed``."""


class InProcess:
    """Talk to a server that lives in this process."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._closed = False

    async def request(self, request: Request, *, timeout: float) -> Response:
        """As ``Transport.request``."""
        if self._closed:
            raise ConnectFailed("this connection to the embedded server is closed")
        try:
            async with asyncio.timeout(timeout):
                response = await self._handler(request)
            return replace(response, body=b"") if request.method == "HEAD" else response
        except TimeoutError:
            raise TimedOut(f"{request.method} {request.path}: no answer within {timeout:g} s") from None

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """As ``Transport.stream``."""
        response = await self.request(request, timeout=REQUEST_SECONDS)
        if response.status >= 400:
            raise failure(response)
        if response.stream is None:
            raise BadAnswer(f"{request.method} {request.path}: the server answered without a stream")
        async with aclosing(response.stream) as chunks:
            yield chunks

    async def close(self) -> None:
        """As ``Transport.close``; the server itself lives on."""
        self._closed = True


BOOKMARK_SECONDS = 60.0
VERSION = b'"metadata":{"resourceVersion":"1"}'
EMPTY = Response(200, b'{"apiVersion":"v1","kind":"List","items":[],' + VERSION + b"}")
BOOKMARK = b'{"type":"BOOKMARK","object":{"apiVersion":"v1","kind":"List",' + VERSION + b"}}\n"


class Nowhere:
    """Answers as a server without objects does. ``clock`` times the watches."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def request(self, request: Request, *, timeout: float) -> Response:
        """As ``Transport.request``."""
        if request.method == "GET" and _is_list(request.path):
            return EMPTY
        said = f"{request.method} {request.path}: there is no cluster that has it"
        missing = NotFound(said, details={"name": "".join(_parts(request.path)[1:2])})
        error: ApiError = MethodNotAllowed(said) if request.method == "POST" else missing
        return Response(error.code, msgspec.json.encode(to_status(error)))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """As ``Transport.stream``."""
        stream = self._bookmarks(float(request.param("timeoutSeconds", "300")))
        async with aclosing(stream):
            yield stream

    async def _bookmarks(self, seconds: float) -> AsyncGenerator[bytes, None]:
        """A bookmark each minute, for so many seconds."""
        end = self._clock.monotonic() + seconds
        while (left := end - self._clock.monotonic()) > 0:
            await self._clock.sleep(min(BOOKMARK_SECONDS, left))
            yield BOOKMARK

    async def close(self) -> None:
        """As ``Transport.close``: there is nothing to give up."""


def _is_list(path: str) -> bool:
    """Whether a path names a collection, in a namespace, in all of them or outside; discovery is none."""
    return len(_parts(path)) == 1


def _parts(path: str) -> list[str]:
    """The plural of a kind, then the name of an object, then its subresource, as far as a path has them."""
    _, root, *rest = path.split("/")
    parts = rest[1:] if root == "api" else rest[2:]
    return parts[2:] if parts[:1] == ["namespaces"] and len(parts) > 2 else parts


NOT_SURE = "our Lease was not renewed in time, so another process may lead"

Entitled = Callable[[], bool]
"""Whether this process may write now."""


class FencedTransport:
    """``inner``, for as long as ``entitled`` says so."""

    def __init__(self, inner: Transport, entitled: Entitled) -> None:
        self._inner = inner
        self._entitled = entitled

    async def request(self, request: Request, *, timeout: float) -> Response:
        """As ``Transport.request``.

        Raises:
            Deposed: it is a write, and this process does not lead (any more).
        """
        if request.method != "GET" and not _is_event(request) and not self._entitled():
            raise Deposed(f"{request.method} {request.path} is not sent: {NOT_SURE}")
        return await self._inner.request(request, timeout=timeout)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """As ``Transport.stream``."""
        return self._inner.stream(request)

    async def close(self) -> None:
        """As ``Transport.close``."""
        await self._inner.close()


def _is_event(request: Request) -> bool:
    return request.path.endswith("/events") or "/events/" in request.path
