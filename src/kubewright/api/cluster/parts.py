"""Values of which the kinds of ``cluster.x-k8s.io`` are made, the same in v1beta1 and v1beta2.

Theory.      What Cluster API added to v1beta1 after v1.7 it added to v1beta2 in the same form: conditions as
             Kubernetes has them, gates, taints, counters. Each is declared once, with upstream's bounds.
Invariants.  Fields stand in the order of upstream's types: ``conversion`` writes them in that order.
Continues    in ``v1beta1`` and ``v1beta2``.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import field

from kubewright.api.meta import (
    ATOMIC_MAP,
    Int32,
    Int64,
    IntOrString,
    KubeObject,
    LabelSelector,
    Time,
    Value,
    doc,
    extra_schema,
    keyed,
    rules,
    text,
    whole_seconds,
)

_LABEL = "[A-Za-z0-9][-A-Za-z0-9_.]*"
_DOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
NAME_PATTERN = f"^{_DOMAIN}$"
KIND_PATTERN = "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$"
API_VERSION_PATTERN = rf"^{_DOMAIN}\/[a-z]([-a-z0-9]*[a-z0-9])?$"
CONDITION_TYPE_PATTERN = f"^({_DOMAIN}/)?(({_LABEL})?[A-Za-z0-9])$"
REASON_PATTERN = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
TAINT_KEY_PATTERN = rf"^({_DOMAIN}\/)?({_LABEL})?[A-Za-z0-9]$"
TAINT_VALUE_PATTERN = f"^(({_LABEL})?[A-Za-z0-9])?$"
STATUSES = ["True", "False", "Unknown"]
DRAIN, SKIP, WAIT_COMPLETED = "Drain", "Skip", "WaitCompleted"
_VERDICTS = ("Ready", "Available", "HealthCheckSucceeded", "OwnerRemediated", "ExternallyRemediated")
NOT_A_VERDICT = (
    f"!(self in [{','.join(repr(each) for each in _VERDICTS)}])",
    f"type must not be one of: {', '.join(_VERDICTS)}",
)
"""Conditions that say what a health check found, or what follows from it, are no reason to find it."""


class Condition(Value, frozen=True, kw_only=True):
    """One thing that is so, is not so, or is not known (``metav1.Condition``)."""

    type: Annotated[
        str,
        text(
            "What the condition is about, in CamelCase.",
            316,
            required=True,
            pattern=CONDITION_TYPE_PATTERN,
            least=0,
        ),
    ] = ""
    status: Annotated[str, doc("True, False or Unknown.", required=True, enum=STATUSES)] = ""
    observed_generation: Annotated[
        Int64, doc("The generation of the spec that the condition is about.", minimum=0)
    ] = 0
    last_transition_time: Annotated[Time | None, doc("When the status last changed.", required=True)] = None
    reason: Annotated[
        str,
        text(
            "Why the condition has this status, as one word in CamelCase.",
            1024,
            required=True,
            pattern=REASON_PATTERN,
        ),
    ] = ""
    message: Annotated[
        str,
        text(
            "Why the condition has this status, in a sentence for people; may be empty.",
            32768,
            required=True,
            least=0,
        ),
    ] = ""

    def __post_init__(self) -> None:
        whole_seconds(self, "last_transition_time")


Conditions = Annotated[
    tuple[Condition, ...], doc("What is so and what is not, with reasons.", maxItems=32, **keyed("type"))
]


ReasonOfHealth = Annotated[
    str,
    text(
        "The type of the Machine's condition.",
        316,
        required=True,
        pattern=CONDITION_TYPE_PATTERN,
        **rules(NOT_A_VERDICT),
    ),
]


class AvailabilityGate(Value, frozen=True, kw_only=True):
    """A further condition that a cluster must meet to be available."""

    condition_type: Annotated[
        str, text("The type of the condition.", 316, required=True, pattern=CONDITION_TYPE_PATTERN)
    ] = ""
    polarity: Annotated[
        str,
        doc(
            "Which status is good: True if Positive, as when unset; False if Negative.",
            enum=["Positive", "Negative"],
        ),
    ] = ""


class ReadinessGate(Value, frozen=True, kw_only=True):
    """A further condition that a machine must meet to be ready."""

    condition_type: Annotated[
        str, text("The type of the condition.", 316, required=True, pattern=CONDITION_TYPE_PATTERN)
    ] = ""
    polarity: Annotated[
        str,
        doc(
            "Which status is good: True if Positive, as when unset; False if Negative.",
            enum=["Positive", "Negative"],
        ),
    ] = ""


class MachineTaint(Value, frozen=True, kw_only=True):
    """A taint that is kept on the Node of a machine."""

    key: Annotated[str, text("The name of the taint.", 317, required=True, pattern=TAINT_KEY_PATTERN)] = ""
    value: Annotated[str, text("The value of the taint.", 63, pattern=TAINT_VALUE_PATTERN)] = ""
    effect: Annotated[
        str,
        doc(
            "One of NoSchedule, PreferNoSchedule and NoExecute.",
            required=True,
            enum=["NoSchedule", "PreferNoSchedule", "NoExecute"],
        ),
    ] = ""
    propagation: Annotated[
        str,
        doc(
            "Always: the taint is kept on the Node; OnInitialization: it is put on once.",
            required=True,
            enum=["Always", "OnInitialization"],
        ),
    ] = ""


class MachineNaming(Value, frozen=True, kw_only=True):
    """How new machines are named."""

    template: Annotated[
        str, text("A template in Go's language of the names of new machines; it must contain .random.", 256)
    ] = ""


class StatusVersion(Value, frozen=True, kw_only=True):
    """How many machines have a version of Kubernetes."""

    version: Annotated[str, text("The version of Kubernetes.", 256, required=True)] = ""
    replicas: Annotated[Int32, doc("How many machines have it.", minimum=1)] = 0


class UpgradePlanVersion(Value, frozen=True, kw_only=True):
    """A version on the way of an upgrade."""

    version: Annotated[str, text("The version of Kubernetes.", 256, required=True)] = ""


class StatusConditions(Value, frozen=True, kw_only=True):
    """The conditions of v1beta2, as v1beta1 shows them."""

    conditions: Conditions = ()


class StatusCounts(StatusConditions, frozen=True, kw_only=True):
    """The conditions and counters of v1beta2, as v1beta1 shows them for sets and deployments."""

    ready_replicas: Annotated[Int32 | None, doc("How many machines are ready.")] = None
    available_replicas: Annotated[Int32 | None, doc("How many machines are available.")] = None
    up_to_date_replicas: Annotated[Int32 | None, doc("How many machines are up to date.")] = None


class ReplicaCounts(Value, frozen=True, kw_only=True):
    """How many machines of one sort a cluster has, and of which versions."""

    desired_replicas: Annotated[Int32 | None, doc("How many machines there should be.")] = None
    replicas: Annotated[Int32 | None, doc("How many machines there are.")] = None
    up_to_date_replicas: Annotated[Int32 | None, doc("How many of them are up to date.")] = None
    ready_replicas: Annotated[Int32 | None, doc("How many of them are ready.")] = None
    available_replicas: Annotated[Int32 | None, doc("How many of them are available.")] = None
    versions: Annotated[
        tuple[StatusVersion, ...],
        doc("The versions of Kubernetes that its machines have.", maxItems=32, minItems=1),
    ] = ()
    upgrade_plan: Annotated[
        tuple[UpgradePlanVersion, ...],
        doc("The versions that an upgrade goes through.", maxItems=32, minItems=1),
    ] = ()


class MachineDeletionStatus(Value, frozen=True, kw_only=True):
    """When the steps of a deletion began."""

    node_drain_start_time: Annotated[Time | None, doc("When draining the Node began.")] = None
    wait_for_node_volume_detach_start_time: Annotated[
        Time | None, doc("When waiting for volumes to detach began.")
    ] = None
    wait_for_pre_drain_hook_start_time: Annotated[
        Time | None, doc("When waiting for hooks before the drain began.")
    ] = None
    wait_for_pre_terminate_hook_start_time: Annotated[
        Time | None, doc("When waiting for hooks before the end of the host began.")
    ] = None

    def __post_init__(self) -> None:
        whole_seconds(
            self,
            "node_drain_start_time",
            "wait_for_node_volume_detach_start_time",
            "wait_for_pre_drain_hook_start_time",
            "wait_for_pre_terminate_hook_start_time",
        )


class ClusterV1Beta2(StatusConditions, frozen=True, kw_only=True):
    """The conditions and counters of v1beta2, as v1beta1 shows them for clusters."""

    control_plane: Annotated[ReplicaCounts | None, doc("The machines of the control plane.")] = None
    workers: Annotated[ReplicaCounts | None, doc("The machines that are workers.")] = None


class FailureDomain(Value, frozen=True, kw_only=True):
    """A part of an infrastructure that fails by itself."""

    name: Annotated[str, text("The name of the domain.", 256, required=True)] = ""
    control_plane: Annotated[bool | None, doc("Whether machines of the control plane may be here.")] = None
    attributes: Annotated[Mapping[str, str], doc("What else the provider says about the domain.")] = field(
        default_factory=dict
    )


class NodeReference(Value, frozen=True, kw_only=True):
    """The Node that a machine became."""

    name: Annotated[str, text("The name of the Node.", 253, required=True, pattern=NAME_PATTERN)] = ""


class MachineAddress(Value, frozen=True, kw_only=True):
    """One address of a host."""

    type: Annotated[
        str,
        doc(
            "Hostname, InternalIP, ExternalIP, InternalDNS or ExternalDNS.",
            required=True,
            enum=["Hostname", "ExternalIP", "InternalIP", "ExternalDNS", "InternalDNS"],
        ),
    ] = ""
    address: Annotated[str, text("The address itself.", 256, required=True)] = ""


class RemediationStrategy(Value, frozen=True, kw_only=True):
    """How unhealthy machines are replaced."""

    max_in_flight: Annotated[
        IntOrString | None,
        doc("How many are replaced at once; a percentage of replicas rounds up. No limit when unset."),
    ] = None


class DrainRuleConfig(Value, frozen=True, kw_only=True):
    """What a drain does with the pods of a rule."""

    behavior: Annotated[
        str,
        doc(
            "Drain evicts the pods; Skip leaves them alone; WaitCompleted waits until they have ended.",
            required=True,
            enum=[DRAIN, SKIP, WAIT_COMPLETED],
        ),
    ] = ""
    order: Annotated[
        Int32 | None,
        doc("Pods are evicted when all with a lower order are gone; 0 when unset. Only with Drain."),
    ] = None


class DrainRuleMachines(Value, frozen=True, kw_only=True):
    """Machines by their labels and by those of their clusters: both must match."""

    selector: Annotated[LabelSelector | None, doc("Labels of machines; all when unset.", **ATOMIC_MAP)] = None
    cluster_selector: Annotated[
        LabelSelector | None, doc("Labels of the machines' clusters; all when unset.", **ATOMIC_MAP)
    ] = None


class DrainRulePods(Value, frozen=True, kw_only=True):
    """Pods by their labels and by those of their namespaces: both must match."""

    selector: Annotated[LabelSelector | None, doc("Labels of pods; all when unset.", **ATOMIC_MAP)] = None
    namespace_selector: Annotated[
        LabelSelector | None, doc("Labels of the pods' namespaces; all when unset.", **ATOMIC_MAP)
    ] = None


class MachineDrainRuleSpec(Value, frozen=True, kw_only=True):
    """What is done with which pods of which machines."""

    drain: Annotated[DrainRuleConfig, doc("What a drain does with the pods.", required=True)] = (
        DrainRuleConfig()
    )
    machines: Annotated[
        tuple[Annotated[DrainRuleMachines, extra_schema(minProperties=1)], ...],
        doc(
            "The machines of the namespace that the rule is for, by any of these; all when unset.",
            maxItems=32,
            minItems=1,
            **rules(("self.all(x, self.exists_one(y, x == y))", "entries in machines must be unique")),
        ),
    ] = ()
    pods: Annotated[
        tuple[Annotated[DrainRulePods, extra_schema(minProperties=1)], ...],
        doc(
            "The pods that the rule is for, by any of these; all when unset.",
            maxItems=32,
            minItems=1,
            **rules(("self.all(x, self.exists_one(y, x == y))", "entries in pods must be unique")),
        ),
    ] = ()


class MachineDrainRule(KubeObject, frozen=True, kw_only=True):
    """What a drain does with some pods. Of several rules for a pod the first by name counts."""

    spec: Annotated[
        MachineDrainRuleSpec, doc("What is done with which pods of which machines.", required=True)
    ] = MachineDrainRuleSpec()
