"""How whole clusters enter a simulation: core, kubeadm bootstrap and infrastructure, over one cloud.

Theory.      The controllers are the product's own, of all three worlds. VMs boot from their bootstrap data;
             what runs ``kubeadm init`` becomes a control plane without sockets (``compose.planes``). A
             manager reaches it by the Cluster's kubeconfig, checked as at a socket (``compose.shortcut``),
             over the simulated network, so that a request outlives a manager that is killed. A write there
             is counted as any write is: the manager is killed after it too.
Invariants.  Control planes survive every kill of a manager. Their networks have no faults but delays.
Called by    tests, as ``prepare`` of ``run.simulate``.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import count

from kubewright.api.bootstrap.v1beta1 import KUBEADM_CONFIG
from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE, MACHINE_DEPLOYMENT, MACHINE_SET
from kubewright.api.core import SECRET
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_CLUSTER, KUBEWRIGHT_MACHINE
from kubewright.base.clock import Clock
from kubewright.base.limits import REQUEST_SECONDS
from kubewright.bootstrap import world as bootstrap
from kubewright.bootstrap.seen import BootstrapSettings
from kubewright.clusters import world as clusters
from kubewright.clusters.sessions.workload import Connect, WorkloadClusters
from kubewright.compose.planes import Planes
from kubewright.compose.shortcut import Shortcut
from kubewright.driver.contract import Driver
from kubewright.infra import world as infra
from kubewright.infra.settings import InfraSettings
from kubewright.kube.access import Access
from kubewright.kube.errors import Disconnected, TransportError
from kubewright.kube.transport import Transport
from kubewright.machines.world import Half
from kubewright.pki.keys import Algorithm
from kubewright.runtime.world import Environment
from kubewright.runtime.world import World as ApiWorld
from kubewright.testing.simulation.journal import EVENTS
from kubewright.testing.simulation.loop import Process
from kubewright.testing.simulation.network import Host, Line
from kubewright.testing.simulation.world import World
from kubewright.wire.http import Request, Response

DRIVER = "sim"
CLUSTERS, MACHINES, SETS, DEPLOYMENTS, CONFIGS, INFRA_CLUSTERS, INFRA_MACHINES, SECRETS = (
    str(kind.resource)
    for kind in (
        CLUSTER,
        MACHINE,
        MACHINE_SET,
        MACHINE_DEPLOYMENT,
        KUBEADM_CONFIG,
        KUBEWRIGHT_CLUSTER,
        KUBEWRIGHT_MACHINE,
        SECRET,
    )
)
OBJECTS = (CLUSTERS, MACHINES, SETS, DEPLOYMENTS, CONFIGS, INFRA_CLUSTERS, INFRA_MACHINES)
"""The objects of a cluster, for rules and ends."""

SETTINGS = BootstrapSettings(algorithm=Algorithm.EC)
REQUESTS = 100
"""That a VM of a cluster may cost: its Machine, its provider objects, and its share of the Cluster."""
START = 200
"""That a manager may make when it begins: a list and a watch of each kind, and what it does again."""


def enter(world: World) -> None:
    """Let managers run all three worlds, and VMs boot from their data."""
    planes = Planes(world.clock("planes"))
    world.driver = world.driver.hosting(planes)
    servers = Process(world.loop, "workload clusters")
    made = (
        clusters.world(),
        bootstrap.world(_no_clusters),
        infra.world({}, DRIVER, _unheard, InfraSettings()),
    )
    world.managers.extra_worlds += [replace(each, controllers=()) for each in made]
    world.managers.own_worlds = partial(_worlds, Networks(world, planes, servers))
    for each in (*OBJECTS, SECRETS, EVENTS):
        world.journal.shown_as[each] = (each, dict)
        world.journal.objects[each] = {}
    vms: set[str] = set()
    world.journal.listen(lambda _step: vms.update(world.journal.vms))
    world.beside = lambda: (
        START * (1 + sum(world.counts.faults.values()) + world.counts.kills) + REQUESTS * len(vms)
    )


class Networks:
    """Between managers and workload clusters."""

    def __init__(self, world: World, planes: Planes, servers: Process) -> None:
        self._world = world
        self._shortcut = Shortcut(planes, _nowhere(servers))
        self._servers = servers
        self._numbers = count(1)

    def reach(self, client: Process, access: Access, clock: Clock) -> Transport:
        """The way of one manager to one cluster (``Connect``)."""
        inside = self._shortcut(access, clock)

        async def handle(request: Request) -> Response:
            try:
                return await inside.request(request, timeout=REQUEST_SECONDS)
            except TransportError as error:
                raise Disconnected(str(error)) from None

        host = Host("workload", self._world.clock(f"workload network {next(self._numbers)}"))
        host.on_answered.append(self._world.tally.answered)
        host.up(self._servers, handle)
        return Line(host, client)


def _nowhere(client: Process) -> Connect:
    """To clusters that are gone: nothing answers."""
    return lambda access, clock: Line(Host(access.server, clock), client)


def _worlds(networks: Networks, process: Process, driver: Driver) -> Sequence[ApiWorld]:
    connect: Connect = partial(networks.reach, process)
    core, boot = clusters.world(connect), bootstrap.world(partial(_workload_clusters, connect), SETTINGS)
    vms = infra.world({DRIVER: driver}, DRIVER, _unheard, InfraSettings())
    return [_under(core, Half.SETS), _under(boot, Half.SETS), _under(vms, Half.MACHINES)]


def _under(world: ApiWorld, half: Half) -> ApiWorld:
    """Its controllers under one of the two Leases that the simulator knows."""
    return replace(world, controllers=[replace(each, lease=half) for each in world.controllers])


def _workload_clusters(connect: Connect, environment: Environment) -> WorkloadClusters:
    return WorkloadClusters(environment.control, environment.entitled, connect=connect, nodes=False)


def _no_clusters(environment: Environment) -> WorkloadClusters:
    """For the list of definitions: it is never called."""
    return WorkloadClusters(environment.control, environment.entitled)


def _unheard(_ended: object) -> None:
    """Calls are counted by the injector."""
