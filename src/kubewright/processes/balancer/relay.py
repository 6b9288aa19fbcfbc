"""Opens a connection to an instance for each client, and copies bytes in both directions.

Theory.      The opening is a sequence: the client's first message, an instance that answers it, the first
             answer to the client. Until that answer another instance may be tried with the same message. From
             then on two protocols copy, each at the pace of the other one: a reader is paused while the other
             side has more to send than fits into its buffer.
Invariants.  At most ``most`` connections; further clients wait in the queue of the listening socket. After
             one direction has ended, the other one has ``HALF_OPEN_SECONDS``; then both are cut off. A client
             that sends nothing, such as a probe, reaches no instance.
Called by    ``__main__``.

Which instances are tried for a new connection, and in which order.

Theory.      First come the instances in rotation: those that answer that they are ready, and to which no
             attempt has failed in the last second; the one with the fewest open connections is tried first.
             All others follow, because an instance that is not ready is better than none: while etcd does
             not answer, every API server answers that it is not ready, and still serves some requests.
Invariants.  Every instance is in the order exactly once.
"""

import asyncio
import logging
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from kubewright.base.clock import Clock

NEVER = float("-inf")
AVOIDED_SECONDS = 1.0
"""For how long an instance that failed is out of rotation; ``readiness`` goes on asking it meanwhile."""


@dataclass(slots=True)
class Instance:
    """One instance, as the balancer sees it; ``readiness`` and ``relay`` keep it up to date.

    ``ready``        what it has answered last; true where instances are not asked
    ``connections``  how many are open to it
    ``failed``       when an attempt to use it failed last, in seconds of a monotonic clock
    """

    host: str
    ready: bool = False
    connections: int = 0
    failed: float = NEVER


def in_rotation(instance: Instance, now: float) -> bool:
    """Whether new connections go to this instance."""
    return instance.ready and now >= instance.failed + AVOIDED_SECONDS


def order(instances: Sequence[Instance], now: float) -> list[Instance]:
    """All instances, the ones to try first in front."""
    return sorted(instances, key=lambda each: (not in_rotation(each, now), each.connections))


log = logging.getLogger("balancer")

FIRST_MESSAGE_SECONDS = 10.0
"""For the first message of a client."""
CONNECT_SECONDS = 1.0
ANSWER_SECONDS = 5.0
"""For the first answer of an instance. Go clients wait ten seconds for a TLS handshake: two instances."""
HALF_OPEN_SECONDS = 60.0
"""The time that kube-apiserver gives a request by default."""
PAUSE_SECONDS = 0.1
"""After the system could not accept a connection: it may have no file descriptor left."""
CHUNK = 64 * 1024
TLS_HANDSHAKE, TLS_HEADER, LONGEST_FIRST_MESSAGE = 22, 5, 16 * 1024 + 5


class Relay:
    """The connections of one listening socket. ``most``: how many at one time."""

    def __init__(self, instances: Sequence[Instance], port: int, clock: Clock, *, most: int) -> None:
        self._instances = instances
        self._port = port
        self._clock = clock
        self._slots = asyncio.Semaphore(most)
        self._tasks: set[asyncio.Task[None]] = set()

    async def accept(self, listener: socket.socket) -> None:
        """Serve the clients of this socket, until cancelled; open connections go on after that."""
        loop = asyncio.get_running_loop()
        while True:
            await self._slots.acquire()
            try:
                client, _ = await loop.sock_accept(listener)
            except OSError:
                self._slots.release()
                await self._clock.sleep(PAUSE_SECONDS)
                continue
            except asyncio.CancelledError:
                self._slots.release()
                raise
            task = loop.create_task(self._serve(client))
            self._tasks.add(task)
            task.add_done_callback(self._done)

    async def ended(self, seconds: float) -> None:
        """Wait until all connections have ended; cut off those that are left after so many seconds."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        left = list(self._tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._slots.release()

    async def _serve(self, client: socket.socket) -> None:
        """Serve one client, from its first message until both directions have ended."""
        with client, suppress(OSError, TimeoutError):
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(FIRST_MESSAGE_SECONDS):
                message = await _first_message(client)
            if not message or (opened := await self._opened(message)) is None:
                return
            instance, server, answer = opened
            instance.connections += 1
            try:
                with server:
                    await _joined(client, server, answer)
            finally:
                instance.connections -= 1

    async def _opened(self, message: bytes) -> tuple[Instance, socket.socket, bytes] | None:
        """The instance that answered, a connection with it, and its first answer; None: none answered."""
        for instance in order(self._instances, self._clock.monotonic()):
            server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            answer = b""
            try:
                answer = await self._tried(server, instance, message)
            except (OSError, TimeoutError) as error:
                if instance.ready:
                    log.info("%s failed: %s", instance.host, repr(error))
                instance.failed = self._clock.monotonic()
            finally:
                if not answer:
                    server.close()
            if answer:
                return instance, server, answer
        return None

    async def _tried(self, server: socket.socket, instance: Instance, message: bytes) -> bytes:
        """Connect to one instance, and send it the message. Returns its first answer; empty: it ended."""
        loop = asyncio.get_running_loop()
        server.setblocking(False)
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        async with asyncio.timeout(CONNECT_SECONDS):
            await loop.sock_connect(server, (instance.host, self._port))
        async with asyncio.timeout(ANSWER_SECONDS):
            await loop.sock_sendall(server, message)
            return await loop.sock_recv(server, CHUNK)


async def _first_message(client: socket.socket) -> bytes:
    """The first message of a client: of TLS the whole first record, else what came first; empty: none."""
    loop, found = asyncio.get_running_loop(), b""
    while len(found) < _wanted(found):
        more = await loop.sock_recv(client, LONGEST_FIRST_MESSAGE - len(found))
        if not more:
            return b""
        found += more
    return found


def _wanted(found: bytes) -> int:
    """How many bytes the first message has, as far as that is known."""
    if not found or found[0] != TLS_HANDSHAKE:
        return 1
    if len(found) < TLS_HEADER:
        return TLS_HEADER
    return min(TLS_HEADER + int.from_bytes(found[3:TLS_HEADER]), LONGEST_FIRST_MESSAGE)


async def _joined(client: socket.socket, server: socket.socket, answer: bytes) -> None:
    """Copy in both directions until both have ended. ``answer``: the first bytes for the client."""
    pair = _Pair()
    try:
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: pair.of_client, client)
        await loop.create_connection(lambda: pair.of_server, sock=server)
        pair.begin(answer)
        await pair.ended.wait()
    finally:
        pair.cut()


class _Pair:
    """The two sides of one connection. ``ended`` is set when both are closed."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.of_client, self.of_server = _Side(self), _Side(self)
        self.of_client.other, self.of_server.other = self.of_server, self.of_client
        self._deadline: asyncio.TimerHandle | None = None

    def begin(self, answer: bytes) -> None:
        self.of_client.send(answer)
        for side in (self.of_client, self.of_server):
            side.resume()

    def half_open(self) -> None:
        """Give the other direction a deadline, after one has ended."""
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().call_later(HALF_OPEN_SECONDS, self.cut)

    def closed(self) -> None:
        self.half_open()
        if self.of_client.closed and self.of_server.closed:
            self.ended.set()

    def cut(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        for side in (self.of_client, self.of_server):
            if side.transport is not None:
                side.transport.abort()


class _Side(asyncio.Protocol):
    """One side: what is read here is written to the other one."""

    def __init__(self, pair: _Pair) -> None:
        self.other: _Side
        self.transport: asyncio.Transport | None = None
        self.closed = False
        self._eof = False
        self._pair = pair

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        self.other.send(data)

    def eof_received(self) -> bool:
        """True keeps the other direction open; False closes this side after what is left to send."""
        self._eof = True
        self._pair.half_open()
        other = self.other.transport
        if other is None or other.is_closing():
            return False
        if self.other._eof:
            other.close()
            return False
        other.write_eof()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        other = self.other.transport
        if other is not None:
            other.close() if exc is None else other.abort()
        self._pair.closed()

    def pause_writing(self) -> None:
        if self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        self.other.resume()

    def resume(self) -> None:
        if self.transport is not None:
            self.transport.resume_reading()

    def send(self, data: bytes) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)
