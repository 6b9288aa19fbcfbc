"""Adds whole clusters to a simulated world: core, kubeadm bootstrap and infrastructure, over one cloud.

Theory.      The controllers are the product's own, of all three worlds. VMs boot from their bootstrap data;
             what runs ``kubeadm init`` becomes a control plane without sockets (``compose.api_servers``). A
             manager reaches it by the Cluster's kubeconfig, checked as at a socket
             (``compose.plane_controllers``), over the simulated network, so that a request outlives a manager
             that is killed. A write there is counted as any write is: the manager is killed after it too.
Invariants.  Control planes survive every kill of a manager. Their networks have no faults but delays, and
             those that a story asks for (``Networks.refuse``).
Called by    tests, as ``prepare`` of ``run.simulate``.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import count

from kubewright.base.clock import Clock
from kubewright.base.limits import REQUEST_SECONDS
from kubewright.bootstrap import world as bootstrap
from kubewright.bootstrap.seen import BootstrapSettings
from kubewright.clusters import world as clusters
from kubewright.clusters.sessions import Connect
from kubewright.compose.api_servers import Planes
from kubewright.compose.plane_transports import PlaneTransports
from kubewright.driver.contract import Driver
from kubewright.driver.guard import Listener
from kubewright.driver.life.orphans import OrphanSettings
from kubewright.infra import world as infra
from kubewright.infra.settings import InfraSettings
from kubewright.kube.access import Access
from kubewright.kube.errors import Disconnected, TransportError
from kubewright.kube.transport import Transport
from kubewright.machines.world import Half
from kubewright.pki.keys import Algorithm
from kubewright.runtime.world import Environment, Runnables
from kubewright.runtime.world import World as ApiWorld
from kubewright.wire.http import Request, Response
from simulation import resources
from simulation.clusterapi import provider
from simulation.journal import CONTROL, EVENTS, WORKLOAD
from simulation.loop import Process
from simulation.network import Host, Line
from simulation.requests import carried_out
from simulation.rules.memories import ClusterPast
from simulation.rules.table import OF_MACHINES, OF_WHOLE_CLUSTERS
from simulation.story import Realm
from simulation.world import World

DRIVER = "sim"
SETTINGS = BootstrapSettings(algorithm=Algorithm.EC)
VM_SETTINGS = InfraSettings(
    orphans=OrphanSettings(
        period=timedelta(seconds=20), confirmation=timedelta(seconds=15), soon=timedelta(seconds=5)
    )
)
"""So that a VM that no machine wants is gone within the minute that ``rules`` allow for it."""
REQUESTS_PER_VM = 100
"""What a VM of a cluster may cost: its Machine, its provider objects, and its share of the Cluster."""
REQUESTS_AT_START = 200
"""What a manager may send when it begins: a list and a watch of each kind, and what it does again."""


def install(world: World) -> None:
    """Let managers run all three worlds, and VMs boot from their data."""
    planes = Planes(world.clock("planes"))
    world.driver = world.driver.hosting(planes)
    networks = Networks(world, planes, Process(world.loop, "workload clusters"))
    world.add(planes)
    world.add(networks)
    made = (
        clusters.world(),
        bootstrap.world(),
        infra.world({}, DRIVER, _ignore, VM_SETTINGS),
    )
    world.managers.extra_worlds += [replace(each, controllers=()) for each in made]
    others = partial(provider.definitions, resources.OTHER_PROVIDERS)
    world.managers.extra_worlds.append(ApiWorld("foo", (), _no_controllers, definitions=others))
    world.managers.own_worlds = _worlds
    world.managers.connect = networks.connect
    for each in (*resources.CLUSTER_OBJECTS, *resources.GARBAGE_COLLECTED, resources.REPAIRS, EVENTS):
        world.journal.shown_as[each] = (each, dict)
        world.journal.objects[each] = {}
    world.control.host.on_answered.append(partial(carried_out, world.journal, CONTROL))
    vms: set[str] = set()
    world.journal.listen(lambda _write: vms.update(world.journal.vms))
    world.other_requests = lambda: (
        REQUESTS_AT_START * (1 + sum(world.counts.faults.values()) + world.counts.kills)
        + REQUESTS_PER_VM * len(vms)
    )


class Networks:
    """The networks between managers and workload clusters."""

    def __init__(self, world: World, planes: Planes, servers: Process) -> None:
        self._world = world
        self._transports = PlaneTransports(planes, _nowhere(servers))
        self._servers = servers
        self._numbers = count(1)
        self._hosts: list[Host] = []
        self._away = False

    def refuse(self) -> None:
        """From now on no manager reaches a workload cluster; all else does."""
        self._away = True
        for host in self._hosts:
            host.refuse()

    def admit(self) -> None:
        """Managers reach workload clusters again."""
        self._away = False
        for host in self._hosts:
            host.admit()

    def connect(self, client: Process) -> Connect:
        """How one manager reaches clusters."""
        return partial(self._reach, client)

    def _reach(self, client: Process, access: Access, clock: Clock) -> Transport:
        """The way of one manager to one cluster."""
        inside = self._transports(access, clock)

        async def handle(request: Request) -> Response:
            try:
                return await inside.request(request, timeout=REQUEST_SECONDS)
            except TransportError as error:
                raise Disconnected(str(error)) from None

        host = Host(WORKLOAD, self._world.clock(f"workload network {next(self._numbers)}"))
        host.on_answered += [self._world.tally.answered, partial(carried_out, self._world.journal, WORKLOAD)]
        host.up(self._servers, handle)
        self._hosts.append(host)
        if self._away:
            host.refuse()
        return Line(host, client)


def _nowhere(client: Process) -> Connect:
    """To clusters that are gone: nothing answers."""
    return lambda access, clock: Line(Host(access.server, clock), client)


def _worlds(_process: Process, driver: Driver) -> Sequence[ApiWorld]:
    core, boot = clusters.world(), bootstrap.world(SETTINGS)
    vms = infra.world({DRIVER: driver}, DRIVER, _ignore, VM_SETTINGS)
    return [_under(core, Half.SETS), _under(boot, Half.SETS), _under(vms, Half.MACHINES)]


def _under(world: ApiWorld, half: Half) -> ApiWorld:
    """Its controllers under one of the two Leases that the simulator knows."""
    return replace(world, controllers=[replace(each, lease=half) for each in world.controllers])


def _no_controllers(_environment: Environment, _chosen: Sequence[str]) -> Runnables:
    """Of a provider for which a story acts itself."""
    return Runnables(())


def _ignore(_name: str) -> Listener:
    """Calls are counted by the injector."""
    return lambda _ended: None


REALM = Realm(
    "whole clusters",
    install,
    rules=OF_WHOLE_CLUSTERS,
    memories=(ClusterPast,),
    rounds=("crash",),
    plans=True,
    harmed=False,
)
BESIDE_A_POOL = replace(
    REALM,
    rules=(*(rule for rule in OF_MACHINES if rule.name != "no_vm_without_a_machine"), *OF_WHOLE_CLUSTERS),
)
"""Where the rules of machines hold too, but for a VM that a user makes and no machine wants."""
