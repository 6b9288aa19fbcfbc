"""MachineDrainRule: which pods leave the Nodes of machines by eviction, in which order, and which do not.

Source       Cluster API v1.10, whose v1beta1 has the kind; capi.md §5.7. It has no status. That no entry
             comes twice is a rule of ``validate``, since servers differ in the rules that a schema may have.
"""

from typing import Annotated, Any

from msgspec import field

from kubewright.api.cluster.v1beta1.shared import resource
from kubewright.api.kinds import Kind
from kubewright.api.meta import ATOMIC_MAP, Int32, KubeObject, LabelSelector, Value, doc

DRAIN, SKIP, WAIT_COMPLETED = "Drain", "Skip", "WaitCompleted"
SELECTORS: dict[str, Any] = {"minItems": 1, "maxItems": 32}


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

    drain: Annotated[DrainRuleConfig, doc("What a drain does with the pods.", required=True)] = field(
        default_factory=DrainRuleConfig
    )
    machines: Annotated[
        tuple[Annotated[DrainRuleMachines, doc("Some machines.", minProperties=1)], ...],
        doc(
            "The machines of the namespace that the rule is for, by any of these; all when unset.",
            **SELECTORS,
        ),
    ] = ()
    pods: Annotated[
        tuple[Annotated[DrainRulePods, doc("Some pods.", minProperties=1)], ...],
        doc("The pods that the rule is for, by any of these; all when unset.", **SELECTORS),
    ] = ()


class MachineDrainRule(KubeObject, frozen=True, kw_only=True):
    """What a drain does with some pods. Of several rules for a pod the first by name counts."""

    spec: Annotated[
        MachineDrainRuleSpec, doc("What is done with which pods of which machines.", required=True)
    ] = field(default_factory=MachineDrainRuleSpec)


MACHINE_DRAIN_RULE = Kind(resource("machinedrainrules", "MachineDrainRule"), MachineDrainRule)
