"""What only a MachineDeployment's status says, besides what every deployment's says. Pure.

Theory.      A Failed machine that is preserved is unavailable on purpose: it lowers the floor of the
             condition Available. That a set is frozen, or waits for a cloud that has no more VMs, is copied,
             because users must know of it.
Source       mcm.md §2.7, §7.10-7.12.
"""

from msgspec import structs

from kubewright.api.conditions import condition_of, find_true_condition
from kubewright.api.machine import names
from kubewright.api.machine.names import ConditionReason, ConditionType
from kubewright.api.machine.v1alpha1 import (
    MachineDeployment,
    MachineDeploymentCondition,
    MachineDeploymentStatus,
    MachineSet,
)
from kubewright.machines.machineset.member import MachineMember
from kubewright.machines.machineset.overshoot import frozen_by_count
from kubewright.machines.machineset.status import FROZEN
from kubewright.replicas.deployment.seen import Outcome, Seen
from kubewright.replicas.deployment.status import TRUE, Copies, Statement, conditions, counted


def deployment_status(
    seen: Seen[MachineDeployment, MachineSet, MachineMember], outcome: Outcome
) -> MachineDeploymentStatus:
    """The status to write, from what was seen after a pass and what happened in it."""
    members = seen.all_members
    preserved = sum(member.preserved_failed for member in members)
    copies: Copies[MachineSet] = {ConditionType.FROZEN: _frozen, ConditionType.RESOURCE_EXHAUSTED: _exhausted}
    troubles = [member.failure_summary for member in members if member.failure_summary is not None]
    return structs.replace(
        seen.written.status,
        **counted(seen, outcome),
        preserved_failed_replicas=preserved,
        conditions=conditions(seen, outcome, MachineDeploymentCondition, copies, preserved),
        failed_machines=tuple(sorted(troubles, key=lambda summary: summary.name)),
    )


def _exhausted(machine_set: MachineSet) -> Statement | None:
    """What a set says of a cloud that has no more VMs."""
    found = find_true_condition(machine_set.status.machine_set_condition, ConditionType.RESOURCE_EXHAUSTED)
    return Statement(TRUE, found.reason, found.message) if found is not None else None


def _frozen(machine_set: MachineSet) -> Statement | None:
    """The condition of a frozen set, with the reason that the set's own condition has."""
    if not names.frozen(machine_set.metadata.labels):
        return None
    condition = condition_of(machine_set.status.machine_set_condition, ConditionType.FROZEN)
    message = f'MachineSet "{machine_set.metadata.name}" is frozen. {FROZEN}'
    if condition is not None and frozen_by_count(machine_set.status):
        message = condition.message
    return Statement(TRUE, condition.reason if condition else ConditionReason.FREEZE_LABEL, message)
