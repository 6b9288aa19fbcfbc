"""Adds nested control planes to a simulated world: the product's controllers, and the machine they run on.

Invariants.  The machine survives every kill of a manager. Keys are drawn by no seed, so the trace has no hash
             of a Secret, nor of objects whose status tells of one; all else is a function of the seed.
Called by    ``stories.run``, as ``prepare`` of ``run.simulate``.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE
from kubewright.api.core import SECRET
from kubewright.clusters import world as clusters
from kubewright.controlplanes import world as controlplanes
from kubewright.controlplanes.certificates.keeper import SecretKeeper
from kubewright.controlplanes.family import KINDS
from kubewright.controlplanes.hosting.hosts import Hosts
from kubewright.driver.contract import Driver
from kubewright.machines.world import Half
from kubewright.pki.keys import Algorithm
from kubewright.runtime.world import Environment, Runnables
from kubewright.runtime.world import World as ApiWorld
from kubewright.testing.simulation.clusterapi.whole.setup import record_write
from kubewright.testing.simulation.controlplanes.host import SimHost
from kubewright.testing.simulation.controlplanes.machine import HostMachine
from kubewright.testing.simulation.journal import CONTROL, HostCall
from kubewright.testing.simulation.loop import Process
from kubewright.testing.simulation.world import World

PLANES, SECRETS, CLUSTERS = (str(kind.resource) for kind in (NESTED_CONTROL_PLANE, SECRET, CLUSTER))
COMPONENTS = {component: str(kind.resource) for component, kind in KINDS.items()}
"""The resource of each component, as the journal has it."""
REQUESTS_AT_START = 150
"""Requests that a manager may send when it begins: lists and watches, and writes that it repeats."""
REQUESTS_PER_CALL = 40
"""Requests that may come with each call of a host: certificates, and the statuses of the four objects."""


def install(world: World) -> None:
    """Let managers run the controllers of control planes, on one machine."""
    machine = HostMachine(world)
    world.add(machine)
    nowhere = controlplanes.world(controlplanes.no_hosts, _keeper)
    made = (clusters.world(), nowhere)
    world.managers.extra_worlds += [replace(each, controllers=()) for each in made]
    world.managers.own_worlds = partial(_worlds, world, machine)
    for each in (PLANES, *COMPONENTS.values(), SECRETS, CLUSTERS):
        world.journal.shown_as[each] = (each, dict)
        world.journal.objects[each] = {}
    world.journal.drawn.update((SECRETS, PLANES, *COMPONENTS.values()))
    world.control.host.on_answered.append(partial(record_write, world, CONTROL))
    calls: list[HostCall] = []
    world.journal.listen(lambda step: calls.append(step) if isinstance(step, HostCall) else None)
    world.other_requests = lambda: (
        REQUESTS_AT_START * (1 + sum(world.counts.faults.values()) + world.counts.kills)
        + REQUESTS_PER_CALL * len(calls)
    )


def _worlds(world: World, machine: HostMachine, process: Process, _driver: Driver) -> Sequence[ApiWorld]:
    clock = world.clock(f"host of {process.name}")

    def wire(environment: Environment, chosen: Sequence[str]) -> Runnables:
        host = SimHost(world, machine, process.name, clock)
        core = controlplanes.world(lambda _environment: Hosts(programs=host), _keeper)
        made = core.wire(environment, chosen)
        return Runnables(made.controllers, [*made.background, host.run])

    core = controlplanes.world(controlplanes.no_hosts, _keeper)
    under = [replace(each, lease=Half.SETS) for each in core.controllers]
    return [replace(core, controllers=under, wire=wire, on_request=False)]


def _keeper(environment: Environment) -> SecretKeeper:
    return SecretKeeper(environment.control.caches, Algorithm.EC)
