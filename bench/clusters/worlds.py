"""The worlds of clusters: who is the core and the bootstrap provider, and on which API server.

Theory.      ``ours`` and ``theirs`` differ in nothing but the programs under measurement: the server is the
             same, so is the infrastructure. Cluster API's managers have more workers and a higher rate than
             by default. In workload clusters they keep the rate of client-go, which no flag changes.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from bench import worlds
from bench.clusters.host import AGENT, READY
from bench.requests import OURS
from bench.worlds import PRODUCT, Server, World
from kubewright.api.catalog import crds
from kubewright.api.core import CRD
from kubewright.base.clock import Clock
from kubewright.bootstrap import world as bootstrap
from kubewright.clusters import world as clusters
from kubewright.pki.keys import Algorithm
from kubewright.testing.real_kubernetes import capi

CONTROLLERS = (*worlds.CONTROLLERS, "garbage-collector-controller")
"""Cluster API leaves Secrets to the garbage collector."""
HOST = "infrastructure and workload clusters"
TUNED = ("--kube-api-qps=1000", "--kube-api-burst=2000", "--v=0")
FLAGS: Mapping[str, tuple[str, ...]] = {
    capi.CORE: (
        *TUNED,
        "--feature-gates=MachinePool=false,ClusterResourceSet=false",
        "--cluster-concurrency=50",
        "--machine-concurrency=50",
        "--machineset-concurrency=50",
        "--machinedeployment-concurrency=50",
        "--clustercachetracker-concurrency=50",
    ),
    capi.BOOTSTRAP: (*TUNED, "--feature-gates=MachinePool=false", "--kubeadmconfig-concurrency=50"),
}


@dataclass(frozen=True, slots=True)
class Clusters:
    """A world of clusters.

    ``core``, ``bootstrap`` and ``infrastructure`` are clients of its server; in ``up`` one client is all of
    them. ``measured`` are the programs that are the core and the bootstrap provider. ``algorithm``: of the
    keys of the clusters' authorities.
    """

    world: World
    core: tuple[str, ...]
    bootstrap: tuple[str, ...]
    infrastructure: tuple[str, ...]
    measured: tuple[str, ...]
    algorithm: Algorithm = Algorithm.RSA


@asynccontextmanager
async def embedded(clock: Clock, algorithm: Algorithm = Algorithm.RSA) -> AsyncIterator[Clusters]:
    """``kubewright up``."""
    async with worlds.embedded(clock, "--encryption-algorithm", algorithm.value) as world:
        yield Clusters(world, (OURS,), (), (), (PRODUCT,), algorithm)


@asynccontextmanager
async def ours(clock: Clock, algorithm: Algorithm = Algorithm.RSA) -> AsyncIterator[Clusters]:
    """``kubewright run`` as core and bootstrap provider, on a real kube-apiserver."""
    leases = {each.lease for each in clusters.CONTROLLERS}, {each.lease for each in bootstrap.CONTROLLERS}
    core, provider = (tuple(f"{OURS}/{lease}" for lease in each) for each in leases)
    async with _hosted(clock) as server:
        words = ("run", "--kubeconfig", str(server.kubeconfig), "--controllers", "clusters,bootstrap",
                 "--encryption-algorithm", algorithm.value, "--log-level", "error")  # fmt: skip
        async with worlds.product(words) as pid:
            world = _world("Kubewright", server, {PRODUCT: pid})
            yield Clusters(world, (OURS, *core), provider, (AGENT,), (PRODUCT,), algorithm)


@asynccontextmanager
async def theirs(clock: Clock) -> AsyncIterator[Clusters]:
    """The managers of Cluster API, on a real kube-apiserver.

    Raises:
        NoClusterApi: this machine has not got them.
    """
    found = capi.find()
    async with _hosted(clock) as server, AsyncExitStack() as stack:
        pids = {}
        for name, path in ((capi.CORE, found.core), (capi.BOOTSTRAP, found.bootstrap)):
            program = await capi.start(path, server.kubeconfig, server.folder, clock, *FLAGS[name])
            stack.push_async_callback(program.stop)
            pids[name] = program.pid
        world = _world(f"Cluster API {capi.VERSION}", server, pids)
        yield Clusters(world, (capi.CORE,), (capi.BOOTSTRAP,), (AGENT,), tuple(pids))


def _world(name: str, server: Server, pids: Mapping[str, int]) -> World:
    return World(name, server.client, {**pids, **server.pids}, server.asked)


@asynccontextmanager
async def _hosted(clock: Clock) -> AsyncIterator[Server]:
    """A real server that has the CRDs, and the infrastructure on it."""
    async with worlds.server(clock, CONTROLLERS) as server:
        for definition in crds("clusters", "bootstrap", "infrastructure"):
            await server.client.create(CRD, definition)
        await clock.sleep(5.0)  # until discovery names the kinds: a Go manager asks it once, when it starts
        words = (str(server.kubeconfig),)
        async with worlds.product(words, module="bench.clusters.host", ready=READY.encode()) as pid:
            pids = {HOST: pid, **server.pids}
            yield Server(server.client, server.kubeconfig, server.folder, pids, server.asked)
