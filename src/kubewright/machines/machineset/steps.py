"""Everything that a MachineSet's pass may do to the world: a closed set of small values."""

from dataclasses import dataclass

from kubewright.api.machine.preserve import Preserve
from kubewright.machines.machineset.member import MachineMember


@dataclass(frozen=True, slots=True)
class Hold:
    """Put our finalizer on the set."""


@dataclass(frozen=True, slots=True)
class LetGo:
    """Take our finalizer off: nothing of the set is left."""


@dataclass(frozen=True, slots=True)
class Adopt:
    """Become the controller of these machines."""

    members: tuple[MachineMember, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """Let go of machines that the selector no longer matches."""

    members: tuple[MachineMember, ...]


@dataclass(frozen=True, slots=True)
class Configure:
    """Push the template's node template and configuration down to these machines."""

    members: tuple[MachineMember, ...]


@dataclass(frozen=True, slots=True)
class Remember:
    """Write on the set how many machines it has had: the one that shows it is about to go."""

    number: int


@dataclass(frozen=True, slots=True)
class Create:
    """Make machines of these names."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete these machines, each only while it is the very version that was seen."""

    members: tuple[MachineMember, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask that these machines be kept although they failed; with ``value`` None, ask that no longer."""

    members: tuple[MachineMember, ...]
    value: Preserve | None = Preserve.AUTO


Step = Hold | LetGo | Adopt | Release | Configure | Remember | Create | Ask | Delete


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order. ``wake`` is when to look again without being told, in seconds."""

    steps: tuple[Step, ...] = ()
    wake: float | None = None
    because: str = ""
