"""Every string of nested control planes that other programs parse.

Theory.      Cluster API finds the kubeconfig and the certificates of a cluster by the names of their Secrets,
             clusterctl finds a provider by the label of its CRDs, and a program that provisions one component
             itself reads the annotation by which our controllers leave that object alone.
Source       nested.md A2 (names), A3 (phases), A5 (finalizer), A10 (conditions), A12 (labels), A15.
"""

import re
from enum import StrEnum

PROVIDER = "control-plane-nested"
INFRASTRUCTURE_PROVIDER = "infrastructure-nested"
"""The label ``cluster.x-k8s.io/provider`` of the CRDs."""

FINALIZER = "nested.controlplane.cluster.x-k8s.io"
"""On a NestedControlPlane and on each component, until what runs is gone."""

LEASE = "controller-leader-election-capn"
"""That of upstream's managers, so that they and ours never work on the same objects at once (A12)."""

KEEP_DATA_ANNOTATION = "nested.controlplane.cluster.x-k8s.io/keep-data"
"""On a component: when it is deleted, its data stays where it is. Its presence counts."""

RESTORING_ANNOTATION = "nested.controlplane.cluster.x-k8s.io/restoring"
"""On a NestedControlPlane: the ControlPlaneRestore for which all its components stay stopped."""

SCHEDULE_LABEL = "controlplane.cluster.x-k8s.io/schedule"
"""On a ControlPlaneSnapshot: the schedule that created it, and that deletes it when it has too many."""

COMPONENT_LABEL = "component-name"
"""On pods and Services of a component: the name of its object."""
ROLE_LABEL = "controlplane.cluster.x-k8s.io/component"
"""Beside it: which component, since objects of two kinds may have one name."""

FINGERPRINT_ANNOTATION = "controlplane.cluster.x-k8s.io/fingerprint"
"""On a StatefulSet and on its pods: stands for the manifests and the contents that a pod was started with."""
VERSION_ANNOTATION = "controlplane.cluster.x-k8s.io/version"
"""On pods: the version of the program."""
MANIFEST_ANNOTATION = "controlplane.cluster.x-k8s.io/manifest"
"""On what we make for a component: stands for the manifest that we wrote last."""

LONGEST_CLUSTER_NAME = 33
"""``<name>-controller-manager`` names a StatefulSet, and its revision label takes 52 characters (D7)."""

CHANNEL = re.compile(r"[a-z]+|[0-9]+\.[0-9]+")
"""A channel: lower-case letters, or a minor version."""
PACKAGE = re.compile(r"[a-z0-9][a-z0-9.-]*")
"""A package of templates, or one of its versions; never a path (nested.md A3)."""


class Phase(StrEnum):
    """What a component is doing; ``ready`` is ``Ready`` as a boolean."""

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
    """Before anything is signed by the new one: clients that trust the old one alone are given both first."""
    DROPPING = "Dropping"
    """Before the old one is trusted no more: certificates that it signed for others end with that."""
    NEVER = "Never"


class Component(StrEnum):
    """The three components; the value is the name of the package of templates, and ends names."""

    ETCD = "etcd"
    API_SERVER = "apiserver"
    CONTROLLER_MANAGER = "controller-manager"
