"""The status of a MachineDeployment, from what was seen and how the pass went. Pure.

Theory.      Counts come from the machines. MachineSetReady is what the current set says of itself;
             Available says whether as many machines are available as the strategy demands. The phase is
             for people.
Invariants.  An unchanged world gives an equal status, so nothing is written.
Source       capi.md §7.9, §4.4, §4.5.
Called by    ``policy``.
"""

from collections.abc import Iterator

from msgspec import structs, to_builtins

from kubewright.api.cluster.conditions import (
    ERROR,
    INFO,
    WARNING,
    ConditionType,
    DeploymentPhase,
    Reason,
    false_condition,
    mirror,
    summary,
    true_condition,
    with_conditions,
)
from kubewright.api.cluster.v1beta1 import (
    Condition,
    MachineDeployment,
    MachineDeploymentStatus,
    MachineSet,
)
from kubewright.api.conditions import condition_of
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.clusters.machineset.member import MachineMember
from kubewright.replicas.deployment.seen import Outcome, Seen
from kubewright.replicas.deployment.status import counted
from kubewright.replicas.objects import INVALID
from kubewright.wire import selectors

READY_OF = (ConditionType.MACHINE_SET_READY, ConditionType.AVAILABLE)

DeploymentSeen = Seen[MachineDeployment, MachineSet, MachineMember]


def deployment_status(seen: DeploymentSeen, outcome: Outcome) -> MachineDeploymentStatus:
    """The status to write, from what was seen after a pass and what happened in it."""
    before = seen.written.status
    if seen.deleting:
        return structs.replace(before, **counted(seen, outcome))
    found = with_conditions(before.conditions, _conditions(seen, outcome), seen.wall)
    ready = summary(found, READY_OF)
    return structs.replace(
        before,
        **counted(seen, outcome),
        selector=before.selector if seen.problem else _selector(seen),
        phase=phase(seen),
        conditions=found if ready is None else with_conditions(found, (ready,), seen.wall),
    )


def phase(seen: DeploymentSeen) -> str:
    """What the deployment is doing, in a word for people."""
    wanted, counts = seen.deployment.spec.replicas, seen.counts
    if any(each.status.failure_reason or each.status.failure_message for each in seen.sets):
        return DeploymentPhase.FAILED
    if counts.ready == wanted == counts.replicas:
        return DeploymentPhase.RUNNING
    if counts.replicas > wanted and counts.ready >= wanted:
        return DeploymentPhase.SCALING_DOWN
    return DeploymentPhase.SCALING_UP if counts.ready < wanted else DeploymentPhase.RUNNING


def _selector(seen: DeploymentSeen) -> str:
    return str(selectors.from_object(to_builtins(seen.deployment.spec.selector)))


def _conditions(seen: DeploymentSeen, outcome: Outcome) -> Iterator[Condition]:
    if seen.problem:
        yield false_condition(ConditionType.MACHINE_SET_READY, INVALID, ERROR, seen.problem[:MESSAGE_CHARS])
        return
    yield _set_ready(seen, outcome)
    wanted = seen.deployment.spec.replicas
    floor, available = seen.strategy.limits(wanted).floor, seen.counts.available
    if available >= floor:
        yield true_condition(ConditionType.AVAILABLE)
        return
    message = f"Minimum availability requires {floor} replicas, current {available} available"
    yield false_condition(ConditionType.AVAILABLE, Reason.WAITING_FOR_AVAILABLE_MACHINES, WARNING, message)


def _set_ready(seen: DeploymentSeen, outcome: Outcome) -> Condition:
    """What the current set says of itself, or why there is none."""
    condition_type = ConditionType.MACHINE_SET_READY
    waiting = false_condition(condition_type, Reason.WAITING_FOR_MACHINE_SET, INFO)
    if outcome.create_error:
        message = outcome.create_error[:MESSAGE_CHARS]
        return false_condition(condition_type, Reason.WAITING_FOR_MACHINE_SET, ERROR, message)
    if seen.current is None:
        return waiting
    ready = condition_of(seen.current.status.conditions, ConditionType.READY)
    return mirror(condition_type, ready, waiting) or waiting
