"""Node: a VM that has joined a cluster.

Invariants.  ``NodeSpec`` and everything below it is complete, and so are addresses and conditions:
             a machine's template and status hold them, so their schema is part of our CRDs.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import field

from kubewright.api.kinds import Kind
from kubewright.api.meta import (
    ATOMIC,
    KubeObject,
    Quantity,
    Time,
    Value,
    doc,
)
from kubewright.wire.gvk import Resource

NODE_READY = "Ready"
"""The condition by which a kubelet says whether its node runs pods."""


class Taint(Value, frozen=True, kw_only=True):
    """A mark on a node that keeps pods away which do not tolerate it."""

    key: Annotated[str, doc("The name of the taint.", required=True)] = ""
    value: Annotated[str, doc("The value of the taint.")] = ""
    effect: Annotated[str, doc("One of NoSchedule, PreferNoSchedule and NoExecute.", required=True)] = ""
    time_added: Annotated[Time | None, doc("When the taint was put on; only NoExecute taints have it.")] = (
        None
    )


class ConfigMapNodeConfigSource(Value, frozen=True, kw_only=True):
    """A ConfigMap that once could configure a kubelet."""

    kubelet_config_key: Annotated[
        str, doc("The key that holds the kubelet's configuration.", required=True)
    ] = ""
    name: Annotated[str, doc("The name of the ConfigMap.", required=True)] = ""
    namespace: Annotated[str, doc("The namespace of the ConfigMap.", required=True)] = ""
    resource_version: Annotated[str, doc("The resourceVersion of the ConfigMap; refused in a spec.")] = ""
    uid: Annotated[str, doc("The UID of the ConfigMap; refused in a spec.")] = ""


class NodeConfigSource(Value, frozen=True, kw_only=True):
    """Where a kubelet once could take its configuration from."""

    config_map: Annotated[ConfigMapNodeConfigSource | None, doc("A ConfigMap that holds it.")] = None


class NodeSpec(Value, frozen=True, kw_only=True):
    """What a node should be."""

    pod_cidr: Annotated[str, doc("The range that the node's pods take their addresses from.")] = field(
        default="", name="podCIDR"
    )
    pod_cidrs: Annotated[
        tuple[str, ...],
        doc(
            "The node's pod ranges, at most one each of IPv4 and IPv6; the first equals podCIDR.",
            **{"x-kubernetes-list-type": "set"},
        ),
    ] = field(default=(), name="podCIDRs")
    provider_id: Annotated[str, doc("The cloud's id of the VM: <provider>://<id>.")] = field(
        default="", name="providerID"
    )
    unschedulable: Annotated[bool, doc("Keeps new pods away; this is what cordon sets.")] = False
    taints: Annotated[tuple[Taint, ...], doc("The node's taints.", **ATOMIC)] = ()
    config_source: Annotated[NodeConfigSource | None, doc("No longer used by any kubelet.")] = None
    external_id: Annotated[str, doc("No longer used; old nodes may still have it.")] = field(
        default="", name="externalID"
    )


class NodeCondition(Value, frozen=True, kw_only=True):
    """One aspect of a node's state, as its kubelet or a controller sees it."""

    type: Annotated[str, doc("Which aspect: Ready, DiskPressure and so on.", required=True)] = ""
    status: Annotated[str, doc("True, False or Unknown.", required=True)] = ""
    last_heartbeat_time: Annotated[Time | None, doc("When the condition was last reported.")] = None
    last_transition_time: Annotated[Time | None, doc("When the status last changed.")] = None
    reason: Annotated[str, doc("Why, in one word.")] = ""
    message: Annotated[str, doc("Why, in a sentence for people.")] = ""


class NodeAddress(Value, frozen=True, kw_only=True):
    """One address of a node or VM."""

    type: Annotated[
        str, doc("Hostname, InternalIP, ExternalIP, InternalDNS or ExternalDNS.", required=True)
    ] = ""
    address: Annotated[str, doc("The address itself.", required=True)] = ""


class AttachedVolume(Value, frozen=True, kw_only=True):
    """A volume that is attached to a node."""

    name: str = ""
    device_path: str = ""


class NodeSystemInfo(Value, frozen=True, kw_only=True):
    """What a node's kubelet says about itself."""

    kubelet_version: str = ""


class NodeStatus(Value, frozen=True, kw_only=True):
    """What a node is."""

    capacity: Mapping[str, Quantity] = field(default_factory=dict)
    allocatable: Mapping[str, Quantity] = field(default_factory=dict)
    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()
    volumes_in_use: tuple[str, ...] = ()
    node_info: NodeSystemInfo = field(default_factory=NodeSystemInfo)


class Node(KubeObject, frozen=True, kw_only=True):
    """A VM that has joined a cluster."""

    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)


NODE = Kind(Resource("", "v1", "nodes", "Node", namespaced=False, short_names=("no",)), Node)
