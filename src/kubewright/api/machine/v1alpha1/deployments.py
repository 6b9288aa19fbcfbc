"""MachineDeployment: machines that are alike, and the way from one template to the next."""

from typing import Annotated

from msgspec import field

from kubewright.api.kinds import Kind
from kubewright.api.machine.v1alpha1.classes import resource
from kubewright.api.machine.v1alpha1.sets import MachineSummary, MachineTemplateSpec
from kubewright.api.meta import (
    ATOMIC_MAP,
    Int32,
    Int64,
    IntOrString,
    KubeObject,
    LabelSelector,
    Time,
    Value,
    doc,
    whole_seconds,
)

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
