"""A transport that counts its requests for Prometheus.

Theory.      What a server answered is known at the boundary and nowhere else, so the boundary is
             wrapped; clients and controllers know nothing of it.
Called by    the composition root: ``Client(Metered(transport, metrics, "control"), ...)``.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kubewright.base.errors import KubewrightError
from kubewright.kube.transport import Transport
from kubewright.runtime.metrics import Metrics
from kubewright.wire.errors import ApiError
from kubewright.wire.http import Request, Response

NO_ANSWER = 0


class Metered:
    """``inner``, counted under the name ``client``. A stream counts when it opens, as method WATCH."""

    def __init__(self, inner: Transport, metrics: Metrics, client: str) -> None:
        self._inner = inner
        self._metrics = metrics
        self._client = client

    async def request(self, request: Request, *, timeout: float) -> Response:
        """As ``Transport.request``."""
        code = NO_ANSWER
        try:
            response = await self._inner.request(request, timeout=timeout)
            code = response.status
            return response
        finally:
            self._count(request.method, request.path, code)

    async def close(self) -> None:
        """As ``Transport.close``."""
        await self._inner.close()

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """As ``Transport.stream``."""
        opened = False
        try:
            async with self._inner.stream(request) as chunks:
                opened = True
                self._count("WATCH", request.path, 200)
                yield chunks
        except KubewrightError as error:
            if not opened:
                code = error.code if isinstance(error, ApiError) else NO_ANSWER
                self._count("WATCH", request.path, code)
            raise

    def _count(self, method: str, path: str, code: int) -> None:
        self._metrics.requested(self._client, method, resource_of(path), code)


def resource_of(path: str) -> str:
    """The resource, and subresource, that a path is about: ``pods/eviction``; the path itself for others."""
    match path.strip("/").split("/"):
        case ["api", _, "namespaces", _, plural, *rest] | ["apis", _, _, "namespaces", _, plural, *rest] if (
            plural not in {"finalize", "status"}
        ):
            pass
        case ["api", _, plural, *rest] | ["apis", _, _, plural, *rest]:
            pass
        case _:
            return path
    return "/".join([plural, *rest[1:]])
