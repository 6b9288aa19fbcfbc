"""What one kubelet remembers, and the pure decision what it does next.

Theory.      A kubelet has four duties, in this order: register its Node, renew the Lease, report
             conditions, clear an order that was carried out. ``DUTIES`` is that list; the first duty
             that is due is performed, then the next visit decides again. A silent kubelet has none.
Invariants.  Nothing here reads a clock or sends anything. Times are ``Clock.monotonic``.
Called by    ``kubelets``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from kubewright.api.core import Node, NodeCondition
from kubewright.providers.sim.registration import FAULT_ANNOTATION, statuses
from kubewright.providers.sim.vm import RESTART, Vm, VmState


class Act(Enum):
    """What a kubelet may do."""

    REGISTER = "register"
    REPORT = "report"
    RENEW = "renew"
    CLEAR = "clear"


@dataclass(slots=True)
class KubeletState:
    """What a kubelet remembers; everything else is read from the VM and the Node each time.

    ``write_from``  earliest next correction of the Node: another client that keeps writing the opposite
                    must not make us write without end. ``not_before``: earliest next act at all.
    """

    node_name: str
    node_uid: str = ""
    alive: bool = False
    leased: bool = False
    renew_at: float = 0.0
    heartbeat_at: float = float("inf")
    write_from: float = 0.0
    not_before: float = 0.0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class NodeView:
    """A VM's Node as the kubelet sees it."""

    uid: str
    conditions: Sequence[NodeCondition]
    note: str

    @property
    def known(self) -> Mapping[str, str]:
        return {condition.type: condition.status for condition in self.conditions}


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a decision looks at. ``changes_at`` is when the VM's state may change by itself."""

    kubelet: KubeletState
    vm: VmState
    node: NodeView | None
    now: float
    changes_at: float | None

    @property
    def wanted(self) -> dict[str, str]:
        """What the Node's conditions should be."""
        known = frozenset(self.node.known) if self.node else frozenset[str]()
        return statuses(self.vm.bad, known)


@dataclass(frozen=True, slots=True)
class Next:
    """Do ``act`` now, or nothing (None) until ``at``; ``at`` None means until something changes."""

    act: Act | None
    at: float | None = None


def node_view(vm: Vm, node: Node | None) -> NodeView | None:
    """The VM's own Node; one of the same name that belongs to another VM is none."""
    if node is None or node.spec.provider_id != vm.provider_id:
        return None
    note = node.metadata.annotations.get(FAULT_ANNOTATION, "")
    return NodeView(node.metadata.uid, node.status.conditions, note)


def decide(seen: Situation) -> Next:
    """What the kubelet does next."""
    if not seen.vm.kubelet:
        return Next(None, seen.changes_at)
    if seen.now < seen.kubelet.not_before:
        return Next(None, seen.kubelet.not_before)
    for act, due in DUTIES:
        if due(seen) <= seen.now:
            return Next(act)
    soonest = min(_NEVER if seen.changes_at is None else seen.changes_at, *(due(seen) for _, due in DUTIES))
    return Next(None, None if soonest == _NEVER else soonest)


_NEVER = float("inf")


def _register_at(seen: Situation) -> float:
    return seen.now if seen.node is None else _NEVER


def _report_at(seen: Situation) -> float:
    """At once when something changed, else when the slow heartbeat is due."""
    assert seen.node is not None
    known = seen.node.known
    changed = any(known.get(kind) != status for kind, status in seen.wanted.items())
    return max(seen.now, seen.kubelet.write_from) if changed else seen.kubelet.heartbeat_at


def _renew_at(seen: Situation) -> float:
    return seen.kubelet.renew_at


def _clear_at(seen: Situation) -> float:
    asked = seen.node is not None and seen.node.note == RESTART
    return max(seen.now, seen.kubelet.write_from) if asked else _NEVER


DUTIES: Sequence[tuple[Act, Callable[[Situation], float]]] = (
    (Act.REGISTER, _register_at),
    (Act.RENEW, _renew_at),
    (Act.REPORT, _report_at),
    (Act.CLEAR, _clear_at),
)
"""Each act, and when it is due."""
