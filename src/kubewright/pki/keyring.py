"""Decides which keys, certificates and kubeconfigs are made, kept, renewed or waited for. Pure.

             (wanted, held, ours, now) -> what to make, with the reason, and when to look again

Theory.      What is wanted and not held is made. What we made is *ours*: it has to say exactly what is
             wanted, and is renewed before it ends. What a user made is used if it is good for what is wanted,
             and may be good for more; if not, the user has to mend it. What another controller makes is
             waited for. An authority is never replaced here, because no credential that the old one signed
             would verify any more: if one is gone and what it signed is there, that is a problem for the
             user, and ``rotation`` decides how one that is there is replaced in steps. What differs between
             those who ask is data: names, lifetimes, whose a Secret is, and the ``Renewal``.
Cases.       Who asks, for what, how long it lives, and when one of ours is replaced:

             ============================  ========  =====================================================
             bootstrap: pairs              10 years  never: a Secret that is there stays, a bad one is
                                                     named; those of an etcd elsewhere are not made
             Cluster: kubeconfig           1 year    half of its life is left; another server; another
                                                     authority, once the API server verifies by that
             control plane: authorities    10 years  in steps (``rotation``): a tenth is left, or a user
                                                     has asked for it
             control plane: token keys     for ever  never
             control plane: what an        1 year    a third is left; other signer, user, names or uses
             authority signs
             control plane: signer's copy  its own   the authority signs with another certificate
             control plane: kubeconfigs    1 year    as a Cluster's, and another user
             user: kubeconfig, by          as asked  as a control plane's, but half is counted back from
             certificate                             its end; and one that outlives what is asked
             user: kubeconfig, by token    as asked  half of its life is left; another server, authority,
                                                     user or account (``controlplanes.users.tokens``)
             webhooks: authority and       730 and   a third is left, without the hour that is backdated;
             certificate                   90 days   in steps (``runtime.webhooks.certificates``)
             embedded server: files        10 years  at a start when a year is left, or names are others
             ============================  ========  =====================================================

             What a control plane's authority signs stays until its end, if that is the authority's as well.
Invariants.  No plan writes a Secret that is not ours, or replaces an authority. What signs comes before what
             it signs. A reason begins with the name of its Secret or is a clause about it, and contains no
             part of a key. Equal arguments give equal plans.
Called by    what keeps Secrets of clusters and control planes (``bootstrap``, ``clusters``,
             ``controlplanes``), the webhooks' keeper, the embedded server. ``clusters`` makes what is decided
             here.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from kubewright.base import plan
from kubewright.base.plan import in_seconds
from kubewright.pki.credentials import (
    NO_KEY,
    Authority,
    Held,
    Kubeconfig,
    Leaf,
    Signed,
    Signer,
    TokenKeys,
    Wanted,
    authority_is_unfit,
    keys_are_unfit,
    kubeconfig_due,
    kubeconfig_is_outdated,
    kubeconfig_is_unfit,
    leaf_due,
    leaf_is_outdated,
    leaf_is_unfit,
    signer_is_outdated,
)
from kubewright.pki.facts import unfit_name


class Transition(StrEnum):
    """A change of the Secret of an authority that is being replaced; the value says what holds after it."""

    BEGIN = "a new one is trusted beside it"
    SIGN = "the new one signs"
    DROP = "the old one is trusted no more"


@dataclass(frozen=True, slots=True)
class Make:
    """Make one Secret, or renew it.

    ``because``     a clause
    ``renews``      whether the Secret exists
    ``copies``      the Secret whose content it gets instead of new keys; empty: none
    ``transition``  the next change of an authority that is being replaced; None: any other step
    """

    wanted: Wanted
    because: str
    renews: bool = False
    copies: str = ""
    transition: Transition | None = None


@dataclass(frozen=True, slots=True)
class Plan(plan.Plan[Make]):
    """What to make now; authorities come before what they sign.

    ``waiting``   what other controllers or programs have to make first, a clause each
    ``problems``  what a user has to mend, a sentence each
    ``wake``      when the next of those that exist is to be renewed, or ends
    """

    waiting: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def decide(wanted: Sequence[Wanted], held: Mapping[str, Held], ours: Collection[str], now: datetime) -> Plan:
    """What to do about what is held.

    Args:
        wanted: what there should be; an authority stands before what it signs.
        held: the Secrets of ``secrets_of(wanted)`` that exist, by name.
        ours: the names of those that we may write.
        now: the present.
    """
    ring = _Ring(held, ours, now)
    for each in wanted:
        match each:
            case Authority() | TokenKeys():
                _decide_pair(ring, each, [one for one in wanted if _signed_by(one, each)])
            case Leaf():
                _decide_leaf(ring, each)
            case Signer():
                _decide_signer(ring, each)
            case Kubeconfig():
                _decide_kubeconfig(ring, each)
    because = "; ".join(each.because for each in ring.steps)
    wake = min(ring.moments, default=None)
    return Plan(
        tuple(ring.steps),
        wake=None if wake is None else in_seconds((wake - now).total_seconds()),
        because=because or _nothing_made(ring),
        waiting=tuple(dict.fromkeys(ring.waiting)),
        problems=tuple(ring.problems),
    )


def renamed(plan: Plan, held: Mapping[str, Held], before: str, after: str) -> Plan:
    """The plan for a control plane that has got another cluster name: from ``before`` to ``after``.

    New Secrets for its authorities and keys for tokens become copies of the old ones. So a Cluster that
    becomes the owner of a control plane that runs makes no kubeconfig and no token invalid.
    """
    steps = []
    for each in plan.steps:
        old = f"{before}{each.wanted.secret.removeprefix(after)}"
        kept = isinstance(each.wanted, Authority | TokenKeys) and old in held and held[old].pair.key
        steps.append(replace(each, copies=old) if kept and not held[old].problem else each)
    return replace(plan, steps=tuple(steps))


@dataclass(slots=True)
class _Ring:
    """What a decision reads, and the parts of its plan so far."""

    held: Mapping[str, Held]
    ours: Collection[str]
    now: datetime
    steps: list[Make] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    moments: list[datetime] = field(default_factory=list)

    def makes(self, secret: str) -> bool:
        """Whether the plan so far makes this Secret."""
        return any(each.wanted.secret == secret for each in self.steps)

    def later(self, moment: datetime) -> None:
        """Look again at this moment, if it is in the future."""
        if moment > self.now:
            self.moments.append(moment)


def _signed_by(wanted: Wanted, authority: Authority | TokenKeys) -> bool:
    return isinstance(wanted, Signed) and wanted.authority == authority.secret


def _decide_pair(ring: _Ring, wanted: Authority | TokenKeys, signed: Iterable[Wanted]) -> None:
    held = ring.held.get(wanted.secret)
    if held is None:
        left = [each.secret for each in signed if each.secret in ring.held and each.secret in ring.ours]
        if not left:
            ring.steps.append(Make(wanted, f"there is no Secret {wanted.secret}"))
            return
        ring.problems.append(
            f"Secret {wanted.secret} is gone, and Secret {left[0]} that it signed is there: restore it, or "
            f"delete {', '.join(left)} to have all made anew, which ends what any kubeconfig is good for"
        )
        return
    if isinstance(wanted, TokenKeys):
        unfit = keys_are_unfit(held)
    else:
        unfit = authority_is_unfit(held, ring.now, signs=not wanted.external_without_key)
    if unfit:
        ring.problems.append(f"Secret {wanted.secret} {unfit}")
    if held.facts is not None:
        ring.later(held.facts.not_before)
        ring.later(held.facts.not_after)


def _decide_leaf(ring: _Ring, wanted: Leaf) -> None:
    held, authority = ring.held.get(wanted.secret), ring.held.get(wanted.authority)
    if held is None:
        _sign(ring, wanted, f"there is no Secret {wanted.secret}")
    elif wanted.secret not in ring.ours:
        if unfit := leaf_is_unfit(held, wanted, authority, ring.now):
            ring.problems.append(f"Secret {wanted.secret} {unfit}")
        elif held.facts is not None:
            ring.later(held.facts.not_after)
    elif outdated := leaf_is_outdated(held, wanted, authority, ring.now):
        _sign(ring, wanted, f"Secret {wanted.secret} {outdated}")
    elif held.facts is not None:
        ring.later(leaf_due(held.facts, authority))


def _decide_signer(ring: _Ring, wanted: Signer) -> None:
    held = ring.held.get(wanted.secret)
    if held is None:
        _sign(ring, wanted, f"there is no Secret {wanted.secret}")
    elif wanted.secret in ring.ours:
        if outdated := signer_is_outdated(held, wanted, ring.held.get(wanted.authority)):
            _sign(ring, wanted, f"Secret {wanted.secret} {outdated}")
    elif unfit := authority_is_unfit(held, ring.now, signs=True):
        ring.problems.append(f"Secret {wanted.secret} {unfit}")


def _decide_kubeconfig(ring: _Ring, wanted: Kubeconfig) -> None:
    held, authority = ring.held.get(wanted.secret), ring.held.get(wanted.authority)
    if held is None:
        _sign(ring, wanted, f"there is no Secret {wanted.secret}")
        return
    login = held.kubeconfig
    if wanted.secret not in ring.ours:
        if unfit := kubeconfig_is_unfit(held, wanted, authority, ring.now):
            ring.problems.append(f"Secret {wanted.secret} is not ours to write, and {unfit}")
        elif login is not None and login.not_after is not None:
            ring.later(login.not_after)
    elif outdated := kubeconfig_is_outdated(held, wanted, authority, ring.now):
        _sign(ring, wanted, outdated)
    elif login is not None and (due := kubeconfig_due(login, wanted, authority)) is not None:
        ring.later(due)


def _sign(ring: _Ring, wanted: Signed, because: str) -> None:
    """Make it if the authority can sign it; else wait for that, or report why it cannot."""
    renews = wanted.secret in ring.held
    if isinstance(wanted, Leaf) and (unfit := unfit_name(sorted(wanted.names))):
        ring.problems.append(f"{because}, and {unfit}")
        return
    authority = ring.held.get(wanted.authority)
    if authority is None and not ring.makes(wanted.authority):
        ring.waiting.append(f"waits for Secret {wanted.authority}")
        return
    unfit = authority_is_unfit(authority, ring.now, signs=True) if authority is not None else ""
    if not unfit or authority is None:
        ring.steps.append(Make(wanted, because, renews))
    elif not renews and not authority.pair.key and not authority.problem:
        ring.waiting.append(
            f"waits for Secret {wanted.secret}, which another program has to make: "
            f"Secret {wanted.authority} {NO_KEY}"
        )
    else:
        ring.problems.append(f"{because}, and Secret {wanted.authority} {unfit}")


def _nothing_made(ring: _Ring) -> str:
    """Why nothing is made now."""
    if why := "; ".join((*ring.problems, *ring.waiting)):
        return why
    return "one of the certificates is due or ends then" if ring.moments else "all certificates are good"
