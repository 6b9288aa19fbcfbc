"""What invariants know of machines that may become Failed when a time-out is over, or are being replaced.

Called by    ``past``, which keeps it up to date; read by ``timeouts``.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from kubewright.api.machine import names
from kubewright.machines.settings import MachineSettings, effective
from simulation.invariants.facts import deleting, phase
from simulation.journal import ApiStep, Object

SINCE_UP = ("Running", "Available", "Unknown", "InPlaceUpdateSuccessful", "InPlaceUpdateFailed")
"""Phases of a machine that has been up, and is not taken out of service for an update."""
GIVEN_UP = ("Unknown", "InPlaceUpdateFailed")
"""Phases in which the health time-out runs."""


@dataclass(frozen=True, slots=True)
class Limits:
    """For how long a machine may take to join, and how long it may be Unknown, in seconds."""

    creation: float
    health: float


@dataclass(slots=True)
class Waits:
    """For one world. ``group`` answers with which machines one shares the limit of replacements."""

    now: Callable[[], float]
    settings: MachineSettings
    group: Callable[[Object], str]
    since: dict[str, float] = field(default_factory=dict)
    """Since when machines wait: those that have not joined since they were made, others since they are
    Unknown or were not updated, by uid."""
    before: dict[str, tuple[float, Limits]] = field(default_factory=dict)
    """When the limits of machines changed, and what they were before, by uid."""
    replacing: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Machines that are going or have not come up yet: their group, and since when, by uid."""
    last_replaced: dict[str, float] = field(default_factory=dict)
    """When a replacement in a group was last over."""

    def learn(self, step: ApiStep) -> None:
        """A machine has changed."""
        found = step.new or step.old
        assert found is not None
        uid = str(found["metadata"]["uid"])
        self._replace(uid, step.new)
        if step.new is None:
            self.since.pop(uid, None)
            self.before.pop(uid, None)
            return
        was = phase(step.old) if step.old is not None else None
        if was is None or (phase(step.new) in GIVEN_UP and phase(step.new) != was):
            self.since[uid] = self.now()
        if step.old is not None and (limits := self.limits(step.old)) != self.limits(step.new):
            self.before[uid] = self.now(), limits

    def limits(self, machine: Object) -> Limits:
        """The time-outs that count for a machine."""
        spec, notes = machine["spec"], machine["metadata"].get("annotations", {})
        own = names.creation_timeout_override(notes)
        creation = own or effective(spec.get("creationTimeout"), self.settings.creation_timeout)
        health = effective(spec.get("healthTimeout"), self.settings.health_timeout)
        return Limits(creation.total_seconds(), health.total_seconds())

    def others_replacing(self, machine: Object) -> Iterator[tuple[str, float]]:
        """Further machines of its group that are being replaced or are replacements, and since when."""
        group, own = self.group(machine), machine["metadata"]["uid"]
        return ((uid, at) for uid, (of, at) in self.replacing.items() if of == group and uid != own)

    def _replace(self, uid: str, machine: Object | None) -> None:
        on_its_way = machine is not None and _on_its_way(machine, self.settings.node_conditions)
        if machine is not None and on_its_way:
            since = self.replacing[uid][1] if uid in self.replacing else self.now()
            self.replacing[uid] = self.group(machine), since
        elif (before := self.replacing.pop(uid, None)) is not None:
            self.last_replaced[before[0]] = self.now()


def _on_its_way(machine: Object, types: Sequence[str]) -> bool:
    """Whether it is being replaced, or comes in place of another. One that is deleted while it is well gives
    way to a rollout or to a user."""
    if machine.get("status", {}).get("currentStatus", {}).get("preserveExpiryTime"):
        return False
    if deleting(machine):
        return phase(machine) == "Failed" or not _is_well(machine, types)
    return phase(machine) not in SINCE_UP


def _is_well(machine: Object, types: Sequence[str]) -> bool:
    """As far as its status says of its node."""
    found = {each["type"]: each["status"] for each in machine.get("status", {}).get("conditions", ())}
    return found.get("Ready") == "True" and all(found.get(each, "False") == "False" for each in types)
