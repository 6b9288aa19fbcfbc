"""Nodes of workload clusters, as far as this context reads them. Pure.

Theory.      There may be thousands of clusters, and a Node is mostly a list of images, capacities and
             heartbeats. The kind is pruned: its caches keep the fields below, a tenth of a Node.
Invariants.  A Node with a providerID is in ``BY_PROVIDER_ID``.
Called by    ``clusters.world``; the controllers of Machines and of MachineHealthChecks.
"""

from collections.abc import Iterator

from msgspec import field

from kubewright.api.core import NODE, AttachedVolume, NodeCondition, NodeSpec, NodeSystemInfo
from kubewright.api.kinds import Kind
from kubewright.api.meta import KubeObject, Value

BY_PROVIDER_ID = "provider-id"


class ClusterNodeStatus(Value, frozen=True, kw_only=True):
    """What a Node is."""

    conditions: tuple[NodeCondition, ...] = ()
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


INDEXES = {BY_PROVIDER_ID: provider_ids}
"""What Nodes are found by."""
