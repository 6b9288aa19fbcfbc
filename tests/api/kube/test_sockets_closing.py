"""No connection outlives its transport, whenever the request that it was made for is cancelled."""

import asyncio
import gc
import socket
import ssl
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress

import pytest

from kubewright.base.clock import SystemClock
from kubewright.kube.access import Access
from kubewright.kube.config import connect
from kubewright.testing import keys
from kubewright.wire.http import Request

TURNS = range(20)
"""Moments of a request, in turns of the event loop: the TLS handshake is under way in the last ones."""


class DeafServer:
    """It speaks TLS, reads requests, and answers neither them nor the goodbye of a client."""

    def __init__(self) -> None:
        self.trust = keys.in_memory(SystemClock())
        self.asked = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections = ExitStack()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def access(self) -> Access:
        return Access(f"https://127.0.0.1:{self._listener.getsockname()[1]}", ca=self.trust.authority)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._connections.close()

    def _accept(self) -> None:
        context = self.trust.server_context()
        with suppress(OSError):
            while True:
                connection = self._connections.enter_context(closing(self._listener.accept()[0]))
                threading.Thread(target=self._read, args=(connection, context), daemon=True).start()

    def _read(self, connection: socket.socket, context: ssl.SSLContext) -> None:
        with suppress(OSError), context.wrap_socket(connection.dup(), server_side=True) as tls:
            while tls.recv(1_000):
                self.asked.set()


@pytest.fixture
def server() -> Iterator[DeafServer]:
    with closing(DeafServer()) as running:
        yield running


def left_open(server: DeafServer, turns: int | None) -> list[str]:
    """What stays open of a request cancelled after so many turns; None: once the server has read it."""

    async def give_up() -> None:
        transport = connect(server.access, clock=SystemClock())
        asking = asyncio.create_task(transport.request(Request("GET", "/api", (), {}, b""), timeout=30))
        if turns is None:
            await asyncio.to_thread(server.asked.wait, 30)
        for _ in range(turns or 0):
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        await transport.close()

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ResourceWarning)
        asyncio.run(give_up())
        gc.collect()
    return [str(each.message) for each in warned]


def test_a_request_cancelled_while_its_connection_is_made_leaves_none(server) -> None:
    assert {turns: left for turns in TURNS if (left := left_open(server, turns))} == {}


def test_a_request_cancelled_under_way_leaves_no_connection(server) -> None:
    assert left_open(server, None) == []
