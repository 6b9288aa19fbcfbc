"""How the controllers of machine.sapcloud.io are put together, for one term: a function for each half.

Invariants.  Controllers of one term share what they know: those of sets one index of members, those of
             machines one set of caches and one list of calls in flight. So all of a half are made, and the
             world runs those that were chosen.
Called by    ``machines.world``, which is imported without it: a program that only lists controllers wires
             none.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_DEPLOYMENT, MACHINE_SET
from kubewright.driver.contract import Driver, Leading
from kubewright.driver.guard import Listener, guarded
from kubewright.driver.life.orphans import OrphanSettings
from kubewright.driver.registry import RoutedDriver
from kubewright.machines import machineclass
from kubewright.machines.caches import shared_of
from kubewright.machines.deployment import MACHINE_DEPLOYMENTS
from kubewright.machines.excess.wiring import MachineTaints
from kubewright.machines.machine import wiring as machine
from kubewright.machines.machineset.member import read
from kubewright.machines.machineset.policy import LimitedMachineSets
from kubewright.machines.metrics import families
from kubewright.machines.migration import wiring as migration
from kubewright.machines.orphans import vms as orphans
from kubewright.machines.rolling.act import RollingNodes
from kubewright.machines.settings import MACHINE_TAINT, ROLLOUT_NODES, MachineSettings, SetSettings
from kubewright.replicas.deployment.act import Deployments
from kubewright.replicas.members import MemberIndex
from kubewright.replicas.set.act import Sets
from kubewright.runtime.controller import Controller
from kubewright.runtime.metrics import register_families
from kubewright.runtime.sessions.session import NAMELESS
from kubewright.runtime.world import Environment, Runnables

UNHEALTHY_MACHINES = "mcm_machine_stale_machines_total"
"""MCM's name of the family."""


def sets(environment: Environment, chosen: Sequence[str], settings: SetSettings) -> list[Controller]:
    """The controllers of sets. The target cluster is watched only if nodes are marked."""
    caches, recorder, metrics = environment.control.caches, environment.recorder, environment.metrics
    reader = partial(read, at_once=not settings.min_ready)
    index = MemberIndex(caches.get(MACHINE), reader, environment.control.client.steady())
    deployments = Deployments(MACHINE_DEPLOYMENTS, caches, recorder, index=index)
    unhealthy = metrics.counter(
        UNHEALTHY_MACHINES, "Machines that were deleted because they failed for their health", ()
    )
    policy = LimitedMachineSets(settings, deployments.objects, index.owned_by, unhealthy.inc)
    sets = Sets(policy, caches, recorder, index=index)
    register_families(metrics, caches, families(), [MACHINE_SET, MACHINE_DEPLOYMENT], environment.shard)
    made = [deployments.controller(metrics), sets.controller(metrics)]
    if ROLLOUT_NODES in chosen:
        target = environment.targets.get(NAMELESS)
        client = environment.control.client
        nodes = RollingNodes(deployments, client, target, spare_nodes=settings.spare_nodes)
        made.append(nodes.controller(environment.clock, metrics))
    if MACHINE_TAINT in chosen:
        taints = MachineTaints(deployments, environment.control.client, recorder)
        made.append(taints.controller(environment.clock, metrics))
    return made


def machines(
    environment: Environment,
    drivers: Mapping[str, Driver],
    settings: MachineSettings,
    orphaned: OrphanSettings,
    *,
    own: str,
    on_call: Callable[[str], Listener],
) -> Runnables:
    """The controllers of machines, with VMs in the clouds of these drivers, and what runs beside them."""
    assert drivers, "machines need a driver"
    behind = guarded(drivers, environment.clock, on_call, environment.entitled)
    routed = RoutedDriver(behind, own, strict=False)
    shared = shared_of(environment, routed, settings)
    controller, calls = machine.wire(shared)
    made = [controller, *machineclass.wire_in_use(shared), machineclass.wire(shared, routed)]
    made.append(migration.wire(shared, routed, controller.enqueue))
    made += orphans.wire(shared, orphaned, calls.busy)
    caches, metrics = environment.control.caches, environment.metrics
    register_families(metrics, caches, families(), [MACHINE], environment.shard)
    leading = [each.lead for each in drivers.values() if isinstance(each, Leading)]
    return Runnables(made, [calls.run, shared.removals.run, *leading])
