"""What the status of a Cluster says: a function of what is seen after the steps of a pass. Pure.

Theory.      A status is copied from the providers' objects and counted from machines, so one that was lost (a
             move to another server, a restored backup) comes out the same again. Two things are kept: that
             the control plane was initialized once, and what came from an object that cannot be read at
             present. A failure goes when the provider reports it no more.
Conditions.  Each condition about an object of a provider mirrors the object's Ready; where that cannot be
             read, it says what is waited for. Ready sums up control plane and infrastructure. While the
             Cluster is being deleted, Deleting says what its stage waits for.
Invariants.  The two booleans and the phase are always written. The phase is for people; nothing here reads
             it. What is not ready says what is waited for. ControlPlaneInitialized never goes back. The
             error of a step is in the message.
Called by    ``act``.
"""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from kubewright.api.cluster.conditions import (
    ERROR,
    INFO,
    TRUE,
    WARNING,
    ClusterPhase,
    ConditionType,
    EventReason,
    Reason,
    false_condition,
    summary,
    true_condition,
    with_conditions,
)
from kubewright.api.cluster.v1beta1 import ClusterStatus, Condition, FailureDomain
from kubewright.api.conditions import condition_of, is_condition_true
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.base.plan import Event
from kubewright.clusters.cluster import decide
from kubewright.clusters.cluster.decide import kubeconfig_differs, kubeconfig_problem
from kubewright.clusters.cluster.seen import CONTROL_PLANE, INFRASTRUCTURE, Seen, failure_domains_of, readable
from kubewright.clusters.external import fields
from kubewright.clusters.external.mirroring import ObjectCondition, mirrored, mirrored_in_deletion
from kubewright.clusters.external.object import External

READY_OF = (ConditionType.CONTROL_PLANE_READY, ConditionType.INFRASTRUCTURE_READY)
"""What Ready sums up, in the order of their weight among equals."""

NO_INFRASTRUCTURE = "the Cluster has no spec.infrastructureRef"
NO_TOPOLOGY = "spec.topology is not supported: set spec.infrastructureRef and spec.controlPlaneRef instead"


def conditions(seen: Seen) -> tuple[Condition, ...]:
    """All conditions of the Cluster; those of types that others write stay."""
    before = seen.cluster.status.conditions
    wanted = tuple(replace(each, message=each.message[:MESSAGE_CHARS]) for each in _found(seen))
    ready = summary(with_conditions(before, wanted, seen.now), READY_OF)
    return with_conditions(before, wanted if ready is None else (*wanted, ready), seen.now)


def _found(seen: Seen) -> Iterator[Condition]:
    deleting = seen.cluster.metadata.deleting
    for about, external in _objects(seen):
        if external is not None:
            found = (
                mirrored_in_deletion(about, external)
                if deleting
                else mirrored(about, external, seen.owner, seen.cluster.name)
            )
            yield from () if found is None else (found,)
    if deleting:
        yield _deleting(seen)
        return
    yield _initialized(seen)
    yield from _trusted(seen)
    if seen.cluster.spec.topology is not None:
        yield false_condition(
            ConditionType.TOPOLOGY_RECONCILED, Reason.TOPOLOGY_RECONCILE_FAILED, ERROR, NO_TOPOLOGY
        )


def _objects(seen: Seen) -> Iterator[tuple[ObjectCondition, External | None]]:
    """What providers are responsible for, and their objects."""
    status, failed = seen.cluster.status, seen.failed
    infrastructure = ObjectCondition(
        ConditionType.INFRASTRUCTURE_READY,
        Reason.WAITING_FOR_INFRASTRUCTURE,
        bool(status.infrastructure_ready),
        failed.get(INFRASTRUCTURE, ""),
    )
    control_plane = ObjectCondition(
        ConditionType.CONTROL_PLANE_READY,
        Reason.WAITING_FOR_CONTROL_PLANE,
        bool(status.control_plane_ready),
        failed.get(CONTROL_PLANE, ""),
    )
    yield infrastructure, seen.infrastructure
    yield control_plane, seen.control_plane


def _deleting(seen: Seen) -> Condition:
    now = decide.stage(seen)
    wrong = "; ".join(seen.failed.values())
    message = f"{now.waits_for}; {wrong}" if wrong else now.waits_for
    return Condition(type=ConditionType.DELETING, status=TRUE, reason=now.reason, message=message)


def _initialized(seen: Seen) -> Condition:
    """Once True, always True: machines have joined since."""
    condition_type = ConditionType.CONTROL_PLANE_INITIALIZED
    if is_condition_true(seen.cluster.status.conditions, condition_type):
        return true_condition(condition_type)
    provider = seen.control_plane
    if provider is not None:
        if provider.flag(fields.CONTROL_PLANE_INITIALIZED):
            return true_condition(condition_type)
        message = f"waiting for {provider} to report that the control plane is initialized"
        return false_condition(
            condition_type, Reason.WAITING_FOR_CONTROL_PLANE_PROVIDER_INITIALIZED, INFO, message
        )
    if seen.first_node:
        return true_condition(condition_type)
    return false_condition(condition_type, Reason.MISSING_NODE_REF, INFO, _first_node_waits_for(seen))


def _trusted(seen: Seen) -> Iterator[Condition]:
    """There is such a condition from when the kubeconfig and the authority differ for the first time."""
    condition_type = ConditionType.CERTIFICATE_AUTHORITY_VERIFIED
    if differs := kubeconfig_differs(seen):
        yield false_condition(condition_type, Reason.CERTIFICATE_AUTHORITY_DIFFERS, WARNING, differs)
    elif seen.unverified is not None and condition_of(seen.cluster.status.conditions, condition_type):
        yield true_condition(condition_type)


def _first_node_waits_for(seen: Seen) -> str:
    """What is missing until the first machine of the control plane is a Node."""
    infrastructure = seen.infrastructure
    if infrastructure is None:
        return f"waiting for infrastructure: {NO_INFRASTRUCTURE}"
    if infrastructure.ready and seen.endpoint is None:
        return (
            f"waiting for an endpoint: {infrastructure} is ready, but has no spec.controlPlaneEndpoint, "
            "and the Cluster has none of its own"
        )
    if wrong := seen.failed.get("kubeconfig") or kubeconfig_problem(seen):
        return wrong
    return "waiting for the first machine of the control plane to become a Node"


def status_of(seen: Seen) -> ClusterStatus:
    """The status, as it is to be written."""
    cluster, before = seen.cluster, seen.cluster.status
    reason, message = _failure(seen)
    status = replace(
        before,
        infrastructure_ready=_ready(seen, seen.infrastructure, before=before.infrastructure_ready or False),
        control_plane_ready=_ready(seen, seen.control_plane, before=before.control_plane_ready or False),
        failure_domains=_failure_domains(seen),
        failure_reason=reason or None,
        failure_message=message or None,
        conditions=conditions(seen),
        observed_generation=cluster.metadata.generation if not seen.failed else before.observed_generation,
    )
    return replace(status, phase=_phase(seen, status))


def events_of(before: ClusterStatus, after: ClusterStatus, name: str) -> Iterator[Event]:
    """What has changed from one status to the next, for people."""
    for reason, was, now in (
        (EventReason.INFRASTRUCTURE_READY, before.infrastructure_ready, after.infrastructure_ready),
        (EventReason.CONTROL_PLANE_READY, before.control_plane_ready, after.control_plane_ready),
    ):
        if bool(was) != bool(now):
            yield Event(reason, f"Cluster {name} {reason} is now {str(bool(now)).lower()}")
    if before.phase != after.phase:
        failed = after.phase == ClusterPhase.FAILED
        yield Event(after.phase, f"Cluster {name} is {after.phase}", failed)


def _ready(seen: Seen, external: External | None, *, before: bool) -> bool:
    return external.ready if external is not None and readable(external, seen.owner) else before


def _failure(seen: Seen) -> tuple[str, str]:
    """The failure that a provider reports, the control plane's before the infrastructure's."""
    there = [each for each in (seen.control_plane, seen.infrastructure) if each is not None]
    for external in there:
        if any(external.failure) and not external.other_controller(seen.owner):
            return external.failure
    if all(readable(each, seen.owner) for each in there):
        return "", ""
    return seen.cluster.status.failure_reason or "", seen.cluster.status.failure_message or ""


def _failure_domains(seen: Seen) -> Mapping[str, FailureDomain]:
    """Those of an infrastructure that is ready."""
    external = seen.infrastructure
    if external is None or not readable(external, seen.owner) or not external.ready:
        return seen.cluster.status.failure_domains
    return failure_domains_of(external)


def _phase(seen: Seen, status: ClusterStatus) -> ClusterPhase:
    """The first row that fits, of a table that is read from its end."""
    if seen.cluster.metadata.deleting:
        return ClusterPhase.DELETING
    if status.failure_reason or status.failure_message:
        return ClusterPhase.FAILED
    if status.infrastructure_ready and seen.endpoint is not None:
        return ClusterPhase.PROVISIONED
    if seen.cluster.spec.infrastructure_ref is not None:
        return ClusterPhase.PROVISIONING
    return ClusterPhase.PENDING
