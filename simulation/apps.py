"""Adds Deployments of ``apps/v1`` to a simulated world: their Pods are judged like machines.

Theory.      The generic controllers of ``replicas`` keep machines and Pods alike, so the rules about numbers
             hold for both: the journal shows a Pod as a machine, a ReplicaSet as a MachineSet, a Deployment
             as a MachineDeployment. A Pod is of the class that its first container's image names.
Invariants.  Rules about VMs and drains do not see these Pods. Nodes come from a pool of machines as ever.
Called by    tests, as ``prepare`` of ``run.simulate``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kubewright import builtin
from kubewright.api.apps import DEPLOYMENT, HASH_LABEL, REPLICA_SET, REVISION
from kubewright.api.core import POD
from kubewright.api.machine import names
from kubewright.runtime.world import Environment, Runnables
from kubewright.runtime.world import World as ApiWorld
from simulation.journal import MACHINE_DEPLOYMENTS, MACHINE_SETS, MACHINES, Object
from simulation.rules.facts import is_ready
from simulation.world import World

LISTED = tuple(
    replace(each, lease=names.SETS_LEASE)
    for each in builtin.CONTROLLERS
    if each.name in ("deployment", "replicaset", "scheduler")
)
SHOWN = {
    str(POD.resource): MACHINES,
    str(REPLICA_SET.resource): MACHINE_SETS,
    str(DEPLOYMENT.resource): MACHINE_DEPLOYMENTS,
}
"""The resources to which the journal converts those of apps."""


def install(world: World) -> None:
    """Let the managers of a world run Deployments too, and the journal convert Pods to machines."""
    world.managers.extra_worlds.append(ApiWorld("apps", LISTED, _wire, (DEPLOYMENT, REPLICA_SET, POD)))
    world.managers.extra_resources.update({each.partition(".")[0]: shown for each, shown in SHOWN.items()})
    world.journal.shown_as.update({each: (shown, as_machine) for each, shown in SHOWN.items()})


def _wire(environment: Environment, _chosen: Sequence[str]) -> Runnables:
    caches, recorder = environment.control.caches, environment.recorder
    return Runnables([*builtin.workloads(caches, recorder), builtin.scheduler(caches, recorder=recorder)])


def as_machine(found: Object) -> Object:
    """A Pod, its ReplicaSet or its Deployment, converted to a machine, set or deployment."""
    meta, spec, status = dict(found["metadata"]), dict(found["spec"]), dict(found.get("status", {}))
    if (number := meta.get("annotations", {}).get(REVISION)) is not None:
        meta["annotations"] = {**meta["annotations"], names.REVISION_ANNOTATION: number}
    if "template" in spec:
        spec["template"] = _classed(spec["template"])
        return {"metadata": meta, "spec": spec, "status": status}
    started = status.get("phase", "Pending") != "Pending"
    phase = "Running" if is_ready(found) else "Unknown" if started else "Pending"
    return {"metadata": meta, "spec": _class_of(spec), "status": {"currentStatus": {"phase": phase}}}


def _classed(template: Mapping[str, Any]) -> dict[str, Any]:
    labels = {key: text for key, text in template["metadata"]["labels"].items() if key != HASH_LABEL}
    return {"metadata": {"labels": labels}, "spec": _class_of(template["spec"])}


def _class_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"class": {"name": str(spec["containers"][0]["image"])}}
