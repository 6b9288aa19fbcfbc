"""The worlds that the machine suite runs in (embedded on virtual time, and a real Kubernetes), and both servers as a pair."""

import asyncio
import itertools
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.pairs import Pair

from kubewright.base.clock import SystemClock
from kubewright.testing.api import Api
from kubewright.testing.real_kubernetes import FOR_KUBELETS, Options, RealKubernetes, find
from kubewright.testing.servers import embedded_api, real_api
from kubewright.testing.workloads import Workloads, embedded_workloads, real_workloads
from kubewright.testing.world import World, embedded_world, real_world

NewWorkloads = Callable[[], AbstractAsyncContextManager[Workloads]]
Begun = Callable[[], AbstractAsyncContextManager[Api]]
NewWorld = Callable[[], AbstractAsyncContextManager[World]]

_numbers = itertools.count(1)
WORLDS = [
    pytest.param("embedded", id="embedded"),
    pytest.param("real", id="real", marks=[pytest.mark.kube, pytest.mark.looptime(False)]),
]


@pytest.fixture(params=WORLDS)
def new_world(request: pytest.FixtureRequest) -> NewWorld:
    """Begins a world with the classes ``small`` and ``large`` in a namespace of its own, and no machines.

    The test begins it, not the fixture: only a test's body has virtual time.
    """
    if request.param == "embedded":
        return embedded_world
    real_kubernetes = request.getfixturevalue("real_kubernetes")
    return lambda: real_world(real_kubernetes, f"machines-{next(_numbers)}")


@pytest.fixture(params=WORLDS)
def new_workloads(request: pytest.FixtureRequest) -> NewWorkloads:
    """Begins a world with two hollow nodes and a scheduler, in a namespace of its own."""
    if request.param == "embedded":
        return embedded_workloads
    real_kubernetes = request.getfixturevalue("real_kubernetes")
    return lambda: real_workloads(real_kubernetes)


@pytest.fixture
async def pair(real_kubernetes: RealKubernetes) -> AsyncIterator[Pair]:
    """A new embedded server beside the session's real one."""
    async with embedded_api() as embedded, real_api(real_kubernetes) as real:
        yield Pair(embedded, real)


@pytest.fixture(autouse=True)
def no_program_outlives_a_test_that_failed(request: pytest.FixtureRequest) -> Iterator[None]:
    """End what runs below the folder of a test with real programs: they outlive their manager by intent."""
    if request.node.get_closest_marker("kube") is None or "tmp_path" not in request.fixturenames:
        yield
        return
    folder = request.getfixturevalue("tmp_path").resolve()
    yield
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if Path(os.readlink(process / "cwd").removesuffix(" (deleted)")).is_relative_to(folder):
                os.kill(int(process.name), signal.SIGKILL)


def apart(work: Any) -> None:
    """Run on a loop of its own in another thread."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()


CONTROLLERS = ("namespace-controller", "clusterrole-aggregation-controller", *FOR_KUBELETS)


@pytest.fixture(scope="module")
def kubelets_server() -> Iterator[RealKubernetes]:
    """A real control plane with the controllers that kubelets need."""
    flags = ("--enable-admission-plugins=NodeRestriction",)
    options = Options(fsync=False, controllers=CONTROLLERS, apiserver_flags=flags)
    real = RealKubernetes(find(), SystemClock(), options)
    apart(real.start())
    try:
        yield real
    finally:
        apart(real.stop())


@pytest.fixture(params=WORLDS)
def begun(request: pytest.FixtureRequest) -> Begun:
    """Begins a server with these controllers, seen from a new namespace.

    The test begins it, not the fixture: only a test's body has virtual time.
    """
    real = request.getfixturevalue("kubelets_server") if request.param == "real" else None
    name = f"n{next(_numbers)}"

    @asynccontextmanager
    async def begin() -> AsyncIterator[Api]:
        async with embedded_api(for_kubelets=True) if real is None else real_api(real) as found:
            (await found.post("/api/v1/namespaces", {"metadata": {"name": name}})).ok()
            given = f"/api/v1/namespaces/{name}/configmaps/kube-root-ca.crt"
            await found.eventually(lambda: _is_there(found, given), "the namespace is set up")
            yield Api(found.transport, found.clock, found.flavour, name)

    return begin


async def _is_there(api: Api, path: str) -> bool:
    return (await api.get(path)).code == 200
