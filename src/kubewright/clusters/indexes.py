"""Indexes that several controllers of this context look objects up by.

Theory.      An object belongs to the cluster that its spec names, whatever its labels say: one that a user
             created has no label until its controller adds it.
Invariants.  Each index is declared in one place, so that its name means the same in every controller.
Called by    the ``wire`` functions of the controllers.
"""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from kubewright.api.cluster.names import CONTROL_PLANE_LABEL
from kubewright.api.cluster.v1beta1 import Machine
from kubewright.api.meta import Object
from kubewright.kube.informer import Informer
from kubewright.wire.gvk import Key

BY_CLUSTER = "cluster"
"""Objects by the ``namespace/name`` of their cluster."""

BY_CONTROL_PLANE_NODES = "nodes-of-control-plane"
"""Machines of a control plane that have a Node and are not being deleted, by their cluster."""


class ClusterSpec(Protocol):
    """What the specs of all that belongs to a cluster have."""

    @property
    def cluster_name(self) -> str: ...


class OfCluster(Object, Protocol):
    """What belongs to a cluster."""

    @property
    def spec(self) -> ClusterSpec: ...


M = TypeVar("M", bound=OfCluster)


def cluster_of(found: OfCluster) -> Key:
    """The cluster of a Machine, or of what makes or checks machines."""
    return Key(found.metadata.namespace, found.spec.cluster_name)


def index_by_cluster(informer: Informer[M]) -> None:
    """Declare ``BY_CLUSTER``."""
    informer.index(BY_CLUSTER, lambda found: (str(cluster_of(found)),))


def index_control_plane_nodes(machines: Informer[Machine]) -> None:
    """Declare ``BY_CONTROL_PLANE_NODES``."""
    machines.index(BY_CONTROL_PLANE_NODES, _control_plane_nodes)


def _control_plane_nodes(machine: Machine) -> Iterable[str]:
    meta = machine.metadata
    counts = CONTROL_PLANE_LABEL in meta.labels and machine.status.node_ref is not None and not meta.deleting
    return (str(cluster_of(machine)),) if counts else ()
