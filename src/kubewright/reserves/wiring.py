"""Which changes give a CapacityReserve a pass.

Theory.      Nodes are watched, and a change of one wakes the reserves only if it changes what a pool is: a
             heartbeat wakes none. A look reads all nodes, so among many of them a change waits for others.
Called by    the package.
"""

from collections.abc import Iterable
from typing import Any

from kubewright.api.apps import Deployment
from kubewright.api.conditions import is_condition_true
from kubewright.api.core import NODE_READY, Node
from kubewright.kube.informer import Change
from kubewright.reserves.act import BY_NAME, Caches, Reserves
from kubewright.reserves.seen import ReserveSettings
from kubewright.reserves.sizing import gathering
from kubewright.runtime.controller import Controller, only, status_alone
from kubewright.runtime.world import Environment
from kubewright.wire.gvk import Key

CONTROLLER = "reserve"


def wire(environment: Environment, settings: ReserveSettings) -> Controller:
    """The controller, with watches on everything that a decision reads."""
    caches = Caches(environment)
    controller = Controller(
        CONTROLLER, Reserves(environment, caches, settings), environment.clock, metrics=environment.metrics
    )

    def of_node(change: Change[Node]) -> Iterable[Key]:
        return () if _as_before(change) else [each.key for each in caches.found.headers()]

    def of_deployment(change: Change[Deployment]) -> Iterable[Key]:
        return caches.found.keys_by(BY_NAME, change.key.name)

    def of_class(change: Change[Any]) -> Iterable[Key]:
        return caches.found.keys_by(BY_NAME, change.key.name.rpartition(".")[0])

    controller.watches(caches.found, only(lambda change: not status_alone(change)))

    def gathered(_change: Change[Node]) -> float:
        return gathering(*(sum(1 for _ in each.headers()) for each in (caches.nodes, caches.found)))

    controller.watches(caches.nodes, of_node, gather=gathered)
    controller.watches(caches.deployments, of_deployment)
    return controller.watches(caches.classes, of_class)


def _as_before(change: Change[Node]) -> bool:
    """Whether a node is to all pools what it was."""
    before, after = change.before(), change.after()
    return before is not None and after is not None and _of_pools(before) == _of_pools(after)


def _of_pools(node: Node) -> tuple[object, ...]:
    """What pools read of a node."""
    meta, spec, status = node.metadata, node.spec, node.status
    ready = is_condition_true(status.conditions, NODE_READY)
    return (meta.uid, meta.deleting, meta.labels, spec.unschedulable, spec.taints, status.allocatable, ready)
