"""What all tests share: how hard hypothesis tries, and the API servers that tests run against.

A test that takes ``api`` (or ``server``) runs twice: against the embedded server in this process,
on virtual time, and, marked ``kube``, against a real kube-apiserver in real time. One real control
plane serves the whole session; each test has a namespace of its own in it.
"""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from kubewright.base.clock import LoopClock, SystemClock
from kubewright.testing.api import Api

if TYPE_CHECKING:
    from kubewright.testing.judge import Judge

# Few examples by default, so that the whole suite stays a matter of seconds;
# HYPOTHESIS_PROFILE=thorough looks fifty times as hard. No deadline: machines differ.
_RELAXED = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture)
settings.register_profile("quick", max_examples=40, deadline=None, suppress_health_check=_RELAXED)
settings.register_profile("thorough", max_examples=2_000, deadline=None, suppress_health_check=_RELAXED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def pytest_sessionstart() -> None:
    """Say that there is no event loop; else pytest-asyncio asks for one, and nobody closes it."""
    asyncio.set_event_loop(None)


SERVERS = [
    pytest.param("embedded", id="embedded"),
    pytest.param("real", id="real", marks=[pytest.mark.kube, pytest.mark.looptime(False)]),
]
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def judge() -> Iterator["Judge"]:
    """A real control plane for the session; `make kube` gets its programs."""
    from kubewright.testing.judge import Judge, Options, find

    real = Judge(find(), SystemClock(), Options(fsync=False))
    _elsewhere(real.start())
    try:
        yield real
    finally:
        _elsewhere(real.stop())


@pytest.fixture(params=SERVERS)
async def server(request: pytest.FixtureRequest) -> AsyncIterator[Api]:
    """An API server, seen from its namespace ``default``."""
    start = _real(request.getfixturevalue("judge")) if request.param == "real" else _embedded()
    async with start as api:
        yield api


@asynccontextmanager
async def _embedded() -> AsyncIterator[Api]:
    from kubewright.apiserver.server import ApiServer

    from kubewright.kube.inprocess import InProcess

    clock = LoopClock()
    embedded = ApiServer(clock)
    await embedded.start()
    try:
        yield Api(InProcess(embedded.handle), clock, "embedded")
    finally:
        await embedded.close()


@asynccontextmanager
async def _real(judge: "Judge") -> AsyncIterator[Api]:
    from kubewright.kube.config import load

    transport = load(judge.kubeconfig)
    try:
        yield Api(transport, SystemClock(), "real")
    finally:
        await transport.close()


@pytest.fixture
async def api(server: Api) -> Api:
    """An API server and a new, empty namespace in it."""
    name = f"t{next(_numbers)}"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    (await server.post("/api/v1/namespaces", namespace)).ok()
    return Api(server.transport, server.clock, server.flavour, name)


def _elsewhere(work: Coroutine[Any, Any, Any]) -> None:
    """Run on a loop of its own in another thread, so that no test's loop is disturbed."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()
