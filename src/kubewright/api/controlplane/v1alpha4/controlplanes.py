"""NestedControlPlane, which names its components; its template; and NestedCluster.

Theory.      A NestedControlPlane owns the components that it names, and by this owner they find each other.
             It is also the control plane object of a Cluster: ``controlPlaneEndpoint``, ``replicas``,
             ``version`` and the status fields from ``externalManagedControlPlane`` on belong to Cluster API's
             contract. A NestedCluster is the infrastructure object of a Cluster that needs no infrastructure.
Invariants.  ``ready`` becomes true and false again with the components; ``initialized`` stays true once the
             API server has answered.
Source       seed 003, NestedControlPlaneSpec; nested.md A2, A10.
"""

from typing import Annotated

from msgspec import field

from kubewright.api.cluster.v1beta1.clusters import ApiEndpoint
from kubewright.api.cluster.v1beta1.shared import (
    CONDITIONS,
    FAILURE_MESSAGE,
    OBSERVED_GENERATION,
    Condition,
    ObjectReference,
    reference,
)
from kubewright.api.controlplane.names import StopBefore
from kubewright.api.controlplane.v1alpha4.components import (
    NestedAPIServerSpec,
    NestedControllerManagerSpec,
    NestedEtcdSpec,
)
from kubewright.api.controlplane.v1alpha4.shared import INFRASTRUCTURE_GROUP, Address, Reported, resource
from kubewright.api.kinds import Kind
from kubewright.api.meta import ATOMIC, PRESERVE, Int32, Int64, KubeObject, ObjectMeta, Time, Value, doc


class CertificateAuthorities(Value, frozen=True, kw_only=True):
    """When the authorities that the controllers made are replaced, and where that waits for a user."""

    rotate_after: Annotated[
        Time | None,
        doc("Authorities that were made before this moment are replaced by new ones, once it has come."),
    ] = None
    stop_before: Annotated[
        str,
        doc(
            "Signing: both authorities are trusted, and the old one signs, until this changes. Dropping: the "
            "new one signs, and the old one is still trusted, until this changes. Never: nothing waits. When "
            "unset: Signing where a Cluster owns the control plane, since its machines trust the old one "
            "alone; else Never.",
            enum=[each.value for each in StopBefore],
        ),
    ] = ""


class SleepSchedule(Value, frozen=True, kw_only=True):
    """When a control plane sleeps, and when it wakes."""

    sleep: Annotated[str, doc("When it goes to sleep, as five fields of cron, such as 0 20 * * 1-5.")] = ""
    wake: Annotated[str, doc("When it wakes, as five fields of cron, such as 0 7 * * 1-5.")] = ""
    time_zone: Annotated[
        str, doc("The time zone of both by its IANA name, such as Europe/Berlin; UTC when unset.")
    ] = ""


class NestedControlPlaneSpec(Value, frozen=True, kw_only=True):
    """The control plane as it should be."""

    etcd: Annotated[ObjectReference | None, reference("The NestedEtcd, in the same namespace.")] = None
    apiserver: Annotated[ObjectReference | None, reference("The NestedAPIServer, in the same namespace.")] = (
        None
    )
    controller_manager: Annotated[
        ObjectReference | None, reference("The NestedControllerManager, in the same namespace.")
    ] = None
    control_plane_endpoint: Annotated[
        ApiEndpoint | None,
        doc("Where the API server is reached; written by the controller unless it is set."),
    ] = None
    version: Annotated[
        str, doc("The version of Kubernetes of all components that name no version themselves.")
    ] = ""
    replicas: Annotated[
        Int32 | None, doc("How many instances of the API server there should be, where it does not say.")
    ] = None
    certificate_authorities: Annotated[
        CertificateAuthorities | None, doc("When certificate authorities are replaced.")
    ] = None
    template_name: Annotated[
        str,
        doc(
            "The NestedControlPlaneTemplate, in the same namespace, from which components are made that are "
            "not there."
        ),
    ] = ""
    asleep: Annotated[
        bool | None,
        doc("Whether it sleeps: no instance runs, and all data is kept. When unset, the schedule says it."),
    ] = None
    schedule: Annotated[
        tuple[SleepSchedule, ...],
        doc("When it sleeps and wakes; the last moment of all entries counts.", **ATOMIC),
    ] = ()


class EtcdStatus(Value, frozen=True, kw_only=True):
    """An etcd that no NestedEtcd stands for, or what the NestedEtcd says of it."""

    addresses: Annotated[tuple[Address, ...], doc("Where its members are reached.", **ATOMIC)] = ()


class ApiServerStatus(Value, frozen=True, kw_only=True):
    """What the API server and the controller manager have to agree on."""

    service_cidr: Annotated[str, doc("Where the addresses of Services come from.")] = field(
        default="", name="serviceCidr"
    )


class NestedControlPlaneStatus(Value, frozen=True, kw_only=True):
    """The control plane as it is."""

    etcd: Annotated[EtcdStatus | None, doc("Where etcd is reached.")] = None
    apiserver: Annotated[ApiServerStatus | None, doc("What components have to agree on.")] = None
    initialized: Annotated[bool, doc("Whether the API server has answered once.")] = False
    ready: Annotated[
        bool, doc("Whether all components that are named are ready.", required=True, default=False)
    ] = False
    failure_message: Annotated[str | None, doc(FAILURE_MESSAGE)] = None
    conditions: Annotated[tuple[Condition, ...], doc(CONDITIONS)] = ()
    external_managed_control_plane: Annotated[
        bool, doc("True, because no Machine and no Node stands for an instance.")
    ] = False
    version: Annotated[str, doc("The version of Kubernetes that the API server has.")] = ""
    replicas: Annotated[Int32, doc("How many instances of the API server there are.")] = 0
    ready_replicas: Annotated[Int32, doc("How many of them are ready.")] = 0
    updated_replicas: Annotated[Int32, doc("How many of them are as the spec wants them.")] = 0
    unavailable_replicas: Annotated[Int32, doc("How many of them are missing or not ready.")] = 0
    selector: Annotated[str, doc("The label selector of the instances, for the scale subresource.")] = ""
    asleep: Annotated[
        bool, doc("Whether it should sleep now: each component ends when the one that needs it has ended.")
    ] = False
    wakes_at: Annotated[Time | None, doc("When it wakes by its schedule, while it sleeps.")] = None
    sleeps_at: Annotated[Time | None, doc("When it sleeps by its schedule, while it is awake.")] = None
    observed_generation: Annotated[Int64, doc(OBSERVED_GENERATION)] = 0


class NestedControlPlane(KubeObject, frozen=True, kw_only=True):
    """One control plane: the components that belong together, and where clients reach it."""

    spec: Annotated[NestedControlPlaneSpec, doc("What the control plane should be.")] = field(
        default_factory=NestedControlPlaneSpec
    )
    status: Annotated[NestedControlPlaneStatus, doc("What the control plane is.")] = field(
        default_factory=NestedControlPlaneStatus
    )


class TemplateComponents(Value, frozen=True, kw_only=True):
    """The specs of components that a control plane is made of; one that is unset is not made."""

    etcd: Annotated[NestedEtcdSpec | None, doc("The spec of a new NestedEtcd.")] = None
    apiserver: Annotated[NestedAPIServerSpec | None, doc("The spec of a new NestedAPIServer.")] = None
    controller_manager: Annotated[
        NestedControllerManagerSpec | None, doc("The spec of a new NestedControllerManager.")
    ] = None


class NestedControlPlaneTemplateResource(Value, frozen=True, kw_only=True):
    """What a NestedControlPlane is made from."""

    metadata: Annotated[ObjectMeta, doc("Labels and annotations of the new object.", **PRESERVE)] = field(
        default_factory=ObjectMeta
    )
    spec: Annotated[NestedControlPlaneSpec, doc("The spec of the new object.", required=True)] = field(
        default_factory=NestedControlPlaneSpec
    )
    components: Annotated[
        TemplateComponents | None,
        doc("What components are made from, for control planes that name this template."),
    ] = None


class NestedControlPlaneTemplateSpec(Value, frozen=True, kw_only=True):
    """What NestedControlPlanes are made from."""

    template: Annotated[
        NestedControlPlaneTemplateResource, doc("What a new NestedControlPlane looks like.", required=True)
    ] = field(default_factory=NestedControlPlaneTemplateResource)


class NestedControlPlaneTemplate(KubeObject, frozen=True, kw_only=True):
    """What NestedControlPlanes of one sort are made from."""

    spec: Annotated[NestedControlPlaneTemplateSpec, doc("What NestedControlPlanes are made from.")] = field(
        default_factory=NestedControlPlaneTemplateSpec
    )


class NestedClusterSpec(Value, frozen=True, kw_only=True):
    """The infrastructure of a Cluster with a nested control plane."""

    control_plane_endpoint: Annotated[
        ApiEndpoint | None,
        doc("Where the API server is reached; copied from the control plane unless it is set."),
    ] = None


class NestedClusterStatus(Reported, frozen=True, kw_only=True):
    """Whether that infrastructure is there."""

    ready: Annotated[bool, doc("Whether machines can join the control plane.")] = False


class NestedCluster(KubeObject, frozen=True, kw_only=True):
    """The infrastructure of a Cluster whose control plane needs no machines."""

    spec: Annotated[NestedClusterSpec, doc("What the infrastructure should be.")] = field(
        default_factory=NestedClusterSpec
    )
    status: Annotated[NestedClusterStatus, doc("What the infrastructure is.")] = field(
        default_factory=NestedClusterStatus
    )


NESTED_CONTROL_PLANE = Kind(resource("NestedControlPlane", "ncp"), NestedControlPlane)
NESTED_CONTROL_PLANE_TEMPLATE = Kind(
    resource("NestedControlPlaneTemplate", "ncpt"), NestedControlPlaneTemplate
)
NESTED_CLUSTER = Kind(resource("NestedCluster", "nc", group=INFRASTRUCTURE_GROUP), NestedCluster)
