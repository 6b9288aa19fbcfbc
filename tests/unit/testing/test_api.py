"""What the conformance tests' client asks again, and what it shows at once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from kubewright.testing.api import CACHE_IS_BEING_MADE, Api
from kubewright.testing.clocks import ManualClock
from kubewright.wire.errors import ApiError, TooManyRequests, to_status
from kubewright.wire.http import Request, Response


class Sleeping(ManualClock):
    """Who sleeps has slept at once."""

    async def sleep(self, seconds: float) -> None:
        self.passed += seconds


class Refuses:
    """A server that refuses the first requests."""

    def __init__(self, times: int, message: str) -> None:
        self.left, self.error = times, TooManyRequests(message, retry_after=1)

    async def request(self, request: Request, *, timeout: float) -> Response:
        self.left -= 1
        if self.left >= 0:
            return Response(429, msgspec.json.encode(to_status(self.error)))
        return Response(200, b"{}")

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        self.left -= 1
        if self.left >= 0:
            raise self.error

        async def nothing() -> AsyncIterator[bytes]:
            for line in ():
                yield line

        yield nothing()


async def asked(server: Refuses) -> tuple[int, int]:
    """The codes of a get, and of a watch."""
    api = Api(server, Sleeping(), "real")
    left = server.left
    got = (await api.get("/api")).code
    server.left = left
    try:
        async with api.watch("/api") as watch:
            assert await watch.rest() == []
        return got, 200
    except ApiError as error:
        return got, error.code


async def test_a_cache_that_is_being_made_is_waited_for():
    assert await asked(Refuses(3, CACHE_IS_BEING_MADE)) == (200, 200)


async def test_but_not_for_ever():
    assert await asked(Refuses(10_000, CACHE_IS_BEING_MADE)) == (429, 429)


@pytest.mark.parametrize("said", ["Cannot evict pod", "Too many requests, please try again later."])
async def test_any_other_429_is_shown_at_once(said):
    assert await asked(Refuses(1, said)) == (429, 429)
