"""Watches: begun at once, delivered at once, closed at once."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from kubewright.wire.http import Request, Response

PODS = "/api/v1/namespaces/default/pods"
Serving = Callable[..., AbstractAsyncContextManager[Any]]


async def nothing() -> None:
    """What a stream does that is over."""


class Watch:
    """A handler whose answers are streams that say ``lines`` and then wait, until the server closes them."""

    def __init__(self, *lines: bytes, then: Callable[[], Awaitable[object]] | None = None) -> None:
        self.lines = lines
        self.then = then or asyncio.Event().wait
        self.begun = 0
        self.closed = asyncio.Event()

    async def __call__(self, _request: Request) -> Response:
        return Response(200, stream=self._say(), content_type="application/json;stream=watch")

    async def _say(self) -> AsyncGenerator[bytes, None]:
        self.begun += 1
        try:
            for line in self.lines:
                yield line
            await self.then()
        finally:
            self.closed.set()


async def test_a_watch_begins_before_its_first_event(serving: Serving) -> None:
    watch = Watch()
    async with serving(watch) as world, world.client() as client, client.get(PODS) as answer:
        assert (answer.status, answer.headers["transfer-encoding"]) == (200, "chunked")
        assert answer.headers["content-type"] == "application/json;stream=watch"
        assert not watch.closed.is_set()


async def test_every_event_arrives_when_it_happens(serving: Serving) -> None:
    said: list[bytes] = [b"one\n", b"two\n"]
    async with serving(Watch(*said)) as world, world.client() as client, client.get(PODS) as answer:
        assert [await answer.content.readline(), await answer.content.readline()] == said


async def test_a_watch_that_is_over_ends_like_any_answer(serving: Serving) -> None:
    watch = Watch(b"one\n", then=nothing)
    async with serving(watch) as world, world.client() as client, client.get(PODS) as answer:
        assert await answer.read() == b"one\n"


async def test_when_the_watcher_leaves_the_watch_is_closed_at_once(serving: Serving) -> None:
    watch = Watch(b"one\n")
    async with serving(watch) as world, world.client() as client:
        async with client.get(PODS) as answer:
            await answer.content.readline()
            answer.close()
        async with asyncio.timeout(0.5):
            await watch.closed.wait()


async def test_when_the_server_closes_watchers_see_a_regular_end(serving: Serving) -> None:
    watch = Watch(b"one\n")
    async with serving(watch) as world, world.client() as client:
        first, second = await client.get(PODS), await client.get(PODS)
        assert await first.content.readline() == b"one\n"
        began = asyncio.get_running_loop().time()
        await world.listener.close()
        assert watch.closed.is_set()
        assert (await first.read(), await second.read()) == (b"", b"one\n")
        assert asyncio.get_running_loop().time() - began < 1


async def test_a_watcher_that_reads_nothing_is_cut_off(serving: Serving) -> None:
    watch = Watch(*[b"x" * 1_000_000] * 50)
    async with serving(watch) as world:
        _reader, writer = await world.raw()
        writer.write(b"GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(60):
            await watch.closed.wait()
        writer.transport.abort()


class Flood:
    """A handler whose answers never end; ``asked`` is how many bytes the server has taken of them, and ``last``
    when it took some."""

    def __init__(self, chunk: int = 1_000_000) -> None:
        self.asked, self.last = 0, 0.0
        self.chunk = b"x" * chunk
        self.closed = asyncio.Event()

    async def __call__(self, _request: Request) -> Response:
        return Response(200, stream=self._say())

    async def _say(self) -> AsyncGenerator[bytes, None]:
        try:
            while True:
                self.asked += len(self.chunk)
                self.last = asyncio.get_running_loop().time()
                yield self.chunk
        finally:
            self.closed.set()


@pytest.mark.parametrize("chunk", [1_000, 1_000_000])
async def test_no_more_of_a_stream_is_made_than_its_client_takes(serving: Serving, chunk: int) -> None:
    flood = Flood(chunk)
    async with serving(flood) as world:
        _reader, writer = await world.raw()
        writer.transport.pause_reading()
        writer.write(b"GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.sleep(20)
        assert not flood.closed.is_set()
        assert 0 < flood.asked < 6_000_000
        writer.transport.abort()


async def test_a_watcher_that_reads_slowly_stays_and_is_cut_off_once_it_stops(serving: Serving) -> None:
    flood, loop = Flood(10_000), asyncio.get_running_loop()
    async with serving(flood) as world:
        reader, writer = await world.raw()
        writer.write(b"GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n")
        for _ in range(20):
            for _ in range(10):
                await reader.read(100_000)
            await asyncio.sleep(20)
            assert not flood.closed.is_set()
        stopped = loop.time()
        await flood.closed.wait()
        assert 5 <= loop.time() - stopped <= 40
        writer.transport.abort()


async def test_a_person_may_leave_a_log_unread_for_hours_and_no_more_of_it_is_made(serving: Serving) -> None:
    """``kubectl logs | less``."""
    flood = Flood(10_000)

    async def log(request: Request) -> Response:
        return replace(await flood(request), patient=True)

    async with serving(log) as world:
        _reader, writer = await world.raw()
        writer.transport.pause_reading()
        writer.write(b"GET /api/v1/log HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.sleep(3 * 3600)
        assert not flood.closed.is_set()
        assert 0 < flood.asked < 6_000_000
        await flood.closed.wait()  # virtual time runs ahead of what is sent, so it is not measured
        writer.transport.abort()


async def test_what_follows_a_log_on_its_connection_has_as_little_time_as_any(serving: Serving) -> None:
    flood, loop = Flood(10_000), asyncio.get_running_loop()

    async def log_then_flood(request: Request) -> Response:
        if request.path == "/api/v1/log":
            return replace(await Watch(b"line\n", then=nothing)(request), patient=True)
        return await flood(request)

    async with serving(log_then_flood) as world:
        _reader, writer = await world.raw()
        writer.transport.pause_reading()
        for path in (b"log", b"pods?watch=1"):
            writer.write(b"GET /api/v1/%b HTTP/1.1\r\nHost: x\r\n\r\n" % path)
        began = loop.time()
        await flood.closed.wait()
        assert loop.time() - began < 60
        writer.transport.abort()


async def test_large_answers_that_nobody_reads_are_held_within_a_bound(serving: Serving) -> None:
    async def large(_request: Request) -> Response:
        return Response(200, b"x" * 50_000_000)

    async with serving(large) as world:
        begun = []
        for _ in range(2):
            _, writer = await world.raw()
            writer.transport.pause_reading()
            writer.write(b"GET /api/v1/pods HTTP/1.1\r\nHost: x\r\n\r\n")
            begun.append(writer)
        await asyncio.sleep(1)
        async with world.client() as client:
            code, reason, _ = await world.refusal(await client.get(PODS))
            assert (code, reason) == (429, "TooManyRequests")
            await asyncio.sleep(40)
            async with client.get(PODS) as answer:
                assert answer.status == 200
                assert len(await answer.read()) == 50_000_000
        for writer in begun:
            writer.transport.abort()


async def test_a_stream_that_fails_is_not_taken_for_a_whole_one(serving: Serving) -> None:
    async def fail() -> None:
        raise RuntimeError("a defect")

    with capture_logs() as lines:
        async with serving(Watch(b"one\n", then=fail)) as world, world.client() as client:
            answer = await client.get(PODS)
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.read()
    assert [line["path"] for line in lines if line["log_level"] == "error"] == [PODS]
