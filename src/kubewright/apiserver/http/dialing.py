"""The connections to kubelets: whole answers, streams, and connections that are upgraded.

Theory.      TLS, with a client certificate of the server's authority. As kube-apiserver without
             ``--kubelet-certificate-authority``, a kubelet's own certificate is not checked: kubelets sign it
             themselves. Ordinary requests are aiohttp's. An upgrade (SPDY, WebSocket) is an HTTP/1.1 head
             each way, and from then on bytes are passed as they come, in both directions: the client and the
             kubelet speak a protocol that this server needs not know.
Invariants.  A name is resolved, each of its addresses is checked (``kubelet_requests``), and one of these is
             dialled, so that no second answer of DNS leads elsewhere. No redirect is followed. Heads are
             bounded, and so is what is in memory of a stream, as each side is read only when the other has
             taken what there was. A connection is made within ``CONNECT_SECONDS``; one whose other machine is
             gone ends by TCP's own keep-alives. There are at most ``MOST_STREAMS`` streams, and half of them
             of one holder.
Called by    ``kubelets``, ``usage``.
"""

import asyncio
import errno
import os
import socket
import ssl
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage, parse_headers
from io import BytesIO
from types import TracebackType
from typing import Any, Never

import aiohttp
from yarl import URL

from kubewright.apiserver.http.connections import holder_of, keep_alive
from kubewright.apiserver.http.kubelet_requests import Kubelet, is_address, may_be_dialled
from kubewright.pki import tls
from kubewright.pki.certificates import Identity
from kubewright.wire.errors import BadRequest, ServerError, TooManyRequests
from kubewright.wire.http import User

CONNECT_SECONDS = 10.0
"""To resolve a name, to connect, and to agree upon TLS."""

HEAD_SECONDS = 30.0
"""For the head of an answer; a kubelet asks its runtime first."""

HEAD_BYTES = 16 * 1024
SAID_BYTES = 50_000
"""Of what a kubelet says about a refusal."""

PIECE_BYTES = 64 * 1024

MOST_STREAMS = 256
"""Streams at one time: logs that are read, and connections to containers."""

Allowed = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Answer:
    """A kubelet's answer. ``headers`` have lower-case names; ``said`` is the beginning of a refusal."""

    status: int
    headers: Mapping[str, str]
    stream: "Stream | None" = None
    said: bytes = b""

    def close(self) -> None:
        """It is not wanted any more."""
        if self.stream is not None:
            self.stream.close()


class Stream(AsyncGenerator[bytes, None]):
    """What comes from a kubelet. A class, because a generator that has not begun closes nothing.

    ``read`` answers b"" at the end; ``close`` is called once, and then ``ended``.
    """

    def __init__(self, read: Callable[[], Awaitable[bytes]], close: Callable[[], None]) -> None:
        self._read, self._close = read, close
        self._closed = False
        self._sending: asyncio.Task[None] | None = None
        self.ended: Callable[[], None] = lambda: None

    def sends(self, received: AsyncIterator[bytes], writer: asyncio.StreamWriter) -> "Stream":
        """Pass on what the client sends, from now on; the stream ends when the client's side does."""

        async def pump() -> None:
            with suppress(ConnectionError, OSError):
                async for data in received:
                    writer.write(data)
                    await writer.drain()
            writer.close()

        self._sending = asyncio.create_task(pump(), name="pass on to a kubelet what a client sends")
        return self

    async def asend(self, _value: None) -> bytes:
        if not self._closed:
            try:
                if data := await self._read():
                    return data
            except (OSError, aiohttp.ClientError):
                self.close()
                raise ConnectionAbortedError("the connection to the kubelet has ended") from None
            self.close()
        raise StopAsyncIteration

    async def athrow(
        self,
        typ: type[BaseException] | BaseException,
        val: object = None,
        tb: TracebackType | None = None,
    ) -> Never:
        self.close()
        raise typ

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._sending is not None:
                self._sending.cancel()
            self._close()
            self.ended()


class Streams:
    """How many streams there are, and of whom."""

    def __init__(self, most: int = MOST_STREAMS) -> None:
        self._most = most
        self._of: Counter[str] = Counter()

    @property
    def under_way(self) -> int:
        return self._of.total()

    @property
    def holders(self) -> frozenset[str]:
        """Those who have streams; one whose last has ended takes no room."""
        return frozenset(self._of)

    def begin(self, holder: str) -> Callable[[], None]:
        """Take a place; what is returned gives it back. A holder without a name may have all.

        Raises:
            TooManyRequests
        """
        if self.under_way >= self._most or (holder and self._of[holder] >= self._most // 2):
            raise TooManyRequests("Too many requests, please try again later.", retry_after=1)
        self._of[holder] += 1
        left = [holder]

        def end() -> None:
            if left:
                self._of[gone := left.pop()] -= 1
                if not self._of[gone]:
                    del self._of[gone]

        return end


class Dialer:
    """Connects to kubelets, once it has an identity. ``allowed`` says which addresses may be dialled."""

    def __init__(self, allowed: Allowed = may_be_dialled) -> None:
        self._allowed = allowed
        self.streams = Streams()
        self._tenant = ""
        self._identity: Identity | None = None
        self._context: ssl.SSLContext | None = None
        self._session: aiohttp.ClientSession | None = None

    def become(self, identity: Identity | None, streams: Streams | None = None, tenant: str = "") -> None:
        """Show this identity from now on. ``streams``: those of all servers of the process; ``tenant``: whose
        cluster this is (``connections.holder_of``)."""
        self._identity, self._context, self._tenant = identity, None, tenant
        self.streams = streams or self.streams

    def begin(self, user: User) -> Callable[[], None]:
        """Take a place for a stream of a user; what is returned gives it back.

        Raises:
            TooManyRequests
        """
        return self.streams.begin(holder_of(user, self._tenant))

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def whole(self, kubelet: Kubelet, path: str, most: int) -> bytes:
        """The answer to a GET, if it is 200 and no longer than ``most`` bytes.

        Raises:
            ServerError: there is no such answer, and why.
            BadRequest: the address of the kubelet is not allowed.
        """
        answer = await self.ask(kubelet, "GET", path)
        if answer.stream is None:
            raise ServerError(f"{answer.status} {answer.said.decode(errors='replace')}".strip())
        data = bytearray()
        try:
            async for piece in answer.stream:
                data += piece
                if len(data) > most:
                    raise ServerError(f"the answer has more than {most} bytes")
        except ConnectionError as error:
            raise ServerError(str(error)) from None
        finally:
            answer.stream.close()
        return bytes(data)

    async def ask(
        self,
        kubelet: Kubelet,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Answer:
        """An ordinary request. The answer has a stream if it is one of success or a redirect.

        Raises:
            ServerError: the kubelet does not answer.
            BadRequest: the address of the kubelet is not allowed.
        """
        host = await self._resolved(kubelet)
        shown = f"[{host}]" if ":" in host else host
        url = URL(f"https://{shown}:{kubelet.port}{path}", encoded=True)
        try:
            async with asyncio.timeout(CONNECT_SECONDS + HEAD_SECONDS):
                got = await self._client().request(
                    method, url, headers=headers, data=body or None, allow_redirects=False, ssl=self._tls()
                )
        except (OSError, aiohttp.ClientError) as error:  # TimeoutError is an OSError
            said = f'{method.title()} "https://{kubelet.address}{path.partition("?")[0]}"'
            raise ServerError(f"{said}: {_why(error, kubelet)}{kubelet.told}", reason="") from None
        if got.status < 200:  # such an answer has no end that aiohttp would find
            got.close()
            raise ServerError(f"the kubelet answers {got.status} to what is no upgrade", reason="")
        headers = _shown(got.headers.items())
        if got.status >= 400:
            return Answer(got.status, headers, said=await _beginning(got))
        return Answer(got.status, headers, Stream(got.content.readany, got.close))

    async def upgrade(self, kubelet: Kubelet, method: str, path: str, headers: Iterable[tuple[str, str]]
                      ) -> "Answer | Upgraded":  # fmt: skip
        """A request whose connection is to be upgraded.

        Raises:
            ServerError: the kubelet cannot be reached, or does not answer in HTTP.
            BadRequest: its address is not allowed.
        """
        reader, writer = await self._connected(kubelet)
        lines = [f"{method} {path} HTTP/1.1", f"Host: {kubelet.address}", "Content-Length: 0",
                 *(f"{name}: {value}" for name, value in headers)]  # fmt: skip
        try:
            writer.write("\r\n".join([*lines, "", ""]).encode())
            async with asyncio.timeout(HEAD_SECONDS):
                status, head = _read_head(await reader.readuntil(b"\r\n\r\n"))
            if status == 101:
                return Upgraded(_shown(head.items()), reader, writer)
            said = await _rest(reader, head) if status >= 400 else b""
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            writer.transport.abort()
            raise ServerError(
                f"error dialing backend: {_why(error, kubelet)}{kubelet.told}", reason=""
            ) from None
        except BaseException:
            writer.transport.abort()
            raise
        writer.transport.abort()
        return Answer(status, _shown(head.items()), said=said)

    async def _connected(self, kubelet: Kubelet) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host = await self._resolved(kubelet)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(
                    host, kubelet.port, ssl=self._tls(), server_hostname="", limit=PIECE_BYTES
                )
        except OSError as error:
            raise ServerError(
                f"error dialing backend: {_why(error, kubelet)}{kubelet.told}", reason=""
            ) from None
        keep_alive(writer.get_extra_info("socket"))
        return reader, writer

    async def _resolved(self, kubelet: Kubelet) -> str:
        """The address to dial: all that the kubelet's name stands for must be allowed."""
        addresses = [kubelet.host] if is_address(kubelet.host) else await _looked_up(kubelet)
        if refused := next((each for each in addresses if not self._allowed(each)), None):
            raise BadRequest(
                f'address not allowed: Node "{kubelet.node}" says that its kubelet is at {refused}'
            )
        return addresses[0]

    def _tls(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = tls.unchecked()
            self._context.set_alpn_protocols(["http/1.1"])
            if self._identity is not None:
                self._identity.load_into(self._context)
        return self._context

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, force_close=True, socket_factory=_new_socket),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                max_line_size=HEAD_BYTES,
                max_field_size=HEAD_BYTES,
                read_bufsize=PIECE_BYTES,
                skip_auto_headers=("Accept-Encoding",),
            )
        return self._session


class Upgraded:
    """A kubelet has switched protocols; ``headers`` are those of its 101."""

    def __init__(
        self, headers: Mapping[str, str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.headers = headers
        self._reader, self._writer = reader, writer

    def talk(self, received: AsyncIterator[bytes], ended: Callable[[], None]) -> Stream:
        """Begin to pass bytes on; ``ended`` is called when that is over."""
        stream = Stream(lambda: self._reader.read(PIECE_BYTES), self._writer.transport.abort)
        stream.ended = ended
        return stream.sends(received, self._writer)


async def _looked_up(kubelet: Kubelet) -> list[str]:
    """The addresses of a name. A thread waits for each, and there are few: so no address is looked up."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            found = await asyncio.get_running_loop().getaddrinfo(
                kubelet.host, kubelet.port, type=socket.SOCK_STREAM
            )
    except TimeoutError:
        why = "i/o timeout"
    except (OSError, UnicodeError):
        why = "no such host"
    else:
        return [str(each[4][0]) for each in found]
    raise ServerError(f"error dialing backend: lookup {kubelet.host}: {why}", reason="")


def _new_socket(info: tuple[Any, ...]) -> socket.socket:
    family, kind, proto, _, _ = info
    made = socket.socket(family, kind, proto)
    keep_alive(made)
    return made


def _why(error: BaseException, kubelet: Kubelet) -> str:
    """What went wrong, in the words of Go's library where users know them."""
    dial = f"dial tcp {kubelet.address}"
    number = getattr(error, "errno", None) or getattr(getattr(error, "os_error", None), "errno", None)
    if isinstance(error, TimeoutError):
        return f"{dial}: i/o timeout"
    if isinstance(error, (ssl.SSLError, aiohttp.ClientConnectorSSLError)):
        return f"tls: {getattr(error, 'reason', None) or 'the handshake failed'}"
    if isinstance(number, int) and number in errno.errorcode:
        return f"{dial}: connect: {os.strerror(number).lower()}"
    if isinstance(error, (EOFError, aiohttp.ServerDisconnectedError)):
        return "EOF"
    return "malformed HTTP response"


async def _beginning(got: aiohttp.ClientResponse) -> bytes:
    """As much as is kept of the body of a refusal."""
    said = bytearray()
    with suppress(OSError, aiohttp.ClientError):
        async with asyncio.timeout(HEAD_SECONDS):
            while len(said) < SAID_BYTES and (piece := await got.content.readany()):
                said += piece
    got.close()
    return bytes(said[:SAID_BYTES])


def _read_head(raw: bytes) -> tuple[int, HTTPMessage]:
    """Status and headers. Raises ValueError: it is no HTTP."""
    first, _, rest = raw.partition(b"\r\n")
    version, _, status = first.decode("latin-1").partition(" ")
    if len(raw) > HEAD_BYTES or not version.startswith("HTTP/1.") or not status[:3].isdigit():
        raise ValueError("no HTTP")
    try:
        return int(status[:3]), parse_headers(BytesIO(rest))
    except HTTPException as error:  # there are too many
        raise ValueError(str(error)) from None


def _shown(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Headers as a client may get them: of each value what can be printed, in one line."""
    found: dict[str, str] = {}
    for name, value in headers:
        key, line = name.lower(), "".join(filter(str.isprintable, " ".join(value.split())))
        found[key] = f"{found[key]}, {line}" if key in found else line
    return found


async def _rest(reader: asyncio.StreamReader, head: HTTPMessage) -> bytes:
    """The body of a refusal: as long as its head says, or what comes until the connection ends."""
    announced = head.get("content-length", "")
    most = min(SAID_BYTES, int(announced)) if announced.isdigit() else SAID_BYTES
    said = bytearray()
    with suppress(TimeoutError):
        async with asyncio.timeout(CONNECT_SECONDS):
            while len(said) < most and (piece := await reader.read(most - len(said))):
                said += piece
    return bytes(said)
