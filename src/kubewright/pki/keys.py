"""Private keys, and what every certificate begins with.

Invariants.  Nothing here keeps a file or asks for the time. A certificate is valid from an hour before it was
             made, for clocks that differ. A private key is in no ``repr`` and no message.
Called by    ``certificates``, ``clusters``.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.utils import CryptographyDeprecationWarning

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
KEYS = (ec.EllipticCurvePrivateKey, rsa.RSAPrivateKey)
"""The same, for ``isinstance``."""
PublicKey = CertificatePublicKeyTypes
UNREADABLE = (
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
    UnsupportedAlgorithm,
)
"""What the library raises of certificates that it cannot read, beside ``ValueError``; none of them is one."""

BACKDATED = timedelta(hours=1)


class Algorithm(StrEnum):
    """How keys are made: an RSA key takes a tenth of a second, the other well under a millisecond."""

    RSA = "RSA-2048"
    EC = "ECDSA-P256"


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate or public key, and its private key, which may be empty; PEM."""

    certificate: bytes
    key: bytes = field(default=b"", repr=False)


def new_key(algorithm: Algorithm) -> PrivateKey:
    """A new private key."""
    if algorithm is Algorithm.RSA:
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return ec.generate_private_key(ec.SECP256R1())


def read_private_key(pem: bytes) -> PrivateKey:
    """The private key in a PEM, in which certificates may stand too.

    The primes of an RSA key are not tested: that takes as long as making one, at every look at an
    authority. Whether a key is the one of a certificate, the caller compares.

    Raises:
        ValueError: there is none, or one of another algorithm.
    """
    try:
        key = serialization.load_pem_private_key(pem, password=None, unsafe_skip_rsa_key_validation=True)
    except (TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(str(error)) from None
    if not isinstance(key, KEYS):
        raise ValueError("the key is neither RSA nor of an elliptic curve")
    return key


def openssl_pem(key: PrivateKey) -> bytes:
    """As OpenSSL names a key by its algorithm: what upstream writes, and all of its readers take."""
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def read_certificates(pem: bytes) -> list[x509.Certificate]:
    """The certificates in a PEM, at least one.

    Authorities that Cluster API made have the serial number 0, of which the library warns.

    Raises:
        ValueError: there is none, or one that cannot be read.
    """
    with warnings.catch_warnings(), value_errors():
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)
        return x509.load_pem_x509_certificates(pem)


def public_key_of(certificate: x509.Certificate) -> PublicKey:
    """The public key of a certificate.

    Raises:
        ValueError: it is of an algorithm or a curve that the library does not know.
    """
    with value_errors():
        return certificate.public_key()


@contextmanager
def value_errors() -> Iterator[None]:
    """Raise a ``ValueError`` for whatever cannot be read inside: what users bring may be anything."""
    try:
        yield
    except UNREADABLE as error:
        raise ValueError(str(error)) from None


def pems(bundle: bytes) -> list[bytes]:
    """The PEM of each certificate in a bundle, at least one, in one form.

    Raises:
        ValueError: as ``read_certificates``.
    """
    form = serialization.Encoding.PEM
    return [each.public_bytes(form) for each in read_certificates(bundle)]


def certificate_builder(
    subject: x509.Name, issuer: x509.Name, key: PrivateKey, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    """The builder of a certificate for this key: names, serial number and validity, and no extensions yet."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(until)
    )
