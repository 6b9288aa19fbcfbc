"""The world of ``cluster.x-k8s.io``: its controllers; ``wiring`` puts them together.

Theory.      All controllers of the core work under the Lease of Cluster API's own core, so the two never work
             on the same objects at once. MCM has Machines, MachineSets and MachineDeployments too, so the
             names of the controllers of these kinds begin with ``cluster`` here.
Called by    ``compose.worlds``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kubewright.api.cluster import manifests, names
from kubewright.api.cluster.manifests import crds
from kubewright.api.cluster.v1beta1 import (
    CLUSTER,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_HEALTH_CHECK,
    MACHINE_SET,
)
from kubewright.api.crd import crd
from kubewright.api.kinds import Kind
from kubewright.runtime.world import ControllerInfo, Environment, Runnables, World

if TYPE_CHECKING:
    from kubewright.clusters.sessions import Connect

CLUSTERS, MACHINES, MACHINE_SETS = "cluster", "clustermachine", "clustermachineset"
MACHINE_DEPLOYMENTS, HEALTH_CHECKS = "clustermachinedeployment", "machinehealthcheck"

CONTROLLERS = (
    ControllerInfo(
        CLUSTERS,
        "Cluster",
        names.CORE_LEASE,
        "gives providers their cluster, copies what they report, and deletes all of it in order",
    ),
    ControllerInfo(
        MACHINES,
        "Machine",
        names.CORE_LEASE,
        "gives providers their machine, follows its node, drains it and deletes all of it in order",
    ),
    ControllerInfo(
        MACHINE_DEPLOYMENTS,
        "MachineDeployment",
        names.CORE_LEASE,
        "keeps sets of a cluster's machines, sizes them and rolls them out",
    ),
    ControllerInfo(
        MACHINE_SETS,
        "MachineSet",
        names.CORE_LEASE,
        "clones templates and keeps as many machines as a set says",
    ),
    ControllerInfo(
        HEALTH_CHECKS,
        "MachineHealthCheck",
        names.CORE_LEASE,
        "watches the Nodes of machines, and lets their owners replace those that are unhealthy",
    ),
)

KINDS: Mapping[str, Kind[Any]] = {
    CLUSTERS: CLUSTER,
    MACHINES: MACHINE,
    MACHINE_DEPLOYMENTS: MACHINE_DEPLOYMENT,
    MACHINE_SETS: MACHINE_SET,
    HEALTH_CHECKS: MACHINE_HEALTH_CHECK,
}
"""The kind of each controller."""


def _definitions() -> Iterator[Mapping[str, Any]]:
    """Those of its kinds, and those that clusterctl looks for."""
    yield from crds()
    yield from map(crd, manifests.FOR_CLUSTERCTL)


def world(*, strict_running: bool = False, connect: "Connect | None" = None) -> World:
    """This world.

    ``strict_running``: the phase Running of a Machine asks for a Node that is Ready. ``connect``
    makes the transports to API servers that are asked what they verify by; None: over sockets.
    """

    def wire(environment: Environment, chosen: Sequence[str]) -> Runnables:
        from kubewright.clusters import wiring

        kinds = [KINDS[name] for name in KINDS if name in chosen]
        made = wiring.wire(environment, kinds, connect, strict_running=strict_running)
        return Runnables([each for each in made.controllers if each.name in chosen], made.background)

    return World(
        "clusters",
        CONTROLLERS,
        wire,
        kinds=tuple(KINDS.values()),
        definitions=_definitions,
        on_request=True,
        filter_label=names.WATCH_FILTER_LABEL,
        reaches_workloads=True,
    )
