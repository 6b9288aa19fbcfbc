"""Where the listener listens, and how it ends."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import aiohttp
import pytest

from kubewright.base.errors import InvalidInput
from kubewright.wire.http import Request, Response

PODS = "/api/v1/namespaces/default/pods"
Serving = Callable[..., AbstractAsyncContextManager[Any]]


async def test_a_client_that_leaves_is_not_worked_for(serving: Serving) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def handler(_request: Request) -> Response:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        raise AssertionError

    async with serving(handler) as world:
        _reader, writer = await world.raw()
        writer.write(b"GET /api/v1/pods HTTP/1.1\r\nHost: x\r\n\r\n")
        await begun.wait()
        writer.close()
        async with asyncio.timeout(0.5):
            await stopped.wait()


@pytest.mark.parametrize(
    ("needs", "status"),
    [
        pytest.param(0.5, 200, id="one that is nearly done is finished"),
        pytest.param(30.0, None, id="one that takes long is dropped"),
    ],
)
async def test_closing_gives_requests_a_moment(serving: Serving, needs: float, status: int | None) -> None:
    begun = asyncio.Event()

    async def handler(_request: Request) -> Response:
        begun.set()
        await asyncio.sleep(needs)
        return Response(200, b"{}")

    async def ask(client: aiohttp.ClientSession) -> int | None:
        try:
            return (await client.get(PODS)).status
        except aiohttp.ClientError:
            return None

    async with serving(handler) as world, world.client() as client:
        asking = asyncio.create_task(ask(client))
        await begun.wait()
        began = asyncio.get_running_loop().time()
        await world.listener.close()
        assert asyncio.get_running_loop().time() - began <= 2.0
        assert await asking == status


async def test_a_closed_listener_listens_no_more_and_may_be_closed_again(serving: Serving) -> None:
    async with serving() as world:
        await world.listener.close()
        await world.listener.close()
        with pytest.raises(ConnectionRefusedError):
            await world.raw()


async def test_who_was_at_the_door_when_it_closed_is_sent_away(serving: Serving) -> None:
    async with serving() as world:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.listener.port)
        await asyncio.sleep(0.02)  # accepted, and no TLS yet
        closing = asyncio.create_task(world.listener.close())
        await asyncio.sleep(0)
        await writer.start_tls(world.authority.client_context(world.authority.admin))
        writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"the server is shutting down" in answer
        writer.close()
        await closing
    assert world.asked == []


async def test_who_is_at_the_door_and_does_not_come_in_does_not_outlive_the_server(serving: Serving) -> None:
    async with serving() as world:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.listener.port)
        await asyncio.sleep(0.02)
        await world.listener.close()
        await asyncio.sleep(0)
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "agree upon TLS"]
        assert await reader.read() == b""
        writer.close()


async def test_its_port_is_free_again_at_once(serving: Serving) -> None:
    async with serving() as world, world.client() as client:
        await client.get("/version")
        port = world.listener.port
        await world.listener.close()
        async with serving(port=port) as again:
            assert again.listener.url == f"https://127.0.0.1:{port}"


async def test_a_taken_port_is_one_sentence(serving: Serving) -> None:
    async with serving() as world:
        with pytest.raises(InvalidInput, match=r"port \d+ on 127\.0\.0\.1 is taken; choose another"):
            async with serving(port=world.listener.port):
                pass


@pytest.mark.parametrize("port", [-1, 70000])
async def test_numbers_that_are_no_port_will_not_do(serving: Serving, port: int) -> None:
    with pytest.raises(InvalidInput, match="is not a port"):
        async with serving(port=port):
            pass
