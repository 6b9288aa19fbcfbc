"""What a PodDisruptionBudget allows right now: arithmetic over pods. Pure.

Theory.      A budget counts the pods that its selector matches. How many there should be comes from
             the scales of what controls them, when the budget has a percentage or ``maxUnavailable``;
             else from counting. Pods that nothing controls want no pods, so under such a budget none of
             them may be disrupted; nor may any while an owner has no scale. ``disruptionsAllowed`` is what
             eviction spends: the API server takes one off and notes the pod as *disrupted*, until its
             deletion is seen here or it turns out that nothing happened within ``EXPIRY_SECONDS``.
Called by    ``budgets``, which reads the pods and writes the status.
Source       kube-controller-manager's disruption controller: rounding, the two-minute expiry.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from math import ceil

import msgspec

from kubewright.api.conditions import condition_of, is_condition_true
from kubewright.api.core import Pod, PodDisruptionBudget, PodDisruptionBudgetStatus
from kubewright.base.limits import number_of

EXPIRY_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Seen:
    """A budget, the pods that it selects, how many there should be by their controllers' scales, and those
    that have no controller."""

    budget: PodDisruptionBudget
    pods: Sequence[Pod]
    scale: int
    unmanaged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The status to write, when it must be computed anew (seconds; None: on change), the pods whose
    announced disruption never came, those without a controller, and why nothing could be counted."""

    status: PodDisruptionBudgetStatus
    wake: float | None = None
    not_deleted: tuple[str, ...] = ()
    unmanaged: tuple[str, ...] = ()
    message: str = ""

    @property
    def condition_status(self) -> str:
        """Of the condition DisruptionAllowed."""
        return str(self.status.disruptions_allowed > 0)

    @property
    def reason(self) -> str:
        """Of the condition DisruptionAllowed."""
        if self.message:
            return "SyncFailed"
        return "SufficientPods" if self.status.disruptions_allowed > 0 else "InsufficientPods"

    def is_told_in(self, budget: PodDisruptionBudget) -> bool:
        """Whether the budget's condition says this already."""
        known = condition_of(budget.status.conditions, "DisruptionAllowed")
        wanted = (self.condition_status, self.reason, self.message)
        return known is not None and (known.status, known.reason, known.message) == wanted


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
        conditions=seen.budget.status.conditions,
    )
    return Verdict(status, wake, expired, seen.unmanaged)


def failed(budget: PodDisruptionBudget, why: str, wake: float) -> Verdict:
    """What follows when the pods cannot be counted: no disruption is allowed, all else stays as it was.

    ``wake``: seconds until they are counted again, since no event tells that an owner has a scale now.
    """
    return Verdict(msgspec.structs.replace(budget.status, disruptions_allowed=0), wake, message=why)


def counts_scales(budget: PodDisruptionBudget) -> bool:
    """Whether the budget depends on how many pods their controllers want."""
    spec = budget.spec
    return spec.max_unavailable is not None or isinstance(spec.min_available, str)


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
    if spec.min_available is None:
        return 0, 0
    if isinstance(spec.min_available, int):
        return len(seen.pods), spec.min_available
    return seen.scale, portion(spec.min_available, seen.scale)


def portion(of: int | str, total: int) -> int:
    """A count as it is, a percentage of ``total`` rounded up; other text counts as 0."""
    if isinstance(of, int):
        return of
    share = of.removesuffix("%")
    if not share.isascii() or not share.isdigit() or share == of:
        return 0
    return ceil(Fraction(number_of(share), 100) * total)


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
