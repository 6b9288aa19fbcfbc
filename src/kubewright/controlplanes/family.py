"""Which objects belong to one control plane, and how they find each other. Pure.

Theory.      A NestedControlPlane names its components and becomes their controlling owner; a Cluster, if
             there is one, controls the NestedControlPlane. A component finds its control plane by its
             controlling owner, and the other components by the references of that control plane.
Invariants.  Owners are compared by group and kind: they are the same in every version. Secrets and programs
             are named after the Cluster: its owner, or its label; and after the control plane where it has
             neither.
Source       seed 003 (owner references, discovery of siblings); nested.md A4; S3-10 to S3-14.
Called by    the controllers of components and of control planes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kubewright.api.cluster.names import CLUSTER_NAME_LABEL, MANAGED_BY_ANNOTATION
from kubewright.api.cluster.v1beta1 import CLUSTER, Cluster, ObjectReference
from kubewright.api.controlplane.names import RESTORING_ANNOTATION, Component
from kubewright.api.controlplane.v1alpha4 import (
    NESTED_API_SERVER,
    NESTED_CONTROL_PLANE,
    NESTED_CONTROLLER_MANAGER,
    NESTED_ETCD,
    NestedAPIServer,
    NestedControllerManager,
    NestedControlPlane,
    NestedControlPlaneSpec,
    NestedEtcd,
)
from kubewright.api.kinds import Kind
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.wire.gvk import Key, split_api_version

ComponentObject = NestedEtcd | NestedAPIServer | NestedControllerManager

KINDS: Mapping[Component, Kind[Any]] = {
    Component.ETCD: NESTED_ETCD,
    Component.API_SERVER: NESTED_API_SERVER,
    Component.CONTROLLER_MANAGER: NESTED_CONTROLLER_MANAGER,
}
"""In the order in which they start."""


@dataclass(frozen=True, slots=True)
class Family:
    """A control plane as one of its components sees it.

    ``cluster``     the Cluster that owns the control plane, if any does
    ``components``  those of the named objects that are there
    """

    plane: NestedControlPlane
    cluster: Cluster | None = None
    components: Mapping[Component, ComponentObject] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What names of Secrets and programs begin with."""
        return cluster_name(self.plane)

    @property
    def restore(self) -> str:
        """The ControlPlaneRestore for which all components stop; empty: none."""
        return self.plane.metadata.annotations.get(RESTORING_ANNOTATION, "")

    def stopped_for(self, needed_by: Component | None) -> bool:
        """Whether a component stops, for a restore or to sleep: when the one that needs it has stopped.

        What another program manages may go on while its control plane sleeps: then it is not waited for.
        """
        after = self.components.get(needed_by) if needed_by is not None else None
        if self.restore:
            return after is None or not after.status.replicas
        foreign = after is not None and MANAGED_BY_ANNOTATION in after.metadata.annotations
        return self.plane.status.asleep and (after is None or foreign or not after.status.replicas)


def owning_plane(meta: ObjectMeta) -> OwnerReference | None:
    """The NestedControlPlane that controls a component."""
    return _controller(meta, NESTED_CONTROL_PLANE)


def owning_cluster(plane: NestedControlPlane) -> OwnerReference | None:
    """The Cluster that controls a NestedControlPlane."""
    return _controller(plane.metadata, CLUSTER)


def cluster_name(plane: NestedControlPlane) -> str:
    """What names of Secrets and programs begin with: the Cluster's name, or the control plane's own.

    A user who writes the label of the Cluster onto the control plane gets the Cluster's name from the start,
    before the controller of Clusters has become its owner.
    """
    owner = owning_cluster(plane)
    return owner.name if owner is not None else plane.metadata.labels.get(CLUSTER_NAME_LABEL) or plane.name


def references(spec: NestedControlPlaneSpec) -> dict[Component, ObjectReference]:
    """The components that a control plane names."""
    named = {
        Component.ETCD: spec.etcd,
        Component.API_SERVER: spec.apiserver,
        Component.CONTROLLER_MANAGER: spec.controller_manager,
    }
    return {component: found for component, found in named.items() if found is not None and found.name}


def keys_of(plane: NestedControlPlane) -> dict[Component, Key]:
    """Where the components are that a control plane names: in its own namespace."""
    return {
        component: Key(plane.namespace, named.name) for component, named in references(plane.spec).items()
    }


def _controller(meta: ObjectMeta, kind: Kind[Any]) -> OwnerReference | None:
    owner = meta.controller
    if owner is None:
        return None
    group, _ = split_api_version(owner.api_version)
    return owner if (group, owner.kind) == (kind.resource.group, kind.resource.kind) else None
