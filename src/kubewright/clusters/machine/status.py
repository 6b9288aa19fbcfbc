"""What the status of a Machine says: a function of what is seen after the steps of a pass. Pure.

Theory.      A status is copied from providers' objects and the Node, so one that was lost (a move to another
             server, a restored backup) comes out the same again. What came from an object that cannot be read
             at present is kept. A failure goes when the provider reports it no more.
Invariants.  The two booleans and the phase are always written. The phase is for people; nothing here or
             elsewhere decides on it (S0-47). ``lastUpdated`` moves with the phase only.
Source       capi.md §5.4, §5.6; S0-12, S0-13, S0-17 to S0-30.
Called by    ``reconciler``. ``conditions`` has the conditions.
"""

from collections.abc import Callable, Iterator
from datetime import datetime

from msgspec.structs import replace

from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import ConditionType, EventReason, FailureReason, MachinePhase, Reason
from kubewright.api.cluster.v1beta1 import Machine, MachineStatus, ObjectReference
from kubewright.api.conditions import condition_of
from kubewright.api.core import NODE_READY, NodeAddress
from kubewright.base.clock import parse_rfc3339
from kubewright.base.plan import Event
from kubewright.clusters.external import fields
from kubewright.clusters.external.object import mapping, text
from kubewright.clusters.machine.conditions import conditions
from kubewright.clusters.machine.seen import Seen
from kubewright.clusters.machine.wanted import controlled_by_another, readable

PHASES: tuple[tuple[MachinePhase, Callable[[Machine, MachineStatus], bool]], ...] = (
    (MachinePhase.PENDING, lambda machine, status: True),
    (
        MachinePhase.PROVISIONING,
        lambda machine, status: bool(status.bootstrap_ready) and not status.infrastructure_ready,
    ),
    (MachinePhase.PROVISIONED, lambda machine, status: machine.spec.provider_id is not None),
    (
        MachinePhase.RUNNING,
        lambda machine, status: status.node_ref is not None and bool(status.infrastructure_ready),
    ),
    (
        MachinePhase.FAILED,
        lambda machine, status: status.failure_reason is not None or status.failure_message is not None,
    ),
    (MachinePhase.DELETING, lambda machine, status: machine.metadata.deleting),
)
"""The phases with what makes them so; of those that apply the last counts."""


def status_of(seen: Seen) -> MachineStatus:
    """The status, as it is to be written."""
    machine, before = seen.machine, seen.machine.status
    reason, message = _failure(seen)
    status = replace(
        before,
        bootstrap_ready=machine.spec.bootstrap.data_secret_name is not None,
        infrastructure_ready=_infrastructure_ready(seen),
        addresses=_addresses(seen),
        node_ref=_node_ref(seen),
        failure_reason=reason or None,
        failure_message=message or None,
        certificates_expiry_date=_certificates_expiry(seen),
        conditions=conditions(seen),
        observed_generation=before.observed_generation if seen.failed else machine.metadata.generation,
    )
    if seen.workload.node is not None:
        status = replace(status, node_info=seen.workload.node.status.node_info)
    phase = phase_of(machine, status, may_run=not seen.strict_running or _node_is_ready(seen))
    return status if phase == before.phase else replace(status, phase=phase, last_updated=seen.wall)


def phase_of(machine: Machine, status: MachineStatus, *, may_run: bool = True) -> MachinePhase:
    """The phase: the last row of ``PHASES`` that applies, without ``Running`` unless it ``may_run``."""
    found = [phase for phase, applies in PHASES if applies(machine, status)]
    return [phase for phase in found if may_run or phase != MachinePhase.RUNNING][-1]


def _node_is_ready(seen: Seen) -> bool:
    """Whether the Node is Ready, as the seed has it (S0-23); as it was, while the Node cannot be seen."""
    node = seen.workload.node
    if node is None:
        return seen.machine.status.phase == MachinePhase.RUNNING
    return any((each.type, each.status) == (NODE_READY, "True") for each in node.status.conditions)


def events_of(before: Machine, after: MachineStatus) -> Iterator[Event]:
    """What has changed from one status to the next, for people."""
    ref = after.node_ref
    if before.status.node_ref is None and ref is not None:
        yield Event(EventReason.SET_NODE_REF, f"Node {ref.name} is this machine")
    node = ref.name if ref is not None else ""
    for kind, done, failed in (
        (ConditionType.DRAINING_SUCCEEDED, EventReason.DRAINED_NODE, EventReason.FAILED_DRAIN_NODE),
        (ConditionType.VOLUME_DETACH_SUCCEEDED, EventReason.NODE_VOLUMES_DETACHED, None),
    ):
        was, now = condition_of(before.status.conditions, kind), condition_of(after.conditions, kind)
        if now is None or (was is not None and (was.status, was.reason) == (now.status, now.reason)):
            continue
        if now.status == "True":
            yield Event(done, f"Node {node}: {'drained' if failed else 'its volumes are detached'}")
        elif failed and now.severity == "Warning":
            yield Event(failed, f"Node {node}: {now.message}", warning=True)
    was = condition_of(before.status.conditions, ConditionType.NODE_HEALTHY)
    now = condition_of(after.conditions, ConditionType.NODE_HEALTHY)
    stays = now is not None and now.reason == Reason.DELETION_FAILED
    if now is not None and stays and (was is None or was.message != now.message):
        yield Event(EventReason.FAILED_DELETE_NODE, f"Node {node}: {now.message}", warning=True)


def _infrastructure_ready(seen: Seen) -> bool:
    before = bool(seen.machine.status.infrastructure_ready)
    if not readable(seen, seen.infrastructure) or seen.infrastructure.deleting:
        return before
    return seen.infrastructure.ready


def _addresses(seen: Seen) -> tuple[NodeAddress, ...]:
    """Those of the infrastructure, once it is ready and tells any."""
    external = seen.infrastructure
    told = external.structs(fields.ADDRESSES) if readable(seen, external) and external.ready else ()
    found = tuple(NodeAddress(type=text(each, "type"), address=text(each, "address")) for each in told)
    return found or seen.machine.status.addresses


def _node_ref(seen: Seen) -> ObjectReference | None:
    node, known = seen.workload.node, seen.machine.status.node_ref
    if node is None or seen.machine.metadata.deleting:
        return known
    if known is not None and (known.name, known.uid) == (node.name, node.metadata.uid):
        return known
    return ObjectReference(api_version="v1", kind="Node", name=node.name, uid=node.metadata.uid)


def _failure(seen: Seen) -> tuple[str, str]:
    """The failure that a provider reports; or that the infrastructure is gone, which was ready."""
    there = [each for each in (seen.bootstrap, seen.infrastructure) if each is not None]
    for external in reversed(there):
        if any(external.failure) and not controlled_by_another(seen, external):
            return external.failure
    status = seen.machine.status
    if seen.infrastructure.gone and status.infrastructure_ready and not seen.machine.metadata.deleting:
        message = f"Machine infrastructure resource {seen.infrastructure} has been deleted after being ready"
        return FailureReason.INVALID_CONFIGURATION, message
    if all(readable(seen, each) for each in there) or seen.infrastructure.gone:
        return "", ""
    return status.failure_reason or "", status.failure_message or ""


def _certificates_expiry(seen: Seen) -> datetime | None:
    """When a control plane's certificates end: as the Machine says, or its bootstrap object."""
    if not seen.is_control_plane:
        return None
    of_bootstrap = mapping(seen.bootstrap.metadata, "annotations") if seen.bootstrap is not None else {}
    for annotations in (seen.machine.metadata.annotations, of_bootstrap):
        if told := text(annotations, names.CERTIFICATES_EXPIRY_ANNOTATION):
            try:
                return parse_rfc3339(told)
            except ValueError:
                return None
    return None
