"""Makes the authorities, key pairs, certificates and kubeconfigs of a cluster, in the forms of kubeadm.

Theory.      A cluster has an authority for its API server, one for etcd, one for the front proxy, and a pair
             of keys by which service account tokens are signed. Each is a certificate (for the pair: the
             public key) and a private key, PEM. A machine that joins trusts the cluster by the hash of the
             public key of its authority. What is to be made ``keyring`` decides; every kubeconfig of this
             program is written here.
Invariants.  Only keys and serial numbers are random, all else follows from the arguments. A private key is in
             no ``repr`` and no message. Upstream's serial number is 0, which our library refuses: ours is
             random.
Called by    what writes Secrets of clusters (``bootstrap``, ``clusters``, ``controlplanes``), and the
             embedded server for its own kubeconfig.
"""

from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from kubewright.pki.certificates import Identity, new_leaf
from kubewright.pki.credentials import (
    KUBECONFIG_KEY,
    Authority,
    Kubeconfig,
    Leaf,
    Purpose,
    Signer,
    TokenKeys,
    Wanted,
    canonical,
    data_of,
)
from kubewright.pki.credentials import (
    LIFETIME as YEAR,
)
from kubewright.pki.keys import (
    Algorithm,
    KeyPair,
    certificate_builder,
    new_key,
    openssl_pem,
    pems,
)
from kubewright.wire import goyaml
from kubewright.wire.http import User

COMMON_NAME = "kubernetes"
LIFETIME = timedelta(days=3650)


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


def new_pair(
    purpose: Purpose, now: datetime, algorithm: Algorithm, common_name: str = COMMON_NAME
) -> KeyPair:
    """A new pair for a purpose; ``common_name`` is that of an authority."""
    if purpose is Purpose.SERVICE_ACCOUNT:
        return new_service_account_keys(algorithm)
    return new_cluster_authority(now, algorithm, common_name)


def contents_of(
    wanted: Wanted, pairs: Mapping[str, KeyPair], now: datetime, algorithm: Algorithm = Algorithm.EC
) -> dict[str, bytes]:
    """The entries of the Secret of what is wanted, with new keys.

    Args:
        wanted: what to make.
        pairs: those of the authorities, by the names of their Secrets.
        now: the present.
        algorithm: of authorities and keys for tokens; what they sign has keys on P-256.

    Raises:
        InvalidInput: a certificate cannot carry the names that it should.
        ValueError: the authority cannot sign.
    """
    match wanted:
        case Authority(common_name=name):
            pair = new_cluster_authority(now, algorithm, name)
            return data_of(pair.certificate, pair.key)
        case TokenKeys():
            pair = new_service_account_keys(algorithm)
            return data_of(pair.certificate, pair.key)
        case Signer(authority=name):
            return data_of(pems(pairs[name].certificate)[0], pairs[name].key)
        case Leaf() as leaf:
            names = sorted(canonical(leaf.names))
            signer = _identity(pairs[leaf.authority])
            made = new_leaf(signer, leaf.subject, now, YEAR, names=names, client=leaf.client)
            return data_of(made.certificate, made.key)
        case Kubeconfig():
            signer = _identity(pairs[wanted.authority])
            made = new_leaf(signer, wanted.user, now, wanted.lifetime)
            login = by_certificate(made)
            text = kubeconfig(wanted.cluster, wanted.entry, wanted.server, signer.certificate, login)
            return {KUBECONFIG_KEY: text}


def _identity(pair: KeyPair) -> Identity:
    return Identity(pair.certificate, pair.key)


def kubeconfig(
    cluster: str, user: str, server: str, authority: bytes, login: Mapping[str, Any], *, context: str = ""
) -> bytes:
    """The text of a kubeconfig with one context.

    Args:
        cluster: the name of the cluster's entry.
        user: the name of the user's entry.
        server: URL of the API server.
        authority: the certificates to trust (PEM).
        login: the fields of the user.
        context: the name of the context, if it is not made from both names.
    """
    context = context or f"{user}@{cluster}"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": reached(server, authority)}],
        "contexts": [{"name": context, "context": {"cluster": cluster, "user": user}}],
        "current-context": context,
        "preferences": {},
        "users": [{"name": user, "user": dict(login)}],
    }
    return goyaml.dumped(document).encode()


def kubeconfig_without_user(server: str, authority: bytes) -> str:
    """The text of the kubeconfig in ``cluster-info``. Equal arguments give equal texts: tokens sign it."""
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "", "cluster": reached(server, authority)}],
        "contexts": None,
        "current-context": "",
        "preferences": {},
        "users": None,
    }
    return goyaml.dumped(document, in_order=True)


def reached(server: str, authority: bytes) -> dict[str, str]:
    """The fields of a cluster: where its API server is, and what to trust."""
    return {"server": server, "certificate-authority-data": _inline(authority)}


def by_certificate(identity: Identity) -> dict[str, str]:
    """The fields of a user with a client certificate."""
    certificate, key = _inline(identity.certificate), _inline(identity.key)
    return {"client-certificate-data": certificate, "client-key-data": key}


def by_token(token: str, user: User) -> dict[str, Any]:
    """The fields of the bearer of a token who impersonates this user."""
    return {"token": token, "as": user.name, "as-groups": list(user.groups)}


def _inline(pem: bytes) -> str:
    return b64encode(pem).decode()


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
