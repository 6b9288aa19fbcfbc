"""What the controllers of Cluster API report: phases, reasons, and conditions as it writes them.

Theory.      Every type of condition has its reasons, and each reason a severity; clusterctl, dashboards and
             providers compare these strings.
             A controller makes conditions (``true_condition``, ``false_condition``, ``unknown_condition``),
             and ``with_conditions`` sets them in a list: Ready first, the rest by type, each with its time.
             Conditions of one object are summarized (``summary``), those of several objects aggregated
             (``aggregate``): the condition with the highest priority gives status, reason and message. False
             with severity Error has the highest, then Warning, then Info, then True, and Unknown the lowest.
Invariants.  A phase is for people: no controller decides on it.
             A condition of which nothing changed keeps its ``lastTransitionTime``; with another message it
             gets a new one. So that time says when the condition was last written, not since when its status
             is what it is: no controller here counts a time-out from it. Only a False condition has a
             severity.
Source       Cluster API v1beta1: types, reasons and severities, which its users' programs read.
Called by    controllers of ``clusters``, ``bootstrap``, ``infra``. ``api.conditions`` finds and removes
             conditions of any kind, and sets those whose time changes with their status only.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from msgspec import structs

from kubewright.api.cluster.v1beta1 import Condition
from kubewright.api.meta import Json
from kubewright.base.clock import parse_rfc3339

# What events come from
CLUSTER_COMPONENT = "cluster-controller"
MACHINE_COMPONENT = "machine-controller"
MACHINE_SET_COMPONENT = "machineset-controller"
MACHINE_DEPLOYMENT_COMPONENT = "machinedeployment-controller"
MACHINE_HEALTH_CHECK_COMPONENT = "machinehealthcheck-controller"


class ClusterPhase(StrEnum):
    """Where a cluster is in its life; for people only (S0-47)."""

    PENDING = "Pending"
    PROVISIONING = "Provisioning"
    PROVISIONED = "Provisioned"
    DELETING = "Deleting"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class MachinePhase(StrEnum):
    """Where a machine is in its life; for people only (S0-47)."""

    PENDING = "Pending"
    PROVISIONING = "Provisioning"
    PROVISIONED = "Provisioned"
    RUNNING = "Running"
    DELETING = "Deleting"
    DELETED = "Deleted"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class DeploymentPhase(StrEnum):
    """What a MachineDeployment is doing; for people only."""

    SCALING_UP = "ScalingUp"
    SCALING_DOWN = "ScalingDown"
    RUNNING = "Running"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class FailureReason(StrEnum):
    """Values of ``failureReason`` that upstream knows; providers write others too."""

    INVALID_CONFIGURATION = "InvalidConfiguration"
    UNSUPPORTED_CHANGE = "UnsupportedChange"
    INSUFFICIENT_RESOURCES = "InsufficientResources"
    CREATE_ERROR = "CreateError"
    UPDATE_ERROR = "UpdateError"
    DELETE_ERROR = "DeleteError"
    JOIN_CLUSTER_TIMEOUT_ERROR = "JoinClusterTimeoutError"


class ConditionType(StrEnum):
    """Types of conditions, of all kinds."""

    READY = "Ready"
    # Cluster and Machine
    INFRASTRUCTURE_READY = "InfrastructureReady"
    # Cluster
    CONTROL_PLANE_READY = "ControlPlaneReady"
    CONTROL_PLANE_INITIALIZED = "ControlPlaneInitialized"
    TOPOLOGY_RECONCILED = "TopologyReconciled"
    CERTIFICATE_AUTHORITY_VERIFIED = "CertificateAuthorityVerified"
    # Everything with a finalizer of ours; True while it is being deleted, with what is waited for
    DELETING = "Deleting"
    # Machine
    BOOTSTRAP_READY = "BootstrapReady"
    NODE_HEALTHY = "NodeHealthy"
    HEALTH_CHECK_SUCCEEDED = "HealthCheckSucceeded"
    OWNER_REMEDIATED = "OwnerRemediated"
    DRAINING_SUCCEEDED = "DrainingSucceeded"
    VOLUME_DETACH_SUCCEEDED = "VolumeDetachSucceeded"
    PRE_DRAIN_HOOK_SUCCEEDED = "PreDrainDeleteHookSucceeded"
    PRE_TERMINATE_HOOK_SUCCEEDED = "PreTerminateDeleteHookSucceeded"
    # MachineSet
    MACHINES_CREATED = "MachinesCreated"
    MACHINES_READY = "MachinesReady"
    RESIZED = "Resized"
    # MachineDeployment
    AVAILABLE = "Available"
    MACHINE_SET_READY = "MachineSetReady"
    # MachineHealthCheck
    REMEDIATION_ALLOWED = "RemediationAllowed"
    EXTERNAL_REMEDIATION_TEMPLATE_AVAILABLE = "ExternalRemediationTemplateAvailable"
    EXTERNAL_REMEDIATION_REQUEST_AVAILABLE = "ExternalRemediationRequestAvailable"
    # KubeadmConfig
    DATA_SECRET_AVAILABLE = "DataSecretAvailable"
    CERTIFICATES_AVAILABLE = "CertificatesAvailable"


class Reason(StrEnum):
    """Why a condition is False or Unknown."""

    DELETING = "Deleting"
    DELETED = "Deleted"
    DELETION_FAILED = "DeletionFailed"
    INCORRECT_EXTERNAL_REF = "IncorrectExternalRef"
    # Cluster and Machine
    WAITING_FOR_INFRASTRUCTURE = "WaitingForInfrastructure"
    # Cluster
    WAITING_FOR_CONTROL_PLANE = "WaitingForControlPlane"
    WAITING_FOR_CONTROL_PLANE_PROVIDER_INITIALIZED = "WaitingForControlPlaneProviderInitialized"
    MISSING_NODE_REF = "MissingNodeRef"
    TOPOLOGY_RECONCILE_FAILED = "TopologyReconcileFailed"
    CERTIFICATE_AUTHORITY_DIFFERS = "CertificateAuthorityDiffers"
    # Cluster, while it is being deleted
    WAITING_FOR_WORKERS_DELETION = "WaitingForWorkersDeletion"
    WAITING_FOR_CONTROL_PLANE_DELETION = "WaitingForControlPlaneDeletion"
    WAITING_FOR_INFRASTRUCTURE_DELETION = "WaitingForInfrastructureDeletion"
    DELETION_COMPLETED = "DeletionCompleted"
    # Machine, while it is being deleted
    WAITING_FOR_PRE_DRAIN_HOOK = "WaitingForPreDrainHook"
    DRAINING_NODE = "DrainingNode"
    WAITING_FOR_PRE_TERMINATE_HOOK = "WaitingForPreTerminateHook"
    WAITING_FOR_BOOTSTRAP_DELETION = "WaitingForBootstrapDeletion"
    DELETING_NODE = "DeletingNode"
    # Machine
    WAITING_FOR_DATA_SECRET = "WaitingForDataSecret"
    WAITING_FOR_NODE_REF = "WaitingForNodeRef"
    NODE_PROVISIONING = "NodeProvisioning"
    NODE_NOT_FOUND = "NodeNotFound"
    NODE_CONDITIONS_FAILED = "NodeConditionsFailed"
    NODE_INSPECTION_FAILED = "NodeInspectionFailed"
    MACHINE_HAS_FAILURE = "MachineHasFailure"
    NODE_STARTUP_TIMEOUT = "NodeStartupTimeout"
    UNHEALTHY_NODE = "UnhealthyNode"
    HAS_REMEDIATE_MACHINE_ANNOTATION = "HasRemediateMachineAnnotation"
    WAITING_FOR_REMEDIATION = "WaitingForRemediation"
    REMEDIATION_IN_PROGRESS = "RemediationInProgress"
    REMEDIATION_FAILED = "RemediationFailed"
    DRAINING = "Draining"
    DRAINING_FAILED = "DrainingFailed"
    WAITING_FOR_VOLUME_DETACH = "WaitingForVolumeDetach"
    WAITING_EXTERNAL_HOOK = "WaitingExternalHook"
    # MachineSet
    PREFLIGHT_CHECK_FAILED = "PreflightCheckFailed"
    BOOTSTRAP_TEMPLATE_CLONING_FAILED = "BootstrapTemplateCloningFailed"
    INFRASTRUCTURE_TEMPLATE_CLONING_FAILED = "InfrastructureTemplateCloningFailed"
    MACHINE_CREATION_FAILED = "MachineCreationFailed"
    SCALING_UP = "ScalingUp"
    SCALING_DOWN = "ScalingDown"
    # MachineDeployment
    WAITING_FOR_AVAILABLE_MACHINES = "WaitingForAvailableMachines"
    WAITING_FOR_MACHINE_SET = "WaitingForMachineSet"
    # MachineHealthCheck
    CLUSTER_NOT_FOUND = "ClusterNotFound"
    TOO_MANY_UNHEALTHY = "TooManyUnhealthy"
    TOO_FEW_UNHEALTHY = "TooFewUnhealthy"
    EXTERNAL_REMEDIATION_TEMPLATE_NOT_FOUND = "ExternalRemediationTemplateNotFound"
    EXTERNAL_REMEDIATION_REQUEST_CREATION_FAILED = "ExternalRemediationRequestCreationFailed"
    # KubeadmConfig
    WAITING_FOR_CLUSTER_INFRASTRUCTURE = "WaitingForClusterInfrastructure"
    WAITING_FOR_CONTROL_PLANE_AVAILABLE = "WaitingForControlPlaneAvailable"
    DATA_SECRET_GENERATION_FAILED = "DataSecretGenerationFailed"
    CERTIFICATES_GENERATION_FAILED = "CertificatesGenerationFailed"
    CERTIFICATES_CORRUPTED = "CertificatesCorrupted"


class EventReason(StrEnum):
    """Reasons of events."""

    # Machine
    SET_NODE_REF = "SuccessfulSetNodeRef"
    SET_INTERRUPTIBLE_LABEL = "SuccessfulSetInterruptibleNodeLabel"
    NODE_LOOKUP_FAILED = "Failed to retrieve Node by ProviderID"
    DRAINED_NODE = "SuccessfulDrainNode"
    FAILED_DRAIN_NODE = "FailedDrainNode"
    NODE_VOLUMES_DETACHED = "NodeVolumesDetached"
    FAILED_WAIT_FOR_VOLUME_DETACH = "FailedWaitForVolumeDetach"
    FAILED_DELETE_NODE = "FailedDeleteNode"
    # Cluster, beside its phases
    INFRASTRUCTURE_READY = "InfrastructureReady"
    CONTROL_PLANE_READY = "ControlPlaneReady"
    DELETED = "Deleted"
    # MachineSet and MachineDeployment
    SUCCESSFUL_CREATE = "SuccessfulCreate"
    FAILED_CREATE = "FailedCreate"
    SUCCESSFUL_DELETE = "SuccessfulDelete"
    FAILED_DELETE = "FailedDelete"
    SUCCESSFUL_ADOPT = "SuccessfulAdopt"
    FAILED_ADOPT = "FailedAdopt"
    SUCCESSFUL_SCALE = "SuccessfulScale"
    FAILED_SCALE = "FailedScale"
    FAILED_UPDATE = "FailedUpdate"
    RECONCILE_ERROR = "ReconcileError"
    # MachineHealthCheck
    DETECTED_UNHEALTHY = "DetectedUnhealthy"
    MARKED_UNHEALTHY = "MachineMarkedUnhealthy"
    REMEDIATION_RESTRICTED = "RemediationRestricted"


READY = "Ready"
PAUSED = "Paused"
"""Of our kinds of control planes: it exists only while the object is paused."""
TRUE, FALSE, UNKNOWN = STATUSES = "True", "False", "Unknown"
ERROR, WARNING, INFO = "Error", "Warning", "Info"

Conditions = tuple[Condition, ...]


def true_condition(condition_type: str) -> Condition:
    """A condition of this type with status True."""
    return Condition(type=condition_type, status=TRUE)


def false_condition(condition_type: str, reason: str, severity: str, message: str = "") -> Condition:
    """A condition of this type with status False."""
    return Condition(type=condition_type, status=FALSE, severity=severity, reason=reason, message=message)


def unknown_condition(condition_type: str, reason: str, message: str = "") -> Condition:
    """A condition of this type with status Unknown."""
    return Condition(type=condition_type, status=UNKNOWN, reason=reason, message=message)


def same_state(one: Condition, other: Condition) -> bool:
    """Whether two conditions are equal but for their times."""
    return structs.replace(one, last_transition_time=None) == structs.replace(
        other, last_transition_time=None
    )


def with_conditions(
    conditions: Iterable[Condition], wanted: Iterable[Condition], now: datetime
) -> Conditions:
    """The conditions with each of ``wanted`` in place of the one of its type, in the order of ``in_order``.

    A condition that changes gets the time ``now``. One of a type that was not there keeps its own time, if it
    has one: a mirrored condition is as old as its source.
    """
    found = {each.type: each for each in conditions}
    for each in wanted:
        new = each if each.status == FALSE else structs.replace(each, severity="")
        old = found.get(new.type)
        if old is None:
            at = new.last_transition_time or now
        else:
            at = (old.last_transition_time or now) if same_state(old, new) else now
        found[new.type] = structs.replace(new, last_transition_time=at)
    return in_order(found.values())


def in_order(conditions: Iterable[Condition]) -> Conditions:
    """Ready first, the rest by type."""
    return tuple(sorted(conditions, key=_order))


class Source(NamedTuple):
    """One object whose condition takes part in an aggregate; None if it has none."""

    kind: str
    name: str
    condition: Condition | None


def summary(
    conditions: Iterable[Condition],
    types: tuple[str, ...],
    *,
    steps: tuple[str, ...] = (),
    target: str = READY,
) -> Condition | None:
    """One condition of type ``target`` for those of these types; None if there is none of them.

    ``steps`` are types that become True one after the other: while no other of ``types`` is there, the
    message of a summary that is not True is ``1 of 2 completed``.
    """
    scope = [each for each in conditions if each.type in types and each.type != target]
    if not scope:
        return None
    top = min(_priority(each) for each in scope)
    first = min((each for each in scope if _priority(each) == top), key=lambda each: types.index(each.type))
    message = first.message
    if steps and all(each.type in steps for each in scope):
        message = _completed(scope, len(steps))
    return _condition_like(target, first, first.reason, message)


def aggregate(target: str, sources: Iterable[Source], *, counted: bool = False) -> Condition | None:
    """One condition of type ``target`` for those of several objects; None if none of them has one.

    The reason says where it comes from (``NodeNotFound @ Machine/worker-3``) unless it says so already.
    ``counted`` makes the message ``3 of 5 completed``.
    """
    every = list(sources)
    there = [(each.condition, each.name, each.kind) for each in every if each.condition is not None]
    if not there:
        return None
    first, name, kind = min(there, key=lambda each: (_priority(each[0]), each[1], each[2]))
    reason = first.reason if "@" in first.reason else f"{first.reason} @ {kind}/{name}"
    message = _completed([each for each, _, _ in there], len(every)) if counted else first.message
    return _condition_like(target, first, reason, message)


def mirror(target: str, source: Condition | None, fallback: Condition | None = None) -> Condition | None:
    """The condition Ready of another object, as a condition of type ``target``.

    Without a source it is ``fallback``. A False without a severity (``metav1.Condition`` has none) takes the
    fallback's.
    """
    if source is None:
        return None if fallback is None else structs.replace(fallback, type=target)
    severity = source.severity or (fallback.severity if fallback is not None else "") or INFO
    return structs.replace(source, type=target, severity=severity if source.status == FALSE else "")


def ready_of(external: Mapping[str, Json] | None) -> Condition | None:
    """The condition Ready of an object of any kind, which is plain JSON; None where none can be read."""
    status = external.get("status") if external is not None else None
    listed = status.get("conditions") if isinstance(status, Mapping) else None
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, Mapping) and each.get("type") == READY and each.get("status") in STATUSES:
            return Condition(
                type=READY,
                status=each["status"],
                severity=_text(each, "severity"),
                reason=_text(each, "reason"),
                message=_text(each, "message"),
                last_transition_time=_time(each),
            )
    return None


def _condition_like(target: str, first: Condition, reason: str, message: str) -> Condition:
    if first.status == TRUE:
        return true_condition(target)
    severity = (first.severity or ERROR) if first.status == FALSE else ""
    return Condition(type=target, status=first.status, severity=severity, reason=reason, message=message)


def _priority(condition: Condition) -> int:
    """0 is the highest priority. A False without a severity counts as an Error."""
    if condition.status == FALSE:
        return {WARNING: 1, INFO: 2}.get(condition.severity, 0)
    return 3 if condition.status == TRUE else 4


def _completed(conditions: list[Condition], of: int) -> str:
    return f"{sum(each.status == TRUE for each in conditions)} of {of} completed"


def _order(condition: Condition) -> tuple[bool, str]:
    return condition.type != READY, condition.type


def _text(condition: Mapping[str, Json], key: str) -> str:
    found = condition.get(key)
    return found if isinstance(found, str) else ""


def _time(condition: Mapping[str, Json]) -> datetime | None:
    try:
        return parse_rfc3339(_text(condition, "lastTransitionTime"))
    except ValueError:
        return None
