"""Machines and nodes in one word each, and the words counted, as ``status`` and the demo show them. Pure."""

from collections import Counter
from collections.abc import Iterable

from kubewright.api.conditions import is_condition_true
from kubewright.api.core import NODE_READY, Node
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import Machine


def state(machine: Machine) -> str:
    """A machine's phase. Terminating and Pending are shown even before a controller has written them."""
    if machine.metadata.deleting:
        return Phase.TERMINATING.value
    return machine.status.current_status.phase or Phase.PENDING.value


def ready(node: Node) -> bool:
    """Whether the node's condition Ready is True."""
    return is_condition_true(node.status.conditions, NODE_READY)


def counted(words: Iterable[str]) -> str:
    """``3 (2 Running, 1 Pending)``, the most frequent word first."""
    counts = Counter(words)
    parts = ", ".join(f"{count} {word}" for word, count in sorted(counts.items(), key=_most_first))
    return f"{counts.total()} ({parts})" if parts else "none"


def _most_first(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]
