"""What a component waits for, and what a user has to mend, before it runs as its spec says. Pure.

Theory.      A component goes one way: it has an owner, its spec is good, templates are found, it may have
             their version, what it needs is ready, its certificates are there, all of its spec could be
             applied, the files are there, and a host can run it. The first obstacle on this way holds it up;
             the status shows all of them.
Invariants.  What already runs is never stopped by an obstacle. What a component needs is asked for only when
             instances are going to be started: an etcd that falls silent takes no API server with it.
Source       nested.md A9 (order and readiness); S3-20, S3-21.
Called by    ``decide`` and ``status``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kubewright.api.controlplane.reasons import ComponentCondition, Reason
from kubewright.controlplanes.component.membership import problem_of
from kubewright.controlplanes.component.rollout import outdated
from kubewright.controlplanes.component.seen import Seen
from kubewright.controlplanes.component.versions import problem_of as refused
from kubewright.controlplanes.component.versions import waits_for
from kubewright.controlplanes.templates.choice import NoChoice


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One thing that holds a component up. ``fault``: a user has to mend it; else it is waited for."""

    about: ComponentCondition
    reason: Reason
    message: str
    fault: bool = False


def first_obstacle(seen: Seen) -> Obstacle | None:
    """What holds the component up now."""
    starting = starts_instances(seen)
    for each in obstacles(seen):
        if starting or each.reason is not Reason.WAITING_FOR_DEPENDENCY:
            return each
    return None


def obstacles(seen: Seen) -> Iterator[Obstacle]:
    """All obstacles, in the order of the way. What may be unknown because of an earlier one is none."""
    for find in _WAY:
        if (found := find(seen)) is not None:
            yield found
            if found.reason in (Reason.WAITING_FOR_OWNER, Reason.INVALID_CONFIGURATION):
                return


def starts_instances(seen: Seen) -> bool:
    """Whether instances would be started if nothing held the component up: the first, more, or others."""
    if not seen.replicas:
        return False
    running, workload = seen.running, seen.workload
    if workload is None or not running.applied or seen.replicas > running.replicas:
        return True
    return workload.fingerprint != running.applied or bool(outdated(workload, running))


def _owner(seen: Seen) -> Obstacle | None:
    if seen.family is not None:
        return None
    told = "no NestedControlPlane that is there controls it"
    return Obstacle(ComponentCondition.DEPENDENCIES_READY, Reason.WAITING_FOR_OWNER, told)


def _spec(seen: Seen) -> Obstacle | None:
    about = ComponentCondition.TEMPLATE_RESOLVED
    if seen.problem:
        return Obstacle(about, Reason.INVALID_CONFIGURATION, seen.problem, fault=True)
    if (told := _number(seen)) != "":
        return Obstacle(about, Reason.INVALID_CONFIGURATION, told, fault=True)
    return None


def _number(seen: Seen) -> str:
    """What is wrong with the number of members of an etcd; empty for others."""
    return problem_of(seen.replicas) if seen.policy.members else ""


def _templates(seen: Seen) -> Obstacle | None:
    if not isinstance(seen.choice, NoChoice):
        return None
    about = ComponentCondition.TEMPLATE_RESOLVED
    return Obstacle(about, Reason.NO_TEMPLATES, seen.choice.message, fault=True)


def _version(seen: Seen) -> Obstacle | None:
    """Also while it has that version still: what the spec says is wrong."""
    told = refused(seen.policy.component, seen.versions)
    about = ComponentCondition.TEMPLATE_RESOLVED
    return Obstacle(about, Reason.VERSION_REFUSED, told, fault=True) if told else None


def _dependencies(seen: Seen) -> Obstacle | None:
    missing = seen.policy.needs(seen.family) if seen.family is not None else ""
    missing = missing or waits_for(seen.policy.component, seen.versions)
    if not missing:
        return None
    return Obstacle(ComponentCondition.DEPENDENCIES_READY, Reason.WAITING_FOR_DEPENDENCY, missing)


def _certificates(seen: Seen) -> Obstacle | None:
    found, about = seen.certificates, ComponentCondition.CERTIFICATES_READY
    if found.problem:
        return Obstacle(about, Reason.WAITING_FOR_CERTIFICATES, found.problem, fault=True)
    if found.waiting:
        return Obstacle(about, Reason.WAITING_FOR_CERTIFICATES, found.waiting)
    return None


def _rendering(seen: Seen) -> Obstacle | None:
    if seen.rendered is None and _dependencies(seen) is not None:
        return None  # the addresses of etcd, for one, are known when it is ready
    problems = list(seen.rendered.problems) if seen.rendered is not None else []
    told = "; ".join([*([seen.unrendered] if seen.unrendered else []), *problems])
    if not told:
        return None
    return Obstacle(ComponentCondition.PATCHES_APPLIED, Reason.CANNOT_BE_APPLIED, told, fault=True)


def _files(seen: Seen) -> Obstacle | None:
    if not seen.missing:
        return None
    told = f"waits for what its volumes name: {', '.join(seen.missing)}"
    return Obstacle(ComponentCondition.WORKLOAD_AVAILABLE, Reason.WAITING_FOR_FILES, told)


def _hosting(seen: Seen) -> Obstacle | None:
    if not seen.hosted:
        return None
    return Obstacle(ComponentCondition.WORKLOAD_AVAILABLE, Reason.CANNOT_RUN_HERE, seen.hosted, fault=True)


_WAY: tuple[Callable[[Seen], Obstacle | None], ...] = (
    _owner,
    _spec,
    _templates,
    _version,
    _dependencies,
    _certificates,
    _rendering,
    _files,
    _hosting,
)
