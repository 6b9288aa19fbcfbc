"""The worlds that the machine suite runs in (embedded on virtual time, and a real Kubernetes), and both servers as a pair."""

import itertools
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path

import pytest
from tests.conformance.pairs import Pair

from kubewright.testing.real_kubernetes import RealKubernetes
from kubewright.testing.servers import embedded_api, real_api
from kubewright.testing.workloads import Workloads, embedded_workloads, real_workloads
from kubewright.testing.world import World, embedded_world, real_world

NewWorkloads = Callable[[], AbstractAsyncContextManager[Workloads]]
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
