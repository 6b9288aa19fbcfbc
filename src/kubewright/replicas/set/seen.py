"""One set and all its members as one frozen value, what a pass may do, and what differs between APIs. Pure.

Theory.      A member is one that the set controls and that its selector matches; in an API whose sets keep
             what they control, one that the set controls.
             A set keeps as many members as its spec says, in every API. Which objects these are, how one is
             created, which are deleted first and what is written where and in which words says the policy, a
             subclass of ``SetPolicy``. Generic code never asks which API it is; it asks the policy, and where
             all APIs have the same field it reads the field (``objects``).
Invariants.  Only ``create``, ``discard`` and ``before_propagation`` of a policy get a client and write.
             ``idle``, ``look`` and ``blocked`` may read caches, ``forget`` and ``deleted`` change what the
             policy remembers; all others are pure.
Called by    ``look``, which makes a ``Seen``; every module here; one policy in each context
             (``machines.machineset``).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic

from kubewright.api.conditions import find_true_condition, with_condition, without_condition
from kubewright.api.kinds import Kind
from kubewright.api.meta import integer
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.base.plan import Awaited, Plan
from kubewright.replicas.objects import (
    INVALID,
    REPLICA_FAILURE,
    AddFinalizer,
    M,
    Member,
    Obj,
    RemoveFinalizer,
    S,
)
from kubewright.rollout.model import Rank
from kubewright.runtime.pace import UNPACED, Pace
from kubewright.wire.gvk import Key

if TYPE_CHECKING:
    from kubewright.kube.client import Client


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


Decider = Callable[[Seen[S, M]], Plan[Step]]
"""One part of a decision (``base.plan``)."""


@dataclass(frozen=True, slots=True)
class Words:
    """What members are called, in reasons and events."""

    one: str
    many: str
    created: str
    """The event about one member that was created; ``{}`` stands for its name."""
    deleted: str
    one_by_one: int = 5
    """Up to so many members of one pass get an event each; more of them share one."""


@dataclass(frozen=True, slots=True)
class Deletions(Generic[M]):
    """Members that are deleted for another reason than scaling down, why, and when to look for more."""

    members: tuple[M, ...] = ()
    because: str = ""
    wake: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a pass could not create or delete members."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SetEvent:
    """An event about a set; ``component``: its source, if not the controller of sets."""

    reason: str
    message: str
    component: str = ""


class SetPolicy(ABC, Generic[S, M, Obj]):
    """The policy of one API's sets: a subclass for each API, and one value of it."""

    # What is read and written, and in which terms
    name: str
    """The controller's, in logs and metrics."""
    component: str
    """What the events on sets come from."""
    words: Words
    kind: Kind[S]
    member_kind: Kind[Obj]
    finalizer: str = ""
    """What keeps a set until its members are gone; empty: the garbage collector deletes them."""
    number_annotation: str = ""
    """The annotation of a set with the highest number of its members (``objects``); empty: their names are
    random."""
    owner: Kind[Any] | None = None
    """The kind that sizes sets: they follow its desired number of members."""
    desired_annotation: str = ""
    """The annotation of a set with the desired number of its owner that its own size was computed for."""
    keeps_controlled: bool = False
    """Whether a member that the set controls stays its own when the selector no longer matches it; else it is
    disowned."""
    counts_deleting: bool = False
    """Whether a member that is being deleted is still a replica, so that no other is created for it yet."""
    creates_parts: bool = False
    """Whether ``create`` makes other objects before a member, which ``discard`` deletes."""
    pace: Pace = UNPACED
    """How soon a status is written, by what is new in it."""

    # What every API says

    @abstractmethod
    def status(self, seen: Seen[S, M], failure: Failure | None) -> Any:
        """The status to write, from what was seen and what kept the pass from creating or deleting."""

    @abstractmethod
    def ranking(self, of: S, wall: float, living: Sequence[M]) -> Callable[[M], Rank]:
        """The order in which some of these living members are deleted when they are too many, at a date in
        seconds since the epoch: the one of the smallest rank is deleted first."""

    @abstractmethod
    async def create(self, client: "Client", owner: S, name: str) -> None:
        """Create the member of this name, and before it what it needs. It is repeated under the same name
        after an answer was lost or the process has died, so what exists already and is the set's own is no
        error; only the member itself raises ``AlreadyExists``."""

    # What only some APIs have

    async def discard(self, client: "Client", owner: S, name: str) -> None:
        """Delete what ``create`` has created before the member, which was refused for good and does not
        exist."""

    def with_defaults(self, found: S) -> S:
        """The set with the defaults that decisions read; never written back."""
        return found

    def validate(self, found: S) -> str:
        """What is wrong with a set's spec; empty for nothing. That the selector selects the template is
        checked for all APIs."""
        return ""

    def idle(self, found: S) -> str:
        """Why nothing at all is done about a set (it is paused); empty: it is reconciled."""
        return ""

    def look(self, found: S) -> Any:
        """What else decisions look at, from caches: ``Seen.around``."""
        return None

    def forget(self, key: Key) -> None:
        """A set is gone; ``look`` will not be asked about it again."""

    def adopts(self, found: S, member: M) -> bool:
        """Whether a set takes a member that it selects and that has no controller."""
        return True

    def blocked(self, found: S, around: Any) -> Wait | None:
        """Why a set may not grow, from its own object or a cache; None: it may."""
        return None

    def desired(self, owner: Any) -> int:
        """How many members an owner wants in all its sets."""
        wanted: int = owner.spec.replicas
        return wanted

    def deciders(self) -> tuple[Decider[S, M], ...]:
        """What only this API decides, between creating members and deleting them."""
        return ()

    def to_delete(self, seen: Seen[S, M]) -> Deletions[M]:
        """The members that are deleted besides those that are too many (``Seen.surplus``)."""
        return Deletions()

    def deleted(self, member: Member) -> None:
        """The set's controller has deleted a member."""

    def status_events(self, before: S, status: Any) -> Iterable[SetEvent]:
        """Events about a status that was just written, by what the set was before."""
        return ()

    # What a template changes on members that are there

    def stale(self, seen: Seen[S, M]) -> Sequence[M]:
        """The members that lack something of the template, in some APIs with those that are being deleted:
        their time-outs still matter."""
        return ()

    def propagation(self, found: S, member: Obj) -> dict[str, Any]:
        """What a member lacks, as a merge patch; empty for nothing."""
        return {}

    async def before_propagation(self, client: "Client", found: S, member: Obj) -> None:
        """Write what belongs to a member and takes part in the change, before the member is patched."""


def counted(seen: Seen[S, M], members: Sequence[M]) -> dict[str, Any]:
    """The fields of a status that are numbers in every API; ``members``: those that it is about."""
    spec = seen.set.spec
    wanted, min_ready = spec.template.metadata.labels.items(), spec.min_ready_seconds
    return {
        "replicas": len(members),
        "fully_labeled_replicas": sum(wanted <= member.labels.items() for member in members),
        "ready_replicas": sum(member.alive and member.ready for member in members),
        "available_replicas": sum(member.available_at(seen.now, min_ready) for member in members),
    }


def with_failure(
    before: tuple[Any, ...], failure: Failure | None, kind: Callable[..., Any], now: datetime
) -> tuple[Any, ...]:
    """The conditions of a set, with ReplicaFailure while there is a failure; ``kind`` is their type.

    While its reason stays, so does its first message: a failure whose words differ in each pass would be a
    write in each pass.
    """
    if failure is None:
        return without_condition(before, REPLICA_FAILURE)
    known = find_true_condition(before, REPLICA_FAILURE)
    if known is not None and known.reason == failure.reason != INVALID:
        return before
    said = {"reason": failure.reason, "message": failure.message[:MESSAGE_CHARS]}
    return with_condition(before, kind(type=REPLICA_FAILURE, status="True", last_transition_time=now, **said))
