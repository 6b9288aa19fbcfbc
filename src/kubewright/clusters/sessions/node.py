"""A Node of a workload cluster, with no more of it than the core reads; and how it is found.

Theory.      There may be thousands of clusters, and a Node is mostly a list of images, capacities and
             heartbeats. The kind is pruned: its caches keep the fields below, a tenth of a Node.
Invariants.  A Node with a providerID is in ``BY_PROVIDER_ID``; one that names its machine is in
             ``BY_MACHINE``, as ``namespace/name``.
Source       capi.md §6.5 (which fields), §5.1 (from a Node to its machine), §5.5 (its annotations).
Called by    ``clusters.world``; the machine and health check controllers.
"""

from collections.abc import Iterator
from typing import Annotated

from msgspec import field

from kubewright.api.cluster import names
from kubewright.api.cluster.v1beta1 import NodeSystemInfo
from kubewright.api.core import NODE, NodeAddress, NodeCondition, NodeSpec
from kubewright.api.kinds import Kind
from kubewright.api.meta import KubeObject, Value, doc

BY_PROVIDER_ID = "provider-id"
BY_MACHINE = "machine"


class AttachedVolume(Value, frozen=True, kw_only=True):
    """A volume that is attached to a Node."""

    name: Annotated[str, doc("The name of the volume.")] = ""


class ClusterNodeStatus(Value, frozen=True, kw_only=True):
    """What a Node is."""

    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    node_info: NodeSystemInfo = field(default_factory=NodeSystemInfo)
    volumes_attached: tuple[AttachedVolume, ...] = ()


class ClusterNode(KubeObject, frozen=True, kw_only=True):
    """A Node of a workload cluster."""

    spec: NodeSpec = field(default_factory=NodeSpec)
    status: ClusterNodeStatus = field(default_factory=ClusterNodeStatus)


CLUSTER_NODE = Kind(NODE.resource, ClusterNode, pruned=True)


def provider_ids(node: ClusterNode) -> Iterator[str]:
    """The value in ``BY_PROVIDER_ID``."""
    if node.spec.provider_id:
        yield node.spec.provider_id


def machines(node: ClusterNode) -> Iterator[str]:
    """The value in ``BY_MACHINE``."""
    annotations = node.metadata.annotations
    namespace = annotations.get(names.NODE_CLUSTER_NAMESPACE_ANNOTATION, "")
    name = annotations.get(names.NODE_MACHINE_ANNOTATION, "")
    if namespace and name:
        yield f"{namespace}/{name}"


INDEXES = {BY_PROVIDER_ID: provider_ids, BY_MACHINE: machines}
"""What Nodes are found by."""
