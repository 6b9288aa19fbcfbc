"""Whether one machine is healthy, as its health check judges it. Pure.

Theory.      The tests are asked in order, and the first that gives a verdict decides. A user's annotation and
             a failure that a provider reports make a machine unhealthy at once; a Node that does not appear,
             or has an unhealthy condition, when its time-out is over. While no machine can join the cluster,
             none is unhealthy because of that.
Invariants.  Without a session with its cluster no machine becomes unhealthy because of its Node.
Source       capi.md §8, step 3, with what is recommended there.
Called by    ``decide`` and ``status``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import ConditionType, Reason
from kubewright.api.conditions import is_condition_true
from kubewright.base.durations import format_duration, parse_duration
from kubewright.clusters.healthcheck.seen import Seen, Target


class Health(Enum):
    """What is known of a machine's health."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    WAITING = "waiting"
    """It will be unhealthy if it stays as it is."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A health, why it is so, and in how many seconds it may change by time alone."""

    health: Health
    reason: str = ""
    message: str = ""
    seconds: float | None = None


UNKNOWN = Verdict(Health.UNKNOWN)
Test = Callable[[Seen, Target], Verdict | None]


def verdict(seen: Seen, target: Target) -> Verdict:
    """The verdict of the first test that gives one; healthy, if none does."""
    for test in TESTS:
        if (found := test(seen, target)) is not None:
            return found
    return Verdict(Health.HEALTHY)


def _marked_by_user(_seen: Seen, target: Target) -> Verdict | None:
    if names.REMEDIATE_MACHINE_ANNOTATION not in target.machine.metadata.annotations:
        return None
    message = "Marked for remediation via remediate-machine annotation"
    return Verdict(Health.UNHEALTHY, Reason.HAS_REMEDIATE_MACHINE_ANNOTATION, message)


def _failed(_seen: Seen, target: Target) -> Verdict | None:
    status = target.machine.status
    for name, text in (("FailureReason", status.failure_reason), ("FailureMessage", status.failure_message)):
        if text:
            return Verdict(Health.UNHEALTHY, Reason.MACHINE_HAS_FAILURE, f"{name}: {text}")
    return None


def _node_missing(_seen: Seen, target: Target) -> Verdict | None:
    if target.machine.status.node_ref is None or target.node is not None:
        return None
    return Verdict(Health.UNHEALTHY, Reason.NODE_NOT_FOUND) if target.reachable else UNKNOWN


def _cluster_not_ready(seen: Seen, target: Target) -> Verdict | None:
    """Machines of a control plane are judged before it is initialized, so the first can be replaced."""
    first = names.CONTROL_PLANE_LABEL in target.machine.metadata.labels
    initialized = _has(seen, ConditionType.CONTROL_PLANE_INITIALIZED)
    return None if (initialized or first) and _has(seen, ConditionType.INFRASTRUCTURE_READY) else UNKNOWN


def _has(seen: Seen, condition: ConditionType) -> bool:
    """Whether the Cluster has this condition with status True."""
    return seen.cluster is not None and is_condition_true(seen.cluster.status.conditions, condition)


def _without_node(seen: Seen, target: Target) -> Verdict | None:
    """A machine without a Node; one whose cluster is out of reach cannot join it, nor be seen there."""
    if target.node is not None:
        return None
    if not target.reachable and _has(seen, ConditionType.CONTROL_PLANE_INITIALIZED):
        return UNKNOWN
    limit = parse_duration(seen.check.spec.node_startup_timeout or "0").total_seconds()
    if not limit:
        return UNKNOWN
    left = target.since + limit - seen.now
    if left >= 0:
        return Verdict(Health.WAITING, seconds=left + 1)
    message = f"Node failed to report startup in {_shown(seen.check.spec.node_startup_timeout)}"
    return Verdict(Health.UNHEALTHY, Reason.NODE_STARTUP_TIMEOUT, message)


def _unhealthy_condition(seen: Seen, target: Target) -> Verdict | None:
    waits: list[float] = []
    conditions = target.node.conditions if target.node is not None else {}
    for each in seen.check.spec.unhealthy_conditions:
        status, since = conditions.get(each.type, ("", 0.0))
        if status != each.status:
            continue
        left = since + parse_duration(each.timeout).total_seconds() - seen.now
        if left < 0:
            limit = _shown(each.timeout)
            message = f"Condition {each.type} on node is reporting status {each.status} for more than {limit}"
            return Verdict(Health.UNHEALTHY, Reason.UNHEALTHY_NODE, message)
        waits.append(left + 1)
    return Verdict(Health.WAITING, seconds=min(waits)) if waits else None


def _being_deleted(_seen: Seen, target: Target) -> Verdict | None:
    return UNKNOWN if target.machine.metadata.deleting else None


def _shown(duration: str | None) -> str:
    return format_duration(parse_duration(duration or "0"))


TESTS: tuple[Test, ...] = (
    _marked_by_user,
    _failed,
    _node_missing,
    _cluster_not_ready,
    _without_node,
    _unhealthy_condition,
    _being_deleted,
)
"""In the order in which they are asked."""
