"""What a node may do: its own objects, its pods, and what these refer to. Pure.

Theory.      A kubelet is the user ``system:node:<name>`` in the group ``system:nodes``. No binding gives it
             rights: it may do what the role ``system:node`` names, and of that only what its node is for. So
             a machine that was broken into reads the Secrets of the pods that run on it, and of no others,
             and reports on no other node. What pods refer to is looked up when it is asked for: there is no
             graph to keep.
Invariants.  No opinion is no right: where this module says nothing, the roles decide. A mirror pod, which the
             kubelet itself makes, gives it no right to anything.
Source       kube-apiserver's Node authorizer.
Called by    ``policy``, for each request that the roles do not allow. What of its objects a node may change
             is judged when they are known (``restriction``).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from kubewright.api.core import MIRROR_POD_ANNOTATION
from kubewright.apiserver.authorization.attributes import Attributes
from kubewright.apiserver.authorization.rules import Rule

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
