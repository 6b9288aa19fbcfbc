"""Connections of our own: every form that an answer may have, and which connections are kept."""

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from weakref import WeakSet

import pytest

from kubewright.kube.connections import KEPT_SECONDS, Connections
from kubewright.kube.errors import BadAnswer, ConnectFailed, Disconnected
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
    "an encoding that nobody asked for": OK + b"Content-Encoding: br\r\nContent-Length: 1\r\n\r\nx",
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
