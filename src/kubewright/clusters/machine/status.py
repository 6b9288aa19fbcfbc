"""What the status of a Machine says: a function of what is seen after the steps of a pass. Pure.

Theory.      A status is copied from providers' objects and the Node, so one that was lost (a move to another
             server, a restored backup) comes out the same again. What came from an object that cannot be read
             at present is kept. A failure goes when the provider reports it no more.
Conditions.  The conditions about bootstrap and infrastructure mirror these objects (``external.mirroring``);
             the Node's condition follows from the Node. Ready sums up; it does not count the Node, as in
             v1beta1. While the Machine is being deleted, each stage that is over has a condition that is
             True, the one that is not over has one that is False and says what is waited for, and Deleting
             says the same in one place.
Invariants.  The two booleans and the phase are always written. The phase is for people; nothing here or
             elsewhere decides on it. ``lastUpdated`` moves with the phase only. The error of a step is in a
             message. While an object or a Node cannot be read for a moment, its condition stays as it is; so
             do conditions that others write (health checks, owners).
Called by    ``act``.
"""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from msgspec.structs import replace

from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import (
    ERROR,
    INFO,
    TRUE,
    WARNING,
    ConditionType,
    EventReason,
    FailureReason,
    MachinePhase,
    Reason,
    false_condition,
    summary,
    true_condition,
    unknown_condition,
    with_conditions,
)
from kubewright.api.cluster.v1beta1 import Condition, Machine, MachineStatus, ObjectReference
from kubewright.api.conditions import condition_of
from kubewright.api.core import NODE_READY, NodeAddress
from kubewright.base.clock import parse_rfc3339
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.base.plan import Event
from kubewright.clusters.external import fields
from kubewright.clusters.external.mirroring import ObjectCondition, mirrored, mirrored_in_deletion
from kubewright.clusters.external.object import External, mapping, text
from kubewright.clusters.machine import deletion, wanted
from kubewright.clusters.machine.seen import BOOTSTRAP, INFRASTRUCTURE, ITSELF, NODE, Seen
from kubewright.clusters.machine.wanted import controlled_by_another, health, readable

STEPS = (ConditionType.INFRASTRUCTURE_READY, ConditionType.BOOTSTRAP_READY)
READY_OF = (
    *STEPS,
    ConditionType.HEALTH_CHECK_SUCCEEDED,
    ConditionType.OWNER_REMEDIATED,
    ConditionType.DRAINING_SUCCEEDED,
)
"""What Ready sums up, in the order of their weight among equals."""

NO_CLUSTER = "create it, or delete the Machine"
"""What a user can do where the Cluster is gone, or was never there."""

UNKNOWN_AFTER = timedelta(minutes=5)
"""How long a cluster may be unreachable before its Nodes' health counts as unknown."""


def conditions(seen: Seen) -> tuple[Condition, ...]:
    """All conditions of the Machine; those of types that others write stay."""
    before = seen.machine.status.conditions
    found = _of_deletion(seen) if seen.machine.metadata.deleting else _of_life(seen)
    shortened = tuple(replace(each, message=each.message[:MESSAGE_CHARS]) for each in found)
    after = with_conditions(before, shortened, seen.wall)
    counted = not seen.machine.metadata.deleting and seen.machine.spec.provider_id is None
    ready = summary(after, READY_OF, steps=STEPS if counted else ())
    return after if ready is None else with_conditions(before, (*shortened, ready), seen.wall)


def _of_life(seen: Seen) -> Iterator[Condition]:
    for each in (_bootstrap(seen), _infrastructure(seen), _node(seen)):
        if each is not None:
            yield each


def _bootstrap(seen: Seen) -> Condition | None:
    condition_type, bootstrap = ConditionType.BOOTSTRAP_READY, seen.machine.spec.bootstrap
    about = _about_bootstrap(seen)
    if bootstrap.data_secret_name is not None and not about.failed:
        return true_condition(condition_type)
    if wrong := wanted.problem_of_bootstrap(seen):
        return false_condition(condition_type, Reason.WAITING_FOR_DATA_SECRET, ERROR, wrong)
    if seen.bootstrap is not None:
        return _mirrored(seen, about, seen.bootstrap)
    waits = (
        "waiting for spec.bootstrap.dataSecretName: there is no spec.bootstrap.configRef that would bring it"
    )
    return false_condition(condition_type, Reason.WAITING_FOR_DATA_SECRET, INFO, about.failed or waits)


def _infrastructure(seen: Seen) -> Condition | None:
    condition_type = ConditionType.INFRASTRUCTURE_READY
    if seen.cluster is None:
        message = f"waiting: there is no Cluster {seen.cluster_key}; {NO_CLUSTER}"
        return false_condition(condition_type, Reason.WAITING_FOR_INFRASTRUCTURE, INFO, message)
    if wrong := wanted.problem_of_infrastructure(seen):
        return false_condition(condition_type, Reason.WAITING_FOR_INFRASTRUCTURE, ERROR, wrong)
    return _mirrored(seen, _about_infrastructure(seen), seen.infrastructure)


def _mirrored(seen: Seen, about: ObjectCondition, external: External) -> Condition | None:
    former = wanted.former_owners(seen)
    return mirrored(about, external, seen.owner, seen.machine.spec.cluster_name, former_owners=former)


def _about_bootstrap(seen: Seen) -> ObjectCondition:
    failed = seen.failed.get(BOOTSTRAP) or seen.failed.get(ITSELF, "")
    return ObjectCondition(ConditionType.BOOTSTRAP_READY, Reason.WAITING_FOR_DATA_SECRET, failed=failed)


def _about_infrastructure(seen: Seen) -> ObjectCondition:
    ready = bool(seen.machine.status.infrastructure_ready)
    waiting, failed = Reason.WAITING_FOR_INFRASTRUCTURE, seen.failed.get(INFRASTRUCTURE, "")
    return ObjectCondition(ConditionType.INFRASTRUCTURE_READY, waiting, ready, failed)


def _node(seen: Seen) -> Condition | None:
    """The health of the Node, or what is waited for until there is one."""
    condition_type, workload = ConditionType.NODE_HEALTHY, seen.workload
    provider_id = seen.machine.spec.provider_id
    if not provider_id:
        message = "waiting for the infrastructure to tell its providerID"
        return false_condition(condition_type, Reason.WAITING_FOR_NODE_REF, INFO, message)
    if workload.unreachable:
        return _unseen_node(seen)
    if len(workload.nodes) > 1:
        told = ", ".join(sorted(each.name for each in workload.nodes)[:3])
        message = f"{len(workload.nodes)} Nodes have the providerID {provider_id}: {told}"
        return unknown_condition(condition_type, Reason.NODE_INSPECTION_FAILED, message)
    if workload.taken_by:
        message = f"Machine {workload.taken_by} has the providerID {provider_id}, too, and was there first"
        return unknown_condition(condition_type, Reason.NODE_INSPECTION_FAILED, message)
    if workload.node is None and seen.node_name:
        return false_condition(
            condition_type, Reason.NODE_NOT_FOUND, ERROR, f"Node {seen.node_name} is gone from its cluster"
        )
    if workload.node is None:
        message = f"waiting for a Node with the providerID {provider_id}"
        return false_condition(condition_type, Reason.NODE_PROVISIONING, WARNING, message)
    if wrong := seen.failed.get(NODE):
        return unknown_condition(condition_type, Reason.NODE_INSPECTION_FAILED, wrong)
    return health(workload.node)


def _unseen_node(seen: Seen) -> Condition | None:
    """A short silence of a cluster changes nothing; a long one makes the health of its Nodes unknown."""
    condition_type, workload = ConditionType.NODE_HEALTHY, seen.workload
    if not seen.node_name:
        message = f"waiting for a Node: {workload.unreachable}"
        return false_condition(condition_type, Reason.NODE_PROVISIONING, WARNING, message)
    if workload.unreachable_for < UNKNOWN_AFTER:
        return None
    return unknown_condition(condition_type, Reason.NODE_INSPECTION_FAILED, workload.unreachable)


def _of_deletion(seen: Seen) -> Iterator[Condition]:
    stage = deletion.stage(seen)
    wrong = "; ".join(each for each in (*seen.failed.values(), seen.deletion.node_error) if each)
    told = f"{stage.plan.because}; {wrong}" if wrong else stage.plan.because
    yield Condition(type=ConditionType.DELETING, status=TRUE, reason=stage.reason, message=told)
    yield from _stages(seen, stage, told)
    reached = deletion.REASONS.index(stage.reason)
    if reached < deletion.REASONS.index(Reason.WAITING_FOR_INFRASTRUCTURE_DELETION):
        return
    failed = seen.failed.get(NODE) or seen.deletion.node_error
    node = ConditionType.NODE_HEALTHY
    yield (
        false_condition(node, Reason.DELETION_FAILED, WARNING, failed)
        if failed
        else false_condition(node, Reason.DELETING, INFO)
    )
    for about, external in (
        (_about_infrastructure(seen), seen.infrastructure),
        (_about_bootstrap(seen), seen.bootstrap),
    ):
        found = mirrored_in_deletion(about, external) if external is not None else None
        if found is not None:
            yield found


def _stages(seen: Seen, stage: deletion.Stage, told: str) -> Iterator[Condition]:
    """True for the stages that are over, False for the one that is not; none for those that are skipped."""
    counted = not deletion.skip(seen)
    rows = (
        (counted, Reason.WAITING_FOR_PRE_DRAIN_HOOK, _hook(ConditionType.PRE_DRAIN_HOOK_SUCCEEDED)),
        (counted, Reason.DRAINING_NODE, _draining(seen)),
        (counted, Reason.WAITING_FOR_VOLUME_DETACH, _detaching()),
        (True, Reason.WAITING_FOR_PRE_TERMINATE_HOOK, _hook(ConditionType.PRE_TERMINATE_HOOK_SUCCEEDED)),
    )
    reached = deletion.REASONS.index(stage.reason)
    for matters, reason, waiting in rows:
        place = deletion.REASONS.index(reason)
        if matters and place < reached:
            yield true_condition(waiting.type)
        elif place == reached:
            yield replace(waiting, message=told)


def _hook(condition_type: ConditionType) -> Condition:
    return false_condition(condition_type, Reason.WAITING_EXTERNAL_HOOK, INFO)


def _draining(seen: Seen) -> Condition:
    plan = seen.deletion.drain
    stuck = plan is not None and plan.failed
    reason, severity = (Reason.DRAINING_FAILED, WARNING) if stuck else (Reason.DRAINING, INFO)
    return false_condition(ConditionType.DRAINING_SUCCEEDED, reason, severity)


def _detaching() -> Condition:
    return false_condition(ConditionType.VOLUME_DETACH_SUCCEEDED, Reason.WAITING_FOR_VOLUME_DETACH, INFO)


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
    """Whether the Node is Ready (S0-23); as it was, while the Node cannot be seen."""
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
