"""Connections: strangers have to show something soon, make room for others, and keep nobody out."""

import asyncio
import errno
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.api.streams import Streams, seconds_until_the_end

from kubewright.apiserver.http.connections import MOST_CONNECTIONS, Places, holder_of, places
from kubewright.wire.http import Request, Response, User

PODS = "/api/v1/namespaces/default/pods"
Serving = Callable[..., AbstractAsyncContextManager[Any]]


async def plain(world: Any) -> Streams:
    """Someone who connects and says nothing."""
    return await asyncio.open_connection("127.0.0.1", world.listener.port)


async def stranger(world: Any) -> Streams:
    """Someone who agrees upon TLS and shows no certificate."""
    tls = world.authority.client_context(None)
    return await asyncio.open_connection("127.0.0.1", world.listener.port, ssl=tls)


async def test_a_connection_without_a_handshake_ends_after_ten_seconds(serving: Serving) -> None:
    async with serving() as world:
        assert 9 <= await seconds_until_the_end(await plain(world)) <= 11


async def test_a_stranger_that_asks_for_nothing_is_sent_away_after_thirty_seconds(serving: Serving) -> None:
    async with serving() as world:
        assert 29 <= await seconds_until_the_end(await stranger(world)) <= 32


async def test_a_stranger_that_is_answered_and_asks_no_more_is_sent_away_too(serving: Serving) -> None:
    async with serving() as world:
        streams = await stranger(world)
        streams[1].write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await streams[0].readline() == b"HTTP/1.1 200 OK\r\n"
        assert 29 <= await seconds_until_the_end(streams) <= 32


@pytest.mark.parametrize("who", [stranger, lambda world: world.raw()], ids=["a stranger", "the admin"])
async def test_the_head_of_a_request_has_thirty_seconds_however_it_drips(serving: Serving, who: Any) -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        for letter in "GET /healthz HTTP/1.1\r\nHost: " + "x" * 1000:
            writer.write(letter.encode())
            await asyncio.sleep(1)

    async with serving() as world:
        streams = await who(world)
        dripping = asyncio.create_task(drip(streams[1]))
        assert 29 <= await seconds_until_the_end(streams) <= 33
        dripping.cancel()


async def test_a_known_client_may_be_idle_for_minutes(serving: Serving) -> None:
    async with serving() as world:
        streams = await world.raw()
        streams[1].write(f"GET {PODS} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert await streams[0].readline() == b"HTTP/1.1 200 OK\r\n"
        assert 290 <= await seconds_until_the_end(streams) <= 302


async def test_no_body_is_waited_for_that_a_stranger_announces(serving: Serving) -> None:
    async with serving() as world:
        streams = await stranger(world)
        streams[1].write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
        assert await streams[0].readline() == b"HTTP/1.1 200 OK\r\n"
        assert await seconds_until_the_end(streams) <= 3
        assert [request.body for request in world.asked] == [b""]


async def ask_without_end(writer: asyncio.StreamWriter) -> None:
    async with asyncio.timeout(120):
        while True:
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 1000)
            await writer.drain()
            await asyncio.sleep(0.5)


async def test_a_stranger_that_sends_half_a_body_is_refused_at_once_and_sent_away(serving: Serving) -> None:
    async with serving() as world:
        streams = await stranger(world)
        streams[1].write(f"POST {PODS} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{{".encode())
        assert await streams[0].readline() == b"HTTP/1.1 401 Unauthorized\r\n"
        assert await seconds_until_the_end(streams) <= 3
        assert world.asked == []


async def test_answers_that_a_stranger_asks_for_and_does_not_read_end_its_connection(
    serving: Serving,
) -> None:
    async with serving() as world:
        _, writer = await stranger(world)
        writer.transport.pause_reading()
        with pytest.raises(ConnectionError):
            await ask_without_end(writer)
        assert len(world.asked) < 100_000
        writer.transport.abort()


@pytest.mark.parametrize("who", [plain, stranger], ids=["no handshake", "no request"])
async def test_any_number_of_strangers_keeps_no_known_client_out(serving: Serving, who: Any) -> None:
    with capture_logs() as lines:
        async with serving(limit=Places(12, 6)) as world, world.client() as client:
            assert (await client.get(PODS)).status == 200
            waiting = [await who(world) for _ in range(40)]
            async with world.client() as another:
                assert (await another.get(PODS)).status == 200
            assert (await client.get(PODS)).status == 200
            ended = [await asyncio.wait_for(seconds_until_the_end(each), 40) for each in waiting]
            assert sum(each < 1 for each in ended) >= 34
    warnings = [line for line in lines if line["log_level"] not in ("debug", "info")]
    assert [(line["log_level"], line["event"]) for line in warnings] == [("warning", "connections are ended")]


async def test_nothing_is_done_for_a_known_client_for_which_there_is_no_place(serving: Serving) -> None:
    """It gets no answer, so it will ask again."""
    done = asyncio.Event()

    async def slow(_request: Request) -> Response:
        await done.wait()
        return Response(200, b"{}")

    async with serving(slow, limit=Places(3, 2)) as world:
        busy = [await world.raw() for _ in range(2)]
        for each in busy:
            each[1].write(f"GET {PODS} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            await asyncio.sleep(0.1)
        late = await world.raw()
        late[1].write(f"POST {PODS} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}".encode())
        assert await seconds_until_the_end(late) < 1
        assert [request.method for request in world.asked] == ["GET", "GET"]
        done.set()
        for each in busy:
            assert await each[0].readline() == b"HTTP/1.1 200 OK\r\n"
            each[1].close()


async def test_of_known_clients_the_one_that_is_idle_the_longest_makes_room(serving: Serving) -> None:
    async def ask(streams: Streams) -> bytes:
        streams[1].write(f"GET {PODS} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        line = await streams[0].readline()
        while line and await streams[0].readline() != b"\r\n":
            pass
        await streams[0].readexactly(len(b'{"kind":"Hello"}'))
        return line

    async with serving(limit=Places(5, 2)) as world:
        known: list[Streams] = []
        for _ in range(4):
            known.append(each := await world.raw())
            assert await ask(each) == b"HTTP/1.1 200 OK\r\n"
            await asyncio.sleep(1)
        await ask(known[0])
        newest = await world.raw()
        assert await ask(newest) == b"HTTP/1.1 200 OK\r\n"
        assert await seconds_until_the_end(known[1]) < 1
        for each in (known[0], known[2], known[3], newest):
            assert await ask(each) == b"HTTP/1.1 200 OK\r\n"
            each[1].close()


async def test_one_user_has_a_part_of_the_places_and_keeps_no_other_out(serving: Serving) -> None:
    async def ask(streams: Streams, token: str) -> bytes:
        head = f"GET {PODS}?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
        streams[1].write(head.encode())
        return await streams[0].readline()

    async def held(_request: Request) -> Response:
        return await asyncio.Future() if holding else Response(200, b"{}")

    holding = True
    async with serving(held, limit=Places(20, 10)) as world:
        streams = [await stranger(world) for _ in range(9)]
        waiting = [asyncio.create_task(ask(each, "ann-token")) for each in streams]
        await asyncio.sleep(1)
        ended = [each for each in waiting if each.done() and not each.result()]
        assert (len(ended), Places(20, 10).each) == (5, 4)
        holding = False
        streams.append(bob := await stranger(world))
        assert await ask(bob, "bob-token") == b"HTTP/1.1 200 OK\r\n"
        async with world.client() as admin:
            assert (await admin.get(PODS)).status == 200
        for each in streams:
            each[1].transport.abort()
        await asyncio.gather(*waiting, return_exceptions=True)


@pytest.mark.parametrize(
    ("user", "tenant", "holder"),
    [
        (User("ann", ("devs",)), "", "ann"),
        (User("ann", ("system:masters",)), "", ""),
        (
            User("ann", ("system:masters",)),
            "the control plane at x:1",
            "all users of the control plane at x:1",
        ),
        (User("system:serviceaccount:n:a"), "", "system:serviceaccount:n"),
        (User("system:node:n"), "", "system:node:n"),
    ],
)
def test_who_holds_a_connection(user: User, tenant: str, holder: str) -> None:
    assert holder_of(user, tenant) == holder


async def test_requests_that_are_read_slowly_keep_no_other_from_being_worked_on(serving: Serving) -> None:
    """Those of strangers too: their answers may be large."""

    body = b"x" * 5_000_000

    async def handler(_request: Request) -> Response:
        return Response(200, body)

    async with serving(handler, limit=Places(1000, 500)) as world, world.client() as client:
        slow = [await stranger(world) for _ in range(401)]
        for _, writer in slow:
            writer.write(b"GET /openapi/v2 HTTP/1.1\r\nHost: x\r\n\r\n")
        for reader, _ in slow:
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        async with client.get(PODS) as answer:
            assert (answer.status, len(await answer.read())) == (200, len(body))
        for _, writer in slow:
            writer.transport.abort()


async def test_bodies_that_never_end_are_held_within_a_bound_and_for_thirty_seconds(serving: Serving) -> None:
    async with serving() as world, world.client() as client:
        slow = []
        for _ in range(50):
            streams = await world.raw()
            streams[1].write(b"POST /api/v1/pods HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n")
            streams[1].write(b"x" * 2_999_999)
            await streams[1].drain()
            slow.append(streams)
        answers = sorted([await streams[0].readline() for streams in slow])
        assert answers[0] == b"HTTP/1.1 400 Bad Request\r\n"
        assert answers[-1] == b"HTTP/1.1 429 Too Many Requests\r\n"
        async with client.post(PODS, data=b"{}") as answer:
            assert answer.status == 200
        for _, writer in slow:
            writer.transport.abort()


async def test_a_user_whose_bodies_never_end_leaves_others_a_half_of_the_bound(serving: Serving) -> None:
    async with serving() as world:
        slow = []
        for _ in range(50):
            slow.append(streams := await world.raw())
            streams[1].write(b"POST /api/v1/pods HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n")
            streams[1].write(b"x" * 2_999_999)
            await streams[1].drain()
        reader, writer = await stranger(world)
        writer.write(f"POST {PODS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ann-token\r\n".encode())
        writer.write(b"Content-Length: 3000000\r\n\r\n" + b"x" * 2_999_999)
        await asyncio.sleep(0.5)
        writer.write(b"x")
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        for each in (*slow, (reader, writer)):
            each[1].transport.abort()


async def asks(world: Any, who: str) -> Streams:
    """A stranger who shows a token, and asks for something."""
    streams = await stranger(world)
    streams[1].write(f"GET {PODS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {who}-token\r\n\r\n".encode())
    return streams


async def test_one_user_leaves_others_a_half_of_the_places_of_requests_at_work(serving: Serving) -> None:
    done = asyncio.Event()

    async def slow(request: Request) -> Response:
        if request.user.name == "ann":
            await done.wait()
        return Response(200, b"{}")

    async with serving(slow, limit=Places(1000, 500)) as world:
        ann = [await asks(world, "ann") for _ in range(201)]
        assert await ann[-1][0].readline() == b"HTTP/1.1 429 Too Many Requests\r\n"
        bob = await asks(world, "bob")
        assert await bob[0].readline() == b"HTTP/1.1 200 OK\r\n"
        done.set()
        assert [await reader.readline() for reader, _ in ann[:-1]] == [b"HTTP/1.1 200 OK\r\n"] * 200
        ann.append(await asks(world, "ann"))
        assert await ann[-1][0].readline() == b"HTTP/1.1 200 OK\r\n"
        for _, writer in (*ann, bob):
            writer.transport.abort()


async def test_users_who_have_all_places_at_work_leave_the_administrator_some(serving: Serving) -> None:
    done = asyncio.Event()

    async def slow(request: Request) -> Response:
        if request.user.name != "admin":
            await done.wait()
        return Response(200, b"{}")

    async with serving(slow, limit=Places(2000, 1000)) as world:
        users = [await asks(world, who) for who in ("ann", "bob") for _ in range(200)]
        last = [await asks(world, "ann"), await asks(world, "bob")]
        assert [await reader.readline() for reader, _ in last] == [b"HTTP/1.1 429 Too Many Requests\r\n"] * 2
        admin = await asks(world, "admin")
        assert await admin[0].readline() == b"HTTP/1.1 200 OK\r\n"
        done.set()
        assert [await reader.readline() for reader, _ in users] == [b"HTTP/1.1 200 OK\r\n"] * 400
        for _, writer in (*users, *last, admin):
            writer.transport.abort()


async def test_a_user_who_reads_no_large_answer_leaves_others_a_half_of_the_bound(serving: Serving) -> None:
    async def large(_request: Request) -> Response:
        return Response(200, b"x" * 50_000_000)

    async with serving(large) as world:
        asked = [await asks(world, who) for who in ("ann", "ann", "bob")]
        lines = [await reader.readline() for reader, _ in asked]
        assert lines == [
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.1 429 Too Many Requests\r\n",
            b"HTTP/1.1 200 OK\r\n",
        ]
        for _, writer in asked:
            writer.transport.abort()


@pytest.mark.parametrize("size", [10, 3_000_000])
async def test_a_client_that_leaves_is_sent_nothing_of_what_it_has_asked_for_before(
    serving: Serving, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(_request: Request) -> Response:
        await asyncio.sleep(0.001)
        return Response(200, b"x" * size)

    async with serving(answer) as world:
        reader, writer = await world.raw()
        writer.write(f"GET {PODS} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * 500)
        await reader.readline()
        before = len(world.asked)
        writer.close()
        await asyncio.sleep(5)
        assert len(world.asked) <= before + 20
    assert [record.message for record in caplog.records if record.name == "asyncio"] == []


class Poor(socket.socket):
    """A socket of a process that has no files left."""

    def accept(self) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")


async def test_a_process_without_files_says_so_once_a_minute(serving: Serving) -> None:
    held = Poor()
    held.bind(("127.0.0.1", 0))
    with capture_logs() as lines:
        async with serving(held=held) as world:
            streams = await plain(world)
            await asyncio.sleep(90)
            streams[1].close()
    told = [line for line in lines if line["log_level"] != "debug"]
    assert [line["why"] for line in told] == ["the system has no more: Too many open files"] * 2
    assert 500 < told[1]["times"] < 700


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (1_048_576, Places(MOST_CONNECTIONS, 512)),
        (1024, Places(768, 384)),
        (256, Places(192, 96)),
        (2, Places(2, 1)),
    ],
)
def test_there_are_fewer_places_than_files_and_some_are_not_for_strangers(
    files: int, expected: Places
) -> None:
    assert places(files) == expected
    assert expected.strangers < expected.all
    assert expected.known < expected.all
