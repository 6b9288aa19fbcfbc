"""What controllers of control planes report: types and reasons of conditions, reasons of events.

Theory.      Conditions say where a component is held up: each step of its way has one, and Ready sums up.
Source       nested.md A10.
Called by    the controllers of components and of control planes.
"""

from enum import StrEnum

COMPONENT_REPORTER = "nestedcomponent-controller"
"""The reporting component of events about components."""
PLANE_REPORTER = "nestedcontrolplane-controller"
USER_REPORTER = "controlplaneuser-controller"
CLUSTER_REPORTER = "nestedcluster-controller"
"""Those of events about control planes, and about their infrastructure."""
SNAPSHOT_REPORTER = "controlplanesnapshot-controller"
SCHEDULE_REPORTER = "controlplanesnapshotschedule-controller"
RESTORE_REPORTER = "controlplanerestore-controller"
"""Those of events about snapshots, their schedules, and restores."""


class ComponentCondition(StrEnum):
    """Types of conditions of a component beside Ready, in the order of its way."""

    TEMPLATE_RESOLVED = "TemplateResolved"
    """A set of templates was found for its version or channel, and it may have that version."""
    DEPENDENCIES_READY = "DependenciesReady"
    """What it needs to run is ready: etcd for the API server, that one for the controller manager."""
    CERTIFICATES_READY = "CertificatesReady"
    """Its certificates and kubeconfigs are there and good."""
    PATCHES_APPLIED = "PatchesApplied"
    """Flags, patches and files of its spec could be applied."""
    WORKLOAD_AVAILABLE = "WorkloadAvailable"
    """All its instances are as the spec wants them, and ready."""
    AUTHORITIES_ROTATED = "AuthoritiesRotated"
    """No authority that it makes is being replaced, or should be. Only while one is, and from then on."""


class PlaneCondition(StrEnum):
    """Types of conditions of a control plane beside Ready; the last five are there only while they hold."""

    AVAILABLE = "Available"
    """Its API server can be used, wherever its etcd is."""
    CERTIFICATES_AVAILABLE = "CertificatesAvailable"
    ETCD_AVAILABLE = "EtcdAvailable"
    API_SERVER_AVAILABLE = "APIServerAvailable"
    CONTROLLER_MANAGER_AVAILABLE = "ControllerManagerAvailable"
    ENDPOINT_AVAILABLE = "EndpointAvailable"
    KUBECONFIG_AVAILABLE = "KubeconfigAvailable"
    UP_TO_DATE = "UpToDate"
    """All components run as their specs say."""

    COMPONENT_CONFLICT = "ComponentConflict"
    """It names a component that another object controls."""
    ROLLING_OUT = "RollingOut"
    ROTATING_CERTIFICATES = "RotatingCertificates"
    """An authority is being replaced, or cannot be; the message says how far that is."""
    SLEEPING = "Sleeping"
    DELETING = "Deleting"


class Reason(StrEnum):
    """Why a condition of a component or a control plane is not True."""

    WAITING_FOR_OWNER = "WaitingForOwner"
    WAITING_FOR_DEPENDENCY = "WaitingForDependency"
    WAITING_FOR_CERTIFICATES = "WaitingForCertificates"
    TRUSTING_BOTH = "TrustingBoth"
    """An old authority signs, and the components are given the new one beside it."""
    SIGNING_WITH_NEW = "SigningWithNew"
    """A new authority signs, and the old one is trusted until nothing is left of it."""
    NOT_OURS = "NotOurs"
    """An authority is a user's, and never written."""
    WAITING_FOR_FILES = "WaitingForFiles"
    INVALID_CONFIGURATION = "InvalidConfiguration"
    NO_TEMPLATES = "NoTemplates"
    VERSION_REFUSED = "VersionRefused"
    CANNOT_BE_APPLIED = "CannotBeApplied"
    CANNOT_RUN_HERE = "CannotRunHere"
    FAILED_TO_APPLY = "FailedToApply"
    PROVISIONING = "Provisioning"
    ROLLING_OUT = "RollingOut"
    SCALING = "Scaling"
    NOT_READY = "NotReady"
    SLEEPING = "Sleeping"
    DELETING = "Deleting"
    NO_COMPONENTS = "NoComponents"
    MISSING = "ComponentMissing"
    CONFLICT = "ComponentConflict"
    WAITING_FOR_ENDPOINT = "WaitingForEndpoint"
    WAITING_FOR_KUBECONFIG = "WaitingForKubeconfig"
    NOT_UP_TO_DATE = "NotUpToDate"
    WAITING_FOR_CONTROL_PLANE = "WaitingForControlPlane"


class EventReason(StrEnum):
    """Reasons of events about a component."""

    READY = "Ready"
    NOT_READY = "NotReady"
    APPLIED = "Applied"
    REPLACING = "ReplacingInstance"
    MEMBERS = "MembersChanged"
    SLEEPING = "Sleeping"
    PROBLEM = "Problem"
    CHANNEL_IGNORED = "ChannelIgnored"
