"""Everything that a set's pass may do to the world: a closed set of small values."""

from dataclasses import dataclass

from kubewright.replicas.member import Member


@dataclass(frozen=True, slots=True)
class Hold:
    """Put our finalizer on the set."""


@dataclass(frozen=True, slots=True)
class LetGo:
    """Remove our finalizer: no member of the set is left."""


@dataclass(frozen=True, slots=True)
class Adopt:
    """Become the controller of these members."""

    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """Disown members that the selector no longer matches."""

    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Configure:
    """Push down to these members what the template changes on living ones."""

    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Remember:
    """Write the highest number onto the set: the member that carries it is about to be deleted."""

    number: int


@dataclass(frozen=True, slots=True)
class Create:
    """Create members of these names."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete these members, each only while it is the very version that was seen."""

    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask something of these members by an annotation; with ``value`` None, ask it no longer."""

    members: tuple[Member, ...]
    annotation: str
    value: str | None


Step = Hold | LetGo | Adopt | Release | Configure | Remember | Create | Delete | Ask
