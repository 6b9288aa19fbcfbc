"""KubewrightCluster, KubewrightMachine and their templates: what stands behind a Cluster and a Machine.

In reading order: what a driver is told, the cluster, the machine.

Continues    in ``names``, ``validate`` and ``manifests``.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import field

from kubewright.api.cluster.v1beta1 import (
    CONDITIONS,
    FAILURE_MESSAGE,
    FAILURE_REASON,
    OBSERVED_GENERATION,
    ApiEndpoint,
    Condition,
    FailureDomain,
)
from kubewright.api.core import NodeAddress
from kubewright.api.kinds import Kind
from kubewright.api.meta import (
    ATOMIC_MAP,
    PRESERVE,
    Int64,
    Json,
    KubeObject,
    ObjectMeta,
    Quantity,
    Value,
    doc,
)
from kubewright.wire.gvk import Resource

GROUP = "infrastructure.cluster.x-k8s.io"
VERSION = "v1beta1"


def resource(kind: str, short_name: str) -> Resource:
    """One of the four, as the API server serves it."""
    return Resource(GROUP, VERSION, f"{kind.lower()}s", kind, short_names=(short_name,))


class LocalSecretReference(Value, frozen=True, kw_only=True):
    """A Secret in the namespace of the object that names it."""

    name: Annotated[str, doc("The name of the Secret.", required=True)] = ""


class Provision(Value, frozen=True, kw_only=True):
    """What a driver is told. Its fields stand directly in the spec of a machine or a cluster."""

    driver: Annotated[
        str,
        doc("The driver's name; of a machine, its cluster's if empty. If both are empty: the program's own."),
    ] = ""
    provider_spec: Annotated[
        Mapping[str, Json],
        doc(
            "What the driver needs to make it, in the driver's own words; nothing else looks inside.",
            **PRESERVE,
        ),
    ] = field(default_factory=dict)
    credentials_ref: Annotated[
        LocalSecretReference | None,
        doc(
            "The Secret with the cloud's credentials, in the same namespace; of a machine, its cluster's if "
            "unset.",
            **ATOMIC_MAP,
        ),
    ] = None


class FailureDomainSpec(FailureDomain, frozen=True, kw_only=True):
    """A part of the cloud that fails alone, and what a driver is told about a machine in it."""

    provider_spec: Annotated[
        Mapping[str, Json],
        doc("Merged into the providerSpec of the machines that are placed here (RFC 7386).", **PRESERVE),
    ] = field(default_factory=dict)


class KubewrightClusterSpec(Provision, frozen=True, kw_only=True):
    """What the machines of a cluster have in common, and where its API server is reached."""

    control_plane_endpoint: Annotated[
        ApiEndpoint | None,
        doc("Where the API server is reached; when unset, the driver offers an endpoint, if it can."),
    ] = None
    failure_domains: Annotated[
        Mapping[str, FailureDomainSpec], doc("The failure domains that machines are spread over, by name.")
    ] = field(default_factory=dict)


class KubewrightClusterStatus(Value, frozen=True, kw_only=True):
    """Whether machines of the cluster can be made."""

    ready: Annotated[bool, doc("Whether machines of the cluster can be made.", default=False)] = False
    failure_domains: Annotated[
        Mapping[str, FailureDomain], doc("The failure domains that machines are spread over, by name.")
    ] = field(default_factory=dict)
    failure_reason: Annotated[str | None, doc(FAILURE_REASON)] = None
    failure_message: Annotated[str | None, doc(FAILURE_MESSAGE)] = None
    conditions: Annotated[tuple[Condition, ...], doc(CONDITIONS)] = ()
    observed_generation: Annotated[Int64, doc(OBSERVED_GENERATION)] = 0


class KubewrightCluster(KubeObject, frozen=True, kw_only=True):
    """What the machines of one cluster have in common: driver, credentials, failure domains, endpoint."""

    spec: Annotated[KubewrightClusterSpec, doc("What the cluster's infrastructure should be.")] = field(
        default_factory=KubewrightClusterSpec
    )
    status: Annotated[KubewrightClusterStatus, doc("What the cluster's infrastructure is.")] = field(
        default_factory=KubewrightClusterStatus
    )


class KubewrightClusterTemplateResource(Value, frozen=True, kw_only=True):
    """What a KubewrightCluster is made from."""

    metadata: Annotated[ObjectMeta, doc("Labels and annotations of the new object.", **PRESERVE)] = field(
        default_factory=ObjectMeta
    )
    spec: Annotated[KubewrightClusterSpec, doc("The spec of the new object.", required=True)] = field(
        default_factory=KubewrightClusterSpec
    )


class KubewrightClusterTemplateSpec(Value, frozen=True, kw_only=True):
    """What KubewrightClusters are made from."""

    template: Annotated[
        KubewrightClusterTemplateResource, doc("What a new KubewrightCluster looks like.", required=True)
    ] = field(default_factory=KubewrightClusterTemplateResource)


class KubewrightClusterTemplate(KubeObject, frozen=True, kw_only=True):
    """What KubewrightClusters of one sort are made from."""

    spec: Annotated[KubewrightClusterTemplateSpec, doc("What KubewrightClusters are made from.")] = field(
        default_factory=KubewrightClusterTemplateSpec
    )


KUBEWRIGHT_CLUSTER = Kind(resource("KubewrightCluster", "kwc"), KubewrightCluster)
KUBEWRIGHT_CLUSTER_TEMPLATE = Kind(resource("KubewrightClusterTemplate", "kwct"), KubewrightClusterTemplate)


class KubewrightMachineSpec(Provision, frozen=True, kw_only=True):
    """The VM as it should be."""

    provider_id: Annotated[
        str | None, doc("The cloud's id of the VM; written by the controller once the VM exists.")
    ] = field(default=None, name="providerID")
    failure_domain: Annotated[
        str | None,
        doc("Where the VM was placed; written by the controller, the Machine says where it should."),
    ] = None


class KubewrightMachineStatus(Value, frozen=True, kw_only=True):
    """The VM as it is."""

    ready: Annotated[bool, doc("Whether the VM exists and is complete.", default=False)] = False
    addresses: Annotated[tuple[NodeAddress, ...], doc("The addresses of the VM.")] = ()
    interruptible: Annotated[bool, doc("Whether the cloud may take the VM away at any time.")] = False
    node_name: Annotated[str, doc("The name by which the VM's kubelet registers its node.")] = ""
    last_known_state: Annotated[str, doc("A note that the driver left for its next call.")] = ""
    failure_reason: Annotated[str | None, doc(FAILURE_REASON)] = None
    failure_message: Annotated[str | None, doc(FAILURE_MESSAGE)] = None
    conditions: Annotated[tuple[Condition, ...], doc(CONDITIONS)] = ()
    observed_generation: Annotated[Int64, doc(OBSERVED_GENERATION)] = 0


class KubewrightMachine(KubeObject, frozen=True, kw_only=True):
    """The VM of one Machine of Cluster API, made by a driver."""

    spec: Annotated[KubewrightMachineSpec, doc("What the VM should be.")] = field(
        default_factory=KubewrightMachineSpec
    )
    status: Annotated[KubewrightMachineStatus, doc("What the VM is.")] = field(
        default_factory=KubewrightMachineStatus
    )


class KubewrightMachineTemplateResource(Value, frozen=True, kw_only=True):
    """What a KubewrightMachine is made from."""

    metadata: Annotated[ObjectMeta, doc("Labels and annotations of the new object.", **PRESERVE)] = field(
        default_factory=ObjectMeta
    )
    spec: Annotated[KubewrightMachineSpec, doc("The spec of the new object.", required=True)] = field(
        default_factory=KubewrightMachineSpec
    )


class KubewrightMachineTemplateSpec(Value, frozen=True, kw_only=True):
    """What KubewrightMachines are made from."""

    template: Annotated[
        KubewrightMachineTemplateResource,
        doc("What a new KubewrightMachine looks like. To change it, make another template.", required=True),
    ] = field(default_factory=KubewrightMachineTemplateResource)


class NodeInfo(Value, frozen=True, kw_only=True):
    """What is known of a node before there is one."""

    architecture: Annotated[str, doc("The architecture of its processor: amd64, arm64 and so on.")] = ""
    operating_system: Annotated[str, doc("Its operating system: linux or windows.")] = ""


class KubewrightMachineTemplateStatus(Value, frozen=True, kw_only=True):
    """What a machine of the template will offer, as far as the driver knows."""

    capacity: Annotated[Mapping[str, Quantity], doc("What its node will offer: cpu, memory and so on.")] = (
        field(default_factory=dict)
    )
    node_info: Annotated[NodeInfo | None, doc("What else is known of its node.")] = None
    conditions: Annotated[tuple[Condition, ...], doc(CONDITIONS)] = ()


class KubewrightMachineTemplate(KubeObject, frozen=True, kw_only=True):
    """What KubewrightMachines of one sort are made from."""

    spec: Annotated[KubewrightMachineTemplateSpec, doc("What KubewrightMachines are made from.")] = field(
        default_factory=KubewrightMachineTemplateSpec
    )
    status: Annotated[KubewrightMachineTemplateStatus, doc("What a machine of the template will offer.")] = (
        field(default_factory=KubewrightMachineTemplateStatus)
    )


KUBEWRIGHT_MACHINE = Kind(resource("KubewrightMachine", "kwm"), KubewrightMachine)
KUBEWRIGHT_MACHINE_TEMPLATE = Kind(resource("KubewrightMachineTemplate", "kwmt"), KubewrightMachineTemplate)
