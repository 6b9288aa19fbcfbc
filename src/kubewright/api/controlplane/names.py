"""The strings of nested control planes that other programs parse.

Theory.      Cluster API finds the kubeconfig and the certificates of a cluster by the names of their Secrets,
             clusterctl finds a provider by the labels of its CRDs, and a program that provisions a component
             itself reads and writes the annotations.
             Each check that a component has to pass before it runs has a condition, so the conditions show
             where it is stopped; Ready sums up.
"""

import re
from enum import StrEnum

PROVIDER = "control-plane-nested"
INFRASTRUCTURE_PROVIDER = "infrastructure-nested"
"""The label ``cluster.x-k8s.io/provider`` of the CRDs."""

FINALIZER = "nested.controlplane.cluster.x-k8s.io"
"""On a NestedControlPlane and its components until nothing runs; on snapshots and restores too; on a
ControlPlaneUser until what it has in its control plane is deleted."""

LEASE = "controller-leader-election-capn"
"""The Lease of upstream's manager, so that it and ours never work on the same objects at once."""

KEEP_DATA_ANNOTATION = "nested.controlplane.cluster.x-k8s.io/keep-data"
"""On a component, with any value: when the component is deleted, its data stays where it is."""

LOST_DATA_ANNOTATION = "nested.controlplane.cluster.x-k8s.io/lost-data"
"""On a NestedEtcd: the instances that may start without their data, by name, with commas between them."""

RESTORING_ANNOTATION = "nested.controlplane.cluster.x-k8s.io/restoring"
"""On a NestedControlPlane: the name of the ControlPlaneRestore for which all its components are stopped."""

PUBLISHED_ANNOTATION = "nested.controlplane.cluster.x-k8s.io/published-endpoint"
"""On a NestedControlPlane: the endpoint that its controller wrote into the spec, as ``host:port``. Any other
endpoint there is a user's, and stays."""

SCHEDULE_LABEL = "controlplane.cluster.x-k8s.io/schedule"
"""On a ControlPlaneSnapshot: the schedule that created it, and that deletes it when there are too many."""

USER_LABEL = "controlplane.cluster.x-k8s.io/user"
"""In a control plane, on what we create there for a ControlPlaneUser."""

COMPONENT_LABEL = "component-name"
"""On pods and Services of a component: the name of its object."""
ROLE_LABEL = "controlplane.cluster.x-k8s.io/component"
"""On the same objects: which component, since component objects of two kinds may have the same name."""

FINGERPRINT_ANNOTATION = "controlplane.cluster.x-k8s.io/fingerprint"
"""On a StatefulSet and on its pods: a hash of the manifests and contents with which a pod was started."""
VERSION_ANNOTATION = "controlplane.cluster.x-k8s.io/version"
"""On pods: the version of the program."""
MANIFEST_ANNOTATION = "controlplane.cluster.x-k8s.io/manifest"
"""On objects that we make for a component: a hash of the manifest that we wrote last."""

LONGEST_CLUSTER_NAME = 33
"""``<name>-controller-manager`` names a StatefulSet, whose name may have 52 characters at most."""

CHANNEL = re.compile(r"[a-z]+|[0-9]+\.[0-9]+")
"""A channel: lower-case letters, or a minor version."""
PACKAGE = re.compile(r"[a-z0-9][a-z0-9.-]*")
"""A package of templates, or one of its versions; never a path."""


class Phase(StrEnum):
    """What a component is doing. In the phase ``Ready`` all of it runs as its spec says, and is ready."""

    PENDING = "Pending"
    WAITING_FOR_DEPENDENCY = "WaitingForDependency"
    PROVISIONING = "Provisioning"
    READY = "Ready"
    UNREADY = "Unready"
    UPGRADING = "Upgrading"
    SCALING = "Scaling"
    ROTATING_CERTIFICATES = "RotatingCertificates"
    SLEEPING = "Sleeping"
    FAILED = "Failed"
    DELETING = "Deleting"


class StopBefore(StrEnum):
    """Before which phase a rotation of authorities waits for a user."""

    SIGNING = "Signing"
    """Before the new authority signs: first, clients that trust the old one alone are given both."""
    DROPPING = "Dropping"
    """Before the old authority is dropped: certificates that it signed do not verify any more after that."""
    NEVER = "Never"


class Component(StrEnum):
    """The three components, in the order in which they start.

    The value names the package of templates, and is the end of the names of workloads.
    """

    ETCD = "etcd"
    API_SERVER = "apiserver"
    CONTROLLER_MANAGER = "controller-manager"


CLIENT_PORTS = {Component.ETCD: 2379, Component.API_SERVER: 6443, Component.CONTROLLER_MANAGER: 10257}
"""The port to which clients of a component connect."""
PEER_PORT = 2380
"""The port of a member of an etcd for the other members."""


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
