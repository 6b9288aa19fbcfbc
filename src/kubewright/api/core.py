"""Kubernetes' own kinds, as far as we read or write them.

Theory.      A type has the fields that one of our decisions needs, and no others: all other fields
             are skipped when reading, which keeps decoding in microseconds. Nothing is
             lost by it, because these objects are only ever patched. Only
             what we create ourselves (Leases, Events, token Secrets) is written as a whole.
Invariants.  ``NodeSpec`` and everything below it is complete, and so are addresses and conditions:
             a machine's template and status hold them, so their schema is part of our CRDs.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import UNSET, UnsetType, field

from kubewright.api.kinds import Kind, dynamic
from kubewright.api.meta import (
    ATOMIC,
    Condition,
    Int64,
    KubeObject,
    LabelSelector,
    Quantity,
    Time,
    Value,
    doc,
    visible_fraction,
    whole_seconds,
)
from kubewright.wire.gvk import Resource

NODE_READY = "Ready"
"""The condition by which a kubelet says whether its node runs pods."""


class Taint(Value, frozen=True, kw_only=True):
    """A mark on a node that keeps away pods that do not tolerate it."""

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


class NodeSwap(Value, frozen=True, kw_only=True):
    """The swap space of a machine."""

    capacity: Annotated[Int64 | None, doc("How many bytes it has.")] = None


class NodeSystemInfo(Value, frozen=True, kw_only=True, omit_defaults=False):
    """What a kubelet says about its machine, as it stands in the status of the Node.

    All fields are required, so those that the kubelet leaves empty are written too.
    """

    machine_id: Annotated[str, doc("The id of the machine, from /etc/machine-id.", required=True)] = field(
        default="", name="machineID"
    )
    system_uuid: Annotated[str, doc("The UUID that the firmware reports.", required=True)] = field(
        default="", name="systemUUID"
    )
    boot_id: Annotated[str, doc("The id of the current boot.", required=True)] = field(
        default="", name="bootID"
    )
    kernel_version: Annotated[str, doc("The version of the kernel.", required=True)] = ""
    os_image: Annotated[str, doc("The operating system and its version, for people.", required=True)] = ""
    container_runtime_version: Annotated[
        str, doc("The name and version of the container runtime.", required=True)
    ] = ""
    kubelet_version: Annotated[str, doc("The version of the kubelet.", required=True)] = ""
    kube_proxy_version: Annotated[str, doc("The version of kube-proxy.", required=True)] = ""
    operating_system: Annotated[str, doc("The operating system, such as linux.", required=True)] = ""
    architecture: Annotated[str, doc("The architecture, such as amd64.", required=True)] = ""
    swap: Annotated[NodeSwap | UnsetType, doc("The swap space of the machine.")] = UNSET


class NodeAddress(Value, frozen=True, kw_only=True):
    """One address of a node or VM."""

    type: Annotated[
        str, doc("Hostname, InternalIP, ExternalIP, InternalDNS or ExternalDNS.", required=True)
    ] = ""
    address: Annotated[str, doc("The address itself.", required=True)] = ""


class AttachedVolume(Value, frozen=True, kw_only=True):
    """A volume that is attached to a node."""

    name: Annotated[str, doc("The name of the volume.")] = ""


class NodeStatus(Value, frozen=True, kw_only=True):
    """What a node is."""

    capacity: Mapping[str, Quantity] = field(default_factory=dict)
    allocatable: Mapping[str, Quantity] = field(default_factory=dict)
    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()


class Node(KubeObject, frozen=True, kw_only=True):
    """A VM that has joined a cluster."""

    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)


NODE = Kind(Resource("", "v1", "nodes", "Node", namespaced=False, short_names=("no",)), Node)


MIRROR_POD_ANNOTATION = "kubernetes.io/config.mirror"
"""On a mirror Pod, which shows a static Pod of a kubelet: deleting it stops no container."""


class ClaimSource(Value, frozen=True, kw_only=True):
    """A volume of a PersistentVolumeClaim of the pod's namespace."""

    claim_name: str = ""


class Volume(Value, frozen=True, kw_only=True):
    """A volume of a pod; other kinds of volumes have no member."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None


class PodSpec(Value, frozen=True, kw_only=True):
    """What a pod should be."""

    node_name: str = ""
    priority: int = 0
    volumes: tuple[Volume, ...] = ()


class PodStatus(Value, frozen=True, kw_only=True):
    """What a pod is."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Pod(KubeObject, frozen=True, kw_only=True):
    """A running workload."""

    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)


class PodDisruptionBudgetSpec(Value, frozen=True, kw_only=True):
    """How many pods must stay."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class PodDisruptionBudgetStatus(Value, frozen=True, kw_only=True):
    """How many pods there are, and how many may go now."""

    observed_generation: int = 0
    disrupted_pods: Mapping[str, Time | None] = field(default_factory=dict)
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(KubeObject, frozen=True, kw_only=True):
    """A limit on voluntary evictions."""

    spec: PodDisruptionBudgetSpec = field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = field(default_factory=PodDisruptionBudgetStatus)


POD = Kind(Resource("", "v1", "pods", "Pod", short_names=("po",)), Pod)
PDB = Kind(
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short_names=("pdb",)),
    PodDisruptionBudget,
)


class Secret(KubeObject, frozen=True, kw_only=True):
    """Confidential bytes by key; base64 on the wire. Never log one."""

    type: str = ""
    data: Mapping[str, bytes] = field(default_factory=dict)
    immutable: bool = False

    def __repr__(self) -> str:
        return f"Secret({self.namespace}/{self.name}, keys={sorted(self.data)})"


class ConfigMap(KubeObject, frozen=True, kw_only=True):
    """Texts by key, and what is no text; no key is in both."""

    data: Mapping[str, str] = field(default_factory=dict)
    binary_data: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def entries(self) -> Mapping[str, bytes]:
        """All of it, as bytes."""
        return {**{key: text.encode() for key, text in self.data.items()}, **self.binary_data}


class NamespaceStatus(Value, frozen=True, kw_only=True):
    """How a namespace is."""

    phase: str = ""


class Namespace(KubeObject, frozen=True, kw_only=True):
    """A scope for the names of objects and for the rights of users."""

    status: NamespaceStatus = field(default_factory=NamespaceStatus)


SECRET = Kind(Resource("", "v1", "secrets", "Secret"), Secret)
SECRET_METADATA = Kind(SECRET.resource, KubeObject, pruned=True)
"""Secrets for those who need to know that there is one, and not what is in it."""
CONFIG_MAP = Kind(Resource("", "v1", "configmaps", "ConfigMap", short_names=("cm",)), ConfigMap)
NAMESPACE = Kind(
    Resource("", "v1", "namespaces", "Namespace", namespaced=False, short_names=("ns",)), Namespace
)


class ObjectReference(Value, frozen=True, kw_only=True):
    """The object that an event is about."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class EventSource(Value, frozen=True, kw_only=True):
    """The component that reports an event."""

    component: str = ""


class Event(KubeObject, frozen=True, kw_only=True):
    """Something that happened to an object (core ``v1``, the form that ``kubectl describe`` shows)."""

    involved_object: ObjectReference = field(default_factory=ObjectReference)
    reason: str = ""
    message: str = ""
    source: EventSource = field(default_factory=EventSource)
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None
    count: int = 0
    type: str = ""
    reporting_component: str = ""

    def __post_init__(self) -> None:
        whole_seconds(self, "first_timestamp", "last_timestamp")


class LeaseSpec(Value, frozen=True, kw_only=True):
    """The holder of a lease, and until when it holds it without renewing."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: Time | None = None
    renew_time: Time | None = None
    lease_transitions: int | None = None

    def __post_init__(self) -> None:
        visible_fraction(self, "acquire_time", "renew_time")


class Lease(KubeObject, frozen=True, kw_only=True):
    """A lock that expires."""

    spec: LeaseSpec = field(default_factory=LeaseSpec)


EVENT = Kind(Resource("", "v1", "events", "Event", short_names=("ev",)), Event)
LEASE = Kind(Resource("coordination.k8s.io", "v1", "leases", "Lease"), Lease)


class CustomResourceDefinition(KubeObject, frozen=True, kw_only=True):
    """A kind that was added to the API server. Its fields do not matter, only that it changed."""


CRD = Kind(
    Resource(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        namespaced=False,
        short_names=("crd", "crds"),
    ),
    CustomResourceDefinition,
)


CLUSTER_ROLE = dynamic(
    Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
)
