"""Which objects belong to one control plane, how they find each other, and by what they are paused. Pure.

Theory.      A family is a NestedControlPlane, the components that it names, and the Cluster that owns it. The
             NestedControlPlane becomes the controlling owner of its components; a Cluster, if there is one,
             controls the NestedControlPlane. A component finds its control plane by its controlling owner,
             and the other components by the references in the spec of that control plane.
Pauses.      As in Cluster API, an object is paused by its own annotation, by that of its control plane, and
             by ``spec.paused`` of its Cluster. While it is paused its controller changes nothing: the
             programs go on as they are, and a deletion waits. The one thing that it writes is the condition
             Paused, so that a user sees why nothing happens; it exists only while the object is paused. An
             object that clusterctl has moved to another management cluster, and deletes here, is not written
             at all (decision 0042).
Invariants.  Owners are compared by group and kind, never by version. Secrets, StatefulSets and processes are
             named after the Cluster that owns the control plane; without one, after its label
             ``cluster.x-k8s.io/cluster-name``; without that, after the control plane. Of two control planes
             that would have one name, only one gets it (``Caches.rival_of``).
Called by    all controllers of this package.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import PAUSED, with_conditions
from kubewright.api.cluster.names import CLUSTER_NAME_LABEL, MANAGED_BY_ANNOTATION
from kubewright.api.cluster.v1beta1 import CLUSTER, Cluster, Condition, ObjectReference
from kubewright.api.controlplane.names import FINALIZER, RESTORING_ANNOTATION, Component
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
from kubewright.base.limits import MESSAGE_CHARS
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
    """A control plane, the Cluster that owns it, and its components.

    ``cluster``     the Cluster that owns the control plane; None: no Cluster does, or it does not exist
    ``components``  the components that the control plane names and that exist
    """

    plane: NestedControlPlane
    cluster: Cluster | None = None
    components: Mapping[Component, ComponentObject] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name with which names of Secrets and workloads begin (see ``cluster_name``)."""
        return cluster_name(self.plane)

    @property
    def restore(self) -> str:
        """The name of the ControlPlaneRestore for which all components are to stop; empty: there is none."""
        return self.plane.metadata.annotations.get(RESTORING_ANNOTATION, "")

    def ends_before(self, needed_by: Component | None) -> ComponentObject | None:
        """The component that needs another one, while it has instances: these end first. None: it has none.

        One that another program manages may go on, and is waited for only before a restore.
        """
        found = self.components.get(needed_by) if needed_by is not None else None
        if found is None or not found.status.replicas:
            return None
        foreign = MANAGED_BY_ANNOTATION in found.metadata.annotations
        return None if foreign and not self.restore else found

    @property
    def stops(self) -> bool:
        """Whether all components are to stop, for a restore or to sleep."""
        return bool(self.restore or self.plane.status.asleep)

    def stopped_for(self, needed_by: Component | None) -> bool:
        """Whether a component is to stop now, for a restore or to sleep: after the one that needs it."""
        return self.stops and self.ends_before(needed_by) is None


def owning_plane(meta: ObjectMeta) -> OwnerReference | None:
    """The controlling owner of a component, if that is a NestedControlPlane."""
    return _controller(meta, NESTED_CONTROL_PLANE)


def owning_cluster(plane: NestedControlPlane) -> OwnerReference | None:
    """The controlling owner of a NestedControlPlane, if that is a Cluster."""
    return _controller(plane.metadata, CLUSTER)


def cluster_name(plane: NestedControlPlane) -> str:
    """The name with which names of Secrets and workloads begin: the Cluster's, or the control plane's own.

    A user who writes the label of the Cluster onto the control plane gets the Cluster's name from the start,
    before the controller of Clusters has become its owner.
    """
    owner = owning_cluster(plane)
    return owner.name if owner is not None else plane.metadata.labels.get(CLUSTER_NAME_LABEL) or plane.name


def started_as(component: ObjectMeta) -> str:
    """The name with which the names of its instances begin; empty: none can have been started."""
    return component.labels.get(CLUSTER_NAME_LABEL, "") if FINALIZER in component.finalizers else ""


def references(spec: NestedControlPlaneSpec) -> dict[Component, ObjectReference]:
    """The references of a control plane to its components, by component."""
    named = {
        Component.ETCD: spec.etcd,
        Component.API_SERVER: spec.apiserver,
        Component.CONTROLLER_MANAGER: spec.controller_manager,
    }
    return {component: found for component, found in named.items() if found is not None and found.name}


def keys_of(plane: NestedControlPlane) -> dict[Component, Key]:
    """The keys of the components that a control plane names; all are in its own namespace."""
    return {
        component: Key(plane.namespace, named.name) for component, named in references(plane.spec).items()
    }


def _controller(meta: ObjectMeta, kind: Kind[Any]) -> OwnerReference | None:
    owner = meta.controller
    if owner is None:
        return None
    group, _ = split_api_version(owner.api_version)
    return owner if (group, owner.kind) == (kind.resource.group, kind.resource.kind) else None


@dataclass(frozen=True, slots=True)
class Pause:
    """By what an object is paused, a clause. ``moved``: clusterctl deletes it here, so it is not written."""

    because: str
    moved: bool = False


def pause_of(
    meta: ObjectMeta, plane: NestedControlPlane | None = None, cluster: Cluster | None = None
) -> Pause | None:
    """By what an object is paused; None: it is not. ``plane``, ``cluster``: those that it belongs to."""
    above = plane.metadata.annotations if plane is not None else {}
    for annotations in (meta.annotations, above):
        if names.DELETE_FOR_MOVE_ANNOTATION in annotations:
            return Pause("clusterctl has moved it to another management cluster", moved=True)
    if names.paused(meta.annotations):
        return Pause(f"it has the annotation {names.PAUSED_ANNOTATION}")
    if plane is not None and names.paused(above):
        return Pause(f"NestedControlPlane {plane.name} has the annotation {names.PAUSED_ANNOTATION}")
    if cluster is not None and cluster.spec.paused:
        return Pause(f"Cluster {cluster.name} has spec.paused")
    return None


def pause_of_family(meta: ObjectMeta, family: Family | None) -> Pause | None:
    """By what an object of a control plane is paused. ``family``: None while there is no control plane."""
    return pause_of(meta) if family is None else pause_of(meta, family.plane, family.cluster)


def with_pause(conditions: Iterable[Condition], pause: Pause, now: datetime) -> tuple[Condition, ...]:
    """The conditions as they were, and Paused."""
    told = Condition(type=PAUSED, status="True", reason=PAUSED, message=pause.because[:MESSAGE_CHARS])
    return with_conditions(conditions, [told], now)


def without_pause(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """The conditions of an object that is not paused."""
    return tuple(each for each in conditions if each.type != PAUSED)
