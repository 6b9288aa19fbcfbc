"""A listener with a handler behind it, and clients in front: real sockets, real TLS, virtual waiting."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from kubewright.apiserver.http.authn import Authenticator
from kubewright.apiserver.http.connections import Connections, Places
from kubewright.apiserver.http.listener import Listener
from kubewright.base.clock import SystemClock
from kubewright.testing import keys
from kubewright.testing.clocks import LoopClock
from kubewright.wire.http import Handler, Request, Response, User

TOKENS = {
    "ann-token": User("ann", ("devs",)),
    "bob-token": User("bob"),
    "admin-token": User("admin", ("system:masters",)),
}


class World:
    """A listener, what its handler was asked, and clients of it."""

    def __init__(self, listener: Listener, authority: keys.Keys, asked: list[Request]) -> None:
        self.listener = listener
        self.authority = authority
        self.asked = asked

    @asynccontextmanager
    async def client(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[aiohttp.ClientSession]:
        """The admin, or a client with another TLS context."""
        context = tls or self.authority.client_context(self.authority.admin)
        session = aiohttp.ClientSession(
            self.listener.url,
            connector=aiohttp.TCPConnector(ssl=context),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            auto_decompress=False,
        )
        async with session:
            yield session
        await asyncio.sleep(0.02)  # both ends of TLS say goodbye

    async def raw(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The admin, byte by byte."""
        context = self.authority.client_context(self.authority.admin)
        return await asyncio.open_connection("127.0.0.1", self.listener.port, ssl=context)

    @staticmethod
    async def refusal(answer: aiohttp.ClientResponse) -> tuple[int, str, str]:
        """Code, reason and message of a Status; it must be one, and agree with the answer's code."""
        status = json.loads(await answer.read())
        assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure")
        assert answer.headers["content-type"] == "application/json"
        assert status["code"] == answer.status
        return status["code"], status["reason"], status["message"]


async def hello(_request: Request) -> Response:
    return Response(200, b'{"kind":"Hello"}')


@pytest.fixture(scope="session")
def authority() -> keys.Keys:
    """One for all tests; in real time, because that is what TLS goes by."""
    return keys.in_memory(SystemClock())


@pytest.fixture
def serving(authority: keys.Keys) -> Callable[..., AbstractAsyncContextManager[World]]:
    """``serving(handler, **settings)`` is a listener that serves while the context lasts."""

    @asynccontextmanager
    async def serve(
        handler: Handler = hello, limit: Places | None = None, **settings: Any
    ) -> AsyncIterator[World]:
        clock, asked = LoopClock(datetime.now(UTC)), []

        async def recorded(request: Request) -> Response:
            asked.append(request)
            return await handler(request)

        connections = Connections(clock, limit)
        listener = Listener(
            recorded, Authenticator(clock, TOKENS.get), authority, connections=connections, **settings
        )
        await listener.start()
        try:
            yield World(listener, authority, asked)
        finally:
            await listener.close()
            await asyncio.sleep(0.02)

    return serve
