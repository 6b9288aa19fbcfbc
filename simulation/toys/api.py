"""Adds the toy API to a simulated world.

Called by    tests, as ``prepare`` of ``run.simulate``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kubewright.api.machine import names
from kubewright.replicas.deployment.wiring import Deployments
from kubewright.replicas.members import MemberIndex
from kubewright.replicas.set.wiring import Sets
from kubewright.runtime.controller import Controller
from kubewright.runtime.world import ControllerInfo, Environment, Runnables
from kubewright.runtime.world import World as ApiWorld
from simulation.journal import MACHINE_DEPLOYMENTS, MACHINE_SETS, MACHINES, Object
from simulation.toys.keeper import Keeper
from simulation.toys.kinds import PARTS, TOY, TOY_DEPLOYMENT, TOY_SET, definitions
from simulation.toys.policy import FINALIZER, TOY_SETS, read
from simulation.toys.rollouts import HASH, REVISION, TOY_DEPLOYMENTS
from simulation.world import World

LISTED = (
    ControllerInfo("toydeployment", "ToyDeployment", names.SETS_LEASE, "rolls out toys"),
    ControllerInfo("toyset", "ToySet", names.SETS_LEASE, "keeps as many toys as a set says"),
    ControllerInfo("toy", "Toy", names.SETS_LEASE, "keeps toys"),
)
SHOWN = {
    str(TOY.resource): MACHINES,
    str(TOY_SET.resource): MACHINE_SETS,
    str(TOY_DEPLOYMENT.resource): MACHINE_DEPLOYMENTS,
}
"""The resources to which the journal converts toys."""


def install(world: World) -> None:
    """Let the managers of a world run the toy controllers too, and the journal convert toys to machines."""
    world.managers.extra_worlds.append(
        ApiWorld("toys", LISTED, _wire, (TOY, TOY_SET, TOY_DEPLOYMENT), definitions=definitions)
    )
    world.managers.extra_resources.update({each.partition(".")[0]: shown for each, shown in SHOWN.items()})
    world.journal.shown_as.update({each: (shown, as_machine) for each, shown in SHOWN.items()})
    for each in map(str, (kind.resource for kind in PARTS)):
        world.journal.shown_as[each] = (each, dict)
        world.journal.objects[each] = {}


def _wire(environment: Environment, _chosen: Sequence[str]) -> Runnables:
    client, caches = environment.control.client, environment.control.caches
    toys = caches.get(TOY)
    index = MemberIndex(toys, read, client.steady())
    sets = Sets(TOY_SETS, caches, environment.recorder, index=index)
    deployments = Deployments(TOY_DEPLOYMENTS, caches, environment.recorder, index=index)
    keeper = Controller("toy", Keeper(client, toys, environment.clock), environment.clock).watches(toys)
    return Runnables([deployments.controller(), sets.controller(), keeper])


def as_machine(found: Object) -> Object:
    """A toy, its set or its deployment, converted to a machine, set or deployment."""
    meta, spec, status = dict(found["metadata"]), dict(found["spec"]), dict(found.get("status", {}))
    if FINALIZER in meta.get("finalizers", ()):
        meta["finalizers"] = [names.FINALIZER]
    if (number := meta.get("annotations", {}).get(REVISION)) is not None:
        meta["annotations"] = {**meta["annotations"], names.REVISION_ANNOTATION: number}
    if "template" in spec:
        spec["template"] = _classed(spec["template"])
        return {"metadata": meta, "spec": spec, "status": status}
    phase = "Failed" if status.get("failed") else "Running" if status.get("readySince") else "Pending"
    return {
        "metadata": meta,
        "spec": {"class": {"name": spec.get("flavor", "")}},
        "status": {"currentStatus": {"phase": phase}},
    }


def _classed(template: Mapping[str, Any]) -> dict[str, Any]:
    labels = {key: text for key, text in template["metadata"]["labels"].items() if key != HASH}
    return {
        "metadata": {"labels": labels},
        "spec": {"class": {"name": template.get("spec", {}).get("flavor", "")}},
    }
