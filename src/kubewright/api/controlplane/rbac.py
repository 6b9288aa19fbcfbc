"""What the controllers of control planes may do on the management cluster; and what users may do.

Theory.      The controllers write their own kinds, and the objects of components in pods. They read Clusters,
             which another controller writes. Users with the roles view or edit have the same rights on
             control planes: the spec of a component names Secrets and never contains one, and the credentials
             of a control plane are in Secrets, which the role view cannot read.
Source       nested.md A12, C8; S3-46.
Called by    ``make gen``, which writes ``deploy/clusters`` and ``deploy/one-namespace``; ``compose.embedded``
             (the roles of users).
"""

from typing import Any

from kubewright.api.cluster.v1beta1 import GROUP as CORE
from kubewright.api.controlplane.v1alpha4 import GROUP, INFRASTRUCTURE_GROUP
from kubewright.api.machine.crds import HEADER, as_yaml
from kubewright.api.rbac import ONE_NAMESPACE, READ, WRITE, Rule, granted, of_users, within

PLANES = ("nestedcontrolplanes",)
COMPONENTS = ("nestedetcds", "nestedapiservers", "nestedcontrollermanagers")
TEMPLATES = ("nestedcontrolplanetemplates",)
CLUSTERS = ("nestedclusters",)
USERS = ("controlplaneusers",)
SNAPSHOTS = ("controlplanesnapshots", "controlplanesnapshotschedules", "controlplanerestores")
SCALES = ("nestedcontrolplanes/scale", "nestedetcds/scale", "nestedapiservers/scale")

PROVIDER = (
    Rule(GROUP, (*PLANES, *COMPONENTS), (*READ, "patch"), "what is wanted; finalizers, owners, endpoints"),
    Rule(
        GROUP,
        COMPONENTS,
        ("create", "delete"),
        "components from a template; those of a control plane that goes",
    ),
    Rule(GROUP, [f"{kind}/status" for kind in (*PLANES, *COMPONENTS)], ("patch",), "what became of them"),
    Rule(
        GROUP,
        [f"{kind}/finalizers" for kind in (*PLANES, *COMPONENTS)],
        ("update",),
        "owner references that block the deletion of their owner, where admission checks them",
    ),
    Rule(GROUP, SNAPSHOTS, READ, "what is kept and put back, and when"),
    Rule(GROUP, (SNAPSHOTS[0], SNAPSHOTS[2]), ("patch",), "finalizers of snapshots and restores"),
    Rule(GROUP, SNAPSHOTS[:1], ("create", "delete"), "the snapshots of schedules"),
    Rule(GROUP, USERS, (*READ, "patch"), "who gets a kubeconfig of their own; finalizers"),
    Rule(GROUP, ("controlplaneusers/status",), ("patch",), "where it is, and until when it is good"),
    Rule(
        GROUP,
        ("controlplaneusers/finalizers",),
        ("update",),
        "owner references of their Secrets, where admission checks them",
    ),
    Rule(GROUP, [f"{kind}/status" for kind in SNAPSHOTS], ("patch",), "what became of them"),
    Rule(GROUP, TEMPLATES, READ, "what components are made from"),
    Rule(INFRASTRUCTURE_GROUP, CLUSTERS, (*READ, "patch"), "the infrastructure of clusters; endpoints"),
    Rule(INFRASTRUCTURE_GROUP, ("nestedclusters/status",), ("patch",), "whether machines can join"),
    Rule(CORE, ("clusters",), READ, "who owns a control plane, and whether it is paused"),
    Rule("", ("secrets",), (*READ, "create", "patch"), "certificates and kubeconfigs"),
    Rule("", ("configmaps",), ("get",), "files of components"),
    Rule("", ("services",), (*READ, "create", "patch", "delete"), "by which components are reached"),
    Rule("apps", ("statefulsets",), (*READ, "create", "patch", "delete"), "components as pods"),
    Rule(
        "",
        ("pods",),
        ("list", "watch", "create", "delete"),
        "instances of components, replaced one by one; pods that put a snapshot into the volumes of an etcd",
    ),
    Rule(
        "",
        ("persistentvolumeclaims",),
        ("list", "watch", "create", "delete"),
        "data of components that are deleted, data that was kept, and volumes for a snapshot",
    ),
    Rule("", ("events",), ("create", "patch"), "what users should know"),
    Rule("coordination.k8s.io", ("leases",), ("get", "create", "update"), "which replica works"),
)


def files() -> dict[str, str]:
    """The manifests as files of ``deploy/clusters``: name to text."""
    return {"controlplanes-rbac.yaml": HEADER + as_yaml(manifest())}


def files_of_one_namespace() -> dict[str, str]:
    """The same for a program that works in one namespace, as files of ``deploy/one-namespace``."""
    found = within(ONE_NAMESPACE, "kubewright-controlplanes", PROVIDER)
    return {"controlplanes-rbac.yaml": HEADER + as_yaml(found)}


def manifest() -> list[dict[str, Any]]:
    """The role of the controllers, bound to our account."""
    return granted("ClusterRole", "kubewright-controlplanes", PROVIDER)


def roles_of_users() -> list[dict[str, Any]]:
    """The rules of control planes in the roles view and edit."""
    kinds = (*PLANES, *COMPONENTS, *TEMPLATES, *SNAPSHOTS, *USERS, *SCALES)
    statuses = tuple(f"{each}/status" for each in (*PLANES, *COMPONENTS, *SNAPSHOTS, *USERS))
    of_clusters = (*CLUSTERS, *(f"{each}/status" for each in CLUSTERS))
    return [
        of_users("controlplanes", "view", GROUP, [*kinds, *statuses], READ),
        of_users("controlplanes", "edit", GROUP, kinds, WRITE),
        of_users("nestedclusters", "view", INFRASTRUCTURE_GROUP, of_clusters, READ),
        of_users("nestedclusters", "edit", INFRASTRUCTURE_GROUP, CLUSTERS, WRITE),
    ]
