"""Decide which certificates and kubeconfigs are made, from what is wanted and what is found. Pure.

Theory.      What is wanted and does not exist is made. What we made before and is outdated is renewed. What a
             user made is used, or is a problem that the user has to mend. What another controller makes is
             waited for. One plan can make an authority and everything that it signs.
Invariants.  No plan writes a Secret that the owner does not control. No plan replaces an authority, because
             no credential that the old one signed would verify any more. So if an authority is gone and
             certificates that it signed exist, that is a problem for the user; ``rotation`` decides how an
             authority is replaced. An equal view gives an equal plan.
Source       nested.md A6 (rules); S3-24, S3-25, S3-27 to S3-29.
Called by    ``keeper`` and ``users``; ``act`` performs the steps.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.base import plan
from kubewright.base.plan import in_seconds
from kubewright.controlplanes.certificates import reasons
from kubewright.controlplanes.certificates.found import Found
from kubewright.controlplanes.certificates.rotation import Transition
from kubewright.controlplanes.certificates.wanted import (
    Authority,
    KeyPair,
    Kubeconfig,
    Leaf,
    Signed,
    Signer,
    Wanted,
)
from kubewright.pki.facts import unfit_name


@dataclass(frozen=True, slots=True)
class Make:
    """Make one Secret, or renew it.

    ``because``     a clause
    ``replaces``    the metadata of the Secret that exists; None: there is none
    ``copies``      the Secret whose content it gets instead of new keys; empty: none
    ``transition``  the next change of an authority that is being replaced; None: any other step
    """

    wanted: Wanted
    because: str
    replaces: ObjectMeta | None = None
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


def secrets_of(wanted: Iterable[Wanted]) -> tuple[str, ...]:
    """The names of the Secrets that a decision about these reads, each once."""
    names: dict[str, None] = {}
    for each in wanted:
        if isinstance(each, Signed):
            names[each.authority] = None
        names[each.secret] = None
    return tuple(names)


def decide(
    wanted: Sequence[Wanted], found: Mapping[str, Found], owner: OwnerReference, now: datetime
) -> Plan:
    """The plan for what is found.

    Args:
        wanted: what there should be; an authority stands before what it signs.
        found: the Secrets of ``secrets_of(wanted)`` that are there, by name.
        owner: the object that controls the Secrets that we make.
    """
    view = _View(found, owner, now)
    for each in wanted:
        match each:
            case Authority() | KeyPair():
                _decide_pair(view, each, [one for one in wanted if _signed_by(one, each)])
            case Leaf():
                _decide_leaf(view, each)
            case Signer():
                _decide_signer(view, each)
            case Kubeconfig():
                _decide_kubeconfig(view, each)
    because = "; ".join(each.because for each in view.steps)
    wake = min(view.moments, default=None)
    return Plan(
        tuple(view.steps),
        wake=None if wake is None else in_seconds((wake - now).total_seconds()),
        because=because or _nothing_made(view),
        waiting=tuple(dict.fromkeys(view.waiting)),
        problems=tuple(view.problems),
    )


def renamed(plan: Plan, found: Mapping[str, Found], before: str, after: str) -> Plan:
    """The plan for a control plane that has got another cluster name: from ``before`` to ``after``.

    New Secrets for its authorities and keys for tokens become copies of the old ones. So a Cluster that
    becomes the owner of a control plane that runs makes no kubeconfig and no token invalid.
    """
    steps = []
    for each in plan.steps:
        old = f"{before}{each.wanted.secret.removeprefix(after)}"
        kept = isinstance(each.wanted, Authority | KeyPair) and old in found and found[old].pair.key
        steps.append(replace(each, copies=old) if kept and not found[old].problem else each)
    return replace(plan, steps=tuple(steps))


@dataclass(slots=True)
class _View:
    """What a decision reads, and the parts of its plan so far."""

    found: Mapping[str, Found]
    owner: OwnerReference
    now: datetime
    steps: list[Make] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    moments: list[datetime] = field(default_factory=list)

    def owns(self, secret: str) -> bool:
        """Whether this Secret exists, and is ours."""
        return secret in self.found and self.found[secret].owned_by(self.owner)

    def makes(self, secret: str) -> bool:
        """Whether the plan so far makes this Secret."""
        return any(each.wanted.secret == secret for each in self.steps)

    def later(self, moment: datetime) -> None:
        """Look again at this moment, if it is in the future."""
        if moment > self.now:
            self.moments.append(moment)


def _signed_by(wanted: Wanted, authority: Authority | KeyPair) -> bool:
    return isinstance(wanted, Signed) and wanted.authority == authority.secret


def _decide_pair(view: _View, wanted: Authority | KeyPair, signed: Iterable[Wanted]) -> None:
    found = view.found.get(wanted.secret)
    if found is None:
        left = [each.secret for each in signed if view.owns(each.secret)]
        if not left:
            view.steps.append(Make(wanted, f"there is no Secret {wanted.secret}"))
            return
        view.problems.append(
            f"Secret {wanted.secret} is gone, and Secret {left[0]} that it signed is there: restore it, or "
            f"delete {', '.join(left)} to have all made anew, which ends what any kubeconfig is good for"
        )
        return
    if isinstance(wanted, KeyPair):
        told = reasons.keys_are_unfit(found)
    else:
        told = reasons.authority_is_unfit(found, view.now, signs=not wanted.external_without_key)
    if told:
        view.problems.append(f"Secret {wanted.secret} {told}")
    if found.facts is not None:
        view.later(found.facts.not_before)
        view.later(found.facts.not_after)


def _decide_leaf(view: _View, wanted: Leaf) -> None:
    found, authority = view.found.get(wanted.secret), view.found.get(wanted.authority)
    if found is None:
        _sign(view, wanted, f"there is no Secret {wanted.secret}", None)
        return
    if not found.owned_by(view.owner):
        if told := reasons.leaf_is_unfit(found, wanted, authority, view.now):
            view.problems.append(f"Secret {wanted.secret} {told}")
        elif found.facts is not None:
            view.later(found.facts.not_after)
        return
    if told := reasons.leaf_is_outdated(found, wanted, authority, view.now):
        _sign(view, wanted, f"Secret {wanted.secret} {told}", found)
    elif found.facts is not None:
        view.later(reasons.renewed_at(found.facts, authority.facts if authority is not None else None))


def _decide_signer(view: _View, wanted: Signer) -> None:
    found = view.found.get(wanted.secret)
    if found is None:
        _sign(view, wanted, f"there is no Secret {wanted.secret}", None)
    elif view.owns(wanted.secret):
        if told := reasons.signer_is_outdated(found, wanted, view.found.get(wanted.authority)):
            _sign(view, wanted, f"Secret {wanted.secret} {told}", found)
    elif told := reasons.authority_is_unfit(found, view.now, signs=True):
        view.problems.append(f"Secret {wanted.secret} {told}")


def _decide_kubeconfig(view: _View, wanted: Kubeconfig) -> None:
    found, authority = view.found.get(wanted.secret), view.found.get(wanted.authority)
    if found is None:
        _sign(view, wanted, f"there is no Secret {wanted.secret}", None)
        return
    held = found.kubeconfig
    if not found.owned_by(view.owner):
        if told := reasons.kubeconfig_is_unfit(found, wanted, authority, view.now):
            view.problems.append(f"Secret {wanted.secret} is not ours to write, and {told}")
        elif held is not None and held.not_after is not None:
            view.later(held.not_after)
        return
    if told := reasons.kubeconfig_is_outdated(found, wanted, authority, view.now):
        _sign(view, wanted, told, found)
    elif (
        held is not None
        and (due := reasons.kubeconfig_renewed_at(held, authority, wanted.lifetime)) is not None
    ):
        view.later(due)


def _sign(view: _View, wanted: Signed, because: str, found: Found | None) -> None:
    """Plan to make it if the authority can sign it; else wait for that, or report why it cannot."""
    step = Make(wanted, because, found.metadata if found is not None else None)
    if isinstance(wanted, Leaf) and (told := unfit_name(sorted(wanted.names))):
        view.problems.append(f"{because}, and {told}")
        return
    authority = view.found.get(wanted.authority)
    if authority is None:
        if view.makes(wanted.authority):
            view.steps.append(step)
        else:
            view.waiting.append(f"waits for Secret {wanted.authority}")
        return
    told = reasons.authority_is_unfit(authority, view.now, signs=True)
    if not told:
        view.steps.append(step)
    elif found is None and not authority.pair.key and not authority.problem:
        view.waiting.append(
            f"waits for Secret {wanted.secret}, which another program has to make: "
            f"Secret {wanted.authority} has no tls.key"
        )
    else:
        view.problems.append(f"{because}, and Secret {wanted.authority} {told}")


def _nothing_made(view: _View) -> str:
    """Why no certificate is made now."""
    if told := "; ".join((*view.problems, *view.waiting)):
        return told
    return "one of the certificates is due or ends then" if view.moments else "all certificates are good"
