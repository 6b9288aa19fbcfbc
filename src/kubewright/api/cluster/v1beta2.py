"""The kinds of ``cluster.x-k8s.io/v1beta2``, field for field as upstream v1.14.2 serves them.

Theory.      As ``v1beta1``: names, types, bounds and rules are upstream's, the sentences ours. What may be
             unset and zero is a pointer upstream and ``| None`` here; all else is left out where it is empty,
             because the schema refuses an empty value. ``deprecated`` holds what only v1beta1 says, as long
             as that is served. Health checks have a room of their own (``health``).
Invariants.  Fields stand in the order of upstream's types: ``conversion`` writes them in that order.
Continues    in ``conversion``, which makes one version of the other, and ``manifests``.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import field

from kubewright.api.cluster.parts import (
    KIND_PATTERN,
    NAME_PATTERN,
    AvailabilityGate,
    Conditions,
    FailureDomain,
    MachineAddress,
    MachineDeletionStatus,
    MachineDrainRule,
    MachineNaming,
    MachineTaint,
    NodeReference,
    ReadinessGate,
    RemediationStrategy,
    ReplicaCounts,
    StatusVersion,
)
from kubewright.api.cluster.v1beta1 import (
    CONDITIONS,
    DELETE_POLICIES,
    FAILURE_MESSAGE,
    FAILURE_REASON,
    GROUP,
    OBSERVED_GENERATION,
    STRATEGIES,
)
from kubewright.api.cluster.v1beta1 import Condition as OldCondition
from kubewright.api.core import NodeSystemInfo
from kubewright.api.kinds import Kind
from kubewright.api.meta import (
    ATOMIC_MAP,
    PRESERVE,
    Int32,
    Int64,
    IntOrString,
    Json,
    KubeObject,
    LabelSelector,
    ObjectMeta,
    Time,
    Value,
    doc,
    extra_schema,
    keyed,
    text,
    whole_seconds,
    written,
)
from kubewright.wire.gvk import Resource

VERSION = "v1beta2"
API_VERSION = f"{GROUP}/{VERSION}"

OldConditions = Annotated[tuple[OldCondition, ...], doc(CONDITIONS)]
FailureReason = Annotated[str | None, doc(FAILURE_REASON)]
FailureMessage = Annotated[str | None, text(FAILURE_MESSAGE, 10240)]
NEVER_UNSET = written(0)
Generation = Annotated[Int64, doc(OBSERVED_GENERATION, minimum=1)]


def resource(plural: str, kind: str, *short_names: str) -> Resource:
    """One kind of the group, as the API server serves it."""
    return Resource(GROUP, VERSION, plural, kind, short_names=short_names)


class NetworkRanges(Value, frozen=True, kw_only=True):
    """Ranges of addresses."""

    cidr_blocks: Annotated[
        tuple[Annotated[str, extra_schema(maxLength=43, minLength=1)], ...],
        doc("The ranges in CIDR notation, one for each IP family.", required=True, maxItems=100, minItems=1),
    ] = ()


class ClusterNetwork(Value, frozen=True, kw_only=True):
    """The networks inside a cluster."""

    api_server_port: Annotated[
        Int32,
        doc(
            "The port on which the load balancer offers the API server; 6443 when unset.",
            maximum=65535,
            minimum=1,
        ),
    ] = 0
    services: Annotated[NetworkRanges, doc("Where the addresses of Services come from.")] = NetworkRanges()
    pods: Annotated[NetworkRanges, doc("Where the addresses of Pods come from.")] = NetworkRanges()
    service_domain: Annotated[str, text("The DNS domain of Services.", 253)] = ""


class ApiEndpoint(Value, frozen=True, kw_only=True):
    """Where the API server of a cluster is reached."""

    host: Annotated[str, text("The host name or address.", 512)] = ""
    port: Annotated[Int32, doc("The port.", maximum=65535, minimum=1)] = 0


class ObjectReference(Value, frozen=True, kw_only=True):
    """Another object of the same namespace; the contract says in which version it is read."""

    kind: Annotated[str, text("The kind of the object.", 63, required=True, pattern=KIND_PATTERN)] = ""
    name: Annotated[str, text("The name of the object.", 253, required=True, pattern=NAME_PATTERN)] = ""
    api_group: Annotated[
        str, text("The API group of the object.", 253, required=True, pattern=NAME_PATTERN)
    ] = ""


class ClusterSpec(Value, frozen=True, kw_only=True):
    """What a cluster should be."""

    paused: Annotated[
        bool | None, doc("Stops all controllers for the cluster and everything that belongs to it.")
    ] = None
    cluster_network: Annotated[ClusterNetwork, doc("The networks inside the cluster.", minProperties=1)] = (
        ClusterNetwork()
    )
    control_plane_endpoint: Annotated[
        ApiEndpoint,
        doc(
            "Where the API server is reached; copied from the infrastructure if nothing else sets it.",
            minProperties=1,
        ),
    ] = ApiEndpoint()
    control_plane_ref: Annotated[
        ObjectReference, doc("The object whose provider runs the control plane.")
    ] = ObjectReference()
    infrastructure_ref: Annotated[
        ObjectReference, doc("The object whose provider makes the cluster's infrastructure.")
    ] = ObjectReference()
    topology: Annotated[
        Mapping[str, Json],
        doc("A topology made from a ClusterClass; not supported, and refused by validation.", **PRESERVE),
    ] = field(default_factory=dict)
    availability_gates: Annotated[
        tuple[AvailabilityGate, ...],
        doc(
            "Further conditions that count into Available.", maxItems=32, minItems=1, **keyed("conditionType")
        ),
    ] = ()


class ClusterInitialization(Value, frozen=True, kw_only=True):
    """What has been reached once; it never goes back."""

    infrastructure_provisioned: Annotated[
        bool | None, doc("Whether the infrastructure has been complete.")
    ] = None
    control_plane_initialized: Annotated[
        bool | None, doc("Whether the control plane has answered requests.")
    ] = None


class ClusterV1Beta1(Value, frozen=True, kw_only=True):
    """What v1beta1 says of a cluster and v1beta2 does not."""

    conditions: OldConditions = ()
    failure_reason: FailureReason = None
    failure_message: FailureMessage = None


class ClusterDeprecated(Value, frozen=True, kw_only=True):
    """What goes when v1beta1 goes."""

    v1beta1: Annotated[ClusterV1Beta1 | None, doc("What v1beta1 says.")] = None


class ClusterStatus(Value, frozen=True, kw_only=True):
    """What a cluster is."""

    conditions: Conditions = ()
    initialization: Annotated[ClusterInitialization, doc("What has been reached once.", minProperties=1)] = (
        ClusterInitialization()
    )
    control_plane: Annotated[ReplicaCounts | None, doc("The machines of the control plane.")] = None
    workers: Annotated[ReplicaCounts | None, doc("The machines that are workers.")] = None
    failure_domains: Annotated[
        tuple[FailureDomain, ...],
        doc(
            "The failure domains, copied from the infrastructure.", maxItems=100, minItems=1, **keyed("name")
        ),
    ] = ()
    phase: Annotated[
        str,
        doc(
            "For people: Pending, Provisioning, Provisioned, Deleting, Failed or Unknown.",
            enum=["Pending", "Provisioning", "Provisioned", "Deleting", "Failed", "Unknown"],
        ),
    ] = ""
    observed_generation: Generation = 0
    deprecated: Annotated[ClusterDeprecated | None, doc("What goes when v1beta1 goes.")] = None


class Cluster(KubeObject, frozen=True, kw_only=True):
    """One Kubernetes cluster: an infrastructure, a control plane and machines."""

    spec: Annotated[ClusterSpec, doc("What the cluster should be.", required=True, minProperties=1)] = (
        ClusterSpec()
    )
    status: Annotated[ClusterStatus, doc("What the cluster is.", minProperties=1)] = ClusterStatus()


class Bootstrap(Value, frozen=True, kw_only=True):
    """Where the data comes from that turns a host into a Node when it boots."""

    config_ref: Annotated[ObjectReference, doc("The object whose provider makes the bootstrap data.")] = (
        ObjectReference()
    )
    data_secret_name: Annotated[
        str | None,
        text(
            "The Secret that has the bootstrap data under the key value; set it to bring your own. An empty "
            "name says that there is nothing to bootstrap.",
            253,
            least=0,
        ),
    ] = None


class MachineDeletion(Value, frozen=True, kw_only=True):
    """How long the steps of a deletion may take."""

    node_drain_timeout_seconds: Annotated[
        Int32 | None, doc("How long draining the Node may take; without a limit when 0 or unset.", minimum=0)
    ] = None
    node_volume_detach_timeout_seconds: Annotated[
        Int32 | None, doc("How long volumes may take to detach; without a limit when 0 or unset.", minimum=0)
    ] = None
    node_deletion_timeout_seconds: Annotated[
        Int32 | None,
        doc(
            "How long to try to delete the Node once the host is gone; 10 when unset, 0 is for ever.",
            minimum=0,
        ),
    ] = None


class MachineSpec(Value, frozen=True, kw_only=True):
    """What a machine should be."""

    cluster_name: Annotated[
        str, text("The cluster that the machine belongs to, in its namespace.", 63, required=True)
    ] = ""
    bootstrap: Annotated[
        Bootstrap, doc("Where the data comes from that turns the host into a Node.", required=True)
    ] = Bootstrap()
    infrastructure_ref: Annotated[
        ObjectReference, doc("The object whose provider makes the host.", required=True)
    ] = ObjectReference()
    version: Annotated[
        str, text("The version of Kubernetes, such as v1.30.0, for the bootstrap provider.", 256)
    ] = ""
    provider_id: Annotated[
        str, text("The cloud's id of the host, as its Node has it; copied from the infrastructure.", 512)
    ] = field(default="", name="providerID")
    failure_domain: Annotated[
        str, text("The failure domain in which the host should be: a name in the cluster's status.", 256)
    ] = ""
    min_ready_seconds: Annotated[
        Int32 | None,
        doc("How many seconds a machine must be ready before it counts as available.", minimum=0),
    ] = None
    readiness_gates: Annotated[
        tuple[ReadinessGate, ...],
        doc("Further conditions that count into Ready.", maxItems=32, minItems=1, **keyed("conditionType")),
    ] = ()
    deletion: Annotated[
        MachineDeletion, doc("How long the steps of a deletion may take.", minProperties=1)
    ] = MachineDeletion()
    taints: Annotated[
        tuple[MachineTaint, ...],
        doc("Taints that the Node gets.", maxItems=64, minItems=1, **keyed("key", "effect")),
    ] = ()


class MachineInitialization(Value, frozen=True, kw_only=True):
    """What has been reached once; it never goes back."""

    infrastructure_provisioned: Annotated[bool | None, doc("Whether the host has been complete.")] = None
    bootstrap_data_secret_created: Annotated[
        bool | None, doc("Whether the bootstrap data has been there.")
    ] = None


class MachineV1Beta1(Value, frozen=True, kw_only=True):
    """What v1beta1 says of a machine and v1beta2 does not."""

    conditions: OldConditions = ()
    failure_reason: FailureReason = None
    failure_message: FailureMessage = None


class MachineDeprecated(Value, frozen=True, kw_only=True):
    """What goes when v1beta1 goes."""

    v1beta1: Annotated[MachineV1Beta1 | None, doc("What v1beta1 says.")] = None


class MachineStatus(Value, frozen=True, kw_only=True):
    """What a machine is."""

    conditions: Conditions = ()
    initialization: Annotated[MachineInitialization, doc("What has been reached once.", minProperties=1)] = (
        MachineInitialization()
    )
    node_ref: Annotated[NodeReference, doc("The Node that the machine became.")] = NodeReference()
    node_info: Annotated[NodeSystemInfo | None, doc("What the kubelet says about its machine.")] = None
    last_updated: Annotated[Time | None, doc("When the phase last changed.")] = None
    addresses: Annotated[
        tuple[MachineAddress, ...],
        doc("The addresses of the host, copied from the infrastructure.", maxItems=256),
    ] = ()
    failure_domain: Annotated[str, text("The failure domain in which the host is.", 256)] = ""
    phase: Annotated[
        str,
        doc(
            "For people: Pending, Provisioning, Provisioned, Running, Updating, Deleting, Deleted, Failed or "
            "Unknown.",
            enum=[
                "Pending",
                "Provisioning",
                "Provisioned",
                "Running",
                "Updating",
                "Deleting",
                "Deleted",
                "Failed",
                "Unknown",
            ],
        ),
    ] = ""
    certificates_expiry_date: Annotated[
        Time | None, doc("When the certificates of a machine of the control plane expire.")
    ] = None
    observed_generation: Generation = 0
    deletion: Annotated[MachineDeletionStatus | None, doc("When the steps of a deletion began.")] = None
    deprecated: Annotated[MachineDeprecated | None, doc("What goes when v1beta1 goes.")] = None

    def __post_init__(self) -> None:
        whole_seconds(self, "last_updated", "certificates_expiry_date")


class Machine(KubeObject, frozen=True, kw_only=True):
    """One host that is, or will be, a Node of a cluster."""

    spec: Annotated[MachineSpec, doc("What the machine should be.", required=True)] = MachineSpec()
    status: Annotated[MachineStatus, doc("What the machine is.", minProperties=1)] = MachineStatus()


class MachineTemplateSpec(Value, frozen=True, kw_only=True):
    """What new machines look like."""

    metadata: Annotated[ObjectMeta, doc("Labels and annotations that new machines get.", minProperties=1)] = (
        ObjectMeta()
    )
    spec: Annotated[
        MachineSpec,
        doc("The spec of new machines; its references name templates, one clone for each.", required=True),
    ] = MachineSpec()


class SetDeletion(Value, frozen=True, kw_only=True):
    """Which machines are deleted first."""

    order: Annotated[
        str, doc("Which machines are deleted first; Random when unset.", enum=DELETE_POLICIES)
    ] = ""


class MachineSetSpec(Value, frozen=True, kw_only=True):
    """What a set should be."""

    cluster_name: Annotated[
        str, text("The cluster that the machines belong to, in their namespace.", 63, required=True)
    ] = ""
    replicas: Annotated[Int32 | None, doc("How many machines there should be; 1 when unset.")] = None
    selector: Annotated[
        LabelSelector,
        doc("Which machines belong; must match the template's labels.", required=True, **ATOMIC_MAP),
    ] = LabelSelector()
    template: Annotated[MachineTemplateSpec, doc("What new machines look like.", required=True)] = (
        MachineTemplateSpec()
    )
    machine_naming: Annotated[MachineNaming, doc("How new machines are named.", minProperties=1)] = (
        MachineNaming()
    )
    deletion: Annotated[SetDeletion, doc("Which machines are deleted first.", minProperties=1)] = (
        SetDeletion()
    )


class MachineSetV1Beta1(Value, frozen=True, kw_only=True):
    """What v1beta1 says of a set and v1beta2 does not."""

    conditions: OldConditions = ()
    failure_reason: FailureReason = None
    failure_message: FailureMessage = None
    fully_labeled_replicas: Annotated[
        Int32, doc("How many of them carry all labels of the template."), NEVER_UNSET
    ] = 0
    ready_replicas: Annotated[Int32, doc("How many of them have a Node that is ready."), NEVER_UNSET] = 0
    available_replicas: Annotated[
        Int32, doc("How many of them have had one for minReadySeconds."), NEVER_UNSET
    ] = 0


class MachineSetDeprecated(Value, frozen=True, kw_only=True):
    """What goes when v1beta1 goes."""

    v1beta1: Annotated[MachineSetV1Beta1 | None, doc("What v1beta1 says.")] = None


class MachineSetStatus(Value, frozen=True, kw_only=True):
    """What a set is."""

    conditions: Conditions = ()
    selector: Annotated[
        str, text("A selector of the machines, as text, for clients of the subresource scale.", 4096)
    ] = ""
    replicas: Annotated[Int32 | None, doc("How many machines belong to the set.")] = None
    ready_replicas: Annotated[Int32 | None, doc("How many of them are ready.")] = None
    available_replicas: Annotated[Int32 | None, doc("How many of them are available.")] = None
    up_to_date_replicas: Annotated[Int32 | None, doc("How many of them are up to date.")] = None
    versions: Annotated[
        tuple[StatusVersion, ...],
        doc(
            "The versions of Kubernetes that its machines have.", maxItems=100, minItems=1, **keyed("version")
        ),
    ] = ()
    observed_generation: Generation = 0
    deprecated: Annotated[MachineSetDeprecated | None, doc("What goes when v1beta1 goes.")] = None


class MachineSet(KubeObject, frozen=True, kw_only=True):
    """A number of machines that are alike."""

    spec: Annotated[MachineSetSpec, doc("What the set should be.", required=True)] = MachineSetSpec()
    status: Annotated[MachineSetStatus, doc("What the set is.", minProperties=1)] = MachineSetStatus()


class RollingUpdate(Value, frozen=True, kw_only=True):
    """How far a rollout may deviate from the wanted number of machines."""

    max_unavailable: Annotated[
        IntOrString | None,
        doc("How many machines may be missing; a percentage of replicas rounds down. 0 when unset."),
    ] = None
    max_surge: Annotated[
        IntOrString | None,
        doc("How many machines may be too many; a percentage of replicas rounds up. 1 when unset."),
    ] = None


class RolloutStrategy(Value, frozen=True, kw_only=True):
    """How old machines give way to new ones."""

    type: Annotated[
        str,
        doc(
            "RollingUpdate, or OnDelete: a machine is replaced when it is deleted.",
            required=True,
            enum=STRATEGIES,
        ),
    ] = ""
    rolling_update: Annotated[RollingUpdate, doc("The bounds of a RollingUpdate.", minProperties=1)] = (
        RollingUpdate()
    )


class Rollout(Value, frozen=True, kw_only=True):
    """When and how machines are replaced."""

    after: Annotated[
        Time | None, doc("Machines of sets from before this time are replaced once it has passed.")
    ] = None
    strategy: Annotated[RolloutStrategy, doc("How old machines give way to new ones.", minProperties=1)] = (
        RolloutStrategy()
    )

    def __post_init__(self) -> None:
        whole_seconds(self, "after")


class MachineDeploymentSpec(Value, frozen=True, kw_only=True):
    """What a deployment should be."""

    cluster_name: Annotated[
        str, text("The cluster that the machines belong to, in their namespace.", 63, required=True)
    ] = ""
    replicas: Annotated[Int32 | None, doc("How many machines there should be; 1 when unset.")] = None
    rollout: Annotated[Rollout, doc("When and how machines are replaced.", minProperties=1)] = Rollout()
    selector: Annotated[
        LabelSelector,
        doc("Which sets and machines belong; must match the template's labels.", required=True, **ATOMIC_MAP),
    ] = LabelSelector()
    template: Annotated[
        MachineTemplateSpec, doc("What new machines look like; a change rolls out.", required=True)
    ] = MachineTemplateSpec()
    machine_naming: Annotated[MachineNaming, doc("How new machines are named.", minProperties=1)] = (
        MachineNaming()
    )
    remediation: Annotated[
        RemediationStrategy, doc("How unhealthy machines are replaced.", minProperties=1)
    ] = RemediationStrategy()
    deletion: Annotated[SetDeletion, doc("Which machines the sets delete first.", minProperties=1)] = (
        SetDeletion()
    )
    paused: Annotated[bool | None, doc("Stops rollouts; scaling still works.")] = None


class MachineDeploymentV1Beta1(Value, frozen=True, kw_only=True):
    """What v1beta1 says of a deployment and v1beta2 does not."""

    conditions: OldConditions = ()
    updated_replicas: Annotated[Int32, doc("How many machines have the current template."), NEVER_UNSET] = 0
    ready_replicas: Annotated[Int32, doc("How many machines have a Node that is ready."), NEVER_UNSET] = 0
    available_replicas: Annotated[
        Int32, doc("How many machines have had one for minReadySeconds."), NEVER_UNSET
    ] = 0
    unavailable_replicas: Annotated[
        Int32, doc("How many are missing until all wanted machines are available."), NEVER_UNSET
    ] = 0


class MachineDeploymentDeprecated(Value, frozen=True, kw_only=True):
    """What goes when v1beta1 goes."""

    v1beta1: Annotated[MachineDeploymentV1Beta1 | None, doc("What v1beta1 says.")] = None


class MachineDeploymentStatus(Value, frozen=True, kw_only=True):
    """What a deployment is."""

    conditions: Conditions = ()
    observed_generation: Generation = 0
    selector: Annotated[
        str, text("A selector of the machines, as text, for clients of the subresource scale.", 4096)
    ] = ""
    replicas: Annotated[Int32 | None, doc("How many machines there are, in all sets.")] = None
    ready_replicas: Annotated[Int32 | None, doc("How many of them are ready.")] = None
    available_replicas: Annotated[Int32 | None, doc("How many of them are available.")] = None
    up_to_date_replicas: Annotated[Int32 | None, doc("How many of them are up to date.")] = None
    versions: Annotated[
        tuple[StatusVersion, ...],
        doc(
            "The versions of Kubernetes that its machines have.", maxItems=100, minItems=1, **keyed("version")
        ),
    ] = ()
    phase: Annotated[
        str,
        doc(
            "For people: ScalingUp, ScalingDown, Running, Failed or Unknown.",
            enum=["ScalingUp", "ScalingDown", "Running", "Failed", "Unknown"],
        ),
    ] = ""
    deprecated: Annotated[MachineDeploymentDeprecated | None, doc("What goes when v1beta1 goes.")] = None


class MachineDeployment(KubeObject, frozen=True, kw_only=True):
    """Machines that are alike, and the way from one template to the next."""

    spec: Annotated[MachineDeploymentSpec, doc("What the deployment should be.", required=True)] = (
        MachineDeploymentSpec()
    )
    status: Annotated[MachineDeploymentStatus, doc("What the deployment is.", minProperties=1)] = (
        MachineDeploymentStatus()
    )


CLUSTER = Kind(resource("clusters", "Cluster", "cl"), Cluster, unread={"spec.paused": True})
"""A pause that cannot be read is one: who wrote it wanted that nothing is touched."""
MACHINE = Kind(resource("machines", "Machine", "ma"), Machine)
MACHINE_SET = Kind(resource("machinesets", "MachineSet", "ms"), MachineSet)
MACHINE_DEPLOYMENT = Kind(resource("machinedeployments", "MachineDeployment", "md"), MachineDeployment)
MACHINE_DRAIN_RULE = Kind(resource("machinedrainrules", "MachineDrainRule"), MachineDrainRule)
