"""Read what is around MachineSets, from caches.

Theory.      A lookup registers the set with the kinds that it refers to, so it looks again when a
             provider is installed or an object that is missing is made.
Invariants.  Nothing waits, and nothing is written. References never leave the set's namespace.
Called by    ``policy``; made by ``clusters.replicas``.
"""

from dataclasses import dataclass

from kubewright.api.cluster import names
from kubewright.api.cluster.v1beta1 import Cluster, MachineDeployment, MachineSet
from kubewright.api.cluster.validate import default_deployment
from kubewright.api.meta import ObjectMeta
from kubewright.clusters.external.object import look_up
from kubewright.clusters.machineset.around import Around
from kubewright.clusters.owned import cluster_of
from kubewright.kube.informer import Informer
from kubewright.replicas.objects import key_of, read_selector
from kubewright.runtime.references.registry import ControllerLookup
from kubewright.wire.gvk import Key


@dataclass(frozen=True, slots=True)
class Looker:
    """Looks at what is around sets."""

    clusters: Informer[Cluster]
    deployments: Informer[MachineDeployment]
    references: ControllerLookup

    def cluster(self, machine_set: MachineSet) -> Cluster | None:
        """The set's cluster, if it exists."""
        return self.clusters.get(cluster_of(machine_set))

    def look(self, machine_set: MachineSet) -> Around:
        """What is there now."""
        key, spec = key_of(machine_set), machine_set.spec.template.spec
        cluster, config = self.cluster(machine_set), spec.bootstrap.config_ref
        control_plane = cluster.spec.control_plane_ref if cluster is not None else None
        return Around(
            cluster,
            look_up(self.references, key, control_plane) if control_plane is not None else None,
            look_up(self.references, key, config) if config is not None else None,
            look_up(self.references, key, spec.infrastructure_ref),
            self._deployed(machine_set.metadata),
        )

    def _deployed(self, meta: ObjectMeta) -> bool:
        name = meta.labels.get(names.DEPLOYMENT_NAME_LABEL, "")
        found = self.deployments.get(Key(meta.namespace, name)) if name else None
        if found is None or found.metadata.deleting:
            return False
        return read_selector(default_deployment(found).spec.selector)[0].matches(meta.labels)

    def forget(self, machine_set: Key) -> None:
        """There is no such set any more."""
        self.references.forget(machine_set)
