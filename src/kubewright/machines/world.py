"""The world of ``machine.sapcloud.io``: its controllers; ``wiring`` puts them together.

Theory.      MCM is two programs: one keeps deployments and sets, the other machines and what they need. Each
             elects its leader by a Lease of its own, and so do our two halves, by default with MCM's own
             names in the place where MCM would look: then MCM and Kubewright do not work on the same
             objects at once, whichever of MCM's two programs is replaced first.
Called by    ``compose.worlds``.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from kubewright.api.core import SECRET
from kubewright.api.machine import names
from kubewright.api.machine.manifests import crds
from kubewright.api.machine.v1alpha1 import (
    MACHINE,
    MACHINE_CLASS,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
)
from kubewright.driver.contract import Driver
from kubewright.driver.guard import Listener
from kubewright.driver.life.orphans import OrphanSettings
from kubewright.machines.settings import MACHINE_TAINT, ROLLOUT_NODES, MachineSettings
from kubewright.runtime.controller import Controller
from kubewright.runtime.manager import Runnable
from kubewright.runtime.world import ControllerInfo, Environment, Runnables, World


class Half(StrEnum):
    """A half of the controllers; its value is the name of MCM's Lease for it."""

    SETS = names.SETS_LEASE
    MACHINES = names.MACHINES_LEASE


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
        from kubewright.machines import wiring

        halves = {each.lease for each in CONTROLLERS if each.name in chosen}
        environment.metrics.queues_as("mcm_")
        made: list[Controller] = []
        background: list[Runnable] = []
        if Half.SETS in halves:
            made += wiring.sets(environment, chosen, settings.sets)
        if Half.MACHINES in halves:
            machines = wiring.machines(environment, drivers, settings, orphaned, own=own, on_call=on_call)
            made += machines.controllers
            background += machines.background
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
