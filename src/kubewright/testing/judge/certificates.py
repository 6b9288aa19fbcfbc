"""A certificate authority for one judge: made in memory, trusted by nobody else, gone with it.

Theory.      kube-apiserver takes the common name of a client certificate as the user and its
             organizations as the groups; a member of ``system:masters`` may do everything.
             Elliptic keys, because they are made in a millisecond.
Called by    ``cluster``.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(days=7)
"""Longer than any test; short enough that a forgotten folder is worthless."""

BACKDATED = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs servers and clients. ``now`` is wall time: certificates are checked against it."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("kubewright-judge", ())
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        builder = self._builder(self._name, self._key.public_key()).add_extension(constraints, critical=True)
        self._certificate = builder.sign(self._key, hashes.SHA256())
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM)

    def server(self, *names: str) -> Identity:
        """An identity for a server reached as ``localhost``, 127.0.0.1 and ``names``."""
        known: list[x509.GeneralName] = [x509.DNSName(name) for name in ("localhost", *names)]
        alternatives = x509.SubjectAlternativeName([*known, x509.IPAddress(ip_address("127.0.0.1"))])
        return self._sign(_name("kube-apiserver", ()), ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def client(self, user: str, *groups: str) -> Identity:
        """An identity for a person or program called ``user``."""
        return self._sign(_name(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH)

    def _sign(
        self, subject: x509.Name, usage: x509.ObjectIdentifier, *more: x509.SubjectAlternativeName
    ) -> Identity:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(subject, key.public_key())
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        for extension in more:
            builder = builder.add_extension(extension, critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        return Identity(signed.public_bytes(serialization.Encoding.PEM), private_pem(key))

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - BACKDATED)
            .not_valid_after(self._now + LIFETIME)
        )


def service_account_key() -> bytes:
    """A private key, PEM, with which an API server signs its service accounts' tokens."""
    return private_pem(ec.generate_private_key(ec.SECP256R1()))


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The traditional form: kube-apiserver reads no other for its service accounts."""
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _name(common: str, organizations: tuple[str, ...]) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common)])
