"""The CustomResourceDefinitions of control planes.

Theory.      Names, paths, types, short names and categories are those of Cluster API Provider Nested v0.1.0;
             we add fields, the scale subresource and columns. So manifests written for that provider can be
             applied unchanged. A label says that ``v1alpha4`` of these kinds follows the contract v1beta1 of
             Cluster API.
Called by    ``kubewright crds`` and the world of control planes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kubewright.api.cluster import names as cluster_names
from kubewright.api.cluster.crds import AGE
from kubewright.api.controlplane.names import INFRASTRUCTURE_PROVIDER, PROVIDER
from kubewright.api.controlplane.v1alpha4 import (
    CATEGORIES,
    CONTROL_PLANE_RESTORE,
    CONTROL_PLANE_SNAPSHOT,
    CONTROL_PLANE_SNAPSHOT_SCHEDULE,
    CONTROL_PLANE_USER,
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
