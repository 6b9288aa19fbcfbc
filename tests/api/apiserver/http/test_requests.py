"""What a request becomes on its way in, and an answer on its way out."""

import io
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from kubewright.apiserver.http.authn import AUTHENTICATED
from kubewright.base.limits import BODY_BYTES
from kubewright.wire.http import Request, Response, User

PODS = "/api/v1/namespaces/default/pods"
Serving = Callable[..., AbstractAsyncContextManager[Any]]


# ---------------- requests and answers


async def test_a_request_arrives_as_a_value(serving: Serving) -> None:
    async with serving() as world, world.client() as client:
        answer = await client.patch(
            "/api/v1/namespaces/a%20b/pods/%C3%A4?watch=0&labelSelector=a%3Db%2Cc&empty=&watch=1&plus=a+b",
            data=b'{"a":1}',
            headers=[("X-One", "1"), ("X-One", "2"), ("Content-Type", "application/json")],
        )
        assert (answer.status, await answer.read()) == (200, b'{"kind":"Hello"}')
        assert answer.headers["content-length"] == "16"
        assert answer.headers["cache-control"] == "no-cache, private"
    (request,) = world.asked
    assert (request.method, request.path) == ("PATCH", "/api/v1/namespaces/a b/pods/ä")
    pairs = (("watch", "0"), ("labelSelector", "a=b,c"), ("empty", ""), ("watch", "1"), ("plus", "a b"))
    assert request.query == pairs
    assert request.body == b'{"a":1}'
    assert (request.headers["x-one"], request.headers["content-type"]) == ("1, 2", "application/json")
    assert request.user == User("kubewright-admin", ("system:masters", AUTHENTICATED))


async def test_status_type_and_headers_of_an_answer_are_kept(serving: Serving) -> None:
    async def busy(_request: Request) -> Response:
        return Response(429, b"later", "text/plain", {"retry-after": "7"})

    async with serving(busy) as world, world.client() as client:
        answer = await client.get(PODS)
        assert (answer.status, await answer.read()) == (429, b"later")
        assert (answer.headers["content-type"], answer.headers["retry-after"]) == ("text/plain", "7")


async def test_a_large_answer_arrives_whole_and_its_head_alone(serving: Serving) -> None:
    large = bytes(range(256)) * 4096 + b"end"

    async def handler(_request: Request) -> Response:
        return Response(200, large)

    async with serving(handler) as world, world.client() as client:
        answer = await client.get(PODS, headers={"accept-encoding": "gzip"})
        assert await answer.read() == large  # on loopback nothing is compressed: it costs more than it saves
        assert "content-encoding" not in answer.headers
        head = await client.head(PODS)
        assert (await head.read(), head.headers["content-length"]) == (b"", str(len(large)))


async def test_a_connection_is_used_again(serving: Serving) -> None:
    async with serving() as world:
        reader, writer = await world.raw()
        for _ in range(3):
            writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK")
            assert await reader.readexactly(16) == b'{"kind":"Hello"}'
        writer.close()
        await writer.wait_closed()


async def test_headers_that_are_no_text_do_no_harm(serving: Serving) -> None:
    async with serving() as world:
        reader, writer = await world.raw()
        writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\nX-Odd: \xff\xfe\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
        writer.close()
        await writer.wait_closed()
    json.dumps(dict(world.asked[0].headers)).encode()


# ---------------- bodies


async def in_chunks(size: int) -> AsyncGenerator[bytes, None]:
    for _ in range(size // 65_536):
        yield b"x" * 65_536
    yield b"x" * (size % 65_536)


@pytest.mark.parametrize("chunked", [False, True], ids=["announced", "in chunks"])
@pytest.mark.parametrize("size", [0, 10, 100_000, BODY_BYTES])
async def test_bodies_up_to_the_limit_arrive(serving: Serving, size: int, chunked: bool) -> None:
    async with serving() as world, world.client() as client:
        assert (
            await client.post(PODS, data=in_chunks(size) if chunked else io.BytesIO(b"x" * size))
        ).status == 200
    assert len(world.asked[0].body) == size


@pytest.mark.parametrize("chunked", [False, True], ids=["announced", "in chunks"])
async def test_bodies_beyond_the_limit_are_refused(serving: Serving, chunked: bool) -> None:
    size = BODY_BYTES + 1
    async with serving() as world, world.client() as client:
        answer = await client.post(PODS, data=in_chunks(size) if chunked else io.BytesIO(b"x" * size))
        said = "Request entity too large: limit is 3145728"
        assert await world.refusal(answer) == (413, "RequestEntityTooLarge", said)
    assert world.asked == []


async def test_a_client_that_waits_to_be_asked_for_its_body_is_asked(serving: Serving) -> None:
    async with serving() as world, world.client() as client:
        assert (await client.post(PODS, data=b"x" * 1000, expect100=True)).status == 200
    assert world.asked[0].body == b"x" * 1000


async def test_a_body_that_does_not_come_is_not_waited_for(serving: Serving) -> None:
    async with serving() as world:
        reader, writer = await world.raw()
        writer.write(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
        assert b"the body did not arrive within 30 s" in await reader.read()
        writer.close()
    assert world.asked == []
