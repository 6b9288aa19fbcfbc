"""The status of a MachineSet, from what was seen and how the pass went. Pure.

Invariants.  What has not changed gives an equal status, so nothing is written. A condition's
             ``lastTransitionTime`` moves only when its status does. The generation counts as
             observed only when the pass that saw it did not fail (mcm.md §20).
Source       mcm.md §1.4, §6.8; defects 14 and 29 of §19 are not copied.
"""

from msgspec import structs

from kubewright.api.conditions import is_condition_true, with_condition, without_condition
from kubewright.api.machine import names
from kubewright.api.machine.names import ConditionReason, ConditionType
from kubewright.api.machine.v1alpha1 import MachineSetCondition, MachineSetStatus
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.driver.errors import Code
from kubewright.machines.machineset.overshoot import (
    around,
    frozen_by_count,
    frozen_message,
    overshoots,
    unfreezing,
)
from kubewright.machines.machineset.preservation import MachineSetSeen
from kubewright.replicas.objects import INVALID
from kubewright.replicas.set.policy import Failure, counted, with_failure

FROZEN = f'No machine is made while the label "{names.FREEZE_LABEL}" of the set is "{names.TRUE}".'


def set_status(seen: MachineSetSeen, failure: Failure | None) -> MachineSetStatus:
    """The status to write; ``failure``: what kept this pass from creating or deleting machines."""
    before = seen.set.status
    if seen.problem and not seen.deleting:
        failure = Failure(INVALID, seen.problem)
    members = seen.members
    return structs.replace(
        before,
        **counted(seen, members),
        preserved_failed_replicas=sum(member.preserved_failed for member in members),
        auto_preserve_failed_machine_count=sum(member.auto_preserved for member in members),
        observed_generation=before.observed_generation if failure else seen.set.metadata.generation,
        machine_set_condition=with_failure(
            _exhausted(_frozen(before.machine_set_condition, seen), seen),
            failure,
            MachineSetCondition,
            seen.wall,
        ),
        failed_machines=tuple(
            member.failure_summary
            for member in sorted(members, key=lambda m: m.name)
            if member.failure_summary is not None
        ),
    )


def is_frozen(status: MachineSetStatus) -> bool:
    """Whether the status has the condition Frozen."""
    return is_condition_true(status.machine_set_condition, ConditionType.FROZEN)


def _frozen(before: tuple[MachineSetCondition, ...], seen: MachineSetSeen) -> tuple[MachineSetCondition, ...]:
    """The conditions with Frozen while the set overshoots, or has the label; one that MCM or another tool
    wrote is kept. Where a user has taken the label off, and the set overshoots, the reason becomes that."""
    about, limits = seen.set, around(seen)
    label = names.frozen(about.metadata.labels)
    over = limits is not None and overshoots(about, limits)
    if unfreezing(about) or not (over or label):
        return without_condition(before, ConditionType.FROZEN)
    if is_frozen(about.status) and (label or not over or frozen_by_count(about.status)):
        return before
    found = MachineSetCondition(
        type=ConditionType.FROZEN,
        status="True",
        last_transition_time=seen.wall,
        reason=ConditionReason.OVERSHOOTING if over else ConditionReason.FREEZE_LABEL,
        message=frozen_message(about, limits) if over and limits is not None else FROZEN,
    )
    return with_condition(before, found)


def _exhausted(
    before: tuple[MachineSetCondition, ...], seen: MachineSetSeen
) -> tuple[MachineSetCondition, ...]:
    """The conditions with ResourceExhausted while machines wait for a cloud that has no more VMs."""
    waiting = sorted((m for m in seen.members if m.alive and m.exhausted), key=lambda m: m.name)
    if not waiting:
        return without_condition(before, ConditionType.RESOURCE_EXHAUSTED)
    first, number = waiting[0], len(waiting)
    said = first.exhausted if number == 1 else f"Of {first.name} the cloud says: {first.exhausted}"
    found = MachineSetCondition(
        type=ConditionType.RESOURCE_EXHAUSTED,
        status="True",
        last_transition_time=seen.wall,
        reason=Code.ResourceExhausted.name,
        message=f"Machines without a VM: {number}. {said}"[:MESSAGE_CHARS],
    )
    return with_condition(before, found)
