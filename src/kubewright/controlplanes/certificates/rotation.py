"""How an authority is replaced so that every credential verifies at every moment. Pure.

Theory.      Its Secret shows how far that is. ``tls.crt`` is what is trusted, and begins with the one that
             signs; ``tls.key`` is that one's key. First the new one is put behind the old one, with its key
             under a name of its own, and all that verify are given both. When all of them run with both, the
             new one signs, and all that is presented is made anew. When nothing that the old one signed is
             presented any more, it is trusted no more. Every turn is one write, so after a crash another
             process goes on from what is there.
Invariants.  No turn is taken before all components run with the last one. An authority of a user is never
             written. An old one that has expired is waited for by nothing: nothing verifies by it.
Source       nested.md A6 (CA rotation is two-phase), C4; decision 0034.
Called by    ``keeper``; ``act`` makes what a turn writes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from hashlib import sha256

from kubewright.api.cluster.names import SECRET_VALUE_KEY
from kubewright.api.controlplane.names import StopBefore
from kubewright.api.controlplane.reasons import Reason
from kubewright.base.clock import rfc3339
from kubewright.controlplanes.certificates.found import Found
from kubewright.pki.facts import Facts, is_signed_by
from kubewright.pki.keys import BACKDATED, KeyPair, pems
from kubewright.runtime.credentials.values import CERTIFICATE_KEY, PRIVATE_KEY, data_of

NEXT_CERTIFICATE, NEXT_KEY = "next.crt", "next.key"
"""Under which the Secret of an authority has the one that is going to sign."""
LEFT = 10
"""An authority is replaced when one part in so many of its life is left: a year, of ten."""


class Turn(StrEnum):
    """What is written next into the Secret of an authority."""

    BEGIN = "a new one is trusted beside it"
    SIGN = "the new one signs"
    DROP = "the old one is trusted no more"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a user asks for: ``spec.certificateAuthorities``, with its defaults."""

    rotate_after: datetime | None = None
    stop_before: str = StopBefore.NEVER


@dataclass(frozen=True, slots=True)
class Consumer:
    """A component, which presents and verifies certificates.

    ``runs_with``  digests of what its instances run with, by names of Secrets
    ``unknown``    why that is not known, a clause; empty: it is
    """

    name: str
    runs_with: Mapping[str, str] = field(default_factory=dict)
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """All that a decision about one authority reads.

    ``ours``   whether its Secret is ours to write
    ``found``  Secrets of the control plane, by name: those it has signed, and kubeconfigs, are among them
    """

    secret: str
    authority: Found
    ours: bool
    asked: Asked
    found: Mapping[str, Found]
    consumers: tuple[Consumer, ...]
    now: datetime


@dataclass(frozen=True, slots=True)
class Rotation:
    """What to do now with one authority, and how far its rotation is.

    ``turn``     None: nothing is written now
    ``because``  a clause
    ``stage``    how far it is; None: no rotation goes on
    ``told``     a sentence about it for users
    ``wake``     when it is due
    """

    turn: Turn | None = None
    because: str = ""
    stage: Reason | None = None
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
        return _trusting(view, facts)
    if len(trusted) > 1 and view.ours:
        return _signing(view, trusted)
    due, because = _due(facts, view.asked)
    if due > view.now:
        return Rotation(wake=due)
    if not view.ours:
        told = f"Secret {view.secret} is not ours to write: {because}, and its owner has to replace it"
        return Rotation(stage=Reason.NOT_OURS, told=told) if view.asked.rotate_after else Rotation()
    return Rotation(Turn.BEGIN, f"{because}: {Turn.BEGIN}")


def trusted_by(authority: Found) -> tuple[bytes, ...]:
    """The certificates that those trust who verify by an authority; the first is the one that signs."""
    try:
        return tuple(pems(authority.pair.certificate))
    except ValueError:
        return ()


def digest_of(contents: Mapping[str, bytes]) -> str:
    """Stands for the certificates in a Secret: ``status.certificates``. Empty: there are none in it."""
    said = contents.get(CERTIFICATE_KEY) or contents.get(SECRET_VALUE_KEY)
    return sha256(said).hexdigest()[:16] if said else ""


def written(turn: Turn, authority: Found, new: KeyPair) -> dict[str, bytes | None]:
    """What the Secret holds after a turn; None: an entry that goes. ``new`` is made for ``Turn.BEGIN``."""
    trusted, pair = trusted_by(authority), authority.pair
    match turn:
        case Turn.BEGIN:
            return {
                **data_of(trusted[0] + new.certificate, pair.key),
                NEXT_CERTIFICATE: new.certificate,
                NEXT_KEY: new.key,
            }
        case Turn.SIGN:
            then = authority.contents[NEXT_CERTIFICATE]
            both = data_of(then + trusted[0], authority.contents[NEXT_KEY])
            return {**both, NEXT_CERTIFICATE: None, NEXT_KEY: None}
        case Turn.DROP:
            return {CERTIFICATE_KEY: trusted[0], PRIVATE_KEY: pair.key}


def _due(facts: Facts, asked: Asked) -> tuple[datetime, str]:
    """When an authority is to be replaced, and why, a clause."""
    late = facts.not_after - (facts.not_after - facts.not_before) / LEFT
    after = asked.rotate_after
    if after is not None and facts.not_before + BACKDATED < after < late:
        return after, f"it was made before {rfc3339(after)}"
    return late, f"it is valid only until {rfc3339(facts.not_after)}"


def _trusting(view: View, facts: Facts) -> Rotation:
    """The old one signs: both have to be trusted by all before the new one does."""
    told = f"Secret {view.secret}: the old authority signs, and components are given both"
    waits = next(_not_trusted(view), "") or next(_late(view), "")
    if not waits and view.asked.stop_before == StopBefore.SIGNING:
        waits = "it stops before Signing, as spec.certificateAuthorities.stopBefore says or leaves it"
    if waits and facts.not_after > view.now:
        return Rotation(stage=Reason.TRUSTING_BOTH, told=f"{told}; {waits}")
    return Rotation(Turn.SIGN, f"both are trusted: {Turn.SIGN}", Reason.TRUSTING_BOTH, told)


def _signing(view: View, trusted: tuple[bytes, ...]) -> Rotation:
    """The new one signs: nothing of the old one may be presented when it is trusted no more."""
    told = f"Secret {view.secret}: the new authority signs, and the old one is still trusted"
    waits = next(_of_old(view, trusted), "") or next(_not_trusted(view), "") or next(_late(view), "")
    if not waits and view.asked.stop_before in (StopBefore.SIGNING, StopBefore.DROPPING):
        waits = "it stops before Dropping, as spec.certificateAuthorities.stopBefore says or leaves it"
    if waits:
        return Rotation(stage=Reason.SIGNING_WITH_NEW, told=f"{told}; {waits}")
    return Rotation(Turn.DROP, f"nothing of the old one is left: {Turn.DROP}", Reason.SIGNING_WITH_NEW, told)


def _of_old(view: View, trusted: tuple[bytes, ...]) -> Iterator[str]:
    """What is presented that another than the first of these has signed."""
    for name, found in view.found.items():
        presented = _presented(found)
        if presented and _signer(presented, trusted[1:]) is not None:
            yield f"waits until what the old one signed is replaced in Secret {name}"


def _not_trusted(view: View) -> Iterator[str]:
    """The kubeconfigs that lead to this control plane and do not trust all of these."""
    trusted = set(trusted_by(view.authority))
    for name, found in view.found.items():
        if found.kubeconfig is None or not found.kubeconfig.authority:
            continue
        trusts = _read(found.kubeconfig.authority)
        if trusts & trusted and not trusted <= trusts:
            yield f"waits until the kubeconfig in Secret {name} trusts both"


def _late(view: View) -> Iterator[str]:
    """The components that do not run yet with what the Secrets say."""
    concerned = {view.secret, *_concerned(view)}
    for each in view.consumers:
        if each.unknown:
            yield f"waits for {each.name}: {each.unknown}"
        for name in sorted(concerned & each.runs_with.keys()):
            if name in view.found and each.runs_with[name] != digest_of(view.found[name].contents):
                yield f"waits until all instances of {each.name} run with what is in Secret {name} now"


def _concerned(view: View) -> Iterator[str]:
    """The Secrets with what one of the authorities signed, or is trusted in."""
    trusted = trusted_by(view.authority)
    for name, found in view.found.items():
        trusts = _read(found.kubeconfig.authority) if found.kubeconfig is not None else set()
        presented = _presented(found)
        if trusts & set(trusted) or (presented and _signer(presented, trusted) is not None):
            yield name


def _presented(found: Found) -> bytes:
    """The certificate that who holds this Secret shows; empty: none, or it can sign itself."""
    if found.kubeconfig is not None:
        return found.kubeconfig.certificate
    return found.pair.certificate if found.facts is not None else b""


def _signer(certificate: bytes, authorities: Iterable[bytes]) -> bytes | None:
    """Which of these signed a certificate. An authority is none of what it signed."""
    for each in authorities:
        if each not in _read(certificate) and is_signed_by(certificate, each):
            return each
    return None


def _read(bundle: bytes) -> set[bytes]:
    try:
        return set(pems(bundle))
    except ValueError:
        return set()
