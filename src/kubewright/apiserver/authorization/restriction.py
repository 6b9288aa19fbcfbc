"""What a node may write into the objects that it may write. Pure.

Theory.      That a node may write an object (``nodes``) is not the right to write all of it. Others choose
             nodes by labels and taints, pods by labels, and what a pod refers to is the node's to read. So a
             machine that was broken into must not make itself one that is trusted more, draw the pods of
             others to it, lead a Service to a pod of its own, or get at what its pods have no need of. A
             token of an account is bound to a pod of the node, and ends with it.
Invariants.  Each sentence says what is wrong, and is empty where nothing is.
Source       kube-apiserver's admission plugin NodeRestriction, in its words where they are short.
Called by    ``registry.policies``, for each write of a node; ``subresources.tokens``.
"""

from collections.abc import Mapping
from typing import Any

from kubewright.api.core import MIRROR_POD_ANNOTATION
from kubewright.apiserver.authorization.nodes import references

Object = Mapping[str, Any]

RESTRICTED = "node-restriction.kubernetes.io"
"""Labels of this domain, and of those below it, are for administrators: no node gives them to itself."""

_OF_KUBERNETES = ("kubernetes.io", "k8s.io")
_OF_KUBELETS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_KUBELET_LABELS = frozenset((
    "kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch",
    "beta.kubernetes.io/os", "beta.kubernetes.io/arch", "beta.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
))  # fmt: skip
"""Those of Kubernetes' domains that a kubelet writes, beside those of ``_OF_KUBELETS``."""

_OF_CLIENTS = ("labels", "annotations", "finalizers", "ownerReferences")
_SIZES = ("capacity", "conditions", "allocatedResources", "allocatedResourceStatuses")
"""What of a claim's status a kubelet writes: it makes volumes larger."""
_DEVICES = ("resourceClaimStatuses", "extendedResourceClaimStatus")
"""What of a pod's status says which devices it has: the node may read what is named there."""


def wrong_write(node: str, kind: str, new: Object, old: Object | None, node_uid: str = "") -> str:
    """Why a node may not store an object of this kind, now that it is known; empty: it may.

    ``node_uid``: of the Node as it is stored; empty: there is none.
    """
    if kind in ("Node", "CSINode", "Lease") and _of(new, "metadata").get("name") != node:
        return f"node {node!r} is not allowed to write another's {kind}"
    match kind:
        case "ResourceSlice" if _of(new, "spec").get("nodeName") != node:
            return f"node {node!r} is not allowed to write slices of another node"
        case "Pod":
            return _wrong_pod(node, new, node_uid) if old is None else _wrong_report(node, new, old)
        case "PersistentVolumeClaim" if old is not None:
            return _wrong_claim(node, new, old)
        case "Node":
            return _wrong_node(node, new, old)
    return ""


def wrong_token(node: str, spec: Object, account: str, pod: Object | None) -> str:
    """Why a node gets no such token of an account. ``pod``: the one that the token is to be bound to."""
    bound = spec.get("boundObjectRef") or {}
    if (bound.get("apiVersion"), bound.get("kind")) != ("v1", "Pod") or not bound.get("name"):
        return "node requested token not bound to a pod"
    if not bound.get("uid"):
        return "node requested token with a pod binding without a uid"
    if pod is not None and _of(pod, "spec").get("nodeName") != node:
        return "node requested token bound to a pod scheduled on a different node"
    if pod is not None and _of(pod, "spec").get("serviceAccountName") != account:
        return "node requested token of an account that is not its pod's"
    return ""


def bound_pod(spec: Object) -> str:
    """The name of the pod that a token is to be bound to; empty: it is to be bound to none."""
    bound = spec.get("boundObjectRef") or {}
    return str(bound.get("name") or "") if bound.get("kind") == "Pod" else ""


def _wrong_pod(node: str, new: Object, node_uid: str) -> str:
    """A mirror pod stands for one that the kubelet runs by itself: it refers to nothing."""
    metadata = _of(new, "metadata")
    mirrors = MIRROR_POD_ANNOTATION in (metadata.get("annotations") or {})
    if not mirrors or _of(new, "spec").get("nodeName") != node:
        return f"node {node!r} can only create mirror pods that are bound to itself"
    if next(references({**new, "metadata": {}}), None) is not None:
        return f"node {node!r} can not create pods that refer to other objects"
    return "" if _owned(metadata, node, node_uid) else (
        f"node {node!r} can only create pods with a controller owner reference set to itself"
    )  # fmt: skip


def _owned(metadata: Object, node: str, node_uid: str) -> bool:
    """Whether the Node is the one owner of a pod, and the pod does not keep it."""
    owners = metadata.get("ownerReferences") or []
    wanted = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid, "controller": True}
    return bool(node_uid) and [
        {field: value for field, value in each.items() if field != "blockOwnerDeletion" or value}
        for each in owners
    ] == [wanted]


def _wrong_report(node: str, new: Object, old: Object) -> str:
    if _changed(_of(new, "metadata"), _of(old, "metadata"), ("labels",)):
        return f"node {node!r} cannot update labels through pod status"
    changed = _changed(_of(new, "status"), _of(old, "status"), _DEVICES)
    return f"node {node!r} cannot update {changed} of a pod" if changed else ""


def _wrong_claim(node: str, new: Object, old: Object) -> str:
    status = frozenset((*_of(new, "status"), *_of(old, "status"))) - frozenset(_SIZES)
    same = not _changed(_of(new, "metadata"), _of(old, "metadata"), _OF_CLIENTS)
    if same and not _changed(_of(new, "status"), _of(old, "status"), sorted(status)):
        return ""
    return f"node {node!r} is not allowed to update fields other than {', '.join(_SIZES)} of a claim's status"


def _wrong_node(node: str, new: Object, old: Object | None) -> str:
    labels, before = (_of(_of(each or {}, "metadata"), "labels") for each in (new, old))
    changed = {key for key in labels.keys() | before.keys() if labels.get(key) != before.get(key)}
    if refused := sorted(key for key in changed if _is_chosen_by(key)):
        return f"node {node!r} is not allowed to modify labels: {', '.join(refused)}"
    if old is None:
        return ""
    if _changed(_of(new, "metadata"), _of(old, "metadata"), ("ownerReferences",)):
        return f"node {node!r} is not allowed to modify ownerReferences"
    tainted = _changed(_of(new, "spec"), _of(old, "spec"), ("taints",))
    return f"node {node!r} is not allowed to modify taints" if tainted else ""


def _is_chosen_by(label: str) -> bool:
    """Whether others may choose nodes by a label because no node gives it to itself."""
    domain = label.partition("/")[0] if "/" in label else ""
    if _below(domain, (RESTRICTED,)):
        return True
    return (
        _below(domain, _OF_KUBERNETES) and label not in _KUBELET_LABELS and not _below(domain, _OF_KUBELETS)
    )


def _below(domain: str, parents: tuple[str, ...]) -> bool:
    return any(domain == each or domain.endswith(f".{each}") for each in parents)


def _changed(new: Object, old: Object, fields: tuple[str, ...] | list[str]) -> str:
    """The first of these fields that differs; empty and missing are the same."""
    return next((each for each in fields if (new.get(each) or None) != (old.get(each) or None)), "")


def _of(obj: Object, field: str) -> Object:
    """A part of an object that may be missing."""
    return obj.get(field) or {}
