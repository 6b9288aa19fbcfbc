"""The status of a MachineHealthCheck, from what was seen and how the pass went. Pure.

Invariants.  An unchanged world gives an equal status, so nothing is written. A failure is in a
             condition while it lasts.
Source       capi.md §2.6, §4.4, §8.
Called by    ``reconciler``.
"""

from collections.abc import Iterator, Mapping

from msgspec import structs

from kubewright.api.cluster.conditions import (
    ERROR,
    ConditionType,
    FailureReason,
    Reason,
    false_condition,
    true_condition,
    with_conditions,
)
from kubewright.api.cluster.v1beta1 import Condition, MachineHealthCheckStatus
from kubewright.api.conditions import without_condition
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.clusters.healthcheck.decide import Judged
from kubewright.clusters.healthcheck.seen import Seen

TEMPLATE = ConditionType.EXTERNAL_REMEDIATION_TEMPLATE_AVAILABLE
REQUEST = ConditionType.EXTERNAL_REMEDIATION_REQUEST_AVAILABLE


def status_of(seen: Seen, failed: Mapping[str, str]) -> MachineHealthCheckStatus:
    """The status to write; ``failed``: what went wrong with requests, by machine."""
    judged, before = Judged(seen), seen.check.status
    conditions = before.conditions
    if seen.template is None or seen.template.found is not None:
        conditions = without_condition(conditions, TEMPLATE)
    if not failed:
        conditions = without_condition(conditions, REQUEST)
    return structs.replace(
        before,
        expected_machines=len(seen.targets),
        current_healthy=judged.healthy,
        remediations_allowed=judged.allowance.remediations,
        targets=tuple(sorted(target.name for target in seen.targets)),
        observed_generation=seen.check.metadata.generation,
        conditions=with_conditions(conditions, _conditions(judged, failed), seen.wall),
    )


def status_of_invalid(seen: Seen, problem: str) -> MachineHealthCheckStatus:
    """The status of a check that breaks a rule: it lets no machine be replaced, and says which rule it is."""
    before = seen.check.status
    told = false_condition(
        ConditionType.REMEDIATION_ALLOWED, FailureReason.INVALID_CONFIGURATION, ERROR, problem[:MESSAGE_CHARS]
    )
    return structs.replace(
        before,
        remediations_allowed=0,
        observed_generation=seen.check.metadata.generation,
        conditions=with_conditions(before.conditions, (told,), seen.wall),
    )


def _conditions(judged: Judged, failed: Mapping[str, str]) -> Iterator[Condition]:
    condition_type, allowed = ConditionType.REMEDIATION_ALLOWED, judged.allowance
    if judged.seen.cluster is None:
        message = f"waiting: there is no Cluster {judged.seen.check.spec.cluster_name}"
        yield false_condition(condition_type, Reason.CLUSTER_NOT_FOUND, ERROR, message)
    else:
        yield (
            false_condition(condition_type, allowed.reason, allowed.severity, allowed.refusal)
            if allowed.refusal
            else true_condition(condition_type)
        )
    template = judged.seen.template
    if template is not None and template.found is None and not template.transient:
        reason = Reason.EXTERNAL_REMEDIATION_TEMPLATE_NOT_FOUND
        yield false_condition(TEMPLATE, reason, ERROR, f"{template}: {template.problem}"[:MESSAGE_CHARS])
    if failed:
        message = "; ".join(f"{name}: {why}" for name, why in sorted(failed.items()))
        reason = Reason.EXTERNAL_REMEDIATION_REQUEST_CREATION_FAILED
        yield false_condition(REQUEST, reason, ERROR, message[:MESSAGE_CHARS])
