"""MachineSet: a number of machines that are alike."""

from typing import Annotated

from msgspec import field

from kubewright.api.kinds import Kind
from kubewright.api.machine.v1alpha1.classes import resource
from kubewright.api.machine.v1alpha1.machines import ClassSpec, LastOperation, MachineSpec
from kubewright.api.meta import (
    ATOMIC_MAP,
    PRESERVE,
    Int32,
    Int64,
    KubeObject,
    LabelSelector,
    ObjectMeta,
    Time,
    Value,
    doc,
    whole_seconds,
)


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
