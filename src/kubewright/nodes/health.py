"""Judge a node by its conditions.

Theory.      A node is well when its kubelet says ``Ready``, and each of the condition types that
             the machine names as bad is False or absent: Unknown is bad. Unlike upstream, ``Ready`` must be
             there: while there are other conditions only, the kubelet has not spoken yet. As upstream, no
             node is well for a machine that names ``Ready`` itself among the bad types.
Invariants.  Pure. ``conditions_differ`` ignores heartbeats and messages, so a kubelet that only renews
             them causes no work.
Called by    the contexts that own machines.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from kubewright.api.core import NODE_READY, NodeCondition


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a node is well; if not, ``because`` says what is wrong in a clause for people."""

    healthy: bool = False
    because: str = "there is no node"


def judge(conditions: Sequence[NodeCondition], bad_types: Iterable[str]) -> Health:
    """Judge a node.

    Args:
        conditions: those of the node.
        bad_types: condition types that must be False where they are present, case-sensitive.
    """
    if not conditions:
        return Health(False, "the node has no conditions")
    bad = frozenset(bad_types)
    wrong = [text for condition in conditions if (text := _complaint(condition, bad))]
    if all(condition.type != NODE_READY for condition in conditions):
        wrong.append("Ready is not reported")
    return Health(not wrong, "; ".join(wrong))


def conditions_differ(
    old: Iterable[NodeCondition], new: Iterable[NodeCondition], reasoned: Container[str] = ()
) -> bool:
    """Whether a type came or went, or its status changed; of ``reasoned`` types the reason counts, too."""
    return _statuses(old, reasoned) != _statuses(new, reasoned)


def _complaint(condition: NodeCondition, bad: frozenset[str]) -> str:
    wanted = {NODE_READY: "True"} | dict.fromkeys(bad, "False")
    if condition.status == wanted.get(condition.type, condition.status):
        return ""
    why = ": ".join(part for part in (condition.reason, condition.message) if part)
    return f"{condition.type} is {condition.status}" + (f" ({why})" if why else "")


def _statuses(conditions: Iterable[NodeCondition], reasoned: Container[str]) -> dict[str, tuple[str, str]]:
    return {item.type: (item.status, item.reason if item.type in reasoned else "") for item in conditions}
