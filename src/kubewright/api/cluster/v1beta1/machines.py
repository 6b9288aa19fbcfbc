"""Machine: one host that is, or will be, a Node of a cluster; and the template from which sets make it.

Invariants.  ``bootstrapReady`` and ``infrastructureReady`` are None until a controller has written them:
             it always writes them, False too (capi.md appendix D). ``bootstrap.data`` is an input only.
Source       capi.md §1.4, §2.4; seed 000.
"""

from typing import Annotated

from msgspec import field

from kubewright.api.cluster.v1beta1.shared import (
    CONDITIONS,
    FAILURE_MESSAGE,
    FAILURE_REASON,
    OBSERVED_GENERATION,
    Condition,
    NodeSystemInfo,
    ObjectReference,
    reference,
    resource,
)
from kubewright.api.core import NodeAddress
from kubewright.api.kinds import Kind
from kubewright.api.meta import Duration, Int64, KubeObject, ObjectMeta, Time, Value, doc, whole_seconds


class Bootstrap(Value, frozen=True, kw_only=True):
    """Where the data comes from that turns a host into a Node when it boots."""

    config_ref: Annotated[
        ObjectReference | None, reference("The object whose provider makes the bootstrap data.")
    ] = None
    data_secret_name: Annotated[
        str | None,
        doc(
            "The Secret that has the bootstrap data under the key value; set it to bring your own. An empty "
            "name says that there is nothing to bootstrap."
        ),
    ] = None
    data: Annotated[
        str | None,
        doc("The bootstrap data itself, as of v1alpha2. It is moved into a Secret of the machine's own."),
    ] = None


class MachineSpec(Value, frozen=True, kw_only=True):
    """What a machine should be."""

    cluster_name: Annotated[
        str, doc("The cluster that the machine belongs to, in its namespace.", required=True, minLength=1)
    ] = ""
    bootstrap: Annotated[
        Bootstrap, doc("Where the data comes from that turns the host into a Node.", required=True)
    ] = field(default_factory=Bootstrap)
    infrastructure_ref: Annotated[
        ObjectReference, reference("The object whose provider makes the host.", required=True)
    ] = field(default_factory=ObjectReference)
    version: Annotated[
        str | None, doc("The version of Kubernetes, such as v1.30.0, for the bootstrap provider.")
    ] = None
    provider_id: Annotated[
        str | None, doc("The cloud's id of the host, as its Node has it; copied from the infrastructure.")
    ] = field(default=None, name="providerID")
    failure_domain: Annotated[
        str | None, doc("The failure domain in which the host should be: a name in the cluster's status.")
    ] = None
    node_drain_timeout: Annotated[
        Duration | None, doc("How long draining the Node may take; without a limit when 0 or unset.")
    ] = None
    node_volume_detach_timeout: Annotated[
        Duration | None, doc("How long volumes may take to detach; without a limit when 0 or unset.")
    ] = None
    node_deletion_timeout: Annotated[
        Duration | None,
        doc("How long to try to delete the Node once the host is gone; 10s when unset, 0 is for ever."),
    ] = None


class MachineStatus(Value, frozen=True, kw_only=True):
    """What a machine is."""

    node_ref: Annotated[ObjectReference | None, reference("The Node that the machine became.")] = None
    node_info: Annotated[NodeSystemInfo | None, doc("What the kubelet says about its machine.")] = None
    last_updated: Annotated[Time | None, doc("When the phase last changed.")] = None
    failure_reason: Annotated[str | None, doc(FAILURE_REASON)] = None
    failure_message: Annotated[str | None, doc(FAILURE_MESSAGE)] = None
    addresses: Annotated[
        tuple[NodeAddress, ...], doc("The addresses of the host, copied from the infrastructure.")
    ] = ()
    phase: Annotated[
        str, doc("For people: Pending, Provisioning, Provisioned, Running, Deleting, Failed or Unknown.")
    ] = ""
    certificates_expiry_date: Annotated[
        Time | None, doc("When the certificates of a machine of the control plane expire.")
    ] = None
    bootstrap_ready: Annotated[bool | None, doc("Whether the bootstrap data is there.")] = None
    infrastructure_ready: Annotated[bool | None, doc("Whether the host is there.")] = None
    observed_generation: Annotated[Int64, doc(OBSERVED_GENERATION)] = 0
    conditions: Annotated[tuple[Condition, ...], doc(CONDITIONS)] = ()

    def __post_init__(self) -> None:
        whole_seconds(self, "last_updated", "certificates_expiry_date")


class Machine(KubeObject, frozen=True, kw_only=True):
    """One host that is, or will be, a Node of a cluster."""

    spec: Annotated[MachineSpec, doc("What the machine should be.")] = field(default_factory=MachineSpec)
    status: Annotated[MachineStatus, doc("What the machine is.")] = field(default_factory=MachineStatus)


class MachineTemplateSpec(Value, frozen=True, kw_only=True):
    """What new machines look like."""

    metadata: Annotated[ObjectMeta, doc("Labels and annotations that new machines get.")] = field(
        default_factory=ObjectMeta
    )
    spec: Annotated[
        MachineSpec, doc("The spec of new machines; its references name templates, one clone for each.")
    ] = field(default_factory=MachineSpec)


MACHINE = Kind(resource("machines", "Machine", "ma"), Machine)
