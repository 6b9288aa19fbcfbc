"""MachineHealthCheck of ``cluster.x-k8s.io/v1beta2``: which machines are watched, and what is done then.

Theory.      As ``v1beta2``, of which this is a part. Where v1beta1 has durations as text, seconds are numbers
             here; what makes a machine unhealthy and what is done about it stand apart.
Invariants.  Fields stand in the order of upstream's types.
Called by    ``conversion``, ``manifests``.
"""

from typing import Annotated

from kubewright.api.cluster.parts import (
    API_VERSION_PATTERN,
    KIND_PATTERN,
    NAME_PATTERN,
    STATUSES,
    Conditions,
    ReasonOfHealth,
)
from kubewright.api.cluster.v1beta1 import RANGE_PATTERN
from kubewright.api.cluster.v1beta2 import Generation, OldConditions, resource
from kubewright.api.kinds import Kind
from kubewright.api.meta import (
    ATOMIC_MAP,
    Int32,
    IntOrString,
    KubeObject,
    LabelSelector,
    Value,
    doc,
    extra_schema,
    text,
)


class UnhealthyNodeCondition(Value, frozen=True, kw_only=True):
    """A condition of a Node that makes its machine unhealthy when it lasts."""

    type: Annotated[str, doc("The type of the Node's condition.", required=True, minLength=1)] = ""
    status: Annotated[str, doc("The status that is unhealthy.", required=True, minLength=1)] = ""
    timeout_seconds: Annotated[
        Int32 | None, doc("How many seconds the status must last.", required=True, minimum=0)
    ] = None


class UnhealthyMachineCondition(Value, frozen=True, kw_only=True):
    """A condition of a Machine that makes it unhealthy when it lasts."""

    type: ReasonOfHealth = ""
    status: Annotated[str, doc("The status that is unhealthy.", required=True, enum=STATUSES)] = ""
    timeout_seconds: Annotated[
        Int32 | None, doc("How many seconds the status must last.", required=True, minimum=0)
    ] = None


class HealthChecks(Value, frozen=True, kw_only=True):
    """What makes a machine unhealthy."""

    node_startup_timeout_seconds: Annotated[
        Int32 | None,
        doc(
            "How many seconds a machine may take to become a Node; 600 when unset, 0 switches the check off.",
            minimum=0,
        ),
    ] = None
    unhealthy_node_conditions: Annotated[
        tuple[UnhealthyNodeCondition, ...],
        doc("Conditions of Nodes that make a machine unhealthy if they last.", maxItems=100, minItems=1),
    ] = ()
    unhealthy_machine_conditions: Annotated[
        tuple[UnhealthyMachineCondition, ...],
        doc("Conditions of Machines that make a machine unhealthy if they last.", maxItems=100, minItems=1),
    ] = ()


class RemediationTrigger(Value, frozen=True, kw_only=True):
    """While how many machines are unhealthy any is replaced."""

    unhealthy_less_than_or_equal_to: Annotated[
        IntOrString | None,
        doc("While more machines than this are unhealthy, none is replaced; 100% when unset."),
    ] = None
    unhealthy_in_range: Annotated[
        str,
        text(
            "Machines are replaced only while the number of unhealthy ones is in this range, such as [3-5].",
            32,
            pattern=RANGE_PATTERN,
        ),
    ] = ""


class RemediationTemplateReference(Value, frozen=True, kw_only=True):
    """What to clone for an unhealthy machine."""

    kind: Annotated[str, text("The kind of the template.", 63, required=True, pattern=KIND_PATTERN)] = ""
    name: Annotated[str, text("The name of the template.", 253, required=True, pattern=NAME_PATTERN)] = ""
    api_version: Annotated[
        str,
        text(
            "The group and version of the template.",
            317,
            required=True,
            pattern=API_VERSION_PATTERN,
        ),
    ] = ""


class HealthRemediation(Value, frozen=True, kw_only=True):
    """What is done about unhealthy machines."""

    trigger_if: Annotated[
        RemediationTrigger, doc("While how many machines are unhealthy any is replaced.", minProperties=1)
    ] = RemediationTrigger()
    template_ref: Annotated[
        RemediationTemplateReference,
        doc("What to clone for an unhealthy machine, for another controller to repair it."),
    ] = RemediationTemplateReference()


class MachineHealthCheckSpec(Value, frozen=True, kw_only=True):
    """What a health check should watch."""

    cluster_name: Annotated[
        str, text("The cluster that the machines belong to, in their namespace.", 63, required=True)
    ] = ""
    selector: Annotated[LabelSelector, doc("Which machines are watched.", required=True, **ATOMIC_MAP)] = (
        LabelSelector()
    )
    checks: Annotated[HealthChecks, doc("What makes a machine unhealthy.", minProperties=1)] = HealthChecks()
    remediation: Annotated[
        HealthRemediation, doc("What is done about unhealthy machines.", minProperties=1)
    ] = HealthRemediation()


class MachineHealthCheckV1Beta1(Value, frozen=True, kw_only=True):
    """What v1beta1 says of a health check and v1beta2 does not."""

    conditions: OldConditions = ()


class MachineHealthCheckDeprecated(Value, frozen=True, kw_only=True):
    """What goes when v1beta1 goes."""

    v1beta1: Annotated[MachineHealthCheckV1Beta1 | None, doc("What v1beta1 says.")] = None


class MachineHealthCheckStatus(Value, frozen=True, kw_only=True):
    """What a health check sees."""

    conditions: Conditions = ()
    expected_machines: Annotated[Int32 | None, doc("How many machines are watched.", minimum=0)] = None
    current_healthy: Annotated[Int32 | None, doc("How many of them are healthy.", minimum=0)] = None
    remediations_allowed: Annotated[
        Int32 | None, doc("How many more machines may be replaced now.", minimum=0)
    ] = None
    observed_generation: Generation = 0
    targets: Annotated[
        tuple[Annotated[str, extra_schema(maxLength=253, minLength=1)], ...],
        doc("The names of the machines that are watched.", maxItems=10000),
    ] = ()
    deprecated: Annotated[MachineHealthCheckDeprecated | None, doc("What goes when v1beta1 goes.")] = None


class MachineHealthCheck(KubeObject, frozen=True, kw_only=True):
    """Which machines of a cluster are watched, and when one of them counts as unhealthy."""

    spec: Annotated[MachineHealthCheckSpec, doc("What the health check should watch.", required=True)] = (
        MachineHealthCheckSpec()
    )
    status: Annotated[MachineHealthCheckStatus, doc("What the health check sees.", minProperties=1)] = (
        MachineHealthCheckStatus()
    )


MACHINE_HEALTH_CHECK = Kind(
    resource("machinehealthchecks", "MachineHealthCheck", "mhc", "mhcs"), MachineHealthCheck
)
