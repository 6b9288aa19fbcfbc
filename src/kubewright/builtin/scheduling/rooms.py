"""Who is where, to whom what was promised, and whose turn it is. Values in memory; no I/O.

Theory.      ``Rooms`` adds up what the Pods of a node request, and keeps which priorities they have, so that
             one look tells whether a Pod could have victims at all. ``Line`` keeps the Pods without a node
             by priority: the queue of the controller has them by time, which is the order among equals.
Invariants.  A Pod is on one node at most; one that is on a node has no promise. What is kept is a part of
             what the informer of Pods shows, and of bindings under way.
Called by    ``reconciler``.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kubewright.api.core import PodDisruptionBudget
from kubewright.base.clock import parse_rfc3339
from kubewright.builtin.scheduling.decide import Nominee, Resident
from kubewright.builtin.scheduling.facts import Amounts, PodSlice, requests_of
from kubewright.builtin.scheduling.preemption import Budget
from kubewright.nodes.drain.budgets import selector_of
from kubewright.wire.gvk import Key


@dataclass(frozen=True, slots=True)
class _Placed:
    """A Pod on a node, bound or about to be."""

    uid: str
    node: str
    requests: Amounts
    priority: int


class Rooms:
    """What is used and promised of each node."""

    def __init__(self) -> None:
        self._placed: dict[Key, _Placed] = {}
        self._on: dict[str, dict[Key, int]] = {}
        """The Pods of each node, with their priorities."""
        self._used: dict[str, dict[str, float]] = {}
        self._priorities: Counter[int] = Counter()
        self._promised: dict[Key, str] = {}
        self._nominees: dict[str, dict[Key, Nominee]] = {}

    def has(self, key: Key) -> str:
        """The uid of a Pod that is on a node; empty for any other."""
        placed = self._placed.get(key)
        return placed.uid if placed is not None else ""

    def used(self, node: str) -> Amounts:
        return self._used.get(node, {})

    @property
    def lowest(self) -> int | None:
        """The lowest priority of all Pods on nodes."""
        return min(self._priorities, default=None)

    def below(self, node: str, priority: int) -> Sequence[Key]:
        """The Pods of a node that have a lower priority."""
        return [key for key, own in self._on.get(node, {}).items() if own < priority]

    def lower(self, node: str, priority: int) -> Amounts | None:
        """What the Pods of a node with a lower priority request; None where there are none."""
        found = self.below(node, priority)
        if not found:
            return None
        total: dict[str, float] = {}
        for key in found:
            for name, number in self._placed[key].requests.items():
                total[name] = total.get(name, 0.0) + number
        return total

    def nominees(self, node: str) -> Sequence[Nominee]:
        """The Pods without a node to which this one was promised."""
        found = self._nominees.get(node)
        return tuple(found.values()) if found else ()

    def put(self, key: Key, pod: PodSlice, node: str) -> None:
        """A Pod is on a node."""
        self.take(key)
        self.break_promise(key)
        requests, priority = requests_of(pod), pod.spec.priority
        self._placed[key] = _Placed(pod.metadata.uid, node, requests, priority)
        self._on.setdefault(node, {})[key] = priority
        self._priorities[priority] += 1
        used = self._used.setdefault(node, {})
        for name, number in requests.items():
            used[name] = used.get(name, 0.0) + number

    def take(self, key: Key) -> bool:
        """A Pod is on no node any more; whether it was on one."""
        if (placed := self._placed.pop(key, None)) is None:
            return False
        node, priority = placed.node, placed.priority
        self._priorities[priority] -= 1
        if not self._priorities[priority]:
            del self._priorities[priority]
        del self._on[node][key]
        if not self._on[node]:
            del self._on[node], self._used[node]
            return True
        used = self._used[node]
        for name, number in placed.requests.items():
            used[name] -= number
        return True

    def promise(self, key: Key, pod: PodSlice) -> bool:
        """Note what the status of a Pod without a node says; whether another promise ended by it."""
        node = "" if key in self._placed else pod.status.nominated_node_name
        ended = self._promised.get(key, node) != node and self.break_promise(key)
        if node:
            nominee = Nominee(key, pod.spec.priority, requests_of(pod))
            self._nominees.setdefault(node, {})[key] = nominee
            self._promised[key] = node
        return ended

    def break_promise(self, key: Key) -> bool:
        """Nothing is promised to a Pod any more; whether something was."""
        if (node := self._promised.pop(key, None)) is None:
            return False
        del self._nominees[node][key]
        if not self._nominees[node]:
            del self._nominees[node]
        return True


class Line:
    """The Pods without a node, by priority. One that asks for a pass goes before those of lower priorities,
    once: after a pass that failed it waits for its own turn, and holds up no others."""

    def __init__(self) -> None:
        self._priorities: dict[Key, int] = {}
        self._asked: set[Key] = set()
        """Those that are to have a pass."""
        self._first: dict[int, dict[Key, None]] = {}
        """Those of them that may go before others."""

    def joins(self, key: Key, priority: int, *, changed: bool) -> None:
        """A Pod needs a node. It asks for a pass if it is new here or has ``changed``."""
        known = self._priorities.get(key) == priority
        self._priorities[key] = priority
        if changed or not known:
            self._ask(key, priority)

    def leaves(self, key: Key) -> None:
        """It needs none any more."""
        self.begins(key)
        self._priorities.pop(key, None)

    def again(self) -> Iterable[Key]:
        """All of them ask for another pass."""
        for key, priority in self._priorities.items():
            self._ask(key, priority)
        return self._priorities

    def _ask(self, key: Key, priority: int) -> None:
        self._asked.add(key)
        self._first.setdefault(priority, {})[key] = None

    def asks(self, key: Key) -> bool:
        """Whether a Pod is to have a pass."""
        return key in self._asked

    def before(self, key: Key) -> Key | None:
        """The Pod of the highest priority that asks, if that is higher than this one's."""
        highest = max(self._first, default=None)
        if highest is None or highest <= self._priorities.get(key, highest):
            return None
        return next(iter(self._first[highest]))

    def begins(self, key: Key) -> bool:
        """Begin the pass that a Pod asked for; whether it did. What comes meanwhile is for the next one."""
        priority = self._priorities.get(key)
        if priority is not None and (there := self._first.get(priority)) is not None:
            there.pop(key, None)
            if not there:
                del self._first[priority]
        asked = key in self._asked
        self._asked.discard(key)
        return asked

    def failed(self, key: Key) -> None:
        """The pass is to be repeated, if the Pod still needs a node."""
        if key in self._priorities:
            self._asked.add(key)


def resident(pod: PodSlice) -> Resident:
    """A Pod on a node, as preemption sees it."""
    meta, started = pod.metadata, float("inf")
    if pod.status.start_time:
        started = parse_rfc3339(pod.status.start_time).timestamp()
    return Resident(
        Key(meta.namespace, meta.name),
        meta.uid,
        pod.spec.priority,
        requests_of(pod),
        meta.labels,
        started,
        leaves=meta.deleting,
        preempted=pod.preempted,
    )


def budget_of(found: PodDisruptionBudget) -> Budget | None:
    """A budget as preemption sees it. One that selects all Pods, or cannot be read, counts here for none of
    them, as in a kube-scheduler."""
    selector = found.spec.selector
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return None
    status = found.status
    names = frozenset(status.disrupted_pods)
    return Budget(found.namespace, selector_of(found), status.disruptions_allowed, names)
