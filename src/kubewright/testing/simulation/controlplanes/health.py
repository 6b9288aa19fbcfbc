"""Whether the programs of a control plane would answer each other and their clients.

Theory.      What a program was started with decides: its own certificate, the authority that its clients
             trust, the names that it is good for. Nothing is asked of a Secret that changed since.
Invariants.  The same answer for the same contents: what certificates say is read once.
Called by    ``machine``, and the ends of stories.
"""

from base64 import b64decode
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from kubewright.api.controlplane.names import Component
from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.hosting.contract import Contents, Workload
from kubewright.kube.access import Access
from kubewright.kube.config import inline_access
from kubewright.pki.facts import Facts, facts_of, is_signed_by

CERTIFICATE, KUBECONFIG = "tls.crt", "value"
SERVING = {Component.ETCD: ("-etcd-server", "-etcd"), Component.API_SERVER: ("-apiserver", "-ca")}
"""By component: how the Secrets end that have a server's certificate, and its authority."""


def serves(workload: Workload, now: datetime) -> bool:
    """Whether a program that was started for this has a certificate by its own authority, and good now."""
    pair = SERVING.get(workload.place.component)
    if pair is None:
        return True
    own, authority = (part(workload.contents, end) for end in pair)
    return signed(own, authority) and valid(own, now)


def may_ask_etcd(server: Workload, etcd: Workload, now: datetime) -> bool:
    """Whether an API server and its etcd trust each other."""
    client = part(server.contents, "-apiserver-etcd-client")
    trusts = part(server.contents, "-etcd") == part(etcd.contents, "-etcd")
    return trusts and signed(client, part(etcd.contents, "-etcd")) and valid(client, now)


def gets_in(kubeconfig: bytes, server: Workload, now: datetime) -> bool:
    """Whether a client with this kubeconfig gets into this API server by the name that the kubeconfig has."""
    found = access(kubeconfig)
    authority, own = part(server.contents, "-ca"), part(server.contents, "-apiserver")
    if found is None or not authority or not own:
        return False
    host = urlsplit(found.server).hostname or ""
    trusted = signed(own, found.ca) and host in facts(own).names
    return trusted and signed(found.certificate, authority) and valid(found.certificate, now)


def kubeconfig_of(workload: Workload) -> bytes:
    """The kubeconfig that a controller manager was started with."""
    return part(workload.contents, "-kubeconfig", KUBECONFIG)


def part(contents: Mapping[str, Contents], end: str, key: str = CERTIFICATE) -> bytes:
    """What is in the Secret whose name ends so, after the name of the cluster; empty if there is none."""
    found = (each for name, each in contents.items() if name.endswith(end))
    return next((each[key] for each in found if key in each), b"")


@lru_cache(maxsize=512)
def signed(certificate: bytes, authority: bytes) -> bool:
    """Whether this authority signed this certificate; of nothing, it did not."""
    return bool(certificate and authority) and is_signed_by(certificate, authority)


def valid(certificate: bytes, now: datetime) -> bool:
    """Whether a certificate has begun and not ended."""
    return facts(certificate).not_before <= now <= facts(certificate).not_after


@lru_cache(maxsize=128)
def facts(certificate: bytes) -> Facts:
    """What a certificate says."""
    return facts_of(certificate)


@lru_cache(maxsize=128)
def access(kubeconfig: bytes) -> Access | None:
    """What a kubeconfig says; None: it is none."""
    try:
        return inline_access(kubeconfig)
    except InvalidInput:
        return None


def value_of(secret: Mapping[str, Any]) -> bytes:
    """The kubeconfig in a Secret as the server has it."""
    return b64decode(secret.get("data", {}).get(KUBECONFIG, ""))
