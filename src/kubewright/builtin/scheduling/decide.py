"""Decide which node a Pod is bound to, or why it cannot be bound. Pure.

Theory.      ``FILTERS`` are applied to each node in the order of a kube-scheduler; the first that rejects it
             gives the reason. Of the nodes that are left the one whose smallest share would be in use
             with the Pod is chosen; of equal ones the one with the fewest Pods, then the first by name.
Source       the sentences are kube-scheduler's.
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


def place(pod: PodSlice, nodes: Iterable[NodeInfo]) -> Placement:
    """The node for a Pod."""
    pending = PendingPod(pod, requests_of(pod), node_selector_terms(pod))
    reasons: Counter[str] = Counter()
    best: tuple[float, float, str] | None = None
    for node in nodes:
        if wrong := rejection(pending, node):
            reasons[wrong] += 1
        else:
            rank = _rank(pending, node)
            best = rank if best is None else min(best, rank)
    if best is not None:
        return Placement(best[2])
    counted = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    return Placement("", f"0/{reasons.total()} nodes are available: {counted}." if reasons else NO_NODES)


def rejection(pending: PendingPod, node: NodeInfo) -> str:
    """Why the Pod may not go to this node; empty when it may."""
    return next((wrong for each in FILTERS if (wrong := each(pending, node))), "")


def _cordon(pending: PendingPod, node: NodeInfo) -> str:
    return "node(s) were unschedulable" if node.facts.cordoned and not _tolerated(pending, CORDON) else ""


def _taints(pending: PendingPod, node: NodeInfo) -> str:
    taints = (NOT_READY, *node.facts.taints) if not node.facts.ready else node.facts.taints
    for taint in taints:
        if taint.effect in REPELLING_EFFECTS and not _tolerated(pending, taint):
            return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
    return ""


def _tolerated(pending: PendingPod, taint: Taint) -> bool:
    return any(each.tolerates(taint) for each in pending.pod.spec.tolerations)


def _affinity(pending: PendingPod, node: NodeInfo) -> str:
    facts = node.facts
    selected = pending.pod.spec.node_selector.items() <= facts.labels.items()
    fields: Mapping[str, str] = {"metadata.name": facts.name}
    if selected and any(labels.matches(facts.labels) and by.matches(fields) for labels, by in pending.terms):
        return ""
    return "node(s) didn't match Pod's node affinity/selector"


def _resources(pending: PendingPod, node: NodeInfo) -> str:
    for name, wanted in pending.requests.items():
        limit = node.facts.allocatable.get(name, float("inf") if name == PODS else 0.0)
        if wanted > 0 and node.used.get(name, 0.0) + wanted > limit:
            return "Too many pods" if name == PODS else f"Insufficient {name}"
    return ""


FILTERS: Sequence[Callable[[PendingPod, NodeInfo], str]] = (_cordon, _taints, _affinity, _resources)
"""Each returns why a node is rejected, or an empty string; in this order."""


def _rank(pending: PendingPod, node: NodeInfo) -> tuple[float, float, str]:
    """Smaller is better."""
    facts, used = node.facts, node.used
    shares = [
        (used.get(name, 0.0) + pending.requests.get(name, 0.0)) / limit
        for name in RANKED
        if (limit := facts.allocatable.get(name, 0.0)) > 0
    ]
    return round(sum(shares), 6), used.get(PODS, 0.0), facts.name
