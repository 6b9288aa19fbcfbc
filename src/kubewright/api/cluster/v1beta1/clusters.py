"""Cluster: one Kubernetes cluster, made of an infrastructure, a control plane and machines.

Invariants.  ``infrastructureReady`` and ``controlPlaneReady`` are None until a controller has written
             them: it always writes them, False too, since other programs wait for a value (capi.md
             appendix D).
Source       capi.md §2.3; seed 002.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import field

from kubewright.api.cluster.v1beta1.shared import (
    CONDITIONS,
    FAILURE_MESSAGE,
    FAILURE_REASON,
    OBSERVED_GENERATION,
    Condition,
    ObjectReference,
    reference,
    resource,
)
from kubewright.api.kinds import Kind
from kubewright.api.meta import PRESERVE, Int32, Int64, Json, KubeObject, Value, doc


class NetworkRanges(Value, frozen=True, kw_only=True):
    """Ranges of addresses."""

    cidr_blocks: Annotated[
        tuple[str, ...], doc("The ranges in CIDR notation, one for each IP family.", required=True)
    ] = ()


class ClusterNetwork(Value, frozen=True, kw_only=True):
    """The networks inside a cluster."""

    api_server_port: Annotated[
        Int32 | None, doc("The port on which the load balancer offers the API server; 6443 when unset.")
    ] = None
    services: Annotated[NetworkRanges | None, doc("Where the addresses of Services come from.")] = None
    pods: Annotated[NetworkRanges | None, doc("Where the addresses of Pods come from.")] = None
    service_domain: Annotated[str, doc("The DNS domain of Services.")] = ""


class ApiEndpoint(Value, frozen=True, kw_only=True):
    """Where the API server of a cluster is reached."""

    host: Annotated[str, doc("The host name or address.", required=True)] = ""
    port: Annotated[Int32, doc("The port.", required=True)] = 0

    @property
    def valid(self) -> bool:
        """Both parts are known."""
        return bool(self.host) and bool(self.port)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ClusterSpec(Value, frozen=True, kw_only=True):
    """What a cluster should be."""

    paused: Annotated[
        bool, doc("Stops all controllers for the cluster and everything that belongs to it.")
    ] = False
    cluster_network: Annotated[ClusterNetwork | None, doc("The networks inside the cluster.")] = None
    control_plane_endpoint: Annotated[
        ApiEndpoint | None,
        doc("Where the API server is reached; copied from the infrastructure if nothing else sets it."),
    ] = None
    control_plane_ref: Annotated[
        ObjectReference | None, reference("The object whose provider runs the control plane.")
    ] = None
    infrastructure_ref: Annotated[
        ObjectReference | None, reference("The object whose provider makes the cluster's infrastructure.")
    ] = None
    topology: Annotated[
        Mapping[str, Json] | None,
        doc("A topology made from a ClusterClass; not supported, and refused by validation.", **PRESERVE),
    ] = None


class FailureDomain(Value, frozen=True, kw_only=True):
    """A part of an infrastructure that fails by itself."""

    control_plane: Annotated[bool, doc("Whether machines of the control plane may be here.")] = False
    attributes: Annotated[Mapping[str, str], doc("What else the provider says about the domain.")] = field(
        default_factory=dict
    )


class ClusterStatus(Value, frozen=True, kw_only=True):
    """What a cluster is."""

    failure_domains: Annotated[
        Mapping[str, FailureDomain], doc("The failure domains by name, copied from the infrastructure.")
    ] = field(default_factory=dict)
    failure_reason: Annotated[str | None, doc(FAILURE_REASON)] = None
    failure_message: Annotated[str | None, doc(FAILURE_MESSAGE)] = None
    phase: Annotated[
        str, doc("For people: Pending, Provisioning, Provisioned, Deleting, Failed or Unknown.")
    ] = ""
    infrastructure_ready: Annotated[bool | None, doc("Whether the infrastructure is ready.")] = None
    control_plane_ready: Annotated[
        bool | None, doc("Whether the control plane is ready to receive requests.")
    ] = None
    conditions: Annotated[tuple[Condition, ...], doc(CONDITIONS)] = ()
    observed_generation: Annotated[Int64, doc(OBSERVED_GENERATION)] = 0


class Cluster(KubeObject, frozen=True, kw_only=True):
    """One Kubernetes cluster: an infrastructure, a control plane and machines."""

    spec: Annotated[ClusterSpec, doc("What the cluster should be.")] = field(default_factory=ClusterSpec)
    status: Annotated[ClusterStatus, doc("What the cluster is.")] = field(default_factory=ClusterStatus)


CLUSTER = Kind(resource("clusters", "Cluster", "cl"), Cluster, unread={"spec.paused": True})
"""A pause that cannot be read is one: who wrote it wanted that nothing is touched."""
