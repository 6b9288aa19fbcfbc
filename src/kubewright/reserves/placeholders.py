"""What a reserve has in the cluster of the nodes: a Deployment of placeholders, and its PriorityClass. Pure.

Theory.      A placeholder asks for one unit and runs the image in which Kubernetes' own pods pause. Nothing
             waits for it: it has no budget, ends within a second, and tells cluster-autoscaler that it may be
             evicted. Its class has ``preemptionPolicy: Never``, so it takes nothing from others, and no
             placeholder of another reserve either. When its template changes all are replaced at once, none
             beside the old ones: a surge would make an autoscaler buy machines for a moment. The value of a
             PriorityClass never changes, so it is part of the class's name, and another value is another
             class.
             The API server completes what it is sent. So a template is compared field by field, quantities
             as numbers; what we do not set does not count.
Invariants.  Names are functions of the reserve's name; what carries another reserve's uid is never written.
             A placeholder cannot gain privileges, has no token, and cannot write.
Source       EXC-01, EXC-02; decision 0070.
Called by    ``decide``; ``reconciler`` finds them by name.
"""

from collections.abc import Mapping
from typing import Any

from kubewright.api.apps import Deployment, DeploymentStrategy, PodTemplate
from kubewright.api.capacity.v1alpha1 import (
    OWNER_LABEL,
    PLACE,
    PLACEHOLDER_LABEL,
    RESERVE_ANNOTATION,
    SAFE_TO_EVICT,
    CapacityReserve,
    ZoneSpread,
)
from kubewright.api.capacity.validate import amount
from kubewright.api.diff import Patch, merge_patch
from kubewright.api.meta import Json, Quantity
from kubewright.base.names import child_name, fnv32a, safe_encode
from kubewright.wire.gvk import Key

NO_DEADLINE = 2**31 - 1
"""Of ``progressDeadlineSeconds``: placeholders may wait for ever, which is no failure."""
UNPRIVILEGED = 65535
CONTAINER = "placeholder"
PATIENCE: Mapping[str, Json] = {
    "type": "RollingUpdate",
    "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "100%"},
}


def name_of(key: Key) -> str:
    """The name of a reserve's Deployment, also as a label; another one for each reserve."""
    digest = safe_encode(f"{fnv32a(str(key).encode()):08x}")
    return child_name(f"reserve-{key.namespace}-{key.name}".replace(".", "-"), digest)


def class_name(key: Key, priority: int) -> str:
    """The name of the PriorityClass of a reserve for one value."""
    return f"{name_of(key)}.{'minus-' if priority < 0 else ''}{abs(priority)}"


def priority_class(reserve: CapacityReserve) -> dict[str, Json]:
    """The PriorityClass, as it is created."""
    priority = reserve.spec.priority
    return {
        "metadata": _marked(reserve, class_name(_key(reserve), priority)),
        "value": priority,
        "preemptionPolicy": "Never",
        "globalDefault": False,
        "description": f"Placeholders of the CapacityReserve {_key(reserve)}",
    }


def deployment(reserve: CapacityReserve, replicas: int, image: str) -> dict[str, Json]:
    """The Deployment, as it is created."""
    name = name_of(_key(reserve))
    return {
        "metadata": {**_marked(reserve, name), "namespace": PLACE},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {PLACEHOLDER_LABEL: name}},
            "strategy": PATIENCE,
            "revisionHistoryLimit": 1,
            "progressDeadlineSeconds": NO_DEADLINE,
            "template": _template(reserve, image),
        },
    }


def _marked(reserve: CapacityReserve, name: str) -> dict[str, Json]:
    return {
        "name": name,
        "labels": {OWNER_LABEL: reserve.metadata.uid},
        "annotations": {RESERVE_ANNOTATION: str(_key(reserve))},
    }


def _template(reserve: CapacityReserve, image: str) -> dict[str, Json]:
    name = name_of(_key(reserve))
    return {
        "metadata": {
            "labels": {PLACEHOLDER_LABEL: name},
            "annotations": {SAFE_TO_EVICT: "true", RESERVE_ANNOTATION: str(_key(reserve))},
        },
        "spec": _pod(reserve, image),
    }


def _pod(reserve: CapacityReserve, image: str) -> dict[str, Json]:
    """What a placeholder is. Members that are empty stand for those that an older template may have."""
    spec = reserve.spec
    return {
        "priorityClassName": class_name(_key(reserve), spec.priority),
        "terminationGracePeriodSeconds": 1,  # kube-scheduler may miss what is gone at once (decision 0070)
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "nodeSelector": dict(spec.node_selector),
        "tolerations": [
            {"operator": each.operator}
            | {name: text for name in ("key", "value", "effect") if (text := getattr(each, name))}
            for each in spec.tolerations
        ],
        "topologySpreadConstraints": _spread(reserve),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": UNPRIVILEGED,
            "runAsGroup": UNPRIVILEGED,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": CONTAINER,
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "resources": _resources(reserve),
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
    }


def _resources(reserve: CapacityReserve) -> dict[str, Json]:
    """The unit. Of what cannot be overcommitted, such as GPUs and huge pages, the limit must be the same."""
    unit = {name: str(quantity) for name, quantity in sorted(reserve.spec.unit.items())}
    exact = {name: each for name, each in unit.items() if "/" in name or name.startswith("hugepages-")}
    return {"requests": unit, **({"limits": exact} if exact else {})}


def _spread(reserve: CapacityReserve) -> list[Json]:
    where = {ZoneSpread.PREFER: "ScheduleAnyway", ZoneSpread.REQUIRE: "DoNotSchedule"}
    if (otherwise := where.get(ZoneSpread(reserve.spec.zone_spread))) is None:
        return []
    labels = {"matchLabels": {PLACEHOLDER_LABEL: name_of(_key(reserve))}}
    zone = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone"}
    return [{**zone, "whenUnsatisfiable": otherwise, "labelSelector": labels}]


def changes(found: Deployment, wanted: Mapping[str, Any]) -> Patch:
    """A merge patch that makes of the Deployment that is there what is wanted; empty: it is that already.

    ``wanted``: as from ``deployment``.
    """
    spec, template = wanted["spec"], wanted["spec"]["template"]
    patch: dict[str, Any] = {}
    if found.spec.replicas != spec["replicas"]:
        patch["replicas"] = spec["replicas"]
    if found.spec.paused:
        patch["paused"] = False
    if not _patient(found.spec.strategy):
        patch["strategy"] = spec["strategy"]
    if inside := _of_template(found.spec.template, template):
        patch["template"] = inside
    return {"spec": patch} if patch else {}


def _patient(found: DeploymentStrategy) -> bool:
    """Whether all placeholders are replaced at once, and none is made beside an old one."""
    rolling = found.rolling_update
    return (
        rolling is not None
        and {
            "type": found.type,
            "rollingUpdate": {"maxSurge": rolling.max_surge, "maxUnavailable": rolling.max_unavailable},
        }
        == PATIENCE
    )


def requested(found: Deployment) -> Mapping[str, Quantity]:
    """What one of the placeholders that are there asks for, as their template says; empty if it cannot be
    read."""
    containers = found.spec.template.spec.get("containers")
    first = containers[0] if isinstance(containers, list) and containers else None
    resources = first.get("resources") if isinstance(first, dict) else None
    requests = resources.get("requests") if isinstance(resources, dict) else None
    there = requests if isinstance(requests, dict) else {}
    return {name: each for name, each in there.items() if isinstance(each, str | int)}


def _of_template(found: PodTemplate, wanted: Mapping[str, Any]) -> Patch:
    marks = wanted["metadata"]
    metadata = {
        kind: missing
        for kind, there in (("labels", found.metadata.labels), ("annotations", found.metadata.annotations))
        if (missing := {k: text for k, text in marks[kind].items() if there.get(k) != text})
    }
    pod = {
        name: merge_patch(found.spec.get(name) or {}, value) if isinstance(value, Mapping) else value
        for name, value in wanted["spec"].items()
        if not same(value, found.spec.get(name))
    }
    return {**({"metadata": metadata} if metadata else {}), **({"spec": pod} if pod else {})}


def same(wanted: Json, found: Json) -> bool:
    """Whether a value is as wanted: quantities by their amount, nothing as what is empty.

    Of a container, members that we do not set have their defaults, and do not count.
    """
    if isinstance(wanted, Mapping):
        there = found if isinstance(found, Mapping) else {}
        names = wanted.keys() if "image" in wanted else wanted.keys() | there.keys()
        return all(same(wanted.get(name), there.get(name)) for name in names)
    if isinstance(wanted, list):
        items = found or []
        return isinstance(items, list) and len(items) == len(wanted) and all(map(same, wanted, items))
    if wanted == found:
        return True
    if isinstance(wanted, str) and isinstance(found, str):
        number = amount(wanted)
        return number is not None and number == amount(found)
    return wanted is None and not found


def _key(reserve: CapacityReserve) -> Key:
    return Key(reserve.namespace, reserve.name)
