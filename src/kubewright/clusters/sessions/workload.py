"""The lookup of workload clusters: a session for each Cluster, or the reason why there is none.

Theory.      A session is wanted while the Cluster exists, may be reached, and has a kubeconfig. It may be
             reached from when its control plane is initialized; where nothing but our own machines can tell
             that (no ``controlPlaneRef``), from when there is a kubeconfig: their Nodes are how it is found
             out. Another kubeconfig makes another session; the deletion of the Cluster ends it.
             A Secret with the cluster's label is heard of at once, one that only has the name is found by a
             read within a minute (``unlabelled``).
Invariants.  A kubeconfig runs no program and reads no file of ours (``kube.config.inline_access``). What
             is wrong with it is in the error of ``get``, without its content. ``run`` owns what it starts,
             and watches nothing when it has ended. Who may write is not known here: see ``lending``.
Source       capi.md §6.5 (the newer design); S0-46.
Called by    ``compose``, which lends the sessions of one such lookup to the terms of a process
             (``runtime.sessions.lending``).
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from kubewright.api.cluster.conditions import ConditionType
from kubewright.api.cluster.names import CLUSTER_NAME_LABEL, kubeconfig_secret
from kubewright.api.cluster.v1beta1 import CLUSTER, Cluster
from kubewright.api.conditions import is_condition_true
from kubewright.api.core import SECRET
from kubewright.api.kinds import Kind
from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput
from kubewright.clusters.sessions.kubeconfigs import Kubeconfig, Kubeconfigs
from kubewright.clusters.sessions.unlabelled import Unlabelled
from kubewright.kube import config
from kubewright.kube.access import Access
from kubewright.kube.client import Client
from kubewright.kube.feed import Feed
from kubewright.kube.informer import Change, Informer
from kubewright.kube.transport import Transport
from kubewright.runtime.controller import Admits
from kubewright.runtime.sessions.registry import Indexes, Sessions, Settings
from kubewright.runtime.sessions.session import Health, Listener, NotConnected, Session
from kubewright.wire.gvk import Key

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
