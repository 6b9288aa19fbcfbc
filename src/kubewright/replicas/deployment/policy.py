"""The policy of an API's deployments: the one value that makes the generic controller that API's own.

Theory.      What a deployment does is the same in all APIs: adopt sets, find or create the current one,
             size all of them, prune old ones, report. APIs differ in facts (kinds, annotations,
             reasons, sentences), in what its specs mean, and in deciders that only one has; each is a field
             here. A new API is one more such value.
Invariants.  Every function is pure, but for ``idle`` and ``look``, which read caches. ``ranking`` is the one
             by which the controller of the sets deletes members; otherwise the deployment would count on the
             deletion of other members.
Called by    every module of this package; made once by each context (``machines.deployment``).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic

from kubewright.api.kinds import Kind
from kubewright.api.meta import ObjectMeta, integer
from kubewright.base.plan import Plan
from kubewright.replicas.member import M
from kubewright.replicas.objects import D, S
from kubewright.rollout.model import Group, Rank
from kubewright.rollout.planner import MCM_SCALING, Scaling, Strategy
from kubewright.rollout.revisions import Revision, oldest, read_history
from kubewright.runtime.pace import UNPACED, Pace

if TYPE_CHECKING:
    from kubewright.replicas.deployment.seen import Outcome, Seen, Step


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


@dataclass(frozen=True, kw_only=True)
class DeploymentPolicy(Generic[D, S, M]):
    """The policy of one API's deployments. Fields without a default are those that every policy fills in."""

    # What is read and written, and in which terms
    name: str
    """The controller's, in logs and metrics."""
    component: str
    """What the events on deployments come from."""
    kind: Kind[D]
    set_kind: Kind[S]
    member_kind: Kind[Any]
    finalizer: str = ""
    """Keeps a deployment until its sets are gone; empty: the garbage collector deletes them."""
    keeps_controlled: bool = False
    """Whether a set that the deployment controls stays its own when the selector no longer matches it; else
    it is disowned."""
    set_finalizer: str = ""
    """The finalizer of new sets: the one that their controller removes; empty: that of deployments."""
    metadata_keys: MetadataKeys
    reasons: Reasons
    words: Words

    idle: Callable[[D], str] = lambda _deployment: ""
    """Why nothing at all is done about a deployment (its cluster is paused); empty: it is reconciled. The
    deployment's own ``spec.paused`` is no reason: that stops rollouts and nothing else."""
    look: Callable[[D], Any] = lambda _deployment: None
    """What else decisions look at, from caches: ``Seen.around``."""

    # What a deployment wants
    desired: Callable[[D], int] = lambda deployment: deployment.spec.replicas
    """How many members there are to be in all sets: in some APIs more than ``spec.replicas``."""
    with_defaults: Callable[[D], D]
    """The deployment with the defaults that decisions read; never written back."""
    validate: Callable[[D], str]
    """What is wrong with a deployment; empty for nothing. That the selector selects the template is checked
    for all APIs."""
    strategy: Callable[[D], Strategy]
    """How old members give way to new ones, for a valid deployment with its defaults."""
    scaling: Scaling = MCM_SCALING
    """Whether scaling comes before a rollout's steps, and which set gets what is added."""
    counts_deleting: bool = True
    """Whether a member that is being deleted is still a replica, in counts and for the end of a rollout."""
    waits_for_deleting: Callable[[D], bool] = lambda _deployment: True
    """Whether members that are being deleted count against the surge, so that no other is created yet."""
    keeps_history: Callable[[D], bool] = lambda _deployment: False
    """Whether no old set is pruned for now, for example since a rollback may need it."""

    # Its sets
    identity: Callable[[Any], bytes]
    """Equal for templates between which there is nothing to roll out."""
    name_and_hash: Callable[[D], tuple[str, str]]
    """The name of the set for the deployment's template, and the value of the label that tells it apart; both
    change with ``status.collisionCount``."""
    propagated: Callable[[S, D], S] = lambda each, _deployment: each
    """The set with what is propagated from the deployment without a rollout, besides annotations and
    ``minReadySeconds``, which are in every API."""
    propagates_to_all: bool = False
    """Whether that reaches all sets, old ones and those that are being deleted included, and not only the
    current one."""
    outdated: Callable[[D, S, datetime], bool] = lambda _deployment, _set, _now: False
    """Whether a set of the wanted template must be replaced all the same."""
    choice: Callable[[Group], Rank] = oldest
    """Which of several sets of the wanted template is the current one."""
    ranking: Callable[[S, float, Sequence[M]], Callable[[M], Rank]]
    """The order in which a set deletes some of these living members at a date, in seconds since 1970."""
    as_sized: Callable[[S, D], S] = lambda each, _deployment: each
    """The set with what its ranking reads of the deployment; written with the set's size, and at once onto
    the current set."""
    set_conditions: Callable[[S], tuple[Any, ...]]
    """What a set reports beside numbers: when that changes, its deployment is enqueued."""

    pace: Pace = UNPACED
    """How soon a status is written, by what is new in it."""
    same_member: Callable[[M, M], bool] = lambda _before, _after: False
    """Whether a change of a member is of no concern to deployments, only to its set."""

    # What only this API does and says
    initial_metadata: "Callable[[Seen[D, S, M]], ObjectMeta]" = lambda seen: seen.written.metadata
    """The metadata with what is written onto a new deployment besides the finalizer."""
    deciders: "tuple[Callable[[Seen[D, S, M]], Plan[Step]], ...]" = ()
    """What comes after adopting sets and before sizing them, in order."""
    status: "Callable[[Seen[D, S, M], Outcome], Any]"
    """The status to write, from what was seen after the pass and how the pass went (``status.py``)."""
