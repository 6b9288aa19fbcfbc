"""Kinds on which nothing here acts: what the server fills in of them, and what it refuses.

Theory.      Programs list and watch these kinds, and charts bring them along: cluster-autoscaler reads what
             devices and storage there are, ``kubectl apply --prune`` looks for ReplicationControllers and
             Ingresses. An object that kube-apiserver takes is taken with the same defaults, and one that it
             refuses is refused in the same words; nobody balances, enforces, scales or allocates by it, and
             each response to a new spec says so in a warning.
Invariants.  Pure; arguments are not changed. The fields have the right JSON types: the schema is checked
             first.
Called by    ``prepare``, ``check`` and the package, which list these functions by kind.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kubewright.apiserver.registry.builtin import rules
from kubewright.apiserver.registry.builtin.conversion import PERCENT, cpu, to_newer
from kubewright.apiserver.registry.builtin.rules import Rule, amount_of, at_least
from kubewright.apiserver.schema.builtin import BuiltinSchema
from kubewright.apiserver.schema.causes import Cause, invalid, required, unsupported
from kubewright.apiserver.schema.node import Object, at

Change = Callable[[Object], Object]

STANDARD = frozenset(
    (
        "configmaps", "count", "cpu", "ephemeral-storage", "limits.cpu", "limits.ephemeral-storage",
        "limits.memory", "memory", "persistentvolumeclaims", "pods", "replicationcontrollers", "requests.cpu",
        "requests.ephemeral-storage", "requests.memory", "requests.storage", "resourcequotas", "secrets",
        "services", "services.loadbalancers", "services.nodeports",
    )
)  # fmt: skip
"""What a quota may count under a name without a domain."""

_HUGE = "hugepages-", "requests.hugepages-"

NEWER_DEFINITION = "autoscaling.v2.HorizontalPodAutoscaler"
_SCALERS = "HorizontalPodAutoscalers, and scales nothing by them"

NOTHING_ACTS: Mapping[str, str] = {
    "autoscaling.v1.HorizontalPodAutoscaler": _SCALERS,
    "autoscaling.v2.HorizontalPodAutoscaler": _SCALERS,
    "core.v1.LimitRange": "LimitRanges, and applies none of them",
    "core.v1.ReplicationController": "ReplicationControllers, and makes no Pods of them",
    "core.v1.ResourceQuota": "ResourceQuotas, and enforces none of them",
    "networking.v1.Ingress": "Ingresses, and routes nothing by them",
    "networking.v1.NetworkPolicy": "NetworkPolicies, and enforces none of them",
    "resource.v1.ResourceClaim": "ResourceClaims, and allocates no devices for them",
}
"""What this server does with the objects of a kind instead of what a user expects."""


def with_status(status: Mapping[str, Any]) -> Change:
    """The status that a new object has before any controller has seen it."""
    return lambda obj: {**obj, "status": dict(status)}


def of_the_template(controller: Object) -> Object:
    """Labels and selector of a ReplicationController default to the labels of its template."""
    labels = at(controller, "spec.template.metadata.labels")
    if not labels:
        return controller
    meta, spec = controller.get("metadata") or {}, controller["spec"]
    own = {"labels": meta.get("labels") or labels, "selector": spec.get("selector") or labels}
    return {
        **controller,
        "metadata": {**meta, "labels": own["labels"]},
        "spec": {**spec, "selector": own["selector"]},
    }


def container_limits(limits: Object) -> Object:
    """In a limit for containers, what they get by default is what they may have at most, or need at least."""
    items = at(limits, "spec.limits")
    return limits if not items else _in_spec(limits, limits=[_with_defaults(each) for each in items])


def _with_defaults(item: dict[str, Any]) -> dict[str, Any]:
    if item.get("type") != "Container":
        return item
    default = {**(item.get("max") or {}), **(item.get("default") or {})}
    requests = {**(item.get("min") or {}), **default, **(item.get("defaultRequest") or {})}
    filled = {"default": default, "defaultRequest": requests}
    return {**item, **{name: value for name, value in filled.items() if value}}


def policy_types(policy: Object) -> Object:
    """A network policy is about what comes in, and about what goes out if it says anything of that."""
    spec = policy.get("spec") or {}
    if spec.get("policyTypes"):
        return policy
    return _in_spec(policy, policyTypes=["Ingress", *(["Egress"] if spec.get("egress") else [])])


def older_autoscaler(scaler: Object) -> Object:
    """One of autoscaling/v1; its metric is filled in when it becomes one of v2."""
    least = at(scaler, "spec.minReplicas")
    return _in_spec(scaler, minReplicas=1 if least is None else least)


def autoscaler(scaler: Object) -> Object:
    spec = scaler.get("spec") or {}
    minimum = 1 if spec.get("minReplicas") is None else spec["minReplicas"]
    return _in_spec(scaler, minReplicas=minimum, metrics=spec.get("metrics") or [cpu(PERCENT)])


def device_requests(*path: str) -> Change:
    """A request for devices means one of them, below this path."""

    def exact(request: dict[str, Any]) -> dict[str, Any]:
        asked = request.get("exactly")
        if asked is None:
            return request
        mode = asked.get("allocationMode") or "ExactCount"
        count = {"count": asked.get("count") or 1} if mode == "ExactCount" else {}
        return {**request, "exactly": {**asked, "allocationMode": mode, **count}}

    def change(obj: Object) -> Object:
        requests = at(obj, ".".join((*path, "devices", "requests")))
        if not requests:
            return obj
        changed: Object = _replaced(obj, (*path, "devices", "requests"), [exact(each) for each in requests])
        return changed

    return change


def _replaced(obj: Any, path: tuple[str, ...], value: Any) -> Any:
    return value if not path else {**obj, path[0]: _replaced(obj[path[0]], path[1:], value)}


def _in_spec(obj: Object, **fields: Any) -> Object:
    return {**obj, "spec": {**(obj.get("spec") or {}), **fields}}


# ------------------------------------------------------------ rules


def controller(new: Object, _old: Object | None) -> Iterator[Cause]:
    """A ReplicationController selects the pods of its template."""
    spec = new.get("spec") or {}
    selector, template = spec.get("selector") or {}, spec.get("template")
    if not selector:
        yield required("spec.selector")
    if template is None:
        yield required("spec.template")
    elif selector and not selector.items() <= at(template, "metadata.labels", {}).items():
        labels = at(template, "metadata.labels")
        yield invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def scaling(new: Object, _old: Object | None) -> Iterator[Cause]:
    """An autoscaler names its target, and bounds that fit together."""
    spec = new.get("spec") or {}
    least, most, target = spec.get("minReplicas") or 1, spec["maxReplicas"], spec["scaleTargetRef"]
    if most < 1:
        yield required("spec.maxReplicas", "must be set and greater than 0")
    if most < least:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    for field in ("kind", "name"):
        if target.get(field) == "":
            yield required(f"spec.scaleTargetRef.{field}")


def older_scaling(new: Object, old: Object | None) -> Iterator[Cause]:
    """The same of one of autoscaling/v1; and what its annotations say has the forms of v2."""
    yield from scaling(new, old)
    yield from BuiltinSchema(NEWER_DEFINITION).validate(to_newer(new))


def ingress(new: Object, _old: Object | None) -> Iterator[Cause]:
    """An ingress leads somewhere, and each of its paths says how it is compared."""
    spec = new.get("spec") or {}
    if not spec.get("defaultBackend") and not spec.get("rules"):
        yield invalid("spec", None, "either `defaultBackend` or `rules` must be specified")
    if (backend := spec.get("defaultBackend")) is not None:
        yield from _backend(backend, "spec.defaultBackend")
    for number, rule in enumerate(spec.get("rules") or ()):
        for index, path in enumerate(at(rule, "http.paths", ())):
            where = f"spec.rules[{number}].http.paths[{index}]"
            kind = path.get("pathType")
            if not kind:
                yield required(f"{where}.pathType", "pathType must be specified")
            elif kind not in _PATH_TYPES:
                yield unsupported(f"{where}.pathType", kind, _PATH_TYPES)
            elif kind != "ImplementationSpecific" and not str(path.get("path", "")).startswith("/"):
                yield invalid(f"{where}.path", path.get("path", ""), "must be an absolute path")
            yield from _backend(path.get("backend") or {}, f"{where}.backend")


def _backend(backend: Mapping[str, Any], where: str) -> Iterator[Cause]:
    port = at(backend, "service.port", {})
    if "service" in backend and not port.get("name") and not port.get("number"):
        yield required(where, "port name or number is required")


def ingress_class(new: Object, _old: Object | None) -> Iterator[Cause]:
    name = at(new, "spec.controller", "")
    if not name:
        yield required("spec.controller")
    elif not all(name.partition("/")[::2]):
        words = 'must be a domain-prefixed path (such as "acme.io/foo")'
        yield invalid("spec.controller", name, words)


def network_policy(new: Object, _old: Object | None) -> Iterator[Cause]:
    spec = new.get("spec") or {}
    yield from rules.label_selector(spec.get("podSelector") or {}, "spec.podSelector")
    for index, kind in enumerate(spec.get("policyTypes") or ()):
        if kind not in _POLICY_TYPES:
            yield unsupported(f"spec.policyTypes[{index}]", kind, _POLICY_TYPES)


def quota(new: Object, _old: Object | None) -> Iterator[Cause]:
    """What a quota counts has a name that is known, or one with a domain, and no amount is negative."""
    for name, amount in at(new, "spec.hard", {}).items():
        where = f"spec.hard[{name}]"
        if _is_negative(amount):
            yield invalid(where, str(amount), "must be greater than or equal to 0")
        if "/" not in name and name not in STANDARD and not name.startswith(_HUGE):
            yield invalid(where, name, "must be a standard resource type or fully qualified")
            yield invalid(where, name, "must be a standard resource for quota")


def limit_range(new: Object, _old: Object | None) -> Iterator[Cause]:
    """The least that a limit asks for is not more than the most that it allows."""
    for index, item in enumerate(at(new, "spec.limits", ())):
        most = item.get("max") or {}
        for name, least in (item.get("min") or {}).items():
            asked, allowed = amount_of(least), amount_of(most[name]) if name in most else None
            if asked is not None and allowed is not None and asked > allowed:
                words = f"min value {least} is greater than max value {most[name]}"
                yield invalid(f"spec.limits[{index}].min[{name}]", str(least), words)


def device_claim(path: str) -> Rule:
    """Each request of a claim, whose spec is at ``path``, asks for devices in exactly one way."""

    def rule(new: Object, _old: Object | None) -> Iterator[Cause]:
        for index, request in enumerate(at(new, f"{path}.devices.requests", ())):
            if ("exactly" in request) == ("firstAvailable" in request):
                words = "exactly one of `exactly` or `firstAvailable` is required"
                yield required(f"{path}.devices.requests[{index}]", words)

    return rule


def resource_slice(new: Object, _old: Object | None) -> Iterator[Cause]:
    """A slice says whose devices it lists, and where they are."""
    spec = new.get("spec") or {}
    if not spec.get("driver"):
        yield required("spec.driver")
    if not at(spec, "pool.name"):
        yield required("spec.pool.name")
    if (count := at(spec, "pool.resourceSliceCount", 0)) < 1:
        yield invalid("spec.pool.resourceSliceCount", count, "must be greater than zero")
    if sum(bool(spec.get(name)) for name in _PLACES) != 1:
        yield required("spec", f"exactly one of {', '.join(f'`{each}`' for each in _PLACES)} is required")


def capacity(new: Object, _old: Object | None) -> Iterator[Cause]:
    if _is_negative(new.get("capacity")):
        yield invalid("capacity", str(new["capacity"]), "must be greater than or equal to 0")


def _is_negative(quantity: Any) -> bool:
    amount = None if quantity is None else amount_of(quantity)
    return amount is not None and amount < 0


_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_POLICY_TYPES = ("Ingress", "Egress")
_PLACES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")

RULES: Mapping[str, tuple[Rule, ...]] = {
    "autoscaling.v1.HorizontalPodAutoscaler": (older_scaling,),
    "autoscaling.v2.HorizontalPodAutoscaler": (scaling,),
    "core.v1.LimitRange": (limit_range,),
    "core.v1.ReplicationController": (
        at_least(0, "spec.minReadySeconds", "spec.replicas"), controller, rules.template(),
    ),
    "core.v1.ResourceQuota": (quota,),
    "networking.v1.Ingress": (ingress,),
    "networking.v1.IngressClass": (ingress_class,),
    "networking.v1.NetworkPolicy": (network_policy,),
    "resource.v1.ResourceClaim": (device_claim("spec"),),
    "resource.v1.ResourceClaimTemplate": (device_claim("spec.spec"),),
    "resource.v1.ResourceSlice": (resource_slice,),
    "storage.v1.CSIStorageCapacity": (capacity,),
}  # fmt: skip
