"""Freeze a set that would create machines without end, and unfreeze it. Pure.

Theory.      A set is frozen when it lacks machines and all of its machines together, those that are being
             deleted too, are as many as the deployment's replicas with surge and ``--safety-up``: its
             machines fail and hang, or another program makes them, and more of them would only cost
             money. It is unfrozen once there are ``--safety-down`` fewer. Frozen, it creates none; it deletes
             as ever. The status says first that it is frozen, then the label follows, and at the end the
             label goes first: so the condition tells a label of ours from a user's, which stays until the
             user takes it off. The annotation ``unfreeze`` lets the set create once, however many there are.
Invariants.  A set that lacks none is not frozen, unlike in MCM, where scaling down by more than the limit
             freezes it while its machines drain. Freezing writes nothing but label and status.
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
from kubewright.replicas.ownership import key_of
from kubewright.replicas.set.steps import PatchObject, Step
from kubewright.rollout.bounds import Bounds


@dataclass(frozen=True, slots=True)
class Limits:
    """At how many machines a set is frozen, and at how many it is unfrozen; ``count`` is how many there are.

    ``missing``  how many the set lacks
    ``period``   when to look again at a frozen set at the latest
    """

    count: int
    missing: int
    upper: int
    lower: int
    period: timedelta


def limits_of(
    found: MachineSet, of_owner: Bounds | None, count: int, alive: int, settings: SetSettings
) -> Limits:
    """The limits of a set; ``of_owner``: replicas and surge of its deployment, if it has one."""
    most = 2 * found.spec.replicas if of_owner is None else of_owner.replicas + of_owner.surge
    upper = most + settings.safety_up
    lower = upper - settings.safety_down
    return Limits(count, found.spec.replicas - alive, upper, lower, settings.overshooting_period)


def overshoots(found: MachineSet, limits: Limits | None) -> bool:
    """Whether the set is to be frozen for the number of its machines."""
    if limits is None or unfreezing(found):
        return False
    if frozen_by_count(found.status):
        return limits.count > limits.lower
    return limits.missing > 0 and limits.count >= limits.upper


def frozen_by_count(status: MachineSetStatus) -> bool:
    """Whether the status says that the number of machines is the reason."""
    condition = condition_of(status.machine_set_condition, ConditionType.FROZEN)
    says = (condition.status, condition.reason) if condition is not None else ("", "")
    return says == ("True", ConditionReason.OVERSHOOTING)


def unfreezing(found: MachineSet) -> bool:
    """A user asks to unfreeze it, or its deployment."""
    return names.UNFREEZE_ANNOTATION in found.metadata.annotations


def freeze(seen: MachineSetSeen) -> Plan[Step]:
    """Keep the label in line with the condition, which the status of a pass writes."""
    found, limits = seen.set, seen.around
    label, says = names.FREEZE_LABEL in found.metadata.labels, frozen_by_count(found.status)
    if unfreezing(found):
        if condition_of(found.status.machine_set_condition, ConditionType.FROZEN) is not None:
            return Plan(wake=delays.SOON, because="it is being unfrozen by a user")
        gone = {"labels": {names.FREEZE_LABEL: None}} if label else {}
        body = {"metadata": {**gone, "annotations": {names.UNFREEZE_ANNOTATION: None}}}
        return _written(found, body, "a user has unfrozen it")
    if limits is None:
        return Plan()
    if overshoots(found, limits):
        why = f"{limits.count} machines, and frozen at {limits.upper}"
        if names.frozen(found.metadata.labels):
            return Plan(wake=limits.period, because=why)
        if not says:
            return Plan(wake=delays.SOON, because=why)
        return _written(found, {"metadata": {"labels": {names.FREEZE_LABEL: names.TRUE}}}, why)
    if says and label:
        why = f"{limits.count} machines, and unfrozen at {limits.lower}"
        return _written(found, {"metadata": {"labels": {names.FREEZE_LABEL: None}}}, why)
    return Plan()


def told(found: MachineSet, limits: Limits) -> str:
    """The message of the condition; it stays as long as the set is frozen."""
    return (
        f"The number of machines backing MachineSet: {found.name} is {limits.count} >= {limits.upper} "
        "which is the Max-ScaleUp-Limit"
    )


def _written(found: MachineSet, body: Mapping[str, Any], because: str) -> Plan[Step]:
    return Plan((PatchObject(MACHINE_SET, key_of(found), onto(body, found.metadata)),), because=because)
