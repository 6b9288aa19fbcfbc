"""Decide about the kubeconfig of one user of a control plane, and what the status says. Pure.

Theory.      A certificate is decided on as all certificates of control planes are
             (``pki.keyring``): a user's kubeconfig is one more, with its own owner and lifetime.
Tokens.      First our finalizer, since from then on there may be something of the user in the control plane;
             then the account and what it may do; then the token. A token is issued again at half of its life.
             Other groups need no other token: what the account may impersonate is changed, and that counts
             for all copies. Another account ends all copies, and is made where the token in the Secret is not
             of the account that is there (a restore has brought back an earlier one, or a user has deleted
             the Secret), and where the lifetime is shorter than that of the token. What a user has in the
             control plane is deleted before the object goes, and when the object asks for a certificate
             instead (decisions 0037 and 0038).
Invariants.  Equal views give equal answers. The Secret is called ``<cluster>-user-<name>``, so it is no
             kubeconfig of a Cluster: those end in ``-kubeconfig``, and Cluster API reads them. A Secret that
             the ControlPlaneUser does not control is never written. While the control plane cannot be
             reached, a kubeconfig that is good stays as it is. A deletion waits no longer than until the last
             token has expired, and for no control plane that is deleted.
Called by    ``wiring``.
"""

from datetime import datetime, timedelta

from msgspec import structs

from kubewright.api.cluster.conditions import (
    ERROR,
    INFO,
    READY,
    false_condition,
    true_condition,
    with_conditions,
)
from kubewright.api.controlplane.names import FINALIZER, Reason
from kubewright.api.controlplane.v1alpha4 import ControlPlaneUserStatus
from kubewright.api.controlplane.validate import lifetime_of
from kubewright.base.clock import rfc3339
from kubewright.base.delays import DATED, UNHEARD
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.base.plan import AT_ONCE, Awaited, in_seconds, soonest
from kubewright.controlplanes.family import with_pause, without_pause
from kubewright.controlplanes.users.seen import (
    AccountObjects,
    AddFinalizer,
    Grant,
    Issue,
    Json,
    Plan,
    RemoveFinalizer,
    Revoke,
    Seen,
    Step,
    TokenKubeconfig,
    account_key,
    binding_of,
    identity,
    is_ours,
    role_of,
)
from kubewright.pki import keyring
from kubewright.pki.credentials import HALF, Kubeconfig, Purpose, leads_elsewhere, secret_name
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
        return decide_token(seen)
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


TOLERANCE = timedelta(minutes=1)
"""By how much a token may live longer than was asked for."""


def decide_token(seen: Seen) -> Plan:
    """What is done now, what is waited for, and what a user has to mend; the endpoint is known."""
    if FINALIZER not in seen.user.metadata.finalizers:
        return Plan((AddFinalizer(),), AT_ONCE, "it has no finalizer of ours", silent=True)
    if told := _problem(seen):
        return Plan(wake=UNHEARD, because=told, problems=(told,))
    if seen.authority not in seen.found:
        told = f"waits for Secret {seen.authority}"
        return Plan(wake=UNHEARD, because=told, waiting=(told,))  # a user's Secret may be in no watch
    outdated = _outdated(seen)
    if seen.unreachable:
        return _outside(seen, outdated)
    assert seen.objects is not None, "the objects of what can be reached were read"
    steps: list[Step] = [Revoke()] if _is_of_another_account(seen, seen.objects) or _outlives(seen) else []
    if steps or not _is_granted(seen, seen.objects):
        steps.append(Grant())
    if outdated:
        steps.append(Issue(outdated))
    if steps:
        return Plan(tuple(steps), because=outdated or "what its account may do is not what it should be")
    held = seen.held
    assert held is not None, "what is not there is outdated"
    half = in_seconds((_half(held) - seen.now).total_seconds())
    return Plan(wake=soonest(half, DATED), because="half of the token's life is over then, or it is checked")


def _problem(seen: Seen) -> str:
    if seen.refused:
        return seen.refused
    found = seen.found.get(seen.secret)
    if found is not None and not found.controlled_by(seen.owner):
        return f"Secret {seen.secret} is not ours to write"
    there = seen.objects.account if seen.objects is not None else None
    if there is not None and not is_ours(there):
        return f"ServiceAccount {account_key(seen.user.name)} of the control plane is not ours"
    return ""


def _outside(seen: Seen, outdated: str) -> Plan:
    """The plan while the control plane cannot be reached: to wait, if a token has to be issued."""
    held = seen.held
    wake = UNHEARD if seen.unheard else None
    if outdated and not (held is not None and seen.now < held.expires and _leads(seen, held)):
        told = f"{outdated}; {seen.unreachable}"
        return Plan(wake=wake, because=told, waiting=(told,))
    assert held is not None, "what is not there is outdated"
    ends = in_seconds((held.expires - seen.now).total_seconds())
    return Plan(wake=soonest(wake if outdated else None, ends), because=seen.unreachable)


def _outdated(seen: Seen) -> str:
    """Why a token is issued, a clause; empty: the one in the Secret is good."""
    held = seen.held
    if seen.secret not in seen.found:
        return f"there is no Secret {seen.secret}"
    if held is None:
        return f"Secret {seen.secret} has no kubeconfig with a token"
    if differs := _leads_elsewhere(seen, held):
        return differs
    if held.user != identity(seen.user):
        return f"the kubeconfig is for {held.user.name} in other groups, or for another user"
    if seen.objects is not None and seen.objects.uid != held.account:
        return "the account of the token is not there any more"
    if seen.objects is not None and seen.objects.refuses:
        return "the API server does not accept the token any more"
    if _outlives(seen):
        return f"the token is good until {rfc3339(held.expires)}, longer than it should be"
    return "half of the token's life is over" if _half(held) <= seen.now else ""


def _leads(seen: Seen, held: TokenKubeconfig) -> bool:
    """Whether the kubeconfig is for this user, and for the present endpoint and authority."""
    return not _leads_elsewhere(seen, held) and held.user == identity(seen.user)


def _leads_elsewhere(seen: Seen, held: TokenKubeconfig) -> str:
    authority = seen.found[seen.authority].pair.certificate
    return leads_elsewhere(held.server, held.authority, seen.endpoint, authority)


def _half(held: TokenKubeconfig) -> datetime:
    return HALF.due(held.issued, held.expires)


def _outlives(seen: Seen) -> bool:
    """Whether copies of the token are good for longer than the object says now."""
    held = seen.held
    return held is not None and held.expires - held.issued > lifetime_of(seen.user.spec) + TOLERANCE


def _is_of_another_account(seen: Seen, objects: AccountObjects) -> bool:
    """Whether the account that is there is not the one whose token is in the Secret."""
    held = seen.held
    return bool(objects.uid) and (held is None or held.account != objects.uid)


def _is_granted(seen: Seen, objects: AccountObjects) -> bool:
    role, binding = role_of(seen.user), binding_of(seen.user)
    return bool(objects.uid) and (
        _same(objects.role, role, "rules") and _same(objects.binding, binding, "roleRef", "subjects")
    )


def _same(there: Json | None, wanted: Json, *fields: str) -> bool:
    return there is not None and all(there.get(each) == wanted[each] for each in fields)
