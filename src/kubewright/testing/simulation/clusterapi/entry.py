"""How clusters and their provider enter a simulation.

Called by    tests, as ``prepare`` of ``run.simulate``.
"""

from collections.abc import Sequence
from dataclasses import replace

from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.clusters import world as clusters
from kubewright.machines.world import Half
from kubewright.runtime.world import ControllerInfo, Environment, Runnables
from kubewright.runtime.world import World as ApiWorld
from kubewright.testing.simulation.clusterapi.provider import DEPLOYMENT, SAYS, definitions, wire
from kubewright.testing.simulation.world import World

SHOWN = (str(CLUSTER.resource), *(str(kind.resource) for kind in (DEPLOYMENT, *SAYS)))
"""The resources that the journal holds for the rules."""

MADE = [
    ControllerInfo(kind.resource.kind.lower(), kind.resource.kind, Half.SETS, "is a provider")
    for kind in (*SAYS, DEPLOYMENT)
]


def enter(world: World) -> None:
    """Let managers run the controller of Clusters and the provider, under the Lease of sets."""
    core = clusters.world()
    (cluster,) = (each for each in core.controllers if each.name == "cluster")

    def wired(environment: Environment, _chosen: Sequence[str]) -> Runnables:
        return Runnables(wire(environment))

    world.managers.extra_worlds += [
        replace(core, controllers=[replace(cluster, lease=Half.SETS)]),
        ApiWorld("foo", MADE, wired, definitions=definitions),
    ]
    for each in SHOWN:
        world.journal.shown_as[each] = (each, dict)
        world.journal.objects[each] = {}
