"""A transport that sends writes only while we are entitled to make them.

Theory.      A leader that stood still (a paused virtual machine, a swapped-out process) goes on with the
             requests that it was about to send, and for a moment does not know that another leads.
             Cancelling its work comes too late for what is sent in that moment. So each write asks, right
             before it is sent, whether the term can still be ours; the answer is a comparison of two
             numbers.
Invariants.  Reads and watches always pass: caches of candidates stay warm. So do Events, which decide
             nothing. What is refused here was not sent.
Called by    ``compose.assembly``, for processes that elect a leader (``runtime.leader.Elector.entitled``).
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

from kubewright.kube.errors import Deposed
from kubewright.kube.transport import Transport
from kubewright.wire.http import Request, Response

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
