"""Everything that a deployment's pass may write or send, as a closed set of small values."""

from collections.abc import Mapping
from dataclasses import dataclass

from kubewright.api.meta import Object
from kubewright.base.errors import KubewrightError
from kubewright.replicas.member import Member
from kubewright.replicas.objects import SetObject
from kubewright.replicas.ownership import AddFinalizer, RemoveFinalizer


@dataclass(frozen=True, slots=True)
class ChangeDeployment:
    """Write the deployment's metadata or spec as ``after`` has them."""

    after: Object


@dataclass(frozen=True, slots=True)
class Adopt:
    """Become the controller of these sets."""

    sets: tuple[Object, ...]


@dataclass(frozen=True, slots=True)
class Disown:
    """Disown sets that the selector no longer matches."""

    sets: tuple[Object, ...]


@dataclass(frozen=True, slots=True)
class MemberAnnotations:
    """A member, and the annotations that it is to have."""

    member: Member
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AnnotateMembers:
    """Write annotations on members, each only while it is the one that was seen."""

    members: tuple[MemberAnnotations, ...]


@dataclass(frozen=True, slots=True)
class CreateSet:
    """Create the current set."""

    new: SetObject


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Write a set's metadata or spec as ``after`` has them."""

    before: SetObject
    after: SetObject


@dataclass(frozen=True, slots=True)
class DeleteSets:
    """Delete these sets; the current one is never among them while the deployment lives."""

    sets: tuple[Object, ...]


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """Send an event about the deployment."""

    reason: str
    message: str
    warning: bool = False


Step = (
    AddFinalizer
    | RemoveFinalizer
    | ChangeDeployment
    | Adopt
    | Disown
    | AnnotateMembers
    | CreateSet
    | ChangeSet
    | DeleteSets
    | RecordEvent
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened in a pass that the caches cannot show.

    ``create_error`` the error that kept the pass from creating a set, in words; empty if none
    ``failed``       a write of the pass failed
    ``error``        that error, which says when to try again
    """

    create_error: str = ""
    failed: bool = False
    error: KubewrightError | None = None
