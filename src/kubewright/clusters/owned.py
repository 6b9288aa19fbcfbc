"""What makes an object a Cluster's: the label, the owner reference, and the pause that it shares. Pure.

Theory.      An object belongs to the cluster that its spec names, whatever its labels say: one that a user
             created has no label until its controller adds it.
             A MachineDeployment, a MachineSet without a deployment and a MachineHealthCheck have the label of
             their Cluster and an owner reference to it (not as controller), so that the garbage collector
             deletes them with it and clusterctl moves them with it. So have the templates that sets clone.
Invariants.  Owners are compared by group, kind and name: after a move to another server they have other
             uids, and the reference is written anew. References of other owners stay. A paused object is not
             written.
Called by    all of this context that works on what belongs to a Cluster.
"""

from collections.abc import Iterable
from typing import Any, Protocol

from msgspec import structs, to_builtins

from kubewright.api.cluster import names
from kubewright.api.cluster.v1beta1 import API_VERSION, CLUSTER, Cluster
from kubewright.api.meta import Object, ObjectMeta, OwnerReference
from kubewright.clusters.external.object import External, is_owner
from kubewright.wire.gvk import Key, split_api_version


class ClusterSpec(Protocol):
    """What the specs of all that belongs to a cluster have."""

    @property
    def cluster_name(self) -> str: ...


class OfCluster(Object, Protocol):
    """What belongs to a cluster."""

    @property
    def spec(self) -> ClusterSpec: ...


def cluster_of(found: OfCluster) -> Key:
    """The cluster of a Machine, or of what makes or checks machines; by its label, where its spec names none
    that can be read."""
    meta = found.metadata
    return Key(meta.namespace, found.spec.cluster_name or meta.labels.get(names.CLUSTER_NAME_LABEL, ""))


def paused_because(found: Object, cluster: Cluster | None) -> str:
    """By what an object of this cluster is paused, as a clause; empty: it is reconciled."""
    if names.paused(found.metadata.annotations):
        return "it is paused"
    if cluster is not None and cluster.spec.paused:
        return f"the Cluster {cluster.name} is paused"
    return ""


def cluster_reference(cluster: Cluster) -> OwnerReference:
    """The reference by which a cluster owns, and does not control, what belongs to it."""
    return OwnerReference(
        api_version=API_VERSION, kind=CLUSTER.resource.kind, name=cluster.name, uid=cluster.metadata.uid
    )


def with_cluster_ownership(
    meta: ObjectMeta, cluster: Cluster | None, label: str, *, owned: bool
) -> ObjectMeta:
    """The metadata with the cluster's label and, if ``owned``, with an owner reference to the cluster."""
    labels, owners = meta.labels, meta.owner_references
    if label and labels.get(names.CLUSTER_NAME_LABEL) != label:
        labels = {**labels, names.CLUSTER_NAME_LABEL: label}
    if owned and cluster is not None:
        owners = _with_owner(owners, cluster_reference(cluster))
    return structs.replace(meta, labels=labels, owner_references=owners)


def metadata_patch(before: ObjectMeta, after: ObjectMeta) -> dict[str, Any]:
    """The merge patch of labels and owners, onto the version that was read; empty if nothing changed."""
    changed: dict[str, Any] = {}
    if before.labels != after.labels:
        changed["labels"] = {
            key: value for key, value in after.labels.items() if before.labels.get(key) != value
        }
    if before.owner_references != after.owner_references:
        changed["ownerReferences"] = to_builtins(after.owner_references)
    if not changed:
        return {}
    return {"metadata": {**changed, "uid": before.uid, "resourceVersion": before.resource_version}}


def template_owner_patch(template: External, cluster: Cluster) -> dict[str, Any]:
    """The merge patch that makes a cluster an owner of a template; empty if it is one, or must not be."""
    if template.found is None or template.deleting or not template.ref.kind.endswith("Template"):
        return {}
    reference = cluster_reference(cluster)
    wanted = to_builtins(reference)
    if wanted in template.owners:
        return {}
    others = [each for each in template.owners if not is_owner(each, reference)]
    seen = {"uid": template.uid, "resourceVersion": template.resource_version}
    return {"metadata": {"ownerReferences": [*others, wanted], **seen}}


def _with_owner(owners: Iterable[OwnerReference], wanted: OwnerReference) -> tuple[OwnerReference, ...]:
    found = tuple(owners)
    if wanted in found:
        return found
    group = split_api_version(wanted.api_version)[0]
    others = (
        each
        for each in found
        if (split_api_version(each.api_version)[0], each.kind, each.name) != (group, wanted.kind, wanted.name)
    )
    return (*others, wanted)
