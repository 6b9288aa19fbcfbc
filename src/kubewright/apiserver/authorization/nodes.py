"""What a node may do, and what it may write: its own objects, its pods, and what these refer to. Pure.

Theory.      A kubelet is the user ``system:node:<name>`` in the group ``system:nodes``. No binding gives it
             rights: it may do what the role ``system:node`` names, and of that only what its node is for. So
             a machine that was broken into reads the Secrets of the pods that run on it, and of no others,
             and reports on no other node. What pods refer to is looked up when it is asked for: there is no
             graph to keep.
             That a node may write an object is not the right to write all of it (``wrong_write``). Others
             choose nodes by labels and taints, pods by labels, and what a pod refers to is the node's to
             read. So the machine must not make itself one that is trusted more, draw the pods of
             others to it, lead a Service to a pod of its own, or get at what its pods have no need of. A
             token of an account is bound to a pod of the node, and ends with it.
Invariants.  No opinion is no right: where this module says nothing, the roles decide. A mirror pod, which the
             kubelet itself makes, gives it no right to anything. Each sentence says what is wrong, and is
             empty where nothing is.
Source       kube-apiserver's Node authorizer, and its admission plugin NodeRestriction, in its words where
             they are short.
Called by    ``policy``, for each request that the roles do not allow; ``registry.policies``, for each write
of a
             node; ``registry.tokens``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from kubewright.api.core import MIRROR_POD_ANNOTATION
from kubewright.apiserver.authorization.policy import Attributes, Rule

PREFIX, GROUP = "system:node:", "system:nodes"
LEASES = "kube-node-lease"

Object = Mapping[str, Any]
_READS = frozenset(("get", "list", "watch"))
_CHANGES = frozenset(("update", "patch"))


class Objects(Protocol):
    """What is asked about the objects of the server."""

    def pods_on(self, node: str) -> Iterable[Object]:
        """The pods that are bound to a node."""

    def volume_of(self, namespace: str, claim: str) -> Object:
        """The PersistentVolume that a claim names and that is for this claim; empty: none."""

    def node_of(self, resource: str, name: str, namespace: str = "") -> str:
        """The node that a VolumeAttachment or a ResourceSlice is for, or a Pod is on; empty: none."""


def node_of(asked: Attributes) -> str:
    """The node that sends a request; empty where the user is none."""
    user = asked.user
    return user.name.removeprefix(PREFIX) if user.name.startswith(PREFIX) and GROUP in user.groups else ""


@dataclass(frozen=True, slots=True)
class NodeRights:
    """Decides by the rules of the role, and by the objects."""

    rules: tuple[Rule, ...]
    objects: Objects

    def allows(self, asked: Attributes) -> bool:
        """Whether the request is a node's, and the node may send it."""
        node = node_of(asked)
        if not node or asked.url or not any(rule.allows(asked) for rule in self.rules):
            return False
        narrower = _NARROWER.get((asked.group, asked.resource))
        return narrower is None or narrower(self.objects, node, asked)


Narrower = Callable[[Objects, str, Attributes], bool]


def _of_its_pods(kind: str) -> Narrower:
    """Objects that one of its pods refers to, each by its name."""

    def allowed(objects: Objects, node: str, asked: Attributes) -> bool:
        place = (kind, asked.name)
        return bool(asked.name) and any(
            place in set(references(pod)) for pod in objects.pods_on(node) if _is_in(pod, asked.namespace)
        )

    return allowed


def _volumes(objects: Objects, node: str, asked: Attributes) -> bool:
    """The volumes of the claims of its pods."""
    found = _volumes_on(objects, node)
    return bool(asked.name) and any(each["metadata"].get("name") == asked.name for each in found)


def _volumes_on(objects: Objects, node: str) -> Iterator[Object]:
    claims = (
        (str(pod["metadata"].get("namespace", "")), name)
        for pod in objects.pods_on(node)
        for kind, name in references(pod)
        if kind == CLAIMS
    )
    return (volume for claim in claims if (volume := objects.volume_of(*claim)))


def _secrets(objects: Objects, node: str, asked: Attributes) -> bool:
    """Those of its pods, and those that drivers need for the volumes of its pods."""
    if _of_its_pods(SECRETS)(objects, node, asked):
        return True
    place = (asked.namespace, asked.name)
    volumes = _volumes_on(objects, node) if asked.name else ()
    return any(place in set(secrets_of(volume)) for volume in volumes)


def _accounts(objects: Objects, node: str, asked: Attributes) -> bool:
    """The accounts of its pods, and tokens of them."""
    return _of_its_pods(ACCOUNTS)(objects, node, asked)


def _leases(_objects: Objects, node: str, asked: Attributes) -> bool:
    own = asked.name == node or asked.verb == "create"  # whose it is, is asked when it is known
    return asked.namespace == LEASES and own


def _own_name(_objects: Objects, node: str, asked: Attributes) -> bool:
    return asked.name == node or (asked.verb == "create" and not asked.subresource)


def _pods(objects: Objects, node: str, asked: Attributes) -> bool:
    if asked.verb == "create" and not asked.subresource:
        return True  # that of which pod, is asked when it is known
    if asked.verb in ("list", "watch") and asked.node == node:
        return True
    return bool(asked.name) and objects.node_of("pods", asked.name, asked.namespace) == node


def _slices(objects: Objects, node: str, asked: Attributes) -> bool:
    if asked.verb in ("list", "watch", "deletecollection"):
        return asked.node == node
    return asked.verb == "create" or objects.node_of("resourceslices", asked.name) == node


def _attachments(objects: Objects, node: str, asked: Attributes) -> bool:
    return bool(asked.name) and objects.node_of("volumeattachments", asked.name) == node


SECRETS, MAPS, CLAIMS, ACCOUNTS = "secrets", "configmaps", "persistentvolumeclaims", "serviceaccounts"
DEVICES = "resourceclaims"
_NARROWER: Mapping[tuple[str, str], Narrower] = {
    ("", SECRETS): _secrets,
    ("", MAPS): _of_its_pods(MAPS),
    ("", CLAIMS): _of_its_pods(CLAIMS),
    ("", "persistentvolumes"): _volumes,
    ("", ACCOUNTS): _accounts,
    ("", "nodes"): _own_name,
    ("", "pods"): _pods,
    ("coordination.k8s.io", "leases"): _leases,
    ("storage.k8s.io", "csinodes"): _own_name,
    ("storage.k8s.io", "volumeattachments"): _attachments,
    ("resource.k8s.io", DEVICES): _of_its_pods(DEVICES),
    ("resource.k8s.io", "resourceslices"): _slices,
}


def references(pod: Object) -> Iterator[tuple[str, str]]:
    """What a pod refers to in its namespace: kinds (as in URLs) and names."""
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    if MIRROR_POD_ANNOTATION in (metadata.get("annotations") or {}):
        return
    if account := spec.get("serviceAccountName"):
        yield ACCOUNTS, account
    for each in spec.get("imagePullSecrets") or ():
        yield SECRETS, str(each.get("name"))
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(part) or ():
            yield from _of_container(container)
    for volume in spec.get("volumes") or ():
        yield from _of_volume(volume, str(metadata.get("name")))
    for claim in spec.get("resourceClaims") or ():
        yield DEVICES, str(claim.get("resourceClaimName"))
    for made in (pod.get("status") or {}).get("resourceClaimStatuses") or ():
        yield DEVICES, str(made.get("resourceClaimName"))


def _of_container(container: Object) -> Iterator[tuple[str, str]]:
    for each in container.get("envFrom") or ():
        yield from _named(each, secretRef=SECRETS, configMapRef=MAPS)
    for each in container.get("env") or ():
        yield from _named(each.get("valueFrom") or {}, secretKeyRef=SECRETS, configMapKeyRef=MAPS)


def _of_volume(volume: Object, pod: str) -> Iterator[tuple[str, str]]:
    """Drivers of storage name their Secrets in fields of several names, one level below the volume."""
    if secret := (volume.get("secret") or {}).get("secretName"):
        yield SECRETS, secret
    yield from _named(volume, configMap=MAPS)
    if claim := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
        yield CLAIMS, claim
    if "ephemeral" in volume:
        yield CLAIMS, f"{pod}-{volume.get('name')}"
    for source in (volume.get("projected") or {}).get("sources") or ():
        yield from _named(source, secret=SECRETS, configMap=MAPS)
    for name, driver in volume.items():
        if isinstance(driver, Mapping) and name not in ("secret", "projected", "configMap"):
            yield from _named(driver, secretRef=SECRETS, nodePublishSecretRef=SECRETS)
            if name == "azureFile" and driver.get("secretName"):
                yield SECRETS, str(driver["secretName"])


_FOR_KUBELETS = ("secretRef", "nodeStageSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef")


def secrets_of(volume: Object) -> Iterator[tuple[str, str]]:
    """The Secrets that a kubelet needs for a PersistentVolume: namespaces (usually the claim's) and names."""
    spec = volume.get("spec") or {}
    usual = str((spec.get("claimRef") or {}).get("namespace") or "")
    for name, driver in spec.items():
        if not isinstance(driver, Mapping):
            continue
        for field in _FOR_KUBELETS:
            found = driver.get(field)
            if isinstance(found, Mapping) and found.get("name"):
                yield str(found.get("namespace") or usual), str(found["name"])
        if name == "azureFile" and driver.get("secretName"):
            yield str(driver.get("secretNamespace") or usual), str(driver["secretName"])


def _named(obj: Object, **kinds: str) -> Iterator[tuple[str, str]]:
    """The names in these fields, each with the kind that it is of."""
    for field, kind in kinds.items():
        found = obj.get(field)
        if isinstance(found, Mapping) and found.get("name"):
            yield kind, str(found["name"])


def _is_in(pod: Object, namespace: str) -> bool:
    return bool(pod["metadata"].get("namespace") == namespace)


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
