"""What only a MachineDeployment's status says, besides what every deployment's says. Pure.

Theory.      A Failed machine that is preserved is unavailable on purpose: it lowers the floor of the
             condition Available. The conditions of sets that users must know of are copied: a failure to
             create or delete machines, and a set that is frozen.
Source       mcm.md §2.7, §7.10-7.12.
"""

from msgspec import structs

from kubewright.api.conditions import condition_of, true_condition
from kubewright.api.machine import names
from kubewright.api.machine.names import ConditionReason, ConditionType
from kubewright.api.machine.v1alpha1 import (
    MachineDeployment,
    MachineDeploymentCondition,
    MachineDeploymentStatus,
    MachineSet,
)
from kubewright.machines.machineset.member import MachineMember
from kubewright.machines.machineset.status import FROZEN
from kubewright.replicas.deployment.progress import TRUE, Statement
from kubewright.replicas.deployment.seen import Seen
from kubewright.replicas.deployment.status import Copies, conditions, counted
from kubewright.replicas.deployment.steps import Outcome


def deployment_status(
    seen: Seen[MachineDeployment, MachineSet, MachineMember], outcome: Outcome
) -> MachineDeploymentStatus:
    """The status to write, from what was seen after a pass and what happened in it."""
    members = seen.all_members
    preserved = sum(member.preserved_failed for member in members)
    copies: Copies[MachineSet] = {ConditionType.REPLICA_FAILURE: _failure, ConditionType.FROZEN: _frozen}
    troubles = [member.failure_summary for member in members if member.failure_summary is not None]
    return structs.replace(
        seen.written.status,
        **counted(seen, outcome),
        preserved_failed_replicas=preserved,
        conditions=conditions(seen, outcome, MachineDeploymentCondition, copies, preserved),
        failed_machines=tuple(sorted(troubles, key=lambda summary: summary.name)),
    )


def _failure(machine_set: MachineSet) -> Statement | None:
    found = true_condition(machine_set.status.machine_set_condition, ConditionType.REPLICA_FAILURE)
    return Statement(TRUE, found.reason, found.message) if found is not None else None


def _frozen(machine_set: MachineSet) -> Statement | None:
    """The condition of a frozen set, with the reason that the set's own condition has."""
    if not names.frozen(machine_set.metadata.labels):
        return None
    condition = condition_of(machine_set.status.machine_set_condition, ConditionType.FROZEN)
    message = f'MachineSet "{machine_set.metadata.name}" is frozen. {FROZEN}'
    return Statement(TRUE, condition.reason if condition else ConditionReason.FREEZE_LABEL, message)
