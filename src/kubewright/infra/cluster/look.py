"""Look at one KubewrightCluster: the caches, and what is known of the calls about its endpoint.

Called by    ``act``.
"""

from kubewright.api.cluster.names import CLUSTER_NAME_LABEL
from kubewright.api.cluster.v1beta1 import Cluster
from kubewright.api.faults import summary
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_CLUSTER, KubewrightCluster
from kubewright.api.infra.validate import validate_cluster
from kubewright.api.meta import ObjectMeta
from kubewright.base.clock import SteadyClock
from kubewright.driver.contract import ClassRequest
from kubewright.infra.caches import Shared, paused, untold
from kubewright.infra.cluster.endpoints import EndpointCalls
from kubewright.infra.cluster.seen import Seen
from kubewright.infra.provision import class_request, cloud_owner
from kubewright.wire.gvk import Key


class Looker:
    """Reads KubewrightClusters, from the caches and from what this process knows of its calls. ``clock`` is
    steady."""

    def __init__(self, shared: Shared, calls: EndpointCalls, clock: SteadyClock) -> None:
        self._caches = shared.caches
        self._driver = shared.driver
        self._calls = calls
        self._clock = clock

    def look(self, cluster: KubewrightCluster) -> Seen:
        """Everything that the decision reads."""
        meta, owner = cluster.metadata, self._caches.cluster_of(cluster)
        _, missing = self._caches.credentials(meta.namespace, cluster.spec.credentials_ref)
        name = cluster_name(meta, owner)
        named = self._caches.cluster_named(meta.namespace, name)
        machines = self._caches.machines_in(Key(meta.namespace, name)) if name else ()
        untellable = untold(self._caches.clusters, Key(meta.namespace, meta.name))
        broken = "" if meta.deleting else summary(validate_cluster(cluster))  # to give back is always right
        wrong = untellable or broken or self._driver.problem(cluster.spec.driver)
        original = self._caches.original_of_cluster(cluster, named)
        return Seen(
            cluster,
            self._clock.now(),
            owner=owner,
            lives=named is not None and not named.metadata.deleting,
            paused=paused(meta, owner),
            machines=machines,
            unowned=self._caches.unowned(machines) if meta.deleting else (),
            original=original.name if original is not None else "",
            problem=wrong or missing,
            offers_endpoints=self._driver.offers_endpoints(cluster.spec.driver),
            endpoint=self._calls.seen(meta.uid),
        )

    def request(self, seen: Seen) -> ClassRequest:
        """What a driver is told in a call about the endpoint of a cluster."""
        spec, meta = seen.cluster.spec, seen.cluster.metadata
        credentials, _ = self._caches.credentials(meta.namespace, spec.credentials_ref)
        known = cloud_owner(KUBEWRIGHT_CLUSTER, meta)
        return class_request(spec, meta.namespace, cluster_name(meta, seen.owner), known, credentials)


def cluster_name(meta: ObjectMeta, owner: Cluster | None) -> str:
    """The Cluster that a KubewrightCluster is of: its owner, or where there is none what its label says."""
    return owner.name if owner is not None else meta.labels.get(CLUSTER_NAME_LABEL, "")
