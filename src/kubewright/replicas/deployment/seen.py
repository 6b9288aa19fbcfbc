"""One deployment, its sets and their members, as one frozen value: what decisions and statuses are
computed from. Pure.

Theory.      A set is the deployment's when it controls it and the selector matches; in an API whose
             deployments keep what they control, when it controls it. Sizes are taken from the sets, counts of
             members from the members themselves.
Invariants.  A set that is being deleted has size 0, is never current, and its members still count.
Called by    ``look``, which makes it; ``decide``, ``status``, and the deciders of a policy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic

from kubewright.api.meta import Object, integer
from kubewright.base.clock import stamp
from kubewright.replicas.member import M, Member
from kubewright.replicas.objects import AddFinalizer, D, NotCreated, RemoveFinalizer, S, SetObject, key_of
from kubewright.rollout import planner
from kubewright.rollout.model import Fleet, Group, Sizes
from kubewright.rollout.planner import Strategy
from kubewright.rollout.progress import Counts
from kubewright.rollout.revisions import current_of
from kubewright.wire.gvk import Key

if TYPE_CHECKING:
    from kubewright.replicas.deployment.policy import DeploymentPolicy


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
