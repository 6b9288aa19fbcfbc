"""The kubeconfigs in Secrets that have the name ``<cluster>-kubeconfig`` and lack the cluster's label.

Theory.      The contract of such a Secret is its name; the label is what lets it be watched without all
             other Secrets (``kubeconfigs``). A Secret without it, which a user or an older provider made,
             brings no event. So the Secret of each cluster that has been without one for a whole ``PERIOD``
             is read by its name, and read again in each period after that: its changes are not heard of
             either.
Invariants.  One read at a time, each with a deadline: clusters that wait for their Secret cost at most a read
             each in a period, and one whose Secret has the label costs none. What cannot be read now leaves
             what is known.
Source       capi.md §6.3, §6.5; S0-46.
Called by    ``workload``.
"""

from collections.abc import Callable, Iterable

import structlog

from kubewright.api.cluster.names import kubeconfig_secret
from kubewright.api.core import SECRET
from kubewright.api.kinds import Undecodable
from kubewright.base import delays
from kubewright.clusters.sessions.kubeconfigs import Kubeconfig, kubeconfig_in, unreadable
from kubewright.kube.client import Client
from kubewright.kube.errors import TransportError
from kubewright.wire.errors import ApiError, NotFound
from kubewright.wire.gvk import Key

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
