"""The informers and indexes that the controllers of control planes share.

Invariants.  The indexes are declared here once, so every controller finds the objects of a family in the same
             way.
Called by    ``component``, ``plane``, ``templated``, ``users`` and ``snapshots``.
"""

from collections.abc import Iterable, Iterator

from kubewright.api.cluster.names import CLUSTER_NAME_LABEL, MANAGED_BY_ANNOTATION
from kubewright.api.cluster.v1beta1 import CLUSTER, Cluster
from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE, NestedControlPlane
from kubewright.api.core import SECRET_METADATA
from kubewright.api.meta import ObjectMeta
from kubewright.controlplanes.family import (
    KINDS,
    ComponentObject,
    Family,
    cluster_name,
    keys_of,
    owning_cluster,
    owning_plane,
    started_as,
)
from kubewright.kube.informer import Change, Informers
from kubewright.wire.gvk import Key

BY_COMPONENT = "nested-control-planes-by-component"
"""Control planes by ``component/namespace/name`` of the components that they name."""
BY_CLUSTER = "nested-control-planes-by-cluster-name"
"""Control planes by ``namespace/name``, where the name is that with which names of their Secrets begin."""
BY_OWNER = "components-by-control-plane"
"""Components by the uid of the control plane that controls them."""


class Caches:
    """Control planes, their components and Clusters, and the metadata of their Secrets."""

    def __init__(self, informers: Informers) -> None:
        self.planes = informers.get(NESTED_CONTROL_PLANE)
        self.components = {component: informers.get(kind) for component, kind in KINDS.items()}
        self.clusters = informers.get(CLUSTER)
        self.secrets = informers.get(SECRET_METADATA, labels=CLUSTER_NAME_LABEL)
        self.planes.index(BY_COMPONENT, _named_by)
        self.planes.index(BY_CLUSTER, lambda each: (str(Key(each.namespace, cluster_name(each))),))
        for informer in self.components.values():
            informer.index(BY_OWNER, _owner_uid)

    def family_of(self, plane: NestedControlPlane, *, ends: bool = False) -> Family:
        """The family of a control plane: the objects of it that are in the caches. One that is being deleted
        waits for none of them to become readable, nor does what ``ends`` itself.

        Raises:
            Undecodable: one of them cannot be read, and the control plane lives.
        """
        cluster, ends = owning_cluster(plane), ends or plane.metadata.deleting
        clusters = self.clusters.part if ends else self.clusters.get
        there = {
            name: self.components[name].part(key) if ends else self.components[name].get(key)
            for name, key in keys_of(plane).items()
        }
        return Family(
            plane,
            clusters(Key(plane.namespace, cluster.name)) if cluster is not None else None,
            {name: found for name, found in there.items() if found is not None},
        )

    def family_around(self, meta: ObjectMeta) -> Family | None:
        """The family of a component; None: no control plane owns it, or its owner does not exist."""
        owner = owning_plane(meta)
        plane = self.planes.get(Key(meta.namespace, owner.name)) if owner is not None else None
        if owner is None or plane is None or plane.metadata.uid != owner.uid:
            return None
        return self.family_of(plane, ends=meta.deleting)

    def original_of(self, component: Component, meta: ObjectMeta) -> str:
        """The component that a control plane names in the place of this one, whose instances have the names
        that those of this one would have; empty: this one is named, or there is no other. A copy of a
        component has the label, the owner and the finalizer of the original. A component that only took the
        place of this one has instances of other names, or none of ours: what this one started is its own."""
        key, owner = Key(meta.namespace, meta.name), owning_plane(meta)
        if self.planes.count_by(BY_COMPONENT, f"{component}/{key}"):
            return ""
        label = meta.labels.get(CLUSTER_NAME_LABEL, "")
        owners = (Key(key.namespace, owner.name),) if owner is not None else ()
        for each in (*owners, *self.planes.keys_by(BY_CLUSTER, str(Key(key.namespace, label)))):
            plane = self.planes.part(each)
            named = keys_of(plane).get(component) if plane is not None else None
            if plane is None or named is None:
                continue
            found = self.components[component].part(named)
            if found is not None and _shares(meta, found.metadata, cluster_name(plane)):
                return named.name
        return ""

    def planes_of_cluster(self, change: Change[Cluster]) -> Iterable[Key]:
        """The control planes of a Cluster whose spec has changed, such as its pause or its networks."""
        before, after = change.before(), change.after()
        if before is not None and after is not None and before.spec == after.spec:
            return ()
        return self.planes.keys_by(BY_CLUSTER, str(change.key))

    def owned_by(self, plane: NestedControlPlane) -> Iterator[tuple[Component, ComponentObject]]:
        """The components that a control plane controls."""
        for component, informer in self.components.items():
            for found in informer.by(BY_OWNER, plane.metadata.uid):
                yield component, found


def _shares(copy: ObjectMeta, named: ObjectMeta, family: str) -> bool:
    """Whether what runs for the component that a control plane names is what would run for a copy of it."""
    started = started_as(named)
    if not started and MANAGED_BY_ANNOTATION in named.annotations:
        return False
    return started_as(copy) in ("", started or family)


def _named_by(plane: NestedControlPlane) -> Iterable[str]:
    return [f"{component}/{key}" for component, key in keys_of(plane).items()]


def _owner_uid(found: ComponentObject) -> Iterable[str]:
    owner = owning_plane(found.metadata)
    return (owner.uid,) if owner is not None else ()
