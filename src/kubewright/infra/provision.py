"""What a driver is told about a machine or a cluster: one request, from several objects. Pure.

Theory.      The driver port speaks of a Machine and its MachineClass (``driver.contract``). Here the class
             stands for what the machines of one cluster have in common, and is made up for each call: its
             providerSpec is the machine's own, with that of its failure domain merged into it. What a
             machine leaves empty (driver, credentials) is its cluster's.
             The owner in a request is made of the uid that the object had when the cloud was first asked. It
             is written into an annotation with the finalizer: clusterctl move gives an object another
             uid, and its VM keeps its owner.
Invariants.  The owner in a request is tagged with its kind, so that no other world takes these VMs for its
             own. That of a VM also says for which KubewrightCluster it was made, and so in which management
             cluster: names are not unique among these. The class of a cluster has a name that no
             MachineClass has by accident: quotas and lists go by it.
Source       decisions 0023 and 0027.
Called by    ``machine.look``, ``machine.creation``, ``cluster.reconciler``, ``template``.
"""

from dataclasses import dataclass, replace

from msgspec import structs

from kubewright.api.cluster.names import CONTROL_PLANE_LABEL
from kubewright.api.cluster.v1beta1 import Machine as CoreMachine
from kubewright.api.core import Secret
from kubewright.api.infra.names import CLOUD_OWNER_ANNOTATION
from kubewright.api.infra.v1beta1 import (
    GROUP,
    KUBEWRIGHT_MACHINE,
    FailureDomainSpec,
    KubewrightCluster,
    KubewrightMachine,
    Provision,
)
from kubewright.api.kinds import Kind
from kubewright.api.machine.v1alpha1 import MachineClass
from kubewright.api.meta import ObjectMeta
from kubewright.base.names import fnv32a
from kubewright.driver.contract import ClassRequest, MachineRequest, owner_tag, stub
from kubewright.wire.patch import apply_merge


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """What a driver is told in a call about a machine, or the reason why it cannot be called.

    ``problem``  why it cannot, in a clause; empty if it can
    ``version``  a text that changes whenever the request does
    ``source_missing``  the KubewrightCluster that names driver or credentials, or the Secret, is not there
    """

    request: ClassRequest
    problem: str = ""
    version: str = ""
    source_missing: bool = False


def effective(machine: Provision, cluster: Provision | None, domain: FailureDomainSpec | None) -> Provision:
    """A machine's provision, with what it leaves to its cluster and to its failure domain filled in."""
    shared = cluster or Provision()
    place = domain.provider_spec if domain is not None else {}
    return Provision(
        driver=machine.driver or shared.driver,
        provider_spec=apply_merge(dict(machine.provider_spec), dict(place)),
        credentials_ref=machine.credentials_ref or shared.credentials_ref,
    )


def cloud_owner(kind: Kind[KubewrightCluster] | Kind[KubewrightMachine], meta: ObjectMeta) -> str:
    """The owner of an object's VMs in the cloud: the one in its annotation, else one made of its uid."""
    return meta.annotations.get(CLOUD_OWNER_ANNOTATION) or owner_tag(kind.resource.kind, meta.uid)


def new_cloud_owner(cluster: ObjectMeta | None, machine_uid: str) -> str:
    """The owner, in the cloud, of the VM of a new machine of this KubewrightCluster.

    A cloud's labels may be no longer than 63 characters, and a uid has 36: so of the cluster's only a hash.
    """
    place = f"{fnv32a(cluster.uid.encode()):08x}." if cluster is not None else ""
    return owner_tag(KUBEWRIGHT_MACHINE.resource.kind, f"{place}{machine_uid}")


def missing_source(own: Provision, absent: str) -> str:
    """Why a driver must not be called: the KubewrightCluster, which names the driver or the credentials, is
    not there. ``absent`` says so in a clause. Empty where it is there, or the object names both itself."""
    if not absent or (own.driver and own.credentials_ref is not None):
        return ""
    return f"{absent}, which would name driver and credentials"


def class_request(
    provision: Provision, namespace: str, cluster: str, owner: str, credentials: Secret
) -> ClassRequest:
    """The request about a cluster as a whole, and what those about its machines have in common."""
    meta = ObjectMeta(name=f"{cluster}.{GROUP}", namespace=namespace, uid=owner)
    made = MachineClass(metadata=meta, provider=provision.driver, provider_spec=provision.provider_spec)
    return ClassRequest(made, Secret(data=credentials.data))


def machine_request(of: ClassRequest, machine: KubewrightMachine, state: str) -> MachineRequest:
    """The request about one machine; ``state`` is what the driver left for this call."""
    meta = machine.metadata
    owner = cloud_owner(KUBEWRIGHT_MACHINE, meta)
    known = {"provider_id": machine.spec.provider_id or "", "node_name": machine.status.node_name}
    stand_in = stub(meta.name, meta.namespace, owner, **known)
    status = structs.replace(stand_in.status, last_known_state=state)
    return of.of(structs.replace(stand_in, status=status))


def with_data(
    request: MachineRequest, data: bytes, data_format: str, owner: CoreMachine | None
) -> MachineRequest:
    """The request with the data that the VM boots from, and what its Machine wants it to be."""
    secret = Secret(data={**request.secret.data, "userData": data})
    made = replace(request, secret=secret, data_format=data_format)
    if owner is None:
        return made
    control_plane = CONTROL_PLANE_LABEL in owner.metadata.labels
    return replace(made, version=owner.spec.version or "", control_plane=control_plane)


def domain_of(cluster: KubewrightCluster | None, name: str | None) -> tuple[FailureDomainSpec | None, str]:
    """The failure domain of that name, and why it is not known; without a cluster of ours none is."""
    if not name or cluster is None or not cluster.spec.failure_domains:
        return None, ""
    if (found := cluster.spec.failure_domains.get(name)) is not None:
        return found, ""
    known = ", ".join(sorted(cluster.spec.failure_domains))
    return None, f"failure domain {name!r} is none of the cluster's: {known}"
