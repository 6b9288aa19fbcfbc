"""The interface to an API server: two methods, and ``close``.

Theory.      A transport moves one ``wire.http.Request`` to a server and brings the answer back;
             it knows connections, TLS and credentials, and nothing about kinds, retries or caches.
             All of those are above it, and so are the same in process and over a socket.
Invariants.  ``request`` answers whatever status the server gave; only the lack of an answer is an
             error (``kube.errors``). ``stream`` answers only when the server said 2xx. Cancelling
             either leaves no request behind on our side.
Implemented  by ``inprocess.InProcess`` (a handler in this process) and ``sockets.Sockets`` (HTTP
             connections); wrapped by ``testing.faults.Faulty``.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from kubewright.wire.http import Request, Response


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
