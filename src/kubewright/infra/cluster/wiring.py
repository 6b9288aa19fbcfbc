"""Which changes give a KubewrightCluster a pass: its own, and those of its Cluster, its machines and Secrets.

Called by    ``infra.world``.
"""

from kubewright.api.cluster.names import CLUSTER_NAME_LABEL
from kubewright.api.cluster.v1beta1 import Cluster, Machine
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_CLUSTER, KubewrightMachine
from kubewright.infra.caches import Caches, Shared, refers
from kubewright.infra.cluster.act import InfraClusters
from kubewright.infra.cluster.endpoints import EndpointCalls
from kubewright.infra.cluster.look import Looker
from kubewright.kube.informer import Change
from kubewright.runtime.controller import Controller, only, status_alone
from kubewright.wire.gvk import Key


def wire(shared: Shared) -> tuple[Controller, EndpointCalls]:
    """The controller, listening to everything that a decision looks at; and the calls, to be run."""
    caches, steady = shared.caches, shared.control.steady()
    calls = EndpointCalls(shared.driver, steady, lambda key: controller.enqueue(key, "the cloud answered"))
    controller = Controller(
        "kubewrightcluster",
        InfraClusters(shared, Looker(shared, calls, steady), calls),
        shared.clock,
        workers=shared.settings.workers,
        metrics=shared.metrics,
    )
    controller.watches(caches.clusters, only(lambda change: not status_alone(change)))
    controller.watches(
        caches.core_clusters, only(_owner_differs, lambda change: _clusters_of_owner(caches, change))
    )
    controller.watches(
        caches.core_machines,  # the end of one that names a machine which nothing owns
        only(lambda change: change.after() is None, lambda change: _cluster_of_machine(caches, change)),
    )
    controller.watches(caches.machines, lambda change: _cluster_of_machine(caches, change))
    controller.watches(caches.secrets, lambda change: caches.clusters.keys_by("credentials", str(change.key)))
    return controller, calls


def _owner_differs(change: Change[Cluster]) -> bool:
    """Whether something of a Cluster changed that its infrastructure depends on."""
    before, after = change.before(), change.after()
    if before is None or after is None:
        return True
    return (before.spec, before.metadata.deleting) != (after.spec, after.metadata.deleting)


def _clusters_of_owner(caches: Caches, change: Change[Cluster]) -> list[Key]:
    """The KubewrightClusters that a Cluster refers to, or referred to before the change, or whose label
    names it."""
    sides = (change.before(), change.after())
    refs = [each.spec.infrastructure_ref for each in sides if each is not None]
    ours = [ref.name for ref in refs if ref is not None and refers(ref, KUBEWRIGHT_CLUSTER)]
    referred = [Key(change.key.namespace, name) for name in ours]
    return list(dict.fromkeys((*referred, *caches.clusters_in(change.key))))


def _cluster_of_machine(
    caches: Caches, change: Change[KubewrightMachine] | Change[Machine]
) -> tuple[Key, ...]:
    """When a machine is gone or has lost its owners, the KubewrightCluster whose deletion may wait for it."""
    before, after = change.before(), change.after()
    last = after or before
    if last is None or (after is not None and after.metadata.owner_references):
        return ()
    name = last.metadata.labels.get(CLUSTER_NAME_LABEL, "")
    return caches.clusters_in(Key(change.key.namespace, name)) if name else ()
