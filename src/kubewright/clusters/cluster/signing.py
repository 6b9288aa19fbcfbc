"""Read and make the Secrets with a cluster's certificate authority and kubeconfig.

Invariants.  What is wrong with them becomes a clause for users, with no part of a key in it. Only the key is
             drawn at random: otherwise the same arguments make the same Secret.
Source       capi.md §6.3. Upstream's key is RSA-2048; ours is on P-256, which every client takes, and is made
             in a hundredth of the time.
Called by    ``look`` (reads), ``act`` (makes).
"""

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml
from msgspec import to_builtins

from kubewright.api.cluster import names
from kubewright.api.cluster.v1beta1 import ApiEndpoint
from kubewright.api.core import Secret
from kubewright.api.meta import OwnerReference
from kubewright.base.errors import InvalidInput
from kubewright.clusters.cluster.kubeconfig import Authority, Kubeconfig, url
from kubewright.kube.config import inline_access
from kubewright.pki.certificates import Identity, new_client, validity
from kubewright.pki.clusters import expires, problem_of
from kubewright.pki.keys import KeyPair
from kubewright.wire.http import User

ADMIN = User("kubernetes-admin", ("system:masters",))
LIFETIME = timedelta(days=365)

_ALWAYS = datetime.min.replace(tzinfo=UTC)
"""A moment at which nothing has expired."""


def read_kubeconfig(secret: Secret) -> Kubeconfig:
    """What a Secret says; one that cannot be read has only its metadata."""
    try:
        found = inline_access(secret.data.get(names.SECRET_VALUE_KEY, b""))
    except InvalidInput:
        return Kubeconfig(secret.metadata)
    try:
        since, until = validity(found.certificate)
    except ValueError:
        return Kubeconfig(secret.metadata, found.server, found.ca)
    return Kubeconfig(secret.metadata, found.server, found.ca, since, until)


def read_authority(secret: Secret) -> Authority:
    """The certificate authority in a Secret, and what is wrong with it for ever."""
    certificate, key = secret.data.get("tls.crt", b""), secret.data.get("tls.key", b"")
    problem = problem_of(KeyPair(certificate, key), _ALWAYS)
    if not problem and not key:
        problem = "has no tls.key, by which a kubeconfig could be signed"
    return Authority(certificate, key, problem, expires(certificate))


def secret(
    cluster: str, owner: OwnerReference, endpoint: ApiEndpoint, authority: Authority, now: datetime
) -> dict[str, Any]:
    """The Secret, without a namespace, with a new certificate.

    Raises:
        ValueError: the authority cannot sign (``Authority.cannot_sign`` says why).
    """
    identity = new_client(Identity(authority.certificate, authority.key), ADMIN, now, LIFETIME)
    value = render(cluster, endpoint, authority.certificate, identity)
    return {
        "metadata": {
            "name": names.kubeconfig_secret(cluster),
            "labels": {names.CLUSTER_NAME_LABEL: cluster},
            "ownerReferences": [{**to_builtins(owner), "controller": False}],
        },
        "type": names.SECRET_TYPE,
        "data": {names.SECRET_VALUE_KEY: b64encode(value).decode()},
    }


def render(cluster: str, endpoint: ApiEndpoint, authority: bytes, identity: Identity) -> bytes:
    """The text of a kubeconfig with one context."""
    user = f"{cluster}-admin"
    context = f"{user}@{cluster}"
    server = {"server": url(endpoint), "certificate-authority-data": _inline(authority)}
    login = {
        "client-certificate-data": _inline(identity.certificate),
        "client-key-data": _inline(identity.key),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": server}],
        "contexts": [{"name": context, "context": {"cluster": cluster, "user": user}}],
        "current-context": context,
        "preferences": {},
        "users": [{"name": user, "user": login}],
    }
    text: str = yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False, width=1_000_000)
    return text.encode()


def _inline(pem: bytes) -> str:
    return b64encode(pem).decode()
