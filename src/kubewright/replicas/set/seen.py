"""One set and all its members, as one frozen value: what decisions and statuses are computed from. Pure.

Theory.      A member is one that the set controls and that its selector matches; in an API whose sets keep
             what they control, one that the set controls.
Called by    ``look``, which makes it; ``decide``, and the functions of a ``policy``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic

from kubewright.api.kinds import Kind
from kubewright.api.meta import integer
from kubewright.base.plan import Awaited
from kubewright.replicas.member import M, Member
from kubewright.replicas.objects import AddFinalizer, RemoveFinalizer, S
from kubewright.wire.gvk import Key

if TYPE_CHECKING:
    from kubewright.replicas.set.policy import SetPolicy


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


BURST = 250
"""Members created, and members deleted, in one pass; the next pass follows at once (MCM: 100)."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a set does not do something for the moment, and for how many seconds; None: until an event.

    ``awaits``: what has to come from elsewhere, if anything has to.
    """

    because: str
    seconds: float | None = None
    awaits: Awaited | None = None


@dataclass(frozen=True)
class Seen(Generic[S, M]):
    """A set and its members. ``unselected`` are those that it controls and no longer selects, where such are
    disowned; ``orphans`` match its selector and have no controller.

    ``now`` is for ages, on the index's clock, which does not step: seconds since the epoch. ``wall`` is for
    dates, to write them and to compare with those that others wrote. New members get numbers above ``number``
    (``last``): it is the highest that this process has seen of any member of the set or, by a policy that
    does not count its members, a random one, which makes their names random.
    """

    policy: "SetPolicy[S, M, Any]"
    set: S
    now: float
    wall: datetime
    members: tuple[M, ...] = ()
    unselected: tuple[M, ...] = ()
    orphans: tuple[M, ...] = ()
    problem: str = ""
    doubts: tuple[str, ...] = ()
    taken: frozenset[str] = frozenset()
    pause: Wait | None = None
    """Why the set neither creates members nor deletes surplus ones; None: it does both."""
    blocked: Wait | None = None
    """Why the set creates no members; None: it does."""
    number: int = 0
    burst: int = BURST
    around: Any = None
    """What else this policy looks at (``SetPolicy.look``)."""

    @cached_property
    def alive(self) -> tuple[M, ...]:
        return tuple(member for member in self.members if member.alive)

    @property
    def replicas(self) -> tuple[M, ...]:
        """The members that count: all, or all but those that are being deleted."""
        return self.members if self.policy.counts_deleting else self.alive

    @property
    def missing(self) -> int:
        """How many members are to be created; negative when there are too many."""
        return self.set.spec.replicas - len(self.replicas)

    @cached_property
    def surplus(self) -> tuple[M, ...]:
        """The members that are too many, in the order in which they are deleted. Those that were moved here
        from another set wait for the size to follow, and are never too many."""
        own = [member for member in self.alive if not member.moved]
        too_many = len(own) - self.set.spec.replicas
        if self.pause or too_many <= 0:
            return ()
        ranking = self.policy.ranking(self.set, self.wall.timestamp(), self.alive)
        return tuple(sorted(own, key=ranking)[:too_many])

    @property
    def deleting(self) -> bool:
        return self.set.metadata.deleting

    @property
    def has_finalizer(self) -> bool:
        """Whether our finalizer is on the set."""
        return self.policy.finalizer in self.set.metadata.finalizers

    @property
    def written_number(self) -> int:
        """The number in the set's annotation; 0 if there is none."""
        return max(0, integer(self.set.metadata.annotations, self.policy.number_annotation))

    @property
    def last(self) -> int:
        """The highest number that a member of the set ever had; random where members are not counted."""
        if not self.policy.number_annotation:
            return self.number
        seen = (member.number for member in (*self.members, *self.unselected))
        return max(self.written_number, self.number, *seen)
