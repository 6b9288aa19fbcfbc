"""What wakes a Cluster.

Theory.      A Cluster is looked at when it changes, when an object of a provider that it refers to does in
             what the contract names (``external.object``), when the first machine of its control plane
             becomes a Node, when a Secret of its own changes, and, while it is being deleted, when one of
             its children comes, becomes its own or is gone.
Invariants.  Machines wake it by what their headers say: ten thousand workers cost it nothing.
Called by    ``clusters.world``.
"""

from collections.abc import Iterable
from typing import Any

from kubewright.api.cluster import names
from kubewright.api.cluster.v1beta1 import CLUSTER, GROUP, MACHINE, Machine
from kubewright.api.meta import KubeObject
from kubewright.base import delays
from kubewright.clusters.cluster.act import Clusters
from kubewright.clusters.cluster.look import Looker, Verifier
from kubewright.clusters.external.object import same_for_cluster
from kubewright.kube.informer import Change
from kubewright.runtime.controller import Controller, status_alone
from kubewright.runtime.references.registry import References
from kubewright.runtime.world import Environment
from kubewright.wire.gvk import Key


def wire(environment: Environment, references: References, verifier: Verifier) -> Controller:
    """The controller of Clusters, listening to all that a decision looks at. It does not run ``verifier``."""
    informers = environment.control.caches
    lookup = references.lookup_for(GROUP, CLUSTER.resource.kind)
    looker = Looker(informers.client, informers, lookup, verifier)
    clusters = Clusters(environment, looker)
    controller = Controller("cluster", clusters, environment.clock, metrics=environment.metrics)

    def deleting(key: Key) -> bool:
        header = looker.clusters.header(key)
        return header is not None and header.deleting

    def of_child(change: Change[Any]) -> Iterable[Key]:
        """The Cluster that is being deleted, when a child of it is gone, has come or has become its own."""
        key = Key(change.key.namespace, _cluster_name(change))
        return (key,) if deleting(key) and _matters_to_deletion(change) else ()

    def of_machine(change: Change[Machine]) -> Iterable[Key]:
        """The same, and the Cluster of a machine of a control plane that became a Node."""
        return {*of_child(change), *_first_node(change)}

    controller.watches(looker.clusters, clusters.reports.matters)
    for kind, informer in looker.children.items():
        controller.watches(informer, of_machine if kind is MACHINE else of_child, gather=_gather)
    controller.watches(looker.secrets, _of_secret)
    references.subscribe((GROUP, CLUSTER.resource.kind), controller.enqueue, same_for_cluster)
    verifier.answered = controller.enqueue
    return controller


def _cluster_name(change: Change[Any]) -> str:
    """The cluster of a child: by its label, if it has that already, so that it need not be decoded."""
    header = change.new or change.old
    if header is not None and (name := header.labels.get(names.CLUSTER_NAME_LABEL)):
        return name
    child = change.after() or change.before()
    return child.spec.cluster_name if child is not None else ""


def _matters_to_deletion(change: Change[Any]) -> bool:
    """Whether a child of a Cluster that is being deleted is gone, or must be deleted too."""
    return change.new is None or not (change.new.deleting or status_alone(change))


def _gather(change: Change[Any]) -> float:
    """Children go in bursts; a first Node is not waited for."""
    return delays.GATHER if change.new is None else 0.0


def _first_node(change: Change[Machine]) -> Iterable[Key]:
    new = change.new
    if new is None or names.CONTROL_PLANE_LABEL not in new.labels:
        return ()
    before, after = change.before(), change.after()
    was = before is not None and before.status.node_ref is not None
    now = after is not None and after.status.node_ref is not None
    return (Key(new.key.namespace, after.spec.cluster_name),) if after is not None and now and not was else ()


def _of_secret(change: Change[KubeObject]) -> Iterable[Key]:
    """The Cluster whose certificate authority or kubeconfig a Secret is, by its name."""
    name = change.key.name
    for suffix in (names.CA_SUFFIX, names.KUBECONFIG_SUFFIX):
        if name.endswith(suffix):
            return (Key(change.key.namespace, name.removesuffix(suffix)),)
    return ()
