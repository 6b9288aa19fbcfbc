"""The authorities and key pairs of a workload cluster, as kubeadm and Cluster API know them.

Theory.      A cluster has an authority for its API server, one for etcd, one for the front proxy, and a pair
             of keys by which service account tokens are signed. Each is a certificate (for the pair: the
             public key) and a private key, PEM. A machine that joins trusts the cluster by the hash of
             the public key of its authority.
Invariants.  A private key is in no ``repr`` and no message. ``now`` is an argument.
Source       capi.md §9.3, §9.4. Upstream's serial number is 0, which our library refuses: ours is random.
Called by    ``bootstrap`` (makes and checks them), and what makes kubeconfigs of clusters.
"""

import re
from datetime import datetime, timedelta
from hashlib import sha256

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from kubewright.base.clock import rfc3339
from kubewright.pki.facts import Facts, facts_of
from kubewright.pki.keys import (
    Algorithm,
    KeyPair,
    certificate_builder,
    new_key,
    openssl_pem,
    public_key_of,
    read_certificates,
    read_private_key,
    value_errors,
)

COMMON_NAME = "kubernetes"
LIFETIME = timedelta(days=3650)
_CERTIFICATE = re.compile(b"-----BEGIN CERTIFICATE-----")


def new_cluster_authority(
    now: datetime, algorithm: Algorithm = Algorithm.RSA, common_name: str = COMMON_NAME
) -> KeyPair:
    """A self-signed authority of a workload cluster: kubeadm signs with it what the cluster needs."""
    key = new_key(algorithm)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        certificate_builder(subject, subject, key, now, now + LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), openssl_pem(key))


def new_service_account_keys(algorithm: Algorithm = Algorithm.RSA) -> KeyPair:
    """The keys by which service account tokens are signed: a public key in the place of a certificate."""
    key = new_key(algorithm)
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return KeyPair(key.public_key().public_bytes(serialization.Encoding.PEM, form), openssl_pem(key))


def public_key_hashes(pem: bytes) -> tuple[str, ...]:
    """``sha256:<hex>`` of the public key of each certificate, as ``kubeadm join`` compares them.

    Raises:
        ValueError: there is no certificate, or one that cannot be read.
    """
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    keys = [public_key_of(each) for each in read_certificates(pem)]
    digests = [sha256(key.public_bytes(serialization.Encoding.DER, form)) for key in keys]
    return tuple(f"sha256:{digest.hexdigest()}" for digest in digests)


def problem_of(pair: KeyPair, now: datetime | None = None, *, signs: bool = False) -> str:
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
    if told := _by_facts(facts, now, signs=signs) if facts is not None else "":
        return told
    if not pair.key:
        return ""
    try:
        key = read_private_key(pair.key)
    except ValueError:
        return "has a tls.key that is no private key in PEM, of RSA or an elliptic curve"
    return "" if key.public_key() == public else "has a tls.key that does not belong to its tls.crt"


def _by_facts(facts: Facts, now: datetime | None, *, signs: bool) -> str:
    if signs and facts.no_authority:
        return facts.no_authority
    return out_of_date(facts.not_before, facts.not_after, now) if now is not None else ""


def out_of_date(not_before: datetime, not_after: datetime, now: datetime) -> str:
    """Why a certificate with this validity is not valid, as the end of a sentence; empty if it is."""
    if not_after <= now:
        return f"has a certificate that expired on {rfc3339(not_after)}"
    if now < not_before:
        return f"has a certificate that is valid only from {rfc3339(not_before)}"
    return ""


def expires(certificate: bytes) -> datetime | None:
    """Until when a certificate is valid; None for what is none."""
    try:
        return read_certificates(certificate)[0].not_valid_after_utc
    except ValueError:
        return None


def _public_key(pem: bytes) -> object:
    if _CERTIFICATE.search(pem):
        return public_key_of(read_certificates(pem)[0])
    with value_errors():
        return serialization.load_pem_public_key(pem)


def _usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        key_encipherment=True,
        crl_sign=False,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
