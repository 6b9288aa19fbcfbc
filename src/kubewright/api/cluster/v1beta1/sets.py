"""MachineSet: a number of machines that are alike.

Invariants.  ``spec.replicas`` is always written, since cluster-autoscaler and ``/scale`` read the field;
             where it is missing, 1 is meant. Counts in a status are None until a controller has written
             them, and 0 is written too.
Source       capi.md §2.5.
"""

from typing import Annotated

from msgspec import field

from kubewright.api.cluster.names import DeletePolicy
from kubewright.api.cluster.v1beta1.machines import MachineTemplateSpec
from kubewright.api.cluster.v1beta1.shared import (
    CONDITIONS,
    FAILURE_MESSAGE,
    FAILURE_REASON,
    OBSERVED_GENERATION,
    Condition,
    resource,
)
from kubewright.api.kinds import Kind
from kubewright.api.meta import ATOMIC_MAP, Int32, Int64, KubeObject, LabelSelector, Value, doc

DELETE_POLICIES = [policy.value for policy in DeletePolicy]
SELECTOR_TEXT = "A selector of the machines, as text, for clients of the subresource scale."


def one() -> int:
    """The replicas where none are given. A function, so that the field is always written."""
    return 1


class MachineSetSpec(Value, frozen=True, kw_only=True):
    """What a set should be."""

    cluster_name: Annotated[
        str, doc("The cluster that the machines belong to, in their namespace.", required=True, minLength=1)
    ] = ""
    replicas: Annotated[Int32, doc("How many machines there should be; 1 when unset.")] = field(
        default_factory=one
    )
    min_ready_seconds: Annotated[
        Int32, doc("How many seconds a Node must be ready before its machine counts as available.")
    ] = 0
    delete_policy: Annotated[
        str,
        doc("Which machines are deleted first; Random when unset.", enum=DELETE_POLICIES),
    ] = ""
    selector: Annotated[
        LabelSelector | None,
        doc("Which machines belong; must match the template's labels.", required=True, **ATOMIC_MAP),
    ] = None
    template: Annotated[MachineTemplateSpec, doc("What new machines look like.")] = field(
        default_factory=MachineTemplateSpec
    )


class MachineSetStatus(Value, frozen=True, kw_only=True):
    """What a set is."""

    selector: Annotated[str, doc(SELECTOR_TEXT)] = ""
    replicas: Annotated[Int32 | None, doc("How many machines belong to the set.")] = None
    fully_labeled_replicas: Annotated[
        Int32 | None, doc("How many of them carry all labels of the template.")
    ] = None
    ready_replicas: Annotated[Int32 | None, doc("How many of them have a Node that is ready.")] = None
    available_replicas: Annotated[Int32 | None, doc("How many of them have had one for minReadySeconds.")] = (
        None
    )
    observed_generation: Annotated[Int64, doc(OBSERVED_GENERATION)] = 0
    failure_reason: Annotated[str | None, doc(FAILURE_REASON)] = None
    failure_message: Annotated[str | None, doc(FAILURE_MESSAGE)] = None
    conditions: Annotated[tuple[Condition, ...], doc(CONDITIONS)] = ()


class MachineSet(KubeObject, frozen=True, kw_only=True):
    """A number of machines that are alike."""

    spec: Annotated[MachineSetSpec, doc("What the set should be.")] = field(default_factory=MachineSetSpec)
    status: Annotated[MachineSetStatus, doc("What the set is.")] = field(default_factory=MachineSetStatus)


MACHINE_SET = Kind(resource("machinesets", "MachineSet", "ms"), MachineSet)
