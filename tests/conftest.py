"""What all tests share: how hard hypothesis tries, how time jumps, and the API servers that tests run against.

A test that takes ``api`` (or ``server``) runs twice: against the embedded server in this process,
on virtual time, and, marked ``kube``, against a real kube-apiserver in real time. One real control
plane serves the whole session; each test has a namespace of its own in it.
"""

import asyncio
import gc
import itertools
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from hypothesis import HealthCheck, Phase, settings
from pytest_asyncio import is_async_test

from kubewright.base.clock import SystemClock
from kubewright.testing.api import Api

if TYPE_CHECKING:
    from kubewright.testing.kubectl import Kubectl
    from kubewright.testing.real_kubernetes import RealKubernetes

# Few examples by default, so that the unit suite stays a matter of seconds; continuous integration tries five times
# as many (HYPOTHESIS_PROFILE=ci), and HYPOTHESIS_PROFILE=thorough looks a hundred times as hard. `make mutants` wants
# the same examples each time, and not the smallest that fails; it runs the tests several times in one process, each
# time as other objects. No deadline: machines differ.
_RELAXED = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture)
settings.register_profile("quick", max_examples=20, deadline=None, suppress_health_check=_RELAXED)
settings.register_profile("ci", settings.get_profile("quick"), max_examples=100)
settings.register_profile("thorough", max_examples=2_000, deadline=None, suppress_health_check=_RELAXED)
settings.register_profile(
    "mutants",
    settings.get_profile("quick"),
    max_examples=40,
    derandomize=True,
    suppress_health_check=(*_RELAXED, HealthCheck.differing_executors),
    database=None,
    phases=[Phase.explicit, Phase.generate],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


ROUNDS = 1
"""How often a loop with nothing to do looks for I/O before its virtual time jumps. Sockets of tests on virtual time
have both ends in this process, so what one end wrote is there at the first look; looptime's own 42 looks would be
half of the seconds of such tests."""


def pytest_itemcollected(item: pytest.Item) -> None:
    if is_async_test(item):
        item.add_marker(pytest.mark.looptime(noop_cycles=ROUNDS))


@pytest.fixture(autouse=True, scope="module")
def log_as_before() -> Iterator[None]:
    """A command that a test runs in this process sets the log; what follows has it as before."""
    yield
    structlog.reset_defaults()


class VirtualTime:
    """looptime, asked about pytest-asyncio's own fixtures only; it looks for new loops among their values.

    Of its own accord it goes through all names of pytest-asyncio after each fixture of each test.
    """

    def __init__(self, plugin: Any) -> None:
        self._plugin = plugin
        self.pytest_pyfunc_call = plugin.pytest_pyfunc_call
        self.looptime = plugin.looptime

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, Any, Any]:
        if fixturedef.func.__module__ == is_async_test.__module__:
            return (yield from self._plugin.pytest_fixture_setup(fixturedef, request))
        return (yield)


MEMORY, ENOUGH = Path("/dev/shm"), 4 * 1024**3


def pytest_configure(config: pytest.Config) -> None:
    """Keep the folders of tests in memory, where there is enough: fsync waits for all that the machine writes to its
    disk, ten seconds and more beside a large build, and a server that waits as long gives up its Leases.

    Not those of real programs: each etcd reserves 64 MB at once. But those of VMs, of which one has an etcd.
    """
    if (
        config.option.markexpr in ("not kube and not vm", "vm")
        and MEMORY.is_dir()
        and os.access(MEMORY, os.W_OK)
    ):
        there = os.statvfs(MEMORY)
        if there.f_bavail * there.f_frsize >= ENOUGH and not there.f_flag & os.ST_NOEXEC:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    plugin = config.pluginmanager.unregister(name="looptime_plugin")
    config.pluginmanager.register(VirtualTime(plugin), "virtual time")


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Send no keywords from a worker to the main process: they are half of each report, and not read there."""
    data = yield
    if data:
        data["keywords"] = {}
    return data


gc.disable()  # while modules are imported and tests collected, nearly nothing becomes garbage


def pytest_collection_finish() -> None:
    """Keep the garbage collector off what lasts as long as the session: modules, and thousands of tests.

    Of what tests make, little is in cycles: with Python's own thresholds the search for it is a tenth of their time.
    """
    gc.freeze()
    gc.set_threshold(*COLLECTIONS)
    gc.enable()


COLLECTIONS = (20_000, 10, 10)


def pytest_sessionstart() -> None:
    """Say that there is no event loop; else pytest-asyncio asks for one, and does not close it."""
    asyncio.set_event_loop(None)
    structlog.configure(**LOG)


SHOWN = os.environ.get("KUBEWRIGHT_TEST_LOG", "warning")


def _shown(_logger: object, level: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    if LEVELS.index(level.replace("exception", "error")) < LEVELS.index(SHOWN):
        raise structlog.DropEvent
    return line


LEVELS = ("debug", "info", "warning", "error", "critical")
LOG: dict[str, Any] = {
    "processors": [
        _shown,
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ],
    "logger_factory": structlog.PrintLoggerFactory(),
}
"""The log of tests: what every plan says is seldom read, and costs a tenth of their time; ``KUBEWRIGHT_TEST_LOG=debug``
shows it beside what failed."""


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Undo what a command or a manager, run in this process, has made of the log and of the garbage collector: with
    the numbers of a server the garbage of all later tests would stay. As a fixture it would cost each test more."""
    if gc.get_threshold() != COLLECTIONS:
        gc.set_threshold(*COLLECTIONS)
    if structlog.get_config()["processors"] is not LOG["processors"]:
        structlog.configure(**LOG)


SERVERS = [
    pytest.param("embedded", id="embedded"),
    pytest.param("real", id="real", marks=[pytest.mark.kube, pytest.mark.looptime(False)]),
]
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def real_kubernetes() -> Iterator["RealKubernetes"]:
    """A real control plane for the session; `make kube` gets its programs."""
    from kubewright.testing.real_kubernetes import Options, RealKubernetes, find

    real = RealKubernetes(find(), SystemClock(), Options(fsync=False, node_grace_seconds=8))
    _elsewhere(real.start())
    try:
        yield real
    finally:
        _elsewhere(real.stop())


@pytest.fixture(params=SERVERS)
async def server(request: pytest.FixtureRequest) -> AsyncIterator[Api]:
    """An API server, seen from its namespace ``default``."""
    from kubewright.testing.servers import embedded_api, real_api

    real = request.param == "real"
    async with real_api(request.getfixturevalue("real_kubernetes")) if real else embedded_api() as api:
        yield api


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


@pytest.fixture(scope="session")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of an embedded server that listens for the session, in real time."""
    from kubewright.testing.servers import embedded_kubeconfig

    with embedded_kubeconfig(tmp_path_factory.mktemp("door")) as kubeconfig:
        yield kubeconfig


@pytest.fixture(scope="session", params=SERVERS)
def new_kubectl(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], "Kubectl"]:
    """Makes an unmodified kubectl and a new namespace; skips, and says so, where there is no kubectl."""
    from kubewright.testing.kubectl import Kubectl, NoKubectl, find_kubectl

    real = request.param == "real"
    try:
        program = request.getfixturevalue("real_kubernetes").binaries.kubectl if real else find_kubectl()
    except NoKubectl as missing:
        pytest.skip(str(missing))
    kubeconfig = (
        request.getfixturevalue("real_kubernetes").kubeconfig if real else request.getfixturevalue("door")
    )
    home = tmp_path_factory.mktemp(f"home-{request.param}")

    def new() -> Kubectl:
        made = Kubectl(program, kubeconfig, home, request.param, f"k{next(_numbers)}")
        made("create", "namespace", made.namespace)
        return made

    return new


@pytest.fixture
def kubectl(new_kubectl: Callable[[], "Kubectl"]) -> "Kubectl":
    """The test's own."""
    return new_kubectl()
