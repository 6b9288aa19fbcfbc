"""Read and make what is in the Secrets of a cluster's authorities, keys and kubeconfig.

Invariants.  What is wrong with one is a clause for users, with no part of a key in it. Only keys are
             random, all else follows from the arguments. An RSA key is made in a thread, since it takes a
             tenth of a second, and on no more than half of the cores at one time.
Called by    what looks and acts in ``bootstrap``, ``clusters`` and ``controlplanes``.
"""

import asyncio
import os
from base64 import b64encode
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, TypeVar

from kubewright.api.cluster.names import SECRET_VALUE_KEY
from kubewright.api.core import Secret
from kubewright.base.errors import InvalidInput
from kubewright.kube.config import inline_access
from kubewright.pki.certificates import Identity
from kubewright.pki.clusters import (
    COMMON_NAME,
    new_cluster_authority,
    new_service_account_keys,
    problem_of,
)
from kubewright.pki.facts import validity
from kubewright.pki.keys import Algorithm, KeyPair
from kubewright.runtime.credentials.values import Authority, Kubeconfig, Purpose, pair_of
from kubewright.wire.goyaml import dumped

T = TypeVar("T")

_RSA = ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 2), "rsa-keys")
"""On two busy cores six threads leave the event loop a tenth of the time, one a quarter. A hundred clusters
that begin at once want four hundred keys, and Leases must be renewed meanwhile."""


def read_authority(secret: Secret) -> Authority:
    """The certificate authority in a Secret, and what is wrong with it for ever."""
    pair = pair_of(secret)
    problem = problem_of(pair, signs=True)
    if not problem and not pair.key:
        problem = "has no tls.key, by which a kubeconfig could be signed"
    if problem:
        return Authority(pair.certificate, pair.key, problem)
    return Authority(pair.certificate, pair.key, "", *validity(pair.certificate))


def read_kubeconfig(secret: Secret) -> Kubeconfig:
    """What a Secret says; one that cannot be read has only its metadata."""
    try:
        found = inline_access(secret.data.get(SECRET_VALUE_KEY, b""))
    except InvalidInput:
        return Kubeconfig(secret.metadata)
    try:
        since, until = validity(found.certificate)
    except ValueError:
        return Kubeconfig(secret.metadata, found.server, found.ca)
    return Kubeconfig(secret.metadata, found.server, found.ca, since, until, found.certificate)


def new_pair(
    purpose: Purpose, now: datetime, algorithm: Algorithm, common_name: str = COMMON_NAME
) -> KeyPair:
    """A new pair for a purpose; ``common_name`` is that of an authority."""
    if purpose is Purpose.SERVICE_ACCOUNT:
        return new_service_account_keys(algorithm)
    return new_cluster_authority(now, algorithm, common_name)


async def in_thread_if_slow(make: Callable[[], T], algorithm: Algorithm) -> T:
    """What ``make`` makes, with a new key of this algorithm; in a thread if that takes long."""
    if algorithm is not Algorithm.RSA:
        return make()
    return await asyncio.get_running_loop().run_in_executor(_RSA, make)


def render(cluster: str, user: str, server: str, authority: bytes, identity: Identity) -> bytes:
    """The text of a kubeconfig with a client certificate; ``user`` names the entry of its user."""
    login = {
        "client-certificate-data": _inline(identity.certificate),
        "client-key-data": _inline(identity.key),
    }
    return with_login(cluster, user, server, authority, login)


def with_login(cluster: str, user: str, server: str, authority: bytes, login: Mapping[str, Any]) -> bytes:
    """The text of a kubeconfig with one context. ``login``: the fields of its user."""
    context = f"{user}@{cluster}"
    reached = {"server": server, "certificate-authority-data": _inline(authority)}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": reached}],
        "contexts": [{"name": context, "context": {"cluster": cluster, "user": user}}],
        "current-context": context,
        "preferences": {},
        "users": [{"name": user, "user": dict(login)}],
    }
    return dumped(document).encode()


def _inline(pem: bytes) -> str:
    return b64encode(pem).decode()
