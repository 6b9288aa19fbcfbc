"""What an administrator installs for control planes: the CRDs, and what the controllers and users may do.

Theory.      Names, paths, types, short names and categories are those of Cluster API Provider Nested v0.1.0;
             we add fields, the scale subresource and columns. So manifests written for that provider can be
             applied unchanged. A label says that ``v1alpha4`` of these kinds follows the contract v1beta1 of
             Cluster API. The controllers write their own kinds, and the objects of components in pods. They
             read Clusters, which another controller writes. Users with the roles view or edit have the same
             rights on control planes: the spec of a component names Secrets and never contains one, and the
             credentials of a control plane are in Secrets, which the role view cannot read.
Called by    ``kubewright crds``, ``make gen`` (``deploy/clusters``, ``deploy/one-namespace``), the world of
             control planes, and ``compose.embedded`` (the roles of users).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kubewright.api.cluster import names as cluster_names
from kubewright.api.cluster.manifests import AGE
from kubewright.api.cluster.v1beta1 import GROUP as CORE
from kubewright.api.controlplane.names import INFRASTRUCTURE_PROVIDER, PROVIDER
from kubewright.api.controlplane.snapshots import (
    CONTROL_PLANE_RESTORE,
    CONTROL_PLANE_SNAPSHOT,
    CONTROL_PLANE_SNAPSHOT_SCHEDULE,
)
from kubewright.api.controlplane.v1alpha4 import (
    CATEGORIES,
    CONTROL_PLANE_USER,
    GROUP,
    INFRASTRUCTURE_GROUP,
    NESTED_API_SERVER,
    NESTED_CLUSTER,
    NESTED_CONTROL_PLANE,
    NESTED_CONTROL_PLANE_TEMPLATE,
    NESTED_CONTROLLER_MANAGER,
    NESTED_ETCD,
    VERSION,
)
from kubewright.api.crd import Column, Definition, crd
from kubewright.api.kinds import Kind
from kubewright.api.machine.manifests import HEADER, as_yaml
from kubewright.api.rbac import ONE_NAMESPACE, READ, WRITE, Rule, granted, of_users, within

PHASE = Column("Phase", ".status.phase", description="What the component is doing.")
OF_VERSION = Column("Version", ".status.version", description="The version that runs.")
REPLICAS = Column("Replicas", ".status.replicas", "integer", "How many instances there are.", priority=1)
SCALE = (".spec.replicas", ".status.replicas", ".status.selector")


def _labels(provider: str) -> Mapping[str, str]:
    return {
        cluster_names.PROVIDER_LABEL: provider,
        cluster_names.CLUSTERCTL_LABEL: "",
        cluster_names.CONTRACT_LABEL: VERSION,
    }


def _definition(
    kind: Kind[Any],
    columns: Sequence[Column],
    *,
    status: bool = True,
    scale: tuple[str, str, str] | None = None,
    provider: str = PROVIDER,
) -> Definition:
    labels = _labels(provider)
    return Definition(kind, columns, status=status, scale=scale, categories=CATEGORIES, labels=labels)


COMPONENT_COLUMNS = (PHASE, AGE, OF_VERSION, REPLICAS)

DEFINITIONS = (
    _definition(
        NESTED_CONTROL_PLANE,
        (
            Column("Ready", ".status.ready", "boolean", "Whether all its components are ready."),
            AGE,
            OF_VERSION,
            Column("Host", ".spec.controlPlaneEndpoint.host", description="Where it is reached.", priority=1),
        ),
        scale=SCALE,
    ),
    _definition(NESTED_ETCD, COMPONENT_COLUMNS, scale=SCALE),
    _definition(NESTED_API_SERVER, COMPONENT_COLUMNS, scale=SCALE),
    _definition(NESTED_CONTROLLER_MANAGER, COMPONENT_COLUMNS),
    _definition(NESTED_CONTROL_PLANE_TEMPLATE, (AGE,), status=False),
    _definition(
        NESTED_CLUSTER,
        (Column("Ready", ".status.ready", "boolean", "Whether machines can join its control plane."), AGE),
        provider=INFRASTRUCTURE_PROVIDER,
    ),
    _definition(
        CONTROL_PLANE_SNAPSHOT,
        (
            Column("ControlPlane", ".spec.controlPlaneName", description="Of what it is a copy."),
            Column("Ready", ".status.ready", "boolean", "Whether the file is complete."),
            Column("Size", ".status.size", "integer", "How many bytes it has."),
            AGE,
            Column("File", ".status.file", description="Its name where it is kept.", priority=1),
        ),
    ),
    _definition(
        CONTROL_PLANE_SNAPSHOT_SCHEDULE,
        (
            Column("ControlPlane", ".spec.controlPlaneName", description="Of what snapshots are taken."),
            Column("Schedule", ".spec.schedule", description="When."),
            Column("Last", ".status.lastScheduleTime", "date", "The time of the last one."),
            AGE,
        ),
    ),
    _definition(
        CONTROL_PLANE_USER,
        (
            Column("ControlPlane", ".spec.controlPlaneName", description="Where the user gets in."),
            Column("Ready", ".status.ready", "boolean", "Whether the kubeconfig is there and good."),
            Column("Secret", ".status.secretName", description="The Secret with the kubeconfig."),
            Column("Expires", ".status.expiresAt", "string", "Until when the kubeconfig is good."),
            AGE,
        ),
    ),
    _definition(
        CONTROL_PLANE_RESTORE,
        (
            Column("Snapshot", ".spec.snapshotName", description="What takes the place of the data."),
            Column("File", ".spec.file.name", description="The same, for a lost snapshot.", priority=1),
            Column("Ready", ".status.ready", "boolean", "Whether the control plane runs with it."),
            Column("Phase", ".status.phase", description="What is being done."),
            AGE,
        ),
    ),
)


def crds() -> tuple[dict[str, Any], ...]:
    """All of them, in the order in which to install them."""
    return tuple(crd(each) for each in DEFINITIONS)


PLANES = ("nestedcontrolplanes",)
COMPONENTS = ("nestedetcds", "nestedapiservers", "nestedcontrollermanagers")
TEMPLATES = ("nestedcontrolplanetemplates",)
CLUSTERS = ("nestedclusters",)
USERS = ("controlplaneusers",)
SNAPSHOTS = ("controlplanesnapshots", "controlplanesnapshotschedules", "controlplanerestores")
SCALES = ("nestedcontrolplanes/scale", "nestedetcds/scale", "nestedapiservers/scale")

PROVIDER_RULES = (
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
    found = within(ONE_NAMESPACE, "kubewright-controlplanes", PROVIDER_RULES)
    return {"controlplanes-rbac.yaml": HEADER + as_yaml(found)}


def manifest() -> list[dict[str, Any]]:
    """The role of the controllers, bound to our account."""
    return granted("ClusterRole", "kubewright-controlplanes", PROVIDER_RULES)


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
