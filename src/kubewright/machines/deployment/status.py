"""The status of a MachineDeployment, from what was seen and how the pass went. Pure.

Theory.      Replica counts come from the machines, not from the sets' status. ``progress`` computes the
             condition about the rollout.
Source       mcm.md §2.7, §7.10-7.12; defects 14, 28 and 29 of §19 are not copied.
"""

from collections.abc import Callable, Iterable
from datetime import datetime

from msgspec import structs

from kubewright.api.machine import names
from kubewright.api.machine.names import ConditionReason, ConditionType, Phase
from kubewright.api.machine.v1alpha1 import (
    MachineDeploymentCondition,
    MachineDeploymentStatus,
    MachineSet,
    MachineSummary,
)
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.machines.deployment.observe import Seen
from kubewright.machines.deployment.progress import (
    FALSE,
    TRUE,
    News,
    Word,
    progress_word,
    until_late,
)
from kubewright.machines.machineset.member import MachineMember
from kubewright.machines.machineset.status import FROZEN
from kubewright.replicas.member import until_available
from kubewright.rollout.progress import Counts

Conditions = dict[str, MachineDeploymentCondition]


def deployment_status(seen: Seen, news: News) -> MachineDeploymentStatus:
    """The status to write; ``news`` is what happened in the pass."""
    before, counts = seen.written.status, seen.counts
    conditions: Conditions = {condition.type: condition for condition in before.conditions}
    if not seen.deleting:
        if not seen.problem:
            _put(conditions, ConditionType.AVAILABLE, _availability(seen, counts), seen.now)
        _report_progress(conditions, seen, news)
        _copy(conditions, seen, ConditionType.REPLICA_FAILURE, _failures)
        _copy(conditions, seen, ConditionType.FROZEN, _frost)
    done = not (news.failed or seen.problem)
    return structs.replace(
        before,
        observed_generation=seen.written.metadata.generation if done else before.observed_generation,
        replicas=counts.replicas,
        updated_replicas=counts.updated,
        ready_replicas=counts.ready,
        available_replicas=counts.available,
        unavailable_replicas=max(sum(group.size for group in seen.groups.values()) - counts.available, 0),
        preserved_failed_replicas=_preserved_failed(seen),
        conditions=tuple(conditions.values()),
        failed_machines=_failed_machines(_members(seen)),
    )


def next_look(seen: Seen) -> float | None:
    """Seconds until time alone changes the status: ``minReadySeconds`` or the progress deadline is over."""
    waits = [
        until_available(seen.members_of(each), each.spec.min_ready_seconds, seen.time) for each in seen.sets
    ]
    waits.append(until_late(seen))
    return min((wait for wait in waits if wait is not None), default=None)


def _members(seen: Seen) -> Iterable[MachineMember]:
    return (member for found in seen.members.values() for member in found)


def _availability(seen: Seen, counts: Counts) -> Word:
    floor = seen.strategy.limits(seen.written.spec.replicas).floor - _preserved_failed(seen)
    if counts.available >= max(floor, 0):
        return Word(TRUE, ConditionReason.MINIMUM_REPLICAS_AVAILABLE, "Deployment has minimum availability.")
    told = "Deployment does not have minimum availability."
    return Word(FALSE, ConditionReason.MINIMUM_REPLICAS_UNAVAILABLE, told)


def _report_progress(conditions: Conditions, seen: Seen, news: News) -> None:
    """Write the condition Progressing. Progress renews ``lastUpdateTime``; a set that still cannot be created
    does not, even if the error's message changes."""
    kind = ConditionType.PROGRESSING
    known, word = conditions.get(kind), progress_word(seen, news)
    if word is None:
        return
    _put(conditions, kind, word, seen.now, refresh=word.reason == ConditionReason.MACHINE_SET_UPDATED)
    if known is not None and known.reason == word.reason == ConditionReason.MACHINE_SET_CREATE_ERROR:
        conditions[kind] = structs.replace(conditions[kind], last_update_time=known.last_update_time)


def _copy(
    conditions: Conditions, seen: Seen, kind: str, words_of: Callable[[MachineSet], list[Word]]
) -> None:
    """Copy a condition from the sets, the current one's before others'; remove it when no set has it."""
    ordered = sorted(seen.sets, key=lambda each: each is not seen.current)
    found = [word for each in ordered for word in words_of(each)]
    if not found:
        conditions.pop(kind, None)
    else:
        _put(conditions, kind, found[0], seen.now)


def _frost(machine_set: MachineSet) -> list[Word]:
    """The condition of a frozen set, with the reason that the set's own condition has."""
    if not names.frozen(machine_set.metadata.labels):
        return []
    said = {c.reason for c in machine_set.status.machine_set_condition if c.type == ConditionType.FROZEN}
    told = f'MachineSet "{machine_set.metadata.name}" is frozen. {FROZEN}'
    return [Word(TRUE, next(iter(said), ConditionReason.FREEZE_LABEL), told)]


def _failures(machine_set: MachineSet) -> list[Word]:
    return [
        Word(condition.status, condition.reason, condition.message)
        for condition in machine_set.status.machine_set_condition
        if condition.type == ConditionType.REPLICA_FAILURE and condition.status == TRUE
    ]


def _put(conditions: Conditions, kind: str, word: Word, now: datetime, *, refresh: bool = False) -> None:
    """Write ``word``; an equal condition keeps its times, unless ``refresh`` asks for a new update time."""
    known = conditions.get(kind)
    message = word.message[:MESSAGE_CHARS]
    if (
        known is not None
        and not refresh
        and (known.status, known.reason, known.message)
        == (
            word.status,
            word.reason,
            message,
        )
    ):
        return
    since = known.last_transition_time if known is not None and known.status == word.status else now
    conditions[kind] = MachineDeploymentCondition(
        type=kind,
        status=word.status,
        last_update_time=now,
        last_transition_time=since,
        reason=word.reason,
        message=message,
    )


def _preserved_failed(seen: Seen) -> int:
    return sum(
        member.phase is Phase.FAILED and member.preserved_until is not None for member in _members(seen)
    )


def _failed_machines(members: Iterable[MachineMember]) -> tuple[MachineSummary, ...]:
    found = [member.trouble for member in members if member.trouble is not None]
    return tuple(sorted(found, key=lambda summary: summary.name))
