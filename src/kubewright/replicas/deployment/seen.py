"""One deployment with all below it as one frozen value, its steps, and what differs between APIs. Pure.

Theory.      A set is the deployment's when it controls it and the selector matches; in an API whose
             deployments keep what they control, when it controls it. Sizes are taken from the sets, counts of
             members from the members themselves.
             What a deployment does is the same in all APIs: adopt sets, find or create the current one,
             size all of them, prune old ones, report. APIs differ in facts (kinds, annotations, reasons,
             sentences), in what their specs mean, and in deciders that only one has: of the policy, a
             subclass of ``DeploymentPolicy``, facts are fields, the rest methods.
Invariants.  A set that is being deleted has size 0, is never current, and its members still count.
             Every function of a policy is pure, but for ``idle`` and ``look``, which read caches. Its
             ``ranking`` is the one by which the controller of the sets deletes members; otherwise the
             deployment would count on the deletion of other members.
Called by    ``look``, which makes a ``Seen``; every module here; one policy in each context
             (``machines.deployment``).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Generic

from kubewright.api.kinds import Kind
from kubewright.api.meta import Object, ObjectMeta, integer
from kubewright.base.clock import stamp
from kubewright.base.plan import Plan
from kubewright.replicas.objects import (
    AddFinalizer,
    D,
    M,
    Member,
    NotCreated,
    RemoveFinalizer,
    S,
    SetObject,
    key_of,
)
from kubewright.rollout import planner
from kubewright.rollout.model import Fleet, Group, Rank, Sizes
from kubewright.rollout.planner import MCM_SCALING, Scaling, Strategy
from kubewright.rollout.progress import Counts
from kubewright.rollout.revisions import Revision, current_of, oldest, read_history
from kubewright.runtime.pace import UNPACED, Pace
from kubewright.wire.gvk import Key


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
    | NotCreated
)


@dataclass(frozen=True, slots=True)
class Failures:
    """What failed in a pass, as far as the status says it.

    ``create_error`` the error that kept the pass from creating a set, in words; empty if none
    ``failed``       a write of the pass failed
    """

    create_error: str = ""
    failed: bool = False


@dataclass(frozen=True)
class Seen(Generic[D, S, M]):
    """A deployment and all below it: ``written`` as the server has it, ``deployment`` with defaults."""

    policy: "DeploymentPolicy[D, S, M]"
    written: D
    wall: datetime
    """The date: it is compared with dates that others wrote, and written into conditions."""

    now: float
    """Seconds since the epoch on the index's clock, which does not step: ages are measured with it."""

    sets: tuple[S, ...] = ()
    unselected: tuple[S, ...] = ()
    """Sets that it controls and its selector no longer matches, where such are disowned."""

    orphans: tuple[S, ...] = ()
    """Sets that its selector matches and that have no controller."""

    members: Mapping[str, tuple[M, ...]] = field(default_factory=dict)
    """The members of each set, by the set's uid."""

    doubted: Mapping[str, int] = field(default_factory=dict)
    """By uid of a set, how many members it may have created that the cache does not show yet."""

    reported: float | None = None
    """When progress was last reported, on the clock of ``now``; None when it never was."""

    best: Counts | None = None
    """The best counts that this process has reported of the present rollout; None before the first report."""

    in_doubt: bool = False
    """Whether the server has to be asked what came of the last write: what is seen may be older."""

    not_created: NotCreated | None = None
    """The set that may still be created, though the server refuses that now; None: there is none."""

    selector_problem: str = ""
    around: Any = None
    """What else this policy looks at (``DeploymentPolicy.look``)."""

    @cached_property
    def deployment(self) -> D:
        return self.policy.with_defaults(self.written)

    @cached_property
    def desired(self) -> int:
        """How many members there are to be in all sets."""
        return self.policy.desired(self.deployment)

    @property
    def key(self) -> Key:
        return key_of(self.written)

    @property
    def deleting(self) -> bool:
        return self.written.metadata.deleting

    @cached_property
    def groups(self) -> dict[str, Group]:
        """The sets as the planner sees them, by name."""
        return {each.metadata.name: _group_of(self, each) for each in self.sets}

    @cached_property
    def current(self) -> S | None:
        """The set of the wanted template; of several, the policy's choice."""
        identity, outdated = self.policy.identity, self.policy.outdated
        wanted = identity(self.deployment.spec.template)
        found = [
            each
            for each in self.sets
            if not each.metadata.deleting and identity(each.spec.template) == wanted
            if not outdated(self.deployment, each, self.wall)
        ]
        if len(found) < 2:  # no choice, and no group is needed, for which all members are read
            return found[0] if found else None
        return self.named(
            current_of((self.groups[each.metadata.name] for each in found), self.policy.choice).name
        )

    @cached_property
    def fleet(self) -> Fleet:
        """The deployment and its sets as the planner sees them."""
        current = self.current.metadata.name if self.current else None
        old = sorted(
            (group for name, group in self.groups.items() if name != current),
            key=lambda group: (group.created, group.name),
        )
        chosen = self.groups[current] if current else None
        paused = self.deployment.spec.paused
        return Fleet(self.written.metadata.name, self.desired, chosen, tuple(old), paused)

    @cached_property
    def all_members(self) -> tuple[M, ...]:
        """The members of all sets."""
        return tuple(member for found in self.members.values() for member in found)

    @cached_property
    def counts(self) -> Counts:
        """The deployment in numbers."""
        return Counts(
            replicas=self._replicas(self.all_members),
            updated=self._replicas(self.members_of(self.current)) if self.current else 0,
            ready=sum(member.alive and member.ready for member in self.all_members),
            available=sum(sum(group.availability) for group in self.groups.values()),
        )

    def _replicas(self, members: tuple[M, ...]) -> int:
        """How many of them count; those that are being deleted do in some APIs."""
        return len(members) if self.policy.counts_deleting else sum(member.alive for member in members)

    @cached_property
    def strategy(self) -> Strategy:
        """How old members give way; call it only on a valid deployment."""
        return self.policy.strategy(self.deployment)

    @cached_property
    def sizes(self) -> Sizes:
        """The sizes that the sets get next; call it only on a valid deployment."""
        return planner.plan(self.fleet, self.strategy, self.policy.scaling)

    @cached_property
    def problem(self) -> str:
        """Why the deployment cannot be worked on; empty when it can."""
        return self.policy.validate(self.deployment) or self.selector_problem

    @property
    def selects_all(self) -> bool:
        """The selector is there but empty: it would match everything."""
        selector = self.deployment.spec.selector
        return selector is not None and not (selector.match_labels or selector.match_expressions)

    def members_of(self, each: S) -> tuple[M, ...]:
        """The members of one set."""
        return self.members.get(each.metadata.uid, ())

    def available(self, each: S, member: M) -> bool:
        """Whether a member of this set is available now."""
        return member.available_at(self.now, each.spec.min_ready_seconds)

    def named(self, name: str) -> S:
        """One of the sets."""
        return next(each for each in self.sets if each.metadata.name == name)


def _group_of(seen: Seen[D, S, M], each: S) -> Group:
    """A set and its members as the planner sees them. Members that may exist although the cache does not show
    them count against the surge, and are not available."""
    meta, keys, members = each.metadata, seen.policy.metadata_keys, seen.members_of(each)
    now, min_ready = seen.now, each.spec.min_ready_seconds
    alive = [member for member in members if member.alive]
    leaving = sum(not member.alive and member.takes_place for member in members)
    deleting = leaving if seen.policy.waits_for_deleting(seen.deployment) else 0
    available = [member.available_at(now, min_ready) for member in alive]
    count = available.count(True)
    if 0 < count < len(alive):  # otherwise the order makes no difference
        sized = seen.policy.as_sized(each, seen.deployment)
        ranking = seen.policy.ranking(sized, seen.wall.timestamp(), alive)
        available = [member.available_at(now, min_ready) for member in sorted(alive, key=ranking)]
    up = count if count == len(alive) else sum(member.up for member in alive)
    return Group(
        meta.name,
        created=stamp(meta.creation_timestamp) or 0.0,
        size=0 if meta.deleting else each.spec.replicas,
        availability=tuple(available),
        terminating=deleting + seen.doubted.get(meta.uid, 0),
        ready_not_available=up - count,
        desired=_natural(meta.annotations, keys.desired),
        ceiling=_natural(meta.annotations, keys.ceiling),
        revision=keys.revision_of(meta).number,
        frozen=keys.is_frozen(meta),
        moved=sum(member.moved for member in alive),
        caught_up=(each.status.replicas or 0) <= len(members),
        observed=each.status.observed_generation >= meta.generation and not meta.deleting,
    )


def _natural(annotations: Mapping[str, str], key: str) -> int | None:
    found = integer(annotations, key, -1)
    return found if found >= 0 else None


Decider = Callable[[Seen[D, S, M]], Plan[Step]]
"""One part of a decision (``base.plan``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataKeys:
    """Keys of the labels and annotations that the controller writes onto deployments and sets."""

    template_hash: str  # label of sets and members: tells those of two templates apart
    revision: str  # annotation of deployments and sets: the number of the set's template
    history: str  # annotation of sets: the numbers that it had before
    desired: str  # annotation of sets: the deployment's replicas when the set was last sized
    ceiling: str  # annotation of sets: that number plus surge
    no_creation: str = ""  # annotation of old sets: they create no members; for APIs that have OnDelete
    no_creation_label: tuple[str, str] | None = None
    """The label, and our value of it, that says the same where an API has a label for it."""
    collisions: str = ""  # annotation of deployments, where ``status.collisionCount`` does not exist
    own: frozenset[str] = frozenset()
    """Further annotations that belong to one object alone: they are neither propagated nor rolled back."""
    mirrored: frozenset[str] = frozenset()
    """Annotations that the current set has just as the deployment has them: one that is taken off the
    deployment is taken off the set too, and a rollback leaves them alone."""

    def shared(self, annotations: Mapping[str, str]) -> dict[str, str]:
        """Those that a deployment and its sets share."""
        own = {
            self.revision,
            self.history,
            self.desired,
            self.ceiling,
            self.no_creation,
            self.collisions,
            *self.own,
        }
        return {key: text for key, text in annotations.items() if key not in own}

    def is_frozen(self, of: ObjectMeta) -> bool:
        """Whether a set may create no members. A label with another value is a user's, and stays."""
        if self.no_creation_label is None:
            return self.no_creation in of.annotations
        label, value = self.no_creation_label
        return of.labels.get(label) == value

    def revision_of(self, of: ObjectMeta) -> Revision:
        """A set's number and history."""
        history = read_history(of.annotations.get(self.history, ""))
        return Revision(integer(of.annotations, self.revision), history)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasons:
    """Reasons of conditions and events, as clients of this API expect them."""

    # of Progressing
    created: str  # the current set was created
    found: str  # a set that was there before is the current one
    updated: str  # the rollout has made progress
    complete: str
    timed_out: str  # no progress for longer than the deadline
    paused: str
    resumed: str  # empty: not reported; the next report begins with the current set

    # of Progressing, and of an event
    create_error: str  # the current set cannot be created
    invalid: str  # the deployment is not reconciled

    # of Available
    available: str
    unavailable: str

    # of events
    selects_all: str  # the selector is empty
    scaled: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What the objects are called in messages."""

    deployment: str  # as in: Machine Deployment "pool" is progressing.
    set: str  # as in: Created new machine set "pool-abcde"
    member: str
    scaled: str
    """A set's new size: ``{direction}`` is up or down, and ``{name}``, ``{before}`` and ``{after}``."""


class DeploymentPolicy(ABC, Generic[D, S, M]):
    """The policy of one API's deployments: a subclass for each API, and one value of it."""

    # What is read and written, and in which terms
    name: str
    """The controller's, in logs and metrics."""
    component: str
    """What the events on deployments come from."""
    kind: Kind[D]
    set_kind: Kind[S]
    member_kind: Kind[Any]
    metadata_keys: MetadataKeys
    reasons: Reasons
    words: Words
    finalizer: str = ""
    """Keeps a deployment until its sets are gone; empty: the garbage collector deletes them."""
    set_finalizer: str = ""
    """The finalizer of new sets: the one that their controller removes; empty: that of deployments."""
    keeps_controlled: bool = False
    """Whether a set that the deployment controls stays its own when the selector no longer matches it; else
    it is disowned."""
    scaling: Scaling = MCM_SCALING
    """Whether scaling comes before a rollout's steps, and which set gets what is added."""
    counts_deleting: bool = True
    """Whether a member that is being deleted is still a replica, in counts and for the end of a rollout."""
    propagates_to_all: bool = False
    """Whether ``propagated`` reaches all sets, old ones and those that are being deleted included, and not
    only the current one."""
    pace: Pace = UNPACED
    """How soon a status is written, by what is new in it."""

    # What every API says

    @abstractmethod
    def strategy(self, deployment: D) -> Strategy:
        """How old members give way to new ones, for a valid deployment with its defaults."""

    @abstractmethod
    def identity(self, template: Any) -> bytes:
        """Equal for templates between which there is nothing to roll out."""

    @abstractmethod
    def name_and_hash(self, deployment: D) -> tuple[str, str]:
        """The name of the set for the deployment's template, and the value of the label that tells it apart;
        both change with ``status.collisionCount``."""

    @abstractmethod
    def ranking(self, of: S, wall: float, living: Sequence[M]) -> Callable[[M], Rank]:
        """The order in which a set deletes some of these living members at a date, in seconds since 1970: the
        one by which the controller of the sets deletes them (``SetPolicy.ranking``)."""

    @abstractmethod
    def status(self, seen: Seen[D, S, M], failures: Failures) -> Any:
        """The status to write, from what was seen after the pass and what failed in it (``status.py``)."""

    # What a deployment wants, where an API has more than the common fields

    def with_defaults(self, deployment: D) -> D:
        """The deployment with the defaults that decisions read; never written back."""
        return deployment

    def validate(self, deployment: D) -> str:
        """What is wrong with a deployment; empty for nothing. That the selector selects the template is
        checked for all APIs."""
        return ""

    def idle(self, deployment: D) -> str:
        """Why nothing at all is done about a deployment (its cluster is paused); empty: it is reconciled. The
        deployment's own ``spec.paused`` is no reason: that stops rollouts and nothing else."""
        return ""

    def look(self, deployment: D) -> Any:
        """What else decisions look at, from caches: ``Seen.around``."""
        return None

    def desired(self, deployment: D) -> int:
        """How many members there are to be in all sets: in some APIs more than ``spec.replicas``."""
        return deployment.spec.replicas

    def waits_for_deleting(self, deployment: D) -> bool:
        """Whether members that are being deleted count against the surge, so that no other is created yet."""
        return True

    def keeps_history(self, deployment: D) -> bool:
        """Whether no old set is pruned for now, for example since a rollback may need it."""
        return False

    # Its sets

    def propagated(self, of: S, deployment: D) -> S:
        """The set with what is propagated from the deployment without a rollout, besides annotations and
        ``minReadySeconds``, which are in every API."""
        return of

    def as_sized(self, of: S, deployment: D) -> S:
        """The set with what its ranking reads of the deployment; written with the set's size, and at once
        onto the current set."""
        return of

    def outdated(self, deployment: D, of: S, now: datetime) -> bool:
        """Whether a set of the wanted template must be replaced all the same."""
        return False

    def choice(self, group: Group) -> Rank:
        """Which of several sets of the wanted template is the current one: the smallest."""
        return oldest(group)

    def set_conditions(self, of: S) -> tuple[Any, ...]:
        """What a set reports beside numbers: when that changes, its deployment is enqueued."""
        conditions: tuple[Any, ...] = of.status.conditions
        return conditions

    def same_member(self, before: M, after: M) -> bool:
        """Whether a change of a member is of no concern to deployments, only to its set."""
        return False

    # What only this API does

    def initial_metadata(self, seen: Seen[D, S, M]) -> ObjectMeta:
        """The metadata with what is written onto a new deployment besides the finalizer."""
        return seen.written.metadata

    def deciders(self) -> tuple[Decider[D, S, M], ...]:
        """What comes after adopting sets and before sizing them, in order."""
        return ()
