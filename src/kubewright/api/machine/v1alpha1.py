"""MachineClass, Machine, MachineSet and MachineDeployment, field for field as upstream serves them.

Theory.      Wire names, types and required fields equal those of machine-controller-manager
             because cluster-autoscaler, Gardener and MCM itself read and write the
             same objects. The sentences are ours; the CRDs are made from them.
Invariants.  A pointer upstream is ``| None`` here where unset and zero mean different things.
Continues    in ``validate`` (and what an unset field means) and ``manifests``.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import field

from kubewright.api.core import NodeAddress, NodeCondition, NodeSpec
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
    Quantity,
    Time,
    Value,
    doc,
    whole_seconds,
)
from kubewright.wire.gvk import Resource

GROUP = "machine.sapcloud.io"
VERSION = "v1alpha1"


def resource(plural: str, kind: str, short_name: str) -> Resource:
    """One of the four, as the API server serves it."""
    return Resource(GROUP, VERSION, plural, kind, short_names=(short_name,))


class SecretReference(Value, frozen=True, kw_only=True):
    """The place of a Secret."""

    name: Annotated[str, doc("The name of the Secret.")] = ""
    namespace: Annotated[str, doc("The namespace of the Secret.")] = ""


class ClassNodeTemplate(Value, frozen=True, kw_only=True):
    """What a node of a class will offer, for those who must know before there is one."""

    capacity: Annotated[
        Mapping[str, Quantity], doc("What the node will offer; must name cpu, gpu and memory.", required=True)
    ] = field(default_factory=dict)
    virtual_capacity: Annotated[
        Mapping[str, Quantity],
        doc("Extended resources that are written into the capacity of the node once it has joined."),
    ] = field(default_factory=dict)
    instance_type: Annotated[str, doc("The cloud's name for this size of VM.", required=True)] = ""
    region: Annotated[str, doc("The region of the node.", required=True)] = ""
    zone: Annotated[str, doc("The zone of the node.", required=True)] = ""
    architecture: Annotated[
        str | None, doc("The processor architecture of the node, such as amd64 or arm64.")
    ] = None


class MachineClassCondition(Value, frozen=True, kw_only=True):
    """One aspect of a class's state."""

    type: Annotated[
        str,
        doc(
            "Accepted: whether the driver would make machines of this class. "
            "Applied: whether the VMs of its machines have what it says.",
            required=True,
        ),
    ] = ""
    status: Annotated[str, doc("True, False or Unknown.", required=True)] = ""
    last_transition_time: Annotated[Time | None, doc("When the status last changed.")] = None
    reason: Annotated[str, doc("Why, in one word.")] = ""
    message: Annotated[str, doc("Why, in a sentence for people.")] = ""

    def __post_init__(self) -> None:
        whole_seconds(self, "last_transition_time")


class MachineClassStatus(Value, frozen=True, kw_only=True):
    """What is known of a class."""

    conditions: Annotated[
        tuple[MachineClassCondition, ...],
        doc("Whether its driver accepts it, and its machines are as it says; empty if so from the start."),
    ] = ()


class MachineClass(KubeObject, frozen=True, kw_only=True):
    """How machines of one sort are made: what the provider needs to know, and where the secrets are."""

    node_template: Annotated[
        ClassNodeTemplate | None,
        doc("What a node of this class will offer; cluster-autoscaler scales from zero by it.", **PRESERVE),
    ] = None
    credentials_secret_ref: Annotated[
        SecretReference | None,
        doc(
            "A further Secret with the provider's credentials; its keys win over those of secretRef.",
            **ATOMIC_MAP,
        ),
    ] = None
    secret_ref: Annotated[
        SecretReference | None,
        doc(
            "The Secret that holds userData, and the provider's credentials if nothing else does.",
            **ATOMIC_MAP,
        ),
    ] = None
    provider: Annotated[
        str, doc("The name of the driver, or where it is; a driver may refuse foreign values.")
    ] = ""
    provider_spec: Annotated[
        Mapping[str, Json],
        doc("What the driver needs to make a VM; only the driver looks inside.", required=True, **PRESERVE),
    ] = field(default_factory=dict)
    status: Annotated[MachineClassStatus, doc("Whether machines can be made by the class.")] = field(
        default_factory=MachineClassStatus
    )


MACHINE_CLASS = Kind(resource("machineclasses", "MachineClass", "mcc"), MachineClass)


class ClassSpec(Value, frozen=True, kw_only=True):
    """Which class a machine is made by."""

    api_group: Annotated[str, doc("The API group of the class.")] = ""
    kind: Annotated[str, doc("The kind of the class: MachineClass.")] = ""
    name: Annotated[str, doc("The name of the class, in the namespace of the machine.")] = ""


class NodeTemplateSpec(Value, frozen=True, kw_only=True):
    """What the node of a machine should carry."""

    metadata: Annotated[ObjectMeta, doc("Labels and annotations that are kept on the node.", **PRESERVE)] = (
        field(default_factory=ObjectMeta)
    )
    spec: Annotated[NodeSpec, doc("The node's spec; of it, the taints are kept on the node.")] = field(
        default_factory=NodeSpec
    )


class MachineConfiguration(Value, frozen=True, kw_only=True):
    """The timeouts of one machine. Its fields stand directly in a machine's spec."""

    drain_timeout: Annotated[
        Duration | None, doc("How long the node may take to drain before the VM is deleted anyway.")
    ] = None
    health_timeout: Annotated[
        Duration | None, doc("How long a machine may be Unknown before it is Failed and replaced.")
    ] = None
    creation_timeout: Annotated[
        Duration | None,
        doc("How long a machine may take from its creation to a healthy node before it is Failed."),
    ] = None
    in_place_update_timeout: Annotated[
        Duration | None, doc("How long an in-place update may take before it has failed.")
    ] = None
    disable_health_timeout: Annotated[
        bool | None,
        doc("Never turns the machine Failed for its health; for machines that cannot be replaced."),
    ] = None
    machine_preserve_timeout: Annotated[
        Duration | None, doc("How long a machine is kept once a user asked to preserve it.")
    ] = None
    max_evict_retries: Annotated[
        Int32 | None, doc("How often the eviction of one pod is tried before the pod is deleted at once.")
    ] = None
    node_conditions: Annotated[
        str | None,
        doc("Comma-separated node condition types that make the machine unhealthy unless they are False."),
    ] = None


class MachineSpec(MachineConfiguration, frozen=True, kw_only=True):
    """What a machine should be."""

    machine_class: Annotated[ClassSpec, doc("The class that the machine is made by.")] = field(
        default_factory=ClassSpec, name="class"
    )
    provider_id: Annotated[
        str, doc("The cloud's id of the VM; written by the controller once the VM exists.")
    ] = field(default="", name="providerID")
    node_template: Annotated[
        NodeTemplateSpec, doc("Labels, annotations and taints that the node of this machine carries.")
    ] = field(default_factory=NodeTemplateSpec)


class LastOperation(Value, frozen=True, kw_only=True):
    """What was last done about a machine, and how it went."""

    description: Annotated[str, doc("What happened, in a sentence for people.")] = ""
    error_code: Annotated[
        str, doc("The provider's error code, when the operation failed on the provider.")
    ] = ""
    last_update_time: Annotated[Time | None, doc("When the operation last changed.")] = None
    state: Annotated[str, doc("Processing, Failed or Successful.")] = ""
    type: Annotated[str, doc("Create, Update, InPlaceUpdate, DrainNode, HealthCheck or Delete.")] = ""

    def __post_init__(self) -> None:
        whole_seconds(self, "last_update_time")


class CurrentStatus(Value, frozen=True, kw_only=True):
    """Where a machine is in its life."""

    phase: Annotated[
        str, doc("The machine's phase: Pending, Running, Unknown, Failed, Terminating and so on.")
    ] = ""
    timeout_active: Annotated[bool, doc("Whether the VM exists and its node is waited for.")] = False
    last_update_time: Annotated[
        Time | None, doc("When the phase last changed; the health and in-place timeouts count from here.")
    ] = None
    preserve_expiry_time: Annotated[Time | None, doc("Until when the machine is preserved, if it is.")] = None

    def __post_init__(self) -> None:
        whole_seconds(self, "last_update_time", "preserve_expiry_time")


class MachineStatus(Value, frozen=True, kw_only=True):
    """What a machine is."""

    addresses: Annotated[
        tuple[NodeAddress, ...], doc("The addresses of the VM; only written where there is no node to ask.")
    ] = ()
    conditions: Annotated[tuple[NodeCondition, ...], doc("The conditions of the machine's node.")] = ()
    last_operation: Annotated[LastOperation, doc("What was last done about the machine.")] = field(
        default_factory=LastOperation
    )
    current_status: Annotated[CurrentStatus, doc("Where the machine is in its life.")] = field(
        default_factory=CurrentStatus
    )
    last_known_state: Annotated[str, doc("A note that the driver left for its next call.")] = ""


class Machine(KubeObject, frozen=True, kw_only=True):
    """One VM that is, or will be, a node."""

    spec: Annotated[MachineSpec, doc("What the machine should be.")] = field(default_factory=MachineSpec)
    status: Annotated[MachineStatus, doc("What the machine is.")] = field(default_factory=MachineStatus)


MACHINE = Kind(resource("machines", "Machine", "mc"), Machine)


class MachineTemplateSpec(Value, frozen=True, kw_only=True):
    """What new machines of a set look like."""

    metadata: Annotated[
        ObjectMeta, doc("Labels, annotations and finalizers that new machines get.", **PRESERVE)
    ] = field(default_factory=ObjectMeta)
    spec: Annotated[MachineSpec, doc("The spec of new machines.")] = field(default_factory=MachineSpec)


class MachineSummary(Value, frozen=True, kw_only=True):
    """A machine that is in trouble, in short."""

    name: Annotated[str, doc("The name of the machine.")] = ""
    provider_id: Annotated[str, doc("The cloud's id of the VM.")] = field(default="", name="providerID")
    last_operation: Annotated[LastOperation, doc("The operation that failed.")] = field(
        default_factory=LastOperation
    )
    owner_ref: Annotated[str, doc("The name of the set that owns the machine.")] = ""


class MachineSetCondition(Value, frozen=True, kw_only=True):
    """One aspect of a set's state."""

    type: Annotated[str, doc("ReplicaFailure or Frozen.", required=True)] = ""
    status: Annotated[str, doc("True, False or Unknown.", required=True)] = ""
    last_transition_time: Annotated[Time | None, doc("When the status last changed.")] = None
    reason: Annotated[str, doc("Why, in one word.")] = ""
    message: Annotated[str, doc("Why, in a sentence for people.")] = ""

    def __post_init__(self) -> None:
        whole_seconds(self, "last_transition_time")


class MachineSetSpec(Value, frozen=True, kw_only=True):
    """What a set should be."""

    replicas: Annotated[Int32, doc("How many machines there should be.")] = 0
    selector: Annotated[
        LabelSelector | None,
        doc("Which machines belong to the set; must match the template's labels.", **ATOMIC_MAP),
    ] = None
    machine_class: Annotated[ClassSpec, doc("Not used: the class stands in the template.")] = field(
        default_factory=ClassSpec, name="machineClass"
    )
    template: Annotated[MachineTemplateSpec, doc("What new machines look like.")] = field(
        default_factory=MachineTemplateSpec
    )
    min_ready_seconds: Annotated[
        Int32, doc("How many seconds a machine must be Running before it counts as available.")
    ] = 0
    auto_preserve_failed_machine_max: Annotated[
        Int32, doc("How many Failed machines may be preserved without being asked for.")
    ] = 0


class MachineSetStatus(Value, frozen=True, kw_only=True):
    """What a set is."""

    replicas: Annotated[Int32, doc("How many machines belong to the set, those being deleted included.")] = 0
    fully_labeled_replicas: Annotated[Int32, doc("How many of them carry all labels of the template.")] = 0
    ready_replicas: Annotated[Int32, doc("How many of them are Running.")] = 0
    available_replicas: Annotated[Int32, doc("How many of them are available.")] = 0
    preserved_failed_replicas: Annotated[Int32, doc("How many of them are Failed and preserved.")] = 0
    auto_preserve_failed_machine_count: Annotated[
        Int32, doc("How many of them are preserved without having been asked for.")
    ] = 0
    observed_generation: Annotated[Int64, doc("The generation of the spec that this status is about.")] = 0
    machine_set_condition: Annotated[
        tuple[MachineSetCondition, ...], doc("What else is to say about the set.")
    ] = ()
    last_operation: Annotated[LastOperation, doc("What was last done about the set.")] = field(
        default_factory=LastOperation
    )
    failed_machines: Annotated[
        tuple[MachineSummary, ...], doc("The machines whose last operation failed.")
    ] = ()


class MachineSet(KubeObject, frozen=True, kw_only=True):
    """A number of machines that are alike."""

    spec: Annotated[MachineSetSpec, doc("What the set should be.")] = field(default_factory=MachineSetSpec)
    status: Annotated[MachineSetStatus, doc("What the set is.")] = field(default_factory=MachineSetStatus)


MACHINE_SET = Kind(resource("machinesets", "MachineSet", "mcs"), MachineSet)


DEFAULT_STRATEGY = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
"""What the API server puts where no strategy is given; ``machine.defaults`` says why these values."""


class RollingUpdate(Value, frozen=True, kw_only=True):
    """How far a rollout may deviate from the wanted number of machines."""

    max_unavailable: Annotated[
        IntOrString | None,
        doc("How many machines may be missing; a percentage of replicas rounds down.", default=0),
    ] = None
    max_surge: Annotated[
        IntOrString | None,
        doc("How many machines may be too many; a percentage of replicas rounds up.", default=1),
    ] = None


class InPlaceUpdate(RollingUpdate, frozen=True, kw_only=True):
    """How machines are updated without being replaced."""

    orchestration_type: Annotated[
        str, doc("Auto: the controller chooses the machines. Manual: labels on the nodes do.")
    ] = ""


class MachineDeploymentStrategy(Value, frozen=True, kw_only=True):
    """How old machines give way to new ones."""

    type: Annotated[str, doc("RollingUpdate, Recreate or InPlaceUpdate.", default="RollingUpdate")] = ""
    in_place_update: Annotated[InPlaceUpdate | None, doc("The bounds of an InPlaceUpdate.")] = None
    rolling_update: Annotated[RollingUpdate | None, doc("The bounds of a RollingUpdate.")] = None


class RollbackConfig(Value, frozen=True, kw_only=True):
    """A request to go back to an earlier template."""

    revision: Annotated[Int64, doc("The revision to go back to; 0 is the one before the current.")] = 0


class MachineDeploymentSpec(Value, frozen=True, kw_only=True):
    """What a deployment should be."""

    replicas: Annotated[Int32, doc("How many machines there should be.")] = 0
    selector: Annotated[
        LabelSelector | None,
        doc("Which sets and machines belong; must match the template's labels.", **ATOMIC_MAP),
    ] = None
    template: Annotated[
        MachineTemplateSpec, doc("What new machines look like; a change rolls out.", required=True)
    ] = field(default_factory=MachineTemplateSpec)
    strategy: Annotated[
        MachineDeploymentStrategy, doc("How old machines give way to new ones.", default=DEFAULT_STRATEGY)
    ] = field(default_factory=MachineDeploymentStrategy)
    min_ready_seconds: Annotated[
        Int32, doc("How many seconds a machine must be Running before it counts as available.")
    ] = 0
    revision_history_limit: Annotated[
        Int32 | None, doc("How many old sets are kept for going back; all when unset.")
    ] = None
    paused: Annotated[bool, doc("Stops rollouts; scaling still works.")] = False
    rollback_to: Annotated[
        RollbackConfig | None, doc("Set it to go back; the controller clears it when done.")
    ] = None
    progress_deadline_seconds: Annotated[
        Int32 | None,
        doc("After how many seconds without progress a rollout counts as stuck; never when unset."),
    ] = None
    auto_preserve_failed_machine_max: Annotated[
        Int32, doc("How many Failed machines may be preserved without being asked for.")
    ] = 0
    excess_replicas: Annotated[
        Int32 | None,
        doc("How many machines there should be besides, kept free of workload by taints."),
    ] = None

    @property
    def desired(self) -> int:
        """How many machines there should be in all: for workload, and kept free."""
        return self.replicas + (self.excess_replicas or 0)


class MachineDeploymentCondition(Value, frozen=True, kw_only=True):
    """One aspect of a deployment's state."""

    type: Annotated[str, doc("Available, Progressing, ReplicaFailure or Frozen.", required=True)] = ""
    status: Annotated[str, doc("True, False or Unknown.", required=True)] = ""
    last_update_time: Annotated[Time | None, doc("When the condition was last written.")] = None
    last_transition_time: Annotated[Time | None, doc("When the status last changed.")] = None
    reason: Annotated[str, doc("Why, in one word.")] = ""
    message: Annotated[str, doc("Why, in a sentence for people.")] = ""

    def __post_init__(self) -> None:
        whole_seconds(self, "last_update_time", "last_transition_time")


class MachineDeploymentStatus(Value, frozen=True, kw_only=True):
    """What a deployment is."""

    observed_generation: Annotated[Int64, doc("The generation of the spec that this status is about.")] = 0
    replicas: Annotated[Int32, doc("How many machines there are, in all sets.")] = 0
    updated_replicas: Annotated[Int32, doc("How many of them have the current template.")] = 0
    ready_replicas: Annotated[Int32, doc("How many of them are Running.")] = 0
    available_replicas: Annotated[Int32, doc("How many of them are available.")] = 0
    unavailable_replicas: Annotated[
        Int32, doc("How many are missing until all wanted machines are available.")
    ] = 0
    preserved_failed_replicas: Annotated[Int32, doc("How many of them are Failed and preserved.")] = 0
    conditions: Annotated[
        tuple[MachineDeploymentCondition, ...], doc("What else is to say about the deployment.")
    ] = ()
    collision_count: Annotated[
        Int32 | None, doc("How often the name of a new set was taken; part of the next name.")
    ] = None
    failed_machines: Annotated[
        tuple[MachineSummary, ...], doc("The machines whose last operation failed.")
    ] = ()


class MachineDeployment(KubeObject, frozen=True, kw_only=True):
    """Machines that are alike, and the way from one template to the next."""

    spec: Annotated[MachineDeploymentSpec, doc("What the deployment should be.")] = field(
        default_factory=MachineDeploymentSpec
    )
    status: Annotated[MachineDeploymentStatus, doc("What the deployment is.")] = field(
        default_factory=MachineDeploymentStatus
    )


MACHINE_DEPLOYMENT = Kind(resource("machinedeployments", "MachineDeployment", "mcd"), MachineDeployment)
