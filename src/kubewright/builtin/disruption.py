"""What a PodDisruptionBudget allows right now: arithmetic over pods. Pure.

Theory.      A budget counts the pods that its selector matches. How many there should be comes from
             the scale of what controls them, when the budget has a percentage or ``maxUnavailable``;
             else from counting. ``disruptionsAllowed`` is what eviction spends: the API server
             takes one off and notes the pod as *disrupted*, until its deletion is seen here or it
             turns out that nothing happened within ``EXPIRY_SECONDS``.
Called by    ``budgets``, which reads the pods and writes the status.
Source       kube-controller-manager's disruption controller: rounding, the two-minute expiry.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from math import ceil

from kubewright.api.conditions import is_condition_true
from kubewright.api.core import Pod, PodDisruptionBudget, PodDisruptionBudgetStatus

EXPIRY_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Seen:
    """A budget, the pods that it selects, and how many there should be by their controllers' scales."""

    budget: PodDisruptionBudget
    pods: Sequence[Pod]
    scale: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The status to write, when it must be computed anew (seconds; None: on change), and
    the pods whose announced disruption never came."""

    status: PodDisruptionBudgetStatus
    wake: float | None = None
    not_deleted: tuple[str, ...] = ()


def judge(seen: Seen, now: datetime) -> Verdict:
    """The status that the budget should have."""
    disrupted, wake, expired = _disrupted(seen, now)
    expected, desired = _expected(seen)
    healthy = sum(_counts(pod) and pod.name not in disrupted for pod in seen.pods)
    allowed = max(0, healthy - desired) if expected > 0 else 0
    status = PodDisruptionBudgetStatus(
        observed_generation=seen.budget.metadata.generation,
        disrupted_pods=disrupted,
        disruptions_allowed=allowed,
        current_healthy=healthy,
        desired_healthy=desired,
        expected_pods=expected,
    )
    return Verdict(status, wake, expired)


def ready(pod: Pod) -> bool:
    """Whether the pod is Ready."""
    return is_condition_true(pod.status.conditions, "Ready")


def _counts(pod: Pod) -> bool:
    return ready(pod) and not pod.metadata.deleting


def _expected(seen: Seen) -> tuple[int, int]:
    """How many pods there should be, and how many of them must be healthy."""
    spec = seen.budget.spec
    if spec.max_unavailable is not None:
        return seen.scale, max(0, seen.scale - portion(spec.max_unavailable, seen.scale))
    wanted = 0 if spec.min_available is None else spec.min_available
    if isinstance(wanted, int):
        return len(seen.pods), wanted
    return seen.scale, portion(wanted, seen.scale)


def portion(of: int | str, total: int) -> int:
    """A count as it is, a percentage of ``total`` rounded up; other text counts as 0."""
    if isinstance(of, int):
        return of
    share = of.removesuffix("%")
    return (
        ceil(Fraction(int(share), 100) * total) if share.isascii() and share.isdigit() and share != of else 0
    )


def _disrupted(seen: Seen, now: datetime) -> tuple[Mapping[str, datetime], float | None, tuple[str, ...]]:
    """The announced disruptions that still count, when the first of them expires, and the expired ones."""
    alive = {pod.name for pod in seen.pods if not pod.metadata.deleting}
    waiting: dict[str, datetime] = {}
    expired = []
    for name, since in seen.budget.status.disrupted_pods.items():
        if name not in alive or since is None:
            continue
        if now - since >= timedelta(seconds=EXPIRY_SECONDS):
            expired.append(name)
        else:
            waiting[name] = since
    ages = [(now - since).total_seconds() for since in waiting.values()]
    return waiting, EXPIRY_SECONDS - max(ages) if ages else None, tuple(expired)
