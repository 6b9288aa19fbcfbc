"""CapacityReserve: how much of a pool of nodes is kept free, in which pieces, and what became of it.

Theory.      Placeholders are pods that do nothing and give way to any pod of a higher priority. A workload
             that grows finds their room at once; the placeholders wait for a node then, and an autoscaler
             that adds nodes for pods that wait adds some for them. ``replicas`` and ``limits`` mean what they
             mean in a CapacityBuffer of ``autoscaling.x-k8s.io``; its one percentage is of a workload's
             replicas, and ours are of what nodes offer, so they have another name.
             By its label a drain knows a placeholder, and does not count it as workload.
Source       EXC-01, EXC-02; decision 0070.
Called by    ``validate``, ``manifests``, ``reserves``; ``nodes.drain`` reads the label.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from msgspec import field

from kubewright.api.kinds import Kind
from kubewright.api.meta import (
    ATOMIC,
    Condition,
    Int32,
    Int64,
    KubeObject,
    Quantity,
    Time,
    Value,
    doc,
    whole_seconds,
)
from kubewright.wire.gvk import Resource

GROUP, VERSION = "capacity.kubewright.dev", "v1alpha1"
FINALIZER = f"{GROUP}/placeholders"
LEASE = "kubewright-capacity"
COMPONENT = "capacityreserve-controller"
"""The reporting component of our events."""

PLACEHOLDER_LABEL = f"{GROUP}/placeholder"
"""On every placeholder; its value is the name of the reserve's Deployment."""
OWNER_LABEL = f"{GROUP}/reserve-uid"
"""On what a reserve has in the cluster of its nodes: the uid of the reserve."""
RESERVE_ANNOTATION = f"{GROUP}/reserve"
"""Beside it, for people: ``namespace/name`` of the reserve."""
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""cluster-autoscaler's own: a pod with this does not keep its node from being removed."""

PLACE = "kube-system"
"""The namespace of all placeholders: every cluster has it, and no user's quota counts what is there."""
MOST = 1000
"""The most placeholders of one reserve."""
LOWEST_SEEN = -10
"""cluster-autoscaler adds no node for pods of a lower priority (``--expendable-pods-priority-cutoff``)."""


class ZoneSpread(StrEnum):
    """Whether placeholders are spread over the zones of their pool."""

    PREFER = "Prefer"
    REQUIRE = "Require"
    NONE = "None"


class ConditionType(StrEnum):
    """Types of conditions; kstatus reads the first two."""

    READY = "Ready"
    """Whether all placeholders hold room. It is False, too, while a workload uses the room."""
    STALLED = "Stalled"
    """Whether a user has to mend something. There is none while that is not so."""
    LIMITED = "Limited"
    """Whether the reserve is smaller than it says, for a bound. There is none while that is not so."""


class Reason(StrEnum):
    """Reasons of conditions and of events."""

    RESERVED = "Reserved"
    PENDING = "PlaceholdersPending"
    NO_NODES = "NoNodes"
    UNIT_TOO_LARGE = "UnitFitsNoNode"
    LARGER_THAN_POOL = "LargerThanPool"
    INVALID = "InvalidSpec"
    FOREIGN = "NameTaken"
    REFUSED = "Refused"
    RESIZED = "Resized"
    BY_LIMITS = "Limits"
    BY_NUMBER = "TooManyPlaceholders"


class Toleration(Value, frozen=True, kw_only=True):
    """A taint that placeholders tolerate; empty members tolerate any."""

    key: Annotated[str, doc("The key of the taint; empty, with Exists: any taint.")] = ""
    operator: Annotated[str, doc("Exists or Equal.", default="Equal", enum=["Exists", "Equal"])] = "Equal"
    value: Annotated[str, doc("The value of the taint, with Equal.")] = ""
    effect: Annotated[
        str,
        doc(
            "The effect of the taint; empty: any.",
            enum=["", "NoSchedule", "PreferNoSchedule", "NoExecute"],
        ),
    ] = ""


class CapacityReserveSpec(Value, frozen=True, kw_only=True):
    """How much is kept free, in which pieces, and on which nodes. One of ``replicas``, ``percent``, ``total``
    and ``machines`` says how much."""

    unit: Annotated[
        Mapping[str, Quantity],
        doc(
            "What one placeholder asks for, by resource, such as cpu and memory. As large as a typical pod "
            "of the workload that is to find room.",
            required=True,
            minProperties=1,
        ),
    ] = field(default_factory=dict)
    replicas: Annotated[Int32 | None, doc("How many units are kept free.", minimum=0, maximum=MOST)] = None
    percent: Annotated[
        Mapping[str, int] | None,
        doc(
            "How much is kept free in percent, by resource of the unit, of what the Ready nodes of the pool "
            "offer to pods; the number of units is rounded up, and follows the nodes."
        ),
    ] = None
    total: Annotated[
        Mapping[str, Quantity] | None,
        doc("How much is kept free in all, by resource of the unit; the number of units is rounded up."),
    ] = None
    machines: Annotated[
        Int32 | None,
        doc(
            "How many machines are kept free: so many units for each as fit into the largest node of the "
            "pool.",
            minimum=0,
            maximum=MOST,
        ),
    ] = None
    limits: Annotated[
        Mapping[str, Quantity],
        doc("The most that all placeholders together ask for, by resource of the unit."),
    ] = field(default_factory=dict)
    node_selector: Annotated[
        Mapping[str, str], doc("The labels of the nodes of the pool; empty: all nodes.")
    ] = field(default_factory=dict)
    tolerations: Annotated[
        tuple[Toleration, ...], doc("The taints of the pool that placeholders tolerate.", **ATOMIC)
    ] = ()
    zone_spread: Annotated[
        str,
        doc(
            "Whether placeholders are spread over zones: Prefer (where there is room), Require (else they "
            "wait) or None.",
            default=ZoneSpread.PREFER.value,
            enum=[each.value for each in ZoneSpread],
        ),
    ] = ZoneSpread.PREFER
    priority: Annotated[
        Int32,
        doc(
            "The priority of placeholders. Pods of a higher one preempt them; pods that name no "
            "PriorityClass usually have 0. Below -10 cluster-autoscaler adds no nodes for them.",
            default=-1,
            maximum=0,
        ),
    ] = -1


class CapacityReserveStatus(Value, frozen=True, kw_only=True):
    """What is kept free now."""

    observed_generation: Annotated[Int64, doc("The generation of the spec that this is about.")] = 0
    replicas: Annotated[Int32 | None, doc("How many placeholders there should be.")] = None
    ready_replicas: Annotated[Int32 | None, doc("How many placeholders run on a node and hold room.")] = None
    pending_replicas: Annotated[
        Int32 | None, doc("How many placeholders do not: they gave way to a workload, or no node has room.")
    ] = None
    nodes: Annotated[Int32 | None, doc("How many Ready nodes the pool has.")] = None
    free: Annotated[
        Mapping[str, Quantity], doc("What the placeholders hold free for workloads now, by resource.")
    ] = field(default_factory=dict)
    lower_to: Annotated[
        Int32 | None,
        doc(
            "The highest number of placeholders that was wanted since lowerSince; it is taken when it has "
            "been lower for five minutes."
        ),
    ] = None
    lower_since: Annotated[
        Time | None, doc("Since when fewer placeholders than replicas would be enough.")
    ] = None
    conditions: Annotated[tuple[Condition, ...], doc("How it is: Ready, Stalled, Limited.")] = ()

    def __post_init__(self) -> None:
        whole_seconds(self, "lower_since")


class CapacityReserve(KubeObject, frozen=True, kw_only=True):
    """Room in a cluster that is kept free for workloads, by pods that give way to them."""

    spec: Annotated[CapacityReserveSpec, doc("What is kept free.", required=True)] = field(
        default_factory=CapacityReserveSpec
    )
    status: Annotated[CapacityReserveStatus, doc("What is free now.")] = field(
        default_factory=CapacityReserveStatus
    )


CAPACITY_RESERVE = Kind(
    Resource(GROUP, VERSION, "capacityreserves", "CapacityReserve", short_names=("reserve",)),
    CapacityReserve,
)


class PriorityClass(KubeObject, frozen=True, kw_only=True):
    """A priority that pods have by its name; Kubernetes' own kind."""

    value: int = 0
    preemption_policy: str = ""


PRIORITY_CLASS = Kind(
    Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False), PriorityClass
)
