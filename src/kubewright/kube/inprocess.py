"""A transport without a network: the server's handler is called in this process.

Theory.      The embedded server is ``async (Request) -> Response``, so the client can simply call
             it. No sockets means no ports, no waiting on the kernel, and exact virtual time.
Invariants.  Deadlines, errors and the closing of streams are those of a real connection, so code
             above cannot tell the difference. A stream is always closed on the server's side too.
Called by    ``cli up`` and nearly every test.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

from kubewright.base.limits import REQUEST_SECONDS
from kubewright.kube.answers import failure
from kubewright.kube.errors import BadAnswer, ConnectFailed, TimedOut
from kubewright.wire.http import Handler, Request, Response


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
