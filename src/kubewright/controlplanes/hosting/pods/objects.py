"""The objects of a component in pods: their kinds, what they should be, and what to change in each. Pure.

Kinds.       Of a Pod only metadata and status are kept, because its spec is the one that we wrote.
             StatefulSets and Services are kept as a whole, since patches are computed from them. Informers
             select by our labels, so the pods of others cost no memory.
Manifests.   The rendered manifests contain what users know: names, flags, patches. This module adds what this
             host needs: the component object as controlling owner, labels by which pods are found, the
             variables of instances, the fingerprint on the pods, the update strategy of the StatefulSet, and
             what becomes of volume claims. A variable that the manifest sets itself is kept.
Differences. If no object exists, it is created. An object that exists has an annotation with a hash of the
             manifest that we wrote last; if the hash or a field of ours differs, a merge patch is computed
             from before and after. The server adds defaults and writes quantities in its own way, so only the
             fields of the manifest are compared. A pod template is replaced as a whole, since users change it
             by the component's patches: what is not in the manifest is removed.
Invariants.  The same workload gives the same objects. A selector contains the component beside the name of
             the component object, because objects of two kinds may have the same name. With 0 replicas no
             claim is deleted. An object that the component object does not control is never changed. A field
             of a StatefulSet that cannot be changed is never sent: the difference is reported, with what to
             do about it.
Called by    ``host``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import field, structs, to_builtins

from kubewright.api.apps import STATEFUL_SET
from kubewright.api.cluster.names import CLUSTER_NAME_LABEL
from kubewright.api.controlplane.names import (
    COMPONENT_LABEL,
    FINGERPRINT_ANNOTATION,
    MANIFEST_ANNOTATION,
    ROLE_LABEL,
    VERSION_ANNOTATION,
)
from kubewright.api.core import POD
from kubewright.api.diff import Patch, merge_patch
from kubewright.api.kinds import Kind, dynamic
from kubewright.api.meta import Condition, KubeObject, ObjectMeta, Time, Value
from kubewright.controlplanes.hosting.contract import Workload, WorkloadIdentity
from kubewright.controlplanes.templates.catalog import Manifest
from kubewright.controlplanes.templates.render import DATA_FOLDER, FILES_FOLDER, PKI_FOLDER
from kubewright.kube.patches import onto
from kubewright.wire.gvk import Resource
from kubewright.wire.quantity import parse

OUR_LABELS = ",".join((COMPONENT_LABEL, ROLE_LABEL, CLUSTER_NAME_LABEL))
"""The label selector of everything that is made for components: it has all three labels."""

FINISHED = ("Succeeded", "Failed")
"""Phases of a Pod that runs nothing any more."""


class ContainerStateWaiting(Value, frozen=True, kw_only=True):
    """Why a container does not run yet, in a word and a sentence."""

    reason: str = ""
    message: str = ""


class ContainerStateTerminated(Value, frozen=True, kw_only=True):
    """How a container ended. Its message, which may be the end of a log, is not read."""

    reason: str = ""
    exit_code: int = 0


class ContainerStateRunning(Value, frozen=True, kw_only=True):
    """A container that runs."""

    started_at: Time | None = None


class ContainerState(Value, frozen=True, kw_only=True):
    """The state of a container: one of the three is set."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Value, frozen=True, kw_only=True):
    """The status of a container, as its kubelet writes it."""

    ready: bool = False
    restart_count: int = 0
    state: ContainerState = field(default_factory=ContainerState)
    last_state: ContainerState = field(default_factory=ContainerState)


class PodStatus(Value, frozen=True, kw_only=True):
    """The status of a Pod, as its kubelet writes it."""

    phase: str = ""
    reason: str = ""
    pod_ip: str = field(default="", name="podIP")
    conditions: tuple[Condition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class ComponentPod(KubeObject, frozen=True, kw_only=True):
    """A Pod with metadata and status alone."""

    status: PodStatus = field(default_factory=PodStatus)


INSTANCE: Kind[ComponentPod] = Kind(POD.resource, ComponentPod, pruned=True)
RESTORE_POD: Kind[dict[str, Any]] = dynamic(POD.resource)
"""A Pod that replaces the data of a member, as we write it."""
WORKLOAD: Kind[dict[str, Any]] = dynamic(STATEFUL_SET.resource)
SERVICE = dynamic(Resource("", "v1", "services", "Service", short_names=("svc",)))
CLAIM: Kind[KubeObject] = Kind(
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short_names=("pvc",)), KubeObject
)

RESTORE_CLAIM: Kind[dict[str, Any]] = dynamic(CLAIM.resource)
"""A claim that such a Pod needs, as we write it."""

KINDS = {"StatefulSet": WORKLOAD, "Service": SERVICE}
"""The kinds of manifests that this host accepts."""


LONGEST_LABEL = 63
RECONCILER = "lease"
"""How replicas of an API server agree on the endpoints of the Service ``kubernetes``."""

Variable = Mapping[str, Any]


def wanted(workload: Workload) -> list[Manifest]:
    """The objects that there should be: Services, then the StatefulSet, which needs them."""
    found = [_completed(each, workload) for each in workload.rendered.manifests]
    return sorted(found, key=lambda each: each["kind"] == WORKLOAD.resource.kind)


def services(workload: Workload) -> list[Manifest]:
    """Those of ``wanted`` by which clients and other instances reach the instances."""
    chosen = [each for each in workload.rendered.manifests if each["kind"] == SERVICE.resource.kind]
    return [_completed(each, workload) for each in chosen]


def unfit(workload: Workload) -> str:
    """Why these manifests cannot be objects of ours: a sentence; empty if they can."""
    for each in workload.rendered.manifests:
        if each["kind"] not in KINDS:
            kinds, odd = (
                " and ".join(f"{kind}s" for kind in KINDS),
                f"{each['kind']} {each['metadata']['name']}",
            )
            return f"the templates have the {odd}; components in pods are made of {kinds} only"
    if len(name := workload.identity.object.name) > LONGEST_LABEL:
        return f"the name {name} is longer than {LONGEST_LABEL} characters and cannot be a label of pods"
    return ""


def labels(identity: WorkloadIdentity) -> dict[str, str]:
    """The labels of everything that is made for a component."""
    return {**selector(identity), CLUSTER_NAME_LABEL: identity.cluster}


def selector(identity: WorkloadIdentity) -> dict[str, str]:
    """The labels by which the Services and the StatefulSet select the pods."""
    return {COMPONENT_LABEL: identity.object.name, ROLE_LABEL: str(identity.component)}


def variables(workload: Workload) -> list[Variable]:
    """The environment of every instance, in an order in which each variable may refer to those before it."""
    identity = workload.identity
    fixed = {
        "HOST": f"$(INSTANCE).{identity.workload}.$(NAMESPACE).svc",
        "ADVERTISE_ADDRESS": "$(ADDRESS)",
        "ENDPOINT_RECONCILER": RECONCILER,
        "PKI_DIR": PKI_FOLDER,
        "FILES_DIR": FILES_FOLDER,
        "DATA_DIR": DATA_FOLDER,
        **dict(sorted(workload.environment.items())),
    }
    return [
        _of_pod("INSTANCE", "metadata.name"),
        _of_pod("NAMESPACE", "metadata.namespace"),
        _of_pod("ADDRESS", "status.podIP"),
        *({"name": name, "value": value} for name, value in fixed.items()),
    ]


def _of_pod(name: str, path: str) -> Variable:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _completed(manifest: Manifest, workload: Workload) -> Manifest:
    """A manifest with everything that this host adds, and an annotation with a hash of all of it."""
    is_workload = manifest["kind"] == WORKLOAD.resource.kind
    spec = _workload_spec(manifest["spec"], workload) if is_workload else _service_spec(manifest, workload)
    metadata, identity = manifest["metadata"], workload.identity
    owner = structs.replace(identity.object, controller=True, block_owner_deletion=True)
    found = {
        **manifest,
        "metadata": {
            **metadata,
            "namespace": identity.namespace,
            "labels": {**metadata.get("labels", {}), **labels(identity)},
            "ownerReferences": [to_builtins(owner)],
        },
        "spec": spec,
    }
    mark = sha256(msgspec.json.encode(found, order="deterministic")).hexdigest()[:16]
    marked = {**metadata.get("annotations", {}), MANIFEST_ANNOTATION: mark}
    return {**found, "metadata": {**found["metadata"], "annotations": marked}}


def _service_spec(manifest: Manifest, workload: Workload) -> Mapping[str, Any]:
    """The spec of a Service; one that selects by the component's label selects this component alone."""
    spec: Mapping[str, Any] = manifest["spec"]
    selected, identity = spec.get("selector", {}), workload.identity
    if selected.get(COMPONENT_LABEL) != identity.object.name:
        return spec  # a user's patch made it select something else
    return {**spec, "selector": {**selected, **selector(identity)}}


def _workload_spec(spec: Mapping[str, Any], workload: Workload) -> dict[str, Any]:
    chosen = spec.get("selector", {})
    matched = {**chosen.get("matchLabels", {}), **selector(workload.identity)}
    found = {
        **spec,
        "replicas": workload.replicas,
        "selector": {**chosen, "matchLabels": matched},
        "updateStrategy": {"type": "OnDelete"},
        "template": _template(spec["template"], workload),
    }
    if spec.get("volumeClaimTemplates"):
        scaled = "Delete" if workload.replicas else "Retain"
        kept = {"whenDeleted": "Retain", "whenScaled": scaled}
        found.setdefault("persistentVolumeClaimRetentionPolicy", kept)
    return found


def _template(template: Mapping[str, Any], workload: Workload) -> dict[str, Any]:
    metadata, pod = template.get("metadata", {}), template["spec"]
    annotations = {FINGERPRINT_ANNOTATION: workload.fingerprint, VERSION_ANNOTATION: workload.version}
    ours = variables(workload)
    containers = [{**each, "env": _environment(ours, each.get("env", ()))} for each in pod["containers"]]
    return {
        "metadata": {
            **metadata,
            "labels": {**metadata.get("labels", {}), **labels(workload.identity)},
            "annotations": {**metadata.get("annotations", {}), **annotations},
        },
        "spec": {**pod, "containers": containers},
    }


def _environment(ours: Iterable[Variable], theirs: Iterable[Variable]) -> list[Variable]:
    """Our variables, then those of the manifest, which may refer to ours, or replace one of the same name."""
    found = {each["name"]: each for each in ours}
    found.update({each["name"]: each for each in theirs})
    return list(found.values())


CHANGEABLE = frozenset(
    {
        "minReadySeconds",
        "ordinals",
        "persistentVolumeClaimRetentionPolicy",
        "replicas",
        "revisionHistoryLimit",
        "template",
        "updateStrategy",
    }
)
"""What may change in the spec of a StatefulSet that exists."""


@dataclass(frozen=True, slots=True)
class Create:
    """It is not there."""


@dataclass(frozen=True, slots=True)
class Change:
    """It is there, and differs. ``patch``: with the uid and the version that it was computed from."""

    patch: Patch


@dataclass(frozen=True, slots=True)
class Leave:
    """It is as it should be."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Nothing can be done now: ``why``, a sentence. ``passes``: whether it may end without a user's help."""

    why: str
    passes: bool = False


Step = Create | Change | Leave | Obstacle


def decide(seen: Mapping[str, Any] | None, manifest: Manifest) -> Step:
    """What to do with the object that this manifest describes; ``seen`` is None if there is none."""
    if seen is None:
        return Create()
    told, (owner,) = named(manifest), manifest["metadata"]["ownerReferences"]
    if controller_of(seen) != owner["uid"]:
        return Obstacle(f"{told} is there already and belongs to another, so it is left alone", passes=True)
    if seen["metadata"].get("deletionTimestamp"):
        return Obstacle(f"{told} is still being deleted", passes=True)
    if fixed := _fixed(seen, manifest):
        name = manifest["metadata"]["name"]
        mend = f"after `kubectl delete statefulset {name} --cascade=orphan` it is made anew around its pods"
        return Obstacle(f"{told} has another {fixed}, which cannot be changed while it exists; {mend}")
    if _mark(seen) == _mark(manifest) and covers(seen, manifest):
        return Leave()
    meta = ObjectMeta(uid=seen["metadata"]["uid"], resource_version=seen["metadata"]["resourceVersion"])
    return Change(onto(merge_patch(seen, _after(seen, manifest)), meta))


def outdated(seen: Mapping[str, Any] | None, manifest: Manifest) -> bool:
    """Whether an object is not there, or is ours and was written from another manifest.

    What others have changed in it since is no reason: a server that changes it as well would never end it.
    """
    if seen is None:
        return True
    (owner,) = manifest["metadata"]["ownerReferences"]
    ours = controller_of(seen) == owner["uid"] and not seen["metadata"].get("deletionTimestamp")
    return ours and _mark(seen) != _mark(manifest)


def covers(seen: Any, wanted: Any) -> bool:
    """Whether ``seen`` has all that is wanted. Its objects may have more fields, its lists no more items."""
    if isinstance(wanted, Mapping):
        inner = seen if isinstance(seen, Mapping) else {}
        return all(covers(inner.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, (list, tuple)):
        inside: Sequence[Any] = seen if isinstance(seen, list) else ()
        return len(inside) == len(wanted) and all(map(covers, inside, wanted))
    if seen is None:
        return not wanted
    return bool(seen == wanted) or _same_amount(seen, wanted)


def controller_of(obj: Mapping[str, Any]) -> str:
    """The uid of an object's controlling owner; empty if it has none."""
    owners = obj["metadata"].get("ownerReferences", ())
    return next((str(each["uid"]) for each in owners if each.get("controller")), "")


def named(obj: Mapping[str, Any]) -> str:
    """How a sentence names an object."""
    metadata = obj["metadata"]
    return f"the {obj['kind']} {metadata['namespace']}/{metadata['name']}"


def _same_amount(one: Any, other: Any) -> bool:
    if not isinstance(one, (str, int)) or not isinstance(other, (str, int)):
        return False
    try:
        return parse(one) == parse(other)
    except ValueError:
        return False


def _mark(obj: Mapping[str, Any]) -> str:
    return str(obj["metadata"].get("annotations", {}).get(MANIFEST_ANNOTATION, ""))


def _fixed(seen: Mapping[str, Any], manifest: Manifest) -> str:
    """The fields of a StatefulSet that differ and cannot be changed; empty if there are none."""
    if manifest["kind"] != WORKLOAD.resource.kind:
        return ""
    there = seen["spec"]
    return ", ".join(
        f"spec.{name}"
        for name, value in manifest["spec"].items()
        if name not in CHANGEABLE and not covers(there.get(name), value)
    )


def _after(seen: Mapping[str, Any], manifest: Manifest) -> dict[str, Any]:
    """The object as it should be after the patch: the manifest merged over what is seen."""
    spec = dict(manifest["spec"])
    if manifest["kind"] == WORKLOAD.resource.kind:
        spec = {name: value for name, value in spec.items() if name in CHANGEABLE}
    laid: dict[str, Any] = _merged(seen, {"metadata": manifest["metadata"], "spec": spec})
    if "template" in spec:
        laid["spec"]["template"] = spec["template"]
    return laid


def _merged(below: Any, above: Any) -> Any:
    if not (isinstance(below, Mapping) and isinstance(above, Mapping)):
        return above
    return {**below, **{key: _merged(below.get(key), value) for key, value in above.items()}}
