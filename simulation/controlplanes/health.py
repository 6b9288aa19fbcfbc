"""Whether the programs of a control plane would answer each other and their clients.

Theory.      What a program was started with decides: its own certificate, the authority that its clients
             trust, the names in its certificate. A Secret that changed since then makes no difference.
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
from kubewright.pki.keys import pems

CERTIFICATE, KUBECONFIG = "tls.crt", "value"
SERVING = {Component.ETCD: ("-etcd-server", "-etcd"), Component.API_SERVER: ("-apiserver", "-ca")}
"""By component: the ends of the names of the Secrets with a server's certificate, and with its authority."""


def serves(workload: Workload, now: datetime) -> bool:
    """Whether the program of this workload has a certificate that its own authority signed, and valid now."""
    pair = SERVING.get(workload.identity.component)
    if pair is None:
        return True
    own, authority = (content(workload.contents, suffix) for suffix in pair)
    return signed(own, authority) and valid(own, now)


def may_ask_etcd(server: Workload, etcd: Workload, now: datetime) -> bool:
    """Whether an API server and its etcd trust each other."""
    client, own = content(server.contents, "-apiserver-etcd-client"), content(etcd.contents, "-etcd-server")
    trusts = signed(own, content(server.contents, "-etcd"))
    return trusts and signed(client, content(etcd.contents, "-etcd")) and valid(client, now)


def are_peers(one: Workload, other: Workload) -> bool:
    """Whether two members of an etcd trust each other."""
    return all(
        signed(content(shown.contents, "-etcd-peer"), content(trusts.contents, "-etcd"))
        for shown, trusts in ((one, other), (other, one))
    )


def gets_in(kubeconfig: bytes, server: Workload, now: datetime) -> bool:
    """Whether this API server and a client with this kubeconfig accept each other's certificates."""
    found = access(kubeconfig)
    authority, own = content(server.contents, "-ca"), content(server.contents, "-apiserver")
    if found is None or not authority or not own:
        return False
    host = urlsplit(found.server).hostname or ""
    trusted = signed(own, found.ca) and host in facts(own).names
    return trusted and signed(found.certificate, authority) and valid(found.certificate, now)


def kubeconfig_of(workload: Workload) -> bytes:
    """The kubeconfig that a controller manager was started with."""
    return content(workload.contents, "-kubeconfig", KUBECONFIG)


def content(contents: Mapping[str, Contents], suffix: str, key: str = CERTIFICATE) -> bytes:
    """A value in the Secret ``<cluster><suffix>``; empty if there is none."""
    found = (each for name, each in contents.items() if name.endswith(suffix))
    return next((each[key] for each in found if key in each), b"")


@lru_cache(maxsize=512)
def signed(certificate: bytes, authority: bytes) -> bool:
    """Whether one of these authorities signed this certificate; False if either is missing."""
    return bool(certificate and authority) and any(
        is_signed_by(certificate, each) for each in pems(authority)
    )


def valid(certificate: bytes, now: datetime) -> bool:
    """Whether a certificate is valid at this time."""
    return facts(certificate).not_before <= now <= facts(certificate).not_after


@lru_cache(maxsize=128)
def facts(certificate: bytes) -> Facts:
    """What a certificate says."""
    return facts_of(certificate)


@lru_cache(maxsize=128)
def access(kubeconfig: bytes) -> Access | None:
    """How a kubeconfig reaches its server; None: it cannot be read."""
    try:
        return inline_access(kubeconfig)
    except InvalidInput:
        return None


def value_of(secret: Mapping[str, Any]) -> bytes:
    """The kubeconfig in a Secret as the server has it."""
    return b64decode(secret.get("data", {}).get(KUBECONFIG, ""))
