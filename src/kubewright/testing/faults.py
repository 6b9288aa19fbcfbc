"""Faults between a client and an API server, injected at the boundary and never in the code.

Theory.      A fault is a value; what injects it is separate. ``Faulty`` wraps a transport, so a
             whole system in one process can be tried on virtual time; ``fault_server`` below does the same
             behind a real socket, where the transports themselves are on trial. Both keep a
             record of what was asked and when.
             Which request is hit is decided by a function: ``Script`` for exact stories, ``Dice``
             for seeded storms.
Invariants.  A fault does what its name says and nothing else: ``LoseAnswer`` lets the server do its
             work, ``Lose`` does not. The same seed gives the same faults for the same requests.
Called by    tests; shipped, because authors of controllers on our runtime need it too.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, MutableSequence, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from kubewright.base.clock import Clock
from kubewright.kube.errors import BadAnswer, ConnectFailed, Disconnected, TimedOut, TransportError, failure
from kubewright.kube.transport import Transport
from kubewright.testing.clocks import LoopClock
from kubewright.wire import watch
from kubewright.wire.http import Handler, Request, Response


@dataclass(frozen=True, slots=True)
class Lose:
    """The request never reaches the server."""


@dataclass(frozen=True, slots=True)
class LoseAnswer:
    """The server does what it was asked; the answer is lost."""


@dataclass(frozen=True, slots=True)
class Delay:
    """The answer comes this many seconds late; of a watch, its beginning."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ExecuteLate:
    """The sender gets a broken connection; so many seconds later the server carries the request out.

    Networks and proxies may deliver a request after its sender gave it up, or died.
    """

    seconds: float


@dataclass(frozen=True, slots=True)
class Answer:
    """A proxy or an overloaded front end answers in the server's place."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    retry_after: int | None = None

    @property
    def response(self) -> Response:
        """As it goes over the wire."""
        headers = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        return Response(self.status, self.body, self.content_type, headers)


@dataclass(frozen=True, slots=True)
class Cut:
    """A watch ends cleanly after so many events."""

    after: int = 0


@dataclass(frozen=True, slots=True)
class Break:
    """The connection of a watch breaks after so many events, in the middle of the next."""

    after: int = 0


@dataclass(frozen=True, slots=True)
class Silence:
    """After so many events a watch sends nothing more, and its connection stays open."""

    after: int = 0


@dataclass(frozen=True, slots=True)
class Lag:
    """Each event of a watch comes this many seconds late."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Bunch:
    """Events of a watch are held back, and come in one piece every so many events."""

    size: int


@dataclass(frozen=True, slots=True)
class Say:
    """A watch sends this line and ends: an ERROR event, or no JSON at all."""

    line: bytes


Fault = Lose | LoseAnswer | Delay | ExecuteLate | Answer | Cut | Break | Silence | Lag | Bunch | Say
Choice = Callable[[Request], Fault | None]
Spawn = Callable[[Coroutine[Any, Any, None]], object]

EXPIRED = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
    b'"message":"too old resource version","reason":"Expired","code":410}'
)

GONE = Answer(410, EXPIRED)
GONE_IN_STREAM = Say(b'{"type":"ERROR","object":' + EXPIRED + b"}\n")
BAD_GATEWAY = Answer(502, b"<html><body>Bad Gateway</body></html>", "text/html")
UNAVAILABLE = Answer(503)
FORBIDDEN = Answer(
    403, b'{"kind":"Status","status":"Failure","message":"no","reason":"Forbidden","code":403}'
)
INVALID = Answer(422, b'{"kind":"Status","status":"Failure","message":"no","reason":"Invalid","code":422}')
NOT_SERVED = Answer(404, b"404 page not found\n", "text/plain")


REQUEST_FAULTS = (Lose(), LoseAnswer(), Delay(2.0), UNAVAILABLE)
WATCH_FAULTS = (Cut(), Cut(3), Break(1), Silence(2), Lag(1.0), Bunch(3), GONE, GONE_IN_STREAM, Lose())


def is_watch(request: Request) -> bool:
    """Whether a request asks for a stream."""
    return request.param("watch") in ("true", "1")


@dataclass(slots=True)
class _Rule:
    fault: Fault
    method: str
    path: str
    watch: bool | None
    left: int | None

    def fits(self, request: Request) -> bool:
        return (
            self.left != 0
            and (not self.method or self.method == request.method)
            and self.path in request.path
            and (self.watch is None or self.watch == is_watch(request))
        )


class Script:
    """Faults for exactly the requests that a test names; of the rules that fit, the first not used up."""

    def __init__(self) -> None:
        self._rules: list[_Rule] = []

    def on(
        self,
        fault: Fault,
        *,
        method: str = "",
        path: str = "",
        watch: bool | None = None,
        times: int | None = 1,
    ) -> "Script":
        """Hit requests of this method whose path contains ``path``; ``times`` None means always."""
        self._rules.append(_Rule(fault, method, path, watch, times))
        return self

    def calm(self) -> None:
        """From now on nothing fails."""
        self._rules.clear()

    def __call__(self, request: Request) -> Fault | None:
        """The fault for this request."""
        for rule in self._rules:
            if rule.fits(request):
                if rule.left is not None:
                    rule.left -= 1
                return rule.fault
        return None


class Dice:
    """Random faults: each request is hit with probability ``chance`` by one that can hit it."""

    def __init__(
        self,
        seed: int,
        chance: float,
        *,
        requests: Sequence[Fault] = REQUEST_FAULTS,
        watches: Sequence[Fault] = (
            Cut(),
            Cut(3),
            Break(1),
            Silence(2),
            Lag(1.0),
            Bunch(3),
            GONE,
            GONE_IN_STREAM,
        ),
    ) -> None:
        self._random = LoopClock(seed=seed).random
        self._chance = chance
        self._requests, self._watches = requests, watches

    def calm(self) -> None:
        """From now on nothing fails."""
        self._chance = 0.0

    def __call__(self, request: Request) -> Fault | None:
        """The fault for this request."""
        if self._random.random() >= self._chance:
            return None
        return self._random.choice(self._watches if is_watch(request) else self._requests)


@dataclass
class Faulty:
    """A transport on which things go wrong. ``asked`` records every attempt with its moment in seconds.

    ``spawn`` starts the requests that are carried out late; where senders can be killed, it must start them
    in another process than the sender's.
    """

    inner: Transport
    clock: Clock
    choose: Choice
    asked: MutableSequence[tuple[float, Request]] = field(default_factory=list)
    spawn: Spawn = asyncio.create_task
    _late: list[object] = field(default_factory=list)

    async def request(self, request: Request, *, timeout: float) -> Response:
        """As ``Transport.request``, with the fault that was chosen."""
        self.asked.append((self.clock.monotonic(), request))
        match self.choose(request):
            case Lose():
                raise ConnectFailed("connection refused (injected)")
            case LoseAnswer():
                await self.inner.request(request, timeout=timeout)
                raise Disconnected("answer lost (injected)")
            case Delay(seconds):
                if seconds >= timeout:
                    await self.clock.sleep(timeout)
                    raise TimedOut("no answer in time (injected)")
                await self.clock.sleep(seconds)
                return await self.inner.request(request, timeout=timeout - seconds)
            case ExecuteLate(seconds):
                self._late.append(self.spawn(self._execute_late(request, seconds, timeout)))
                raise Disconnected("connection reset (injected)")
            case Answer() as answer:
                return answer.response
            case _:
                return await self.inner.request(request, timeout=timeout)

    async def _execute_late(self, request: Request, seconds: float, timeout: float) -> None:
        """Carry out a request whose sender has given it up."""
        await self.clock.sleep(seconds)
        with suppress(TransportError):
            await self.inner.request(request, timeout=timeout)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """As ``Transport.stream``, with the fault that was chosen."""
        return self._stream(request)

    @asynccontextmanager
    async def _stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        self.asked.append((self.clock.monotonic(), request))
        fault = self.choose(request)
        match fault:
            case Lose() | LoseAnswer() | ExecuteLate():
                raise ConnectFailed("connection refused (injected)")
            case Delay(seconds):
                await self.clock.sleep(seconds)
            case Answer(status) if status >= 400:
                raise failure(fault.response)
            case Answer():
                raise BadAnswer("no stream (injected)")
            case _:
                pass
        async with self.inner.stream(request) as chunks:
            yield distorted(chunks, fault, self.clock)

    async def close(self) -> None:
        """Close what is wrapped."""
        await self.inner.close()

    def count(self, *, since: float = 0.0) -> int:
        """Attempts at or after a moment."""
        return sum(at >= since for at, _ in self.asked)


async def distorted(
    chunks: AsyncIterator[bytes], fault: Fault | None, clock: Clock
) -> AsyncGenerator[bytes, None]:
    """A watch's body as the fault lets it through, line by line."""
    if isinstance(fault, Say):
        yield fault.line
        return
    lines, seen = _lines(chunks), 0
    held: list[bytes] = []
    while not (isinstance(fault, Cut) and seen >= fault.after):
        if isinstance(fault, Silence) and seen >= fault.after:
            await asyncio.Event().wait()
        line = await anext(lines, None)
        if line is None:
            return
        seen += 1
        match fault:
            case Break(after) if seen > after:
                yield line[: len(line) // 2]
                raise Disconnected("connection reset (injected)")
            case Lag(seconds):
                await clock.sleep(seconds)
                yield line
            case Bunch(size):
                held.append(line)
                if len(held) >= size:
                    yield b"".join(held)
                    held.clear()
            case _:
                yield line


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    lines = watch.Lines()
    async for chunk in chunks:
        for line in lines.feed(chunk):
            yield line + b"\n"


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
