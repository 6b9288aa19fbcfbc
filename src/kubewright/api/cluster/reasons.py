"""What the controllers of Cluster API report: phases, types and reasons of conditions, reasons of events.

Theory.      Every type of condition has its reasons, and each reason a severity (capi.md §4.4);
             clusterctl, dashboards and providers compare these strings. ``conditions`` has the severities.
Invariants.  A phase is for people: no controller decides on it (S0-47).
Source       capi.md §2.2, §4.4, §4.6; seeds 000, 002.
Called by    the controllers of ``clusters``, ``bootstrap`` and ``infra``. ``names`` has the strings on
             objects.
"""

from enum import StrEnum

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
    """Types of conditions, of all kinds (capi.md §4.4)."""

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
    """Why a condition is False or Unknown (capi.md §4.4)."""

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
    """Reasons of events (capi.md §4.6)."""

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
