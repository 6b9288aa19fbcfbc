"""MachineDeployment: machines that are alike, and the way from one template to the next.

Invariants.  As in ``sets``: ``spec.replicas`` is always written, and counts are None until they are written.
Source       capi.md §2.5.
"""

from typing import Annotated

from msgspec import field

from kubewright.api.cluster.names import StrategyType
from kubewright.api.cluster.v1beta1.machines import MachineTemplateSpec
from kubewright.api.cluster.v1beta1.sets import DELETE_POLICIES, SELECTOR_TEXT, one
from kubewright.api.cluster.v1beta1.shared import CONDITIONS, OBSERVED_GENERATION, Condition, resource
from kubewright.api.kinds import Kind
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
        str | None,
        doc("Which machines the sets delete first; Random when unset.", enum=DELETE_POLICIES),
    ] = None


class MachineDeploymentStrategy(Value, frozen=True, kw_only=True):
    """How old machines give way to new ones."""

    type: Annotated[
        str,
        doc("RollingUpdate, or OnDelete: a machine is replaced when it is deleted.", enum=STRATEGIES),
    ] = ""
    rolling_update: Annotated[RollingUpdate | None, doc("The bounds of a RollingUpdate.")] = None


class MachineDeploymentSpec(Value, frozen=True, kw_only=True):
    """What a deployment should be."""

    cluster_name: Annotated[
        str, doc("The cluster that the machines belong to, in their namespace.", required=True, minLength=1)
    ] = ""
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
    min_ready_seconds: Annotated[
        Int32, doc("How many seconds a Node must be ready before its machine counts as available.")
    ] = 0
    revision_history_limit: Annotated[Int32 | None, doc("How many old sets are kept; 1 when unset.")] = None
    paused: Annotated[bool, doc("Stops rollouts; scaling still works.")] = False
    progress_deadline_seconds: Annotated[
        Int32 | None, doc("Not used; 600 when unset, as upstream writes it.")
    ] = None

    def __post_init__(self) -> None:
        whole_seconds(self, "rollout_after")


class MachineDeploymentStatus(Value, frozen=True, kw_only=True):
    """What a deployment is."""

    observed_generation: Annotated[Int64, doc(OBSERVED_GENERATION)] = 0
    selector: Annotated[str, doc(SELECTOR_TEXT)] = ""
    replicas: Annotated[Int32 | None, doc("How many machines there are, in all sets.")] = None
    updated_replicas: Annotated[Int32 | None, doc("How many of them have the current template.")] = None
    ready_replicas: Annotated[Int32 | None, doc("How many of them have a Node that is ready.")] = None
    available_replicas: Annotated[Int32 | None, doc("How many of them have had one for minReadySeconds.")] = (
        None
    )
    unavailable_replicas: Annotated[
        Int32 | None, doc("How many are missing until all wanted machines are available.")
    ] = None
    phase: Annotated[str, doc("For people: ScalingUp, ScalingDown, Running, Failed or Unknown.")] = ""
    conditions: Annotated[tuple[Condition, ...], doc(CONDITIONS)] = ()


class MachineDeployment(KubeObject, frozen=True, kw_only=True):
    """Machines that are alike, and the way from one template to the next."""

    spec: Annotated[MachineDeploymentSpec, doc("What the deployment should be.")] = field(
        default_factory=MachineDeploymentSpec
    )
    status: Annotated[MachineDeploymentStatus, doc("What the deployment is.")] = field(
        default_factory=MachineDeploymentStatus
    )


MACHINE_DEPLOYMENT = Kind(resource("machinedeployments", "MachineDeployment", "md"), MachineDeployment)
