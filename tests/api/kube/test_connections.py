"""Connections of our own: every form that an answer may have, and which connections are kept."""

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakSet

import pytest

from kubewright.kube.connections import CONNECT_SECONDS, KEPT_SECONDS, Connections
from kubewright.kube.errors import BadAnswer, ConnectFailed, Disconnected, Unresolved
from kubewright.wire.http import Request, Response

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
TWO = OK + b"Content-Length: 2\r\n\r\n{}"


class Server:
    """Answers each request with the next of ``answers``; None ends the connection instead."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.heads: list[str] = []
        self.connections = 0
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                self.heads.append(head)
                length = [line for line in head.lower().split("\r\n") if line.startswith("content-length:")]
                await reader.readexactly(int(length[0].partition(":")[2]) if length else 0)
                answer = self.answers.pop(0)
                if answer is None:
                    break
                writer.write(answer)
                if b"close" in answer:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def connected(server: Server) -> AsyncIterator[Callable[..., asyncio.Future[Response]]]:
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    opened: WeakSet[socket.socket] = WeakSet()
    connections = Connections(f"http://127.0.0.1:{server.port}/prefix", None, "", opened)

    async def ask(method: str = "GET", body: bytes = b"", **headers: str) -> Response:
        request = Request(method, "/api", (), {}, body)
        return await connections.exchange(request, "/api?x=%20", list(headers.items()))

    try:
        yield ask
    finally:
        connections.close()
        listening.close()


FORMS = {
    "a length": TWO,
    "chunks": OK + b"Transfer-Encoding: chunked\r\n\r\n1;x=y\r\n{\r\n1\r\n}\r\n0\r\nTrailer: a\r\n\r\n",
    "no length, until the end": OK + b"Connection: close\r\n\r\n{}",
    "gzip": OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(gzip.compress(b"{}"))
    + gzip.compress(b"{}"),
    "news before it": b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + TWO,
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
async def test_an_answer_is_read_in_each_form_that_http_has(form) -> None:
    async with connected(server := Server(form)) as ask:
        answer = await ask()
    assert (answer.status, answer.body, answer.headers["content-type"]) == (200, b"{}", "application/json")
    assert server.heads[0].startswith("GET /prefix/api?x=%20 HTTP/1.1\r\nhost: 127.0.0.1:")


async def test_a_connection_is_kept_for_the_next_request_and_not_for_ever(clock) -> None:
    async with connected(server := Server(TWO, TWO, TWO)) as ask:
        await ask("PATCH", b"{}")
        await ask("DELETE")
        assert server.connections == 1
        await clock.sleep(KEPT_SECONDS + 1)
        await ask()
        assert server.connections == 2


async def test_an_answer_without_a_body_ends_with_its_head() -> None:
    head = OK + b"Content-Length: 5\r\n\r\n"
    async with connected(server := Server(head, b"HTTP/1.1 204 No Content\r\n\r\n", TWO)) as ask:
        assert (await ask("HEAD")).body == b""
        assert (await ask("DELETE")).status == 204
        assert (await ask()).body == b"{}"
        assert server.connections == 1


async def test_a_read_meets_a_kept_connection_that_has_ended_and_is_sent_again() -> None:
    async with connected(server := Server(TWO, None, TWO)) as ask:
        await ask()
        assert (await ask()).body == b"{}"
        assert server.connections == 2


async def test_a_write_that_may_have_been_carried_out_is_not_sent_again() -> None:
    async with connected(server := Server(TWO, None, TWO)) as ask:
        await ask()
        with pytest.raises(Disconnected, match=r"PATCH /api: Server disconnected"):
            await ask("PATCH", b"{}")
        assert len(server.heads) == 2


NO_ANSWERS = {
    "no HTTP": b"SSH-2.0-OpenSSH\r\n\r\n",
    "a header that is none": b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n",
    "a length that is no number": OK + b"Content-Length: -2\r\n\r\n",
    "a length that no answer has": OK + b"Content-Length: 99999999999\r\n\r\n",
    "more than its length": TWO + b"more",
    "a chunk without a size": OK + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n{\r\n0\r\n\r\n",
    "an encoding that was not asked for": OK + b"Content-Encoding: br\r\nContent-Length: 1\r\n\r\nx",
    "gzip that is none": OK + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nxx",
    "gzip that is none, until the end": OK + b"Connection: close\r\nContent-Encoding: gzip\r\n\r\nxx",
    "a head without an end": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000,
}


@pytest.mark.parametrize("answer", NO_ANSWERS.values(), ids=NO_ANSWERS)
async def test_what_is_no_answer_is_an_error_and_its_connection_is_not_kept(answer) -> None:
    async with connected(server := Server(answer, TWO)) as ask:
        with pytest.raises(BadAnswer, match="GET /api: "):
            await ask()
        assert (await ask()).body == b"{}"
        assert server.connections == 2


async def test_an_answer_that_breaks_off_is_none() -> None:
    async with connected(Server(OK + b"Content-Length: 9\r\nX: close\r\n\r\n{}")) as ask:
        with pytest.raises(Disconnected):
            await ask("PATCH", b"{}")


async def test_a_header_cannot_hold_another_one() -> None:
    async with connected(server := Server(TWO)) as ask:
        with pytest.raises(ValueError, match="line break"):
            await ask(authorization="Bearer a\r\nimpersonate-user: admin")
    assert not server.heads


async def test_a_cancelled_request_takes_its_connection_with_it() -> None:
    async with connected(server := Server(b"HTTP/1.1 100 Continue\r\n\r\n", TWO)) as ask:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await ask()
        assert (await ask()).body == b"{}"
        assert server.connections == 2


@pytest.mark.parametrize("server", ["http://127.0.0.1:99999", "http://127.0.0.1:1"])
async def test_a_server_that_is_not_there_is_told_as_such(server) -> None:
    opened: WeakSet[socket.socket] = WeakSet()
    with pytest.raises(ConnectFailed):
        await Connections(server, None, "", opened).exchange(Request("GET", "/api"), "/api", [])


# ---------------------------------------------------------------- what a broken or a malicious server sends


@asynccontextmanager
async def by_hand() -> AsyncIterator[tuple[Connections, Callable[[], Any]]]:
    """Connections to a listener of which the test itself takes each connection."""
    loop = asyncio.get_running_loop()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    taken: list[socket.socket] = []
    opened: WeakSet[socket.socket] = WeakSet()
    connections = Connections(f"http://127.0.0.1:{listener.getsockname()[1]}", None, "", opened)

    async def take() -> socket.socket:
        connection, _ = await loop.sock_accept(listener)
        connection.setblocking(False)
        taken.append(connection)
        await loop.sock_recv(connection, 2**16)
        return connection

    try:
        yield connections, take
    finally:
        connections.close()
        for connection in [listener, *taken]:
            connection.close()


async def answered(connections: Connections, take: Callable[[], Any]) -> socket.socket:
    """The server's end of a connection that has carried one request, and is kept."""
    loop = asyncio.get_running_loop()
    asking = asyncio.create_task(connections.exchange(Request("GET", "/a"), "/a", []))
    connection = await take()
    await loop.sock_sendall(connection, TWO)
    assert (await asking).body == b"{}"
    return connection


STRAY = OK + b"Content-Length: 5\r\n\r\nstray"


async def test_an_answer_that_nobody_asked_for_is_not_taken_for_that_of_the_next_request() -> None:
    """It is here before the request, in the moment before the event loop would have seen it."""
    async with by_hand() as (connections, take):
        first = await answered(connections, take)
        first.send(STRAY)
        asking = asyncio.create_task(connections.exchange(Request("POST", "/b"), "/b", []))
        second = await take()
        second.send(TWO)
        assert (await asking).body == b"{}"


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_kept_connection_that_ended_a_moment_ago_is_not_used(method) -> None:
    async with by_hand() as (connections, take):
        first = await answered(connections, take)
        first.close()
        asking = asyncio.create_task(connections.exchange(Request(method, "/b"), "/b", []))
        second = await take()
        second.send(TWO)
        assert (await asking).status == 200


async def test_a_connection_whose_request_was_answered_before_it_was_sent_whole_is_not_kept() -> None:
    async with by_hand() as (connections, take):
        big = Request("POST", "/a", (), {}, b"x" * 2**25)
        asking = asyncio.create_task(connections.exchange(big, "/a", []))
        (await take()).send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        assert (await asking).status == 413
        asking = asyncio.create_task(connections.exchange(Request("GET", "/b"), "/b", []))
        (await take()).send(TWO)
        assert (await asking).status == 200


CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
BROKEN = {
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    "announced without end": b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100,
    "HTTP of the future": b"HTTP/1.7 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    "HTTP/2 without asking": b"HTTP/2 200\r\n\r\n",
    "a status of two digits": b"HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\n{}",
    "a status of four digits": b"HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\n{}",
    "a status of no century": b"HTTP/1.1 000 OK\r\nContent-Length: 2\r\n\r\n{}",
    "a status without a space before": b"HTTP/1.1x200 OK\r\nContent-Length: 2\r\n\r\n{}",
    "two lengths": OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    "one length twice": OK + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "a length and chunks": CHUNKED[:-2] + b"Content-Length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "chunks and a length": OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "a length with a sign": OK + b"Content-Length: +2\r\n\r\n{}",
    "a length in hexadecimal": OK + b"Content-Length: 0x2\r\n\r\n{}",
    "a length of 5,000 digits": OK + b"Content-Length: " + b"9" * 5_000 + b"\r\n\r\n{}",
    "an empty length": OK + b"Content-Length: \r\n\r\n{}",
    "chunks of something": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "chunks of something, in two fields": OK
    + b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "a space before the colon": OK + b"Content-Length : 2\r\n\r\n{}",
    "a field in two lines": OK + b"X: a\r\n b\r\nContent-Length: 2\r\n\r\n{}",
    "a bare line feed in a field": OK + b"X: a\nContent-Length: 3\r\nContent-Length: 2\r\n\r\n{}",
    "a nul in a field": OK + b"X: a\0b\r\nContent-Length: 2\r\n\r\n{}",
    "a chunk longer than its size": CHUNKED + b"1\r\n{}\r\n0\r\n\r\n",
    "a chunk shorter than its size": CHUNKED + b"3\r\n{}\r\n0\r\n\r\n",
    "a chunk one too long, which its end hides": CHUNKED + b"1\r\n{}\r\n0\r\n\r\n\r\n",
    "a size with a sign": CHUNKED + b"+2\r\n{}\r\n0\r\n\r\n",
    "a size of nine digits": CHUNKED + b"000000002\r\n{}\r\n0\r\n\r\n",
    "a size in decimal words": CHUNKED + b"two\r\n{}\r\n0\r\n\r\n",
    "a size after a line feed": CHUNKED + b"\n2\r\n{}\r\n0\r\n\r\n",
    "an empty size": CHUNKED + b"\r\n{}\r\n0\r\n\r\n",
    "a size of 100,000 bytes": CHUNKED + b"2;" + b"x" * 100_000,
    "trailers without end": CHUNKED + b"2\r\n{}\r\n0\r\n" + b"x: y\r\n" * 20_000,
    "100,000 headers": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 100_000 + b"\r\n",
    "a header of 10 MiB": b"HTTP/1.1 200 OK\r\nx: " + b"y" * 10 * 2**20 + b"\r\n\r\n",
    "gzip that goes on behind its end": OK
    + b"Content-Encoding: gzip\r\nConnection: close\r\n\r\n" + gzip.compress(b"{}") + b"{}",
    "gzip that is not whole": OK
    + b"Content-Encoding: gzip\r\nConnection: close\r\n\r\n" + gzip.compress(b"{}")[:-1],
    "gzip twice": OK + b"Content-Encoding: gzip\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
    "a body that no answer to this has": b"HTTP/1.1 204 No Content\r\n\r\n{}",
}  # fmt: skip


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN)
async def test_an_answer_that_is_broken_is_none_and_its_connection_is_not_kept(answer) -> None:
    async with connected(server := Server(answer, TWO)) as ask:
        with pytest.raises(BadAnswer, match="POST /api: "):
            await ask("POST", b"{}")
        assert (await ask()).body == b"{}"
        assert server.connections == 2


@pytest.mark.parametrize("form", [form for name, form in FORMS.items() if "until" not in name])
async def test_an_answer_that_is_cut_off_at_any_byte_is_none(form) -> None:
    for size in range(len(form)):
        async with by_hand() as (connections, take):
            asking = asyncio.create_task(connections.exchange(Request("GET", "/a"), "/a", []))
            connection = await take()
            connection.send(form[:size])
            connection.close()
            with pytest.raises(Disconnected):
                await asking


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
async def test_an_answer_may_come_byte_by_byte(form) -> None:
    async with by_hand() as (connections, take):
        asking = asyncio.create_task(connections.exchange(Request("GET", "/a"), "/a", []))
        connection = await take()
        for byte in form:
            connection.send(bytes((byte,)))
            await asyncio.sleep(0)
        connection.close()
        assert (await asking).body == b"{}"


ENDS = {
    "close among others": OK + b"Connection: foo, Close\r\nContent-Length: 2\r\n\r\n{}",
    "close in a field of its own": OK + b"Connection: close\r\nConnection: foo\r\nContent-Length: 2\r\n\r\n{}",
    "an older HTTP": b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}",
    "more behind the last chunk": CHUNKED + b"2\r\n{}\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n",
}  # fmt: skip


@pytest.mark.parametrize("answer", ENDS.values(), ids=ENDS)
async def test_a_connection_is_not_kept_where_the_server_ends_it_or_there_is_doubt(answer) -> None:
    async with by_hand() as (connections, take):
        for _ in range(2):
            asking = asyncio.create_task(connections.exchange(Request("GET", "/a"), "/a", []))
            (await take()).send(answer)
            assert (await asking).body == b"{}"


async def test_an_address_that_is_silent_does_not_hide_the_next_one(clock, monkeypatch) -> None:
    """As of a name with two addresses, where one of them drops what is sent to it."""
    full = socket.create_server(("127.0.0.1", 0), backlog=0)
    waiting = [socket.socket() for _ in range(3)]  # a listener with so many drops what comes
    good = socket.create_server(("127.0.0.1", 0))
    good.setblocking(False)
    for each in waiting:
        each.setblocking(False)
        each.connect_ex(full.getsockname())

    async def addresses(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", at.getsockname()) for at in (full, good)]

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "getaddrinfo", addresses)
    opened: WeakSet[socket.socket] = WeakSet()
    connections = Connections("http://two.example:80", None, "", opened)
    for seconds in (CONNECT_SECONDS / 2, 0.5):  # the second time it is known which one answers
        began = clock.monotonic()
        asking = asyncio.create_task(connections.exchange(Request("POST", "/a"), "/a", []))
        connection, _ = await loop.sock_accept(good)
        with connection:
            await loop.sock_recv(connection, 2**16)
            connection.send(OK + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}")
            assert (await asking).body == b"{}"
        assert clock.monotonic() - began < seconds
    for each in (full, good, *waiting):
        each.close()


async def test_a_name_that_none_can_be_has_no_address() -> None:
    opened: WeakSet[socket.socket] = WeakSet()
    with pytest.raises(Unresolved):
        await Connections(f"http://{'x' * 70}.example", None, "", opened).exchange(
            Request("POST", "/api"), "/api", []
        )
