"""Decide about the kubeconfig of one user of a control plane, and what the status says. Pure.

Theory.      A certificate is decided on as all certificates of control planes are
             (``pki.keyring``): a user's kubeconfig is one more, with its own owner and lifetime. A
             token is decided on by ``tokens``, from what there is in the control plane. What a user has there
             is deleted before the object goes, and when the object asks for a certificate instead.
Invariants.  Equal views give equal answers. The Secret is called ``<cluster>-user-<name>``, so it is no
             kubeconfig of a Cluster: those end in ``-kubeconfig``, and Cluster API reads them. A deletion
             waits no longer than until the last token has expired, and for no control plane that is deleted.
Source       S3-46 to S3-48; decisions 0037 and 0038.
Called by    ``reconciler``.
"""

from datetime import datetime

from msgspec import structs

from kubewright.api.cluster.conditions import (
    ERROR,
    INFO,
    READY,
    false_condition,
    true_condition,
    with_conditions,
)
from kubewright.api.controlplane.names import FINALIZER
from kubewright.api.controlplane.reasons import Reason
from kubewright.api.controlplane.v1alpha4 import ControlPlaneUserStatus
from kubewright.api.controlplane.validate import lifetime_of
from kubewright.base.delays import UNHEARD
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.base.plan import Awaited, in_seconds, soonest
from kubewright.controlplanes.pausing import with_pause, without_pause
from kubewright.controlplanes.users import tokens
from kubewright.controlplanes.users.account import identity
from kubewright.controlplanes.users.seen import Plan, RemoveFinalizer, Revoke, Seen
from kubewright.pki import keyring
from kubewright.pki.credentials import Kubeconfig, Purpose, secret_name
from kubewright.runtime.credentials.values import controlled


def certificate_wanted(seen: Seen) -> Kubeconfig | None:
    """The kubeconfig with a certificate that there should be; None: the endpoint is not known yet."""
    if seen.family is None or not seen.endpoint:
        return None
    who, cluster = identity(seen.user), seen.family.name
    authority, lifetime = secret_name(cluster, Purpose.CA), lifetime_of(seen.user.spec)
    return Kubeconfig(seen.secret, authority, seen.endpoint, who, cluster, who.name, lifetime)


def decide(seen: Seen) -> Plan:
    """What is done now, what is waited for, and what a user has to mend."""
    if seen.pause is not None:
        return Plan(because=f"paused: {seen.pause.because}")
    if seen.user.metadata.deleting:
        return _deleted(seen)
    if seen.problem:
        mended = Awaited("a spec without mistakes", f"mend this: {seen.problem}")
        return Plan(because=seen.problem, problems=(seen.problem,), awaits=(mended,))
    if seen.family is None:
        missing = f"NestedControlPlane {seen.user.spec.control_plane_name}"
        return _waits(f"there is no {missing}", Awaited(missing, "create it, or delete this user"))
    if not seen.endpoint:
        endpoint = f"endpoint of NestedControlPlane {seen.family.plane.name}"
        return _waits(f"the {endpoint} is not known yet", Awaited(f"the {endpoint}", "see its conditions"))
    if seen.by_token:
        return tokens.decide(seen)
    return _certificate(seen)


def _waits(told: str, awaits: Awaited) -> Plan:
    return Plan(because=told, waiting=(told,), awaits=(awaits,))


def _certificate(seen: Seen) -> Plan:
    if FINALIZER in seen.user.metadata.finalizers:
        return _withdrawn(seen)
    kubeconfig = certificate_wanted(seen)
    assert kubeconfig is not None, "the endpoint is known"
    made = keyring.decide((kubeconfig,), seen.found, controlled(seen.found, seen.owner), seen.now)
    unheard = UNHEARD if made.problems or made.waiting else None  # a user's Secret may be in no watch
    wake = soonest(made.wake, unheard)
    return Plan(made.steps, wake, made.because, waiting=made.waiting, problems=made.problems)


def _deleted(seen: Seen) -> Plan:
    if FINALIZER not in seen.user.metadata.finalizers:
        return Plan(because="it is being deleted and has no finalizer of ours", silent=True)
    return _withdrawn(seen)


def _withdrawn(seen: Seen) -> Plan:
    """Delete what the user has in the control plane, then the finalizer; or wait for the control plane."""
    if not seen.unreachable:
        return Plan((Revoke(), RemoveFinalizer()), because="no token of it is to be good any more")
    if seen.family is None or seen.family.plane.metadata.deleting:
        return Plan((RemoveFinalizer(),), because=f"its control plane is deleted: {seen.unreachable}")
    ends = last_end(seen)
    if ends is None or ends <= seen.now:
        return Plan((RemoveFinalizer(),), because="no token of it is good any more")
    told = f"its account cannot be deleted yet: {seen.unreachable}"
    wake = soonest(UNHEARD if seen.unheard else None, in_seconds((ends - seen.now).total_seconds()))
    server = Awaited("its control plane to answer", "see the conditions of its NestedControlPlane")
    return Plan(wake=wake, because=told, waiting=(told,), awaits=(server,))


def last_end(seen: Seen) -> datetime | None:
    """When the last token expires that we know of; None: none was ever kept."""
    held = seen.held
    ends = [seen.user.status.expires_at, held.expires if held is not None else None]
    return max((each for each in ends if each is not None), default=None)


def status_of(seen: Seen, plan: Plan) -> ControlPlaneUserStatus:
    """The status, as it is to be written when all steps are done."""
    before = seen.user.status
    if seen.pause is not None:
        return structs.replace(before, conditions=with_pause(before.conditions, seen.pause, seen.now))
    ends = _good_until(seen)
    told = "; ".join((*plan.problems, *plan.waiting))[:MESSAGE_CHARS]
    if plan.problems:
        ready = false_condition(READY, Reason.INVALID_CONFIGURATION, ERROR, told)
    elif seen.user.metadata.deleting:
        ready = false_condition(READY, Reason.DELETING, INFO, told or "it is being deleted")
    elif told and seen.by_token:
        ready = false_condition(READY, Reason.WAITING_FOR_CONTROL_PLANE, INFO, told)
    elif told or ends is None:
        ready = false_condition(READY, Reason.WAITING_FOR_CERTIFICATES, INFO, told or "it is being made")
    else:
        ready = true_condition(READY)
    return structs.replace(
        before,
        ready=ready.status == "True",
        secret_name=seen.secret if ends is not None else "",
        expires_at=ends or before.expires_at,
        conditions=with_conditions(without_pause(before.conditions), [ready], seen.now),
        observed_generation=seen.user.metadata.generation,
    )


def _good_until(seen: Seen) -> datetime | None:
    """Until when the kubeconfig in the Secret is good; None: there is none that is ours."""
    found = seen.found.get(seen.secret)
    if found is None or not found.controlled_by(seen.owner):
        return None
    if seen.held is not None:
        return seen.held.expires
    return found.kubeconfig.not_after if found.kubeconfig is not None else None
