"""Adds the controller of Clusters and a tiny provider to a simulated world.

Called by    tests, as ``prepare`` of ``run.simulate``.
"""

from collections.abc import Sequence
from dataclasses import replace

from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.clusters import world as clusters
from kubewright.machines.world import Half
from kubewright.runtime.world import ControllerInfo, Environment, Runnables
from kubewright.runtime.world import World as ApiWorld
from simulation.clusterapi.provider import DEPLOYMENT, WHEN_READY, definitions, wire
from simulation.rules.table import OF_CLUSTERS, OF_MACHINES
from simulation.story import Realm
from simulation.world import World

RESOURCES = (str(CLUSTER.resource), *(str(kind.resource) for kind in (DEPLOYMENT, *WHEN_READY)))
"""The resources that the journal holds for the rules."""

CONTROLLERS = [
    ControllerInfo(kind.resource.kind.lower(), kind.resource.kind, Half.SETS, "is a provider")
    for kind in (*WHEN_READY, DEPLOYMENT)
]
"""What the provider is to a manager: a world with a controller for each of its kinds."""


def install(world: World) -> None:
    """Let managers run the controller of Clusters and the provider, under the Lease of sets."""
    core = clusters.world()
    (cluster,) = (each for each in core.controllers if each.name == "cluster")

    def wired(environment: Environment, _chosen: Sequence[str]) -> Runnables:
        return Runnables(wire(environment))

    world.managers.extra_worlds += [
        replace(core, controllers=[replace(cluster, lease=Half.SETS)]),
        ApiWorld("foo", CONTROLLERS, wired, definitions=definitions),
    ]
    for each in RESOURCES:
        world.journal.shown_as[each] = (each, dict)
        world.journal.objects[each] = {}


REALM = Realm(
    "clusters", install, rules=(*OF_MACHINES, *OF_CLUSTERS), rounds=("crash", "late", "stale"), harmed=False
)
