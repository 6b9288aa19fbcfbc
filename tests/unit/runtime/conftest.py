"""The runtime logs what goes wrong, and here everything does: keep the log out of the report."""

import asyncio
import logging
from contextlib import asynccontextmanager

import aiohttp
import pytest
import structlog

from kubewright.runtime.health import HealthServer


@asynccontextmanager
async def serving(**options):
    """A health server, and a session of a client of it."""
    server = HealthServer(**options)
    task = asyncio.create_task(server.run())
    try:
        await server.started.wait()
        async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:
            yield session
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture(autouse=True)
def silent_log():
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()
