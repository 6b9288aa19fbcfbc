"""The kinds of ``cluster.x-k8s.io/v1beta1``, field for field as upstream v1.7.1 serves them.

Theory.      Wire names, types and required fields equal those of Cluster API, because providers in Go,
             clusterctl and cluster-autoscaler read and write the same objects. The sentences are ours; the
             CRDs are made from them. Two fields differ: ``bootstrap.data`` of a machine is ours, and
             ``topology`` of a cluster has no schema, so that validation can say that it is not supported.
Invariants.  A pointer upstream is ``| None`` here where unset and zero mean different things.
Continues    in ``validate`` (and what an unset field means) and ``manifests``.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, field

from kubewright.api.cluster import names
from kubewright.api.cluster.names import DeletePolicy, StrategyType
from kubewright.api.cluster.parts import (
    STATUSES,
    AvailabilityGate,
    ClusterV1Beta2,
    MachineDeletionStatus,
    MachineDrainRule,
    MachineNaming,
    MachineTaint,
    ReadinessGate,
    ReasonOfHealth,
    RemediationStrategy,
    StatusConditions,
    StatusCounts,
    StatusVersion,
)
from kubewright.api.core import NodeAddress, NodeSystemInfo
from kubewright.api.kinds import Kind
from kubewright.api.meta import (
    ATOMIC_MAP,
    PRESERVE,
    Duration,
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
)
from kubewright.wire.gvk import Resource, split_api_version

GROUP = "cluster.x-k8s.io"
VERSION = "v1beta1"
API_VERSION = f"{GROUP}/{VERSION}"
CATEGORIES = ("cluster-api",)
CONTRACT_VERSIONS = {names.CONTRACT_LABEL: VERSION}
"""The label of CRDs that says which of their versions follow the contract."""

FAILURE_REASON = "Why the object has failed, as one word; providers write it."
FAILURE_MESSAGE = "Why the object has failed, in a sentence for people; providers write it."
OBSERVED_GENERATION = "The generation of the spec that this status is about."
CONDITIONS = "What is so and what is not, with reasons."
V1BETA2 = "What v1beta2 says beside: conditions without severity, and counters."
CLUSTER_PHASES = ["Pending", "Provisioning", "Provisioned", "Deleting", "Failed", "Unknown"]
MACHINE_PHASES = [*CLUSTER_PHASES[:3], "Running", "Deleting", "Deleted", "Failed", "Unknown"]
DEPLOYMENT_PHASES = ["ScalingUp", "ScalingDown", "Running", "Failed", "Unknown"]


def resource(plural: str, kind: str, *short_names: str) -> Resource:
    """One kind of the group, as the API server serves it."""
    return Resource(GROUP, VERSION, plural, kind, short_names=short_names)


class Condition(Value, frozen=True, kw_only=True):
    """One thing that is so, is not so, or is not known."""

    type: Annotated[
        str, text("What the condition is about, in CamelCase; Ready sums up the others.", 256, required=True)
    ] = ""
    status: Annotated[str, doc("True, False or Unknown.", required=True)] = ""
    severity: Annotated[
        str, text("How bad it is that the status is False: Error, Warning or Info.", 32, least=0)
    ] = ""
    last_transition_time: Annotated[
        Time | None, doc("When any of the others last changed.", required=True)
    ] = None
    reason: Annotated[str, text("Why the condition has this status, as one word in CamelCase.", 256)] = ""
    message: Annotated[str, text("Why the condition has this status, in a sentence for people.", 10240)] = ""

    def __post_init__(self) -> None:
        whole_seconds(self, "last_transition_time")


Conditions = Annotated[tuple[Condition, ...], doc(CONDITIONS)]
FailureReason = Annotated[str | None, doc(FAILURE_REASON)]
FailureMessage = Annotated[str | None, text(FAILURE_MESSAGE, 10240)]
ClusterName = Annotated[
    str, text("The cluster that the machines belong to, in their namespace.", 63, required=True)
]
MinReady = Annotated[
    Int32, doc("How many seconds a Node must be ready before its machine counts as available.")
]
SelectorText = Annotated[
    str, text("A selector of the machines, as text, for clients of the subresource scale.", 4096)
]


class ObjectReference(Value, frozen=True, kw_only=True):
    """Another object, by kind and name."""

    api_version: Annotated[str, doc("The group and version of the object.")] = ""
    kind: Annotated[str, doc("The kind of the object.")] = ""
    namespace: Annotated[str, doc("The namespace of the object.")] = ""
    name: Annotated[str, doc("The name of the object.")] = ""
    uid: Annotated[str, doc("The uid of the object.")] = ""
    resource_version: Annotated[str, doc("The version of the object that is meant; not used.")] = ""
    field_path: Annotated[str, doc("The part of the object that is meant; not used.")] = ""

    @property
    def group(self) -> str:
        """The API group of the object."""
        return split_api_version(self.api_version)[0]

    @property
    def group_kind(self) -> str:
        """``Kind.group``, as an annotation of a clone names its template."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


def reference(text: str, *, required: bool = False) -> Meta:
    """``doc`` of a field that holds an ``ObjectReference``."""
    return doc(text, required=required, **ATOMIC_MAP)


class NetworkRanges(Value, frozen=True, kw_only=True):
    """Ranges of addresses."""

    cidr_blocks: Annotated[
        tuple[Annotated[str, extra_schema(maxLength=43, minLength=1)], ...],
        doc("The ranges in CIDR notation, one for each IP family.", required=True, maxItems=100),
    ] = ()


class ClusterNetwork(Value, frozen=True, kw_only=True):
    """The networks inside a cluster."""

    api_server_port: Annotated[
        Int32 | None, doc("The port on which the load balancer offers the API server; 6443 when unset.")
    ] = None
    services: Annotated[NetworkRanges | None, doc("Where the addresses of Services come from.")] = None
    pods: Annotated[NetworkRanges | None, doc("Where the addresses of Pods come from.")] = None
    service_domain: Annotated[str, text("The DNS domain of Services.", 253)] = ""


class ApiEndpoint(Value, frozen=True, kw_only=True):
    """Where the API server of a cluster is reached."""

    host: Annotated[str, text("The host name or address.", 512, least=0)] = ""
    port: Annotated[Int32, doc("The port.")] = 0

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
    availability_gates: Annotated[
        tuple[AvailabilityGate, ...],
        doc("Further conditions that count into Available.", maxItems=32, **keyed("conditionType")),
    ] = ()


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
    failure_reason: FailureReason = None
    failure_message: FailureMessage = None
    phase: Annotated[str, doc("What the cluster is about, in one word for people.", enum=CLUSTER_PHASES)] = ""
    infrastructure_ready: Annotated[bool | None, doc("Whether the infrastructure is ready.")] = None
    control_plane_ready: Annotated[
        bool | None, doc("Whether the control plane is ready to receive requests.")
    ] = None
    conditions: Conditions = ()
    observed_generation: Annotated[Int64, doc(OBSERVED_GENERATION)] = 0
    v1beta2: Annotated[ClusterV1Beta2 | None, doc(V1BETA2)] = None


class Cluster(KubeObject, frozen=True, kw_only=True):
    """One Kubernetes cluster: an infrastructure, a control plane and machines."""

    spec: Annotated[ClusterSpec, doc("What the cluster should be.")] = field(default_factory=ClusterSpec)
    status: Annotated[ClusterStatus, doc("What the cluster is.")] = field(default_factory=ClusterStatus)


CLUSTER = Kind(resource("clusters", "Cluster", "cl"), Cluster, unread={"spec.paused": True})
"""A pause that cannot be read is one: who wrote it wanted that nothing is touched."""


class Bootstrap(Value, frozen=True, kw_only=True):
    """Where the data comes from that turns a host into a Node when it boots."""

    config_ref: Annotated[
        ObjectReference | None, reference("The object whose provider makes the bootstrap data.")
    ] = None
    data_secret_name: Annotated[
        str | None,
        text("The Secret with the data in its key value; empty: nothing to bootstrap.", 253, least=0),
    ] = None
    data: Annotated[
        str | None,
        doc("The bootstrap data itself, as of v1alpha2. It is moved into a Secret of the machine's own."),
    ] = None


class MachineSpec(Value, frozen=True, kw_only=True):
    """What a machine should be."""

    cluster_name: Annotated[
        str, text("The cluster that the machine belongs to, in its namespace.", 63, required=True)
    ] = ""
    bootstrap: Annotated[
        Bootstrap, doc("Where the data comes from that turns the host into a Node.", required=True)
    ] = field(default_factory=Bootstrap)
    infrastructure_ref: Annotated[
        ObjectReference, reference("The object whose provider makes the host.", required=True)
    ] = field(default_factory=ObjectReference)
    version: Annotated[str | None, text("The version of Kubernetes, such as v1.30.0.", 256)] = None
    provider_id: Annotated[
        str | None, text("The cloud's id of the host; copied from the infrastructure.", 512)
    ] = field(default=None, name="providerID")
    failure_domain: Annotated[
        str | None, text("Where the host should be: a failure domain of the cluster.", 256)
    ] = None
    node_drain_timeout: Annotated[
        Duration | None, doc("How long draining the Node may take; without a limit when 0 or unset.")
    ] = None
    node_volume_detach_timeout: Annotated[
        Duration | None, doc("How long volumes may take to detach; without a limit when 0 or unset.")
    ] = None
    node_deletion_timeout: Annotated[
        Duration | None,
        doc("How long to try to delete the Node once the host is gone; 10s when unset, 0 is for ever."),
    ] = None
    readiness_gates: Annotated[
        tuple[ReadinessGate, ...],
        doc("Further conditions that count into Ready.", maxItems=32, **keyed("conditionType")),
    ] = ()
    taints: Annotated[
        tuple[MachineTaint, ...],
        doc("Taints that the Node gets.", maxItems=64, minItems=1, **keyed("key", "effect")),
    ] = ()


class MachineStatus(Value, frozen=True, kw_only=True):
    """What a machine is."""

    node_ref: Annotated[ObjectReference | None, reference("The Node that the machine became.")] = None
    node_info: Annotated[NodeSystemInfo | None, doc("What the kubelet says about its machine.")] = None
    last_updated: Annotated[Time | None, doc("When the phase last changed.")] = None
    failure_reason: FailureReason = None
    failure_message: FailureMessage = None
    addresses: Annotated[
        tuple[NodeAddress, ...], doc("The addresses of the host, copied from the infrastructure.")
    ] = ()
    phase: Annotated[str, doc("What the machine is about, in one word for people.", enum=MACHINE_PHASES)] = ""
    certificates_expiry_date: Annotated[
        Time | None, doc("When the certificates of a machine of the control plane expire.")
    ] = None
    bootstrap_ready: Annotated[bool | None, doc("Whether the bootstrap data is there.")] = None
    infrastructure_ready: Annotated[bool | None, doc("Whether the host is there.")] = None
    observed_generation: Annotated[Int64, doc(OBSERVED_GENERATION)] = 0
    conditions: Conditions = ()
    deletion: Annotated[MachineDeletionStatus | None, doc("When the steps of a deletion began.")] = None
    v1beta2: Annotated[StatusConditions | None, doc(V1BETA2)] = None

    def __post_init__(self) -> None:
        whole_seconds(self, "last_updated", "certificates_expiry_date")


class Machine(KubeObject, frozen=True, kw_only=True):
    """One host that is, or will be, a Node of a cluster."""

    spec: Annotated[MachineSpec, doc("What the machine should be.")] = field(default_factory=MachineSpec)
    status: Annotated[MachineStatus, doc("What the machine is.")] = field(default_factory=MachineStatus)


class MachineTemplateSpec(Value, frozen=True, kw_only=True):
    """What new machines look like."""

    metadata: Annotated[ObjectMeta, doc("Labels and annotations that new machines get.")] = field(
        default_factory=ObjectMeta
    )
    spec: Annotated[
        MachineSpec, doc("The spec of new machines; its references name templates, one clone for each.")
    ] = field(default_factory=MachineSpec)


MACHINE = Kind(resource("machines", "Machine", "ma"), Machine)


DELETE_POLICIES = [policy.value for policy in DeletePolicy]


def one() -> int:
    """The replicas where none are given. A function, so that the field is always written."""
    return 1


class MachineSetSpec(Value, frozen=True, kw_only=True):
    """What a set should be."""

    cluster_name: ClusterName = ""
    replicas: Annotated[Int32, doc("How many machines there should be; 1 when unset.")] = field(
        default_factory=one
    )
    min_ready_seconds: MinReady = 0
    delete_policy: Annotated[
        str, doc("Which machines are deleted first; Random when unset.", enum=DELETE_POLICIES)
    ] = ""
    selector: Annotated[
        LabelSelector | None,
        doc("Which machines belong; must match the template's labels.", required=True, **ATOMIC_MAP),
    ] = None
    template: Annotated[MachineTemplateSpec, doc("What new machines look like.")] = field(
        default_factory=MachineTemplateSpec
    )
    machine_naming_strategy: Annotated[MachineNaming | None, doc("How new machines are named.")] = None


class MachineSetStatus(Value, frozen=True, kw_only=True):
    """What a set is."""

    selector: SelectorText = ""
    replicas: Annotated[Int32 | None, doc("How many machines belong to the set.")] = None
    fully_labeled_replicas: Annotated[
        Int32 | None, doc("How many of them carry all labels of the template.")
    ] = None
    ready_replicas: Annotated[Int32 | None, doc("How many of them have a Node that is ready.")] = None
    available_replicas: Annotated[Int32 | None, doc("How many of them have had one for minReadySeconds.")] = (
        None
    )
    observed_generation: Annotated[Int64, doc(OBSERVED_GENERATION)] = 0
    failure_reason: FailureReason = None
    failure_message: FailureMessage = None
    conditions: Conditions = ()
    versions: Annotated[
        tuple[StatusVersion, ...],
        doc("The versions of Kubernetes of its machines.", maxItems=100, minItems=1, **keyed("version")),
    ] = ()
    v1beta2: Annotated[StatusCounts | None, doc(V1BETA2)] = None


class MachineSet(KubeObject, frozen=True, kw_only=True):
    """A number of machines that are alike."""

    spec: Annotated[MachineSetSpec, doc("What the set should be.")] = field(default_factory=MachineSetSpec)
    status: Annotated[MachineSetStatus, doc("What the set is.")] = field(default_factory=MachineSetStatus)


MACHINE_SET = Kind(resource("machinesets", "MachineSet", "ms"), MachineSet)


STRATEGIES = [strategy.value for strategy in StrategyType]


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
    delete_policy: Annotated[
        str | None, doc("Which machines the sets delete first; Random when unset.", enum=DELETE_POLICIES)
    ] = None


class MachineDeploymentStrategy(Value, frozen=True, kw_only=True):
    """How old machines give way to new ones."""

    type: Annotated[
        str, doc("RollingUpdate, or OnDelete: a machine is replaced when it is deleted.", enum=STRATEGIES)
    ] = ""
    rolling_update: Annotated[RollingUpdate | None, doc("The bounds of a RollingUpdate.")] = None
    remediation: Annotated[RemediationStrategy | None, doc("How unhealthy machines are replaced.")] = None


class MachineDeploymentSpec(Value, frozen=True, kw_only=True):
    """What a deployment should be."""

    cluster_name: ClusterName = ""
    replicas: Annotated[Int32, doc("How many machines there should be; 1 when unset.")] = field(
        default_factory=one
    )
    rollout_after: Annotated[
        Time | None, doc("Machines of sets from before this time are replaced once it has passed.")
    ] = None
    selector: Annotated[
        LabelSelector | None,
        doc("Which sets and machines belong; must match the template's labels.", required=True, **ATOMIC_MAP),
    ] = None
    template: Annotated[
        MachineTemplateSpec, doc("What new machines look like; a change rolls out.", required=True)
    ] = field(default_factory=MachineTemplateSpec)
    strategy: Annotated[MachineDeploymentStrategy | None, doc("How old machines give way to new ones.")] = (
        None
    )
    min_ready_seconds: MinReady = 0
    revision_history_limit: Annotated[Int32 | None, doc("How many old sets are kept; 1 when unset.")] = None
    paused: Annotated[bool, doc("Stops rollouts; scaling still works.")] = False
    progress_deadline_seconds: Annotated[
        Int32 | None, doc("Not used; 600 when unset, as upstream writes it.")
    ] = None
    machine_naming_strategy: Annotated[MachineNaming | None, doc("How new machines are named.")] = None

    def __post_init__(self) -> None:
        whole_seconds(self, "rollout_after")


class MachineDeploymentStatus(Value, frozen=True, kw_only=True):
    """What a deployment is."""

    observed_generation: Annotated[Int64, doc(OBSERVED_GENERATION)] = 0
    selector: SelectorText = ""
    replicas: Annotated[Int32 | None, doc("How many machines there are, in all sets.")] = None
    updated_replicas: Annotated[Int32 | None, doc("How many of them have the current template.")] = None
    ready_replicas: Annotated[Int32 | None, doc("How many of them have a Node that is ready.")] = None
    available_replicas: Annotated[Int32 | None, doc("How many of them have had one for minReadySeconds.")] = (
        None
    )
    unavailable_replicas: Annotated[
        Int32 | None, doc("How many are missing until all wanted machines are available.")
    ] = None
    phase: Annotated[str, doc("What it is about, in one word for people.", enum=DEPLOYMENT_PHASES)] = ""
    conditions: Conditions = ()
    versions: Annotated[
        tuple[StatusVersion, ...],
        doc("The versions of Kubernetes of its machines.", maxItems=100, minItems=1, **keyed("version")),
    ] = ()
    v1beta2: Annotated[StatusCounts | None, doc(V1BETA2)] = None


class MachineDeployment(KubeObject, frozen=True, kw_only=True):
    """Machines that are alike, and the way from one template to the next."""

    spec: Annotated[MachineDeploymentSpec, doc("What the deployment should be.")] = field(
        default_factory=MachineDeploymentSpec
    )
    status: Annotated[MachineDeploymentStatus, doc("What the deployment is.")] = field(
        default_factory=MachineDeploymentStatus
    )


MACHINE_DEPLOYMENT = Kind(resource("machinedeployments", "MachineDeployment", "md"), MachineDeployment)


RANGE_PATTERN = r"^\[[0-9]+-[0-9]+\]$"


class UnhealthyCondition(Value, frozen=True, kw_only=True):
    """A condition of a Node that makes its machine unhealthy when it lasts."""

    type: Annotated[str, doc("The type of the Node's condition.", required=True, minLength=1)] = ""
    status: Annotated[str, doc("The status that is unhealthy.", required=True, minLength=1)] = ""
    timeout: Annotated[Duration, doc("How long the status must last.", required=True)] = ""


class UnhealthyMachineCondition(Value, frozen=True, kw_only=True):
    """A condition of a Machine that makes it unhealthy when it lasts."""

    type: ReasonOfHealth = ""
    status: Annotated[str, doc("The status that is unhealthy.", required=True, enum=STATUSES)] = ""
    timeout: Annotated[Duration, doc("How long the status must last.", required=True)] = ""


class MachineHealthCheckSpec(Value, frozen=True, kw_only=True):
    """What a health check should watch."""

    cluster_name: ClusterName = ""
    selector: Annotated[
        LabelSelector | None, doc("Which machines are watched.", required=True, **ATOMIC_MAP)
    ] = None
    unhealthy_conditions: Annotated[
        tuple[UnhealthyCondition, ...],
        doc("Conditions of Nodes that make a machine unhealthy if they last.", maxItems=100),
    ] = ()
    unhealthy_machine_conditions: Annotated[
        tuple[UnhealthyMachineCondition, ...],
        doc("Conditions of Machines that make a machine unhealthy if they last.", maxItems=100, minItems=1),
    ] = ()
    max_unhealthy: Annotated[
        IntOrString | None,
        doc("While more machines than this are unhealthy, none is replaced; 100% when unset."),
    ] = None
    unhealthy_range: Annotated[
        str | None,
        text(
            "While the number of unhealthy machines is in it, such as [3-5]; in place of maxUnhealthy.",
            32,
            pattern=RANGE_PATTERN,
        ),
    ] = None
    node_startup_timeout: Annotated[
        Duration | None,
        doc("How long a machine may take to become a Node; 10m when unset, 0 switches the check off."),
    ] = None
    remediation_template: Annotated[
        ObjectReference | None,
        reference("What to clone for an unhealthy machine, for another controller to repair it."),
    ] = None


class MachineHealthCheckStatus(Value, frozen=True, kw_only=True):
    """What a health check sees."""

    expected_machines: Annotated[Int32 | None, doc("How many machines are watched.", minimum=0)] = None
    current_healthy: Annotated[Int32 | None, doc("How many of them are healthy.", minimum=0)] = None
    remediations_allowed: Annotated[
        Int32 | None, doc("How many more machines may be replaced now.", minimum=0)
    ] = None
    observed_generation: Annotated[Int64, doc(OBSERVED_GENERATION)] = 0
    targets: Annotated[
        tuple[Annotated[str, extra_schema(maxLength=253, minLength=1)], ...],
        doc("The names of the machines that are watched.", maxItems=10000),
    ] = ()
    conditions: Conditions = ()
    v1beta2: Annotated[StatusConditions | None, doc(V1BETA2)] = None


class MachineHealthCheck(KubeObject, frozen=True, kw_only=True):
    """Which machines of a cluster are watched, and when one of them counts as unhealthy."""

    spec: Annotated[MachineHealthCheckSpec, doc("What the health check should watch.")] = field(
        default_factory=MachineHealthCheckSpec
    )
    status: Annotated[MachineHealthCheckStatus, doc("What the health check sees.")] = field(
        default_factory=MachineHealthCheckStatus
    )


MACHINE_HEALTH_CHECK = Kind(
    resource("machinehealthchecks", "MachineHealthCheck", "mhc", "mhcs"), MachineHealthCheck
)


MACHINE_DRAIN_RULE = Kind(resource("machinedrainrules", "MachineDrainRule"), MachineDrainRule)
