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
BY_NAME = "components-by-name-of-instances"
"""Components by ``namespace/name``, where the name is that with which names of their instances begin."""


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
            informer.index(BY_NAME, lambda each: (str(Key(each.namespace, started_as(each.metadata))),))

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

    def rival_of(self, component: Component, meta: ObjectMeta) -> str:
        """The component of another control plane that has the names of instances, and the Secrets, that this
        one has or would have, in words; empty: there is none. A copied label of a Cluster makes such two. The
        one that has our finalizer has the name, of two that do or do not the older one."""
        owner = owning_plane(meta)
        plane = self.planes.part(Key(meta.namespace, owner.name)) if owner is not None else None
        name = started_as(meta) or (cluster_name(plane) if plane is not None else "")
        if owner is None or not name:
            return ""
        informer, shared = self.components[component], str(Key(meta.namespace, name))
        named = (self.planes.part(each) for each in self.planes.keys_by(BY_CLUSTER, shared))
        wanted = (keys_of(each).get(component) for each in named if each is not None)
        for key in dict.fromkeys((*informer.keys_by(BY_NAME, shared), *wanted)):
            found = informer.part(key) if key is not None else None
            other = owning_plane(found.metadata) if found is not None else None
            if found is None or other is None or other.uid == owner.uid:
                continue
            if _has_name(found.metadata, meta, name):
                return f"{KINDS[component].resource.kind} {found.name} of NestedControlPlane {other.name}"
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


def _has_name(other: ObjectMeta, own: ObjectMeta, name: str) -> bool:
    """Whether a component has this name rather than another one that has or would have it."""
    if started_as(other) not in ("", name):
        return False
    if not started_as(other) and MANAGED_BY_ANNOTATION in other.annotations:
        return False
    first, second = (
        (not started_as(each), str(each.creation_timestamp or ""), each.uid) for each in (other, own)
    )
    return first < second


def _named_by(plane: NestedControlPlane) -> Iterable[str]:
    return [f"{component}/{key}" for component, key in keys_of(plane).items()]


def _owner_uid(found: ComponentObject) -> Iterable[str]:
    owner = owning_plane(found.metadata)
    return (owner.uid,) if owner is not None else ()
