"""Keys for tests: an authority in memory, certificates for any user, and TLS contexts for clients.

``apiserver.http.pki`` keeps its authority in a folder and gives out two identities, the server's and the
admin's. A test needs no folder and more users.
"""

import ssl
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from kubewright.apiserver.http.pki import ADMIN, LIFETIME, NAMES, Pki
from kubewright.base.clock import Clock
from kubewright.pki import tls
from kubewright.pki.certificates import Identity, new_authority, new_client, new_server
from kubewright.pki.keys import BACKDATED, Algorithm, KeyPair, certificate_builder, new_key, openssl_pem
from kubewright.wire.http import User


@dataclass(frozen=True, slots=True)
class Keys(Pki):
    """A ``Pki`` with the key of its authority, so that it can sign more."""

    signer: Identity
    clock: Clock

    def issue(self, user: str, *groups: str, lifetime: timedelta = LIFETIME) -> Identity:
        """A client certificate.

        Raises:
            InvalidInput: a name is empty or too long for a certificate.
        """
        return new_client(self.signer, User(user, groups), self.clock.now(), lifetime)

    def client_context(self, identity: Identity | None = None) -> ssl.SSLContext:
        """TLS for a client that trusts this server; with ``identity`` it shows who it is."""
        context = tls.client(self.authority)
        if identity is not None:
            identity.load_into(context)
        return context


def in_memory(clock: Clock, *names: str) -> Keys:
    """An authority that is gone with the process; the server has these names besides loopback's.

    TLS itself goes by the real time, so the clock must not be far from it.
    """
    now = clock.now()
    authority = new_authority("kubewright", now, LIFETIME)
    server = new_server(authority, (*NAMES, *names), now, LIFETIME)
    return Keys(authority.certificate, server, new_client(authority, ADMIN, now, LIFETIME), authority, clock)


def unusual_authority(
    now: datetime, *, basic: bool | None = True, signs: bool | None = True, begins: timedelta = timedelta(0)
) -> KeyPair:
    """What a user may bring as an authority. None leaves an extension out.

    ``basic``   what its basic constraints say: CA:TRUE or CA:FALSE
    ``signs``   whether its key usage has certSign
    ``begins``  from when on it is valid, after ``now``
    """
    key = new_key(Algorithm.EC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a user's")])
    since = now + begins + BACKDATED
    built = certificate_builder(name, name, key, since, since + LIFETIME)
    if basic is not None:
        built = built.add_extension(x509.BasicConstraints(ca=basic, path_length=None), critical=True)
    if signs is not None:
        others = dict.fromkeys(("content_commitment", "key_encipherment", "data_encipherment"), False)
        others |= dict.fromkeys(("key_agreement", "encipher_only", "decipher_only", "crl_sign"), False)
        usage = x509.KeyUsage(digital_signature=True, key_cert_sign=signs, **others)
        built = built.add_extension(usage, critical=True)
    certificate = built.sign(key, hashes.SHA256())
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), openssl_pem(key))


class Odd(StrEnum):
    """What may be in a user's certificate that no builder makes."""

    VERSION = "a version of X.509 that there is not"
    TWICE = "an extension that is there twice"
    CURVE = "a key of a curve that the library does not know"


def odd(pem: bytes, how: Odd) -> bytes:
    """A certificate, of an EC key of ours, with something odd in it; its signature is not valid any more."""
    was, now = {
        Odd.VERSION: (b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x09"),
        Odd.TWICE: (_oid(x509.KeyUsage), _oid(x509.BasicConstraints)),
        Odd.CURVE: (bytes.fromhex("2a8648ce3d030107"), bytes.fromhex("2a8648ce3d03017f")),
    }[how]
    der = ssl.PEM_cert_to_DER_cert(pem.decode())
    assert was in der, "the certificate is not one of ours"
    return ssl.DER_cert_to_PEM_cert(der.replace(was, now, 1)).encode()


def _oid(kind: type[x509.ExtensionType]) -> bytes:
    """The bytes of an identifier below 2.5.29, where the extensions of certificates are."""
    last = int(kind.oid.dotted_string.rpartition(".")[2])
    return b"\x55\x1d" + bytes([last])
