"""What must be true of Clusters at every step of every world, one readable function each.

Theory.      As in ``simulation.invariants``: a rule gets each step right after it happened, and answers what
             is wrong, or nothing. The stories here have one Cluster, so a rule looks for its parts by kind.
Called by    tests, as ``invariants`` of ``run.simulate``.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kubewright.api.cluster.names import CLUSTER_FINALIZER
from kubewright.api.cluster.v1beta1 import CLUSTER
from simulation.clusterapi.provider import DEPLOYMENT, FOO_CLUSTER, FOO_PLANE
from simulation.invariants import Past
from simulation.invariants.facts import both, controller_of, deleting
from simulation.journal import Step

CLUSTERS = str(CLUSTER.resource)
INFRA, PLANE, DEPLOYMENTS = (str(kind.resource) for kind in (FOO_CLUSTER, FOO_PLANE, DEPLOYMENT))
ORDER = (DEPLOYMENTS, PLANE, INFRA, CLUSTERS)
"""The parts of a cluster, and itself: each is deleted when all before it are gone."""


def a_paused_cluster_is_never_written(step: Step, _past: Past) -> str:
    """It stays, with its status and finalizers as they are, until a user ends the pause."""
    old, new = both(step, CLUSTERS)
    if not old or not old["spec"].get("paused") or (new and not new["spec"].get("paused")):
        return ""
    if not new:
        return "a paused cluster is gone"
    same = old.get("status") == new.get("status") and _finalizers(old) == _finalizers(new)
    return "" if same else f"a paused cluster is written: {_changed(old, new)}"


def a_part_gets_its_owner_after_the_finalizer(step: Step, past: Past) -> str:
    """A part gets its controller when the Cluster has our finalizer, so that it will be deleted in order."""
    for resource in (INFRA, PLANE):
        old, new = both(step, resource)
        if new and controller_of(new)["uid"] and not (old and controller_of(old)["uid"]):
            clusters = past.journal.objects[CLUSTERS].values()
            if not all(CLUSTER_FINALIZER in _finalizers(each) for each in clusters):
                return f"{resource} is claimed by a cluster without a finalizer"
    return ""


def parts_are_deleted_in_order(step: Step, past: Past) -> str:
    """Nothing is deleted while something is left that needs it, and the Cluster is the last to go."""
    for place, resource in enumerate(ORDER):
        old, new = both(step, resource)
        began = old and new and not deleting(old) and deleting(new) and resource != CLUSTERS
        over = old and not new and resource == CLUSTERS
        left = [each for each in ORDER[:place] if past.journal.objects[each]]
        if (began or over) and left:
            return f"{resource} goes while there is {', '.join(left)}"
    return ""


def an_endpoint_stays(step: Step, _past: Past) -> str:
    """Clients of a cluster know its address, so it never changes."""
    old, new = both(step, CLUSTERS)
    before, after = (each["spec"].get("controlPlaneEndpoint") if each else None for each in (old, new))
    return f"the endpoint {before} becomes {after}" if old and new and before not in (None, after) else ""


def a_control_plane_stays_initialized(step: Step, _past: Past) -> str:
    """A control plane that was initialized once never goes back."""
    old, new = both(step, CLUSTERS)
    return (
        "the control plane is initialized no more"
        if new and _initialized(old) and not _initialized(new)
        else ""
    )


def infrastructure_ready_is_copied(step: Step, past: Past) -> str:
    """A Cluster says that its infrastructure is ready only if that has said so."""
    old, new = both(step, CLUSTERS)
    says = [bool((each or {}).get("status", {}).get("infrastructureReady")) for each in (old, new)]
    ready = any(each.get("status", {}).get("ready") for each in past.journal.objects[INFRA].values())
    return "infrastructureReady, and nothing is" if says == [False, True] and not ready else ""


RULES = (
    a_paused_cluster_is_never_written,
    a_part_gets_its_owner_after_the_finalizer,
    parts_are_deleted_in_order,
    an_endpoint_stays,
    a_control_plane_stays_initialized,
    infrastructure_ready_is_copied,
)

Object = Mapping[str, Any]


def _finalizers(found: Object) -> list[str]:
    return list(found["metadata"].get("finalizers", ()))


def _initialized(found: Object | None) -> bool:
    conditions = (found or {}).get("status", {}).get("conditions", ())
    return any(each["type"] == "ControlPlaneInitialized" and each["status"] == "True" for each in conditions)


def _changed(old: Object, new: Object) -> str:
    return ", ".join(_differing(old, new))


def _differing(old: Object, new: Object) -> Iterator[str]:
    return (key for key in sorted({*old, *new}) if old.get(key) != new.get(key))
