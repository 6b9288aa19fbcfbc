"""The caches of the management cluster that the controller of Machines reads, with their indexes.

Theory.      An index answers each question about other machines: which belong to a cluster, have a
             providerID, or are of a control plane.
Called by    ``look``, ``reconciler``.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from kubewright.api.cluster import names
from kubewright.api.cluster.v1beta1 import (
    CLUSTER,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    Machine,
    MachineSet,
)
from kubewright.api.cluster.validate import default_set
from kubewright.api.meta import Object
from kubewright.clusters.indexes import (
    BY_CLUSTER,
    BY_CONTROL_PLANE,
    index_active_control_planes,
    index_by_cluster,
)
from kubewright.clusters.owned import cluster_of
from kubewright.kube.informer import Informers
from kubewright.replicas.objects import read_selector
from kubewright.wire.gvk import Key

BY_PROVIDER_ID = "machines-with-provider-id"
BY_SET, BY_DEPLOYMENT = "machines-of-set", "machines-of-deployment"

LATEST = datetime.max.replace(tzinfo=UTC)


class Caches:
    """The informers, and questions about the machines in them."""

    def __init__(self, informers: Informers) -> None:
        self.machines = informers.get(MACHINE)
        self.clusters = informers.get(CLUSTER)
        self.sets = informers.get(MACHINE_SET)
        self.deployments = informers.get(MACHINE_DEPLOYMENT)
        index_by_cluster(self.machines)
        index_by_cluster(self.sets)
        self.machines.index(BY_PROVIDER_ID, _provider_ids)
        index_active_control_planes(self.machines)
        self.machines.index(BY_SET, _sets)
        self.machines.index(BY_DEPLOYMENT, _deployments)

    def of_cluster(self, cluster: Key) -> Iterable[Key]:
        """The machines of a cluster."""
        return self.machines.keys_by(BY_CLUSTER, str(cluster))

    def with_provider_id(self, cluster: Key, provider_id: str) -> Iterable[Key]:
        """The machines of a cluster with this providerID."""
        return self.machines.keys_by(BY_PROVIDER_ID, f"{cluster} {provider_id}")

    def active_control_plane_machines(self, cluster: Key) -> int:
        """How many machines of a cluster's control plane are not being deleted."""
        return self.machines.count_by(BY_CONTROL_PLANE, str(cluster))

    def provider_id_taken_by(self, machine: Machine) -> str:
        """Another machine that has this one's providerID and precedence: the one that has a Node, else the
        oldest. Empty: this machine is the only one, or has precedence."""
        if not machine.spec.provider_id:
            return ""
        same = self.machines.by(BY_PROVIDER_ID, f"{cluster_of(machine)} {machine.spec.provider_id}")
        first = min(same, key=_precedence, default=machine)
        return "" if first.name == machine.name else first.name

    def has_maker(self, machine: Machine) -> bool:
        """Whether what made a machine without a controller, by its label, is there and will adopt it.

        Of a set that is known: it must select the machine. A control plane and a pool are other programs'.
        """
        meta, cluster = machine.metadata, self.clusters.get(cluster_of(machine))
        if meta.controller is not None:
            return True
        if names.CONTROL_PLANE_NAME_LABEL in meta.labels:
            return cluster is not None and cluster.spec.control_plane_ref is not None
        if names.POOL_NAME_LABEL in meta.labels:
            return True
        name = meta.labels.get(names.SET_NAME_LABEL)
        sets = self.sets.by(BY_CLUSTER, str(cluster_of(machine))) if name else []
        return any(names.label_value(each.name) == name and _adopts(each, machine) for each in sets)

    def outdated(self, machine: Machine) -> bool:
        """A rollout of the machine's deployment is going to replace it: its set has an older revision."""
        meta, owner = machine.metadata, machine.metadata.controller
        name = meta.labels.get(names.DEPLOYMENT_NAME_LABEL)
        if not name or owner is None:
            return False
        members = self.sets.get(Key(meta.namespace, owner.name))
        deployment = self.deployments.get(Key(meta.namespace, name))
        if members is None or deployment is None:
            return False
        mine, wanted = revision(members), revision(deployment)
        return mine is not None and wanted is not None and mine < wanted


def revision(found: Object) -> int | None:
    """The revision of a set or a deployment; None where none can be read."""
    told = found.metadata.annotations.get(names.REVISION_ANNOTATION, "")
    return int(told) if told.isascii() and told.isdigit() else None


def _adopts(machine_set: MachineSet, machine: Machine) -> bool:
    selector, _ = read_selector(default_set(machine_set).spec.selector)
    return not machine_set.metadata.deleting and selector.matches(machine.metadata.labels)


def _precedence(machine: Machine) -> tuple[bool, datetime, str]:
    created = machine.metadata.creation_timestamp
    return machine.status.node_ref is None, created or LATEST, machine.name


def _provider_ids(machine: Machine) -> Iterator[str]:
    if machine.spec.provider_id:
        yield f"{cluster_of(machine)} {machine.spec.provider_id}"


def _sets(machine: Machine) -> Iterator[str]:
    if (owner := machine.metadata.controller) is not None:
        yield str(Key(machine.metadata.namespace, owner.name))


def _deployments(machine: Machine) -> Iterator[str]:
    if name := machine.metadata.labels.get(names.DEPLOYMENT_NAME_LABEL):
        yield str(Key(machine.metadata.namespace, name))
