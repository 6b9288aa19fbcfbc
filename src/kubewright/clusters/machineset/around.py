"""What a decision about a MachineSet reads besides the set and its machines, and the obstacles in it. Pure.

Theory.      A set makes machines only where they can come up: its cluster exists and stays, its templates
             are there, and the control plane lets machines join. The first of these that is missing
             is the obstacle.
Preflight.   A machine that joins while the control plane is being made or upgraded, or whose version is too
             far from the control plane's, would have to be replaced at once. So the set waits; the condition
             says for what. A check can be switched off by an annotation.
Invariants.  Without an object of a control plane that has a version, nothing is checked. What cannot be read
             fails.
Called by    ``policy`` and ``status``. ``look`` reads it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import Reason
from kubewright.api.cluster.names import PreflightCheck
from kubewright.api.cluster.v1beta1 import Cluster, MachineSet
from kubewright.base import delays
from kubewright.base.limits import number_of
from kubewright.base.plan import Awaited
from kubewright.clusters.external import fields
from kubewright.clusters.external.object import External

WANTED_VERSION = fields.same("spec.version")
KUBEADM_TEMPLATE = ("bootstrap.cluster.x-k8s.io", "KubeadmConfigTemplate")
_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(.*)")
WIDE_SKEW_SINCE = 28
"""From this minor version of the control plane on, kubelets may be three minor versions older, not two."""

Version = tuple[int, int, int]


def failed_checks(machine_set: MachineSet, control_plane: External | None) -> list[str]:
    """What each failed check says; empty when machines may be made."""
    skipped = names.names_in(machine_set.metadata.annotations.get(names.SKIP_PREFLIGHT_CHECKS_ANNOTATION, ""))
    if control_plane is None or PreflightCheck.ALL in skipped:
        return []
    if control_plane.found is None:
        return [f"waiting for the control plane: {control_plane.problem}"]
    wanted = control_plane.text(WANTED_VERSION)
    if not wanted:
        return []
    if (version := parse_version(wanted)) is None:
        return [f"the version of {control_plane} cannot be read: {wanted!r}"]
    checks: list[tuple[PreflightCheck, Iterator[str]]] = [
        (PreflightCheck.CONTROL_PLANE_IS_STABLE, _stable(control_plane, version)),
        (PreflightCheck.KUBERNETES_VERSION_SKEW, _kubernetes_skew(machine_set, version)),
        (PreflightCheck.KUBEADM_VERSION_SKEW, _kubeadm_skew(machine_set, version)),
    ]
    return [
        f"{check.value}: {problem}" for check, found in checks if check not in skipped for problem in found
    ]


def parse_version(text: str) -> Version | None:
    """Major, minor and patch of a version, with or without its ``v``; None if it is none."""
    found = _VERSION.fullmatch(text)
    return (number_of(found[1]), number_of(found[2]), number_of(found[3])) if found else None


def _stable(control_plane: External, wanted: Version) -> Iterator[str]:
    has = control_plane.text(fields.CONTROL_PLANE_VERSION)
    current = parse_version(has)
    if current is None:
        yield f"{control_plane} is being provisioned"
    elif wanted > current:
        yield f"{control_plane} is being upgraded from {has}"


def _kubernetes_skew(machine_set: MachineSet, control_plane: Version) -> Iterator[str]:
    text = machine_set.spec.template.spec.version
    version = parse_version(text) if text else None
    if version is None:
        return
    oldest = control_plane[1] - (3 if control_plane[1] >= WIDE_SKEW_SINCE else 2)
    if version[:2] > control_plane[:2]:
        yield f"version {text} is newer than the control plane's {_shown(control_plane)}"
    elif version[0] != control_plane[0] or version[1] < oldest:
        yield f"version {text} is too old for the control plane's {_shown(control_plane)}"


def _kubeadm_skew(machine_set: MachineSet, control_plane: Version) -> Iterator[str]:
    """kubeadm joins a machine to a control plane of its own minor version only."""
    spec = machine_set.spec.template.spec
    ref, version = spec.bootstrap.config_ref, parse_version(spec.version) if spec.version else None
    if ref is None or version is None or (ref.group, ref.kind) != KUBEADM_TEMPLATE:
        return
    if version[:2] != control_plane[:2]:
        yield (
            f"version {spec.version} has another minor version than the control plane's "
            f"{_shown(control_plane)}, which kubeadm does not join"
        )


def _shown(version: Version) -> str:
    return "v" + ".".join(map(str, version))


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
