"""Machines, nodes and other objects in a few words, and words counted, for what commands print. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from kubewright.api.conditions import is_condition_true
from kubewright.api.core import NODE_READY, Node
from kubewright.api.machine import excess
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import MACHINE_DEPLOYMENT, Machine
from kubewright.api.meta import integer


def state(machine: Machine) -> str:
    """A machine's phase. Terminating and Pending are shown even before a controller has written them."""
    if machine.metadata.deleting:
        return Phase.TERMINATING.value
    return machine.status.current_status.phase or Phase.PENDING.value


def ready(node: Node) -> bool:
    """Whether the node's condition Ready is True."""
    return is_condition_true(node.status.conditions, NODE_READY)


def part(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A part of an object as JSON, such as its spec; empty where it has none, or another thing there."""
    inner = found.get(name)
    return inner if isinstance(inner, Mapping) else {}


def wanted_replicas(found: Mapping[str, Any]) -> int | None:
    """How many replicas an object is to have in all, those in excess included; None: it has none to count."""
    wanted = part(found, "spec").get("replicas")
    return wanted + in_excess(found) if isinstance(wanted, int) else None


def in_excess(found: Mapping[str, Any]) -> int:
    """How many machines a MachineDeployment keeps free besides its replicas."""
    more = part(found, "spec").get("excessReplicas")
    if isinstance(more, int) or found.get("kind") != MACHINE_DEPLOYMENT.resource.kind:
        return more if isinstance(more, int) else 0
    return integer(part(part(found, "metadata"), "annotations"), excess.KEPT_ANNOTATION)


def ready_of_wanted(found: Mapping[str, Any]) -> str:
    """How many of the wanted replicas of an object are ready; empty for one that has none to count."""
    wanted, status, more = wanted_replicas(found), part(found, "status"), in_excess(found)
    if wanted is None:
        return ""
    up, there = status.get("readyReplicas") or 0, status.get("replicas") or 0
    counted = f"{up} of {wanted} ready" + (f", {there} there" if there != wanted else "")
    return counted + (f", {more} of the {wanted} in excess" if more else "")


def counted(words: Iterable[str]) -> str:
    """``3 (2 Running, 1 Pending)``, the most frequent word first."""
    counts = Counter(words)
    parts = ", ".join(f"{count} {word}" for word, count in sorted(counts.items(), key=_most_first))
    return f"{counts.total()} ({parts})" if parts else "none"


def _most_first(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]
