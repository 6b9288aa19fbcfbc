"""Everything that a MachineDeployment's pass may do to the world: a closed set of small values."""

from dataclasses import dataclass

from kubewright.api.machine.v1alpha1 import MachineDeployment, MachineSet
from kubewright.machines.deployment.victims import Mark


@dataclass(frozen=True, slots=True)
class Change:
    """Write the deployment's metadata or spec as ``after`` has them."""

    after: MachineDeployment


@dataclass(frozen=True, slots=True)
class Adopt:
    """Become the controller of these sets."""

    sets: tuple[MachineSet, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """Let go of sets that the selector no longer matches."""

    sets: tuple[MachineSet, ...]


@dataclass(frozen=True, slots=True)
class MarkVictims:
    """Put the autoscaler's wish on its victims."""

    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class CreateSet:
    """Make the current set."""

    machine_set: MachineSet


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Write a set's metadata or spec as ``after`` has them."""

    before: MachineSet
    after: MachineSet


@dataclass(frozen=True, slots=True)
class DeleteSets:
    """Delete these sets; the current one is never among them while the deployment lives."""

    sets: tuple[MachineSet, ...]


@dataclass(frozen=True, slots=True)
class Tell:
    """An event."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class LetGo:
    """Take our finalizer off: nothing of the deployment is left."""


Step = Change | Adopt | Release | MarkVictims | CreateSet | ChangeSet | DeleteSets | Tell | LetGo


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order. ``again``: look again at once, since what is done changes what is counted."""

    steps: tuple[Step, ...] = ()
    again: bool = False
    because: str = ""
