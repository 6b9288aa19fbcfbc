"""One NestedCluster, one pass: look, decide, act. And which changes enqueue a NestedCluster.

Invariants.  No PUT: every write is a patch onto the version that was read. A change may enqueue too many
             NestedClusters, never too few.
Called by    ``runtime.controller``; wired by ``controlplanes.wiring``.
"""

from collections.abc import Iterable
from typing import Any

from kubewright.api.cluster.v1beta1 import CLUSTER, Cluster
from kubewright.api.cluster.v1beta1 import GROUP as CORE
from kubewright.api.controlplane.names import CLUSTER_REPORTER
from kubewright.api.controlplane.v1alpha4 import (
    NESTED_CLUSTER,
    NESTED_CONTROL_PLANE,
    NestedCluster,
    NestedClusterStatus,
)
from kubewright.controlplanes.family import pause_of
from kubewright.controlplanes.nestedcluster.decide import Plan, PublishEndpoint, Seen, decide, status_of
from kubewright.kube.informer import Change, Informers
from kubewright.runtime.controller import Controller, only, status_alone
from kubewright.runtime.events import ComponentRecorder
from kubewright.runtime.kernel import Effect, ObjectReconciler, Outcome
from kubewright.runtime.world import Environment
from kubewright.wire.gvk import Key, split_api_version

CONTROLLER = "nestedcluster"
BY_OWNER = "nested-clusters-by-cluster"
"""NestedClusters by ``namespace/name`` of the Cluster that owns them."""
BY_PLANE = "clusters-by-nested-control-plane"
"""Clusters by ``namespace/name`` of the NestedControlPlane that they name."""


class Caches:
    """The informers and indexes that this controller needs."""

    def __init__(self, informers: Informers) -> None:
        self.found = informers.get(NESTED_CLUSTER)
        self.clusters = informers.get(CLUSTER)
        self.planes = informers.get(NESTED_CONTROL_PLANE)
        self.found.index(BY_OWNER, lambda each: _known(owner_key(each)))
        self.clusters.index(BY_PLANE, lambda each: _known(plane_key(each)))


class NestedClusters(ObjectReconciler[NestedCluster, Seen, Plan]):
    """The reconciler of NestedClusters."""

    def __init__(self, environment: Environment, caches: Caches) -> None:
        recorder = ComponentRecorder(environment.recorder, CLUSTER_REPORTER)
        super().__init__(environment.control.client, caches.found, recorder)
        self._caches = caches

    async def look(self, found: NestedCluster) -> Seen:
        """Read one NestedCluster, its Cluster and its control plane."""
        at = owner_key(found)
        owner = self._caches.clusters.get(at) if at is not None else None
        named = plane_key(owner) if owner is not None else None
        return Seen(
            found,
            self.client.clock.now(),
            owner=owner,
            plane=self._caches.planes.get(named) if named is not None else None,
            pause=pause_of(found.metadata, cluster=owner),
        )

    def decide(self, seen: Seen) -> Plan:
        """As ``decide.decide``."""
        return decide(seen)

    def act(self, seen: Seen, step: PublishEndpoint, outcome: Outcome) -> Effect:
        """What performs a step."""
        published = {"host": step.endpoint.host, "port": step.endpoint.port}
        return self.patch(outcome, {"spec": {"controlPlaneEndpoint": published}})

    def status(self, seen: Seen, plan: Plan, outcome: Outcome) -> NestedClusterStatus:
        """As ``decide.status_of``."""
        return status_of(seen)


def wire(environment: Environment) -> Controller:
    """The controller, with watches on everything that a decision reads."""
    caches = Caches(environment.control.caches)
    controller = Controller(
        CONTROLLER, NestedClusters(environment, caches), environment.clock, metrics=environment.metrics
    )

    def of_cluster(change: Change[Cluster]) -> Iterable[Key]:
        before, after = change.before(), change.after()
        if before is not None and after is not None and before.spec == after.spec:
            return ()
        return caches.found.keys_by(BY_OWNER, str(change.key))

    def of_plane(change: Change[Any]) -> Iterable[Key]:
        clusters = caches.clusters.keys_by(BY_PLANE, str(change.key))
        return {key for cluster in clusters for key in caches.found.keys_by(BY_OWNER, str(cluster))}

    controller.watches(caches.found, only(lambda change: not status_alone(change)))
    controller.watches(caches.clusters, of_cluster)
    return controller.watches(caches.planes, of_plane)


def owner_key(found: NestedCluster) -> Key | None:
    """The Cluster that owns a NestedCluster."""
    for owner in found.metadata.owner_references:
        if (split_api_version(owner.api_version)[0], owner.kind) == (CORE, CLUSTER.resource.kind):
            return Key(found.namespace, owner.name)
    return None


def plane_key(cluster: Cluster) -> Key | None:
    """The NestedControlPlane that a Cluster names; None: it names none, or another kind."""
    ref, resource = cluster.spec.control_plane_ref, NESTED_CONTROL_PLANE.resource
    if ref is None or (ref.group, ref.kind) != (resource.group, resource.kind):
        return None
    return Key(ref.namespace or cluster.namespace, ref.name)


def _known(key: Key | None) -> tuple[str, ...]:
    return (str(key),) if key is not None else ()
