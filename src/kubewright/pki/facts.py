"""What a certificate says, who signed it, and which names one can have. Pure.

Theory.      In a client certificate of Kubernetes the common name is the user, the organizations are the
             groups. A certificate that lists no uses is good for both sides of a handshake.
Invariants.  Nothing here reads a private key. Every moment is in UTC.
Called by    ``certificates``, and what decides whether a certificate is made anew.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubewright.pki.keys import pems, public_key_of, read_certificates, value_errors
from kubewright.wire.http import User

LONGEST_CHAIN = 10
"""Certificates of a chain that are looked at; OpenSSL and Go have bounds, too."""
TOLD_CHARS = 100
"""Characters of a host name in a message."""

E = TypeVar("E", bound=x509.ExtensionType)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a certificate says.

    ``user``    its common name and organizations; the name is empty when it has none
    ``names``   host names and addresses of a server
    ``server``, ``client``  what handshakes it is good for
    ``no_authority``  why it may not sign others, as the end of a sentence; empty if it may
    """

    user: User
    names: frozenset[str]
    server: bool
    client: bool
    not_before: datetime
    not_after: datetime
    no_authority: str = ""


def facts_of(pem: bytes) -> Facts:
    """What the first certificate of a PEM says.

    Raises:
        ValueError: there is none, or one that cannot be read.
    """
    certificate = read_certificates(pem)[0]
    uses = extension_of(certificate, x509.ExtendedKeyUsage)
    named = extension_of(certificate, x509.SubjectAlternativeName)
    hosts = [] if named is None else named.get_values_for_type(x509.DNSName)
    addresses = [] if named is None else named.get_values_for_type(x509.IPAddress)
    common = texts_of(certificate, NameOID.COMMON_NAME)
    groups = tuple(texts_of(certificate, NameOID.ORGANIZATION_NAME))
    return Facts(
        user=User(common[-1] if common else "", groups),
        names=frozenset([*hosts, *map(str, addresses)]),
        server=uses is None or ExtendedKeyUsageOID.SERVER_AUTH in uses,
        client=uses is None or ExtendedKeyUsageOID.CLIENT_AUTH in uses,
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
        no_authority=_no_authority(certificate),
    )


def unfit_name(names: Iterable[str]) -> str:
    """Why a certificate cannot be for all of these host names, a clause; empty: it can."""
    bad = next((each for each in names if not each.isascii()), "")
    if not bad:
        return ""
    return f"a certificate cannot carry the host name {bad[:TOLD_CHARS]!r}: write it as DNS has it (xn--...)"


def _no_authority(certificate: x509.Certificate) -> str:
    """What kubeadm and Go go by before they believe a signature; an authority of X.509 version 1 is none."""
    basic = extension_of(certificate, x509.BasicConstraints)
    if basic is None or not basic.ca:
        return "has a certificate that is no authority: its basic constraints do not say CA:TRUE"
    usage = extension_of(certificate, x509.KeyUsage)
    if usage is not None and not usage.key_cert_sign:
        return "has a certificate that may sign no others: its key usage lacks certSign"
    return ""


def public_key_hashes(pem: bytes) -> tuple[str, ...]:
    """``sha256:<hex>`` of the public key of each certificate, as ``kubeadm join`` compares them.

    Raises:
        ValueError: there is no certificate, or one that cannot be read.
    """
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    keys = [public_key_of(each) for each in read_certificates(pem)]
    digests = [sha256(key.public_bytes(serialization.Encoding.DER, form)) for key in keys]
    return tuple(f"sha256:{digest.hexdigest()}" for digest in digests)


def is_signed_by(certificate: bytes, authority: bytes) -> bool:
    """Whether the authority with this certificate has signed the other one; PEM."""
    issuer = read_certificates(authority)[0]
    try:
        read_certificates(certificate)[0].verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def is_trusted(chain: bytes, anchors: bytes) -> bool:
    """Whether an anchor is, or has signed, the first certificate of a chain or an issuer that the chain has.

    Both are PEM; times do not count.
    """
    own, *known = pems(chain)[:LONGEST_CHAIN]
    trusted = pems(anchors)
    while own not in trusted and not any(is_signed_by(own, each) for each in trusted):
        issuer = next((each for each in known if is_signed_by(own, each)), None)
        if issuer is None:
            return False
        known.remove(issuer)
        own = issuer
    return True


def validity(pem: bytes) -> tuple[datetime, datetime]:
    """From when and until when a certificate is valid.

    Raises:
        ValueError: it is none.
    """
    certificate = read_certificates(pem)[0]
    return certificate.not_valid_before_utc, certificate.not_valid_after_utc


def read_user(der: bytes) -> tuple[User | None, datetime]:
    """The user whom a client certificate names, and until when; None when it has no common name.

    Raises:
        ValueError: it cannot be read.
    """
    with value_errors():
        certificate = x509.load_der_x509_certificate(der)
    names = texts_of(certificate, NameOID.COMMON_NAME)
    groups = tuple(texts_of(certificate, NameOID.ORGANIZATION_NAME))
    user = User(names[-1], groups) if names and names[-1] else None
    return user, certificate.not_valid_after_utc


def extension_of(certificate: x509.Certificate, kind: type[E]) -> E | None:
    """The extension of this type; None if the certificate has none.

    Raises:
        ValueError: one of its extensions cannot be read, or is there twice.
    """
    try:
        with value_errors():
            return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def issued_by(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    """The issuer by the identifier that it has, which strict clients compare; else by its key."""
    identifier = extension_of(issuer, x509.SubjectKeyIdentifier)
    if identifier is not None:
        return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
    key = public_key_of(issuer)
    if not isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey):
        raise ValueError("the authority's key is neither RSA nor of an elliptic curve")
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key)


def texts_of(
    holder: x509.Certificate | x509.CertificateSigningRequest, oid: x509.ObjectIdentifier
) -> list[str]:
    """The texts of one sort in a subject, in their order.

    Raises:
        ValueError: the subject cannot be read.
    """
    try:
        with value_errors():
            return [str(attribute.value) for attribute in holder.subject.get_attributes_for_oid(oid)]
    except TypeError as error:  # the library's word for bits where a text should be
        raise ValueError(str(error)) from None
