"""The group of the four kinds, and MachineClass: how machines of one sort are made.

A MachineClass has no spec. Upstream's has no status either: ours tells whether its driver accepts it, and
where the server has upstream's CRD it is not written.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import field

from kubewright.api.kinds import Kind
from kubewright.api.meta import (
    ATOMIC_MAP,
    PRESERVE,
    Json,
    KubeObject,
    Quantity,
    Time,
    Value,
    doc,
    whole_seconds,
)
from kubewright.wire.gvk import Resource

GROUP = "machine.sapcloud.io"
VERSION = "v1alpha1"


def resource(plural: str, kind: str, short_name: str) -> Resource:
    """One of the four, as the API server serves it."""
    return Resource(GROUP, VERSION, plural, kind, short_names=(short_name,))


class SecretReference(Value, frozen=True, kw_only=True):
    """The place of a Secret."""

    name: Annotated[str, doc("The name of the Secret.")] = ""
    namespace: Annotated[str, doc("The namespace of the Secret.")] = ""


class ClassNodeTemplate(Value, frozen=True, kw_only=True):
    """What a node of a class will offer, for those who must know before there is one."""

    capacity: Annotated[
        Mapping[str, Quantity], doc("What the node will offer; must name cpu, gpu and memory.", required=True)
    ] = field(default_factory=dict)
    virtual_capacity: Annotated[
        Mapping[str, Quantity],
        doc("Extended resources that are written into the capacity of the node once it has joined."),
    ] = field(default_factory=dict)
    instance_type: Annotated[str, doc("The cloud's name for this size of VM.", required=True)] = ""
    region: Annotated[str, doc("The region of the node.", required=True)] = ""
    zone: Annotated[str, doc("The zone of the node.", required=True)] = ""
    architecture: Annotated[
        str | None, doc("The processor architecture of the node, such as amd64 or arm64.")
    ] = None


class MachineClassCondition(Value, frozen=True, kw_only=True):
    """One aspect of a class's state."""

    type: Annotated[
        str,
        doc(
            "Accepted: whether the driver would make machines of this class. "
            "Applied: whether the VMs of its machines have what it says.",
            required=True,
        ),
    ] = ""
    status: Annotated[str, doc("True, False or Unknown.", required=True)] = ""
    last_transition_time: Annotated[Time | None, doc("When the status last changed.")] = None
    reason: Annotated[str, doc("Why, in one word.")] = ""
    message: Annotated[str, doc("Why, in a sentence for people.")] = ""

    def __post_init__(self) -> None:
        whole_seconds(self, "last_transition_time")


class MachineClassStatus(Value, frozen=True, kw_only=True):
    """What is known of a class."""

    conditions: Annotated[
        tuple[MachineClassCondition, ...],
        doc("Whether its driver accepts it, and its machines are as it says; empty if so from the start."),
    ] = ()


class MachineClass(KubeObject, frozen=True, kw_only=True):
    """How machines of one sort are made: what the provider needs to know, and where the secrets are."""

    node_template: Annotated[
        ClassNodeTemplate | None,
        doc("What a node of this class will offer; cluster-autoscaler scales from zero by it.", **PRESERVE),
    ] = None
    credentials_secret_ref: Annotated[
        SecretReference | None,
        doc(
            "A further Secret with the provider's credentials; its keys win over those of secretRef.",
            **ATOMIC_MAP,
        ),
    ] = None
    secret_ref: Annotated[
        SecretReference | None,
        doc(
            "The Secret that holds userData, and the provider's credentials if nothing else does.",
            **ATOMIC_MAP,
        ),
    ] = None
    provider: Annotated[
        str, doc("The name of the driver, or where it is; a driver may refuse foreign values.")
    ] = ""
    provider_spec: Annotated[
        Mapping[str, Json],
        doc("What the driver needs to make a VM; only the driver looks inside.", required=True, **PRESERVE),
    ] = field(default_factory=dict)
    status: Annotated[MachineClassStatus, doc("Whether machines can be made by the class.")] = field(
        default_factory=MachineClassStatus
    )


MACHINE_CLASS = Kind(resource("machineclasses", "MachineClass", "mcc"), MachineClass)
