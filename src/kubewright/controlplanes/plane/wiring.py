"""Which changes enqueue a control plane.

Invariants.  Our own write of a status enqueues nothing. A change may enqueue too many control planes, never
             too few: a change of a component enqueues every control plane that names it, controls it, or
             controlled it before.
Called by    ``controlplanes.wiring``.
"""

from collections.abc import Iterable
from typing import Any

from kubewright.api.cluster import names as cluster_names
from kubewright.api.controlplane.names import Component
from kubewright.controlplanes.caches import BY_CLUSTER, BY_COMPONENT, Caches
from kubewright.controlplanes.family import owning_plane
from kubewright.controlplanes.plane.act import ControlPlanes
from kubewright.kube.informer import Change
from kubewright.runtime.controller import Controller
from kubewright.runtime.world import Environment
from kubewright.wire.gvk import Key

CONTROLLER = "nestedcontrolplane"


def wire(environment: Environment) -> Controller:
    """The controller, with watches on everything that a decision reads."""
    caches = Caches(environment.control.caches)
    planes = ControlPlanes(environment, caches)
    controller = Controller(CONTROLLER, planes, environment.clock, metrics=environment.metrics)

    def of_secret(change: Change[Any]) -> Iterable[Key]:
        if change.old is not None and change.new is not None:
            return ()
        suffix = cluster_names.KUBECONFIG_SUFFIX
        if not change.key.name.endswith(suffix):
            return ()
        cluster = Key(change.key.namespace, change.key.name.removesuffix(suffix))
        return caches.planes.keys_by(BY_CLUSTER, str(cluster))

    controller.watches(caches.planes, planes.reports.matters)
    for component, informer in caches.components.items():
        controller.watches(informer, _of_component(caches, component))
    controller.watches(caches.clusters, caches.planes_of_cluster)
    return controller.watches(caches.secrets, of_secret)


def _of_component(caches: Caches, component: Component) -> Any:
    def keys(change: Change[Any]) -> Iterable[Key]:
        """The control planes that name a component, that control it, and that controlled it before."""
        named = caches.planes.keys_by(BY_COMPONENT, f"{component}/{change.key}")
        owners = [
            owning_plane(each.metadata) for each in (change.before(), change.after()) if each is not None
        ]
        return {*named, *(Key(change.key.namespace, each.name) for each in owners if each is not None)}

    return keys
