"""The world of ``machine.sapcloud.io``: its controllers, and how they are put together.

Theory.      MCM is two programs: one keeps deployments and sets, the other machines and what they need. Each
             elects its leader by a Lease of its own, and so do our two halves, by default with MCM's own
             names in the place where MCM would look: then MCM and Kubewright do not work on the same
             objects at once, whichever of MCM's two programs is replaced first.
Invariants.  Controllers of one term share what they know: those of sets one index of members, those of
             machines one set of ``Caches`` and one list of calls under way.
Source       mcm.md §10.4 for the Leases.
Called by    ``compose.worlds``.
"""

from collections.abc import Sequence
from enum import StrEnum

from kubewright.api.core import SECRET
from kubewright.api.machine import names
from kubewright.api.machine.crds import crds
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, MACHINE_DEPLOYMENT, MACHINE_SET
from kubewright.driver.capabilities import Background
from kubewright.driver.contract import Driver
from kubewright.driver.fence import Fenced, Listener
from kubewright.machines.deployment.world import MACHINE_DEPLOYMENTS
from kubewright.machines.machine import reconciler as machine
from kubewright.machines.machine.caches import Caches
from kubewright.machines.machine.settings import MachineSettings
from kubewright.machines.machineclass import reconciler as machineclass
from kubewright.machines.machineset.member import read
from kubewright.machines.machineset.world import MACHINE_SETS
from kubewright.machines.orphans import wiring as orphans
from kubewright.machines.orphans.settings import OrphanSettings
from kubewright.machines.parts import Parts
from kubewright.replicas.deployment.reconciler import Deployments
from kubewright.replicas.members import Members
from kubewright.replicas.set.reconciler import Sets
from kubewright.runtime.controller import Controller
from kubewright.runtime.group import Task
from kubewright.runtime.sessions.session import NAMELESS
from kubewright.runtime.world import Ground, Listed, Wired, World


class Half(StrEnum):
    """A half of the controllers; its value is the name of MCM's Lease for it."""

    SETS = names.SETS_LEASE
    MACHINES = names.MACHINES_LEASE


CONTROLLERS = (
    Listed("machinedeployment", "MachineDeployment", Half.SETS, "keeps sets, sizes them and rolls them out"),
    Listed("machineset", "MachineSet", Half.SETS, "keeps as many machines as a set says"),
    Listed("machine", "Machine", Half.MACHINES, "makes VMs, watches their nodes, drains and deletes them"),
    Listed("machineclass", "MachineClass", Half.MACHINES, "keeps classes while machines use them"),
    Listed("secret", "Secret", Half.MACHINES, "keeps secrets while classes use them"),
    Listed("orphanvms", "MachineClass", Half.MACHINES, "deletes VMs of a class that no machine wants"),
    Listed("orphannodes", "Node", Half.MACHINES, "marks nodes that no machine stands for"),
)


def world(driver: Driver, on_call: Listener, settings: MachineSettings, orphaned: OrphanSettings) -> World:
    """This world, with VMs in the cloud of ``driver``; ``on_call`` is told how each call to it ended."""

    def wire(ground: Ground, chosen: Sequence[str]) -> Wired:
        parts = Parts(
            control=ground.control.client,
            targets=ground.targets,
            control_caches=ground.control.caches,
            driver=Fenced(driver, ground.clock, on_end=on_call, entitled=ground.entitled),
            recorder=ground.recorder,
            clock=ground.clock,
            settings=settings,
            metrics=ground.metrics,
        )
        halves = {each.lease for each in CONTROLLERS if each.name in chosen}
        made = list(_sets(parts)) if Half.SETS in halves else []
        background: list[Task] = []
        if Half.MACHINES in halves:
            more, background = _machines(parts, driver, orphaned)
            made += more
        return Wired([each for each in made if each.name in chosen], background)

    return World(
        "machines",
        CONTROLLERS,
        wire,
        kinds=(MACHINE, MACHINE_SET, MACHINE_DEPLOYMENT, MACHINE_CLASS),
        told=(SECRET,),
        definitions=crds,
    )


def _sets(parts: Parts) -> tuple[Controller, Controller]:
    index = Members(parts.control_caches.get(MACHINE), read, parts.control.steady())
    deployments = Deployments(MACHINE_DEPLOYMENTS, parts.control_caches, parts.recorder, index=index)
    sets = Sets(MACHINE_SETS, parts.control_caches, parts.recorder, index=index)
    return deployments.controller(parts.metrics), sets.controller(parts.metrics)


def _machines(
    parts: Parts, driver: Driver, orphaned: OrphanSettings
) -> tuple[tuple[Controller, ...], list[Task]]:
    target = parts.targets.get(NAMELESS).caches
    caches = Caches(parts.control_caches, target)
    controller, calls = machine.wire(parts, caches)
    classes, secrets = machineclass.wire(parts, caches)
    vms, nodes = orphans.wire(parts, caches, orphaned, calls.busy)
    background: list[Task] = [calls.run]
    if isinstance(driver, Background):
        background.append(lambda: driver.run(target))
    return (controller, classes, secrets, vms, nodes), background
