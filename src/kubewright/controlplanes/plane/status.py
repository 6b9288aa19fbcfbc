"""What the status of a control plane says, a function of what is seen; and how soon it is written. Pure.

Theory.      A control plane is ready while it names at least one component, controls all that it names, all
             of these are ready, and the kubeconfig of its API server exists. It is initialized, for good,
             once its API server was ready: from then on Cluster API connects to it. Its version and its
             numbers of instances are those of its API server.
Pace.        A control plane comes up in a dozen steps, and repeats what its components say of each. While it
             is not ready, a status that only says what is still waited for is written when that has lasted
             for ``WORDS_SECONDS``. What others wait for is news, and is written at once: that it is ready, or
             is initialized; that it sleeps, where its etcd is and which addresses its Services have, which
             its components read; an error; and each condition that exists only while it is True (decision
             0006; ``clusters.paces`` says the same of Clusters).
Invariants.  Equal views give equal statuses, so a pass that finds nothing new writes nothing. Whatever lasts
             is written. Where the control plane names no NestedEtcd, ``status.etcd.addresses`` belong to
             another program and are kept.
Called by    ``act``.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from msgspec import structs

from kubewright.api.cluster.conditions import (
    ERROR,
    INFO,
    READY,
    TRUE,
    false_condition,
    true_condition,
    with_conditions,
)
from kubewright.api.cluster.v1beta1 import Condition
from kubewright.api.controlplane.names import Component, ComponentCondition, PlaneCondition, Reason
from kubewright.api.controlplane.v1alpha4 import (
    ApiServerStatus,
    EtcdStatus,
    NestedControlPlaneStatus,
    NestedEtcd,
)
from kubewright.base.clock import rfc3339
from kubewright.base.delays import WORDS_SECONDS
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.controlplanes.component.policies import service_cidr
from kubewright.controlplanes.family import ComponentObject, with_pause
from kubewright.controlplanes.plane.seen import Named, Seen
from kubewright.runtime.pace import Pace

_CONDITION_OF = {
    Component.ETCD: PlaneCondition.ETCD_AVAILABLE,
    Component.API_SERVER: PlaneCondition.API_SERVER_AVAILABLE,
    Component.CONTROLLER_MANAGER: PlaneCondition.CONTROLLER_MANAGER_AVAILABLE,
}
_WHILE_ANY_COMPONENT = (
    (PlaneCondition.ROLLING_OUT, Reason.ROLLING_OUT),
    (PlaneCondition.SLEEPING, Reason.SLEEPING),
)
"""Conditions of the control plane that are True while Ready of a component has this reason."""


@dataclass(frozen=True, slots=True)
class Why:
    """Why something is not as it should be."""

    reason: str
    message: str
    severity: str = INFO

    def condition(self, about: str) -> Condition:
        """The condition, False, with this reason."""
        return false_condition(about, self.reason, self.severity, self.message[:MESSAGE_CHARS])


def status_of(seen: Seen) -> NestedControlPlaneStatus:
    """The status, as it is to be written."""
    before, server = seen.family.plane.status, _own(seen, Component.API_SERVER)
    if seen.pause is not None:
        return structs.replace(before, conditions=with_pause(before.conditions, seen.pause, seen.now))
    ready = _not_ready(seen) is None
    answered = ready if not _names(seen, Component.API_SERVER) else server is not None and server.status.ready
    status = structs.replace(
        before,
        ready=ready,
        initialized=before.initialized or answered,
        external_managed_control_plane=True,
        apiserver=ApiServerStatus(service_cidr=service_cidr(seen.family)),
        etcd=_etcd(seen),
        asleep=seen.rest.asleep,
        wakes_at=seen.rest.until if seen.rest.asleep else None,
        sleeps_at=None if seen.rest.asleep else seen.rest.until,
        conditions=_conditions(seen),
        observed_generation=seen.family.plane.metadata.generation,
    )
    if server is None:
        return structs.replace(
            status, replicas=0, ready_replicas=0, updated_replicas=0, unavailable_replicas=0
        )
    told = server.status
    return structs.replace(
        status,
        version=_with_v(told.version) or before.version,
        replicas=told.replicas,
        ready_replicas=told.ready_replicas,
        updated_replicas=told.updated_replicas,
        unavailable_replicas=max(told.replicas - told.ready_replicas, 0),
        selector=told.selector,
    )


def why_not(seen: Seen, named: Named) -> Why | None:
    """Why a component that is named is not ready; None: it is."""
    found = named.found
    if found is None:
        return Why(Reason.MISSING, f"there is no {named}")
    if told := seen.conflict_of(found):
        return Why(Reason.CONFLICT, f"{named} cannot be part of it: {told}", ERROR)
    if found.metadata.deleting:
        return Why(Reason.DELETING, f"{named} is being deleted")
    if not seen.controls(found):
        return Why(Reason.WAITING_FOR_OWNER, f"the control plane is not the controlling owner of {named} yet")
    if found.status.ready:
        return None
    told_by = _condition(found, READY)
    if told_by is None or told_by.status == TRUE:
        return Why(Reason.NOT_READY, f"{named} is not ready")
    return Why(
        told_by.reason or Reason.NOT_READY,
        f"{named} is not ready: {told_by.message}" if told_by.message else f"{named} is not ready",
        told_by.severity or INFO,
    )


def _not_ready(seen: Seen) -> Why | None:
    """Why the control plane is not ready; None: it is."""
    if seen.family.plane.metadata.deleting:
        return Why(Reason.DELETING, "it is being deleted")
    if seen.problem:
        return Why(Reason.INVALID_CONFIGURATION, seen.problem, ERROR)
    named = list(seen.named())
    if not named:
        return Why(Reason.NO_COMPONENTS, "it names no component", ERROR)
    why = next((why for each in named if (why := why_not(seen, each)) is not None), None)
    return why or (_no_kubeconfig(seen) if _names(seen, Component.API_SERVER) else None)


def _no_kubeconfig(seen: Seen) -> Why | None:
    """Why there is no kubeconfig for clients; None: it exists."""
    told = f"there is no Secret {seen.family.name}-kubeconfig yet"
    return None if seen.kubeconfig else Why(Reason.WAITING_FOR_KUBECONFIG, told)


def _conditions(seen: Seen) -> tuple[Condition, ...]:
    why = _not_ready(seen)
    found = [_said(READY, why), *_of_components(seen), *_of_the_whole(seen), *_while_they_hold(seen)]
    types = {each.type for each in found}
    ours = {str(each) for each in PlaneCondition}
    kept = [
        each for each in seen.family.plane.status.conditions if each.type in types or each.type not in ours
    ]
    return with_conditions(kept, found, seen.now)


def _of_components(seen: Seen) -> Iterator[Condition]:
    """A condition for each component, and one for the certificates of all."""
    for each in seen.named():
        yield _said(_CONDITION_OF[each.component], why_not(seen, each))
    told = [
        said
        for each in seen.named()
        if each.found is not None
        and (said := _condition(each.found, ComponentCondition.CERTIFICATES_READY)) is not None
    ]
    bad = next((each for each in told if each.status != TRUE), None)
    about = PlaneCondition.CERTIFICATES_AVAILABLE
    if bad is not None:
        yield Why(bad.reason, bad.message, bad.severity or INFO).condition(about)
    elif told:
        yield true_condition(about)


def _of_the_whole(seen: Seen) -> Iterator[Condition]:
    endpoint = seen.family.plane.spec.control_plane_endpoint
    reached = endpoint is not None and endpoint.valid
    no_endpoint = None if reached else Why(Reason.WAITING_FOR_ENDPOINT, "its endpoint is not known yet")
    moved = Why(Reason.ENDPOINT_MOVED, seen.not_followed, ERROR) if seen.not_followed else None
    yield _said(PlaneCondition.ENDPOINT_AVAILABLE, no_endpoint or moved)
    yield _said(PlaneCondition.KUBECONFIG_AVAILABLE, _no_kubeconfig(seen))
    needed = [each for each in seen.named() if each.component is not Component.CONTROLLER_MANAGER]
    held = next((why for each in needed if (why := why_not(seen, each)) is not None), None)
    yield _said(PlaneCondition.AVAILABLE, held or no_endpoint)
    late = [_late(each) for each in seen.named() if each.found is not None and not _up_to_date(each.found)]
    yield _said(PlaneCondition.UP_TO_DATE, Why(Reason.NOT_UP_TO_DATE, "; ".join(late)) if late else None)


def _while_they_hold(seen: Seen) -> Iterator[Condition]:
    """The conditions that exist only while they are True."""
    conflicts = [
        f"{each}: {told}"
        for each in seen.named()
        if each.found is not None and (told := seen.conflict_of(each.found))
    ]
    if conflicts:
        yield _holds(PlaneCondition.COMPONENT_CONFLICT, Reason.CONFLICT, "; ".join(conflicts))
    for about, reason in _WHILE_ANY_COMPONENT:
        there = [each for each in seen.named() if each.found is not None and _reason(each.found) == reason]
        if about is PlaneCondition.SLEEPING and seen.rest.asleep:
            yield _holds(about, reason, _asleep(seen, there))
        elif there:
            yield _holds(about, reason, ", ".join(map(str, there)))
    rotating = [
        said
        for each in seen.named()
        if each.found is not None
        and (said := _condition(each.found, ComponentCondition.AUTHORITIES_ROTATED)) is not None
        and said.status != TRUE
    ]
    if rotating:
        told = "; ".join(each.message for each in rotating)
        yield _holds(PlaneCondition.ROTATING_CERTIFICATES, rotating[0].reason, told)
    if seen.family.plane.metadata.deleting:
        left = ", ".join(found.name for _, found in seen.owned)
        yield _holds(PlaneCondition.DELETING, Reason.DELETING, f"waits until {left} is gone" if left else "")


def _asleep(seen: Seen, ended: Collection[Named]) -> str:
    """Until when it sleeps, and what has not ended yet."""
    until = seen.rest.until
    left = [str(each) for each in seen.named() if each not in ended]
    told = "until spec.asleep changes" if until is None else f"until {rfc3339(until)}"
    return f"it sleeps {told}" + (f"; has not ended yet: {', '.join(left)}" if left else "")


def _said(about: str, why: Why | None) -> Condition:
    return true_condition(about) if why is None else why.condition(about)


def _holds(about: str, reason: str, message: str) -> Condition:
    return structs.replace(true_condition(about), reason=reason, message=message[:MESSAGE_CHARS])


def _etcd(seen: Seen) -> EtcdStatus | None:
    if not _names(seen, Component.ETCD):
        return seen.family.plane.status.etcd
    found = _own(seen, Component.ETCD)
    return EtcdStatus(addresses=found.status.addresses) if isinstance(found, NestedEtcd) else None


def _names(seen: Seen, component: Component) -> bool:
    return any(each.component is component for each in seen.named())


def _own(seen: Seen, component: Component) -> ComponentObject | None:
    """A component that it names and controls."""
    found = seen.family.components.get(component)
    return found if found is not None and seen.controls(found) else None


def _up_to_date(found: ComponentObject) -> bool:
    """Whether all instances are as the spec says; a foreign provisioner need not write these fields."""
    told = found.status
    current = told.observed_generation in (0, found.metadata.generation)
    said = _condition(found, ComponentCondition.UP_TO_DATE)
    good = said is None or said.status == TRUE
    return told.ready and good and current and told.updated_replicas in (0, told.replicas)


def _late(named: Named) -> str:
    said = _condition(named.found, ComponentCondition.UP_TO_DATE) if named.found is not None else None
    told = said.message if said is not None and said.status != TRUE else ""
    return f"{named}: {told or 'not all of it runs as the spec says'}"


def _condition(found: ComponentObject, about: str) -> Condition | None:
    return next((each for each in found.status.conditions if each.type == about), None)


def _reason(found: ComponentObject) -> str:
    for about in (READY, ComponentCondition.UP_TO_DATE):
        if (said := _condition(found, about)) is not None and said.status != TRUE:
            return said.reason
    return ""


def _with_v(version: str) -> str:
    """A version with ``v`` before it, as Cluster API writes it; one that is no number stays."""
    return f"v{version}" if version[:1].isdigit() else version


_WHILE_THEY_HOLD = {
    PlaneCondition.COMPONENT_CONFLICT,
    PlaneCondition.ROLLING_OUT,
    PlaneCondition.ROTATING_CERTIFICATES,
    PlaneCondition.SLEEPING,
    PlaneCondition.PAUSED,
    PlaneCondition.DELETING,
}


def underway(before: NestedControlPlaneStatus, status: NestedControlPlaneStatus) -> bool:
    """Whether a control plane is still not ready, and its status says nothing that others wait for."""
    if before.ready or status.ready or _read_by_others(before) != _read_by_others(status):
        return False
    errors, known = (
        {each.type for each in found.conditions if each.severity == ERROR} for found in (status, before)
    )
    return errors <= known


def _read_by_others(status: NestedControlPlaneStatus) -> tuple[object, ...]:
    holds = {each.type for each in status.conditions} & _WHILE_THEY_HOLD
    moments = status.asleep, status.wakes_at, status.sleeps_at
    return status.initialized, status.version, status.etcd, status.apiserver, moments, holds


CONTROL_PLANES = Pace(WORDS_SECONDS, only_waiting=underway)
