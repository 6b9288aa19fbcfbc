"""What controllers of control planes report: types and reasons of conditions, reasons of events.

Theory.      Each check that a component has to pass before it runs has a condition, so the conditions show
             where it is stopped; Ready sums up.
Source       nested.md A10.
Called by    the controllers in ``controlplanes``.
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
    """Types of conditions of a component beside Ready, in the order in which it passes them."""

    TEMPLATE_RESOLVED = "TemplateResolved"
    """There is a set of templates for its version or channel, and the component may have that version."""
    DEPENDENCIES_READY = "DependenciesReady"
    """What it needs is ready: etcd for the API server, the API server for the controller manager."""
    CERTIFICATES_READY = "CertificatesReady"
    """Its certificates and kubeconfigs exist and are good."""
    PATCHES_APPLIED = "PatchesApplied"
    """Flags, patches and files of its spec could be applied."""
    WORKLOAD_AVAILABLE = "WorkloadAvailable"
    """All its instances are as the spec wants them, and ready."""
    UP_TO_DATE = "UpToDate"
    """All of it runs as its spec says; while it is not so, what runs may answer its clients all the same."""
    AUTHORITIES_ROTATED = "AuthoritiesRotated"
    """No authority that it makes is being replaced or is to be. Absent before the first rotation."""


class PlaneCondition(StrEnum):
    """Types of conditions of a control plane beside Ready; the last six exist only while they are True."""

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
    PAUSED = "Paused"
    """Its controller changes nothing; components and NestedClusters have this condition too."""
    DELETING = "Deleting"


class Reason(StrEnum):
    """Why a condition of a component or a control plane is not True."""

    WAITING_FOR_OWNER = "WaitingForOwner"
    WAITING_FOR_DEPENDENCY = "WaitingForDependency"
    WAITING_FOR_ADDRESS = "WaitingForAddress"
    WAITING_FOR_CERTIFICATES = "WaitingForCertificates"
    TRUSTING_BOTH = "TrustingBoth"
    """The old authority signs, and the components are given both to trust."""
    SIGNING_WITH_NEW = "SigningWithNew"
    """The new authority signs; the old one is trusted until no certificate of it is in use."""
    NOT_OURS = "NotOurs"
    """The authority is a user's, so it is not replaced."""
    WAITING_FOR_FILES = "WaitingForFiles"
    DATA_LOST = "DataLost"
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
    ENDPOINT_MOVED = "EndpointMoved"
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
