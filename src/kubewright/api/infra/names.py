"""Every string of our infrastructure provider that other programs parse.

Theory.      clusterctl finds a provider by the label of its CRDs; Cluster API mirrors the condition Ready of
             an infrastructure object, with its reason, into the Cluster or the Machine that owns it. So the
             reasons of conditions here are what ``kubectl get machine`` and ``clusterctl describe`` show.
Source       S0-36, S2-08, S2-11 (what is waited for, in this order).
Called by    ``infra``; the CRDs and roles of this API.
"""

from enum import StrEnum

PROVIDER = "infrastructure-kubewright"
"""The label ``cluster.x-k8s.io/provider`` of our CRDs."""

CLUSTER_FINALIZER = "kubewrightcluster.infrastructure.cluster.x-k8s.io"
MACHINE_FINALIZER = "kubewrightmachine.infrastructure.cluster.x-k8s.io"

CLOUD_OWNER_ANNOTATION = "kubewright.dev/cloud-owner"
"""On a KubewrightCluster or a KubewrightMachine: the owner that the cloud has for its VMs
(``driver.contract.owner_tag``). An object that clusterctl has moved has another uid, and keeps this."""

SECRET_FINALIZER = "infrastructure.cluster.x-k8s.io/kubewright-credentials"  # a finalizer, no secret
"""Of a Secret that a KubewrightCluster or KubewrightMachine names; for kinds of its own Kubernetes wants
one with a slash."""

LEASE = "controller-leader-election-kubewright-infrastructure"

CLUSTER_COMPONENT = "kubewrightcluster-controller"
MACHINE_COMPONENT = "kubewrightmachine-controller"
"""The reporting components of our events."""


class ConditionType(StrEnum):
    """Types of conditions beside Ready, which sums them up."""

    ENDPOINT_READY = "EndpointReady"
    """Of a KubewrightCluster: it is known where its API server is going to be."""

    ACCEPTED = "Accepted"
    """Of a KubewrightMachineTemplate: its driver would make machines of it. There is none while nothing has
    spoken against that. Unknown: what the driver must be told is not there."""

    VM_READY = "VMReady"
    """Of a KubewrightMachine: its VM exists and is complete."""

    BOOTSTRAPPED = "BootstrapExecSucceeded"
    """Of a KubewrightMachine: its VM has become a Node. There is none while that is not late."""


class ConditionReason(StrEnum):
    """Why a condition is not True."""

    WAITING_FOR_OWNER = "WaitingForOwner"
    WAITING_FOR_CLUSTER_INFRASTRUCTURE = "WaitingForClusterInfrastructure"
    WAITING_FOR_CREDENTIALS = "WaitingForCredentials"
    WAITING_FOR_BOOTSTRAP_DATA = "WaitingForBootstrapData"
    WAITING_FOR_ENDPOINT = "WaitingForEndpoint"
    WAITING_FOR_MACHINES = "WaitingForMachines"
    INVALID_CONFIGURATION = "InvalidConfiguration"
    CREATING_VM = "CreatingVM"
    VM_CREATION_FAILED = "VMCreationFailed"
    DELETING = "Deleting"
    VM_DELETION_FAILED = "VMDeletionFailed"
    ENDPOINT_FAILED = "EndpointFailed"
    NODE_MISSING = "NodeMissing"
    BOOT_FAILED = "BootFailed"


class EventReason(StrEnum):
    """Reasons of events."""

    VM_CREATED = "VMCreated"
    VM_DELETED = "VMDeleted"
    FAILED_CREATE_VM = "FailedCreateVM"
    FAILED_DELETE_VM = "FailedDeleteVM"
    FAILED_VALIDATION = "FailedValidation"
    FAILED_UPDATE = "FailedUpdate"
    VM_LEFT_BEHIND = "VMLeftBehind"
    NODE_MISSING = "NodeMissing"
    BOOT_FAILED = "BootFailed"
    ENDPOINT_KNOWN = "EndpointKnown"
    ENDPOINT_LEFT_BEHIND = "EndpointLeftBehind"
    ORPHAN_DELETED = "OrphanDeleted"
    FAILED_ORPHAN_DELETE = "FailedOrphanDelete"
