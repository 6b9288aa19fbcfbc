"""The network between processes: requests and watches take time, and either end may be killed.

Theory.      A server runs in a process of its own. A request is a task of the server's process, and
             the client waits for its answer; so a request is carried out also when its client is killed,
             cancelled or out of time, as on a real network. A watch
             is a connection: chunks travel one after the other, and it breaks when either end dies.
             Every leg takes a moment that the seed draws, so that no order can be relied upon.
Invariants.  A server that is down refuses. A request in flight when it dies gets no answer, only a
             broken connection; whether it was carried out is not known to its sender. A client
             that is cut off receives nothing: its requests are lost, and its watches are late.
Called by    ``world``, ``clusters``, ``managers``. A ``Line`` gets its faults from ``testing.faults.Faulty``.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import replace
from email.utils import format_datetime

from kubewright.apiserver.server import ApiServer
from kubewright.base.clock import Clock
from kubewright.base.limits import REQUEST_SECONDS
from kubewright.kube.errors import BadAnswer, ConnectFailed, Disconnected, TimedOut, failure
from kubewright.testing.faults import GONE_IN_STREAM
from kubewright.wire.http import Handler, Request, Response
from simulation.journal import Journal, MemoryLog
from simulation.loop import Process, SimClock, SimLoop

LEG_SECONDS = (0.0002, 0.003)
"""How long one leg of a request may take: the seed draws between these."""

READS = ("GET", "HEAD", "OPTIONS")

Asked = Callable[[str, Request], None]
Answered = Callable[[str, Request, Response], None]
Answer = Response | Disconnected
Lateness = Callable[[Process], float]


class Host:
    """One API server as the network sees it: up or down, and who has a connection to it."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.clock = clock
        self.process: Process | None = None
        self.slow: Lateness = lambda _client: 0.0
        """By how many seconds a watch's next chunk is late."""
        self.away: Lateness = lambda _client: 0.0
        """For how many seconds a client is still cut off: requests that it sends meanwhile are lost."""
        self.on_asked: list[Asked] = []
        self.on_answered: list[Answered] = []
        self._handle: Handler | None = None
        self._refusals = 0
        self._back = 0.0
        self._waiting: dict[asyncio.Future[Answer], None] = {}
        self._watches: dict[_Watch, None] = {}

    @property
    def is_up(self) -> bool:
        """Whether there is a server; it may still not be reachable."""
        return self._handle is not None

    @property
    def answering_since(self) -> float:
        """Since when there is a server that clients can reach; now, while there is none."""
        return self._back if self.is_up and not self._refusals else self.clock.monotonic()

    def up(self, process: Process, handle: Handler) -> None:
        """A server answers from now on."""
        self.process, self._handle = process, handle
        self._back = self.clock.monotonic()

    def down(self) -> None:
        """Kill the server: what is in flight is lost, watches break, new requests are refused."""
        if self.process is not None:
            self.process.kill()
        self._handle = None
        self.cut()

    def refuse(self) -> None:
        """The server runs, and no client can reach it."""
        self._refusals += 1
        self.cut()

    def admit(self) -> None:
        """End one ``refuse``."""
        self._refusals -= 1
        self._back = self.clock.monotonic()

    def cut(self) -> None:
        """Break all connections; requests in flight are still carried out."""
        waiting, self._waiting = self._waiting, {}
        for answer in waiting:
            if not answer.done():
                answer.set_result(Disconnected(f"{self.name}: connection reset"))
        for watch in tuple(self._watches):
            watch.close(Disconnected(f"{self.name}: connection reset"))

    def expire(self, clients: Collection[Process]) -> None:
        """Tell the watches of ``clients`` that history is lost, and end them with what they hold back."""
        for watch in tuple(self._watches):
            if watch.client in clients:
                watch.say(GONE_IN_STREAM.line)
                watch.close(None)

    def leave(self, client: Process) -> None:
        """A client was killed: its kernel closes its connections."""
        for watch in tuple(self._watches):
            if watch.client is client:
                watch.close(None)

    def take(self, client: Process, request: Request) -> asyncio.Future[Answer]:
        """Begin a request; the future has the answer, if one comes back.

        Raises:
            ConnectFailed: no server answers.
        """
        process, handle = self.process, self._handle
        if self._refusals or process is None or handle is None:
            raise ConnectFailed(f"{self.name}: connection refused")
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if self.away(client) > 0:
            return answer
        self._waiting[answer] = None
        process.spawn(self._serve(client, request, handle, answer), name=f"serve {request.method}")
        return answer

    def watch(self, client: Process, chunks: AsyncGenerator[bytes, None]) -> "_Watch":
        """Carry a stream's chunks to ``client``."""
        assert self.process is not None
        watch = _Watch(client, self.clock)
        self._watches[watch] = None
        watch.task = self.process.spawn(
            watch.carry(chunks, lambda: self._leg() + self.slow(client) + self.away(client)), name="watch"
        )
        watch.on_close = lambda: self._watches.pop(watch, None)
        return watch

    async def _serve(
        self, client: Process, request: Request, handle: Handler, answer: asyncio.Future[Answer]
    ) -> None:
        await self.clock.sleep(self._leg())
        for asked in self.on_asked:
            asked(client.name, request)
        try:
            response = await handle(request)
        except Disconnected as broken:
            self._waiting.pop(answer, None)
            if not answer.done():
                answer.set_result(broken)
            return
        for answered in self.on_answered:
            answered(client.name, request, response)
        await self.clock.sleep(self._leg())
        self._waiting.pop(answer, None)
        if answer.done() or not client.alive or self.away(client) > 0:
            if response.stream is not None:
                await response.stream.aclose()
            return
        answer.set_result(self._dated(response))

    def _dated(self, response: Response) -> Response:
        """The answer with the server's own time, as every HTTP server sends it."""
        date = format_datetime(self.clock.now(), usegmt=True)
        return replace(response, headers={**response.headers, "date": date})

    def _leg(self) -> float:
        return self.clock.random.uniform(*LEG_SECONDS)


class _Watch:
    """One stream on its way from a server to a client."""

    def __init__(self, client: Process, clock: Clock) -> None:
        self.client = client
        self.task: asyncio.Task[None] | None = None
        self.on_close: Callable[[], object] = lambda: None
        self._clock = clock
        self._chunks: list[bytes] = []
        self._end: Disconnected | None = None
        self._ended = False
        self._arrived = asyncio.Event()

    async def carry(self, chunks: AsyncGenerator[bytes, None], leg: Callable[[], float]) -> None:
        """The server's side."""
        try:
            async with aclosing(chunks):
                async for chunk in chunks:
                    await self._clock.sleep(leg())
                    self._chunks.append(chunk)
                    self._arrived.set()
        finally:
            self._over(None)

    async def read(self) -> AsyncGenerator[bytes, None]:
        """The client's side."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            chunks, self._chunks = self._chunks, []
            for chunk in chunks:
                yield chunk
            if self._ended and not self._chunks:
                if self._end is not None:
                    raise self._end
                return

    def say(self, chunk: bytes) -> None:
        """Deliver a chunk now."""
        self._chunks.append(chunk)
        self._arrived.set()

    def close(self, error: Disconnected | None) -> None:
        """The connection is gone, at both ends."""
        self._over(error)
        if self.task is not None:
            self.task.cancel()

    def _over(self, error: Disconnected | None) -> None:
        if not self._ended:
            self._ended, self._end = True, error
            self.on_close()
            self._arrived.set()


class Line:
    """A client's way to a server: a ``kube.transport.Transport``."""

    def __init__(self, host: Host, client: Process) -> None:
        self._host = host
        self._client = client

    async def request(self, request: Request, *, timeout: float) -> Response:
        """As ``Transport.request``."""
        answer = self._host.take(self._client, request)
        try:
            async with asyncio.timeout(timeout):
                got = await answer
        except TimeoutError:
            raise TimedOut(f"{request.method} {request.path}: no answer within {timeout:g} s") from None
        if isinstance(got, Disconnected):
            raise got
        return got

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """As ``Transport.stream``."""
        return self._stream(request)

    @asynccontextmanager
    async def _stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        response = await self.request(request, timeout=REQUEST_SECONDS)
        if response.status >= 400:
            raise failure(response)
        if response.stream is None:
            raise BadAnswer(f"{request.method} {request.path}: the server answered without a stream")
        watch = self._host.watch(self._client, response.stream)
        try:
            async with aclosing(watch.read()) as chunks:
                yield chunks
        finally:
            watch.close(None)

    async def close(self) -> None:
        """Nothing to give up."""


RESTART_SECONDS = 0.7
"""From the kill of a manager or server to the start of the next one."""


class SimServer:
    """``host`` is the server as the network sees it; ``version`` that of its last write."""

    def __init__(self, loop: SimLoop, journal: Journal, name: str, clock: Callable[[str], SimClock]) -> None:
        self.name = name
        self.host = Host(name, clock(f"{name} network"))
        self._loop = loop
        self._journal = journal
        self._clock = clock
        self._disk = MemoryLog(journal, name)
        self._lives = 0

    @property
    def version(self) -> int:
        """Of the last write."""
        return self._disk.version

    async def start(self) -> None:
        """Start a server on the objects that are there."""
        self._lives += 1
        process = Process(self._loop, f"{self.name} server")
        server = ApiServer(self._clock(f"{process.name} {self._lives}"), log=self._disk)
        await process.spawn(server.start(), name="start")
        self.host.up(process, server.handle)

    async def restart(self) -> None:
        """Kill the server and start it again with what it had acknowledged. One that is down stays down."""
        if not self.host.is_up:
            return
        self._journal.say("world", f"the {self.name} server is killed")
        self.host.down()
        await self._clock("fate").sleep(RESTART_SECONDS)
        await self.start()
