"""The controllers of MachineSets and MachineDeployments: what they share, what enqueues an object.

Theory.      The controllers are those of ``kubewright.replicas``, with the policies of Cluster API. Both
             count machines by one index. A set is reconciled when a template that it clones, or the control
             plane that it waits for, changes; sets and deployments are when their Cluster is created, paused,
             resumed or deleted.
Called by    ``clusters.world``.
"""

from collections.abc import Iterable
from typing import Any

from kubewright.api.cluster.v1beta1 import (
    CLUSTER,
    GROUP,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    Cluster,
)
from kubewright.clusters.indexes import BY_CLUSTER, index_by_cluster
from kubewright.clusters.machinedeployment.policy import MachineDeployments
from kubewright.clusters.machineset.member import read
from kubewright.clusters.machineset.policy import Looker, MachineSets
from kubewright.kube.informer import Change, Informer
from kubewright.replicas.deployment.wiring import Deployments
from kubewright.replicas.members import MemberIndex
from kubewright.replicas.set.wiring import Sets
from kubewright.runtime.controller import Controller, ToKeys, only, spec_or_life
from kubewright.runtime.references.registry import References
from kubewright.runtime.world import Environment
from kubewright.wire.gvk import Key


def wire(environment: Environment, references: References) -> tuple[Controller, Controller]:
    """The controller of deployments and that of sets."""
    control, recorder = environment.control, environment.recorder
    caches, metrics = control.caches, environment.metrics
    clusters = caches.get(CLUSTER)
    index = MemberIndex(caches.get(MACHINE), read, control.client.steady())
    lookup = references.lookup_for(GROUP, MACHINE_SET.resource.kind)
    set_policy = MachineSets(Looker(clusters, caches.get(MACHINE_DEPLOYMENT), lookup))
    sets = Sets(set_policy, caches, recorder, index=index)
    deployments = Deployments(MachineDeployments(clusters), caches, recorder, index=index)
    set_controller, deployment_controller = sets.controller(metrics), deployments.controller(metrics)
    lookup.subscribe(set_controller.enqueue)
    set_controller.watches(clusters, of_cluster(sets.sets))
    deployment_controller.watches(clusters, of_cluster(deployments.deployments))
    return deployment_controller, set_controller


def of_cluster(objects: Informer[Any]) -> ToKeys:
    """From a change of a cluster's spec or life, and from its control plane becoming ready, to the objects of
    this kind that belong to it."""
    index_by_cluster(objects)

    def keys(change: Change[Any]) -> Iterable[Key]:
        return objects.keys_by(BY_CLUSTER, str(change.key))

    return only(lambda change: spec_or_life(change) or _control_plane(change), keys)


def _control_plane(change: Change[Cluster]) -> bool:
    before, after = change.before(), change.after()
    if before is None or after is None:
        return True
    return bool(before.status.control_plane_ready) != bool(after.status.control_plane_ready)
