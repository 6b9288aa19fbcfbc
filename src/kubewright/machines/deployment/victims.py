"""What cluster-autoscaler wants to die. Pure.

Theory.      The autoscaler lowers a deployment's replicas and names the machines in an annotation,
             ``name~time,...``. Each of them gets priority 1 and the time; the ranking then takes
             them first, and the set deletes them even when a later scale-up has made the numbers
             equal again. Entries are dropped once their machine is gone, failed or leaving.
Source       mcm.md §7.4.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.base.clock import parse_rfc3339, rfc3339
from kubewright.machines.machineset.member import MachineMember

CHOSEN_PRIORITY = 1


@dataclass(frozen=True, slots=True)
class Mark:
    """A machine that is to be marked, and since when the autoscaler wants it to die."""

    member: MachineMember
    time: str


@dataclass(frozen=True, slots=True)
class Victims:
    """The machines to mark, and the annotation's text as it should be (empty: none)."""

    marks: tuple[Mark, ...]
    text: str


def victims(annotations: Mapping[str, str], members: Iterable[MachineMember], now: datetime) -> Victims:
    """Read the list of a deployment whose machines are ``members``."""
    wanted = names.victims(annotations)
    if not wanted:
        return Victims((), "")
    living = {member.name: member for member in members if member.alive and member.phase is not Phase.FAILED}
    default = _time(annotations.get(names.LAST_SCALER_CHANGE_ANNOTATION, "")) or rfc3339(now)
    kept = {name: _time(text) if text else default for name, text in wanted.items() if name in living}
    times = {name: time for name, time in kept.items() if time}
    marks = tuple(Mark(living[name], time) for name, time in times.items() if not _is_marked(living[name]))
    return Victims(marks, names.format_victims(times))


def _is_marked(member: MachineMember) -> bool:
    return member.priority == CHOSEN_PRIORITY and member.marked_at is not None


def _time(text: str) -> str:
    """The text when it is an RFC 3339 time, else an empty one."""
    try:
        parse_rfc3339(text)
    except ValueError:
        return ""
    return text
