"""Decide what comes next for one control plane, from everything that is seen of it. Pure.

Theory.      While it lives: our finalizer, then it adopts the components that it names, then its endpoint is
             published. A schedule of sleep needs no step: components read ``status.asleep``, and the plan
             only says when to look again. On deletion its components are deleted in the reverse of the order
             in which they start, each after the one that needs it is gone; then the finalizer goes.
Invariants.  Of a control plane that is paused only the condition Paused is written; one that another program
             manages is not written at all. Every plan has a reason. A component that another object controls
             is neither adopted nor deleted. An endpoint that a user has set is never changed, nor one that a
             Cluster has copied (decision 0040). A deletion needs no Cluster, no Secret and no component.
Source       S3-13, S3-25, S3-28; E-13.
Called by    ``act``.
"""

from dataclasses import dataclass, replace

from kubewright.api.cluster.v1beta1 import ApiEndpoint
from kubewright.api.controlplane.names import FINALIZER, Component
from kubewright.base import plan
from kubewright.base.delays import UNHEARD
from kubewright.base.plan import AT_ONCE, Awaited, in_order, in_seconds
from kubewright.controlplanes.family import KINDS, ComponentObject
from kubewright.controlplanes.plane.seen import Seen


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Add our finalizer."""


@dataclass(frozen=True, slots=True)
class Adopt:
    """Become the controlling owner of a component."""

    component: Component
    found: ComponentObject


@dataclass(frozen=True, slots=True)
class PublishEndpoint:
    """Write where the API server is reached into the spec."""

    endpoint: ApiEndpoint


@dataclass(frozen=True, slots=True)
class DeleteComponent:
    """Delete a component that the control plane controls."""

    component: Component
    found: ComponentObject


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Remove our finalizer: none of its components is left."""


Step = AddFinalizer | Adopt | PublishEndpoint | DeleteComponent | RemoveFinalizer


@dataclass(frozen=True, slots=True)
class Plan(plan.Plan[Step]):
    """What to do now with a control plane."""


def decide(seen: Seen) -> Plan:
    """The plan for what is seen now. An equal ``Seen`` gives an equal plan."""
    if seen.pause is not None:
        silent = seen.pause.moved or seen.managed_elsewhere
        return Plan(because=f"paused: {seen.pause.because}", silent=silent)
    if seen.family.plane.metadata.deleting:
        return _deleted(seen)
    if seen.managed_elsewhere:
        return Plan(because="another program manages it", silent=True)
    deciders = (_finalizer, _adopted, _published, _kubeconfig_awaited, _sleep_or_wake)
    plan, missing = in_order(deciders, seen, Plan()), _missing(seen)
    if not plan.because:
        return missing or Plan(because="it controls all that it names")
    return plan if missing is None else replace(plan, awaits=(*plan.awaits, *missing.awaits))


def _finalizer(seen: Seen) -> Plan | None:
    if FINALIZER in seen.family.plane.metadata.finalizers:
        return None
    return Plan((AddFinalizer(),), AT_ONCE, "it has no finalizer of ours", last=True, silent=True)


def _adopted(seen: Seen) -> Plan | None:
    if seen.problem:
        mended = Awaited("a spec without mistakes", f"mend this: {seen.problem}")
        return Plan(because=seen.problem, awaits=(mended,))
    steps = tuple(
        Adopt(each.component, each.found)
        for each in seen.named()
        if each.found is not None and _is_free(each.found)
    )
    return Plan(steps, because="components that it names have no owner") if steps else None


def _is_free(found: ComponentObject) -> bool:
    return found.metadata.controller is None and not found.metadata.deleting


def _published(seen: Seen) -> Plan | None:
    known, told = seen.family.plane.spec.control_plane_endpoint, seen.reported_endpoint
    if seen.not_followed:
        followed = Awaited("the Cluster to follow its endpoint", f"see this: {seen.not_followed}")
        return Plan(because=seen.not_followed, awaits=(followed,))
    if told is None or (known is not None and known.valid and seen.moved_to is None):
        return None
    return Plan((PublishEndpoint(told),), because=f"its API server is reached at {told}")


def _kubeconfig_awaited(seen: Seen) -> Plan | None:
    """Look again for the Secret: one without the label of its cluster, such as a user's, is not watched."""
    server = seen.family.components.get(Component.API_SERVER)
    if seen.kubeconfig or server is None or not server.status.ready:
        return None
    secret = f"Secret {seen.family.name}-kubeconfig"
    remedy = f"see the conditions of {KINDS[Component.API_SERVER].resource.kind} {server.name}, or create it"
    return Plan(wake=UNHEARD, because=f"there is no {secret} yet", awaits=(Awaited(secret, remedy),))


def _sleep_or_wake(seen: Seen) -> Plan | None:
    """Look again at the next moment of the schedule. Components read in the status whether they sleep."""
    until = seen.rest.until
    if until is None:
        return None
    told = "it wakes then" if seen.rest.asleep else "it goes to sleep then"
    return Plan(wake=in_seconds((until - seen.now).total_seconds()), because=told)


def _missing(seen: Seen) -> Plan | None:
    """Name the components that are not there."""
    missing = [str(each) for each in seen.named() if each.found is None]
    if not missing:
        return None
    remedy = "create it, or take its name off the spec"
    awaits = tuple(Awaited(each, remedy) for each in missing)
    return Plan(because=f"waits until there is {', '.join(missing)}", awaits=awaits)


def _deleted(seen: Seen) -> Plan:
    if FINALIZER not in seen.family.plane.metadata.finalizers:
        return Plan(because="it is being deleted and has no finalizer of ours", silent=True)
    for component in reversed(Component):
        left = [found for kind, found in seen.owned if kind is component]
        if not left:
            continue
        names = ", ".join(f"{KINDS[component].resource.kind} {each.name}" for each in left)
        steps = tuple(DeleteComponent(component, each) for each in left if not each.metadata.deleting)
        return Plan(steps, because=f"it is being deleted, and {names} is there", awaits=_ends(left))
    return Plan((RemoveFinalizer(),), because="none of its components is left", silent=True)


def _ends(left: list[ComponentObject]) -> tuple[Awaited, ...]:
    """The ends of the components that are deleted now."""
    return tuple(
        Awaited(f"{each.name} to be deleted", "see its conditions", each.metadata.deletion_timestamp)
        for each in left
    )
