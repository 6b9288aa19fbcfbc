"""What the picture of a world shows of clusters and control planes: objects without names, ids and times.

Called by    ``simulation.picture``.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kubewright.api.bootstrap.v1beta1 import KUBEADM_CONFIG
from kubewright.api.cluster.v1beta1 import (
    CLUSTER,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_HEALTH_CHECK,
    MACHINE_SET,
)
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE
from kubewright.api.core import SECRET
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_CLUSTER, KUBEWRIGHT_MACHINE
from kubewright.controlplanes.family import KINDS
from simulation.journal import Object

Facts = dict[str, Any]
NESTED = (
    "replicas",
    "readyReplicas",
    "updatedReplicas",
    "version",
    "endpoint",
    "addresses",
    "initialized",
    "errors",
)
"""What is shown of the status of a nested control plane and its components, beside conditions."""
COUNTS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")


def _common(found: Object) -> Facts:
    """What matters of any object: who owns it, what holds it, and what its status says."""
    meta, status = found["metadata"], found.get("status", {})
    return {
        "owners": sorted(
            (each["kind"], bool(each.get("controller"))) for each in meta.get("ownerReferences", ())
        ),
        "finalizers": meta.get("finalizers"),
        "labels": sorted(meta.get("labels", {})),
        "deleting": "deletionTimestamp" in meta,
        "phase": status.get("phase"),
        "ready": status.get("ready"),
        "conditions": sorted((each["type"], each["status"]) for each in status.get("conditions", ())),
    }


def _cluster(found: Object) -> Facts:
    return {**_common(found), "paused": bool(found["spec"].get("paused"))}


def _machine(found: Object) -> Facts:
    known = bool(found["spec"].get("providerID")), "nodeRef" in found.get("status", {})
    return {**_common(found), "version": found["spec"].get("version"), "known": known}


def _clone(found: Object) -> Facts:
    """What only a MachineSet owns is left out: the manager was killed before it made the Machine, and the set
    needed no machine afterwards. The set's next machine takes the clone over, or it goes with the set
    (``clusters.machineset.clones``)."""
    facts = _common(found)
    return {} if facts["owners"] == [(MACHINE_SET.resource.kind, False)] else facts


def _set(found: Object) -> Facts:
    """Old empty sets are left out: how many there are depends on what was seen between two rolls."""
    status = found.get("status", {})
    if not found["spec"].get("replicas") and not status.get("replicas"):
        return {}
    return {**_counted(found), "version": found["spec"]["template"]["spec"].get("version")}


def _counted(found: Object) -> Facts:
    status = found.get("status", {})
    counts = {name: status.get(name, 0) for name in COUNTS}
    return {**_common(found), **counts, "wanted": found["spec"].get("replicas")}


def _secret(found: Object) -> Facts:
    return {**_common(found), "type": found.get("type"), "keys": sorted(found.get("data", {}))}


def _check(found: Object) -> Facts:
    status = found.get("status", {})
    counts = [status.get(each) for each in ("expectedMachines", "currentHealthy", "remediationsAllowed")]
    return {**_common(found), "counts": counts}


def _nested(found: Object) -> Facts:
    """A nested control plane, or a component of one."""
    status = found.get("status", {})
    said = {each: status.get(each) for each in NESTED}
    reasons = sorted((each["type"], each.get("reason", "")) for each in status.get("conditions", ()))
    return {**_common(found), **said, "reasons": reasons}


SHAPES: Mapping[str, Callable[[Object], Facts]] = {
    str(CLUSTER.resource): _cluster,
    str(MACHINE.resource): _machine,
    str(MACHINE_SET.resource): _set,
    str(MACHINE_DEPLOYMENT.resource): _counted,
    str(MACHINE_HEALTH_CHECK.resource): _check,
    str(KUBEADM_CONFIG.resource): _clone,
    str(KUBEWRIGHT_CLUSTER.resource): _common,
    str(KUBEWRIGHT_MACHINE.resource): _clone,
    str(SECRET.resource): _secret,
    **{str(kind.resource): _nested for kind in (NESTED_CONTROL_PLANE, *KINDS.values())},
}
"""By resource; a world that has none of them has nothing of it in its picture."""
