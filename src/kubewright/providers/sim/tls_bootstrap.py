"""How a simulated VM joins an API server in another process: kubeadm's discovery and TLS bootstrap.

Theory.      Of the cluster the VM knows an address, a token and hashes. It reads ConfigMap ``cluster-info``
             there without a credential and without trust; a signature that takes the token to make, and the
             hash of the authority in it, make it trust what it read. With the token it asks for a certificate
             of ``system:node:<name>``, which the cluster's controller manager approves and signs. With that
             certificate its kubelet works, and may write only to its own node.
             The port to what runs control planes: an API server for each cluster that ``kubeadm init``
             starts. A VM of this cloud runs nothing. Its control plane is an embedded API server, which a
             context must not know; so the program that has one passes it in, and here is only what a hollow
             machine needs of it: to start one, to find the one at an address, to ask whether it knows a
             token, and a client for its kubelets.
             Which VM belongs to which cluster, so that the kubelets of a cluster are told of its VMs only. A
             cloud tells one observer of every change. With many clusters on one cloud each change concerns
             one of them: the one that the VM is in now, or was in before. ``ClusterVms`` is the cloud as the
             kubelets of one cluster see it. A cluster is named by the address of its API server; the empty
             name is the cluster that VMs without bootstrap data join (Gardener's machines).
Invariants.  What may come late is ``NotYet``; what will never be right is ``Unbootable``. No message has the
             token or the key in it.
             A control plane is known by its address (host:port), which is the one that kubeconfigs and
             joining machines name. ``find`` does not find one that does not serve. A *hosted* control plane
             is described by objects (NestedControlPlane): machines join it, but no machine starts, pauses or
             ends it.
Source       kubeadm join (discovery by token), kubelet (TLS bootstrap), RFC 7515 (signature, detached).
Called by    ``boots``.
"""

from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kubewright.api.bootstrap.tokens import CLUSTER_INFO, KUBECONFIG, SIGNATURE, is_signed
from kubewright.api.certificates import KUBELET_CLIENT, SIGNING_REQUEST, SigningRequest, SigningRequestSpec
from kubewright.api.core import CONFIG_MAP
from kubewright.base.clock import Clock
from kubewright.base.errors import KubewrightError
from kubewright.kube.access import Access, Token
from kubewright.kube.client import Client
from kubewright.kube.config import connect
from kubewright.kube.errors import TransportError
from kubewright.kube.informer import Informers
from kubewright.pki.certificates import new_request
from kubewright.pki.facts import public_key_hashes
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.inventory import VmObserver
from kubewright.providers.sim.kubeadm import Join, Unbootable
from kubewright.providers.sim.vm import Vm
from kubewright.wire import goyaml
from kubewright.wire.errors import ApiError
from kubewright.wire.gvk import Key
from kubewright.wire.http import User


class Membership:
    """The VMs of one cloud by cluster; observes the cloud from ``begin`` to ``end``."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self._observers: dict[str, VmObserver] = {}
        self._everything: VmObserver | None = None
        self._cluster_of: dict[str, str] = {}
        self._members: dict[str, dict[str, None]] = {}

    def begin(self, everything: VmObserver) -> None:
        """Observe the cloud; the observer ``everything`` is told of each change, of whatever cluster."""
        self._everything = everything
        self.cloud.observe(self)
        for vm_id in self.cloud.vms:
            self.changed(vm_id)

    def end(self) -> None:
        """Observe the cloud no more."""
        self.cloud.observe(None)

    def of(self, cluster: str) -> "ClusterVms":
        """The VMs of one cluster; of an empty name, those without bootstrap data."""
        return ClusterVms(self, cluster)

    def members(self, cluster: str) -> Mapping[str, Vm]:
        """The VMs of one cluster by id; a snapshot."""
        found = {vm_id: self.cloud.get(vm_id) for vm_id in self._members.get(cluster, ())}
        return {vm_id: vm for vm_id, vm in found.items() if vm is not None}

    def observe(self, cluster: str, observer: VmObserver | None) -> None:
        """Tell this observer of the VMs of one cluster from now on; None: no longer."""
        if observer is None:
            self._observers.pop(cluster, None)
        else:
            self._observers[cluster] = observer

    def changed(self, vm_id: str) -> None:
        """A VM came, went or changed (``VmObserver``)."""
        vm, before = self.cloud.get(vm_id), self._cluster_of.pop(vm_id, None)
        after = vm.cluster if vm is not None else None
        if before is not None and before != after:
            self._members[before].pop(vm_id, None)
        if after is not None:
            self._cluster_of[vm_id] = after
            self._members.setdefault(after, {})[vm_id] = None
        for cluster in dict.fromkeys((before, after)):
            if cluster is not None and (observer := self._observers.get(cluster)) is not None:
                observer.changed(vm_id)
        if self._everything is not None:
            self._everything.changed(vm_id)

    async def wait_idle(self, vm_id: str) -> None:
        """Wait until nothing that runs on the VM has a request in flight (``VmObserver``)."""
        if self._everything is not None:
            await self._everything.wait_idle(vm_id)
        if (observer := self._observers.get(self._cluster_of.get(vm_id, ""))) is not None:
            await observer.wait_idle(vm_id)


class ClusterVms:
    """The VMs of one cluster, as its kubelets see them (``inventory.VmSource``)."""

    def __init__(self, membership: Membership, cluster: str) -> None:
        self.clock = membership.cloud.clock
        self._membership = membership
        self._cluster = cluster

    @property
    def vms(self) -> Mapping[str, Vm]:
        """Every VM of the cluster by id; a snapshot."""
        return self._membership.members(self._cluster)

    def get(self, vm_id: str) -> Vm | None:
        """One VM, or None when it is gone, or not of this cluster."""
        vm = self._membership.cloud.get(vm_id)
        return vm if vm is not None and vm.cluster == self._cluster else None

    def obey(self, vm_id: str, note: str) -> frozenset[str]:
        """As ``Cloud.obey``."""
        return self._membership.cloud.obey(vm_id, note)

    def observe(self, observer: VmObserver | None) -> None:
        """Tell this observer of the cluster's VMs from now on; None: no longer."""
        self._membership.observe(self._cluster, observer)


def hosted_already(address: str) -> str:
    """Why a machine cannot be a control plane machine at this address, and what a user does."""
    told = f"the control plane at {address} is that of a NestedControlPlane"
    return f"{told}, which no machine is part of: let machines join it as workers"


@dataclass(frozen=True, slots=True)
class PlaneRequest:
    """A control plane to start. Its repr shows no key and no token.

    ``authority``, ``authority_key``  PEM of the cluster's own CA; empty: one is made
    ``names``   further names for the certificate of the API server
    ``tokens``  bootstrap tokens to create, ``id.secret``
    """

    address: str
    authority: bytes = field(default=b"", repr=False)
    authority_key: bytes = field(default=b"", repr=False)
    names: tuple[str, ...] = ()
    tokens: tuple[str, ...] = field(default=(), repr=False)


class ControlPlane(Protocol):
    """A control plane that serves."""

    @property
    def hosted(self) -> bool:
        """Whether it is a hosted control plane: no machine runs it."""
        ...

    @property
    def authority(self) -> bytes:
        """The certificate of its CA, PEM."""
        ...

    @property
    def informers(self) -> Informers:
        """A client, with the rights of kubelets at least, and its caches, which are kept current."""
        ...

    def accepts(self, token: str) -> bool:
        """Whether it knows this bootstrap token, for authentication, and it has not expired."""
        ...


class ControlPlanes(Protocol):
    """All control planes that the program runs. ``address`` is host:port."""

    def reserve(self, owner: str) -> str:
        """An address for the cluster of this owner; the same one for the same owner."""
        ...

    def release(self, owner: str) -> None:
        """The owner is gone: its address may be given to another."""
        ...

    async def begin(self, request: PlaneRequest) -> ControlPlane:
        """Start one, or answer the one that is there, whether it serves or not; then it serves.

        Raises:
            InvalidInput: the certificate cannot be read, the address cannot be listened at, or it is that of
                a hosted control plane.
        """
        ...

    def listen(self, changed: Callable[[str], None]) -> Callable[[], None]:
        """Call ``changed`` with the address of a hosted control plane when it begins to serve, or ceases to;
        answers a function that ends this."""
        ...

    def served_by_process(self, address: str) -> bool:
        """Whether the API server at this address is another process, which only its socket reaches."""
        ...

    def find(self, address: str) -> ControlPlane | None:
        """The one that serves at this address."""
        ...

    async def pause(self, address: str) -> None:
        """None of its machines runs: it does not serve until ``begin``, and keeps what it has."""
        ...

    async def end(self, address: str) -> None:
        """None of its machines exists any more: it ends, and what it has is gone."""
        ...


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
