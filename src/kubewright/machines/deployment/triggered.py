"""The machines that cluster-autoscaler chose for deletion: a decider of a deployment's pass. Pure.

Theory.      The autoscaler lowers a deployment's replicas and names the machines in an annotation,
             ``name~time,...``. Each of them gets priority 1 and the time; the ranking then puts
             them first, and the set deletes them even when a later scale-up has made the numbers
             equal again. The controller drops an entry once its machine is gone, Failed or being deleted, or
             if its time cannot be read. An entry without a time gets that of the last change of scale.
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
from kubewright.machines.machineset.member import CHOSEN_PRIORITY, MachineMember
from kubewright.replicas.deployment.seen import (
    AnnotateMembers,
    ChangeDeployment,
    MemberAnnotations,
    Seen,
    Step,
)
from kubewright.replicas.objects import annotated


@dataclass(frozen=True, slots=True)
class Triggered:
    """The annotations to write on machines, and the list as it should be (empty: no annotation).

    ``gone``        names that are dropped: their machines do not exist, are being deleted or are Failed
    ``unreadable``  names that are dropped since their times cannot be read
    """

    changes: tuple[MemberAnnotations, ...]
    text: str
    gone: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()


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
        reasons.append(why_rewritten(found))
    return Plan(tuple(steps), AT_ONCE if steps else None, "; ".join(reasons))


def why_rewritten(found: Triggered) -> str:
    """Why the list changes, in a clause."""
    reasons = (
        ("machines that do not exist, are being deleted or are Failed", found.gone),
        ("times that cannot be read, of machines", found.unreadable),
    )
    named = " and ".join(f"{what}: {', '.join(those)}" for what, those in reasons if those)
    return f"the autoscaler's list names {named}" if named else "the autoscaler's list lacks a time"


def triggered(annotations: Mapping[str, str], members: Iterable[MachineMember], wall: datetime) -> Triggered:
    """Read the list of a deployment whose machines are ``members``."""
    wanted = names.triggered_deletions(annotations)
    if not wanted:
        return Triggered((), "")
    living = {member.name: member for member in members if member.alive and member.phase is not Phase.FAILED}
    default = _time(annotations.get(names.LAST_SCALER_CHANGE_ANNOTATION, "")) or rfc3339(wall)
    times = {name: _time(text) if text else default for name, text in wanted.items() if name in living}
    kept = {name: time for name, time in times.items() if time}
    changes = tuple(_mark(living[name], time) for name, time in kept.items() if not living[name].chosen)
    gone = tuple(name for name in wanted if name not in living)
    unreadable = tuple(name for name, time in times.items() if not time)
    return Triggered(changes, names.format_triggered_deletions(kept), gone, unreadable)


def _mark(member: MachineMember, time: str) -> MemberAnnotations:
    """The annotations by which a machine is deleted first: its priority, and when it was chosen."""
    key = names.MARKED_FOR_DELETION_TIME_ANNOTATION
    return MemberAnnotations(member, {names.PRIORITY_ANNOTATION: str(CHOSEN_PRIORITY), key: time})


def _time(text: str) -> str:
    """The text when it is an RFC 3339 time, else an empty one."""
    try:
        parse_rfc3339(text)
    except ValueError:
        return ""
    return text
