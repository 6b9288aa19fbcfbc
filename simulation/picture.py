"""The state of a world without names, ids and times: to compare how two runs ended.

Called by    ``run``; compared by ``crashes``.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from simulation.clusterapi.picture import SHAPES as OF_CLUSTERS
from simulation.journal import (
    MACHINE_DEPLOYMENTS,
    MACHINE_SETS,
    MACHINES,
    NODES,
    Journal,
    Object,
)

Picture = tuple[str, ...]
"""One line for each object, sorted."""


def picture(journal: Journal) -> Picture:
    """The world as it is now."""
    lines = [_line("vm", {"class": vm.class_name, "powered": vm.powered}) for vm in journal.vms.values()]
    for resource, shape in _SHAPES.items():
        kind, found = resource.partition(".")[0], journal.objects.get(resource, {}).values()
        lines += [_line(kind, facts) for each in found if (facts := shape(each))]
    return tuple(sorted(lines))


def _line(kind: str, facts: Mapping[str, Any]) -> str:
    return f"{kind} {orjson.dumps(facts, option=orjson.OPT_SORT_KEYS).decode()}"


def _machine(found: Object) -> dict[str, Any]:
    meta, spec, status = found["metadata"], found["spec"], found.get("status", {})
    return {
        "class": spec["class"]["name"],
        "phase": status.get("currentStatus", {}).get("phase"),
        "operation": status.get("lastOperation", {}).get("state"),
        "finalizers": meta.get("finalizers"),
        "owners": len(meta.get("ownerReferences", ())),
        "deleting": "deletionTimestamp" in meta,
        "known": bool(spec.get("providerID")),
        "labels": sorted(key for key in meta.get("labels", {})),
    }


def _set(found: Object) -> dict[str, Any]:
    """Old empty sets are left out: how many there are depends on what was seen between two rolls."""
    spec, status = found["spec"], found.get("status", {})
    if not spec.get("replicas") and not status.get("replicas"):
        return {}
    counts = ("replicas", "readyReplicas", "availableReplicas", "fullyLabeledReplicas")
    return {
        "class": spec["template"]["spec"]["class"]["name"],
        "wanted": spec.get("replicas", 0),
        "finalizers": found["metadata"].get("finalizers"),
        **{name: status.get(name, 0) for name in counts},
    }


def _deployment(found: Object) -> dict[str, Any]:
    spec, status = found["spec"], found.get("status", {})
    counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")
    return {
        "wanted": spec.get("replicas", 0),
        "class": spec["template"]["spec"]["class"]["name"],
        "finalizers": found["metadata"].get("finalizers"),
        "seen": status.get("observedGeneration") == found["metadata"].get("generation"),
        "conditions": sorted((c["type"], c["status"]) for c in status.get("conditions", ())),
        **{name: status.get(name, 0) for name in counts},
    }


def _node(found: Object) -> dict[str, Any]:
    conditions = found.get("status", {}).get("conditions", ())
    return {
        "ready": [c["status"] for c in conditions if c["type"] == "Ready"],
        "taints": sorted(taint["key"] for taint in found["spec"].get("taints", ())),
        "cordoned": found["spec"].get("unschedulable", False),
    }


_SHAPES = {
    MACHINES: _machine,
    MACHINE_SETS: _set,
    MACHINE_DEPLOYMENTS: _deployment,
    NODES: _node,
    **OF_CLUSTERS,
}
