"""What holds a component up: what it waits for before it starts or ends, and what a user has to mend. Pure.

Starting.    Before a component starts, these must hold, in this order: it has an owner, no other control
             plane has its name, its spec is good, templates are found, it may have their version, its data is
             there, what it needs is ready, its addresses are known, its certificates exist, all of its spec
             could be applied, its files exist, and a host can run it. Whatever does not hold is an obstacle.
             The first obstacle stops the start; the status shows all of them.
Ending.      What needs a component ends before it: an API server whose etcd is gone would end only when it is
             killed. Where both are deleted, or are to have no instance, that is a matter of seconds, and is
             waited for with a bound. An etcd that is deleted alone while an API server uses it waits until a
             user says what is meant, since its data would go with it; as a volume claim that is deleted waits
             for the pods that use it. One whose data is kept waits for a restore of that data.
Invariants.  An obstacle never stops an instance that runs. Whether what the component needs is ready counts
             only when instances are going to be started: an etcd that stops answering ends no API server. A
             deletion waits without bound only for something that a user can end, and says how.
Called by    ``decide`` and ``status``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kubewright.api.cluster.names import CLUSTER_NAME_LABEL, MANAGED_BY_ANNOTATION
from kubewright.api.controlplane.names import (
    KEEP_DATA_ANNOTATION,
    LOST_DATA_ANNOTATION,
    ComponentCondition,
    Reason,
)
from kubewright.base.plan import Awaited
from kubewright.controlplanes.component.seen import LONGEST_WAIT, Seen
from kubewright.controlplanes.component.workload import outdated, problem_of_number
from kubewright.controlplanes.family import KINDS, ComponentObject, references
from kubewright.controlplanes.templates.choice import NoChoice, problem_of, waits_for


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One thing that keeps a component from running. ``fault``: a user has to mend it; else it may pass."""

    about: ComponentCondition
    reason: Reason
    message: str
    fault: bool = False


AWAITED = {
    Reason.WAITING_FOR_OWNER: "a NestedControlPlane that controls it",
    Reason.CONFLICT: "a name that no other control plane has",
    Reason.INVALID_CONFIGURATION: "a spec without mistakes",
    Reason.NO_TEMPLATES: "a set of templates",
    Reason.VERSION_REFUSED: "a version that it may have",
    Reason.DATA_LOST: "the data of its members",
    Reason.WAITING_FOR_DEPENDENCY: "the component that it needs",
    Reason.WAITING_FOR_ADDRESS: "an address",
    Reason.WAITING_FOR_CERTIFICATES: "its certificates",
    Reason.CANNOT_BE_APPLIED: "a spec that can be applied in full",
    Reason.WAITING_FOR_FILES: "what its volumes name",
    Reason.CANNOT_RUN_HERE: "a host that can run it",
}
"""What is missing, by obstacle."""


def awaited(obstacle: Obstacle) -> Awaited:
    """What has to come or to be mended before an obstacle is none."""
    doing = "mend" if obstacle.fault else "see"
    return Awaited(AWAITED.get(obstacle.reason, "what it needs"), f"{doing} this: {obstacle.message}")


def first_obstacle(seen: Seen) -> Obstacle | None:
    """The obstacle that stops the component now; None: it may go on."""
    starting = starts_instances(seen)
    for each in obstacles(seen):
        if starting or each.reason is not Reason.WAITING_FOR_DEPENDENCY:
            return each
    return None


_ENDING_THE_SEARCH = (Reason.WAITING_FOR_OWNER, Reason.CONFLICT, Reason.INVALID_CONFIGURATION)


def obstacles(seen: Seen) -> Iterator[Obstacle]:
    """All obstacles, in order. What may only be unknown because of an earlier obstacle is not reported."""
    for find in _CHECKS:
        if (found := find(seen)) is not None:
            yield found
            if found.reason in _ENDING_THE_SEARCH:
                return


def starts_instances(seen: Seen) -> bool:
    """Whether instances would be started if there were no obstacle: the first, further, or changed ones."""
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
    if seen.original:
        told = f"its control plane names {seen.policy.kind.resource.kind} {seen.original} in its place"
    return Obstacle(ComponentCondition.DEPENDENCIES_READY, Reason.WAITING_FOR_OWNER, told)


def _name(seen: Seen) -> Obstacle | None:
    if not seen.rival:
        return None
    told = (
        f"{seen.rival} has the names of its instances and Secrets: wait until that is gone, or create this "
        f"control plane anew under another name, or with another label {CLUSTER_NAME_LABEL}"
    )
    return Obstacle(ComponentCondition.DEPENDENCIES_READY, Reason.CONFLICT, told, fault=True)


def _spec(seen: Seen) -> Obstacle | None:
    about = ComponentCondition.TEMPLATE_RESOLVED
    if seen.problem:
        return Obstacle(about, Reason.INVALID_CONFIGURATION, seen.problem, fault=True)
    if (told := _number(seen)) != "":
        return Obstacle(about, Reason.INVALID_CONFIGURATION, told, fault=True)
    return None


def _number(seen: Seen) -> str:
    """What is wrong with the number of members of an etcd; empty if nothing is, or for other components."""
    return problem_of_number(seen.asked) if seen.policy.members and seen.replicas else ""


def _templates(seen: Seen) -> Obstacle | None:
    if not isinstance(seen.choice, NoChoice):
        return None
    about = ComponentCondition.TEMPLATE_RESOLVED
    return Obstacle(about, Reason.NO_TEMPLATES, seen.choice.message, fault=True)


def _version(seen: Seen) -> Obstacle | None:
    """A refused version is reported even while the component still runs the version before it."""
    told = problem_of(seen.policy.component, seen.versions)
    about = ComponentCondition.TEMPLATE_RESOLVED
    return Obstacle(about, Reason.VERSION_REFUSED, told, fault=True) if told else None


def _dependencies(seen: Seen) -> Obstacle | None:
    missing = seen.policy.needs(seen.family) if seen.family is not None else ""
    missing = missing or waits_for(seen.policy.component, seen.versions)
    if not missing:
        return None
    return Obstacle(ComponentCondition.DEPENDENCIES_READY, Reason.WAITING_FOR_DEPENDENCY, missing)


def _addresses(seen: Seen) -> Obstacle | None:
    """Counts before its first start only: its certificates name the addresses, so it would start twice."""
    if not seen.addresses.waits or seen.running.applied:
        return None
    about = ComponentCondition.WORKLOAD_AVAILABLE
    return Obstacle(about, Reason.WAITING_FOR_ADDRESS, seen.addresses.waits)


def _data(seen: Seen) -> Obstacle | None:
    """An etcd never starts empty where it had data, unless a user says so."""
    if not seen.lost:
        return None
    about, names = ComponentCondition.WORKLOAD_AVAILABLE, ",".join(seen.lost)
    told = (
        f"the data of {names} is gone: bring it back, or have a ControlPlaneRestore put a snapshot there; to "
        f"start without it, annotate the NestedEtcd with {LOST_DATA_ANNOTATION}={names}"
    )
    return Obstacle(about, Reason.DATA_LOST, told, fault=True)


def _certificates(seen: Seen) -> Obstacle | None:
    found, about = seen.certificates, ComponentCondition.CERTIFICATES_READY
    if found.problem:
        return Obstacle(about, Reason.WAITING_FOR_CERTIFICATES, found.problem, fault=True)
    if found.waiting:
        return Obstacle(about, Reason.WAITING_FOR_CERTIFICATES, found.waiting)
    return None


def _rendering(seen: Seen) -> Obstacle | None:
    if seen.rendered is None and _dependencies(seen) is not None:
        return None  # what is missing, such as the addresses of etcd, is known once the other one is ready
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
    if not seen.unhosted:
        return None
    return Obstacle(ComponentCondition.WORKLOAD_AVAILABLE, Reason.CANNOT_RUN_HERE, seen.unhosted, fault=True)


_CHECKS: tuple[Callable[[Seen], Obstacle | None], ...] = (
    _owner,
    _name,
    _spec,
    _templates,
    _version,
    _data,
    _dependencies,
    _addresses,
    _certificates,
    _rendering,
    _files,
    _hosting,
)


def in_use(seen: Seen) -> str:
    """Why an etcd that is deleted alone stays, and what a user can do, a sentence; empty: it does not.

    One of another program is let go, and so is one that its control plane does not name any more.
    """
    family, needed_by, meta = seen.family, seen.policy.needed_by, seen.component.metadata
    if not (seen.policy.members and meta.deleting) or family is None or needed_by is None:
        return ""
    named = references(family.plane.spec).get(seen.policy.component)
    leaves = KEEP_DATA_ANNOTATION in meta.annotations or MANAGED_BY_ANNOTATION in meta.annotations
    if family.plane.metadata.deleting or leaves or named is None or named.name != meta.name:
        return ""
    found = family.components.get(needed_by)
    if found is None or found.metadata.deleting or not (found.status.replicas or found.status.ready):
        return ""
    return (
        f"it is being deleted, and {dependent(seen, found)} uses its data: delete that too, set its "
        f"replicas to 0, or keep the data by the annotation {KEEP_DATA_ANNOTATION}"
    )


def restored_first(seen: Seen) -> str:
    """Why a deleted etcd whose data is kept waits for a restore, a sentence; empty: it does not.

    A restore that has begun may have replaced the data of some members only: kept like that, the next etcd
    would start with a mixture.
    """
    meta, restore = seen.component.metadata, seen.family.restore if seen.family is not None else ""
    if not (seen.policy.members and meta.deleting and restore and KEEP_DATA_ANNOTATION in meta.annotations):
        return ""
    return (
        f"it is being deleted, and ControlPlaneRestore {restore} replaces the data that is kept: it goes "
        f"when that is complete; without the annotation {KEEP_DATA_ANNOTATION} it goes at once, with its data"
    )


def deleted_after(seen: Seen) -> str:
    """Which component is deleted too and has to end first; empty: none, or it was waited for long enough."""
    needed_by = seen.policy.needed_by
    if seen.family is None or needed_by is None:
        return ""
    found = seen.family.components.get(needed_by)
    goes = found is not None and (found.metadata.deleting or seen.family.plane.metadata.deleting)
    if found is None or not goes or seen.deleting_for >= LONGEST_WAIT:
        return ""
    return f"it is being deleted, and {dependent(seen, found)} ends before it"


def dependent(seen: Seen, found: ComponentObject) -> str:
    """The component that needs this one, as users know it."""
    needed_by = seen.policy.needed_by
    return f"{KINDS[needed_by].resource.kind} {found.name}" if needed_by is not None else found.name
