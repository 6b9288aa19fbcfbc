"""The lookup of workload clusters: a session for each Cluster, or the reason why there is none.

Theory.      A session is wanted while the Cluster exists, may be reached, and has a kubeconfig. It may be
             reached from when its control plane is initialized; where nothing but our own machines can tell
             that (no ``controlPlaneRef``), from when there is a kubeconfig: their Nodes are how it is found
             out. Another kubeconfig makes another session; the deletion of the Cluster ends it.
Invariants.  A kubeconfig runs no program and reads no file of ours (``kube.config.inline_access``). What
             is wrong with it is in the error of ``get``, without its content. Writes pass only
             while this process leads. ``run`` owns what it starts.
Source       capi.md §6.5 (the newer design); S0-46.
Called by    the world of clusters, which makes one for each term; controllers, as ``Lookup`` and through
             ``sessions`` (``Controller.watches_in``).
"""

import asyncio
from collections.abc import Callable

from kubewright.api.cluster.names import CLUSTER_NAME_LABEL, kubeconfig_secret
from kubewright.api.cluster.reasons import ConditionType
from kubewright.api.cluster.v1beta1 import CLUSTER, Cluster
from kubewright.api.conditions import is_condition_true
from kubewright.api.core import SECRET
from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput
from kubewright.clusters.sessions.kubeconfigs import Kubeconfig, Kubeconfigs
from kubewright.clusters.sessions.node import BY_MACHINE, BY_PROVIDER_ID, CLUSTER_NODE, machines, provider_ids
from kubewright.kube import config
from kubewright.kube.access import Access
from kubewright.kube.client import Client
from kubewright.kube.feed import Feed
from kubewright.kube.fence import Entitled, FencedTransport
from kubewright.kube.informer import Change
from kubewright.kube.transport import Transport
from kubewright.runtime.controller import Admits
from kubewright.runtime.sessions.connection import Settings
from kubewright.runtime.sessions.registry import Sessions
from kubewright.runtime.sessions.session import NotConnected, Session
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
    """The sessions with all clusters of one management cluster; ``sessions`` are those to subscribe to.

    ``nodes``: keep a cache of the Nodes in each. ``admits``: whether this program works on a Cluster with
    these labels; the others are not connected to.
    """

    def __init__(
        self,
        control: Session,
        entitled: Entitled,
        *,
        connect: Connect = by_sockets,
        settings: Settings | None = None,
        nodes: bool = True,
        admits: Admits = lambda labels: True,
    ) -> None:
        self._clock = control.client.clock
        self._entitled = entitled
        self._connect = connect
        self._clusters = control.caches.get(CLUSTER)
        self._admits = admits
        self._kubeconfigs: dict[str, tuple[Kubeconfigs, Feed]] = {}
        for part in control.caches.scope(labels=CLUSTER_NAME_LABEL).parts:
            found = Kubeconfigs(self._want_or_drop)
            self._kubeconfigs[part.namespace] = found, Feed(control.client, SECRET.resource, part, found)
        self.sessions: Sessions[Kubeconfig] = Sessions(self._clock, self._client_for, settings=settings)
        if nodes:
            self.sessions.cache(CLUSTER_NODE, {BY_PROVIDER_ID: provider_ids, BY_MACHINE: machines})
        self._clusters.subscribe(self._changed)

    def get(self, cluster: Key, /) -> Session:
        """As ``Lookup.get``."""
        if self.sessions.health(cluster) is None:
            raise NotConnected(f"cluster {cluster} is not connected: {self._why_not(cluster)}")
        return self.sessions.get(cluster)

    async def run(self) -> None:
        """Follow the kubeconfigs, and be connected, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _, feed in self._kubeconfigs.values():
                group.create_task(feed.run(), name="kubeconfigs")
            group.create_task(self.sessions.run(), name="sessions of clusters")

    def _changed(self, change: Change[Cluster]) -> None:
        self._want_or_drop(change.key)

    def _want_or_drop(self, cluster: Key) -> None:
        """Want or drop the session with a cluster, by what is known of it now."""
        kubeconfig = self._kubeconfigs_of(cluster.namespace)[0].get(cluster)
        found = self._clusters.get(cluster)
        waits = found is None or (reason_to_wait(found) and not self._was_connected(cluster))
        if found is None or waits or kubeconfig is None or not self._admits(found.metadata.labels):
            self.sessions.drop(cluster)
        else:
            self.sessions.want(cluster, kubeconfig)

    def _kubeconfigs_of(self, namespace: str) -> tuple[Kubeconfigs, Feed]:
        """The kubeconfigs of a namespace, and what brings them."""
        return self._kubeconfigs.get(namespace) or next(iter(self._kubeconfigs.values()))

    def _was_connected(self, cluster: Key) -> bool:
        """Whether the cluster was connected to before: a status that was lost in a move ends no session."""
        return self.sessions.health(cluster) is not None

    def _why_not(self, cluster: Key) -> str:
        found = self._clusters.get(cluster)
        if found is None:
            return "there is no such Cluster"
        if not self._admits(found.metadata.labels):
            return "its Cluster does not have the label of the watch filter that this program works with"
        kubeconfigs, feed = self._kubeconfigs_of(cluster.namespace)
        if not kubeconfigs.complete:
            trouble = feed.counts.trouble
            return f"the Secrets are not listed yet{': ' if trouble else ''}{trouble}"
        if kubeconfigs.get(cluster) is None:
            secret = Key(cluster.namespace, kubeconfig_secret(cluster.name))
            return f"there is no Secret {secret} with the label {CLUSTER_NAME_LABEL}={cluster.name}"
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
        transport = FencedTransport(self._connect(access, self._clock), self._entitled)
        return Client(transport, self._clock, name=str(cluster), user_agent=AGENT)
