"""The strings of nested control planes that other programs parse.

Theory.      Cluster API finds the kubeconfig and the certificates of a cluster by the names of their Secrets,
             clusterctl finds a provider by the labels of its CRDs, and a program that provisions a component
             itself reads and writes the annotations.
Source       nested.md A2 (names), A3 (phases), A5 (finalizer), A12 (labels), A15.
Continues    in ``reasons``: conditions and events.
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
"""The Lease of upstream's manager, so that it and ours never work on the same objects at once (A12)."""

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
"""``<name>-controller-manager`` names a StatefulSet, whose name may have 52 characters at most (D7)."""

CHANNEL = re.compile(r"[a-z]+|[0-9]+\.[0-9]+")
"""A channel: lower-case letters, or a minor version."""
PACKAGE = re.compile(r"[a-z0-9][a-z0-9.-]*")
"""A package of templates, or one of its versions; never a path (nested.md A3)."""


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
