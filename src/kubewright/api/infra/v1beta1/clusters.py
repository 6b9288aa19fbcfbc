"""KubewrightCluster: what the machines of one cluster have in common; and the template of such objects.

Invariants.  What another program must find here, and under which path, is the contract of Cluster API for
             infrastructure clusters: ``spec.controlPlaneEndpoint``, ``status.ready``, ``failureDomains``,
             ``failureReason``, ``failureMessage`` and the condition Ready (capi.md §3.2).
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import field

from kubewright.api.cluster.v1beta1.clusters import ApiEndpoint, FailureDomain
from kubewright.api.cluster.v1beta1.shared import (
    CONDITIONS,
    FAILURE_MESSAGE,
    FAILURE_REASON,
    OBSERVED_GENERATION,
    Condition,
)
from kubewright.api.infra.v1beta1.provision import Provision, resource
from kubewright.api.kinds import Kind
from kubewright.api.meta import PRESERVE, Int64, Json, KubeObject, ObjectMeta, Value, doc


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
