"""Decide which node a Pod is bound to, or why it cannot be bound. Pure.

Theory.      ``FILTERS`` are applied to each node in the order of a kube-scheduler; the first that rejects it
             gives the reasons. Of the nodes that are left the one whose smallest share would be in use with
             the Pod is chosen; of equal ones the one with the fewest Pods, then the first by name. Room that
             was promised to a Pod of the same or a higher priority (it is nominated for the node, whose
             victims still end) counts as taken; the node that was promised to the Pod itself goes before all
             others. A Pod that fits nowhere is told so in kube-scheduler's words, and ``relieve`` says which
             Pods are to make room for it, or why none are. Decide which Pods make room for one of a higher
             priority that fits nowhere. On each node that fewer Pods would help, all Pods of lower priorities
             are taken away in thought. If the Pod fits then, they are put back one after the other, the most
             important first, as long as it still fits; those that stay away are the victims. Pods whose
             budget allows no more disruptions are put back before all others. Of the nodes the one is chosen
             where victims matter least: the fewest broken budgets, the lowest priority of the highest victim,
             the smallest sum of priorities, the fewest victims, those that have run for the shortest time;
             then the first by name. Once ``MOST_CANDIDATES`` nodes (or a tenth of all, if that is more) would
             do, no more are looked at, as long as one of them breaks no budget.
Invariants.  No victim has the same or a higher priority. With one victim less the Pod would not fit. A Pod
             whose victims still end on the node that it was promised takes no more of them.
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
from kubewright.wire.gvk import Key
from kubewright.wire.selectors import Selector

NO_NODES = "no nodes available to schedule pods"
NO_CLAIMS = "no new claims to deallocate"
TAINTED = "node(s) had untolerated taint(s)"
NEVER = "preemption: not eligible due to preemptionPolicy=Never."
NO_VICTIMS = "No preemption victims found for incoming pod"
NO_USE = "Preemption is not helpful for scheduling"
LEAST = 1e-6
"""What is less than this of any resource is an error of floats."""
REPELLING_EFFECTS = ("NoSchedule", "NoExecute")
RANKED = ("cpu", "memory")

CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
NOT_READY = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")
"""What a cluster's controllers put on such nodes; a Pod that tolerates them may go there."""


@dataclass(frozen=True, slots=True)
class Nominee:
    """A Pod without a node to which a node was promised, and what it requests."""

    key: Key
    priority: int
    requests: Amounts


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node, the sum of what its Pods request, and the Pods to which it was promised."""

    facts: NodeFacts
    used: Amounts = field(default_factory=dict)
    nominees: Sequence[Nominee] = ()


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A Pod without a node, with what was computed from it once for all nodes."""

    pod: PodSlice
    requests: Amounts
    terms: Sequence[tuple[Selector, Selector]]

    @property
    def key(self) -> Key:
        return Key(self.pod.metadata.namespace, self.pod.metadata.name)

    @property
    def priority(self) -> int:
        return self.pod.spec.priority


@dataclass(frozen=True, slots=True)
class Resident:
    """A Pod on a node, as one that may have to go. ``started``: in seconds; infinite before it runs.
    ``leaves``: it is being deleted; ``preempted``: because a scheduler wants its place."""

    key: Key
    uid: str = ""
    priority: int = 0
    requests: Amounts = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    started: float = float("inf")
    leaves: bool = False
    preempted: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """The node for a Pod; if there is none, ``node`` is empty and ``because`` says why.

    ``nominated`` is the node that is promised to it, where ``victims`` make room; empty: none is; None: what
    was promised before stays.
    """

    node: str = ""
    because: str = ""
    nominated: str | None = ""
    victims: tuple[Resident, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a Pod may not go to a node. ``lasting``: it could not, either, if no other Pod were there."""

    reasons: tuple[str, ...]
    lasting: bool = True


Refused = Mapping[str, tuple[NodeInfo, Rejection]]
"""All nodes that a Pod may not go to, by name, with the reasons, in the order in which they are known."""


@dataclass(frozen=True, slots=True)
class Relief:
    """What is done for a Pod that fits nowhere: a node with victims, or ``told``, why there is none."""

    nominated: str | None = ""
    told: str = ""
    victims: tuple[Resident, ...] = ()


Relieve = Callable[[PendingPod, Refused], Relief]


def no_victims(_pending: PendingPod, refused: Refused) -> Relief:
    """Where no Pod has a lower priority."""
    helped = Counter(NO_USE if why.lasting else NO_VICTIMS for _, why in refused.values())
    return Relief("", f"preemption: {counted(len(refused), helped)}")


def place(pod: PodSlice, nodes: Iterable[NodeInfo], relieve: Relieve = no_victims) -> Placement:
    """The node for a Pod, or what is done about it that there is none."""
    pending = PendingPod(pod, requests_of(pod), node_selector_terms(pod))
    promised = pod.status.nominated_node_name
    refused: dict[str, tuple[NodeInfo, Rejection]] = {}
    best: tuple[float, float, str] | None = None
    for node in nodes:
        if (wrong := rejection(pending, node)) is not None:
            refused[node.facts.name] = node, wrong
        elif node.facts.name == promised:
            return Placement(promised)
        else:
            rank = _rank(pending, node)
            best = rank if best is None else min(best, rank)
    if best is not None:
        return Placement(best[2])
    if not refused:
        return Placement("", NO_NODES)
    never = pod.spec.preemption_policy == "Never"
    relief = Relief(None, NEVER) if never else relieve(pending, refused)
    filtered = Counter(reason for _, why in refused.values() for reason in why.reasons)
    because = counted(len(refused), filtered)
    if not relief.victims:
        because = f"{because} {NO_CLAIMS}, {relief.told}"
    return Placement("", because, relief.nominated, relief.victims)


def counted(nodes: int, reasons: Counter[str]) -> str:
    """``0/3 nodes are available: 1 this, 2 that.``, sorted as texts: 10 comes before 2."""
    each = sorted(f"{count} {reason}" for reason, count in reasons.items())
    return f"0/{nodes} nodes are available: {', '.join(each)}."


def rejection(pending: PendingPod, node: NodeInfo) -> Rejection | None:
    """Why the Pod may not go to this node; None when it may. What was promised to others counts."""
    if node.nominees:
        node = NodeInfo(node.facts, _with_nominees(pending, node))
    return next((wrong for each in FILTERS if (wrong := each(pending, node)) is not None), None)


def _with_nominees(pending: PendingPod, node: NodeInfo) -> Amounts:
    """What is used or promised to Pods that this one yields to. It may take what others are promised."""
    used = dict(node.used)
    for each in node.nominees:
        if each.priority >= pending.priority and each.key != pending.key:
            for name, number in each.requests.items():
                used[name] = used.get(name, 0.0) + number
    return used


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
        if wanted > 0 and node.used.get(name, 0.0) + wanted > limit + LEAST:
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


MOST_CANDIDATES = 100
WAITS = "preemption: not eligible due to a terminating pod on the nominated node."
LOWEST = -(2**31)
"""Of all priorities: sums count from it, so that one more victim always counts more than none."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How many of the Pods that a budget selects may go now; ``disrupted`` are already counted there."""

    namespace: str
    selector: Selector
    allowed: int = 0
    disrupted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node with the Pods that would have to go, the most important first. ``broken``: how many of them
    break a budget."""

    node: str
    victims: tuple[Resident, ...]
    broken: int = 0


@dataclass(frozen=True, slots=True)
class Around:
    """The Pods that a Pod could preempt, by the name of their node.

    ``requests`` is the sum of what they request, None where there are none: all that is asked of most nodes.
    ``pods`` reads them.
    """

    requests: Callable[[str], Amounts | None]
    pods: Callable[[str], Sequence[Resident]]
    budgets: Sequence[Budget] = ()


def relieve(pending: PendingPod, refused: Refused, around: Around) -> Relief:
    """Which node is promised to a Pod, and which of its Pods go."""
    promised = pending.pod.status.nominated_node_name
    may_help = promised in refused and not refused[promised][1].lasting
    if may_help and any(each.preempted for each in around.pods(promised)):
        return Relief(None, WAITS)
    enough, found, told = max(MOST_CANDIDATES, len(refused) // 10), list[Candidate](), Counter[str]()
    for name, (node, why) in refused.items():
        reasons = (NO_USE,) if why.lasting else _no_help(pending, node, around.requests(name))
        if reasons:
            told.update(reasons)
            continue
        found.append(victims_on(pending, node, around.pods(name), around.budgets))
        if len(found) >= enough and any(not each.broken for each in found):
            break
    if not found:
        return Relief("", f"preemption: {counted(len(refused), told)}")
    best = min(found, key=_cost)
    return Relief(best.node, "", best.victims)


def _no_help(pending: PendingPod, node: NodeInfo, lower: Amounts | None) -> tuple[str, ...]:
    """Why it would not help if all Pods of lower priorities left a node; empty where it would."""
    if lower is None:
        return (NO_VICTIMS,)
    wrong = rejection(pending, NodeInfo(node.facts, _without(node.used, lower), node.nominees))
    return () if wrong is None else wrong.reasons


def victims_on(
    pending: PendingPod, node: NodeInfo, lower: Sequence[Resident], budgets: Sequence[Budget]
) -> Candidate:
    """The fewest Pods of lower priorities that have to go from a node, where it helps if all go."""
    ranked = sorted(lower, key=_importance)
    used = dict(node.used)
    for each in ranked:
        used = _without(used, each.requests)
    violating, others = _by_budgets(ranked, budgets)
    victims, broken = list[Resident](), 0
    for number, each in enumerate((*violating, *others)):
        kept = _without(used, each.requests, -1)
        if rejection(pending, NodeInfo(node.facts, kept, node.nominees)) is None:
            used = kept
            continue
        victims.append(each)
        broken += number < len(violating)
    return Candidate(node.facts.name, tuple(sorted(victims, key=_importance)), broken)


def _without(used: Amounts, requests: Amounts, sign: int = 1) -> dict[str, float]:
    return {**used, **{name: used.get(name, 0.0) - sign * number for name, number in requests.items()}}


def _importance(pod: Resident) -> tuple[int, float, str, str]:
    """The most important is first: the highest priority, then the one that has run for longest."""
    return -pod.priority, pod.started, pod.key.namespace, pod.key.name


def _by_budgets(pods: Iterable[Resident], budgets: Sequence[Budget]) -> tuple[list[Resident], list[Resident]]:
    """The Pods whose budgets would break if all of them went, in this order; and the others."""
    left, violating, others = [each.allowed for each in budgets], list[Resident](), list[Resident]()
    for pod in pods:
        breaks = False
        for number, budget in enumerate(budgets):
            if pod.key.name not in budget.disrupted and _selects(budget, pod):
                left[number] -= 1
                breaks |= left[number] < 0
        (violating if breaks else others).append(pod)
    return violating, others


def _selects(budget: Budget, pod: Resident) -> bool:
    """A Pod without labels is selected by none, whatever a selector says of labels that are not there."""
    same = bool(pod.labels) and budget.namespace == pod.key.namespace
    return same and budget.selector.matches(pod.labels)


def _cost(candidate: Candidate) -> tuple[int, int, int, int, float, str]:
    """Smaller is better; the node's name makes it different for each."""
    victims = candidate.victims
    highest = victims[0].priority
    total = sum(each.priority - LOWEST for each in victims)
    since = min(each.started for each in victims if each.priority == highest)
    return candidate.broken, highest, total, len(victims), -since, candidate.node
