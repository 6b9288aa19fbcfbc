"""What a set decides besides its size: which machines go or stay, when it is frozen, its status. Pure.

Theory.      A Failed machine is deleted, so that it is replaced, unless it is preserved: because a user asked
             for it, or because the set preserves up to ``autoPreserveFailedMachineMax`` of its Failed
             machines, for users to look at. It asks for that as a user would, by an annotation on the
             machine; the machine controller does the rest, the expiry included. One pass chooses the machines
             to preserve and deletes the others, from one look. A machine that the autoscaler chose is deleted
             in any case. A set is frozen when it lacks machines although it already has, with those that are
             being deleted, as many as the deployment's replicas, surge and ``--safety-up`` together: its
             machines fail or cannot be deleted, or another program creates them, and more would only cost
             money. It is unfrozen once there are ``--safety-down`` fewer. A frozen set creates no machine,
             and deletes machines as before. A freeze is written as condition Frozen, with reason
             OverShootingReplicaCount, and as label ``freeze``. That condition is written first, and removed
             last, so a label beside another reason is a user's, and stays until the user removes it; if the
             set has too many machines then, the condition gets the reason of the number. The annotation
             ``unfreeze`` lets the set create what it lacks once, at any number.
Invariants.  The set annotates no machine beyond the maximum, and takes annotations back when the maximum is
             lowered. A machine that a user has annotated, ``false`` included, on the machine or its node, is
             left alone. A machine whose preservation has expired is not preserved again. Upstream counts by
             the status of its last pass; here what is seen is counted. A set that lacks no machine does not
             become frozen, unlike in MCM, where scaling down by more than the limit freezes it while its
             machines drain. Freezing writes nothing but label and status. What has not changed gives an equal
             status, so nothing is written. A condition's ``lastTransitionTime`` moves only when its status
             does. The generation counts as observed only when the pass that saw it did not fail.
Called by    ``policy``, by way of which ``replicas.set`` asks; ``machines.deployment``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from msgspec import structs

from kubewright.api.conditions import condition_of, is_condition_true, with_condition, without_condition
from kubewright.api.machine import names
from kubewright.api.machine.names import ConditionReason, ConditionType, Phase, Preserve
from kubewright.api.machine.v1alpha1 import MACHINE_SET, MachineSet, MachineSetCondition, MachineSetStatus
from kubewright.base import delays
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.base.plan import Plan, in_seconds
from kubewright.driver.errors import Code
from kubewright.kube.patches import onto
from kubewright.machines.machineset.member import EXPIRY_SECONDS, MachineMember, annotation_time
from kubewright.machines.settings import SetSettings
from kubewright.replicas.objects import INVALID, key_of
from kubewright.replicas.set.seen import (
    Annotate,
    Deletions,
    Failure,
    PatchObject,
    Seen,
    Step,
    counted,
    with_failure,
)
from kubewright.rollout.model import Bounds

MachineSetSeen = Seen[MachineSet, MachineMember]


@dataclass(frozen=True, slots=True)
class FreezeLimits:
    """The numbers by which a set is frozen.

    ``count``        the machines that it has, deleting ones too
    ``missing``      how many living machines it lacks
    ``freeze_at``    from this count on a set that lacks machines is frozen
    ``unfreeze_at``  at this count it is unfrozen
    ``period``       when to look again at a frozen set at the latest
    """

    count: int
    missing: int
    freeze_at: int
    unfreeze_at: int
    period: timedelta


def limits_of(
    found: MachineSet, owner_bounds: Bounds | None, count: int, alive: int, settings: SetSettings
) -> FreezeLimits:
    """The limits of a set.

    Args:
        found: the set.
        owner_bounds: replicas and surge of its deployment; None: it has none.
        count: its machines, deleting ones too.
        alive: its machines that are not being deleted.
        settings: the operator's switches.
    """
    bounds, own = owner_bounds, found.spec.replicas
    freeze_at = (2 * own if bounds is None else bounds.replicas + bounds.surge) + settings.safety_up
    unfreeze_at = max(0, freeze_at - settings.safety_down)
    return FreezeLimits(count, own - alive, freeze_at, unfreeze_at, settings.overshooting_period)


def around(seen: MachineSetSeen) -> FreezeLimits | None:
    """What ``look`` of the policy has read of a set, typed."""
    found: FreezeLimits | None = seen.around
    return found


def overshoots(found: MachineSet, limits: FreezeLimits | None) -> bool:
    """Whether the set is to be frozen for the number of its machines."""
    if limits is None or unfreezing(found):
        return False
    if frozen_by_count(found.status):
        return limits.count > limits.unfreeze_at
    return limits.missing > 0 and limits.count >= limits.freeze_at


def frozen_by_count(status: MachineSetStatus) -> bool:
    """Whether the status says that the set is frozen for the number of its machines."""
    condition = condition_of(status.machine_set_condition, ConditionType.FROZEN)
    found = (condition.status, condition.reason) if condition is not None else ("", "")
    return found == ("True", ConditionReason.OVERSHOOTING)


def unfreezing(found: MachineSet) -> bool:
    """Whether a user asks to unfreeze the set (a request on its deployment is copied to it)."""
    return names.UNFREEZE_ANNOTATION in found.metadata.annotations


def freeze(seen: MachineSetSeen) -> Plan[Step]:
    """Write or remove the label to match the condition, which the status of each pass writes."""
    found, limits = seen.set, around(seen)
    label, by_count = names.FREEZE_LABEL in found.metadata.labels, frozen_by_count(found.status)
    if unfreezing(found):
        if seen.pause is not None and seen.missing > 0:
            return Plan(because=f"it is being unfrozen by a user, but {seen.pause.because}")
        if condition_of(found.status.machine_set_condition, ConditionType.FROZEN) is not None:
            return Plan(wake=delays.SOON, because="it is being unfrozen by a user")
        gone = {"labels": {names.FREEZE_LABEL: None}} if label else {}
        body = {"metadata": {**gone, "annotations": {names.UNFREEZE_ANNOTATION: None}}}
        return _written(found, body, "a user has unfrozen it")
    if limits is None:
        return Plan()
    if overshoots(found, limits):
        why = f"{limits.count} machines: frozen at {limits.freeze_at}, unfrozen at {limits.unfreeze_at}"
        if names.frozen(found.metadata.labels):
            return Plan(wake=limits.period, because=why)
        if not by_count:
            return Plan(wake=delays.SOON, because=why)
        return _written(found, {"metadata": {"labels": {names.FREEZE_LABEL: names.TRUE}}}, why)
    if by_count and label:
        why = f"{limits.count} machines, and unfrozen at {limits.unfreeze_at}"
        return _written(found, {"metadata": {"labels": {names.FREEZE_LABEL: None}}}, why)
    return Plan()


def frozen_message(found: MachineSet, limits: FreezeLimits) -> str:
    """The message of condition Frozen, in MCM's words."""
    return (
        f"The number of machines backing MachineSet: {found.name} is {limits.count} >= {limits.freeze_at} "
        "which is the Max-ScaleUp-Limit"
    )


def _written(found: MachineSet, body: Mapping[str, Any], because: str) -> Plan[Step]:
    return Plan((PatchObject(MACHINE_SET, key_of(found), onto(body, found.metadata)),), because=because)


Machines = tuple[MachineMember, ...]


def to_delete(seen: MachineSetSeen) -> Deletions[MachineMember]:
    """Failed machines, and those that the autoscaler chose."""
    chosen, wall = _chosen(seen), seen.wall.timestamp()
    spared = {member.uid for member in (*preserved(seen), *chosen)}
    failed = [m for m in _failed(seen) if not m.kept_at(wall) and m.uid not in spared]
    counts = ((failed, "failed"), (chosen, "chosen by the autoscaler"))
    because = ", ".join(f"{len(found)} {why}" for found, why in counts if found)
    return Deletions((*chosen, *failed), because, _next_expiry(seen))


def keep(seen: MachineSetSeen) -> Plan[Step]:
    """Ask by an annotation that Failed machines be preserved, up to the set's maximum."""
    more, fewer = preserved(seen)[: seen.burst], too_many(seen)[: seen.burst]
    steps = (
        *((Annotate(more, names.PRESERVE_ANNOTATION, Preserve.AUTO),) if more else ()),
        *((Annotate(fewer, names.PRESERVE_ANNOTATION, None),) if fewer else ()),
    )
    counts = ((len(more), "to be preserved although Failed"), (len(fewer), "to be preserved no longer"))
    return Plan(steps, because=", ".join(f"{count} {what}" for count, what in counts if count))


def preserved(seen: MachineSetSeen) -> Machines:
    """Machines to preserve from now on, newest first, since users ask about recent failures. None of those
    that the pass deletes for other reasons. Of more than a burst, later passes annotate the others."""
    deleted = {member.uid for member in (*seen.surplus, *_chosen(seen))}
    failed = (member for member in _failed(seen) if member.uid not in deleted)
    candidates = [
        member for member in failed if not member.preserve_annotated and member.preserved_until is None
    ]
    newest = sorted(candidates, key=lambda member: (-member.created, member.name))
    return tuple(newest[: max(0, _room(seen))])


def too_many(seen: MachineSetSeen) -> Machines:
    """Machines that the set preserves beyond its maximum, oldest first."""
    ours = sorted(_ours(seen), key=lambda member: (member.created, member.name))
    return tuple(ours[: max(0, -_room(seen))])


def _room(seen: MachineSetSeen) -> int:
    return max(0, seen.set.spec.auto_preserve_failed_machine_max) - len(_ours(seen))


def _ours(seen: MachineSetSeen) -> list[MachineMember]:
    return [member for member in seen.alive if member.auto_preserved]


def _failed(seen: MachineSetSeen) -> list[MachineMember]:
    return [member for member in seen.alive if member.phase is Phase.FAILED]


def _chosen(seen: MachineSetSeen) -> Machines:
    """The machines that the autoscaler marked no later than it last changed the number of replicas."""
    changed = annotation_time(seen.set.metadata.annotations, names.LAST_SCALER_CHANGE_ANNOTATION)
    if changed is None:
        return ()
    return tuple(
        member
        for member in seen.alive
        if member.chosen and member.marked_at is not None and member.marked_at <= changed
    )


def _next_expiry(seen: MachineSetSeen) -> timedelta | None:
    """How long until the first preservation of a Failed machine expires; None if there is none."""
    wall = seen.wall.timestamp()
    ends = (
        member.preserved_until or (member.failed_at + EXPIRY_SECONDS if member.failed_at else None)
        for member in _failed(seen)
        if member.kept_at(wall)
    )
    return min((in_seconds(end - wall) for end in ends if end is not None), default=None)


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
