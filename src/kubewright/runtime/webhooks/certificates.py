"""Keys of the webhooks: an authority of our own, a certificate that it signed, and when each is replaced.

Theory.      All replicas share one keyring, in a Secret. An API server trusts the authorities of the
             configuration's bundle, so an authority is *announced* in the bundle before it signs what is
             served, and an older one stays in the bundle until no replica serves what it signed. Each step
             is one write, and the next one follows from what is there: keys, their dates, and the bundles
             seen.

             BEGIN -> (SERVE a new certificate at two thirds of the life of the last)*
                   -> ANNOUNCE a new authority at two thirds of the life of the last
                   -> SERVE what it signed, once the API servers know it -> RETIRE the old one

Invariants.  ``decide`` is a function of values; only ``keyring_after`` makes keys, and ``now`` is an
             argument. A private key is in no ``repr``, reason or message. While a certificate is valid that
             a trusted authority signed, no step takes it out of use before its successor is trusted.
Called by    ``keeper``.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from kubewright.base.clock import rfc3339
from kubewright.base.errors import InvalidInput
from kubewright.pki.certificates import Identity, has_signed, new_authority, new_server
from kubewright.pki.credentials import Renewal
from kubewright.pki.facts import validity
from kubewright.pki.keys import BACKDATED, pems

COMMON_NAME = "kubewright-webhooks"
ISSUER = f"{COMMON_NAME}-ca"
"""Not the name of what it signs: OpenSSL takes a certificate with its issuer's name for self-signed."""

RENEWAL = Renewal(3, backdated=False, with_authority=False)

AUTHORITIES, SIGNER, CERTIFICATE, KEY = "ca.crt", "ca.key", "tls.crt", "tls.key"
"""The keys of the Secret: all trusted authorities, the newest first; its private key; what is served."""


class Step(StrEnum):
    """What to do with the keyring, see the module: nothing, make the first keys, announce a new authority,
    serve a new certificate, or trust old authorities no more."""

    KEEP = "keep"
    BEGIN = "begin"
    ANNOUNCE = "announce"
    SERVE = "serve"
    RETIRE = "retire"


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """How long keys last. Each is replaced when two thirds of its life are over.

    ``authority``  signs certificates, and is in the configurations
    ``serving``    the certificate that is served
    ``settling``   after which every API server knows an authority that was announced
    ``overlap``    how long an authority stays trusted after the last certificate it signed was replaced
    """

    authority: timedelta = timedelta(days=730)
    serving: timedelta = timedelta(days=90)
    settling: timedelta = timedelta(minutes=10)
    overlap: timedelta = timedelta(hours=1)

    def __post_init__(self) -> None:
        """Raises InvalidInput if a key could end while its successor is being announced."""
        if not self.settling < self.serving / 3 or not self.settling < self.authority / 3:
            raise InvalidInput("a key of the webhooks must last three times longer than its announcement")


@dataclass(frozen=True, slots=True)
class Keyring:
    """The newest ``authority``, what is served, and older authorities that are ``trusted`` still (PEM)."""

    authority: Identity
    serving: Identity
    trusted: tuple[bytes, ...] = ()

    @property
    def bundle(self) -> bytes:
        """All trusted authorities as PEM, the newest first."""
        return b"".join((self.authority.certificate, *self.trusted))

    @property
    def signed_by_newest(self) -> bool:
        """Whether the newest authority has signed what is served."""
        return has_signed(self.authority, self.serving)

    def to_secret(self) -> dict[str, bytes]:
        """The data of the Secret."""
        return {
            AUTHORITIES: self.bundle,
            SIGNER: self.authority.key,
            CERTIFICATE: self.serving.certificate,
            KEY: self.serving.key,
        }

    @classmethod
    def from_secret(cls, data: Mapping[str, bytes]) -> "Keyring":
        """The keyring in the data of a Secret.

        Raises:
            ValueError: it holds none. The message names no key.
        """
        try:
            newest, *older = pems(data[AUTHORITIES])
            authority = Identity.from_pem(newest + data[SIGNER])
            serving = Identity.from_pem(data[CERTIFICATE] + data[KEY])
        except KeyError as missing:
            raise ValueError(f"it has no {missing.args[0]}") from None
        except (ValueError, TypeError):
            raise ValueError("a certificate in it cannot be read, or its key is not there") from None
        return cls(authority, serving, tuple(older))


@dataclass(frozen=True, slots=True)
class Seen:
    """What a decision reads.

    ``held``     the keyring of the Secret; None when there is none, or none that can be used
    ``bundles``  the authorities in each entry of the configurations, as PEM; empty before they are written
    ``names``    the names that the certificate must have
    """

    held: Keyring | None
    bundles: Collection[bytes]
    names: Collection[str]


@dataclass(frozen=True, slots=True)
class Plan:
    """One step with its reason, and when to look again at the latest; None: at the usual pace."""

    step: Step
    reason: str
    again: datetime | None = None


def decide(seen: Seen, now: datetime, lifetimes: Lifetimes) -> Plan:
    """The next step. Steps that are due at once come one after the other."""
    held = seen.held
    if held is None:
        return Plan(Step.BEGIN, "there are no keys yet")
    if held.authority.expires <= now:
        return Plan(Step.BEGIN, f"the authority expired on {rfc3339(held.authority.expires)}")
    if why := _unusable(held, seen.names, now):
        return Plan(Step.SERVE, why)
    if _due_from(held.authority) <= now:
        return Plan(Step.ANNOUNCE, f"the authority expires on {rfc3339(held.authority.expires)}")
    return _renewal(held, seen.bundles, now, lifetimes)


def keyring_after(plan: Plan, seen: Seen, now: datetime, lifetimes: Lifetimes) -> Keyring:
    """The keyring after a step."""
    held = seen.held
    if held is None or plan.step is Step.BEGIN:
        old = [each for each in _known(seen) if validity(each)[1] > now]
        return _with_new_certificate(_authority(now, lifetimes), tuple(old), seen.names, now, lifetimes)
    match plan.step:
        case Step.ANNOUNCE:
            older = (held.authority.certificate, *held.trusted)
            return Keyring(_authority(now, lifetimes), held.serving, older)
        case Step.SERVE:
            return _with_new_certificate(held.authority, held.trusted, _names(seen, held), now, lifetimes)
        case Step.RETIRE:
            return Keyring(held.authority, held.serving)
    return held


def _renewal(held: Keyring, bundles: Collection[bytes], now: datetime, lifetimes: Lifetimes) -> Plan:
    """The next step of a keyring that API servers accept."""
    newest = held.authority.certificate
    settled = _issued(held.authority) + lifetimes.settling
    known = bool(bundles) and all(newest in bundle for bundle in bundles)
    if not held.signed_by_newest:
        if known and settled <= now:
            return Plan(Step.SERVE, "the new authority is known to the API servers")
        # Once it is settled only the configurations can lack it: that is no matter of time.
        again = settled if now < settled else None
        return Plan(Step.KEEP, "the new authority is being announced", again)
    due = _due_from(held.serving)
    if due <= now:
        return Plan(Step.SERVE, f"the certificate expires on {rfc3339(held.serving.expires)}")
    retired = _issued(held.serving) + lifetimes.overlap
    if held.trusted and retired <= now:
        return Plan(Step.RETIRE, "no replica serves any more what the old authority signed")
    nexts = [due, _due_from(held.authority), *([retired] if held.trusted else ())]
    return Plan(Step.KEEP, "all keys are good", min(nexts))


def _unusable(held: Keyring, names: Collection[str], now: datetime) -> str:
    """Why no API server would accept what is served, as a sentence; empty when it is good."""
    if held.serving.expires <= now:
        return f"the certificate expired on {rfc3339(held.serving.expires)}"
    if lacking := sorted(set(names) - held.serving.names()):
        return f"the certificate is not for {', '.join(lacking)}"
    if not any(has_signed(each, held.serving) for each in (held.authority.certificate, *held.trusted)):
        return "no trusted authority has signed the certificate"
    return ""


def _names(seen: Seen, held: Keyring) -> frozenset[str]:
    """The names for a new certificate. While names change, replicas with the old ones go on for a while."""
    wanted, had = frozenset(seen.names), held.serving.names()
    return wanted if wanted <= had else wanted | had


def _known(seen: Seen) -> list[bytes]:
    """All authorities that a replica or an API server may still work with, each once."""
    bundles = [*([seen.held.bundle] if seen.held else ()), *seen.bundles]
    return list(dict.fromkeys(each for bundle in bundles for each in _readable(bundle)))


def _readable(bundle: bytes) -> list[bytes]:
    try:
        return pems(bundle)
    except ValueError:
        return []


def _authority(now: datetime, lifetimes: Lifetimes) -> Identity:
    return new_authority(ISSUER, now, lifetimes.authority)


def _with_new_certificate(
    authority: Identity,
    trusted: tuple[bytes, ...],
    names: Collection[str],
    now: datetime,
    lifetimes: Lifetimes,
) -> Keyring:
    serving = new_server(authority, sorted(names), now, lifetimes.serving, common_name=COMMON_NAME)
    return Keyring(authority, serving, trusted)


def _issued(identity: Identity) -> datetime:
    return validity(identity.certificate)[0] + BACKDATED


def _due_from(identity: Identity) -> datetime:
    """When two thirds of its life are over."""
    return RENEWAL.due(*validity(identity.certificate))
