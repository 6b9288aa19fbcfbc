"""Embedded servers in this process, on virtual time, that a test may stop and start again."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from kubewright.apiserver.server import ApiServer
from kubewright.kube.transport import InProcess
from kubewright.testing.api import Api
from kubewright.testing.clocks import LoopClock

Serving = Callable[[Path | None], AbstractAsyncContextManager[Api]]


@asynccontextmanager
async def opened(path: Path | None) -> AsyncIterator[Api]:
    clock = LoopClock()
    server = ApiServer(clock, path=path)
    await server.start()
    try:
        yield Api(InProcess(server.handle), clock, "embedded")
    finally:
        await server.close()


@pytest.fixture
def serving() -> Serving:
    """Opens a server on a folder, or (None) in memory."""
    return opened


@pytest.fixture
async def bare() -> AsyncIterator[Api]:
    """A server in memory without any controllers."""
    async with opened(None) as api:
        yield api
