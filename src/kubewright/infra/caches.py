"""The informers of this provider's controllers, and which object belongs to which. Made for each term.

Theory.      The management cluster has everything: our objects (``machines``, ``clusters``, ``templates``),
             the Machines and Clusters of the core that own them (``core_machines``, ``core_clusters``), and
             the Secrets. The caches already show our own writes, and an index answers each question. An owner
             is known by group and kind and not by version, because the core may serve another version later.
             A copy of an object of ours (``kubectl get -o yaml``, a backup) may have its owner references and
             the name by which clouds know it. Which of the two is meant says the reference of the core.
Source       S0-33, S0-43, S2-08, S2-20.
Called by    ``machine``, ``cluster``, ``template``, ``world`` and ``orphans``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import field

from kubewright.api.cluster import names
from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE, Cluster, Machine, ObjectReference
from kubewright.api.core import SECRET, Secret
from kubewright.api.infra.v1beta1 import (
    KUBEWRIGHT_CLUSTER,
    KUBEWRIGHT_MACHINE,
    KUBEWRIGHT_MACHINE_TEMPLATE,
    FailureDomainSpec,
    KubewrightCluster,
    KubewrightMachine,
    LocalSecretReference,
    Provision,
)
from kubewright.api.kinds import Kind, Undecodable
from kubewright.api.meta import KubeObject, ObjectMeta
from kubewright.base.clock import Clock
from kubewright.driver.registry import RoutedDriver
from kubewright.infra.provision import cloud_owner
from kubewright.infra.settings import InfraSettings
from kubewright.kube.client import Client
from kubewright.kube.informer import Informer, Informers
from kubewright.runtime.events import Recorder
from kubewright.runtime.metrics import Metrics
from kubewright.wire.gvk import Key, split_api_version


class _ToldSpec(Provision, frozen=True, kw_only=True):
    """Of a spec what drivers are told: told a part, one could look in another account or place, and report
    that a VM does not exist which does."""

    failure_domain: str | None = None
    failure_domains: Mapping[str, FailureDomainSpec] = field(default_factory=dict)


class _Told(KubeObject, frozen=True, kw_only=True):
    spec: _ToldSpec = field(default_factory=_ToldSpec)


def untold(informer: Informer[Any], key: Key) -> str:
    """What drivers cannot be told of an object, because it cannot be read; empty if all can be told."""
    header = informer.header(key)
    if header is None or not informer.problem(key):
        return ""
    resource = informer.kind.resource
    try:
        Kind(resource, _Told).decode(header.data)
    except Undecodable as error:
        return f"{resource.kind} {key.name} is unreadable: {error}"
    return ""


class Caches:
    """The informers, with their indexes."""

    def __init__(self, informers: Informers) -> None:
        self.machines = informers.get(KUBEWRIGHT_MACHINE)
        self.clusters = informers.get(KUBEWRIGHT_CLUSTER)
        self.templates = informers.get(KUBEWRIGHT_MACHINE_TEMPLATE)
        self.core_machines = informers.get(MACHINE)
        self.core_clusters = informers.get(CLUSTER)
        self.secrets = informers.get(SECRET)
        self.machines.index("cluster", lambda each: _in_cluster(each.metadata))
        self.machines.index("cloud-owner", lambda each: (cloud_owner(KUBEWRIGHT_MACHINE, each.metadata),))
        self.machines.index("provider-id", lambda each: _provider_id(each.spec.provider_id))
        self.machines.index("credentials", lambda each: _credentials(each.metadata, each.spec))
        self.templates.index("owner-cluster", lambda each: _owner_cluster(each.metadata))
        self.templates.index("credentials", lambda each: _credentials(each.metadata, each.spec.template.spec))
        self.clusters.index("cluster", lambda each: _in_cluster(each.metadata))
        self.clusters.index("credentials", lambda each: _credentials(each.metadata, each.spec))
        self.core_machines.index("data", _data)
        self.core_machines.index("infrastructure", _infrastructure)
        self.core_machines.index("provider-id", lambda each: _provider_id(each.spec.provider_id))

    def machine_of(self, found: KubewrightMachine) -> Machine | None:
        """The Machine that owns a KubewrightMachine; one that names another is no owner of what lives."""
        key = owner_key(found.metadata, MACHINE)
        owner = self.core_machines.get(key) if key is not None else None
        if owner is None or found.metadata.deleting:  # then it says where the driver has to look
            return owner
        ref = owner.spec.infrastructure_ref
        return None if refers(ref, KUBEWRIGHT_MACHINE) and ref.name != found.name else owner

    def cluster_of(self, found: KubewrightCluster) -> Cluster | None:
        """The Cluster that owns a KubewrightCluster; as for ``machine_of``."""
        key = owner_key(found.metadata, CLUSTER)
        owner = self.core_clusters.get(key) if key is not None else None
        if owner is None or found.metadata.deleting:
            return owner
        ref = owner.spec.infrastructure_ref
        another = ref is not None and refers(ref, KUBEWRIGHT_CLUSTER) and ref.name != found.name
        return None if another else owner

    def original_of_machine(self, copy: KubewrightMachine) -> Key | None:
        """The KubewrightMachine whose VM this one has, too: a Machine names that one, and none names this."""
        key, meta = Key(copy.namespace, copy.name), copy.metadata
        if self.core_machines.count_by("infrastructure", str(key)):
            return None
        same = {
            *self.machines.keys_by("cloud-owner", cloud_owner(KUBEWRIGHT_MACHINE, meta)),
            *(
                each
                for one in _provider_id(copy.spec.provider_id)
                for each in self.machines.keys_by("provider-id", one)
            ),
        }
        named = (each for each in same if self.core_machines.count_by("infrastructure", str(each)))
        return min((each for each in named if each != key), key=str, default=None)

    def original_of_cluster(
        self, copy: KubewrightCluster, cluster: Cluster | None
    ) -> KubewrightCluster | None:
        """The KubewrightCluster whose endpoint this one has, too: its Cluster names that one."""
        ref = cluster.spec.infrastructure_ref if cluster is not None else None
        if ref is None or not refers(ref, KUBEWRIGHT_CLUSTER) or ref.name == copy.name:
            return None
        found = self.clusters.part(Key(copy.namespace, ref.name))
        if found is None:
            return None
        known = (cloud_owner(KUBEWRIGHT_CLUSTER, each.metadata) for each in (copy, found))
        return found if len(set(known)) == 1 else None

    def cluster_named(self, namespace: str, name: str) -> Cluster | None:
        """The Cluster of that name."""
        return self.core_clusters.get(Key(namespace, name)) if name else None

    def infrastructure_of(
        self, meta: ObjectMeta, cluster: Cluster | None
    ) -> tuple[KubewrightCluster | None, str]:
        """The KubewrightCluster of a machine's Cluster, and a clause that says so where it is missing.

        Where the Cluster is gone the label says which it is. A Cluster whose infrastructure is another
        provider's has no KubewrightCluster, and that is not missing.
        """
        ref = cluster.spec.infrastructure_ref if cluster is not None else None
        ours = ref is not None and refers(ref, KUBEWRIGHT_CLUSTER)
        if cluster is not None and ref is not None and ours:
            named = self.clusters.part(Key(cluster.namespace, ref.name))
            if named is not None:
                return self._readable(named)
        labelled = [one for each in _in_cluster(meta) for one in self.clusters.by("cluster", each)]
        if len(labelled) == 1:
            return self._readable(labelled[0])
        if ref is not None:
            return None, f"there is no KubewrightCluster {ref.name}" if ours else ""
        name = meta.labels.get(names.CLUSTER_NAME_LABEL, "")
        gone = f"there is neither Cluster {name} nor its KubewrightCluster"
        return None, gone if cluster is None else ""

    def _readable(self, found: KubewrightCluster) -> tuple[KubewrightCluster | None, str]:
        """The KubewrightCluster, if all that a driver is told of it can be read."""
        problem = untold(self.clusters, Key(found.namespace, found.name))
        return (None, problem) if problem else (found, "")

    def credentials(self, namespace: str, ref: LocalSecretReference | None) -> tuple[Secret, str]:
        """The Secret with the credentials, and why it is of no use; an empty one where none is named."""
        if ref is None or not ref.name:
            return Secret(), ""
        found = self.secret(namespace, ref.name)
        if found is None:
            return Secret(), f"there is no Secret {ref.name} with credentials"
        return found, "" if found.data else f"Secret {ref.name}, which should have credentials, is empty"

    def secret(self, namespace: str, name: str) -> Secret | None:
        """The Secret of that name."""
        return self.secrets.get(Key(namespace, name))

    def machines_in(self, cluster: Key) -> tuple[Key, ...]:
        """The KubewrightMachines that carry the label of this Cluster."""
        return self.machines.keys_by("cluster", str(cluster))

    def unowned(self, machines: Iterable[Key]) -> tuple[Key, ...]:
        """Those of some KubewrightMachines that no object owns, that no Machine names, and that are not being
        deleted. One that a Machine names is that Machine's to delete, which owns it in a moment."""
        found = ((key, self.machines.part(key)) for key in machines)
        return tuple(
            key
            for key, each in found
            if each is not None
            and not each.metadata.owner_references
            and not each.metadata.deleting
            and not self.core_machines.count_by("infrastructure", str(key))
        )

    def clusters_in(self, cluster: Key) -> tuple[Key, ...]:
        """The KubewrightClusters that carry the label of this Cluster."""
        return self.clusters.keys_by("cluster", str(cluster))


@dataclass(frozen=True, slots=True)
class Shared:
    """What the controllers of machines and clusters share, for one term."""

    control: Client
    caches: Caches
    driver: RoutedDriver
    recorder: Recorder
    clock: Clock
    settings: InfraSettings
    metrics: Metrics


def paused(meta: ObjectMeta, cluster: Cluster | None) -> bool:
    """Whether an object is left alone: by an annotation of its own, or by its cluster's spec."""
    return names.left_alone(meta.annotations) or (cluster is not None and cluster.spec.paused)


def owner_key(meta: ObjectMeta, kind: Kind[Machine] | Kind[Cluster]) -> Key | None:
    """The first owner of that kind, by group and kind."""
    for owner in meta.owner_references:
        group, _ = split_api_version(owner.api_version)
        if (group, owner.kind) == (kind.resource.group, kind.resource.kind):
            return Key(meta.namespace, owner.name)
    return None


def refers(ref: ObjectReference, kind: Kind[KubewrightMachine] | Kind[KubewrightCluster]) -> bool:
    """Whether a reference is to an object of that kind of ours, in any version."""
    return (ref.group, ref.kind) == (kind.resource.group, kind.resource.kind)


def _in_cluster(meta: ObjectMeta) -> Iterable[str]:
    name = meta.labels.get(names.CLUSTER_NAME_LABEL, "")
    return (str(Key(meta.namespace, name)),) if name else ()


def credentials_of(meta: ObjectMeta, spec: Provision) -> Key | None:
    """The Secret that an object itself names as its credentials."""
    ref = spec.credentials_ref
    return Key(meta.namespace, ref.name) if ref is not None and ref.name else None


def _credentials(meta: ObjectMeta, spec: Provision) -> Iterable[str]:
    key = credentials_of(meta, spec)
    return (str(key),) if key is not None else ()


def _owner_cluster(meta: ObjectMeta) -> Iterable[str]:
    owner = owner_key(meta, CLUSTER)
    return (str(owner),) if owner is not None else ()


def _provider_id(found: str | None) -> Iterable[str]:
    return (found,) if found else ()


def _infrastructure(machine: Machine) -> Iterable[str]:
    ref = machine.spec.infrastructure_ref
    return (str(Key(machine.namespace, ref.name)),) if refers(ref, KUBEWRIGHT_MACHINE) else ()


def _data(machine: Machine) -> Iterable[str]:
    name = machine.spec.bootstrap.data_secret_name
    return (str(Key(machine.namespace, name)),) if name else ()
