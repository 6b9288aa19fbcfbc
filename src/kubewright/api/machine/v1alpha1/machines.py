"""Machine: one VM that is, or will be, a node.

Invariants.  ``MachineConfiguration`` has no level of its own on the wire: its fields stand
             directly in a machine's spec.
"""

from typing import Annotated

from msgspec import field

from kubewright.api.core import NodeAddress, NodeCondition, NodeSpec
from kubewright.api.kinds import Kind
from kubewright.api.machine.v1alpha1.classes import resource
from kubewright.api.meta import (
    PRESERVE,
    Duration,
    Int32,
    KubeObject,
    ObjectMeta,
    Time,
    Value,
    doc,
    whole_seconds,
)


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
