"""The two servers that one suite runs against, each as an ``Api``.

Theory.      ``embedded_api`` is the embedded server with its built-in controllers, in this process
             and in memory, on the event loop's time. ``real_api`` is a ``RealKubernetes`` that runs
             already. What a test sees is the same.
             ``embedded_kubeconfig`` is for programs: the same server behind TLS, which kubectl can reach.
Called by    tests/conftest.py.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from kubewright import builtin
from kubewright.api.apps import DEPLOYMENT, REPLICA_SET
from kubewright.api.core import PDB
from kubewright.apiserver.http.authn import Authenticator
from kubewright.apiserver.http.connections import Connections
from kubewright.apiserver.http.kubeconfig import render
from kubewright.apiserver.http.listener import Listener
from kubewright.apiserver.http.pki import LIFETIME
from kubewright.apiserver.server import ApiServer
from kubewright.base.clock import Clock, SystemClock
from kubewright.kube.client import Client
from kubewright.kube.config import load
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess
from kubewright.pki.certificates import Identity, new_authority
from kubewright.runtime.events import Recorder
from kubewright.runtime.leader import Elector
from kubewright.runtime.manager import Group, Manager, Runnable, Settings, Work
from kubewright.testing import keys
from kubewright.testing.api import Api
from kubewright.testing.clocks import LoopClock
from kubewright.testing.real_kubernetes import RealKubernetes

START_SECONDS = 20.0


@asynccontextmanager
async def embedded_api(*, seed: int = 0, for_kubelets: bool = False) -> AsyncIterator[Api]:
    """A fresh embedded server with its built-in controllers; also with those that real kubelets need."""
    clock = LoopClock(seed=seed)
    authority = new_authority("kubewright", clock.now(), LIFETIME) if for_kubelets else None
    async with _served(clock, authority) as server:
        yield Api(InProcess(server.handle), clock, "embedded")


@asynccontextmanager
async def real_api(real_kubernetes: RealKubernetes) -> AsyncIterator[Api]:
    """A real kube-apiserver as its admin."""
    transport = load(real_kubernetes.kubeconfig)
    try:
        yield Api(transport, SystemClock(), "real")
    finally:
        await transport.close()


def alone(
    clock: Clock,
    work: Work,
    *,
    services: Sequence[Runnable] = (),
    elector: Elector | None = None,
    settings: Settings | None = None,
) -> Manager:
    """A manager of one group, which does ``work`` and ends when it loses its Lease."""
    group = Group("controllers", clock, lambda: work, elector=elector, again=False, settings=settings)
    return Manager(work.informers, [group], services=services)


@asynccontextmanager
async def _served(clock: Clock, authority: Identity | None = None) -> AsyncIterator[ApiServer]:
    """A server in memory with its built-in controllers."""
    server = ApiServer(clock)
    await server.start()
    informers = Informers(Client(InProcess(server.handle), clock, name="embedded"))
    recorder = Recorder(informers.client, clock, "kubewright", kinds=(PDB, DEPLOYMENT, REPLICA_SET))
    settings = builtin.Settings(run_apps=True, authority=authority)
    loops = builtin.controllers(informers, settings=settings, recorder=recorder)
    manager = alone(clock, Work(loops.controllers, [informers], loops.background), services=[recorder.run])
    stop = asyncio.Event()
    working = asyncio.create_task(manager.run(stop))
    try:
        yield server
    finally:
        stop.set()
        await working
        await server.close()


@contextmanager
def embedded_kubeconfig(folder: Path) -> Iterator[Path]:
    """An embedded server behind TLS, in a thread with a loop of its own, for programs such as kubectl.

    Yields the path of its kubeconfig.
    """
    path, ready = folder / "kubeconfig", threading.Event()
    ending: list[Callable[[], object]] = []

    async def serve() -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        ending.append(lambda: loop.call_soon_threadsafe(stop.set))
        async with _served(SystemClock()) as server:
            authority = keys.in_memory(SystemClock())
            authenticator = Authenticator(SystemClock(), server.user_of_token)
            listener = Listener(
                server.handle, authenticator, authority, connections=Connections(SystemClock())
            )
            await listener.start()
            path.write_bytes(render(listener.url, authority.authority, authority.admin))
            ready.set()
            await stop.wait()
            await listener.close()

    with ThreadPoolExecutor(1) as thread:
        work = thread.submit(asyncio.run, serve())
        try:
            if not ready.wait(START_SECONDS):
                raise TimeoutError("the embedded server did not start")
            yield path
        finally:
            ending[0]()
            work.result(START_SECONDS)
