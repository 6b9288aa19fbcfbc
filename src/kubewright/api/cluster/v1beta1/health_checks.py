"""MachineHealthCheck: which machines of a cluster are watched, and when one of them counts as unhealthy.

Source       capi.md §2.6.
"""

from typing import Annotated

from msgspec import field

from kubewright.api.cluster.v1beta1.shared import (
    CONDITIONS,
    OBSERVED_GENERATION,
    Condition,
    ObjectReference,
    reference,
    resource,
)
from kubewright.api.kinds import Kind
from kubewright.api.meta import (
    ATOMIC_MAP,
    Duration,
    Int32,
    Int64,
    IntOrString,
    KubeObject,
    LabelSelector,
    Value,
    doc,
)

RANGE_PATTERN = r"^\[[0-9]+-[0-9]+\]$"


class UnhealthyCondition(Value, frozen=True, kw_only=True):
    """A condition of a Node that makes its machine unhealthy when it lasts."""

    type: Annotated[str, doc("The type of the Node's condition.", required=True, minLength=1)] = ""
    status: Annotated[str, doc("The status that is unhealthy.", required=True, minLength=1)] = ""
    timeout: Annotated[Duration, doc("How long the status must last.", required=True)] = ""


class MachineHealthCheckSpec(Value, frozen=True, kw_only=True):
    """What a health check should watch."""

    cluster_name: Annotated[
        str, doc("The cluster that the machines belong to, in their namespace.", required=True, minLength=1)
    ] = ""
    selector: Annotated[
        LabelSelector | None, doc("Which machines are watched.", required=True, **ATOMIC_MAP)
    ] = None
    unhealthy_conditions: Annotated[
        tuple[UnhealthyCondition, ...],
        doc("Conditions of Nodes that make a machine unhealthy if they last.", required=True, minItems=1),
    ] = ()
    max_unhealthy: Annotated[
        IntOrString | None,
        doc("While more machines than this are unhealthy, none is replaced; 100% when unset."),
    ] = None
    unhealthy_range: Annotated[
        str | None,
        doc(
            "Machines are replaced only while the number of unhealthy ones is in this range, such as [3-5]; "
            "takes the place of maxUnhealthy.",
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
    targets: Annotated[tuple[str, ...], doc("The names of the machines that are watched.")] = ()
    conditions: Annotated[tuple[Condition, ...], doc(CONDITIONS)] = ()


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
