"""Issues and parses certificates: an authority of our own, and the certificates that one signs.

Theory.      In a client certificate of Kubernetes the common name is the user, the organizations
             are the groups. Keys are on the curve P-256, because those are generated in well under a
             millisecond and every client supports them. An authority that others made may have an RSA key.
Invariants.  Nothing here keeps a file or asks for the time: ``now`` is an argument. Every moment
             is in UTC; a certificate is valid from an hour before it was made, for clocks that differ.
Called by    the embedded server (``apiserver.http``), and what signs with a cluster's authority.
"""

import ssl
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubewright.base.errors import InvalidInput
from kubewright.pki.facts import facts_of, is_signed_by, issued_by, unfit_name
from kubewright.pki.keys import (
    Algorithm,
    PrivateKey,
    certificate_builder,
    new_key,
    public_key_of,
    read_certificates,
    read_private_key,
)
from kubewright.wire.http import User

LONGEST_NAME = 64
"""X.520 allows no longer common name or organization."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate, with those of its issuers where they are to be sent, and its private key; all PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "Identity(...)"  # a key must not get into a log by way of a dataclass

    @property
    def pem(self) -> bytes:
        """Both in one file, the certificate first, as TLS libraries take them."""
        return self.certificate + self.key

    @property
    def expires(self) -> datetime:
        """Until when the certificate is valid."""
        return read_certificates(self.certificate)[0].not_valid_after_utc

    def names(self) -> frozenset[str]:
        """The host names and addresses that the certificate is for."""
        return facts_of(self.certificate).names

    def load_into(self, context: ssl.SSLContext) -> None:
        """Present it in handshakes of ``context``; OpenSSL reads only files, so it is written to one."""
        with tempfile.NamedTemporaryFile(prefix="kubewright-") as file:
            file.write(self.pem)
            file.flush()
            context.load_cert_chain(file.name)

    @classmethod
    def from_pem(cls, pem: bytes) -> "Identity":
        """Parse the PEM of a certificate and its key. What follows the certificate of its issuers is kept.

        Raises:
            ValueError: it is not a certificate with the key that belongs to it.
        """
        own, *chain = read_certificates(pem)
        key = read_private_key(pem)
        if key.public_key() != public_key_of(own):
            raise ValueError("the key is not the certificate's")
        form = serialization.Encoding.PEM
        return cls(b"".join(each.public_bytes(form) for each in (own, *chain)), _pem(key))


def new_authority(name: str, now: datetime, lifetime: timedelta) -> Identity:
    """A self-signed authority of a server of ours; it may sign clients and servers but no other authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        certificate_builder(subject, subject, key, now, now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _signed(builder, key, key)


def new_server(
    authority: Identity,
    names: Iterable[str],
    now: datetime,
    lifetime: timedelta,
    *,
    common_name: str = "kube-apiserver",
) -> Identity:
    """An identity for a server that is reached under ``names``: host names and addresses.

    Raises:
        InvalidInput: one of ``names`` is not ASCII.
    """
    return _issued(authority, User(common_name, ()), now, lifetime, names=tuple(names), client=False)


def new_client(authority: Identity, user: User, now: datetime, lifetime: timedelta) -> Identity:
    """An identity for a user, with the name and groups in it.

    Raises:
        InvalidInput: a name is empty or too long for a certificate.
    """
    return new_leaf(authority, user, now, lifetime)


def new_leaf(
    authority: Identity,
    user: User,
    now: datetime,
    lifetime: timedelta,
    *,
    names: Iterable[str] = (),
    client: bool = True,
) -> Identity:
    """An identity for a server, if there are ``names`` to reach it by, and for a client, if it is to be one.

    Raises:
        InvalidInput: a name of the user is empty or too long for a certificate, or one of ``names`` is not
            ASCII.
        ValueError: the authority cannot sign.
    """
    for name in (user.name, *user.groups):
        if not 0 < len(name) <= LONGEST_NAME:
            raise InvalidInput(f"a certificate cannot carry the name {name!r}: it takes 1 to 64 characters")
    return _issued(authority, user, now, lifetime, names=tuple(names), client=client)


def new_request(user: User) -> tuple[bytes, bytes]:
    """A request for a certificate of this user, as others sign it, and its key; both PEM."""
    key = new_key(Algorithm.EC)
    built = x509.CertificateSigningRequestBuilder().subject_name(_subject(user))
    signed = built.sign(key, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM), _pem(key)


def has_signed(authority: Identity | bytes, identity: Identity) -> bool:
    """Whether ``authority``, or the one with this certificate (PEM), has signed ``identity``."""
    issuer = authority if isinstance(authority, bytes) else authority.certificate
    return is_signed_by(identity.certificate, issuer)


def _issued(
    authority: Identity,
    user: User,
    now: datetime,
    lifetime: timedelta,
    *,
    names: Sequence[str],
    client: bool,
) -> Identity:
    """Signed by ``authority``: for a server when it has ``names``, for a client as ``client`` says."""
    issuer = read_certificates(authority.certificate)[0]
    issuer_key = read_private_key(authority.key)
    key = new_key(Algorithm.EC)
    subject = _subject(user)
    until = min(now + lifetime, issuer.not_valid_after_utc)  # a certificate does not outlive its authority
    uses = [ExtendedKeyUsageOID.SERVER_AUTH] if names else []
    uses += [ExtendedKeyUsageOID.CLIENT_AUTH] if client else []
    builder = (
        certificate_builder(subject, issuer.subject, key, now, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(issued_by(issuer), critical=False)
    )
    if names:
        known = x509.SubjectAlternativeName([_general_name(name) for name in names])
        builder = builder.add_extension(known, critical=False)
    return _signed(builder, key, issuer_key)


def _subject(user: User) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in user.groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, user.name)])


def _signed(builder: x509.CertificateBuilder, key: PrivateKey, signer: PrivateKey) -> Identity:
    certificate = builder.sign(signer, hashes.SHA256())
    return Identity(certificate.public_bytes(serialization.Encoding.PEM), _pem(key))


def _usage(*, signs: bool) -> x509.KeyUsage:
    """An authority signs certificates and nothing else; the others sign handshakes."""
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    if told := unfit_name([name]):
        raise InvalidInput(told)
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(key: PrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
