"""Indexes that several controllers of this context look objects up by.

Invariants.  Each index is declared in one place, so that its name means the same in every controller.
Called by    the ``wire`` functions of the controllers.
"""

from collections.abc import Iterable
from typing import TypeVar

from kubewright.api.cluster.names import CONTROL_PLANE_LABEL
from kubewright.api.cluster.v1beta1 import Machine
from kubewright.clusters.owned import OfCluster, cluster_of
from kubewright.kube.informer import Informer

BY_CLUSTER = "cluster"
"""Objects by the ``namespace/name`` of their cluster."""

BY_CONTROL_PLANE_NODES = "nodes-of-control-plane"
"""Machines of a control plane that have a Node and are not being deleted, by their cluster."""

BY_CONTROL_PLANE = "active-machines-of-control-plane"
"""Machines of a control plane that are not being deleted, by their cluster."""

M = TypeVar("M", bound=OfCluster)


def index_by_cluster(informer: Informer[M]) -> None:
    """Declare ``BY_CLUSTER``."""
    informer.index(BY_CLUSTER, lambda found: (str(cluster_of(found)),))


def index_control_plane_nodes(machines: Informer[Machine]) -> None:
    """Declare ``BY_CONTROL_PLANE_NODES``."""
    machines.index(BY_CONTROL_PLANE_NODES, _control_plane_nodes)


def index_active_control_planes(machines: Informer[Machine]) -> None:
    """Declare ``BY_CONTROL_PLANE``."""
    machines.index(BY_CONTROL_PLANE, _active_control_planes)


def _active_control_planes(machine: Machine) -> Iterable[str]:
    if CONTROL_PLANE_LABEL in machine.metadata.labels and not machine.metadata.deleting:
        yield str(cluster_of(machine))


def _control_plane_nodes(machine: Machine) -> Iterable[str]:
    meta = machine.metadata
    counts = CONTROL_PLANE_LABEL in meta.labels and machine.status.node_ref is not None and not meta.deleting
    return (str(cluster_of(machine)),) if counts else ()
