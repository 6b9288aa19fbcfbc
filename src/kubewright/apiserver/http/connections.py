"""The connections of a process's listeners: how many there may be, and how long each may take.

Theory.      Every connection begins as a stranger's, and becomes known when a request on it shows a valid
             credential. Strangers have a part of the places only. Where it is full, the stranger that came
             first makes room for the newcomer: a client with a credential needs some milliseconds to show it,
             so it gets in, however many others hold a place for nothing. The places are fewer than the files
             that the process may open, so that ``accept`` does not fail for want of one. Of the places of the
             known, one holder has a part only (``holder_of``): who has more makes room with its own.
             One look a second at all connections ends those that are late, with the head of a request or with
             reading what is sent to them. A client that reads slowly is not late: time counts from the last
             bytes that it took.
Invariants.  What is buffered for a client is bounded: ``written`` returns when the transport has handed over
             all to the system, whose own buffer is ``SEND_BYTES``. What strangers do costs a debug line each,
             and one line a minute that is seen.
Called by    ``listener``, which accepts, tells what a connection does, and waits for it.
"""

import asyncio
import resource
import socket
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import structlog

from kubewright.apiserver.authorization.policy import ACCOUNT, MASTERS
from kubewright.base.clock import Clock
from kubewright.wire.errors import BadRequest
from kubewright.wire.http import User

log = structlog.get_logger("kubewright.apiserver.http")

HEAD_SECONDS = 30.0
"""For the head of a request, from its first byte; and for a stranger to begin one."""

IDLE_SECONDS = 300.0
"""Longer than clients keep idle connections (Go: 90 s), so that the client closes first."""

STALLED_SECONDS = 30.0
"""How long a client may take none of the bytes that wait for it."""

READER_SECONDS = 4 * 3600.0
"""The same where a person may read them, as kubelets have it (``streamingConnectionIdleTimeout``)."""

LOOK_SECONDS = 1.0
"""Between two looks for what is late."""

MOST_CONNECTIONS = 2048
"""However many files there may be: a connection takes some 400 KiB, most of them for asyncio's TLS."""

MOST_STRANGERS = 512

SEND_BYTES = 64 * 1024
"""The system's buffer of what a client has not taken yet. By default it grows to megabytes, of which we would
notice only that they are gone."""

QUIET_SECONDS = 60.0
"""Between two lines that say the same."""

RECEIVED_BYTES = 64 * 1024
"""What a client has sent on an upgraded connection, and is not passed on: more is not read from it."""


@dataclass(frozen=True, slots=True)
class Places:
    """How many connections there may be; of these, how many of strangers and how many of known users."""

    all: int
    strangers: int

    @property
    def known(self) -> int:
        """A few places are always left for those who have yet to show who they are."""
        return self.all - max(1, self.all // 16)

    @property
    def each(self) -> int:
        """How many of the known may be of one holder."""
        return max(1, self.known // 4)


def holder_of(user: User, tenant: str = "") -> str:
    """Who holds the connections of a user; empty: one who may hold all, as the administrator may. Pure.

    Who makes one service account can make more, so those of a namespace are one holder. So are all users of a
    ``tenant``, a cluster that a user of this server has made: that user is an administrator there.
    """
    if tenant:
        return f"all users of {tenant}"
    if MASTERS in user.groups:
        return ""
    return user.name.rpartition(":")[0] if user.name.startswith(ACCOUNT) else user.name


def places(files: int) -> Places:
    """The places in a process that may open ``files``; a quarter is for data files, drivers and the like."""
    most = max(2, min(MOST_CONNECTIONS, files - files // 4))
    return Places(most, max(1, min(MOST_STRANGERS, most // 2)))


def raise_file_limit() -> int:
    """Raise the number of files that this process may open to what the system lets it; returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):  # macOS says "unlimited" and takes less
            log.debug("the limit of open files stays as it is", files=soft)
    return soft if soft != resource.RLIM_INFINITY else MOST_CONNECTIONS * 2


KEEPALIVE = ("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 9)
"""As in Go: a machine that is gone is noticed after two and a half minutes, also where nothing is sent."""


def keep_alive(made: socket.socket) -> None:
    """Let the system ask the other side now and then whether it is there."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE:
        if (option := getattr(socket, name, None)) is not None:  # macOS has other names
            made.setsockopt(socket.IPPROTO_TCP, option, value)


class Received:
    """What a client sends on a connection that has left HTTP, as it comes; it ends when the client does."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._pieces = deque[bytes]()
        self._size = 0
        self._ended = False
        self._more: asyncio.Future[None] | None = None

    def feed(self, data: bytes) -> None:
        self._pieces.append(data)
        self._size += len(data)
        if self._size >= RECEIVED_BYTES:
            self._transport.pause_reading()
        self._tell()

    def end(self) -> None:
        self._ended = True
        self._tell()

    def __aiter__(self) -> "Received":
        return self

    async def __anext__(self) -> bytes:
        while not self._pieces:
            if self._ended:
                raise StopAsyncIteration
            self._more = asyncio.get_running_loop().create_future()
            await self._more
        data = b"".join(self._pieces)
        self._pieces.clear()
        if self._size >= RECEIVED_BYTES and not self._ended:
            self._transport.resume_reading()
        self._size = 0
        return data

    def _tell(self) -> None:
        more, self._more = self._more, None
        if more is not None and not more.done():
            more.set_result(None)


class Connection(asyncio.Protocol):
    """One client's connection: hands all to ``inner``, aiohttp's protocol, and keeps what the room asks."""

    def __init__(self, inner: asyncio.Protocol, clock: Clock, gone: Callable[["Connection"], None]) -> None:
        self._inner, self._clock, self._gone = inner, clock, gone
        self._socket: asyncio.Transport | None = None
        self._transport: asyncio.Transport | None = None
        self._early: list[bytes] = []
        self._waiting_since: float | None = clock.monotonic()
        self._began: float | None = None
        self._full: asyncio.Future[None] | None = None
        self._left = self._emptied = self._emptied_before = 0
        self._taken = clock.monotonic()
        self._dropped = self._said_goodbye = False
        self._received: Received | None = None
        self._end_of_head = b""
        """The last bytes that came as HTTP."""
        self.patience = STALLED_SECONDS
        """How long the client may take nothing of what waits for it."""
        self.abort: Callable[[], object] = lambda: None
        """What ends it before it is open."""

    def open(self, socket: asyncio.Transport, transport: asyncio.Transport) -> None:
        """TLS is agreed upon: ``transport`` writes in TLS to ``socket``."""
        self._socket = socket
        if self._dropped or socket.is_closing():
            socket.abort()
            self._gone(self)
            return
        tls = socket.get_protocol()
        assert isinstance(tls, asyncio.BufferedProtocol)
        socket.set_protocol(_Tap(tls, self))
        socket.set_write_buffer_limits(high=0)
        transport.set_write_buffer_limits(high=1, low=0)
        self._transport = transport
        self._inner.connection_made(transport)
        early, self._early = self._early, []
        for data in early:
            self.data_received(data)

    # -- what asyncio calls

    def data_received(self, data: bytes) -> None:
        if (
            self._transport is None
        ):  # some clients send the first request together with the end of the handshake
            self._early.append(data)
            return
        if self._received is not None:
            self._received.feed(data)
            return
        if self._began is None and self._waiting_since is not None:
            self._began = self._clock.monotonic()
        self._end_of_head = (self._end_of_head + data[-4:])[-4:]
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        self.left()
        return None if self._transport is None else self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        was_open, self._transport = self._transport is not None, None
        self._said_goodbye = True
        if self._received is not None:
            self._received.end()
        self.emptied()
        if was_open:
            self._inner.connection_lost(exc)
        self._gone(self)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    # -- what the tap calls

    def left(self) -> None:
        """The client sends nothing any more. Then asyncio's TLS writes nothing either, and logs what it is
        given; so who is being answered, or has more requests that wait, is gone."""
        self._said_goodbye = True
        if self._waiting_since is None:
            asyncio.get_running_loop().call_soon(self.drop)

    def filled(self) -> None:
        """The system takes no more for the moment."""
        self._full = asyncio.get_running_loop().create_future()

    def emptied(self) -> None:
        """The system has taken all."""
        self._emptied += 1
        full, self._full = self._full, None
        if full is not None and not full.done():
            full.set_result(None)

    # -- what the exchange calls

    def serves(self) -> None:
        """The head of a request is there; it is being answered."""
        self._waiting_since = self._began = None
        self.patience = STALLED_SECONDS
        if self._said_goodbye:
            self.drop()

    def leaves_http(self) -> Received:
        """What the client sends from now on is not HTTP; the connection ends with this request.

        Raises:
            ConnectionError: the client is gone.
            BadRequest: more than the head of the request has come, and aiohttp has it: it would be lost.
        """
        if self._transport is None:
            raise ConnectionAbortedError("the client is gone")
        if self._end_of_head != b"\r\n\r\n":
            raise BadRequest("what follows a request for an upgrade has come before the answer to it")
        self._received = Received(self._transport)
        return self._received

    def waits(self) -> None:
        """It is answered; the next one may come."""
        self._waiting_since = self._clock.monotonic()

    async def written(self) -> None:
        """Return when all that was written is with the system.

        Raises:
            ConnectionError: the client is gone, or takes nothing.
        """
        if self._full is not None:
            await self._full
        if self._said_goodbye or self._socket is None or self._socket.is_closing():
            raise ConnectionAbortedError("the client is gone")

    # -- what the room calls

    @property
    def idle_since(self) -> float | None:
        """Since when it waits for a request; None while one is being answered."""
        return self._waiting_since

    def drop(self) -> None:
        self._dropped = True
        if self._socket is None:
            self.abort()
        else:
            self._socket.abort()

    def late(self, now: float, patience: float) -> str:
        """Why it is to end now; empty: it may stay. ``patience``: seconds that it may wait for a request."""
        if self._began is not None and now >= self._began + HEAD_SECONDS:
            return "the head of a request did not arrive"
        if self._waiting_since is not None and now >= self._waiting_since + patience:
            return "no request came"
        left = 0
        if self._socket is not None and self._transport is not None:
            left = self._socket.get_write_buffer_size() + self._transport.get_write_buffer_size()
        if left == 0 or left < self._left or self._emptied != self._emptied_before:
            self._taken = now
        self._left, self._emptied_before = left, self._emptied
        return "the client takes nothing" if now >= self._taken + self.patience else ""


class _Tap(asyncio.BufferedProtocol):
    """Between the socket and TLS: tells a connection when the socket is full and when it is empty.

    asyncio lets TLS write on within its own handling of an empty socket. Where that write fails, because the
    client is gone, it closes the connection twice, with a traceback; so TLS hears of it a moment later.
    """

    def __init__(self, tls: asyncio.BufferedProtocol, connection: Connection) -> None:
        self._tls, self._connection = tls, connection
        self._lost = False

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._tls.get_buffer(sizehint)  # type: ignore[return-value]

    def buffer_updated(self, nbytes: int) -> None:
        self._tls.buffer_updated(nbytes)

    def eof_received(self) -> bool | None:
        kept_open = self._tls.eof_received()
        self._connection.left()
        return kept_open

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._tls.connection_lost(exc)

    def pause_writing(self) -> None:
        self._tls.pause_writing()
        self._connection.filled()

    def resume_writing(self) -> None:
        asyncio.get_running_loop().call_soon(self._empty)

    def _empty(self) -> None:
        if not self._lost:
            self._tls.resume_writing()
            self._connection.emptied()


class Connections:
    """All connections of a process; ``limit`` None: as many as its limit of files has room for."""

    def __init__(self, clock: Clock, limit: Places | None = None) -> None:
        self.clock = clock
        self._limit = limit or places(raise_file_limit())
        self._strangers: dict[Connection, None] = {}
        self._known: dict[Connection, str] = {}
        """With who holds each."""
        self._looking: asyncio.TimerHandle | None = None
        self._told: dict[str, tuple[float, int]] = {}
        """When a line was written last, and how often it was meant since."""

    def __len__(self) -> int:
        return len(self._strangers) + len(self._known)

    def admit(self, connection: Connection) -> bool:
        """Take in a stranger, if need be in the place of another; False: there is no place at all."""
        full = len(self) >= self._limit.all or len(self._strangers) >= self._limit.strangers
        if full and not self.make_room("all places of clients without a credential are taken"):
            return False
        self._strangers[connection] = None
        if self._looking is None:
            self._look_later()
        return True

    def make_room(self, why: str) -> bool:
        """End the connection of the stranger that came first; False: there is none."""
        oldest = next(iter(self._strangers), None)
        self._warn("connections are refused" if oldest is None else "connections are ended", why)
        if oldest is not None:
            self._end(oldest)
        return oldest is not None

    def recognized(self, connection: Connection, holder: str = "") -> bool:
        """A request on it has shown a valid credential of ``holder``. Where all places for such are taken, or
        all that one holder may have, the one of these that has asked for nothing the longest makes room;
        False: there is none, and the connection has ended."""
        if connection not in self._strangers:
            return connection in self._known
        own = [each for each, other in self._known.items() if holder and other == holder]
        if len(own) >= self._limit.each:
            self._warn("connections of one client are ended", f"{holder} may have no more than {len(own)}")
            fits = self._end_idle(own)
        elif len(self._known) >= self._limit.known:
            self._warn("connections are ended", "all places of clients with a credential are taken")
            fits = self._end_idle(self._known)
        else:
            fits = True
        if not fits:
            self._end(connection)
            return False
        del self._strangers[connection]
        self._known[connection] = holder
        return True

    def holder(self, connection: Connection) -> str:
        """Who holds a connection; empty: a stranger, or one who may hold all."""
        return self._known.get(connection, "")

    def _end_idle(self, those: Iterable[Connection]) -> bool:
        """End the one that has asked for nothing the longest; False: each is being answered."""
        idle = [(since, each) for each in those if (since := each.idle_since) is not None]
        if idle:
            self._end(min(idle, key=lambda found: found[0])[1])
        return bool(idle)

    def forget(self, connection: Connection) -> None:
        """It is over."""
        self._strangers.pop(connection, None)
        self._known.pop(connection, None)

    def _end(self, connection: Connection) -> None:
        self.forget(connection)
        connection.drop()

    def _warn(self, line: str, why: str) -> None:
        """Write a line, at most once in ``QUIET_SECONDS``, with the number of times that it stands for."""
        now = self.clock.monotonic()
        last, times = self._told.get(line, (float("-inf"), 0))
        if now >= last + QUIET_SECONDS:
            log.warning(line, why=why, times=times + 1, connections=len(self), most=self._limit.all)
            last, times = now, -1
        self._told[line] = last, times + 1

    def _look_later(self) -> None:
        self._looking = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        now = self.clock.monotonic()
        for group, patience in ((self._strangers, HEAD_SECONDS), (self._known, IDLE_SECONDS)):
            for connection in tuple(group):
                if why := connection.late(now, patience):
                    log.debug("a connection is ended", why=why)
                    self._end(connection)
        self._looking = None
        if len(self):
            self._look_later()
