"""NestedControlPlane, its three components, its template and its users, and NestedCluster.

In reading order: what the kinds have in common, the components, the control plane with its template and
cluster, the users.

Continues    in ``snapshots`` (the kinds about its data), ``names``, ``validate`` and ``manifests``.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from msgspec import field

from kubewright.api.cluster.v1beta1 import (
    CONDITIONS,
    FAILURE_MESSAGE,
    OBSERVED_GENERATION,
    ApiEndpoint,
    Condition,
    ObjectReference,
    reference,
)
from kubewright.api.controlplane.names import StopBefore
from kubewright.api.kinds import Kind
from kubewright.api.meta import (
    ATOMIC,
    PRESERVE,
    Duration,
    Int32,
    Int64,
    Json,
    KubeObject,
    ObjectMeta,
    Quantity,
    Time,
    Value,
    doc,
    extra_schema,
)
from kubewright.wire.gvk import Resource

GROUP = "controlplane.cluster.x-k8s.io"
INFRASTRUCTURE_GROUP = "infrastructure.cluster.x-k8s.io"
VERSION = "v1alpha4"
API_VERSION = f"{GROUP}/{VERSION}"
CATEGORIES = ("capi", "capn")

Patch = Annotated[Mapping[str, Json], extra_schema(**PRESERVE)]


def resource(kind: str, *short_names: str, group: str = GROUP) -> Resource:
    """One of the kinds, as the API server serves it."""
    return Resource(group, VERSION, f"{kind.lower()}s", kind, short_names=short_names)


class ResourceRequirements(Value, frozen=True, kw_only=True):
    """The computing resources of each instance."""

    limits: Annotated[Mapping[str, Quantity], doc("The most that an instance may use, by resource.")] = field(
        default_factory=dict
    )
    requests: Annotated[Mapping[str, Quantity], doc("What an instance is certain to get, by resource.")] = (
        field(default_factory=dict)
    )


class KeyReference(Value, frozen=True, kw_only=True):
    """One entry of a Secret or a ConfigMap in the namespace of the object that names it."""

    name: Annotated[str, doc("The name of the Secret or ConfigMap.", required=True)] = ""
    key: Annotated[str, doc("The key of the entry.", required=True)] = ""


class ExtraFile(Value, frozen=True, kw_only=True):
    """A file that the component's program can read."""

    path: Annotated[
        str,
        doc("The file's path below the folder that flags call $(FILES_DIR).", required=True),
    ] = ""
    secret: Annotated[KeyReference | None, doc("The entry of a Secret that the file holds.")] = None
    config_map: Annotated[KeyReference | None, doc("The entry of a ConfigMap that the file holds.")] = None


class ComponentSpec(Value, frozen=True, kw_only=True):
    """What a component should be."""

    version: Annotated[
        str, doc("The exact version, such as 1.36.3; it counts where a channel is set too.")
    ] = ""
    channel: Annotated[
        str, doc("A name that stands for a version, such as stable; that one when neither is set.")
    ] = ""
    patches: Annotated[
        tuple[Patch, ...],
        doc(
            "Changes of what is rendered, in order: parts of an object with its apiVersion, kind and "
            "name, or a target with a patch.",
            **ATOMIC,
        ),
    ] = ()
    resources: Annotated[ResourceRequirements | None, doc("The computing resources of each instance.")] = None
    replicas: Annotated[Int32 | None, doc("How many instances there should be; 1 when unset.")] = None
    extra_args: Annotated[
        Mapping[str, str], doc("Flags of the program by name, without the leading dashes.")
    ] = field(default_factory=dict)
    without_args: Annotated[
        tuple[str, ...], doc("Names of flags of the template that the program is not given.", **ATOMIC)
    ] = ()
    extra_files: Annotated[
        tuple[ExtraFile, ...], doc("Files from Secrets and ConfigMaps, for flags to name.", **ATOMIC)
    ] = ()
    image: Annotated[str, doc("The container image, where the component runs in pods.")] = ""
    binary: Annotated[
        str,
        doc("The name of the program, where the component runs as a process: one that is offered there."),
    ] = ""


class ComponentStatus(Value, frozen=True, kw_only=True):
    """What a component is. ``healthy`` and ``errors`` are those of upstream's CommonStatus."""

    ready: Annotated[
        bool, doc("Whether all instances are ready, so that what depends on them can go on.")
    ] = False
    phase: Annotated[str, doc("For people: what the component is doing.")] = ""
    healthy: Annotated[bool, doc("Whether no probe fails and nothing is wrong.")] = False
    errors: Annotated[tuple[str, ...], doc("What is wrong now, a sentence each.", **ATOMIC)] = ()
    observed_generation: Annotated[Int64, doc(OBSERVED_GENERATION)] = 0
    version: Annotated[str, doc("The version that all instances have.")] = ""
    replicas: Annotated[Int32, doc("How many instances there are.")] = 0
    ready_replicas: Annotated[Int32, doc("How many instances are ready.")] = 0
    updated_replicas: Annotated[Int32, doc("How many instances are as the spec wants them.")] = 0
    selector: Annotated[str, doc("The label selector of the instances, for the scale subresource.")] = ""
    certificates: Annotated[
        Mapping[str, str],
        doc(
            "By names of Secrets: the first 16 digits of the SHA-256 of the tls.crt, or of the kubeconfig, "
            "with which all instances run."
        ),
    ] = field(default_factory=dict)
    conditions: Annotated[tuple[Condition, ...], doc(CONDITIONS)] = ()


class Reported(Value, frozen=True, kw_only=True):
    """What the status says of every object that one controller carries out."""

    conditions: Annotated[tuple[Condition, ...], doc(CONDITIONS)] = ()
    observed_generation: Annotated[Int64, doc(OBSERVED_GENERATION)] = 0


class Address(Value, frozen=True, kw_only=True):
    """Where a component is reached."""

    ip: Annotated[str, doc("The IP address.")] = ""
    hostname: Annotated[str, doc("The host name.")] = ""
    port: Annotated[Int32, doc("The port.")] = 0


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


DELETE, RETAIN = "Delete", "Retain"
_PLANE = "The NestedControlPlane, in the same namespace."


class Credential(StrEnum):
    """What a kubeconfig has to log in with."""

    TOKEN = "Token"
    """A token of a service account in the control plane that may only impersonate the user."""
    CERTIFICATE = "Certificate"
    """A client certificate with the name and the groups."""


class ControlPlaneUserSpec(Value, frozen=True, kw_only=True):
    """Who it is, where, and for how long."""

    control_plane_name: Annotated[
        str, doc("The NestedControlPlane, in the same namespace.", required=True)
    ] = ""
    user: Annotated[str, doc("The name of the user; that of this object when unset.")] = ""
    groups: Annotated[
        tuple[str, ...], doc("The groups of the user, one at least.", required=True, **ATOMIC)
    ] = ()
    lifetime: Annotated[
        Duration, doc("For how long a kubeconfig is good: from 10m to 168h, such as 8h; 24h when unset.")
    ] = ""
    credential: Annotated[
        str,
        doc(
            "Token (when unset): ends with this object, also in copies; the kubeconfig names the user in the "
            "fields as and as-groups, which the client has to know. Certificate: for clients that do not, "
            "and for an API server that the controllers cannot reach; a copy is good until it expires.",
            enum=[each.value for each in Credential],
        ),
    ] = ""
    privileged: Annotated[
        bool, doc("Whether names that begin with system: are meant, such as the group system:masters.")
    ] = False


class ControlPlaneUserStatus(Reported, frozen=True, kw_only=True):
    """What became of it."""

    ready: Annotated[bool, doc("Whether the kubeconfig is there and good.")] = False
    secret_name: Annotated[str, doc("The Secret with the kubeconfig, under the key value.")] = ""
    expires_at: Annotated[
        Time | None,
        doc("Until when the kubeconfig is good; one with a certificate is, also if this object is deleted."),
    ] = None


class ControlPlaneUser(KubeObject, frozen=True, kw_only=True):
    """One user of one control plane."""

    spec: Annotated[ControlPlaneUserSpec, doc("Who it is.", required=True)] = field(
        default_factory=ControlPlaneUserSpec
    )
    status: Annotated[ControlPlaneUserStatus, doc("What became of it.")] = field(
        default_factory=ControlPlaneUserStatus
    )


CONTROL_PLANE_USER = Kind(resource("ControlPlaneUser", "cpuser"), ControlPlaneUser)
