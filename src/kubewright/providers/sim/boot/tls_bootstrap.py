"""How a simulated VM joins an API server in another process: kubeadm's discovery and TLS bootstrap.

Theory.      Of the cluster the VM knows an address, a token and hashes. It reads ConfigMap ``cluster-info``
             there without a credential and without trust; a signature that takes the token to make, and the
             hash of the authority in it, make it trust what it read. With the token it asks for a certificate
             of ``system:node:<name>``, which the cluster's controller manager approves and signs. With that
             certificate its kubelet works, and may write only to its own node.
Invariants.  What may come late is ``NotYet``; what will never be right is ``Unbootable``. No message has the
             token or the key in it.
Source       kubeadm join (discovery by token), kubelet (TLS bootstrap), RFC 7515 (signature, detached).
Called by    ``boots``.
"""

from base64 import b64decode
from dataclasses import dataclass, field

from kubewright.api.bootstrap.tokens import CLUSTER_INFO, KUBECONFIG, SIGNATURE, is_signed
from kubewright.api.certificates import KUBELET_CLIENT, SIGNING_REQUEST, SigningRequest, SigningRequestSpec
from kubewright.api.core import CONFIG_MAP
from kubewright.base.clock import Clock
from kubewright.base.errors import KubewrightError
from kubewright.kube.access import Access, Token
from kubewright.kube.client import Client
from kubewright.kube.config import connect
from kubewright.kube.errors import TransportError
from kubewright.pki.certificates import new_request
from kubewright.pki.facts import public_key_hashes
from kubewright.providers.sim.boot.kubeadm import Join
from kubewright.providers.sim.boot.userdata import Unbootable
from kubewright.wire import goyaml
from kubewright.wire.errors import ApiError
from kubewright.wire.gvk import Key
from kubewright.wire.http import User

POLL_SECONDS = 0.2
POLLS = 150
"""Looks for the certificate before the whole is tried again."""


class NotYet(KubewrightError):
    """The cluster cannot be joined now; it may be later."""


@dataclass(frozen=True, slots=True)
class KubeletCredentials:
    """The credentials of one kubelet, PEM: the authority of its cluster, its certificate and its key."""

    authority: str
    certificate: str
    key: str = field(repr=False)


async def request_credentials(join: Join, node: str, clock: Clock) -> KubeletCredentials:
    """Do what ``kubeadm join`` does until the kubelet of this node has its certificate.

    Raises:
        NotYet: something is not there, or does not answer.
        Unbootable: it is another cluster than the one that the VM was told of.
    """
    try:
        authority = await _discovered(join, clock)
        certificate, key = await _certificate(join, node, authority, clock)
    except (ApiError, TransportError) as error:
        raise NotYet(f"the API server at {join.address} does not let it join: {error}") from None
    return KubeletCredentials(authority.decode(), certificate.decode(), key.decode())


def access(address: str, credentials: KubeletCredentials) -> Access:
    """How a kubelet with these credentials reaches its API server (host:port)."""
    return Access(
        f"https://{address}",
        ca=credentials.authority.encode(),
        certificate=credentials.certificate.encode(),
        key=credentials.key.encode(),
    )


async def _discovered(join: Join, clock: Clock) -> bytes:
    """The authority of the cluster, once it is known to be the right one."""
    client = _client(Access(f"https://{join.address}", insecure=True), clock)
    try:
        found = dict((await client.get(CONFIG_MAP, CLUSTER_INFO)).data)
    finally:
        await client.transport.close()
    return trusted(found, join)


def trusted(info: dict[str, str], join: Join) -> bytes:
    """The authority (PEM) in cluster-info, if token and hashes say that it is the right one. Pure.

    Raises:
        NotYet: it has no signature by the token yet, or one of an older text.
        Unbootable: the hash is wrong, or what is signed is no cluster-info.
    """
    text = info.get(KUBECONFIG, "")
    token_id, _, secret = join.token.partition(".")
    signature = info.get(f"{SIGNATURE}{token_id}", "")
    if not signature:
        raise NotYet(f"cluster-info at {join.address} is not signed by its bootstrap token yet")
    if not is_signed(text, signature, secret):
        raise NotYet(f"the signature of cluster-info at {join.address} is not by its bootstrap token")
    try:
        authority = b64decode(goyaml.loads(text)["clusters"][0]["cluster"]["certificate-authority-data"])
        known = set(public_key_hashes(authority))
    except (LookupError, TypeError, ValueError):
        raise Unbootable(f"cluster-info at {join.address} has no authority") from None
    if not join.unsafe and not known & set(join.hashes):
        raise Unbootable(f"none of the caCertHashes is that of the CA of {join.address}")
    return authority


async def _certificate(join: Join, node: str, authority: bytes, clock: Clock) -> tuple[bytes, bytes]:
    """Ask for a certificate with the token, and wait until it is signed; the certificate and its key."""
    client = _client(Access(f"https://{join.address}", Token(join.token), ca=authority), clock)
    try:
        request, key = new_request(User(f"system:node:{node}", ("system:nodes",)))
        usages = ("digital signature", "client auth")
        spec = SigningRequestSpec(request=request, signer_name=KUBELET_CLIENT, usages=usages)
        wanted = SIGNING_REQUEST.to_plain(SigningRequest(spec=spec))
        named = {**wanted, "metadata": {"generateName": "node-csr-"}}
        made = await client.create(SIGNING_REQUEST, named)
        for _ in range(POLLS):
            found = await client.get(SIGNING_REQUEST, Key("", made.name))
            if found.status.certificate:
                return found.status.certificate, key
            await clock.sleep(POLL_SECONDS)
    finally:
        await client.transport.close()
    raise NotYet(f"the cluster at {join.address} has not signed the certificate of its kubelet")


def _client(found: Access, clock: Clock) -> Client:
    return Client(connect(found, clock=clock), clock, name=f"cluster {found.server}")
