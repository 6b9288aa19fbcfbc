"""What a set's status says in every API, from what was seen and how the pass went. Pure.

Theory.      A policy builds its status from ``counted`` and ``with_failure``, and adds its own fields.
Source       mcm.md §1.4, §6.8.
Called by    the function ``status`` of each policy.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from kubewright.api.conditions import find_true_condition, with_condition, without_condition
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.replicas.member import M
from kubewright.replicas.objects import INVALID, REPLICA_FAILURE, S
from kubewright.replicas.set.policy import Failure
from kubewright.replicas.set.seen import Seen


def counted(seen: Seen[S, M], members: Sequence[M]) -> dict[str, Any]:
    """The fields of a status that are numbers in every API; ``members``: those that it is about."""
    spec = seen.set.spec
    wanted, min_ready = spec.template.metadata.labels.items(), spec.min_ready_seconds
    return {
        "replicas": len(members),
        "fully_labeled_replicas": sum(wanted <= member.labels.items() for member in members),
        "ready_replicas": sum(member.alive and member.ready for member in members),
        "available_replicas": sum(member.available_at(seen.now, min_ready) for member in members),
    }


def with_failure(
    before: tuple[Any, ...], failure: Failure | None, kind: Callable[..., Any], now: datetime
) -> tuple[Any, ...]:
    """The conditions of a set, with ReplicaFailure while there is a failure; ``kind`` is their type.

    While its reason stays, so does its first message: a failure whose words differ in each pass would be a
    write in each pass.
    """
    if failure is None:
        return without_condition(before, REPLICA_FAILURE)
    known = find_true_condition(before, REPLICA_FAILURE)
    if known is not None and known.reason == failure.reason != INVALID:
        return before
    said = {"reason": failure.reason, "message": failure.message[:MESSAGE_CHARS]}
    return with_condition(before, kind(type=REPLICA_FAILURE, status="True", last_transition_time=now, **said))
