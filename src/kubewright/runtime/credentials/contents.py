"""Read the Secrets of a cluster's authorities, keys and kubeconfig, and make keys without holding up others.

Invariants.  What is wrong with one is a clause for users, with no part of a key in it. An RSA key is made in
             a thread, since it takes a tenth of a second, and on no more than half of the cores at one time.
Called by    what looks and acts in ``bootstrap``, ``clusters`` and ``controlplanes``.
"""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from kubewright.api.core import Secret
from kubewright.base.errors import InvalidInput
from kubewright.kube.config import inline_access
from kubewright.pki.credentials import KUBECONFIG_KEY, Login, problem_of
from kubewright.pki.facts import Facts, facts_of, validity
from kubewright.pki.keys import Algorithm
from kubewright.runtime.credentials.values import Found, pair_of

T = TypeVar("T")

_RSA = ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 2), "rsa-keys")
"""On two busy cores six threads leave the event loop a tenth of the time, one a quarter. A hundred clusters
that begin at once want four hundred keys, and Leases must be renewed meanwhile."""


def read_secret(secret: Secret) -> Found:
    """What a Secret holds, as decisions read it."""
    pair, data = pair_of(secret), secret.data
    if KUBECONFIG_KEY in data:
        login = read_kubeconfig(data[KUBECONFIG_KEY])
        return Found(data, pair, kubeconfig=login, metadata=secret.metadata)
    return Found(data, pair, problem_of(pair), _facts(pair.certificate), metadata=secret.metadata)


def read_kubeconfig(text: bytes) -> Login:
    """What a kubeconfig says; nothing, if it cannot be read."""
    try:
        access = inline_access(text)
    except InvalidInput:
        return Login()
    try:
        since, until = validity(access.certificate)
    except ValueError:
        return Login(access.server, access.ca)
    return Login(access.server, access.ca, since, until, access.certificate)


async def in_thread_if_slow(make: Callable[[], T], algorithm: Algorithm) -> T:
    """What ``make`` makes, with a new key of this algorithm; in a thread if that takes long."""
    if algorithm is not Algorithm.RSA:
        return make()
    return await asyncio.get_running_loop().run_in_executor(_RSA, make)


def _facts(certificate: bytes) -> Facts | None:
    try:
        return facts_of(certificate)
    except ValueError:
        return None
