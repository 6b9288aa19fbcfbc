"""The certificates of one etcd: an authority, and the pairs that it signs for the server and for its client.

Theory.      They are in the folder of the etcd, so the authority's own key never leaves this machine: the
             API server is given a certificate, and needs no more. A pair is one file with certificate and
             key, written under another name and renamed: a reader finds the old pair or the new one.
Invariants.  The authority is made once, because etcd and its clients would not trust what another one signs.
             A pair is made anew when less than a third of its life is left. Other users can read no key.
"""

import ipaddress
import os
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFE = timedelta(days=3650)
PAIR_LIFE = timedelta(days=365)
BACKDATED = timedelta(minutes=5)
"""For clocks that are behind ours."""
AUTHORITY, SERVER, CLIENT = "authority.pem", "server.pem", "client.pem"


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


def ensure(folder: Path, address: str, now: datetime) -> tuple[bytes, Pair]:
    """Make what is missing or due. Answers the authority's certificate and the pair of etcd's client, the API
    server. ``address``: the IP address in the certificate of the server."""
    authority = _read(folder / AUTHORITY) or _create(folder / AUTHORITY, "etcd-ca", now, None, "")
    (folder / "authority.crt").write_bytes(authority.certificate)
    for name, subject, host in ((SERVER, "kube-etcd", address), (CLIENT, "kube-apiserver-etcd-client", "")):
        found = _read(folder / name)
        if found is None or _is_due(found, now):
            _create(folder / name, subject, now, authority, host)
    client = _read(folder / CLIENT)
    assert client is not None, "it was made a moment ago"
    return authority.certificate, client


def _is_due(pair: Pair, now: datetime) -> bool:
    found = x509.load_pem_x509_certificate(pair.certificate)
    return now > found.not_valid_after_utc - PAIR_LIFE / 3


def _read(path: Path) -> Pair | None:
    try:
        whole = path.read_bytes()
    except FileNotFoundError:
        return None
    certificate, mark, key = whole.partition(b"-----BEGIN PRIVATE KEY-----")
    return Pair(certificate, mark + key)


def _create(path: Path, subject: str, now: datetime, authority: Pair | None, host: str) -> Pair:
    """Make a pair and write it.

    ``authority``   signs it; None: the pair is an authority, and signs itself
    ``host``        the IP address of the server that it is for; empty: it is for a client
    """
    key = ec.generate_private_key(ec.SECP256R1())
    named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    life = AUTHORITY_LIFE if authority is None else PAIR_LIFE
    issuer = x509.load_pem_x509_certificate(authority.certificate) if authority is not None else None
    signer = load_pem_private_key(authority.key, None) if authority is not None else key
    assert isinstance(signer, ec.EllipticCurvePrivateKey), "our own authorities have such keys"
    builder = (
        x509.CertificateBuilder()
        .subject_name(named)
        .issuer_name(issuer.subject if issuer is not None else named)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=authority is None, path_length=None), critical=True)
        .add_extension(_usage(signs=authority is None), critical=True)
    )
    if authority is not None:
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if host else [])]
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    if host:
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))])
        builder = builder.add_extension(names, critical=False)
    certificate = builder.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM)
    pair = Pair(certificate, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    _write(path, pair.certificate + pair.key)
    return pair


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _write(path: Path, content: bytes) -> None:
    new = path.with_suffix(".new")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
    new.replace(path)
