"""Every string of the machine API that other programs parse, with its reader and writer.

Theory.      Labels, annotations, taints, finalizers, phases and reasons are a contract with
             cluster-autoscaler, Gardener, dashboards and MCM beside us. They stand
             here once; code elsewhere uses the names, and the readers where a value has a form.
             Three parties mark a node for an update in place, and each mark has one writer: a deployment's
             controller or a user labels it as a candidate and as selected, the machine's controller answers
             with reasons of the node's condition ``InPlaceUpdate``, the agent on the node labels it with the
             result.
Invariants.  A reader never raises: what it cannot read counts as absent, because a user may
             have typed it.
"""

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum

from kubewright.api.meta import integer
from kubewright.base.durations import parse_duration

# Labels
NODE_LABEL = "node"
"""On a Machine: the name of its node."""
DEPLOYMENT_NAME_LABEL = "name"
"""On a Machine, by its template: the deployment's name, as Gardener labels it."""
TEMPLATE_HASH_LABEL = "machine-template-hash"
FREEZE_LABEL = "freeze"
FORCE_DELETION_LABEL = "force-deletion"
FORCE_DRAIN_LABEL = "force-drain"
MACHINE_NAME_LABEL = "node.gardener.cloud/machine-name"
"""On a Node: the name of its machine."""
SCALE_UP_DISABLED_LABEL = "node.machine.sapcloud.io/scale-up-disabled"

# Annotations
PRIORITY_ANNOTATION = "machinepriority.machine.sapcloud.io"
DEFAULT_PRIORITY = 3
TRIGGER_DELETION_ANNOTATION = "node.machine.sapcloud.io/trigger-deletion-by-mcm"
"""On a MachineDeployment: see ``triggered_deletions``. On a Node: see ``deletion_triggered``."""
MARKED_FOR_DELETION_TIME_ANNOTATION = "machine.sapcloud.io/marked-for-deletion-time"
LAST_SCALER_CHANGE_ANNOTATION = "machine.sapcloud.io/last-deployment-replica-change-by-scaler-time"
REVISION_ANNOTATION = "deployment.kubernetes.io/revision"
REVISION_HISTORY_ANNOTATION = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS_ANNOTATION = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS_ANNOTATION = "deployment.kubernetes.io/max-replicas"
PREFER_NO_SCHEDULE = "deployment.machine.sapcloud.io/prefer-no-schedule"
"""Annotation on a MachineSet and key of the taint on its nodes."""
UNFREEZE_ANNOTATION = "safety.machine.sapcloud.io/unfreeze"
EFFECTIVE_CREATION_TIMEOUT_ANNOTATION = "node.machine.sapcloud.io/effective-creation-timeout"
LAST_APPLIED_ANNOTATION = "node.machine.sapcloud.io/last-applied-anno-labels-taints"
LAST_APPLIED_CAPACITY_ANNOTATION = "node.machine.sapcloud.io/last-applied-virtual-capacity"
"""On a Node: JSON of the class's virtualCapacity as it was written last."""
NOT_MANAGED_ANNOTATION = "node.machine.sapcloud.io/not-managed-by-mcm"
ORPHAN_OF_ANNOTATION = "kubewright.dev/orphan-of-class"
"""On a Node, ours: no machine wants its VM, which is being deleted by the class of this namespace/name."""
APPLIED_SPEC_ANNOTATION = "last-applied-providerspec"
"""On a Machine: JSON of the providerSpec that its VM has, as it was applied last (HOT-03)."""
APPLIED_CLASS_ANNOTATION = "kubewright.dev/last-applied-class"
"""On a Machine, ours: the name of the class of that providerSpec."""
UPDATE_ANNOTATION = "inflight-providerspec-hash"
"""On a Machine: an update of its VM has begun, to the providerSpec of this hash, and is not done yet."""
UPDATE_SPEC_ANNOTATION = "kubewright.dev/inflight-providerspec"
"""On a Machine, ours: JSON of all that updates may have put on its VM since the last one that succeeded."""
NUMBER_ANNOTATION = "kubewright.dev/number"
"""On a Machine, ours: which of its set's machines it is, counted from 1; its name says the same."""
LAST_NUMBER_ANNOTATION = "kubewright.dev/last-number"
"""On a MachineSet, ours: the highest number that a machine of it ever had, as far as none shows it."""
MAX_REPLACEMENTS_ANNOTATION = "kubewright.dev/max-replacements"
"""On a MachineDeployment, ours, and copied onto its sets: how many of its machines may be replaced for bad
health at the same time, a number or a percentage."""
MIGRATED_ANNOTATION = "machine.sapcloud.io/migrated"
"""On a class of an old kind: there is a MachineClass in its place (MCM's words, MIG-02)."""
MIGRATED_FROM_ANNOTATION = "kubewright.dev/migrated-from"
"""On a MachineClass, ours: the kind of the old class of the same name that it was made of."""
PRESERVE_ANNOTATION = "node.machine.sapcloud.io/preserve"
LAST_APPLIED_PRESERVE_ANNOTATION = "node.machine.sapcloud.io/last-applied-node-preserve-value"
SCALE_DOWN_DISABLED_ANNOTATION = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
SCALE_DOWN_DISABLED_BY_US_ANNOTATION = "cluster-autoscaler.kubernetes.io/scale-down-disabled-by-mcm"
LAST_APPLIED_CONFIG_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"

# Finalizers
FINALIZER = "machine.sapcloud.io/machine-controller-manager"
"""On Machine, MachineSet, MachineDeployment and MachineClass."""
SECRET_FINALIZER = "machine.sapcloud.io/machine-controller"  # a finalizer, no secret
NODE_FINALIZER = "node.machine.sapcloud.io/machine-controller"

# Taints
CRITICAL_COMPONENTS_TAINT = "node.gardener.cloud/critical-components-not-ready"
"""While a node has it, its machine does not become Running, unless it is Unknown."""
INSTANCE_NOT_READY_TAINT = "node.machine.sapcloud.io/instance-not-ready"
"""Kubelets register with it (``--register-with-taints``); taken off when the machine becomes Running."""
PRESERVED_TAINT = "node.machine.sapcloud.io/preserved"

TRUE = "True"
"""The value of freeze, force and taint markers."""


class Phase(StrEnum):
    """Where a machine is in its life (docs/reference/machine-phases.md)."""

    NONE = ""
    """Not looked at yet, or the VM has only just been asked for."""
    PENDING = "Pending"
    """The VM is being created, or exists and its node has not joined."""
    AVAILABLE = "Available"
    """The VM exists and there is no target cluster: the final state then."""
    RUNNING = "Running"
    """The node has joined and is healthy."""
    UNKNOWN = "Unknown"
    """The node is unhealthy or gone; the health timeout is running."""
    FAILED = "Failed"
    """To be replaced."""
    CRASH_LOOP_BACK_OFF = "CrashLoopBackOff"
    """Making the VM fails and is tried again."""
    TERMINATING = "Terminating"
    """Being deleted."""
    IN_PLACE_UPDATING = "InPlaceUpdating"
    IN_PLACE_UPDATE_SUCCESSFUL = "InPlaceUpdateSuccessful"
    IN_PLACE_UPDATE_FAILED = "InPlaceUpdateFailed"


class OperationState(StrEnum):
    """How the last operation on a machine goes."""

    PROCESSING = "Processing"
    FAILED = "Failed"
    SUCCESSFUL = "Successful"


class OperationType(StrEnum):
    """What the last operation on a machine is."""

    CREATE = "Create"
    UPDATE = "Update"
    IN_PLACE_UPDATE = "InPlaceUpdate"
    DRAIN_NODE = "DrainNode"  # before an update in place
    HEALTH_CHECK = "HealthCheck"
    DELETE = "Delete"


class StrategyType(StrEnum):
    """How a deployment replaces machines."""

    ROLLING_UPDATE = "RollingUpdate"
    RECREATE = "Recreate"
    IN_PLACE_UPDATE = "InPlaceUpdate"


class Orchestration(StrEnum):
    """Who chooses the machines of an in-place update."""

    AUTO = "Auto"
    MANUAL = "Manual"


class NodeConditionType(StrEnum):
    """Node conditions: those we write, and those we look for by name, beside Ready (HEA-03, DRA-15)."""

    READONLY_FILESYSTEM = "ReadonlyFilesystem"
    TERMINATING = "Terminating"
    IN_PLACE_UPDATE = "InPlaceUpdate"
    PRESERVED = "Preserved"
    DRAIN_FAILED = "DrainFailed"
    """Ours: waiting does not end the drain, and the message says which pod, budget or volume holds it up."""


REASONED_CONDITIONS = (NodeConditionType.IN_PLACE_UPDATE,)
"""Node conditions of which a new reason is a change, as a new status is one of all others (HEA-06)."""


class TerminatingReason(StrEnum):
    """Why a node is ``Terminating``; ``message`` is the sentence that goes with it."""

    SCALE_DOWN = "ScaleDown"
    UNHEALTHY = "Unhealthy"

    @property
    def message(self) -> str:
        """The condition's message."""
        if self is TerminatingReason.UNHEALTHY:
            return "Machine Controller is terminating failed machine"
        return "Machine Controller is scaling down machine"


class Preserve(StrEnum):
    """What ``PRESERVE_ANNOTATION`` asks for (PRE-02)."""

    NOW = "now"
    WHEN_FAILED = "when-failed"
    AUTO = "auto-preserved"
    """Written by the set's controller: a Failed machine is kept that no user asked to keep."""
    FALSE = "false"


class PreservedReason(StrEnum):
    """Reasons of the node condition ``Preserved``."""

    BY_US = "Preserved by MCM."
    BY_USER = "Preserved by user."
    STOPPED = "Preservation stopped."


DEFAULT_NODE_CONDITIONS = ("KernelDeadlock", "ReadonlyFilesystem", "DiskPressure", "NetworkUnavailable")
"""Condition types that make a machine unhealthy unless False, when neither it nor a flag says otherwise."""


CLASS_ACCEPTED = "Accepted"
"""The condition of a MachineClass, ours: whether its driver would make machines of it. Its reason is a word
of ``ClassReason`` or the code of the driver's error."""


class ClassReason(StrEnum):
    """Reasons of that condition beside the codes of drivers."""

    ACCEPTED = "Accepted"
    INVALID_CLASS = "InvalidClass"
    SECRET_MISSING = "SecretMissing"


CLASS_APPLIED = "Applied"
"""The condition of a MachineClass, ours: whether the VMs of its machines have what it says by now. Its reason
is a word of ``NotApplied``."""


class NotApplied(StrEnum):
    """Why VMs lack what their class says."""

    FIXED_FIELDS = "FixedFieldsDiffer"
    """The driver cannot change these fields of a VM that runs."""
    NO_UPDATES = "NoUpdates"
    """The driver changes no VM that runs."""
    TOO_LARGE = "TooLarge"
    """The providerSpec cannot be noted on a machine, so what its VM has is not known."""
    OTHER_CLASS = "OtherClass"
    """The VM was made by another class."""


class ConditionType(StrEnum):
    """Conditions of MachineSets and MachineDeployments."""

    AVAILABLE = "Available"
    PROGRESSING = "Progressing"
    REPLICA_FAILURE = "ReplicaFailure"
    FROZEN = "Frozen"
    RESOURCE_EXHAUSTED = "ResourceExhausted"  # ours: the cloud has no more VMs of a class


class ConditionReason(StrEnum):
    """Reasons of those conditions (DEP-13)."""

    MINIMUM_REPLICAS_AVAILABLE = "MinimumReplicasAvailable"
    MINIMUM_REPLICAS_UNAVAILABLE = "MinimumReplicasUnavailable"
    NEW_MACHINE_SET_CREATED = "NewMachineSetCreated"
    FOUND_NEW_MACHINE_SET = "FoundNewMachineSet"
    MACHINE_SET_UPDATED = "MachineSetUpdated"
    NEW_MACHINE_SET_AVAILABLE = "NewMachineSetAvailable"
    PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded"
    MACHINE_SET_CREATE_ERROR = "MachineSetCreateError"
    DEPLOYMENT_PAUSED = "DeploymentPaused"
    DEPLOYMENT_RESUMED = "DeploymentResumed"
    FAILED_CREATE = "FailedCreate"
    FAILED_DELETE = "FailedDelete"
    OVERSHOOTING = "OverShootingReplicaCount"
    FREEZE_LABEL = "FreezeLabel"
    """Ours: the label ``freeze`` stands on the set, a user or a controller put it there."""


class EventReason(StrEnum):
    """Reasons of events on MachineSets and MachineDeployments; those on others are ours."""

    SUCCESSFUL_CREATE = "SuccessfulCreate"
    FAILED_CREATE = "FailedCreate"
    SUCCESSFUL_DELETE = "SuccessfulDelete"
    FAILED_DELETE = "FailedDelete"
    SCALING_MACHINE_SET = "ScalingMachineSet"
    MACHINE_SET_CREATE_ERROR = "MachineSetCreateError"
    SELECTING_ALL = "SelectingAll"
    ROLLBACK_REVISION_NOT_FOUND = "DeploymentRollbackRevisionNotFound"
    ROLLBACK_TEMPLATE_UNCHANGED = "DeploymentRollbackTemplateUnchanged"
    ROLLBACK = "DeploymentRollback"
    FROZE_MACHINE_SET = "FrozeMachineSet"
    UNFROZE_MACHINE_SET = "UnfrozeMachineSet"
    ORPHAN_DELETED = "OrphanDeleted"
    FAILED_ORPHAN_DELETE = "FailedOrphanDelete"
    FAILED_LIST_VMS = "FailedListVMs"
    DELETION_TRIGGERED = "DeletionTriggered"
    PRESERVED = "MachinePreserved"
    PRESERVATION_ENDED = "PreservationEnded"
    INVALID_PRESERVE = "InvalidPreserveAnnotation"
    DRAIN_HELD = "DrainHeld"
    FAILED_DRAIN = "FailedDrain"
    FAILED_VALIDATION = "FailedValidation"
    FAILED_CREATE_VM = "FailedCreateVM"
    FAILED_DELETE_VM = "FailedDeleteVM"
    FAILED_NODE_SYNC = "FailedNodeSync"
    """An API server refuses the labels, annotations or taints that the node should have."""
    FAILED_UPDATE = "FailedUpdate"
    """An API server refuses another write."""
    FAILED_READ = "FailedRead"
    """An API server does not let us see what a decision needs."""
    CREATING_VM = "CreatingVM"
    VM_CREATED = "VMCreated"
    JOINED = "Joined"
    MACHINE_UNKNOWN = "MachineUnknown"
    REPLACEMENT_HELD = "ReplacementHeld"
    RECOVERED = "Recovered"
    DRAINING = "Draining"
    VM_DELETED = "VMDeleted"
    DELETED = "Deleted"
    MACHINE_FAILED = "MachineFailed"
    BOOT_FAILED = "BootFailed"
    UPDATING_IN_PLACE = "UpdatingInPlace"
    UPDATED_IN_PLACE = "UpdatedInPlace"
    FAILED_IN_PLACE_UPDATE = "FailedInPlaceUpdate"
    VM_LEFT_BEHIND = "VMLeftBehind"
    UPDATING_VM = "UpdatingVM"
    VM_UPDATED = "VMUpdated"
    FAILED_UPDATE_VM = "FailedUpdateVM"
    CLASS_NOT_APPLIED = "ClassNotApplied"
    """VMs lack what their class says by now: its driver cannot give it to VMs that run."""
    MIGRATED = "Migrated"
    """A MachineClass was made of a class of an old kind."""
    FAILED_MIGRATION = "FailedMigration"


SETS_LEASE = "machine-controller-manager"
"""The Lease under which one process keeps deployments and sets, be it MCM's or ours (INS-03)."""
MACHINES_LEASE = "machine-controller"
"""The same for machines, and what they need."""

MACHINE_SET_COMPONENT = "machineset-controller"
"""Who the events on MachineSets come from."""
DEPLOYMENT_COMPONENT = "machine-controller-manager"
"""Who the events on MachineDeployments come from."""


# Readers and writers
def node_name(labels: Mapping[str, str]) -> str:
    """The node of a machine, by its labels; empty while unknown."""
    return labels.get(NODE_LABEL, "")


def force_deletion(labels: Mapping[str, str]) -> bool:
    """A user asks to delete the machine whatever its pods do: any spelling of true counts."""
    return labels.get(FORCE_DELETION_LABEL, "").lower() in ("1", "t", "true")


def deletion_triggered(annotations: Mapping[str, str]) -> bool:
    """A Node's annotations ask to delete its machine: ``"true"`` and nothing else."""
    return annotations.get(TRIGGER_DELETION_ANNOTATION) == "true"


def force_drain(labels: Mapping[str, str]) -> bool:
    """A user asks to empty the node of a living machine whatever its pods do."""
    return labels.get(FORCE_DRAIN_LABEL) == TRUE


def frozen(labels: Mapping[str, str]) -> bool:
    """Whether the label ``freeze`` stops a set from making machines; a user or a controller wrote it."""
    return labels.get(FREEZE_LABEL) == TRUE


def priority(annotations: Mapping[str, str]) -> int:
    """A machine's deletion priority: the lowest is deleted first; 3 when absent or no integer."""
    return integer(annotations, PRIORITY_ANNOTATION, DEFAULT_PRIORITY)


def triggered_deletions(annotations: Mapping[str, str]) -> dict[str, str]:
    """The machines of a deployment that cluster-autoscaler wants deleted: name to RFC 3339 time.

    The form is ``m1~2030-01-01T00:00:00Z,m2~...``; older autoscalers leave the times out.
    """
    entries = annotations.get(TRIGGER_DELETION_ANNOTATION, "").split(",")
    pairs = (entry.strip().partition("~") for entry in entries)
    return {name: moment for name, _, moment in pairs if name}


def format_triggered_deletions(names: Mapping[str, str]) -> str:
    """Write what ``triggered_deletions`` reads."""
    return ",".join(f"{name}~{moment}" if moment else name for name, moment in names.items())


def number(annotations: Mapping[str, str]) -> int:
    """Which of its set's machines a machine says that it is; 0 when it does not say."""
    return integer(annotations, NUMBER_ANNOTATION)


def creation_timeout_override(annotations: Mapping[str, str]) -> timedelta | None:
    """The creation timeout that an annotation gives a machine; None when absent or unreadable."""
    try:
        return parse_duration(annotations[EFFECTIVE_CREATION_TIMEOUT_ANNOTATION])
    except (KeyError, ValueError):
        return None


def condition_list(text: str) -> tuple[str, ...]:
    """The types in ``spec.nodeConditions`` or the flag of that name; blanks around commas do not count."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_preserve(value: str) -> Preserve | None:
    """What a preserve annotation asks for; None when it is empty or cannot be read."""
    return Preserve(value) if value in set(Preserve) else None


CANDIDATE_LABEL = "node.machine.sapcloud.io/candidate-for-update"
"""On a Node: its machine is of an older template, and the node may be updated in place."""
SELECTED_LABEL = "node.machine.sapcloud.io/selected-for-update"
"""On a Node: it is to be updated now. Its presence counts, whatever the value."""
UPDATE_RESULT_LABEL = "node.machine.sapcloud.io/update-result"
"""On a Node: how its update in place ended, one of ``UpdateResult``; the agent on the node writes it. On a
Machine: it was updated and moved to another set, whose size may not count it yet."""
UPDATE_FAILED_REASON_ANNOTATION = "node.machine.sapcloud.io/update-failed-reason"
"""On a Node: why its update in place failed, in the words of the agent on the node."""
UPDATE_AIM_ANNOTATION = "kubewright.dev/update-aim"
"""On a Node: the hash of the template that the controller selected it for; none if a user selected it."""
SCALE_UP_DISABLED_BY_US = "in-place-update"
"""Our value of the label that keeps an old set from creating machines; a user or MCM writes another one."""


class UpdateReason(StrEnum):
    """How far a node is in its update in place: reasons of its condition ``InPlaceUpdate`` (INP-01)."""

    CANDIDATE = "CandidateForUpdate"
    SELECTED = "SelectedForUpdate"
    DRAINED = "DrainSuccessful"
    READY = "ReadyForUpdate"
    SUCCESSFUL = "UpdateSuccessful"
    FAILED = "UpdateFailed"


UNFINISHED = (UpdateReason.DRAINED, UpdateReason.READY, UpdateReason.FAILED)
"""The node was emptied for an update that has not succeeded."""


class UpdateResult(StrEnum):
    """What the agent on a node says of an update in place: values of ``UPDATE_RESULT_LABEL``."""

    SUCCESSFUL = "successful"
    FAILED = "failed"


def update_result(labels: Mapping[str, str]) -> UpdateResult | None:
    """How the update of a node ended, by its labels; None while it has not, or the value is unknown."""
    try:
        return UpdateResult(labels.get(UPDATE_RESULT_LABEL, ""))
    except ValueError:
        return None
