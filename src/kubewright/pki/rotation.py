"""How an authority is replaced so that every credential verifies at every moment. Pure.

Theory.      The Secret of the authority shows how far its rotation is. ``tls.crt`` is the bundle to trust;
             its first certificate is the one that signs, with ``tls.key``. Three transitions replace the
             authority. BEGIN puts a new certificate behind the old one, and its key into ``next.key``; then
             all components, and all kubeconfigs, get both to trust. SIGN, once all of them have both, puts
             the new certificate and key in front; then every certificate is signed anew. DROP, once no
             certificate of the old authority is in use, removes the old one from the bundle. Each transition
             is one write of one Secret, so after a crash another process goes on from what is there. A new
             pair that cannot sign has signed nothing, and BEGIN replaces it by another: its certificate is
             not valid yet, because a clock was ahead, or another client has written into the Secret.
Invariants.  No transition before all components run with the result of the last one. The authority of a user
             is never written. An old authority that has expired is replaced without waiting, since nothing
             verifies by it. Why in two phases, and what users may stop: decision 0034.
Called by    ``controlplanes.certificates``, whose ``act`` writes what ``written`` makes of a transition.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from hashlib import sha256

from kubewright.base.clock import rfc3339
from kubewright.pki.credentials import (
    CERTIFICATE_KEY,
    KUBECONFIG_KEY,
    NO_KEY,
    PRIVATE_KEY,
    TENTH,
    Held,
    data_of,
    problem_of,
)
from kubewright.pki.facts import Facts, facts_of, is_signed_by
from kubewright.pki.keyring import Transition
from kubewright.pki.keys import BACKDATED, KeyPair, pems

NEXT_CERTIFICATE, NEXT_KEY = "next.crt", "next.key"
"""The keys under which the Secret has the certificate and the key that sign after SIGN."""


class Stage(StrEnum):
    """How far the rotation of an authority is."""

    TRUSTING_BOTH = "TrustingBoth"
    SIGNING_WITH_NEW = "SigningWithNew"
    NOT_OURS = "NotOurs"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a user asks for: the ``spec.certificateAuthorities`` of the control plane, with defaults.

    ``rotate_after``  every authority that was made before is replaced
    ``stop_before``   the transition that waits until the user says otherwise; None: none does
    """

    rotate_after: datetime | None = None
    stop_before: Transition | None = None


@dataclass(frozen=True, slots=True)
class Consumer:
    """A component that presents and verifies certificates.

    ``runs_with``  its ``status.certificates``: digests by names of Secrets
    ``unknown``    why it is not known with which certificates it runs, a clause; empty: it is known
    """

    name: str
    runs_with: Mapping[str, str] = field(default_factory=dict)
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """All that a decision about one authority reads.

    ``ours``   whether its Secret is ours to write
    ``found``  Secrets of the control plane, by name, with all that it has signed and all kubeconfigs
    """

    secret: str
    authority: Held
    ours: bool
    asked: Asked
    found: Mapping[str, Held]
    consumers: tuple[Consumer, ...]
    now: datetime


@dataclass(frozen=True, slots=True)
class Rotation:
    """What to do now with one authority, and how far its rotation is.

    ``transition``  the change to make now; None: none
    ``because``     why, a clause
    ``stage``       how far it is; None: no rotation goes on
    ``told``        a sentence about that for users
    ``wake``        when the rotation is to begin
    """

    transition: Transition | None = None
    because: str = ""
    stage: Stage | None = None
    told: str = ""
    wake: datetime | None = None


def decide(view: View) -> Rotation:
    """What comes next. An equal view gives an equal answer."""
    trusted, facts = trusted_by(view.authority), view.authority.facts
    if not trusted or facts is None:
        return Rotation()
    if view.authority.problem or (view.ours and not view.authority.pair.key):
        return Rotation()
    if view.ours and {NEXT_CERTIFICATE, NEXT_KEY} <= view.authority.contents.keys():
        return _while_old_signs(view, facts)
    if len(trusted) > 1 and view.ours:
        return _while_new_signs(view, trusted)
    due, because = _due(facts, view.asked)
    if due > view.now:
        return Rotation(wake=due)
    if not view.ours:
        told = f"Secret {view.secret} is not ours to write: {because}, and its owner has to replace it"
        return Rotation(stage=Stage.NOT_OURS, told=told) if view.asked.rotate_after else Rotation()
    return Rotation(Transition.BEGIN, f"{because}: {Transition.BEGIN}")


def trusted_by(authority: Held) -> tuple[bytes, ...]:
    """The certificates in ``tls.crt`` of an authority; the first is the one that signs."""
    try:
        return tuple(pems(authority.pair.certificate))
    except ValueError:
        return ()


def digest_of(contents: Mapping[str, bytes]) -> str:
    """The digest of the certificates in a Secret, as in ``status.certificates``. Empty: there are none."""
    said = contents.get(CERTIFICATE_KEY) or contents.get(KUBECONFIG_KEY)
    return sha256(said).hexdigest()[:16] if said else ""


def written(transition: Transition, authority: Held, new: KeyPair) -> dict[str, bytes | None]:
    """The entries of the Secret after a transition; None: the entry is removed. BEGIN alone reads ``new``."""
    trusted, pair = trusted_by(authority), authority.pair
    match transition:
        case Transition.BEGIN:
            return {
                **data_of(trusted[0] + new.certificate, pair.key),
                NEXT_CERTIFICATE: new.certificate,
                NEXT_KEY: new.key,
            }
        case Transition.SIGN:
            then = authority.contents[NEXT_CERTIFICATE]
            both = data_of(then + trusted[0], authority.contents[NEXT_KEY])
            return {**both, NEXT_CERTIFICATE: None, NEXT_KEY: None}
        case Transition.DROP:
            return {CERTIFICATE_KEY: trusted[0], PRIVATE_KEY: pair.key}


def _due(facts: Facts, asked: Asked) -> tuple[datetime, str]:
    """When an authority is to be replaced, and why, a clause."""
    late = TENTH.due(facts.not_before, facts.not_after)
    after = asked.rotate_after
    if after is not None and facts.not_before + BACKDATED < after < late:
        return after, f"it was made before {rfc3339(after)}"
    return late, f"it is valid only until {rfc3339(facts.not_after)}"


def _while_old_signs(view: View, facts: Facts) -> Rotation:
    """The old authority signs: everything has to trust both before the new one may sign."""
    told = f"Secret {view.secret}: the old authority signs, and components are given both"
    if unfit := _next_is_unfit(view.authority, view.now):
        return Rotation(Transition.BEGIN, f"the new one {unfit}, so another is made: {Transition.BEGIN}")
    waits = next(_without_both(view), "") or next(_not_restarted(view), "")
    if not waits and view.asked.stop_before is Transition.SIGN:
        waits = "it stops before Signing, as spec.certificateAuthorities.stopBefore says or leaves it"
    if waits and facts.not_after > view.now:
        return Rotation(stage=Stage.TRUSTING_BOTH, told=f"{told}; {waits}")
    return Rotation(Transition.SIGN, f"both are trusted: {Transition.SIGN}", Stage.TRUSTING_BOTH, told)


def _next_is_unfit(authority: Held, now: datetime) -> str:
    """Why the new pair cannot sign, however long one waits; the end of a sentence. Empty: it can."""
    pair = KeyPair(authority.contents[NEXT_CERTIFICATE], authority.contents[NEXT_KEY])
    if unfit := problem_of(pair, signs=True) or ("" if pair.key else NO_KEY):
        return unfit.replace(CERTIFICATE_KEY, NEXT_CERTIFICATE).replace(PRIVATE_KEY, NEXT_KEY)
    facts = facts_of(pair.certificate)
    if facts.not_before > now:
        return f"is valid only from {rfc3339(facts.not_before)}"
    if facts.not_after <= now:
        return f"expired on {rfc3339(facts.not_after)}"
    return "" if _certificates_in(pair.certificate) <= set(trusted_by(authority)) else "is not in tls.crt"


def _while_new_signs(view: View, trusted: tuple[bytes, ...]) -> Rotation:
    """The new authority signs: no certificate of the old one may be in use when it is dropped."""
    told = f"Secret {view.secret}: the new authority signs, and the old one is still trusted"
    waits = (
        next(_signed_by_old(view, trusted), "")
        or next(_without_both(view), "")
        or next(_not_restarted(view), "")
    )
    if not waits and view.asked.stop_before in (Transition.SIGN, Transition.DROP):
        waits = "it stops before Dropping, as spec.certificateAuthorities.stopBefore says or leaves it"
    if waits:
        return Rotation(stage=Stage.SIGNING_WITH_NEW, told=f"{told}; {waits}")
    return Rotation(
        Transition.DROP, f"nothing of the old one is left: {Transition.DROP}", Stage.SIGNING_WITH_NEW, told
    )


def _signed_by_old(view: View, trusted: tuple[bytes, ...]) -> Iterator[str]:
    """What waits because a certificate of an older authority than the first is still in use."""
    for name, found in view.found.items():
        presented = _presented(found)
        if presented and _signer(presented, trusted[1:]) is not None:
            yield f"waits until what the old one signed is replaced in Secret {name}"


def _without_both(view: View) -> Iterator[str]:
    """What waits because a kubeconfig of this control plane does not trust all certificates of the bundle."""
    trusted = set(trusted_by(view.authority))
    for name, found in view.found.items():
        if found.kubeconfig is None or not found.kubeconfig.authority:
            continue
        trusts = _certificates_in(found.kubeconfig.authority)
        if trusts & trusted and not trusted <= trusts:
            yield f"waits until the kubeconfig in Secret {name} trusts both"


def _not_restarted(view: View) -> Iterator[str]:
    """What waits because a component does not run yet with the present content of the Secrets."""
    concerned = {view.secret, *_affected(view)}
    for each in view.consumers:
        if each.unknown:
            yield f"waits for {each.name}: {each.unknown}"
        for name in sorted(concerned & each.runs_with.keys()):
            if name in view.found and each.runs_with[name] != digest_of(view.found[name].contents):
                yield f"waits until all instances of {each.name} run with what is in Secret {name} now"


def _affected(view: View) -> Iterator[str]:
    """The Secrets with a certificate that one of the bundle signed, or a kubeconfig that trusts one."""
    trusted = trusted_by(view.authority)
    for name, found in view.found.items():
        trusts = _certificates_in(found.kubeconfig.authority) if found.kubeconfig is not None else set()
        presented = _presented(found)
        if trusts & set(trusted) or (presented and _signer(presented, trusted) is not None):
            yield name


def _presented(found: Held) -> bytes:
    """The certificate that a client or server presents which uses this Secret; empty: there is none."""
    if found.kubeconfig is not None:
        return found.kubeconfig.certificate
    return found.pair.certificate if found.facts is not None else b""


def _signer(certificate: bytes, authorities: Iterable[bytes]) -> bytes | None:
    """Which of these signed a certificate; None: none. An authority does not count as signed by itself."""
    for each in authorities:
        if each not in _certificates_in(certificate) and is_signed_by(certificate, each):
            return each
    return None


def _certificates_in(bundle: bytes) -> set[bytes]:
    try:
        return set(pems(bundle))
    except ValueError:
        return set()
