"""The conditions of a Cluster, from what is seen after the steps of a pass. Pure.

Theory.      Each condition about an object of a provider mirrors the object's Ready; where that cannot be
             read, it says what is waited for. Ready sums up control plane and infrastructure. While the
             Cluster is being deleted, Deleting says what its stage waits for.
Invariants.  ControlPlaneInitialized never goes back. The error of a step is in the message.
Source       capi.md §4.4, §4.5, §6.1, §6.4.
Called by    ``status``.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from kubewright.api.cluster.conditions import (
    ERROR,
    INFO,
    TRUE,
    WARNING,
    ConditionType,
    Reason,
    false_condition,
    summary,
    true_condition,
    with_conditions,
)
from kubewright.api.cluster.v1beta1 import Condition
from kubewright.api.conditions import condition_of, is_condition_true
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.clusters.cluster import deletion
from kubewright.clusters.cluster.decide import kubeconfig_differs, kubeconfig_problem
from kubewright.clusters.cluster.seen import CONTROL_PLANE, INFRASTRUCTURE, Seen
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
    now = deletion.stage(seen)
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
