"""Decide about a user whose kubeconfig has a token. Pure.

Theory.      First our finalizer, since from then on there may be something of the user in the control plane;
             then the account and what it may do; then the token. A token is issued again at half of its life.
             Other groups need no other token: what the account may impersonate is changed, and that counts
             for all copies. Another account ends all copies, and is made where the token in the Secret is not
             of the account that is there (a restore has brought back an earlier one, or a user has deleted
             the Secret), and where the lifetime is shorter than that of the token.
Invariants.  While the control plane cannot be reached, a kubeconfig that is good stays as it is. A Secret
             that the ControlPlaneUser does not control is never written.
Source       decision 0038; S3-46 to S3-48.
Called by    ``decide``.
"""

from datetime import datetime, timedelta

from kubewright.api.controlplane.names import FINALIZER
from kubewright.api.controlplane.validate import lifetime_of
from kubewright.base.clock import rfc3339
from kubewright.base.delays import DATED, UNHEARD
from kubewright.base.plan import AT_ONCE, in_seconds, soonest
from kubewright.controlplanes.users import account
from kubewright.controlplanes.users.account import AccountObjects, Json, TokenKubeconfig
from kubewright.controlplanes.users.seen import AddFinalizer, Grant, Issue, Plan, Revoke, Seen, Step
from kubewright.pki.credentials import HALF, leads_elsewhere

TOLERANCE = timedelta(minutes=1)
"""By how much a token may live longer than was asked for."""


def decide(seen: Seen) -> Plan:
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
    if there is not None and not account.is_ours(there):
        return f"ServiceAccount {account.account_key(seen.user.name)} of the control plane is not ours"
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
    if held.user != account.identity(seen.user):
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
    return not _leads_elsewhere(seen, held) and held.user == account.identity(seen.user)


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
    role, binding = account.role(seen.user), account.binding(seen.user)
    return bool(objects.uid) and (
        _same(objects.role, role, "rules") and _same(objects.binding, binding, "roleRef", "subjects")
    )


def _same(there: Json | None, wanted: Json, *fields: str) -> bool:
    return there is not None and all(there.get(each) == wanted[each] for each in fields)
