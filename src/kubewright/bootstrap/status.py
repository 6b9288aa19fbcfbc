"""The status of a KubeadmConfig after a pass.

Invariants.  Pure. A condition that the report does not have stays. Ready sums up the two others.
             ``failureReason`` and ``failureMessage`` are never written: what is wrong can be mended.
Source       capi.md §4.4, §4.5, §9.1.
Called by    ``act``.
"""

from datetime import datetime

from msgspec import structs

from kubewright.api.bootstrap.v1beta1 import KubeadmConfigStatus
from kubewright.api.cluster.conditions import (
    ERROR,
    INFO,
    WARNING,
    ConditionType,
    Reason,
    false_condition,
    summary,
    true_condition,
    with_conditions,
)
from kubewright.api.cluster.v1beta1 import Condition
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.bootstrap.steps import Report

SUMMED_UP = (ConditionType.DATA_SECRET_AVAILABLE.value, ConditionType.CERTIFICATES_AVAILABLE.value)


def status_of(
    before: KubeadmConfigStatus, report: Report, generation: int, now: datetime
) -> KubeadmConfigStatus:
    """The status with what is reported, as it is at ``now`` about this generation of the spec."""
    conditions = with_conditions(before.conditions, report.conditions, now)
    if (ready := summary(conditions, SUMMED_UP)) is not None:
        conditions = with_conditions(conditions, [ready], now)
    return structs.replace(
        before,
        ready=before.ready or bool(report.data_secret),
        data_secret_name=report.data_secret or before.data_secret_name,
        observed_generation=generation,
        conditions=conditions,
    )


def underway(before: KubeadmConfigStatus, status: KubeadmConfigStatus) -> bool:
    """Whether a status says no more than what is still waited for, which is mostly over in a moment."""
    wrong = {each.type for each in status.conditions if each.severity in (WARNING, ERROR)}
    known = {each.type for each in before.conditions if each.severity in (WARNING, ERROR)}
    return not status.ready and wrong <= known


def available(kind: ConditionType) -> Condition:
    """The condition of data or certificates that are there."""
    return true_condition(kind.value)


def waiting(reason: Reason, message: str) -> Condition:
    """DataSecretAvailable, False: there is no data yet, and what the provider waits for."""
    return false_condition(
        ConditionType.DATA_SECRET_AVAILABLE.value, reason.value, INFO, message[:MESSAGE_CHARS]
    )


def failed(message: str) -> Condition:
    """DataSecretAvailable, False: the data cannot be made, and why."""
    reason = Reason.DATA_SECRET_GENERATION_FAILED.value
    kind = ConditionType.DATA_SECRET_AVAILABLE.value
    return false_condition(kind, reason, WARNING, message[:MESSAGE_CHARS])


def no_certificates(reason: Reason, message: str, *, of_data: bool = False) -> Condition:
    """CertificatesAvailable, False: missing or unusable. ``of_data``: the same for DataSecretAvailable."""
    severity = ERROR if reason is Reason.CERTIFICATES_CORRUPTED else WARNING
    kind = ConditionType.DATA_SECRET_AVAILABLE if of_data else ConditionType.CERTIFICATES_AVAILABLE
    return false_condition(kind.value, reason.value, severity, message[:MESSAGE_CHARS])
