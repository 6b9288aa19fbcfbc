"""Everything that a set's pass may write, as a closed set of small values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubewright.api.kinds import Kind
from kubewright.replicas.member import Member
from kubewright.replicas.ownership import AddFinalizer, RemoveFinalizer
from kubewright.wire.gvk import Key


@dataclass(frozen=True, slots=True)
class Adopt:
    """Become the controller of these members."""

    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Disown:
    """Disown members that the selector no longer matches."""

    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Propagate:
    """Write on these members what the template changes on existing ones."""

    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class RecordNumber:
    """Write the highest number onto the set: its member is about to be deleted or disowned."""

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
class Annotate:
    """Give these members an annotation; with ``value`` None, remove it."""

    members: tuple[Member, ...]
    annotation: str
    value: str | None


@dataclass(frozen=True, slots=True)
class PatchObject:
    """Patch the set itself, or an object that is no member; the body names the version that was read."""

    kind: Kind[Any]
    key: Key
    body: Mapping[str, Any]


Step = (
    AddFinalizer
    | RemoveFinalizer
    | Adopt
    | Disown
    | Propagate
    | RecordNumber
    | Create
    | Delete
    | Annotate
    | PatchObject
)
