"""Read everything that a decision about one Cluster looks at, into one value.

Theory.      Nearly all of it is in caches. Of Secrets, those have only the metadata, because the label of a
             cluster is on the bootstrap data of all its machines too. What is in the two that matter is read
             from the server, once for each of their versions; one that no watch shows is asked for now and
             then, since a user may make it without the label. A kubeconfig that can be made is not asked for:
             when it is made the server says whether there is one. Two more things the server is asked before
             parts of a Cluster are deleted that others need: whether there are machines, or what makes them,
             that the caches do not show yet (after a start their first lists may be older than the deletion),
             and whether a kind that seems not to be installed is served under an unusual name.
Verified.    A user may put another pair into ``<cluster>-ca`` at any time, and the API server knows nothing
             of it before its own files are changed. A kubeconfig of the new pair would lock out everyone
             until then. So the API server is asked, with a certificate that the new authority has signed: it
             must show one that this authority trusts, and know who has signed ours.
Invariants.  It is asked beside the workers, of ``AT_ONCE`` clusters at one time, of one again after
             ``PERIOD``, and for ``SECONDS`` at most. A certificate that is shown is good for ``LIFETIME``.
             ``run`` owns every task. No answer contains a part of a key.
Called by    ``wiring``.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from math import inf
from typing import Any

import structlog

from kubewright.api.cluster import names
from kubewright.api.cluster.v1beta1 import (
    CLUSTER,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    Cluster,
    ObjectReference,
)
from kubewright.api.core import SECRET, SECRET_METADATA, Secret
from kubewright.api.kinds import Kind
from kubewright.api.meta import ObjectMeta
from kubewright.base import delays
from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput
from kubewright.clusters.cluster.seen import Child, Seen
from kubewright.clusters.external.object import External, look_up
from kubewright.clusters.indexes import (
    BY_CLUSTER,
    BY_CONTROL_PLANE_NODES,
    index_by_cluster,
    index_control_plane_nodes,
)
from kubewright.clusters.owned import cluster_of
from kubewright.clusters.sessions import Connect, by_sockets
from kubewright.kube.access import Access
from kubewright.kube.client import Client
from kubewright.kube.errors import TransportError, Untrusted
from kubewright.kube.informer import Informer, Informers
from kubewright.pki.certificates import Identity, new_client
from kubewright.pki.credentials import ADMIN, authority_is_unfit, trusts_another
from kubewright.pki.keys import KeyPair
from kubewright.runtime.credentials.contents import read_secret
from kubewright.runtime.credentials.values import Found, url
from kubewright.runtime.references.registry import ControllerLookup
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key
from kubewright.wire.http import Request

log = structlog.get_logger(__name__)

AT_ONCE = 8
PERIOD = delays.UNHEARD
SECONDS = 5.0
LIFETIME = timedelta(minutes=10)
UNAUTHORIZED, FAILED = 401, 500

NOT_TRUSTED = "its API server shows a certificate that this authority has not signed"
NOT_KNOWN = "its API server does not know this authority"


@dataclass(slots=True)
class _Asked:
    """``answer``: None while there is none yet; ``at``: when it came, in monotonic seconds."""

    server: str
    authority: KeyPair
    answer: str | None = None
    at: float = 0.0


class Verifier:
    """Asks API servers, and remembers what they answered. ``answered`` is called after each answer."""

    def __init__(self, clock: Clock, connect: Connect = by_sockets) -> None:
        self.answered: Callable[[Key], None] = lambda cluster: None
        self._clock = clock
        self._connect = connect
        self._known: dict[Key, _Asked] = {}
        self._queue: asyncio.Queue[Key] = asyncio.Queue()
        self._waiting: set[Key] = set()
        """Those that are in the queue or being asked, forgotten or not: none is twice."""

    def problem(self, cluster: Key, server: str, authority: KeyPair) -> str | None:
        """Why the API server at this URL does not verify by it. Empty: it does; None: it is being asked."""
        known = self._known.get(cluster)
        if known is None or (known.server, known.authority) != (server, authority):
            known = self._known[cluster] = _Asked(server, authority)
        due = known.answer is None or self._clock.monotonic() - known.at >= PERIOD.total_seconds()
        if due and cluster not in self._waiting:
            self._waiting.add(cluster)
            self._queue.put_nowait(cluster)
        return known.answer

    def forget(self, cluster: Key) -> None:
        """There is no such question any more."""
        self._known.pop(cluster, None)

    async def run(self) -> None:
        """Ask until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(AT_ONCE):
                group.create_task(self._work(), name=f"verification {number}")

    async def _work(self) -> None:
        while True:
            cluster = await self._queue.get()
            try:
                if (asked := self._known.get(cluster)) is None:
                    continue
                answer = await self._answer(cluster, asked)
                asked.answer, asked.at = answer, self._clock.monotonic()
            finally:
                self._waiting.discard(cluster)
            self.answered(cluster)

    async def _answer(self, cluster: Key, asked: _Asked) -> str:
        """What one API server answers; a fault of ours ends this question, and no worker."""
        try:
            return await self._ask(asked.server, asked.authority)
        except Exception as error:
            log.exception("the verification of an API server failed here", cluster=str(cluster))
            return f"its API server cannot be asked: {type(error).__name__} in Kubewright itself"

    async def _ask(self, server: str, authority: KeyPair) -> str:
        try:
            signer = Identity(authority.certificate, authority.key)
            own = new_client(signer, ADMIN, self._clock.now(), LIFETIME)
            access = Access(server, ca=authority.certificate, certificate=own.certificate, key=own.key)
            transport = self._connect(access, self._clock)
        except (InvalidInput, ValueError) as error:
            return f"no certificate can be signed with it: {error}"
        try:
            answer = await transport.request(Request("GET", "/version"), timeout=SECONDS)
        except Untrusted:
            return NOT_TRUSTED
        except TransportError as error:
            return f"its API server cannot be asked: {error}"
        finally:
            with suppress(TransportError):
                await transport.close()
        if answer.status >= FAILED:
            return f"its API server cannot be asked: it answers {answer.status}"
        return NOT_KNOWN if answer.status == UNAUTHORIZED else ""


CHILDREN: tuple[Kind[Any], ...] = (MACHINE_DEPLOYMENT, MACHINE_SET, MACHINE)
"""What a Cluster is made of, in the order in which it is named in messages."""


class Looker:
    """Looks at Clusters through the caches of the cluster that has them."""

    def __init__(
        self, client: Client, informers: Informers, references: ControllerLookup, verifier: Verifier
    ) -> None:
        self.clusters = informers.get(CLUSTER)
        self.children: dict[Kind[Any], Informer[Any]] = {kind: informers.get(kind) for kind in CHILDREN}
        self.secrets = informers.get(SECRET_METADATA, labels=names.CLUSTER_NAME_LABEL)
        for informer in self.children.values():
            index_by_cluster(informer)
        index_control_plane_nodes(self.children[MACHINE])
        self._client = client
        self._clock = client.clock
        self._references = references
        self._verifier = verifier
        self._kubeconfigs: dict[Key, Found] = {}
        self._authorities: dict[Key, Found] = {}
        self._unseen: set[Key] = set()
        """Clusters whose kubeconfig is in a Secret that no watch shows."""
        self._missing: dict[Key, float] = {}
        """When a Secret that no watch shows was not there, in monotonic seconds."""

    async def look(self, cluster: Cluster) -> Seen:
        """What there is.

        Raises:
            ApiError, TransportError: the server could not be asked.
        """
        key, spec, deleting = _key(cluster), cluster.spec, cluster.metadata.deleting
        infrastructure = await self._external(cluster, spec.infrastructure_ref)
        control_plane = await self._external(cluster, spec.control_plane_ref)
        seen = Seen(cluster, self._clock.now(), infrastructure, control_plane)
        if deleting:
            return replace(seen, children=await self._children_left(cluster, control_plane, infrastructure))
        if control_plane is not None:
            return seen
        seen = replace(seen, first_node=min((each.name for each in self._nodes(key)), default=""))
        if seen.endpoint is None:
            return seen
        authority = await self._authority(key)
        kubeconfig = await self._kubeconfig(key, authority)
        seen = replace(seen, authority=authority, kubeconfig=kubeconfig)
        return replace(seen, unverified=self._unverified(key, seen))

    def _unverified(self, key: Key, seen: Seen) -> str | None:
        """As ``Seen.unverified``; the API server is asked where the kubeconfig has another authority."""
        held, authority, endpoint = seen.kubeconfig, seen.authority, seen.endpoint
        if held is None or authority is None or endpoint is None or not held.owned_by(seen.owner):
            return ""
        if authority_is_unfit(authority, seen.now, signs=True) or not trusts_another(held, authority):
            self._verifier.forget(key)
            return ""
        return self._verifier.problem(key, url(endpoint), authority.pair)

    def made(self, cluster: Key, kubeconfig: Secret) -> None:
        """The kubeconfig was made; this Secret is what the server answered."""
        self._kubeconfigs[cluster] = read_secret(kubeconfig)

    def taken(self, cluster: Key) -> None:
        """The kubeconfig was to be made, and there is a Secret of its name."""
        self._unseen.add(cluster)

    def forget(self, key: Key) -> None:
        """There is no such Cluster any more."""
        self._references.forget(key)
        self._verifier.forget(key)
        self._kubeconfigs.pop(key, None)
        self._authorities.pop(key, None)
        self._unseen.discard(key)
        for name in (names.kubeconfig_secret(key.name), f"{key.name}{names.CA_SUFFIX}"):
            self._missing.pop(Key(key.namespace, name), None)

    async def _external(self, cluster: Cluster, ref: ObjectReference | None) -> External | None:
        if ref is None:
            return None
        found = look_up(self._references, _key(cluster), ref)
        if not cluster.metadata.deleting or not found.uncertain:
            return found
        return found.if_served(served=await self._references.is_served(ref.group, ref.kind))

    async def _children_left(self, cluster: Cluster, *externals: External | None) -> tuple[Child, ...]:
        """What there is of machines and what makes them; the server is asked before another stage begins."""
        cached = (
            (kind, informer.by(BY_CLUSTER, str(_key(cluster)))) for kind, informer in self.children.items()
        )
        found = tuple(_children(cached))
        if found or any(each is not None and each.deleting for each in externals):
            return found
        return tuple(_children([(kind, await self._listed(kind, cluster)) for kind in CHILDREN]))

    async def _listed(self, kind: Kind[Any], cluster: Cluster) -> list[Any]:
        """The objects of a cluster, from the server; admission and their controllers give them its label."""
        key = _key(cluster)
        label = f"{names.CLUSTER_NAME_LABEL}={key.name}"
        return [
            each
            for each in await self._client.list(kind, key.namespace, labels=label)
            if cluster_of(each) == key
        ]

    def _nodes(self, key: Key) -> Iterable[Key]:
        return self.children[MACHINE].keys_by(BY_CONTROL_PLANE_NODES, str(key))

    async def _kubeconfig(self, key: Key, authority: Found | None) -> Found | None:
        """The Secret with the kubeconfig, read once in each version that the watch shows.

        One that a user made without the cluster's label is in no cache, and found by its name: when ours is
        to be made, or, where that cannot be, after ``UNHEARD``.
        """
        name = Key(key.namespace, names.kubeconfig_secret(key.name))
        header, known = self.secrets.header(name), self._kubeconfigs.get(key)
        if header is not None and known and known.metadata.resource_version == str(header.version):
            return known
        if header is None and key not in self._unseen:
            if authority is not None and not authority_is_unfit(authority, self._clock.now(), signs=True):
                return None
            if name not in self._missing:
                self._missing[name] = self._clock.monotonic()
        secret = await self._secret(name)
        if secret is None:
            self._unseen.discard(key)
            return None
        if header is None:
            self._unseen.add(key)
        self._kubeconfigs[key] = read_secret(secret)
        return self._kubeconfigs[key]

    async def _authority(self, key: Key) -> Found | None:
        """The certificate authority, read once in each version that the watch shows."""
        name = Key(key.namespace, f"{key.name}{names.CA_SUFFIX}")
        header, known = self.secrets.header(name), self._authorities.get(key)
        if header is not None and known and known.metadata.resource_version == str(header.version):
            return known
        secret = await self._secret(name)
        if secret is None:
            return None
        self._authorities[key] = read_secret(secret)
        return self._authorities[key]

    async def _secret(self, name: Key) -> Secret | None:
        """A Secret, from the server; one that no watch shows is asked for every ``UNHEARD`` at most."""
        now, asked = self._clock.monotonic(), self._missing.pop(name, -inf)
        if self.secrets.header(name) is None and now - asked < delays.UNHEARD.total_seconds():
            self._missing[name] = asked
            return None
        try:
            return await self._client.get(SECRET, name)
        except NotFound:
            self._missing[name] = now
            return None


def _children(found: Iterable[tuple[Kind[Any], Iterable[Any]]]) -> Iterator[Child]:
    for kind, objects in found:
        metas: list[ObjectMeta] = [each.metadata for each in objects]
        for meta in sorted(metas, key=lambda each: each.name):
            yield Child(
                kind=kind,
                kind_name=kind.resource.kind,
                name=meta.name,
                uid=meta.uid,
                deleted_at=meta.deletion_timestamp,
                controller=meta.controller.uid if meta.controller is not None else "",
                paused=names.paused(meta.annotations),
                begun=kind is not MACHINE or names.MACHINE_FINALIZER in meta.finalizers,
                control_plane=kind is MACHINE and names.CONTROL_PLANE_LABEL in meta.labels,
            )


def _key(cluster: Cluster) -> Key:
    return Key(cluster.metadata.namespace, cluster.metadata.name)
