"""NestedEtcd, NestedAPIServer, NestedControllerManager: the three components of a control plane.

Theory.      Each is created and changed independently of the others. A component reads of another only its
             status: the API server the addresses of etcd, the controller manager whether the API server is
             ready. So another program can replace one of our controllers: it writes that status, and our
             controllers of the other components read it (nested.md A15).
Source       seed 003, the three CRDs.
"""

from typing import Annotated

from msgspec import field

from kubewright.api.cluster.v1beta1.clusters import ApiEndpoint
from kubewright.api.cluster.v1beta1.shared import ObjectReference, reference
from kubewright.api.controlplane.v1alpha4.shared import (
    Address,
    ComponentSpec,
    ComponentStatus,
    resource,
)
from kubewright.api.kinds import Kind
from kubewright.api.meta import ATOMIC, KubeObject, doc


class NestedEtcdSpec(ComponentSpec, frozen=True, kw_only=True):
    """The etcd as it should be."""


class NestedEtcdStatus(ComponentStatus, frozen=True, kw_only=True):
    """The etcd as it is."""

    addresses: Annotated[tuple[Address, ...], doc("Where its members are reached.", **ATOMIC)] = ()


class NestedEtcd(KubeObject, frozen=True, kw_only=True):
    """The etcd of a control plane, whatever runs it."""

    spec: Annotated[NestedEtcdSpec, doc("What the etcd should be.")] = field(default_factory=NestedEtcdSpec)
    status: Annotated[NestedEtcdStatus, doc("What the etcd is.")] = field(default_factory=NestedEtcdStatus)


class NestedAPIServerSpec(ComponentSpec, frozen=True, kw_only=True):
    """The API server as it should be."""


class NestedAPIServerStatus(ComponentStatus, frozen=True, kw_only=True):
    """The API server as it is."""

    apiserver_service: Annotated[
        ObjectReference | None, reference("The Service by which the API server is reached, if there is one.")
    ] = None
    endpoint: Annotated[
        ApiEndpoint | None,
        doc("Where clients reach the API server; the control plane publishes it, unless it has one."),
    ] = None


class NestedAPIServer(KubeObject, frozen=True, kw_only=True):
    """The API server of a control plane, whatever runs it."""

    spec: Annotated[NestedAPIServerSpec, doc("What the API server should be.")] = field(
        default_factory=NestedAPIServerSpec
    )
    status: Annotated[NestedAPIServerStatus, doc("What the API server is.")] = field(
        default_factory=NestedAPIServerStatus
    )


class NestedControllerManagerSpec(ComponentSpec, frozen=True, kw_only=True):
    """The controller manager as it should be."""


class NestedControllerManagerStatus(ComponentStatus, frozen=True, kw_only=True):
    """The controller manager as it is."""


class NestedControllerManager(KubeObject, frozen=True, kw_only=True):
    """The controller manager of a control plane, whatever runs it."""

    spec: Annotated[NestedControllerManagerSpec, doc("What the controller manager should be.")] = field(
        default_factory=NestedControllerManagerSpec
    )
    status: Annotated[NestedControllerManagerStatus, doc("What the controller manager is.")] = field(
        default_factory=NestedControllerManagerStatus
    )


NESTED_ETCD = Kind(resource("NestedEtcd", "netcd"), NestedEtcd)
NESTED_API_SERVER = Kind(resource("NestedAPIServer", "nkas"), NestedAPIServer)
NESTED_CONTROLLER_MANAGER = Kind(resource("NestedControllerManager", "nkcm"), NestedControllerManager)
