"""Nodes for tests of workloads: hollow kubelets and a scheduler, brought to any server.

Theory.      Neither the embedded server nor the real kube-apiserver of the tests has nodes, kubelets or a
             scheduler. Here are VMs of the simulated cloud, their hollow kubelets, and the scheduler of
             ``builtin``.
Invariants.  Every wait has a deadline. The nodes are deleted at the end.
Called by    ``workloads``, and tests that run kubectl.
"""

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from kubewright import builtin
from kubewright.api.core import NODE, POD, Node
from kubewright.base.clock import SystemClock
from kubewright.builtin.scheduling.decide import REPELLING_EFFECTS
from kubewright.builtin.scheduling.facts import node_facts
from kubewright.driver.contract import stub
from kubewright.kube.client import Client
from kubewright.kube.config import load
from kubewright.kube.informer import Informer, Informers
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.driver import SimDriver
from kubewright.providers.sim.inventory import Store
from kubewright.providers.sim.spec import KubeletSettings
from kubewright.runtime.events import Recorder
from kubewright.runtime.manager import Work
from kubewright.testing.scenes import class_request
from kubewright.testing.servers import alone
from kubewright.testing.world import running
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

SECONDS = 30.0
"""Longest wait for something that is to happen at once."""

_numbers = itertools.count(1)


@asynccontextmanager
async def hollow_nodes(client: Client, number: int = 2) -> AsyncIterator[list[str]]:
    """Nodes with hollow kubelets and a scheduler, on any server; their names.

    Nodes that earlier tests left on the server have no kubelets any more; they are deleted first, or Pods
    would be placed on them.
    """
    for left in await client.list(NODE):
        with suppress(NotFound):
            await client.delete(NODE, Key("", left.name))
    clock, run = client.clock, next(_numbers)
    names = [f"hollow-{run}-{each}" for each in range(number)]
    driver = SimDriver(Cloud(clock, Store(None)), KubeletSettings(lease_seconds=8))
    for name in names:
        await driver.create(class_request("hollow", "default").of(stub(name, "default", name)))
    informers = Informers(client)
    recorder = Recorder(client, clock, "kubewright", kinds=(POD, NODE))
    scheduler = builtin.scheduler(informers, recorder=recorder)
    manager = alone(
        clock, Work([scheduler], [informers], [lambda: driver.run(informers)]), services=[recorder.run]
    )
    async with running(manager.run):
        try:
            await _may_be_used(client, informers.existing(NODE), names)
            yield names
        finally:
            for name in names:
                with suppress(NotFound):
                    await client.delete(NODE, Key("", name))
    await driver.close()


async def _may_be_used(client: Client, nodes: Informer[Node], names: Sequence[str]) -> None:
    """Wait until the scheduler's own cache says that Pods may go to all these nodes.

    A real cluster takes the taint ``not-ready`` off a node some time after the node is Ready.
    """
    deadline = client.clock.monotonic() + SECONDS
    while not all(map(_usable, map(nodes.get, [Key("", name) for name in names]))):
        assert client.clock.monotonic() < deadline, f"of {names} not all may be used: {nodes.list()}"
        await client.clock.sleep(0.05)


def _usable(node: Node | None) -> bool:
    facts = node_facts(node) if node is not None else None
    return (
        facts is not None
        and facts.ready
        and not any(each.effect in REPELLING_EFFECTS for each in facts.taints)
    )


@contextmanager
def nodes_behind(kubeconfig: Path) -> Iterator[None]:
    """``hollow_nodes`` in a thread with a loop of its own, for tests that run programs such as kubectl."""
    ready = threading.Event()
    ending: list[Callable[[], object]] = []

    async def serve() -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        ending.append(lambda: loop.call_soon_threadsafe(stop.set))
        client = Client(load(kubeconfig, clock=SystemClock()), SystemClock(), name="hollow")
        try:
            async with hollow_nodes(client):
                ready.set()
                await stop.wait()
        finally:
            await client.close()

    with ThreadPoolExecutor(1) as thread:
        work = thread.submit(asyncio.run, serve())
        try:
            if not ready.wait(SECONDS):
                raise TimeoutError("the hollow nodes did not start")
            yield
        finally:
            ending[0]()
            work.result(SECONDS)
