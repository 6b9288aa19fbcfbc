"""Decide on which node a Pod goes, or why on none. Pure.

Theory.      ``RULES`` is the list of what may keep a Pod off a node, in the order in which a kube-scheduler
             asks; the first that applies is the node's reason. Of the nodes that are left the one with the
             smallest share in use wins, counted with the Pod; of equals the one with the fewest Pods, then
             the first by name.
Source       the sentences are kube-scheduler's.
Called by    ``reconciler``.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kubewright.api.core import Taint
from kubewright.builtin.scheduling.facts import PODS, Amounts, Host, PodSlice, asked, terms
from kubewright.wire.selectors import Selector

NO_NODES = "no nodes available to schedule pods"
KEEPING_OFF = ("NoSchedule", "NoExecute")
RANKED = ("cpu", "memory")

CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
NOT_READY = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")
"""What a cluster's controllers put on such nodes; a Pod that tolerates them may go there."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A node and what its Pods ask for."""

    host: Host
    used: Amounts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A Pod, as far as its place is concerned."""

    pod: PodSlice
    asked: Amounts
    terms: Sequence[tuple[Selector, Selector]]


@dataclass(frozen=True, slots=True)
class Place:
    """The node of a Pod; an empty one, and why."""

    node: str = ""
    because: str = ""


def place(pod: PodSlice, seats: Iterable[Seat]) -> Place:
    """The node for a Pod."""
    pending = PendingPod(pod, asked(pod), terms(pod))
    reasons: Counter[str] = Counter()
    best: tuple[float, float, str] | None = None
    for seat in seats:
        if wrong := obstacle(pending, seat):
            reasons[wrong] += 1
        else:
            rank = _rank(pending, seat)
            best = rank if best is None else min(best, rank)
    if best is not None:
        return Place(best[2])
    told = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    return Place("", f"0/{reasons.total()} nodes are available: {told}." if reasons else NO_NODES)


def obstacle(pending: PendingPod, seat: Seat) -> str:
    """Why the Pod may not go to this node; empty when it may."""
    return next((wrong for rule in RULES if (wrong := rule(pending, seat))), "")


def _cordon(pending: PendingPod, seat: Seat) -> str:
    return "node(s) were unschedulable" if seat.host.cordoned and not _tolerated(pending, CORDON) else ""


def _taints(pending: PendingPod, seat: Seat) -> str:
    taints = (NOT_READY, *seat.host.taints) if not seat.host.ready else seat.host.taints
    for taint in taints:
        if taint.effect in KEEPING_OFF and not _tolerated(pending, taint):
            return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
    return ""


def _tolerated(pending: PendingPod, taint: Taint) -> bool:
    return any(each.tolerates(taint) for each in pending.pod.spec.tolerations)


def _affinity(pending: PendingPod, seat: Seat) -> str:
    host = seat.host
    selected = pending.pod.spec.node_selector.items() <= host.labels.items()
    fields: Mapping[str, str] = {"metadata.name": host.name}
    if selected and any(labels.matches(host.labels) and by.matches(fields) for labels, by in pending.terms):
        return ""
    return "node(s) didn't match Pod's node affinity/selector"


def _room(pending: PendingPod, seat: Seat) -> str:
    for name, wanted in pending.asked.items():
        limit = seat.host.allocatable.get(name, float("inf") if name == PODS else 0.0)
        if wanted > 0 and seat.used.get(name, 0.0) + wanted > limit:
            return "Too many pods" if name == PODS else f"Insufficient {name}"
    return ""


RULES: Sequence[Callable[[PendingPod, Seat], str]] = (_cordon, _taints, _affinity, _room)
"""What may keep a Pod off a node, in order."""


def _rank(pending: PendingPod, seat: Seat) -> tuple[float, float, str]:
    """Smaller is better."""
    host, used = seat.host, seat.used
    shares = [
        (used.get(name, 0.0) + pending.asked.get(name, 0.0)) / limit
        for name in RANKED
        if (limit := host.allocatable.get(name, 0.0)) > 0
    ]
    return round(sum(shares), 6), used.get(PODS, 0.0), host.name
