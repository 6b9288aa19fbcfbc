"""Defaults of a pod's spec that depend on other fields of it.

Theory.      Constant defaults are in ``schema.facts``. These depend on other fields: the pull policy
             follows the image's tag, requests follow limits, a volume without a source is an
             emptyDir. Pod templates get the same defaults.
Invariants.  Pure; the argument is not changed. Applied twice, the second time changes nothing.
Called by    ``prepare``.
"""

from collections.abc import Callable, Iterable
from typing import Any

from kubewright.api.core import MIRROR_POD_ANNOTATION
from kubewright.apiserver.schema.node import Object, at

Spec = dict[str, Any]
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_COMPUTE = ("cpu", "memory")
_COMPUTED = ("priority", "preemptionPolicy")


def spec_defaults(spec: Spec) -> Spec:
    """A pod's spec with the defaults that depend on other fields."""
    filled = {name: [_container(c, spec) for c in spec[name]] for name in _CONTAINERS if spec.get(name)}
    if spec.get("volumes"):
        filled["volumes"] = [_volume(volume) for volume in spec["volumes"]]
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        filled |= {"serviceAccount": account, "serviceAccountName": account}
    return {**spec, **filled}


def _container(container: Spec, spec: Spec) -> Spec:
    filled = dict(container)
    if container.get("image") and not container.get("imagePullPolicy"):
        filled["imagePullPolicy"] = _pull_policy(container["image"])
    resources = container.get("resources") or {}
    if limits := resources.get("limits"):
        filled["resources"] = {**resources, "requests": {**limits, **(resources.get("requests") or {})}}
    if spec.get("hostNetwork") and container.get("ports"):
        filled["ports"] = [{"hostPort": port["containerPort"], **port} for port in container["ports"]]
    return filled


def _pull_policy(image: str) -> str:
    """Always for the tag ``latest`` or none, since its image may change; a digest always names one image."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "IfNotPresent" if digest or tag not in ("", "latest") else "Always"


def _volume(volume: Spec) -> Spec:
    return volume if volume.keys() - {"name"} else {**volume, "emptyDir": {}}


def created(pod: Object) -> Object:
    """A pod as it is first stored: with all defaults, and pending. A mirror of what a kubelet runs by itself
    gets no account."""
    spec = spec_defaults(pod.get("spec") or {})
    mirrors = MIRROR_POD_ANNOTATION in ((pod.get("metadata") or {}).get("annotations") or {})
    account = spec.get("serviceAccountName") or ("" if mirrors else "default")
    spec |= {
        "enableServiceLinks": spec.get("enableServiceLinks", True),
        "preemptionPolicy": spec.get("preemptionPolicy", "PreemptLowerPriority"),
        "priority": spec.get("priority", 0),
        **({"serviceAccount": account, "serviceAccountName": account} if account else {}),
    }
    return {**pod, "spec": spec, "status": {"phase": "Pending", "qosClass": qos_class(spec)}}


def with_same_priority(new: Object, old: Object | None) -> Object:
    """An update of a pod that leaves out what the server computed of its priority keeps it."""
    before, spec = (old or {}).get("spec") or {}, new.get("spec") or {}
    kept = {name: before[name] for name in _COMPUTED if name in before and spec.get(name) is None}
    return {**new, "spec": {**spec, **kept}} if kept else new


def with_default_tolerations(pod: Object) -> Object:
    """A pod with the default tolerations of an unready or unreachable node, added at every write."""
    spec = pod.get("spec") or {}
    return {**pod, "spec": {**spec, "tolerations": _tolerations(spec.get("tolerations") or [])}}


def _tolerations(given: list[Spec]) -> list[Spec]:
    """Two tolerations of five minutes are added, unless the pod has its own."""
    missing = [key for key in _TOLERATED if not any(_tolerates(toleration, key) for toleration in given)]
    added = [
        {"key": k, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300} for k in missing
    ]
    return [*given, *added]


def _tolerates(toleration: Spec, key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")


def qos_class(spec: Spec) -> str:
    """``Guaranteed`` when all requests equal their limits, ``BestEffort`` when there are none."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    asked = [(at(c, "resources.requests", {}), at(c, "resources.limits", {})) for c in containers]
    if not any(_compute(part) for pair in asked for part in pair):
        return "BestEffort"
    sure = all(_compute(limits) == set(_COMPUTE) and _equal(requests, limits) for requests, limits in asked)
    return "Guaranteed" if sure else "Burstable"


def _compute(amounts: Iterable[str]) -> set[str]:
    return set(_COMPUTE) & set(amounts)


def _equal(requests: Spec, limits: Spec) -> bool:
    return all(requests.get(name, limits[name]) == limits[name] for name in _COMPUTE)


def in_template(*path: str) -> Callable[[Object], Object]:
    """A function that fills in the pod template at ``path``."""

    def fill(obj: Object) -> Object:
        filled: Object = _at_path(obj, (*path, "spec"), spec_defaults)
        return filled

    return fill


def _at_path(obj: Any, path: tuple[str, ...], change: Callable[[Spec], Spec]) -> Any:
    if not isinstance(obj, dict):
        return obj
    if not path:
        return change(obj)
    if path[0] not in obj:
        return obj
    return {**obj, path[0]: _at_path(obj[path[0]], path[1:], change)}
