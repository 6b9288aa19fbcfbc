"""The machines that cluster-autoscaler chose for deletion: a decider of a deployment's pass. Pure.

Theory.      The autoscaler lowers a deployment's replicas and names the machines in an annotation,
             ``name~time,...``. Each of them gets priority 1 and the time; the ranking then puts
             them first, and the set deletes them even when a later scale-up has made the numbers
             equal again. The controller drops an entry once its machine is gone, Failed or being deleted.
Source       mcm.md §7.4.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import MachineDeployment, MachineSet
from kubewright.base.clock import parse_rfc3339, rfc3339
from kubewright.base.plan import AT_ONCE, Plan
from kubewright.machines.machineset.member import MachineMember
from kubewright.replicas.deployment.seen import Seen
from kubewright.replicas.deployment.sets import annotated
from kubewright.replicas.deployment.steps import AnnotateMembers, ChangeDeployment, MemberAnnotations, Step

CHOSEN_PRIORITY = 1


@dataclass(frozen=True, slots=True)
class Triggered:
    """The annotations to write on machines, and the list as it should be (empty: no annotation)."""

    changes: tuple[MemberAnnotations, ...]
    text: str


def trigger_deletions(seen: Seen[MachineDeployment, MachineSet, MachineMember]) -> Plan[Step]:
    """Mark the machines that the autoscaler lists for deletion; take those off its list that do not exist,
    are being deleted or are Failed."""
    key, annotations = names.TRIGGER_DELETION_ANNOTATION, seen.written.metadata.annotations
    found = triggered(annotations, seen.all_members, seen.wall)
    steps: list[Step] = [AnnotateMembers(found.changes)] if found.changes else []
    reasons = (
        [f"the autoscaler chose {', '.join(m.member.name for m in found.changes)}"] if found.changes else []
    )
    if found.text != annotations.get(key, ""):
        steps.append(ChangeDeployment(annotated(seen.written, key, found.text)))
        reasons.append(
            "the autoscaler's list names machines that do not exist, are being deleted or are Failed"
        )
    return Plan(tuple(steps), AT_ONCE if steps else None, "; ".join(reasons))


def triggered(annotations: Mapping[str, str], members: Iterable[MachineMember], wall: datetime) -> Triggered:
    """Read the list of a deployment whose machines are ``members``."""
    wanted = names.triggered_deletions(annotations)
    if not wanted:
        return Triggered((), "")
    living = {member.name: member for member in members if member.alive and member.phase is not Phase.FAILED}
    default = _time(annotations.get(names.LAST_SCALER_CHANGE_ANNOTATION, "")) or rfc3339(wall)
    kept = {name: _time(text) if text else default for name, text in wanted.items() if name in living}
    times = {name: time for name, time in kept.items() if time}
    changes = tuple(_mark(living[name], time) for name, time in times.items() if not _is_marked(living[name]))
    return Triggered(changes, names.format_triggered_deletions(times))


def _mark(member: MachineMember, time: str) -> MemberAnnotations:
    """The annotations by which a machine is deleted first: its priority, and when it was chosen."""
    key = names.MARKED_FOR_DELETION_TIME_ANNOTATION
    return MemberAnnotations(member, {names.PRIORITY_ANNOTATION: str(CHOSEN_PRIORITY), key: time})


def _is_marked(member: MachineMember) -> bool:
    return member.priority == CHOSEN_PRIORITY and member.marked_at is not None


def _time(text: str) -> str:
    """The text when it is an RFC 3339 time, else an empty one."""
    try:
        parse_rfc3339(text)
    except ValueError:
        return ""
    return text
