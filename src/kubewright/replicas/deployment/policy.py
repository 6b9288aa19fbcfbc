"""The policy of an API's deployments, a subclass of ``DeploymentPolicy``: the generic controller's own part.

Theory.      What a deployment does is the same in all APIs: adopt sets, find or create the current one,
             size all of them, prune old ones, report. APIs differ in facts (kinds, annotations,
             reasons, sentences), in what its specs mean, and in deciders that only one has: facts are
             fields, the rest methods. A new API is one more subclass.
Invariants.  Every function is pure, but for ``idle`` and ``look``, which read caches. ``ranking`` is the one
             by which the controller of the sets deletes members; otherwise the deployment would count on the
             deletion of other members.
Called by    every module of this package; one subclass in each context (``machines.deployment``).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic

from kubewright.api.kinds import Kind
from kubewright.api.meta import ObjectMeta, integer
from kubewright.base.plan import Plan
from kubewright.replicas.deployment.seen import Failures, Seen, Step
from kubewright.replicas.member import M
from kubewright.replicas.objects import D, S
from kubewright.rollout.model import Group, Rank
from kubewright.rollout.planner import MCM_SCALING, Scaling, Strategy
from kubewright.rollout.revisions import Revision, oldest, read_history
from kubewright.runtime.pace import UNPACED, Pace

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
