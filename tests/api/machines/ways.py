"""Between the processes of a stage and a server: what a network or a webhook does to requests."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace

import msgspec

from kubewright.apiserver.server import ApiServer
from kubewright.kube.errors import ConnectFailed
from kubewright.wire.errors import Forbidden, to_status
from kubewright.wire.http import Request, Response


class Way(ApiServer):
    """The way of processes to a server. While it is ``severed`` watches end and requests do not arrive; a
    request that it ``refuses`` is answered as by a webhook."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self.severed = asyncio.Event()
        self.refuses: Callable[[Request], bool] = lambda _request: False

    async def handle(self, request: Request) -> Response:
        if self.severed.is_set():
            raise ConnectFailed("the cluster cannot be reached")
        if self.refuses(request):
            refusal = Forbidden("a webhook denied the request")
            return Response(refusal.code, msgspec.json.encode(to_status(refusal)))
        answer = await self._server.handle(request)
        return replace(answer, stream=self._until_severed(answer.stream)) if answer.stream else answer

    async def _until_severed(self, stream: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        severed = asyncio.ensure_future(self.severed.wait())
        chunk = asyncio.ensure_future(anext(stream, b""))
        try:
            while True:
                await asyncio.wait({severed, chunk}, return_when=asyncio.FIRST_COMPLETED)
                if severed.done() or not chunk.result():
                    return
                yield chunk.result()
                chunk = asyncio.ensure_future(anext(stream, b""))
        finally:
            severed.cancel()
            chunk.cancel()
            await asyncio.gather(severed, chunk, return_exceptions=True)
            await stream.aclose()
