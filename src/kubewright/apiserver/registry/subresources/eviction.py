"""Evictions: a pod may be deleted when the disruption budgets that select it allow it.

Theory.      A budget's ``status.disruptionsAllowed`` is how many pods may be evicted now. An eviction
             lowers it in the same turn of the event loop in which it decides, so two evictions never use
             the same disruption; ``disruptedPods`` tells the disruption controller which pods are about
             to be deleted, so that it does not count them twice. ``decide`` is pure.
Source       Kubernetes' API-initiated eviction; sentences observed on v1.36.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kubewright.api.conditions import with_json_conditions
from kubewright.apiserver.registry.kind import Object
from kubewright.base.clock import rfc3339
from kubewright.wire import selectors
from kubewright.wire.errors import ApiError, BadRequest, Forbidden, TooManyRequests

MOST_DISRUPTED = 2000
"""Most evicted pods that a budget may list as not yet deleted."""

AGAIN_SECONDS = 10.0
"""When a client should try again while the status of a budget is not yet computed."""

_WOULD_VIOLATE = "Cannot evict pod as it would violate the pod's disruption budget."
_TOO_BIG = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
_MORE_THAN_ONE = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
)


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the pod; no budget has to change."""


@dataclass(frozen=True, slots=True)
class UpdateBudget:
    """First write ``budget``, which has one disruption less; then delete the pod."""

    budget: Object


def budgets_for(pod: Object, budgets: Sequence[Object]) -> list[Object]:
    """The budgets of the pod's namespace that select it; one that cannot be read selects none."""
    labels = pod["metadata"].get("labels", {})
    return [budget for budget in budgets if _selector(budget).matches(labels)]


def _selector(budget: Object) -> selectors.Selector:
    """An earlier version may have stored a selector that is refused now."""
    try:
        return selectors.from_object((budget.get("spec") or {}).get("selector"))
    except BadRequest:
        return selectors.NOTHING


def decide(pod: Object, budgets: Sequence[Object], now: datetime) -> Delete | UpdateBudget:
    """What to do to evict a pod. ``budgets`` are those that select it.

    Raises:
        TooManyRequests: the budget does not allow it now.
        Forbidden: a budget's status is invalid.
        ApiError: several budgets select the pod (500, as kube-apiserver).
    """
    if _needs_no_budget(pod) or not budgets:
        return Delete()
    if len(budgets) > 1:
        raise ApiError(_MORE_THAN_ONE, code=500, reason="")
    budget = budgets[0]
    spec, status = budget.get("spec") or {}, budget.get("status") or {}
    if not _ready(pod) and _unready_may_go(spec, status):
        return Delete()
    return UpdateBudget(_disrupted(budget, status, pod["metadata"]["name"], now))


def _needs_no_budget(pod: Object) -> bool:
    over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed", "Pending")
    return over or "deletionTimestamp" in pod["metadata"]


def _unready_may_go(spec: Object, status: Object) -> bool:
    if spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    desired = status.get("desiredHealthy", 0)
    return bool(desired > 0 and status.get("currentHealthy", 0) >= desired)


def _ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _disrupted(budget: Object, status: Object, pod: str, now: datetime) -> Object:
    name = budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        said = f"The disruption budget {name} is still being processed by the server."
        raise _too_many(said, AGAIN_SECONDS)
    allowed, disrupted = status.get("disruptionsAllowed", 0), status.get("disruptedPods") or {}
    if allowed < 0 or len(disrupted) > MOST_DISRUPTED:
        why = "pdb disruptions allowed is negative" if allowed < 0 else _TOO_BIG
        raise Forbidden(f'poddisruptionbudget.policy "{name}" is forbidden: {why}')
    if allowed == 0:
        raise _too_many(_why_none(name, status), None)
    left = {"disruptionsAllowed": allowed - 1, "disruptedPods": {**disrupted, pod: rfc3339(now)}}
    conditions = {"conditions": _exhausted(status, budget, now)} if allowed == 1 else {}
    return {**budget, "status": {**status, **left, **conditions}}


def _why_none(name: str, status: Object) -> str:
    """Why a budget allows no disruption: what its condition says, unless the numbers tell."""
    budget = f"The disruption budget {name}"
    needs, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    conditions = status.get("conditions") or ()
    told: Object = next((each for each in conditions if each.get("type") == "DisruptionAllowed"), {})
    reason, message = told.get("reason", ""), told.get("message", "")
    if told.get("status") != "False" or not message:
        reason = message = ""
    if reason == "SyncFailed":
        return f"{budget} does not allow evicting pods currently because it failed sync: {message}"
    if has <= needs:
        return f"{budget} needs {needs} healthy pods and has {has} currently"
    if message:
        return f"{budget} does not allow evicting pods currently ({reason}): {message}"
    return f"{budget} does not allow evicting pods currently"


def _exhausted(status: Object, budget: Object, now: datetime) -> list[dict[str, Any]]:
    wanted = {
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
        "lastTransitionTime": rfc3339(now),
        "observedGeneration": budget["metadata"].get("generation", 0),
    }
    return with_json_conditions(status, wanted)


def _too_many(said: str, retry_after: float | None) -> TooManyRequests:
    causes = [{"reason": "DisruptionBudget", "message": said}]
    return TooManyRequests(_WOULD_VIOLATE, details={"causes": causes}, retry_after=retry_after)
