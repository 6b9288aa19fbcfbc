"""The world of ``machine.sapcloud.io``: its controllers, and how they are put together.

Theory.      MCM is two programs: one keeps deployments and sets, the other machines and what they need. Each
             elects its leader by a Lease of its own, and so do our two halves, by default with MCM's own
             names in the place where MCM would look: then MCM and Kubewright do not work on the same
             objects at once, whichever of MCM's two programs is replaced first.
Invariants.  Controllers of one term share what they know: those of sets one index of members, those of
             machines one set of caches and one list of calls in flight.
Called by    ``compose.worlds``.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial

from kubewright.api.core import SECRET
from kubewright.api.machine import names
from kubewright.api.machine.manifests import crds
from kubewright.api.machine.v1alpha1 import (
    MACHINE,
    MACHINE_CLASS,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
)
from kubewright.driver.contract import Driver, Leading
from kubewright.driver.guard import Listener, guarded
from kubewright.driver.life.orphans import OrphanSettings
from kubewright.driver.registry import RoutedDriver
from kubewright.machines import machineclass
from kubewright.machines.caches import shared_of
from kubewright.machines.deployment import MACHINE_DEPLOYMENTS
from kubewright.machines.excess.wiring import MACHINE_TAINT, MachineTaints
from kubewright.machines.machine import wiring as machine
from kubewright.machines.machineset.member import read
from kubewright.machines.machineset.policy import LimitedMachineSets
from kubewright.machines.metrics import families
from kubewright.machines.migration import wiring as migration
from kubewright.machines.orphans import vms as orphans
from kubewright.machines.rolling.act import RollingNodes
from kubewright.machines.settings import MachineSettings, SetSettings
from kubewright.replicas.deployment.act import Deployments
from kubewright.replicas.members import MemberIndex
from kubewright.replicas.set.act import Sets
from kubewright.runtime.controller import Controller
from kubewright.runtime.manager import Runnable
from kubewright.runtime.metrics import register_families
from kubewright.runtime.sessions.session import NAMELESS
from kubewright.runtime.world import ControllerInfo, Environment, Runnables, World


class Half(StrEnum):
    """A half of the controllers; its value is the name of MCM's Lease for it."""

    SETS = names.SETS_LEASE
    MACHINES = names.MACHINES_LEASE


ROLLOUT_NODES = "rolloutnodes"

UNHEALTHY_MACHINES = "mcm_machine_stale_machines_total"
"""MCM's name of the family."""

CONTROLLERS = (
    ControllerInfo(
        "machinedeployment", "MachineDeployment", Half.SETS, "keeps sets, sizes them and rolls them out"
    ),
    ControllerInfo("machineset", "MachineSet", Half.SETS, "keeps as many machines as a set says"),
    ControllerInfo(
        ROLLOUT_NODES,
        "MachineDeployment",
        Half.SETS,
        "marks the nodes of deployments that roll out; with `machinedeployment`",
        follows="machinedeployment",
    ),
    ControllerInfo(
        MACHINE_TAINT,
        "MachineDeployment",
        Half.SETS,
        "keeps the newest machines of deployments with `excessReplicas` free; with `machinedeployment`",
        follows="machinedeployment",
    ),
    ControllerInfo(
        "machine", "Machine", Half.MACHINES, "makes VMs, watches their nodes, drains and deletes them"
    ),
    ControllerInfo("machineclass", "MachineClass", Half.MACHINES, "keeps classes while machines use them"),
    ControllerInfo("secret", "Secret", Half.MACHINES, "keeps secrets while classes use them"),
    ControllerInfo(
        "classacceptance", "MachineClass", Half.MACHINES, "says on a class whether its driver accepts it"
    ),
    ControllerInfo(
        "classmigration",
        "MachineClass",
        Half.MACHINES,
        "makes MachineClasses of classes of old kinds that its driver migrates",
    ),
    ControllerInfo(
        "orphanvms", "MachineClass", Half.MACHINES, "deletes VMs of a class that no machine wants"
    ),
    ControllerInfo("orphannodes", "Node", Half.MACHINES, "marks nodes that no machine stands for"),
)


def world(
    drivers: Mapping[str, Driver],
    own: str,
    on_call: Callable[[str], Listener],
    settings: MachineSettings,
    orphaned: OrphanSettings,
) -> World:
    """This world, with VMs in the clouds of these drivers, by name; ``own`` is for classes whose provider is
    none of these names. ``on_call`` makes what is told how each call to a driver ended, by its name.

    Without a driver only the controllers of sets can be wired.
    """

    def wire(environment: Environment, chosen: Sequence[str]) -> Runnables:
        # The controllers of a half share caches and calls, so all are made; only those chosen are run.
        halves = {each.lease for each in CONTROLLERS if each.name in chosen}
        environment.metrics.queues_as("mcm_")
        made = _sets(environment, chosen, settings.sets) if Half.SETS in halves else []
        background: list[Runnable] = []
        if Half.MACHINES in halves:
            assert drivers, "machines need a driver"
            behind = guarded(drivers, environment.clock, on_call, environment.entitled)
            routed = RoutedDriver(behind, own, strict=False)
            shared = shared_of(environment, routed, settings)
            controller, calls = machine.wire(shared)
            made += [controller, *machineclass.wire_in_use(shared), machineclass.wire(shared, routed)]
            made.append(migration.wire(shared, routed, controller.enqueue))
            made += orphans.wire(shared, orphaned, calls.busy)
            background += [calls.run, shared.removals.run]
            background += [each.lead for each in drivers.values() if isinstance(each, Leading)]
            register_families(
                environment.metrics, environment.control.caches, families(), [MACHINE], environment.shard
            )
        return Runnables([each for each in made if each.name in chosen], background)

    return World(
        "machines",
        CONTROLLERS,
        wire,
        kinds=(MACHINE, MACHINE_SET, MACHINE_DEPLOYMENT, MACHINE_CLASS),
        event_kinds=(SECRET,),
        definitions=crds,
        shards=True,
    )


def _sets(environment: Environment, chosen: Sequence[str], settings: SetSettings) -> list[Controller]:
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
        nodes = RollingNodes(
            deployments, environment.control.client, target, spare_nodes=settings.spare_nodes
        )
        made.append(nodes.controller(environment.clock, metrics))
    if MACHINE_TAINT in chosen:
        taints = MachineTaints(deployments, environment.control.client, recorder)
        made.append(taints.controller(environment.clock, metrics))
    return made
