"""Keys, certificates, kubeconfigs: what is wanted, what is held, why one is not good for the other. Pure.

Theory.      Names, subjects and uses are those of Cluster API, kubeadm and k0smotron, so that their tools
             find what they expect: each is in a Secret ``<cluster>-<purpose>`` with the type and the label of
             Cluster API's contract. What we made has to say exactly what is wanted; what a user made has to
             be good for it, and may be good for more. A certificate that ends together with its authority is
             not renewed, because a new one would live no longer.
Invariants.  Every answer about a certificate is the end of a sentence that begins with its Secret, every one
             about a kubeconfig is a clause. Equal values give equal words, and no answer or ``repr`` contains
             a part of a key.
Called by    ``keyring`` and ``rotation``, which decide; what reads Secrets, and what says which there should
             be.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from ipaddress import ip_address

from cryptography.hazmat.primitives import serialization

from kubewright.base.clock import rfc3339
from kubewright.pki import keys
from kubewright.pki.facts import Facts, facts_of, is_signed_by
from kubewright.pki.keys import (
    BACKDATED,
    pems,
    public_key_of,
    read_certificates,
    read_private_key,
    value_errors,
)
from kubewright.wire.http import User

CERTIFICATE_KEY, PRIVATE_KEY = "tls.crt", "tls.key"
"""The entries of a Secret with a pair."""
KUBECONFIG_KEY = "value"
"""The entry of a Secret with a kubeconfig."""
ADMIN = User("kubernetes-admin", ("system:masters",))
LIFETIME = timedelta(days=365)
"""Of what an authority of a cluster signs."""
NO_KEY = "has no tls.key"
NOT_READABLE = "the kubeconfig cannot be read"
OTHER_AUTHORITY = "the cluster has another certificate authority now"
HALF_OVER = "half of the kubeconfig's life is over"

_CERTIFICATE = re.compile(b"-----BEGIN CERTIFICATE-----")

# ---------------------------------------------------------------- what is wanted


class Purpose(StrEnum):
    """What a pair of a cluster is for; the value ends the name of its Secret."""

    CA = "ca"
    ETCD = "etcd"
    FRONT_PROXY = "proxy"
    SERVICE_ACCOUNT = "sa"
    ETCD_CLIENT = "apiserver-etcd-client"


def secret_name(cluster: str, purpose: Purpose) -> str:
    """The Secret of a pair, in the namespace of the Cluster."""
    return f"{cluster}-{purpose.value}"


def data_of(certificate: bytes, key: bytes) -> dict[str, bytes]:
    """What the Secret of a pair holds."""
    return {CERTIFICATE_KEY: certificate, PRIVATE_KEY: key}


@dataclass(frozen=True, slots=True)
class Renewal:
    """When one of ours is replaced although it is good still.

    ``parts``    when one of so many parts of its life is left
    ``margin``   or when so much time is left
    ``backdated``  whether the hour counts that lies before it was made
    ``with_authority``  whether one that ends together with its authority stays until then
    """

    parts: int = 1
    margin: timedelta | None = None
    backdated: bool = True
    with_authority: bool = True

    def due(self, since: datetime, until: datetime, authority: datetime | None = None) -> datetime:
        """When what is valid between two moments is replaced. ``authority``: until when that is valid."""
        if self.with_authority and authority is not None and until >= authority:
            return until
        if self.margin is not None:
            return until - self.margin
        return until - (until - since - (timedelta() if self.backdated else BACKDATED)) / self.parts


THIRD = Renewal(3)
HALF = Renewal(2)
TENTH = Renewal(10, with_authority=False)


@dataclass(frozen=True, slots=True)
class Authority:
    """A self-signed authority: Secret ``<cluster>-ca``, ``-etcd`` or ``-proxy``.

    ``external_without_key``  whether the Secret may lack the key, because another program signs
    """

    secret: str
    common_name: str
    external_without_key: bool = False


@dataclass(frozen=True, slots=True)
class TokenKeys:
    """The keys that sign the tokens of service accounts: Secret ``<cluster>-sa``."""

    secret: str


@dataclass(frozen=True, slots=True)
class Signer:
    """A copy of the certificate of an authority that signs, and of its key.

    kube-controller-manager accepts only a file with one certificate to sign with, and ``tls.crt`` of an
    authority that is being replaced has two.
    """

    secret: str
    authority: str


@dataclass(frozen=True, slots=True)
class Leaf:
    """A certificate that one of the authorities signs.

    ``authority``  the name of the Secret of the authority
    ``names``      host names and addresses of a server; empty for a client
    ``client``     whether a client may present it too, as a member of etcd does
    """

    secret: str
    authority: str
    subject: User
    names: frozenset[str] = frozenset()
    client: bool = True


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """A kubeconfig with a client certificate in it: Secret ``<cluster>-kubeconfig``, key ``value``.

    ``server``  URL of the API server
    ``user``    the name and groups of the certificate
    ``entry``   the name of the user's entry, such as ``demo-admin``
    ``lifetime``  of the certificate
    ``strict``  whether its user, who signed it, and the ends of its life and of its authority's are compared
                as well; False: as Cluster API does, only where it leads, and whether half of its life is left
    """

    secret: str
    authority: str
    server: str
    user: User
    cluster: str
    entry: str
    lifetime: timedelta = LIFETIME
    strict: bool = True


Signed = Leaf | Kubeconfig | Signer
"""What is made with the key of an authority."""
Wanted = Authority | TokenKeys | Signed


def secrets_of(wanted: Iterable[Wanted]) -> tuple[str, ...]:
    """The names of the Secrets that a decision about these reads, each once."""
    names: dict[str, None] = {}
    for each in wanted:
        if isinstance(each, Signed):
            names[each.authority] = None
        names[each.secret] = None
    return tuple(names)


def canonical(names: Iterable[str]) -> frozenset[str]:
    """Host names in lower case, and addresses in the form that certificates have them in."""
    return frozenset(map(_canonical, names))


def _canonical(name: str) -> str:
    try:
        return str(ip_address(name))
    except ValueError:
        return name.lower()


# ---------------------------------------------------------------- what is held


@dataclass(frozen=True, slots=True)
class Login:
    """What a kubeconfig says.

    ``server``     URL; empty if it cannot be read
    ``authority``  the certificate that it trusts (PEM)
    ``not_before``, ``not_after``  of the client's certificate; None if there is none
    ``certificate``  of the client (PEM)
    """

    server: str = ""
    authority: bytes = b""
    not_before: datetime | None = None
    not_after: datetime | None = None
    certificate: bytes = b""


@dataclass(frozen=True, slots=True)
class Held:
    """What a Secret holds.

    ``contents``    its data
    ``pair``        the certificate or public key, and the private key; empty where there is none
    ``problem``     why the pair can never be used (``problem_of``), as the end of a sentence about the Secret
    ``facts``       what the certificate says; None: there is no certificate
    ``kubeconfig``  what the kubeconfig says; None: there is none
    """

    contents: Mapping[str, bytes] = field(repr=False)
    pair: keys.KeyPair
    problem: str = ""
    facts: Facts | None = None
    kubeconfig: Login | None = None


# ---------------------------------------------------------------- pairs: why one is unfit or outdated


def problem_of(pair: keys.KeyPair, now: datetime | None = None, *, signs: bool = False) -> str:
    """Why a pair is of no use, as the end of a sentence about it; empty if it is good.

    ``now``    None: what will change with time alone does not count
    ``signs``  it is an authority, which signs other certificates
    """
    try:
        public = _public_key(pair.certificate)
        facts = facts_of(pair.certificate) if _CERTIFICATE.search(pair.certificate) else None
    except ValueError:
        return "has a tls.crt that is neither a certificate nor a public key in PEM"
    if signs and facts is None:
        return "has no certificate in its tls.crt"
    if signs and facts is not None and facts.no_authority:
        return facts.no_authority
    if (
        facts is not None
        and now is not None
        and (dated := out_of_date(facts.not_before, facts.not_after, now))
    ):
        return dated
    if not pair.key:
        return ""
    try:
        key = read_private_key(pair.key)
    except ValueError:
        return "has a tls.key that is no private key in PEM, of RSA or an elliptic curve"
    return "" if key.public_key() == public else "has a tls.key that does not belong to its tls.crt"


def out_of_date(not_before: datetime, not_after: datetime, now: datetime) -> str:
    """Why a certificate with this validity is not valid, as the end of a sentence; empty if it is."""
    if not_after <= now:
        return f"has a certificate that expired on {rfc3339(not_after)}"
    if now < not_before:
        return f"has a certificate that is valid only from {rfc3339(not_before)}"
    return ""


def authority_is_unfit(held: Held, now: datetime, *, signs: bool) -> str:
    """Why an authority cannot be used, or cannot sign where it has to; empty: it can."""
    if unfit := held.problem or _expired(held, now):
        return unfit
    if held.facts is None:
        return "has no certificate in its tls.crt"
    if not signs:
        return ""
    return held.facts.no_authority or ("" if held.pair.key else NO_KEY)


def keys_are_unfit(held: Held) -> str:
    """Why a pair of keys cannot be used; empty: it can."""
    return held.problem or ("" if held.pair.key else NO_KEY)


def signer_is_outdated(held: Held, wanted: Signer, authority: Held | None) -> str:
    """Why a ``Signer`` is renewed; empty: it is good. ``authority`` None: a new one is being made."""
    if authority is None:
        return f"is a copy of another authority than Secret {wanted.authority}"
    same = held.pair.certificate == _signs(authority.pair.certificate)
    if not same or held.pair.key != authority.pair.key:
        return f"is not a copy of what signs in Secret {wanted.authority}"
    return ""


def leaf_is_outdated(held: Held, wanted: Leaf, authority: Held | None, now: datetime) -> str:
    """Why a leaf of ours is renewed; empty: it is good. ``authority`` None: a new one is being made."""
    if unfit := _unusable(held):
        return unfit
    facts = held.facts
    assert facts is not None, "what has no certificate is unusable"
    if authority is None or not _signed(held, authority):
        return f"was signed by another authority than Secret {wanted.authority}"
    if not _same_user(facts.user, wanted.subject):
        return f"is for {facts.user.name or 'no name'}, not for {wanted.subject.name}"
    if other := _other_names(facts.names, canonical(wanted.names)) or _other_uses(facts, wanted):
        return other
    if now < facts.not_before:
        return f"is valid only from {rfc3339(facts.not_before)}"
    if leaf_due(facts, authority) <= now:
        return f"is valid only until {rfc3339(facts.not_after)}"
    return ""


def leaf_due(leaf: Facts, authority: Held | None) -> datetime:
    """When a leaf of ours is renewed, if nothing changes."""
    return THIRD.due(leaf.not_before, leaf.not_after, _ends(authority))


def leaf_is_unfit(held: Held, wanted: Leaf, authority: Held | None, now: datetime) -> str:
    """Why a user's leaf cannot be used; empty: it can."""
    if unfit := _unusable(held) or _expired(held, now):
        return unfit
    facts = held.facts
    assert facts is not None, "what has no certificate is unusable"
    if authority is not None and not _signed_by_any(held, authority):
        return f"was signed by another authority than Secret {wanted.authority}"
    if lacking := canonical(wanted.names) - facts.names:
        return f"is not good for {_listed(lacking)}"
    if wanted.names and not facts.server:
        return "is not good for a server"
    return "is not good for a client" if wanted.client and not facts.client else ""


# ---------------------------------------------------------------- kubeconfigs: the same


def kubeconfig_is_outdated(held: Held, wanted: Kubeconfig, authority: Held | None, now: datetime) -> str:
    """Why a kubeconfig of ours is renewed, a clause; empty: it is good.

    ``authority`` None: a new one is being made.
    """
    login = held.kubeconfig
    if login is None:
        return f"Secret {wanted.secret} has no kubeconfig"
    if authority is None:
        return OTHER_AUTHORITY
    if differs := mismatch(login, wanted.server, authority.pair.certificate):
        return differs
    if wanted.strict and (differs := _is_for_another(login, wanted, authority, now)):
        return differs
    due = kubeconfig_due(login, wanted, authority)
    return HALF_OVER if due is not None and due <= now else ""


def _is_for_another(login: Login, wanted: Kubeconfig, authority: Held, now: datetime) -> str:
    try:
        client = facts_of(login.certificate)
    except ValueError:
        return NOT_READABLE
    if not _same_user(client.user, wanted.user):
        return f"the kubeconfig is for {client.user.name or 'no name'}, not for {wanted.user.name}"
    if authority.facts is not None and not is_signed_by(login.certificate, authority.pair.certificate):
        return f"the kubeconfig's certificate was signed by another authority than Secret {wanted.authority}"
    if now < client.not_before:
        return f"the kubeconfig is valid only from {rfc3339(client.not_before)}"
    if wanted.lifetime < LIFETIME and login.not_after is not None and login.not_after > now + wanted.lifetime:
        return f"the kubeconfig is valid until {rfc3339(login.not_after)}, longer than it should be"
    return ""


def kubeconfig_is_unfit(held: Held, wanted: Kubeconfig, authority: Held | None, now: datetime) -> str:
    """Why a user's kubeconfig cannot be used, a clause; empty: it can."""
    login = held.kubeconfig
    if login is None:
        return f"Secret {wanted.secret} has no kubeconfig"
    signs = _signs(authority.pair.certificate) if authority is not None else b""
    trusted = login.authority if authority is None or _trusts(login, signs) else authority.pair.certificate
    if differs := mismatch(login, wanted.server, trusted):
        return differs
    if login.not_after is None or now < login.not_after:
        return ""
    return f"the kubeconfig expired on {rfc3339(login.not_after)}"


def kubeconfig_due(login: Login, wanted: Kubeconfig, authority: Held | None) -> datetime | None:
    """When a kubeconfig of ours is renewed; None: it cannot be read.

    A certificate is backdated by an hour, so half of a short life is counted back from its end.
    """
    if login.not_before is None or login.not_after is None:
        return None
    renewal = HALF if wanted.lifetime >= LIFETIME else Renewal(margin=wanted.lifetime / 2)
    ends = _ends(authority) if wanted.strict else None
    return renewal.due(login.not_before, login.not_after, ends)


def mismatch(login: Login, server: str, authority: bytes) -> str:
    """Why a kubeconfig does not lead to this server; empty if it does.

    ``server``     URL of the API server
    ``authority``  the certificates that it is to trust (PEM)
    """
    if login.not_before is None or login.not_after is None:
        return NOT_READABLE
    return leads_elsewhere(login.server, login.authority, server, authority)


def leads_elsewhere(server: str, trusted: bytes, wanted: str, authority: bytes) -> str:
    """Why a kubeconfig with this server and authority is not for the wanted ones; empty if it is."""
    if server != wanted:
        return f"the API server is at {wanted.removeprefix('https://')} now"
    return OTHER_AUTHORITY if trusted.strip() != authority.strip() else ""


def trusts_another(held: Held, authority: Held) -> bool:
    """Whether a kubeconfig that can be read trusts another authority than this one."""
    login = held.kubeconfig
    if login is None or login.not_before is None:
        return False
    return login.authority.strip() != authority.pair.certificate.strip()


# ---------------------------------------------------------------- parts of these


def _ends(authority: Held | None) -> datetime | None:
    """Until when an authority is valid; None: there is none."""
    return authority.facts.not_after if authority is not None and authority.facts is not None else None


def _public_key(pem: bytes) -> object:
    if _CERTIFICATE.search(pem):
        return public_key_of(read_certificates(pem)[0])
    with value_errors():
        return serialization.load_pem_public_key(pem)


def _unusable(held: Held) -> str:
    if held.problem:
        return held.problem
    if not held.pair.key:
        return NO_KEY
    return "has no certificate in its tls.crt" if held.facts is None else ""


def _expired(held: Held, now: datetime) -> str:
    return out_of_date(held.facts.not_before, held.facts.not_after, now) if held.facts is not None else ""


def _signed(held: Held, authority: Held) -> bool:
    return authority.facts is not None and is_signed_by(held.pair.certificate, authority.pair.certificate)


def _signed_by_any(held: Held, authority: Held) -> bool:
    """Whether a certificate in ``tls.crt`` of the authority signed it; during a rotation there are two."""
    if authority.facts is None:
        return False
    return any(is_signed_by(held.pair.certificate, each) for each in pems(authority.pair.certificate))


def _signs(bundle: bytes) -> bytes:
    """The certificate of an authority that signs: the first one; empty if there is none."""
    try:
        return pems(bundle)[0]
    except ValueError:
        return b""


def _trusts(login: Login, certificate: bytes) -> bool:
    try:
        return bool(certificate) and certificate in pems(login.authority)
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
