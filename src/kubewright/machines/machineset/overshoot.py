"""Freeze a set that would create machines without end, and unfreeze it. Pure.

Theory.      A set is frozen when it lacks machines although it already has, with those that are being
             deleted, as many as the deployment's replicas, surge and ``--safety-up`` together: its machines
             fail or cannot be deleted, or another program creates them, and more would only cost money. It
             is unfrozen once there are ``--safety-down`` fewer. A frozen set creates no machine, and deletes
             machines as before. A freeze is written as condition Frozen, with reason
             OverShootingReplicaCount, and as label ``freeze``. That condition is written first, and removed
             last, so a label beside another reason is a user's, and stays until the user removes it; if the
             set has too many machines then, the condition gets the reason of the number. The annotation
             ``unfreeze`` lets the set create what it lacks once, at any number.
Invariants.  A set that lacks no machine does not become frozen, unlike in MCM, where scaling down by more
             than the limit freezes it while its machines drain. Freezing writes nothing but label and
             status.
Source       mcm.md §9.3, §2.2; defects 11 and 31 of §19 are not copied.
Called by    ``policy`` (``look``, ``blocked``, ``deciders``), ``status``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kubewright.api.conditions import condition_of
from kubewright.api.machine import names
from kubewright.api.machine.names import ConditionReason, ConditionType
from kubewright.api.machine.v1alpha1 import MACHINE_SET, MachineSet, MachineSetStatus
from kubewright.base import delays
from kubewright.base.plan import Plan
from kubewright.kube.patches import onto
from kubewright.machines.machine.settings import SetSettings
from kubewright.machines.machineset.preservation import MachineSetSeen
from kubewright.replicas.objects import key_of
from kubewright.replicas.set.seen import PatchObject, Step
from kubewright.rollout.model import Bounds


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
