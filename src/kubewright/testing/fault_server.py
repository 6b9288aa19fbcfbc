"""The faults of ``faults`` behind a real socket, to try the transports themselves.

Theory.      Any server handler (the embedded API server, or a small fake) is put behind aiohttp. What
             ``faults.Faulty`` raises, this server makes happen: a request is dropped by closing the
             connection, a watch goes silent while the connection stays open. On a looptime loop
             the sockets are real and the waits are virtual.
Called by    tests of ``kube.sockets``.
"""

import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from kubewright.base.clock import Clock
from kubewright.kube.errors import Disconnected
from kubewright.testing.faults import Answer, Choice, Delay, Fault, Lose, LoseAnswer, distorted
from kubewright.wire.http import Handler, Request, Response


@dataclass
class FaultServer:
    """A running server; ``asked`` records every request with its moment, ``url`` is where it listens."""

    url: str = ""
    asked: list[tuple[float, Request]] = field(default_factory=list)

    def count(self, *, since: float = 0.0) -> int:
        """Requests at or after a moment."""
        return sum(at >= since for at, _ in self.asked)


@asynccontextmanager
async def fault_server(
    handler: Handler, clock: Clock, choose: Choice, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[FaultServer]:
    """Serve ``handler`` on a free port of the loopback interface, with faults."""
    server = FaultServer()
    application = web.Application(client_max_size=2**26)
    application.router.add_route("*", "/{path:.*}", _Front(handler, clock, choose, server).handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        port = runner.addresses[0][1]
        server.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        yield server
    finally:
        await runner.cleanup()


class _Front:
    """From HTTP to values and back, through the chosen fault."""

    def __init__(self, handler: Handler, clock: Clock, choose: Choice, server: FaultServer) -> None:
        self._handler = handler
        self._clock = clock
        self._choose = choose
        self._server = server

    async def handle(self, http: web.Request) -> web.StreamResponse:
        request = Request(
            http.method,
            http.path,
            tuple(http.query.items()),
            {name.lower(): value for name, value in http.headers.items()},
            await http.read(),
        )
        self._server.asked.append((self._clock.monotonic(), request))
        fault = self._choose(request)
        match fault:
            case Lose():
                return _hang_up(http)
            case LoseAnswer():
                await self._handler(request)
                return _hang_up(http)
            case Answer():
                return _whole(fault.response)
            case Delay(seconds):
                await self._clock.sleep(seconds)
            case _:
                pass
        response = await self._handler(request)
        if response.stream is None:
            return _whole(response)
        return await self._stream(http, response, fault)

    async def _stream(self, http: web.Request, response: Response, fault: Fault | None) -> web.StreamResponse:
        assert response.stream is not None
        out = web.StreamResponse(status=response.status, headers={"content-type": response.content_type})
        await out.prepare(http)
        async with aclosing(response.stream) as chunks:
            with contextlib.suppress(Disconnected, ConnectionError):
                async for chunk in distorted(chunks, fault, self._clock):
                    await out.write(chunk)
                await out.write_eof()
                return out
        return _hang_up(http, out)


def _whole(response: Response) -> web.Response:
    headers = {"content-type": response.content_type, **response.headers}
    return web.Response(status=response.status, body=response.body, headers=headers)


def _hang_up(http: web.Request, begun: web.StreamResponse | None = None) -> web.StreamResponse:
    """Close the connection without another byte."""
    if http.transport is not None:
        http.transport.abort()
    return begun or web.Response()
