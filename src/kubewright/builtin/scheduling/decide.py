"""Decide which node a Pod is bound to, or why it cannot be bound. Pure.

Theory.      ``FILTERS`` are applied to each node in the order of a kube-scheduler; the first that rejects it
             gives the reasons. Of the nodes that are left the one whose smallest share would be in use
             with the Pod is chosen; of equal ones the one with the fewest Pods, then the first by name.
             A Pod that fits nowhere is told so in kube-scheduler's words, down to those about claims and
             preemption, which are for the nodes that fewer Pods would help, and for the others.
Source       kube-scheduler 1.36.3: the sentences, and in which order they are counted.
Called by    ``reconciler``.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kubewright.api.core import Taint
from kubewright.builtin.scheduling.facts import (
    PODS,
    Amounts,
    NodeFacts,
    PodSlice,
    node_selector_terms,
    requests_of,
)
from kubewright.wire.selectors import Selector

NO_NODES = "no nodes available to schedule pods"
NO_CLAIMS = "no new claims to deallocate"
TAINTED = "node(s) had untolerated taint(s)"
NEVER = "preemption: not eligible due to preemptionPolicy=Never."
NO_VICTIMS = "No preemption victims found for incoming pod"
NO_USE = "Preemption is not helpful for scheduling"
REPELLING_EFFECTS = ("NoSchedule", "NoExecute")
RANKED = ("cpu", "memory")

CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
NOT_READY = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")
"""What a cluster's controllers put on such nodes; a Pod that tolerates them may go there."""


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node, and the sum of what its Pods request."""

    facts: NodeFacts
    used: Amounts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A Pod without a node, with what was computed from it once for all nodes."""

    pod: PodSlice
    requests: Amounts
    terms: Sequence[tuple[Selector, Selector]]


@dataclass(frozen=True, slots=True)
class Placement:
    """The node for a Pod; if there is none, ``node`` is empty and ``because`` says why."""

    node: str = ""
    because: str = ""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a Pod may not go to a node. ``lasting``: it could not, either, if no other Pod were there."""

    reasons: tuple[str, ...]
    lasting: bool = True


def place(pod: PodSlice, nodes: Iterable[NodeInfo]) -> Placement:
    """The node for a Pod."""
    pending = PendingPod(pod, requests_of(pod), node_selector_terms(pod))
    rejected: list[Rejection] = []
    best: tuple[float, float, str] | None = None
    for node in nodes:
        if (wrong := rejection(pending, node)) is not None:
            rejected.append(wrong)
        else:
            rank = _rank(pending, node)
            best = rank if best is None else min(best, rank)
    if best is not None:
        return Placement(best[2])
    return Placement("", _unschedulable(rejected, preempts=pod.spec.preemption_policy != "Never"))


def _unschedulable(rejected: Sequence[Rejection], *, preempts: bool) -> str:
    """The message about a Pod that all nodes have rejected."""
    if not rejected:
        return NO_NODES
    filtered = Counter(reason for each in rejected for reason in each.reasons)
    helped = Counter(NO_USE if each.lasting else NO_VICTIMS for each in rejected)
    told = f"preemption: {_counted(len(rejected), helped)}" if preempts else NEVER
    return f"{_counted(len(rejected), filtered)} {NO_CLAIMS}, {told}"


def _counted(nodes: int, reasons: Counter[str]) -> str:
    """``0/3 nodes are available: 1 this, 2 that.``, sorted as texts: 10 comes before 2."""
    each = sorted(f"{count} {reason}" for reason, count in reasons.items())
    return f"0/{nodes} nodes are available: {', '.join(each)}."


def rejection(pending: PendingPod, node: NodeInfo) -> Rejection | None:
    """Why the Pod may not go to this node; None when it may."""
    return next((wrong for each in FILTERS if (wrong := each(pending, node)) is not None), None)


def _cordon(pending: PendingPod, node: NodeInfo) -> Rejection | None:
    refused = node.facts.cordoned and not _tolerated(pending, CORDON)
    return Rejection(("node(s) were unschedulable",)) if refused else None


def _taints(pending: PendingPod, node: NodeInfo) -> Rejection | None:
    taints = (NOT_READY, *node.facts.taints) if not node.facts.ready else node.facts.taints
    for taint in taints:
        if taint.effect in REPELLING_EFFECTS and not _tolerated(pending, taint):
            return Rejection((TAINTED,))
    return None


def _tolerated(pending: PendingPod, taint: Taint) -> bool:
    return any(each.tolerates(taint) for each in pending.pod.spec.tolerations)


def _affinity(pending: PendingPod, node: NodeInfo) -> Rejection | None:
    facts = node.facts
    selected = pending.pod.spec.node_selector.items() <= facts.labels.items()
    fields: Mapping[str, str] = {"metadata.name": facts.name}
    if selected and any(labels.matches(facts.labels) and by.matches(fields) for labels, by in pending.terms):
        return None
    return Rejection(("node(s) didn't match Pod's node affinity/selector",))


def _resources(pending: PendingPod, node: NodeInfo) -> Rejection | None:
    """Every resource of which there is too little. Only what is more than the node ever has is lasting."""
    reasons, lasting = [], False
    for name, wanted in pending.requests.items():
        limit = node.facts.allocatable.get(name, float("inf") if name == PODS else 0.0)
        if wanted > 0 and node.used.get(name, 0.0) + wanted > limit:
            reasons.append("Too many pods" if name == PODS else f"Insufficient {name}")
            lasting |= name != PODS and wanted > limit
    return Rejection(tuple(reasons), lasting) if reasons else None


FILTERS: Sequence[Callable[[PendingPod, NodeInfo], Rejection | None]] = (
    _cordon,
    _taints,
    _affinity,
    _resources,
)
"""Each returns why a node is rejected, or None; in this order."""


def _rank(pending: PendingPod, node: NodeInfo) -> tuple[float, float, str]:
    """Smaller is better."""
    facts, used = node.facts, node.used
    shares = [
        (used.get(name, 0.0) + pending.requests.get(name, 0.0)) / limit
        for name in RANKED
        if (limit := facts.allocatable.get(name, 0.0)) > 0
    ]
    return round(sum(shares), 6), used.get(PODS, 0.0), facts.name
