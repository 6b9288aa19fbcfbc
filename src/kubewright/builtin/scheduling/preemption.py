"""Decide which Pods make room for one of a higher priority that fits nowhere. Pure.

Theory.      On each node that fewer Pods would help, all Pods of lower priorities are taken away in thought.
             If the Pod fits then, they are put back one after the other, the most important first, as
             long as it still fits; those that stay away are the victims. Pods whose budget allows no more
             disruptions are put back before all others. Of the nodes the one is chosen where victims
             matter least: the fewest broken budgets, the lowest priority of the highest victim, the
             smallest sum of priorities, the fewest victims, those that have run for the shortest time; then
             the first by name.
Invariants.  No victim has the same or a higher priority. With one victim less the Pod would not fit. A Pod
             whose victims still end on the node that it was promised takes no more of them.
Bounded.     Once ``MOST_CANDIDATES`` nodes (or a tenth of all, if that is more) would do, no more are looked
             at, as long as one of them breaks no budget.
Source       kube-scheduler 1.36.3: the plugin DefaultPreemption.
Called by    ``reconciler``, through ``decide``.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kubewright.builtin.scheduling.decide import (
    NO_USE,
    NO_VICTIMS,
    NodeInfo,
    PendingPod,
    Refused,
    Relief,
    Resident,
    counted,
    rejection,
)
from kubewright.builtin.scheduling.facts import Amounts
from kubewright.wire.selectors import Selector

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
