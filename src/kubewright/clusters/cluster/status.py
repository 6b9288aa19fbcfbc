"""What the status of a Cluster says: a function of what is seen after the steps of a pass. Pure.

Theory.      A status is copied from the providers' objects and counted from machines, so one that was lost (a
             move to another server, a restored backup) comes out the same again. Two things are kept: that
             the control plane was initialized once, and what came from an object that cannot be read at
             present. A failure goes when the provider reports it no more.
Invariants.  The two booleans and the phase are always written. The phase is for people; nothing here reads
             it (S0-47). What is not ready says what is waited for.
Source       capi.md §4.4, §6.1, §6.2, §6.4; appendix F (failures); seeds S2-04, S2-12 to S2-17.
Called by    ``reconciler``. ``conditions`` has the conditions.
"""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from kubewright.api.cluster.conditions import ClusterPhase, EventReason
from kubewright.api.cluster.v1beta1 import ClusterStatus, FailureDomain
from kubewright.base.plan import Event
from kubewright.clusters.cluster.conditions import conditions
from kubewright.clusters.cluster.provided import failure_domains_of, readable
from kubewright.clusters.cluster.seen import Seen
from kubewright.clusters.external.object import External


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
    """The table of capi.md §6.2, the last row first."""
    if seen.cluster.metadata.deleting:
        return ClusterPhase.DELETING
    if status.failure_reason or status.failure_message:
        return ClusterPhase.FAILED
    if status.infrastructure_ready and seen.endpoint is not None:
        return ClusterPhase.PROVISIONED
    if seen.cluster.spec.infrastructure_ref is not None:
        return ClusterPhase.PROVISIONING
    return ClusterPhase.PENDING
