"""What goes wrong is answered with a Status, and no client fills the log."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from kubewright.wire.errors import NotFound, TooManyRequests
from kubewright.wire.http import Request, Response

PODS = "/api/v1/namespaces/default/pods"
HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n"
Serving = Callable[..., AbstractAsyncContextManager[Any]]


async def test_errors_of_the_api_are_answered_as_a_status(serving: Serving) -> None:
    async def handler(request: Request) -> Response:
        if request.method == "GET":
            raise NotFound('pods "x" not found', details={"name": "x", "kind": "pods"})
        raise TooManyRequests("not now", retry_after=3)

    async with serving(handler) as world, world.client() as client:
        assert await world.refusal(await client.get(PODS)) == (404, "NotFound", 'pods "x" not found')
        answer = await client.post(PODS)
        assert await world.refusal(answer) == (429, "TooManyRequests", "not now")
        assert answer.headers["retry-after"] == "3"


async def test_a_defect_is_reported_to_the_log_and_not_to_the_client(serving: Serving) -> None:
    async def handler(_request: Request) -> Response:
        raise RuntimeError("internal secret")

    with capture_logs() as lines:
        async with serving(handler) as world, world.client() as client:
            code, reason, message = await world.refusal(await client.get(PODS))
    assert (code, reason) == (500, "InternalError")
    assert "secret" not in message
    assert [line["path"] for line in lines if line["log_level"] == "error"] == [PODS]


async def test_an_answer_that_cannot_be_written_is_a_defect_too(serving: Serving) -> None:
    async def handler(_request: Request) -> Response:
        return Response(200, headers={"x-odd": "a\r\nb"})

    with capture_logs() as lines:
        async with serving(handler) as world, world.client() as client:
            with pytest.raises(aiohttp.ServerDisconnectedError):
                await client.post(PODS)
    assert [line["log_level"] for line in lines if line["log_level"] != "debug"] == ["error"]


async def test_an_answer_that_does_not_come_is_a_timeout(serving: Serving) -> None:
    async def handler(_request: Request) -> Response:
        await asyncio.Event().wait()
        raise AssertionError

    async with serving(handler) as world, world.client() as client:
        code, reason, message = await world.refusal(await client.get(PODS))
    assert (code, reason, message[:8]) == (504, "Timeout", "Timeout:")


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"connection": "Upgrade", "upgrade": "SPDY/3.1"}, id="SPDY, as older kubectl"),
        pytest.param(
            {
                "connection": "Upgrade",
                "upgrade": "websocket",
                "sec-websocket-version": "13",
                "sec-websocket-key": "x3JJHMbDL1EzLkh9GBhXDw==",
                "sec-websocket-protocol": "v5.channel.k8s.io",
            },
            id="websocket, as newer kubectl",
        ),
    ],
)
async def test_an_upgrade_that_is_not_made_is_the_last_request_of_its_connection(
    serving: Serving, headers: dict[str, str]
) -> None:
    """What follows its head may be no HTTP."""
    async with serving() as world, world.client() as client:
        answer = await client.request("GET", f"{PODS}/x/exec", headers=headers)
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert (await client.get(PODS)).status == 200
    assert [request.path for request in world.asked] == [f"{PODS}/x/exec", PODS]


@pytest.mark.parametrize(
    "noise",
    [
        pytest.param(b"\x00\x01\x02 rubbish\r\n\r\n", id="no HTTP"),
        pytest.param(HEAD + b"X: " + b"x" * 100_000 + b"\r\n\r\n", id="an endless header"),
        pytest.param(b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n", id="an endless path"),
        pytest.param(HEAD + b"X: y\r\n" * 1000 + b"\r\n", id="endless headers"),
    ],
)  # fmt: skip
async def test_noise_is_refused_without_noise(
    serving: Serving, noise: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    with capture_logs() as lines:
        async with serving() as world:
            reader, writer = await world.raw()
            writer.write(noise)
            assert (await reader.read()).startswith(b"HTTP/1.")
            writer.close()
    assert world.asked == []
    assert {line["log_level"] for line in lines} == {"debug"}
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("size", [10, 1_000_000])
async def test_head_has_the_headers_of_an_answer_and_no_body(serving: Serving, size: int) -> None:
    async def handler(_request: Request) -> Response:
        return Response(200, b"x" * size)

    async with serving(handler) as world, world.client() as client:
        for _ in range(2):
            answer = await client.head(PODS)
            assert (answer.status, answer.headers["content-length"]) == (200, str(size))
            assert await answer.read() == b""
        assert len(await (await client.get(PODS)).read()) == size


async def test_plain_http_is_hung_up_on(serving: Serving) -> None:
    async with serving() as world:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.listener.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200" not in await reader.read()
        writer.close()
        await writer.wait_closed()
