"""The lookup of workload clusters: a session for each Cluster, or the reason why there is none.

Theory.      A session is wanted while the Cluster exists, may be reached, and has a kubeconfig. It may be
             reached from when its control plane is initialized; where nothing but our own machines can tell
             that (no ``controlPlaneRef``), from when there is a kubeconfig: their Nodes are how it is found
             out. Another kubeconfig makes another session; the deletion of the Cluster ends it.
             A Secret with the cluster's label is heard of at once, one that only has the name is found by a
             read within a minute (``Unlabelled``).
Unlabelled.  The contract of such a Secret is its name; the label is what lets it be watched without all
             other Secrets (``Kubeconfigs``). A Secret without it, which a user or an older provider made,
             brings no event. So the Secret of each cluster that has been without one for a whole ``PERIOD``
             is read by its name, and read again in each period after that: its changes are not heard of
             either.
Kubeconfigs  The label of a cluster is on many Secrets: bootstrap data, certificates. The watch brings them
             all, and only those named ``<cluster>-kubeconfig`` are kept, by their value alone. A changed
             value is another kubeconfig, noticed at once; other changes of the Secret are none.
Invariants.  A kubeconfig runs no program and reads no file of ours (``kube.config.inline_access``). What is
             wrong with it is in the error of ``get``, without its content. ``run`` owns what it starts, and
             watches nothing when it has ended. Who may write is not known here: see ``lending``. One read at
             a time, each with a deadline: clusters that wait for their Secret cost at most a read each in a
             period, and one whose Secret has the label costs none. What cannot be read now leaves what is
             known. A ``kube.feed.Sink``. A value is in no ``repr``, log or message. ``changed`` is called
             with the key of a cluster after its kubeconfig came, changed or went. Whether the value is a
             kubeconfig is seen when it is used: thousands of them are not parsed at once.
Called by    ``compose``, which lends the sessions of one such lookup to the terms of a process
             (``runtime.sessions.lending``).
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import structlog

from kubewright.api.cluster.conditions import ConditionType
from kubewright.api.cluster.names import (
    CLUSTER_NAME_LABEL,
    KUBECONFIG_SUFFIX,
    SECRET_VALUE_KEY,
    kubeconfig_secret,
)
from kubewright.api.cluster.v1beta1 import CLUSTER, Cluster
from kubewright.api.conditions import is_condition_true
from kubewright.api.core import SECRET, Secret
from kubewright.api.kinds import Kind, Undecodable
from kubewright.base import delays
from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput
from kubewright.kube import config
from kubewright.kube.access import Access
from kubewright.kube.client import Client
from kubewright.kube.errors import TransportError
from kubewright.kube.feed import Feed
from kubewright.kube.header import Header
from kubewright.kube.informer import Change, Informer
from kubewright.kube.transport import Transport
from kubewright.runtime.controller import Admits
from kubewright.runtime.sessions.registry import Indexes, Sessions, Settings
from kubewright.runtime.sessions.session import Health, Listener, NotConnected, Session
from kubewright.wire.errors import ApiError, NotFound
from kubewright.wire.gvk import Key
from kubewright.wire.watch import DELETED


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """The content of a Secret; or, where ``value`` is empty, what the Secret lacks."""

    value: bytes = field(default=b"", repr=False)
    problem: str = ""


def read(header: Header) -> tuple[Key, Kubeconfig] | None:
    """The cluster whose kubeconfig a Secret holds, and the kubeconfig; None: it is another Secret."""
    cluster = header.key.name.removesuffix(KUBECONFIG_SUFFIX)
    if cluster == header.key.name or header.labels.get(CLUSTER_NAME_LABEL) != cluster:
        return None
    try:
        kubeconfig = kubeconfig_in(header.key, SECRET.decode(header.data))
    except Undecodable:
        kubeconfig = unreadable(header.key)
    return Key(header.key.namespace, cluster), kubeconfig


def kubeconfig_in(name: Key, secret: Secret) -> Kubeconfig:
    """The kubeconfig in a Secret of this name."""
    value = secret.data.get(SECRET_VALUE_KEY, b"")
    return Kubeconfig(value, "" if value else f"Secret {name} has no {SECRET_VALUE_KEY}")


def unreadable(name: Key) -> Kubeconfig:
    """What is known of a Secret whose form is not that of a Secret."""
    return Kubeconfig(problem=f"Secret {name} cannot be read")


class Kubeconfigs:
    """The kubeconfigs of all clusters. ``complete``: the first list was read to its end."""

    def __init__(self, changed: Callable[[Key], None]) -> None:
        self.seen = 0
        self.complete = False
        self._changed = changed
        self._known: dict[Key, Kubeconfig] = {}
        self._listed: dict[Key, Kubeconfig] = {}

    def get(self, cluster: Key) -> Kubeconfig | None:
        """The kubeconfig of a cluster; None: there is no Secret with one."""
        return self._known.get(cluster)

    def begin(self) -> None:
        """A list is about to be asked for."""
        self._listed = {}

    def page(self, version: int, items: list[Header]) -> None:
        """One page of it."""
        self.seen = version
        self._listed.update(found for each in items if (found := read(each)) is not None)

    def end(self) -> None:
        """That was the last page."""
        before, self._known, self._listed = self._known, self._listed, {}
        self.complete = True
        for cluster in {**before, **self._known}:
            if before.get(cluster) != self._known.get(cluster):
                self._changed(cluster)

    def event(self, kind: str, header: Header) -> None:
        """An ADDED, MODIFIED or DELETED."""
        self.seen = header.version
        if (found := read(header)) is None:
            return
        cluster, kubeconfig = found
        before = self._known.pop(cluster, None)
        if kind != DELETED:
            self._known[cluster] = kubeconfig
        if before != self._known.get(cluster):
            self._changed(cluster)

    def bookmark(self, version: int) -> None:
        """Nothing else happened up to ``version``."""
        self.seen = version


PERIOD = delays.UNHEARD.total_seconds()

log = structlog.get_logger("kubewright.sessions")


class Unlabelled:
    """The kubeconfigs that are found by name. ``without`` names the clusters that have none with the label.

    ``changed`` is called with the key of a cluster after its kubeconfig was found, changed or went.
    """

    def __init__(
        self, client: Client, without: Callable[[], Iterable[Key]], changed: Callable[[Key], None]
    ) -> None:
        self._client = client
        self._without = without
        self._changed = changed
        self._known: dict[Key, Kubeconfig] = {}

    def get(self, cluster: Key) -> Kubeconfig | None:
        """The kubeconfig that was found for a cluster without one that has the label."""
        return self._known.get(cluster)

    async def run(self) -> None:
        """Look in each period, until cancelled."""
        before: set[Key] = set()
        while True:
            await self._client.clock.sleep(PERIOD)
            without = set(self._without())
            for cluster in set(self._known) - without:
                del self._known[cluster]
                self._changed(cluster)
            for cluster in sorted(without & before, key=str):
                await self._look(cluster)
            before = without

    async def _look(self, cluster: Key) -> None:
        name = Key(cluster.namespace, kubeconfig_secret(cluster.name))
        found: Kubeconfig | None
        try:
            found = kubeconfig_in(name, await self._client.get(SECRET, name))
        except NotFound:
            found = None
        except Undecodable:
            found = unreadable(name)
        except (ApiError, TransportError) as error:
            log.info("a kubeconfig cannot be read", secret=str(name), error=str(error))
            return
        if found == self._known.get(cluster):
            return
        self._known.pop(cluster, None)
        if found is not None:
            self._known[cluster] = found
        self._changed(cluster)


Connect = Callable[[Access, Clock], Transport]
"""Makes a transport; contacts nothing."""

AGENT = "kubewright/cluster-api"


def by_sockets(access: Access, clock: Clock) -> Transport:
    """The transport of all clusters but simulated ones."""
    return config.connect(access, clock=clock)


def reason_to_wait(cluster: Cluster) -> str:
    """Why a cluster is not to be connected to yet, as a clause; empty: it is."""
    if cluster.spec.control_plane_ref is None:
        return ""
    if is_condition_true(cluster.status.conditions, ConditionType.CONTROL_PLANE_INITIALIZED):
        return ""
    return "its control plane is not initialized yet"


class WorkloadClusters:
    """The sessions with all clusters of one management cluster (``runtime.sessions.lending.Workloads``).

    ``admits``: whether this program works on a Cluster with these labels; the others are not connected to.
    """

    def __init__(
        self,
        control: Session,
        *,
        connect: Connect = by_sockets,
        settings: Settings | None = None,
        admits: Admits = lambda labels: True,
    ) -> None:
        self._control = control
        self._clock = control.client.clock
        self._connect = connect
        self._admits = admits
        self._clusters: Informer[Cluster] | None = None
        self._kubeconfigs: dict[str, tuple[Kubeconfigs, Feed]] = {}
        for part in control.caches.scope(labels=CLUSTER_NAME_LABEL).parts:
            found = Kubeconfigs(self._want_or_drop)
            self._kubeconfigs[part.namespace] = found, Feed(control.client, SECRET.resource, part, found)
        self._unlabelled = Unlabelled(control.client, self._without_secret, self._want_or_drop)
        self._sessions: Sessions[Kubeconfig] = Sessions(self._clock, self._client_for, settings=settings)

    def get(self, cluster: Key, /) -> Session:
        """As ``Lookup.get``."""
        if self._sessions.health(cluster) is None:
            raise NotConnected(f"cluster {cluster} is not connected: {self._why_not(cluster)}")
        return self._sessions.get(cluster)

    def health(self, cluster: Key, /) -> Health | None:
        """As ``Workloads.health``."""
        return self._sessions.health(cluster)

    def cache(self, kind: Kind[Any], indexes: Indexes | None = None) -> None:
        """As ``Workloads.cache``."""
        self._sessions.cache(kind, indexes)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """As ``Workloads.subscribe``."""
        return self._sessions.subscribe(listener)

    async def run(self) -> None:
        """Follow the Clusters and their kubeconfigs, and be connected, until cancelled."""
        self._clusters = clusters = self._control.caches.get(CLUSTER)
        unsubscribe = clusters.subscribe(self._changed)
        try:
            async with asyncio.TaskGroup() as group:
                for _, feed in self._kubeconfigs.values():
                    group.create_task(feed.run(), name="kubeconfigs")
                group.create_task(self._unlabelled.run(), name="kubeconfigs without a label")
                group.create_task(self._sessions.run(), name="sessions of clusters")
        finally:
            unsubscribe()
            self._control.caches.release(clusters)

    def _changed(self, change: Change[Cluster]) -> None:
        self._want_or_drop(change.key)

    def _want_or_drop(self, cluster: Key) -> None:
        """Want or drop the session with a cluster, by what is known of it now."""
        kubeconfig = self._kubeconfig(cluster)
        if kubeconfig is None or not self._may_be_reached(cluster):
            self._sessions.drop(cluster)
        else:
            self._sessions.want(cluster, kubeconfig)

    def _may_be_reached(self, cluster: Key) -> bool:
        found = None if self._clusters is None else self._clusters.get(cluster)
        if found is None or not self._admits(found.metadata.labels):
            return False
        return not reason_to_wait(found) or self._was_connected(cluster)

    def _kubeconfig(self, cluster: Key) -> Kubeconfig | None:
        """The kubeconfig of a cluster; that with the label is preferred."""
        return self._kubeconfigs_of(cluster.namespace)[0].get(cluster) or self._unlabelled.get(cluster)

    def _without_secret(self) -> Iterable[Key]:
        """The clusters that could be reached if there were a Secret with the label."""
        for header in () if self._clusters is None else self._clusters.headers():
            labelled = self._kubeconfigs_of(header.key.namespace)[0]
            if labelled.complete and labelled.get(header.key) is None and self._may_be_reached(header.key):
                yield header.key

    def _kubeconfigs_of(self, namespace: str) -> tuple[Kubeconfigs, Feed]:
        """The kubeconfigs of a namespace, and what brings them."""
        return self._kubeconfigs.get(namespace) or next(iter(self._kubeconfigs.values()))

    def _was_connected(self, cluster: Key) -> bool:
        """Whether the cluster was connected to before: a status that was lost in a move ends no session."""
        return self._sessions.health(cluster) is not None

    def _why_not(self, cluster: Key) -> str:
        if self._clusters is None:
            return "connecting has not begun"
        found = self._clusters.get(cluster)
        if found is None:
            return "there is no such Cluster"
        if not self._admits(found.metadata.labels):
            return "its Cluster does not have the label of the watch filter that this program works with"
        kubeconfigs, feed = self._kubeconfigs_of(cluster.namespace)
        if not kubeconfigs.complete:
            trouble = feed.counts.trouble
            return f"the Secrets are not listed yet{': ' if trouble else ''}{trouble}"
        if self._kubeconfig(cluster) is None:
            secret = Key(cluster.namespace, kubeconfig_secret(cluster.name))
            label = f"{CLUSTER_NAME_LABEL}={cluster.name}"
            return f"there is no Secret {secret}; one without the label {label} is noticed within a minute"
        return reason_to_wait(found)

    def _client_for(self, cluster: Key, kubeconfig: Kubeconfig) -> Client:
        """A client with these credentials.

        Raises:
            InvalidInput: they are none; the message says what is wrong, and none of the content.
        """
        if kubeconfig.problem:
            raise InvalidInput(kubeconfig.problem)
        secret = Key(cluster.namespace, kubeconfig_secret(cluster.name))
        access = config.inline_access(kubeconfig.value, source=f"the kubeconfig in Secret {secret}")
        return Client(self._connect(access, self._clock), self._clock, name=str(cluster), user_agent=AGENT)
