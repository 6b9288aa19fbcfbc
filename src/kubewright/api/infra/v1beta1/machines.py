"""KubewrightMachine: the VM of one Machine of Cluster API; and the template of which sets make their clones.

Invariants.  What another program must find here, and under which path, is the contract of Cluster API for
             infrastructure machines: ``spec.providerID``, ``spec.failureDomain``, ``status.ready``,
             ``addresses``, ``interruptible``, ``failureReason``, ``failureMessage``, the condition Ready; of
             a template ``status.capacity`` and ``nodeInfo``, by which cluster-autoscaler scales from zero
             (capi.md §3.2). A status that was lost in a move can be made again from the cloud.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import field

from kubewright.api.cluster.v1beta1.shared import (
    CONDITIONS,
    FAILURE_MESSAGE,
    FAILURE_REASON,
    OBSERVED_GENERATION,
    Condition,
)
from kubewright.api.core import NodeAddress
from kubewright.api.infra.v1beta1.provision import Provision, resource
from kubewright.api.kinds import Kind
from kubewright.api.meta import PRESERVE, Int64, KubeObject, ObjectMeta, Quantity, Value, doc


class KubewrightMachineSpec(Provision, frozen=True, kw_only=True):
    """The VM as it should be."""

    provider_id: Annotated[
        str | None, doc("The cloud's id of the VM; written by the controller once the VM exists.")
    ] = field(default=None, name="providerID")
    failure_domain: Annotated[
        str | None,
        doc("Where the VM was placed; written by the controller, the Machine says where it should."),
    ] = None


class KubewrightMachineStatus(Value, frozen=True, kw_only=True):
    """The VM as it is."""

    ready: Annotated[bool, doc("Whether the VM exists and is complete.", default=False)] = False
    addresses: Annotated[tuple[NodeAddress, ...], doc("The addresses of the VM.")] = ()
    interruptible: Annotated[bool, doc("Whether the cloud may take the VM away at any time.")] = False
    node_name: Annotated[str, doc("The name by which the VM's kubelet registers its node.")] = ""
    last_known_state: Annotated[str, doc("A note that the driver left for its next call.")] = ""
    failure_reason: Annotated[str | None, doc(FAILURE_REASON)] = None
    failure_message: Annotated[str | None, doc(FAILURE_MESSAGE)] = None
    conditions: Annotated[tuple[Condition, ...], doc(CONDITIONS)] = ()
    observed_generation: Annotated[Int64, doc(OBSERVED_GENERATION)] = 0


class KubewrightMachine(KubeObject, frozen=True, kw_only=True):
    """The VM of one Machine of Cluster API, made by a driver."""

    spec: Annotated[KubewrightMachineSpec, doc("What the VM should be.")] = field(
        default_factory=KubewrightMachineSpec
    )
    status: Annotated[KubewrightMachineStatus, doc("What the VM is.")] = field(
        default_factory=KubewrightMachineStatus
    )


class KubewrightMachineTemplateResource(Value, frozen=True, kw_only=True):
    """What a KubewrightMachine is made from."""

    metadata: Annotated[ObjectMeta, doc("Labels and annotations of the new object.", **PRESERVE)] = field(
        default_factory=ObjectMeta
    )
    spec: Annotated[KubewrightMachineSpec, doc("The spec of the new object.", required=True)] = field(
        default_factory=KubewrightMachineSpec
    )


class KubewrightMachineTemplateSpec(Value, frozen=True, kw_only=True):
    """What KubewrightMachines are made from."""

    template: Annotated[
        KubewrightMachineTemplateResource,
        doc("What a new KubewrightMachine looks like. To change it, make another template.", required=True),
    ] = field(default_factory=KubewrightMachineTemplateResource)


class NodeInfo(Value, frozen=True, kw_only=True):
    """What is known of a node before there is one."""

    architecture: Annotated[str, doc("The architecture of its processor: amd64, arm64 and so on.")] = ""
    operating_system: Annotated[str, doc("Its operating system: linux or windows.")] = ""


class KubewrightMachineTemplateStatus(Value, frozen=True, kw_only=True):
    """What a machine of the template will offer, as far as the driver knows."""

    capacity: Annotated[Mapping[str, Quantity], doc("What its node will offer: cpu, memory and so on.")] = (
        field(default_factory=dict)
    )
    node_info: Annotated[NodeInfo | None, doc("What else is known of its node.")] = None
    conditions: Annotated[tuple[Condition, ...], doc(CONDITIONS)] = ()


class KubewrightMachineTemplate(KubeObject, frozen=True, kw_only=True):
    """What KubewrightMachines of one sort are made from."""

    spec: Annotated[KubewrightMachineTemplateSpec, doc("What KubewrightMachines are made from.")] = field(
        default_factory=KubewrightMachineTemplateSpec
    )
    status: Annotated[KubewrightMachineTemplateStatus, doc("What a machine of the template will offer.")] = (
        field(default_factory=KubewrightMachineTemplateStatus)
    )


KUBEWRIGHT_MACHINE = Kind(resource("KubewrightMachine", "kwm"), KubewrightMachine)
KUBEWRIGHT_MACHINE_TEMPLATE = Kind(resource("KubewrightMachineTemplate", "kwmt"), KubewrightMachineTemplate)
