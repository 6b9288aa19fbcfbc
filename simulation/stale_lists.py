"""A connection to a server that lags behind: lists are of an older version, and later changes come late.

Theory.      A list asks for exactly one version, which the server's history still has, and the watch
             that goes on from there is begun a while later. So a manager first acts on an older state, and
             its writes meet the present one. This is what a follower of a replicated API server may
             show to a client that is started again.
Called by    ``managers``, for those that are started again under ``Plot.stale``.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

from kubewright.base.clock import Clock
from kubewright.kube.transport import Transport
from kubewright.wire.http import Request, Response

BEHIND_SECONDS = 3.0
"""How long a manager sees the older state."""


class StaleLists:
    """``inner`` as of ``version``, for the first seconds."""

    def __init__(self, inner: Transport, clock: Clock, version: int) -> None:
        self._inner = inner
        self._clock = clock
        self._version = max(1, version)
        self._until = clock.monotonic() + BEHIND_SECONDS

    async def request(self, request: Request, *, timeout: float) -> Response:
        """As ``Transport.request``; lists are old."""
        if self._behind and _begins_list(request):
            old = (("resourceVersion", str(self._version)), ("resourceVersionMatch", "Exact"))
            asked = replace(request, query=(*request.query, *old))
            response = await self._inner.request(asked, timeout=timeout)
            if response.status < 400:
                return response
        return await self._inner.request(request, timeout=timeout)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """As ``Transport.stream``; watches are silent for the first seconds."""
        return self._stream(request)

    @asynccontextmanager
    async def _stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        if self._behind:
            await self._clock.sleep(self._until - self._clock.monotonic())
        async with self._inner.stream(request) as chunks:
            yield chunks

    async def close(self) -> None:
        """As ``Transport.close``."""
        await self._inner.close()

    @property
    def _behind(self) -> bool:
        return self._clock.monotonic() < self._until


def _begins_list(request: Request) -> bool:
    return bool(request.method == "GET" and request.param("limit") and not request.param("continue"))
