"""What a decision about a MachineSet reads besides the set and its machines, and the obstacles in it. Pure.

Theory.      A set makes machines only where they can come up: its cluster exists and stays, its templates
             are there, and the control plane lets machines join. The first of these that is missing
             is the obstacle.
Source       capi.md §7.2-7.4, §7.8; W12 (no growth in a cluster that is being deleted).
Called by    ``policy`` and ``status``. ``look`` reads it.
"""

from dataclasses import dataclass
from typing import NamedTuple

from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import Reason
from kubewright.api.cluster.v1beta1 import Cluster, MachineSet
from kubewright.base import delays
from kubewright.base.plan import Awaited
from kubewright.clusters.external.object import External
from kubewright.clusters.machineset.preflight import failed_checks


@dataclass(frozen=True, slots=True)
class Around:
    """Everything around a set. ``bootstrap`` is None where users bring bootstrap data of their own.
    ``deployed``: the deployment that the set's label names is there and selects it, so it owns the set, or is
    about to."""

    cluster: Cluster | None = None
    control_plane: External | None = None
    bootstrap: External | None = None
    infrastructure: External | None = None
    deployed: bool = False


class Obstacle(NamedTuple):
    """Why a set makes no machines: the reason of a condition (empty: none), and a clause for users.

    ``seconds``: when to look again; None: an event tells. ``awaits``: what has to come from elsewhere.
    """

    reason: str
    message: str
    seconds: float | None = None
    awaits: Awaited | None = None


def obstacle(machine_set: MachineSet, around: Around) -> Obstacle | None:
    """The first thing that keeps a set from making machines; None: nothing does."""
    if names.DISABLE_MACHINE_CREATE_ANNOTATION in machine_set.metadata.annotations:
        annotation = names.DISABLE_MACHINE_CREATE_ANNOTATION
        gone = Awaited(f"annotation {annotation} to go", "remove it")
        return Obstacle("", f"the annotation {annotation} forbids it", awaits=gone)
    return replacement_obstacle(machine_set, around)


def replacement_obstacle(machine_set: MachineSet, around: Around) -> Obstacle | None:
    """The first thing that keeps unhealthy machines from being replaced, by this set or by another of its
    deployment; None: nothing does."""
    cluster = around.cluster
    if cluster is None:
        name = f"Cluster {machine_set.spec.cluster_name}"
        awaits = Awaited(name, "create it, or delete the MachineSet")
        return Obstacle(Reason.MACHINE_CREATION_FAILED, f"there is no {name}", awaits=awaits)
    if cluster.metadata.deleting:
        return Obstacle("", f"the Cluster {cluster.name} is being deleted")
    for template, reason in (
        (around.bootstrap, Reason.BOOTSTRAP_TEMPLATE_CLONING_FAILED),
        (around.infrastructure, Reason.INFRASTRUCTURE_TEMPLATE_CLONING_FAILED),
    ):
        if template is not None and (problem := _template_problem(template)):
            seconds = None if template.found is None else delays.PREFLIGHT.total_seconds()
            missing = Awaited(str(template), template.remedy or "give it a spec.template")
            if template.transient:
                return Obstacle("", problem, seconds)
            return Obstacle(reason, problem, seconds, missing)
    if checks := failed_checks(machine_set, around.control_plane):
        remedy = (
            f"see its conditions, or skip the check by annotation {names.SKIP_PREFLIGHT_CHECKS_ANNOTATION}"
        )
        awaits = Awaited(f"{around.control_plane} to fit the set", remedy)
        told = "; ".join(checks)
        return Obstacle(Reason.PREFLIGHT_CHECK_FAILED, told, delays.PREFLIGHT.total_seconds(), awaits)
    return None


def _template_problem(template: External) -> str:
    if template.found is None:
        return f"{template} cannot be cloned: {template.absence}"
    spec = template.found.get("spec")
    inner = spec.get("template") if isinstance(spec, dict) else None
    return "" if isinstance(inner, dict) else f"{template} cannot be cloned: it has no spec.template"
