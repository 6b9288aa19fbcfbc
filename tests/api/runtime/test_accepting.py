"""The connections of servers that anybody may reach: none keeps another out, and none stays for ever."""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web
from structlog.testing import capture_logs
from tests.api.streams import Streams, seconds_until_the_end

from kubewright.runtime.accepting import Accepting
from kubewright.testing.clocks import LoopClock


class Serving:
    """A server that answers ``/`` at once and ``/slow`` when it is let."""

    def __init__(self, most: int) -> None:
        self.accepting = Accepting("probes", most=most, clock=LoopClock())
        self.let = asyncio.Event()
        self.port = 0

    async def answer(self, _request: web.Request) -> web.Response:
        return web.Response(text="OK")

    async def answer_later(self, _request: web.Request) -> web.Response:
        await self.let.wait()
        return web.Response(text="OK")

    async def connect(self) -> Streams:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(self, path: str = "/") -> str:
        """On a new connection."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self.port}{path}") as got,
        ):
            return await got.text()


@asynccontextmanager
async def serving(most: int = 4, sockets: Sequence[socket.socket] = ()) -> AsyncIterator[Serving]:
    one = Serving(most)
    app = web.Application(middlewares=[one.accepting.marks])
    app.router.add_get("/", one.answer)
    app.router.add_get("/slow", one.answer_later)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    assert runner.server is not None
    listening = sockets or await one.accepting.listen("127.0.0.1", 0)
    one.port = int(listening[0].getsockname()[1])
    task = asyncio.create_task(one.accepting.serve(listening, runner.server))
    try:
        yield one
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await runner.cleanup()


async def test_who_asks_for_nothing_makes_room_and_keeps_nobody_out() -> None:
    with capture_logs() as lines:
        async with serving(most=4) as one:
            slow = asyncio.create_task(one.ask("/slow"))
            silent = [await one.connect() for _ in range(20)]
            assert await one.ask() == "OK"
            assert len(one.accepting) <= 4
            one.let.set()
            assert await slow == "OK"
            ended = [await seconds_until_the_end(each) for each in silent]
            assert sum(each < 1 for each in ended) >= 16
    warnings = [line for line in lines if line["log_level"] == "warning"]
    assert [(line["event"], line["server"]) for line in warnings] == [("connections are ended", "probes")]


async def test_where_all_are_being_answered_another_is_refused() -> None:
    async with serving(most=2) as one:
        slow = [asyncio.create_task(one.ask("/slow")) for _ in range(2)]
        await asyncio.sleep(1)
        assert await seconds_until_the_end(await one.connect()) < 1
        one.let.set()
        assert await asyncio.gather(*slow) == ["OK", "OK"]


async def test_a_connection_without_a_request_ends_after_thirty_seconds() -> None:
    async with serving() as one:
        assert 29 <= await seconds_until_the_end(await one.connect()) <= 32


async def test_a_connection_that_was_answered_may_be_idle_for_a_minute_and_longer() -> None:
    async with serving() as one:
        streams = await one.connect()
        for _ in range(2):
            streams[1].write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert await streams[0].readuntil(b"\r\n\r\nOK")
            await asyncio.sleep(60)
        streams[1].close()


class Poor(socket.socket):
    """A socket of a process that has no files left."""

    def accept(self) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")


async def test_a_process_without_files_says_so_once_a_minute() -> None:
    poor = Poor()
    poor.bind(("127.0.0.1", 0))
    poor.listen()
    poor.setblocking(False)
    with capture_logs() as lines:
        async with serving(sockets=[poor]) as one:
            _, writer = await one.connect()
            await asyncio.sleep(90)
            writer.close()
    told = [line for line in lines if line["log_level"] != "debug"]
    assert [line["why"] for line in told] == ["the system has no more: Too many open files"] * 2
    assert 500 < told[1]["times"] < 700
