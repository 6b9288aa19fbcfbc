"""Why a certificate or a kubeconfig is renewed, or cannot be used. Pure.

Theory.      What we made has to say exactly what is wanted, and is renewed before it ends: a certificate when
             a third of its life is left, a kubeconfig when half of it is. What a user made has to be good for
             what is wanted, and may be good for more. A certificate that ends together with its authority is
             not renewed, because a new one would live no longer.
Invariants.  Every answer about a certificate is the end of a sentence that begins with its Secret. Equal
             views give equal words, and no answer contains a part of a key.
Source       nested.md A6 (rules), A7, C3.
Called by    ``decide``.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from ipaddress import ip_address

from kubewright.base.clock import rfc3339
from kubewright.controlplanes.certificates.found import Found
from kubewright.controlplanes.certificates.wanted import Kubeconfig, Leaf, Signer
from kubewright.pki.clusters import out_of_date
from kubewright.pki.facts import Facts, facts_of, is_signed_by
from kubewright.pki.keys import pems
from kubewright.runtime.credentials.values import LIFETIME, half_time, mismatch
from kubewright.runtime.credentials.values import Kubeconfig as Held
from kubewright.wire.http import User

RENEWAL_PART = 3
"""A leaf is renewed when this part of its life is left: one third."""


def renewed_at(leaf: Facts, authority: Facts | None) -> datetime:
    """When a leaf of ours is renewed, if nothing changes; its end, where its authority ends no later."""
    if authority is not None and leaf.not_after >= authority.not_after:
        return leaf.not_after
    return leaf.not_after - (leaf.not_after - leaf.not_before) / RENEWAL_PART


def leaf_is_outdated(found: Found, wanted: Leaf, authority: Found | None, now: datetime) -> str:
    """Why a leaf of ours is renewed; empty: it is good. ``authority`` None: a new one is being made."""
    if told := _unusable(found):
        return told
    facts = found.facts
    assert facts is not None, "what has no certificate is unusable"
    if authority is None or not _signed(found, authority):
        return f"was signed by another authority than Secret {wanted.authority}"
    if not _same_user(facts.user, wanted.subject):
        return f"is for {facts.user.name or 'no name'}, not for {wanted.subject.name}"
    if told := _other_names(facts.names, canonical(wanted.names)) or _other_uses(facts, wanted):
        return told
    if now < facts.not_before:
        return f"is valid only from {rfc3339(facts.not_before)}"
    if renewed_at(facts, authority.facts) <= now:
        return f"is valid only until {rfc3339(facts.not_after)}"
    return ""


def leaf_is_unfit(found: Found, wanted: Leaf, authority: Found | None, now: datetime) -> str:
    """Why a user's leaf cannot be used; empty: it can."""
    if told := _unusable(found) or (_expired(found, now)):
        return told
    facts = found.facts
    assert facts is not None, "what has no certificate is unusable"
    if authority is not None and not _signed_by_any(found, authority):
        return f"was signed by another authority than Secret {wanted.authority}"
    if lacking := canonical(wanted.names) - facts.names:
        return f"is not good for {_listed(lacking)}"
    if wanted.names and not facts.server:
        return "is not good for a server"
    return "is not good for a client" if wanted.client and not facts.client else ""


def signer_is_outdated(found: Found, wanted: Signer, authority: Found | None) -> str:
    """Why a ``Signer`` is renewed; empty: it is good. ``authority`` None: a new one is being made."""
    if authority is None:
        return f"is a copy of another authority than Secret {wanted.authority}"
    same = found.pair.certificate == _signs(authority.pair.certificate)
    if not same or found.pair.key != authority.pair.key:
        return f"is not a copy of what signs in Secret {wanted.authority}"
    return ""


def authority_is_unfit(found: Found, now: datetime, *, signs: bool) -> str:
    """Why an authority cannot be used, or cannot sign where it has to; empty: it can."""
    if told := found.problem or _expired(found, now):
        return told
    if found.facts is None:
        return "has no certificate in its tls.crt"
    if not signs:
        return ""
    return found.facts.no_authority or ("" if found.pair.key else "has no tls.key")


def keys_are_unfit(found: Found) -> str:
    """Why a pair of keys cannot be used; empty: it can."""
    return found.problem or ("" if found.pair.key else "has no tls.key")


def kubeconfig_is_outdated(found: Found, wanted: Kubeconfig, authority: Found | None, now: datetime) -> str:
    """Why a kubeconfig of ours is renewed, a clause; empty: it is good.

    ``authority`` None: a new one is being made.
    """
    held = found.kubeconfig
    if held is None:
        return f"Secret {wanted.secret} has no kubeconfig"
    if authority is None:
        return "the cluster has another certificate authority now"
    if told := mismatch(held, wanted.server, authority.pair.certificate):
        return told
    try:
        client = facts_of(held.certificate)
    except ValueError:
        return "the kubeconfig cannot be read"
    if not _same_user(client.user, wanted.user):
        return f"the kubeconfig is for {client.user.name or 'no name'}, not for {wanted.user.name}"
    if now < client.not_before:
        return f"the kubeconfig is valid only from {rfc3339(client.not_before)}"
    if wanted.lifetime < LIFETIME and held.not_after is not None and held.not_after > now + wanted.lifetime:
        return f"the kubeconfig is valid until {rfc3339(held.not_after)}, longer than it should be"
    due = kubeconfig_renewed_at(held, authority, wanted.lifetime)
    return "half of the kubeconfig's life is over" if due is not None and due <= now else ""


def kubeconfig_is_unfit(found: Found, wanted: Kubeconfig, authority: Found | None, now: datetime) -> str:
    """Why a user's kubeconfig cannot be used, a clause; empty: it can."""
    held = found.kubeconfig
    if held is None:
        return f"Secret {wanted.secret} has no kubeconfig"
    signs = _signs(authority.pair.certificate) if authority is not None else b""
    trusted = held.authority if authority is None or _trusts(held, signs) else authority.pair.certificate
    if told := mismatch(held, wanted.server, trusted):
        return told
    if held.not_after is None or now < held.not_after:
        return ""
    return f"the kubeconfig expired on {rfc3339(held.not_after)}"


def kubeconfig_renewed_at(
    held: Held, authority: Found | None, lifetime: timedelta = LIFETIME
) -> datetime | None:
    """When a kubeconfig of ours is renewed, as ``renewed_at`` says of a leaf. None: it never ends.

    A certificate is backdated by an hour, so half of a short life is counted back from its end.
    """
    half = half_time(held)
    if lifetime < LIFETIME and held.not_after is not None:
        half = held.not_after - lifetime / 2
    ends = authority.facts.not_after if authority is not None and authority.facts is not None else None
    if ends is not None and held.not_after is not None and held.not_after >= ends:
        return held.not_after
    return half


def canonical(names: Iterable[str]) -> frozenset[str]:
    """Host names in lower case, and addresses in the form that certificates have them in."""
    return frozenset(map(_canonical, names))


def _canonical(name: str) -> str:
    try:
        return str(ip_address(name))
    except ValueError:
        return name.lower()


def _unusable(found: Found) -> str:
    if found.problem:
        return found.problem
    if not found.pair.key:
        return "has no tls.key"
    return "has no certificate in its tls.crt" if found.facts is None else ""


def _expired(found: Found, now: datetime) -> str:
    if found.facts is None:
        return ""
    return out_of_date(found.facts.not_before, found.facts.not_after, now)


def _signed(found: Found, authority: Found) -> bool:
    return authority.facts is not None and is_signed_by(found.pair.certificate, authority.pair.certificate)


def _signed_by_any(found: Found, authority: Found) -> bool:
    """Whether a certificate in ``tls.crt`` of the authority signed it; during a rotation there are two."""
    if authority.facts is None:
        return False
    return any(is_signed_by(found.pair.certificate, each) for each in pems(authority.pair.certificate))


def _signs(bundle: bytes) -> bytes:
    """The certificate of an authority that signs: the first one; empty if there is none."""
    try:
        return pems(bundle)[0]
    except ValueError:
        return b""


def _trusts(held: Held, certificate: bytes) -> bool:
    try:
        return bool(certificate) and certificate in pems(held.authority)
    except ValueError:
        return False


def _same_user(one: User, other: User) -> bool:
    return one.name == other.name and set(one.groups) == set(other.groups)


def _other_names(there: frozenset[str], wanted: frozenset[str]) -> str:
    if lacking := wanted - there:
        return f"is not good for {_listed(lacking)}"
    return f"is good for {_listed(there - wanted)} too, where nothing of it is" if there - wanted else ""


def _other_uses(facts: Facts, wanted: Leaf) -> str:
    there, asked = (facts.server, facts.client), (bool(wanted.names), wanted.client)
    return "" if there == asked else "is for another side of handshakes"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
