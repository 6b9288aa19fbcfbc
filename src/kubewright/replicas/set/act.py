"""One set, one pass on the kernel: what performs each step, its status and events, and what enqueues a set.

Theory.      A set is enqueued when its spec changes, and when facts about its members do (``members``), after
             a moment, so that a burst of changes is one pass. The status is of a second look, after the
             steps: the cache shows our writes.
             Each write names the uid of what was seen, and the version where the decision rests on
             what was read: a list that is replaced as a whole, a member that was chosen for
             deletion in that state (Failed, not ready, ours) and may have changed. Of several writes onto the
             set each names the version that the one before has made. An object that has changed or gone
             meanwhile is not reported as a failure, but the key is retried with backoff: the cache is behind,
             and only time helps. If it is the set itself, the pass ends: nothing is created for a set that is
             gone.
Creations.   A name is in doubt from before its creation is sent until the doubt is resolved. An answer that
             proves that nothing happened resolves it, unless an earlier attempt left it; and so does
             the member itself, once the cache shows it. Everything else (a broken connection, a
             deadline, a server error, our own cancellation) leaves the doubt, and the next pass asks
             again with the same name, before it creates anything else. What a policy creates before
             the member is discarded when the member was refused and cannot exist.
Events.      When a pass creates or deletes more members than ``Words.one_by_one``, one event gives their
             number; otherwise each member gets an event.
Invariants.  One member's failure does not stop the others, but for creations (``writes.slow_start``). At most
             one member exists per name; the answer ``AlreadyExists`` is looked into, since another owner may
             have the name, and then the set takes another one.
Called by    ``runtime.controller``; each world wires its own (``machines.world``).
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic

from kubewright.api.diff import Patch
from kubewright.base import delays
from kubewright.base.errors import KubewrightError
from kubewright.base.limits import DOUBT_SECONDS
from kubewright.base.plan import Plan
from kubewright.kube.client import Client
from kubewright.kube.errors import TransportError, unanswered
from kubewright.kube.informer import Informers
from kubewright.kube.patches import onto, with_uid, with_version
from kubewright.replicas.members import MemberIndex, owners_of
from kubewright.replicas.objects import (
    BY_UID,
    INVALID,
    AddFinalizer,
    M,
    Member,
    Obj,
    RemoveFinalizer,
    S,
    SetObject,
    adopted,
    changed,
    disowned,
    key_of,
    reference,
    selecting,
    until_available,
)
from kubewright.replicas.set.decide import decide
from kubewright.replicas.set.look import Looker, Memory
from kubewright.replicas.set.seen import (
    Adopt,
    Annotate,
    Create,
    Delete,
    Disown,
    Failure,
    PatchObject,
    Propagate,
    RecordNumber,
    Seen,
    SetPolicy,
    Step,
    Words,
)
from kubewright.replicas.writes import (
    Creations,
    Stale,
    error_of,
    may_adopt,
    run_parallel,
    slow_start,
    stale_or,
)
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import EventRecorder, Recorder
from kubewright.runtime.kernel import Effect, ObjectReconciler, Outcome
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.result import Result
from kubewright.wire.errors import AlreadyExists, ApiError, Forbidden, NotFound, is_stale
from kubewright.wire.gvk import Key

Before = Callable[[Obj], Awaitable[object]]
MemberStep = Adopt | Disown | Propagate | Annotate | Create | Delete

SUCCESSFUL_CREATE, FAILED_CREATE = "SuccessfulCreate", "FailedCreate"


SUCCESSFUL_DELETE, FAILED_DELETE = "SuccessfulDelete", "FailedDelete"
"""Reasons of events, the same in every API; the failures are reasons of conditions too."""


ONE_BY_ONE = 5
"""Most errors of one pass that get an event each."""


@dataclass(frozen=True, slots=True)
class Reporter:
    """Sends the events about one set."""

    events: EventRecorder
    words: Words
    about: SetObject

    def created(self, names: Sequence[str]) -> None:
        """``Created Machine: a``, or how many at once."""
        self._done(SUCCESSFUL_CREATE, names, "Created", self.words.created)

    def deleted(self, names: Sequence[str]) -> None:
        """``Deleted machine: a``, or how many at once."""
        self._done(SUCCESSFUL_DELETE, names, "Deleted", self.words.deleted)

    def _done(self, reason: str, names: Sequence[str], verb: str, one: str) -> None:
        if len(names) > self.words.one_by_one:
            self.events.event(self.about, reason, f"{verb} {len(names)} {self.words.many}")
            return
        for name in names:
            self.events.event(self.about, reason, one.format(name))

    def failed(self, reason: str, errors: Sequence[KubewrightError]) -> None:
        """An event for each different error."""
        what = "Error creating" if reason == FAILED_CREATE else "Error deleting"
        for text in dict.fromkeys(str(error) for error in errors[:ONE_BY_ONE]):
            self.events.event(self.about, reason, f"{what}: {text}", warning=True)


class Sets(ObjectReconciler[S, Seen[S, M], Plan[Step]], Generic[S, M, Obj]):
    """The reconciler of one API's sets. ``index`` may be shared with the deployments of that API."""

    looks_again = True

    def __init__(
        self,
        policy: SetPolicy[S, M, Obj],
        informers: Informers,
        recorder: Recorder,
        *,
        index: MemberIndex[Obj, M],
    ) -> None:
        client, events = informers.client, recorder.of(policy.component)
        sets = informers.get(policy.kind)
        super().__init__(client, sets, events, finalizer=policy.finalizer, pace=policy.pace)
        self.policy = policy
        self.index = index
        self._sources = recorder
        sets.index(BY_UID, lambda found: (found.metadata.uid,))
        index.follow(sets)
        owners = informers.get(policy.owner) if policy.owner is not None else None
        self._looker = Looker(policy, index, owners, client.clock)
        self._memories: dict[Key, Memory] = {}

    def get(self, key: Key) -> S | None:
        """The set with its defaults; None: there is none of this name."""
        found = self.objects.get(key)
        return None if found is None else self.policy.with_defaults(found)

    def forget(self, key: Key, uid: str) -> None:
        """The set is gone, or another one has its name."""
        self._memories.pop(key, None)
        self.index.forget_owner(uid)
        self.policy.forget(key)

    def resting(self, found: S) -> str:
        """As ``SetPolicy.idle``."""
        return self.policy.idle(found)

    async def look(self, found: S) -> Seen[S, M]:
        """As ``Looker.look``. A creation that is so old that it cannot come any more is not in doubt."""
        key = key_of(found)
        if (memory := self._memories.get(key)) is None:
            memory = self._memories[key] = Memory()
        self.index.creations.expire(found.metadata.uid, self.client.clock.monotonic())
        return self._looker.look(found, memory, self._looker.pause(found, memory))

    def decide(self, seen: Seen[S, M]) -> Plan[Step]:
        """As ``decide.decide``."""
        return decide(seen)

    def act(self, seen: Seen[S, M], step: Step, outcome: Outcome) -> Effect:
        """What performs a step. A member's failure is kept in the outcome; the set's own is raised."""
        match step:
            case AddFinalizer():
                return self.add_finalizer(outcome)
            case RemoveFinalizer():
                return self.remove_finalizer(outcome)
            case RecordNumber(number):
                annotations = {self.policy.number_annotation: str(number)}
                return self.patch(outcome, {"metadata": {"annotations": annotations}})
            case PatchObject():
                return self._patch_object(seen, step, outcome)
            case _:
                return self._on_members(_now(seen, outcome), step, outcome)

    def _on_members(self, about: S, step: MemberStep, outcome: Outcome) -> Effect:
        match step:
            case Adopt(members):
                return self._adopt(about, members, outcome)
            case Disown(members):
                return self._patch_each(members, lambda found: disowned(found, about), outcome)
            case Propagate(members):
                return self._propagate(about, members, outcome)
            case Annotate(members, annotation, value):
                body = {"metadata": {"annotations": {annotation: value}}}
                return self._patch_each(members, lambda found: onto(body, found.metadata), outcome)
            case Create(names):
                return self._create(about, names, outcome)
            case Delete(members):
                return self._delete(about, members, outcome)

    def after_step(
        self, seen: Seen[S, M], step: Step, error: KubewrightError | None, outcome: Outcome
    ) -> bool:
        """An error is raised; that of another object is kept, and the rest goes on.

        Raises:
            Stale: the set is gone.
            KubewrightError: the set could not be written.
        """
        if error is None:
            return True
        if isinstance(step, PatchObject):
            outcome.errors.append(error)
            return True
        own = isinstance(step, AddFinalizer | RecordNumber)
        if own and isinstance(error, NotFound) and error.names(seen.set.name):
            raise self._gone(seen.set) from None
        raise error

    async def look_again(self, found: S, seen: Seen[S, M], outcome: Outcome) -> Seen[S, M]:
        """What the caches show after the steps."""
        return self._looker.look(found, self._memories[key_of(found)])

    def tell_problem(self, found: S, seen: Seen[S, M]) -> None:
        """Tell that the set is not valid."""
        self.reports.report_problem(found, INVALID, "" if seen.deleting else seen.problem)

    def status(self, seen: Seen[S, M], plan: Plan[Step], outcome: Outcome) -> Any:
        """As ``SetPolicy.status``, of what could not be created or deleted first."""
        failure = next((Failure(*each) for each in outcome.shown.items()), None)
        return self.policy.status(seen, failure)

    def urgent(self, outcome: Outcome) -> bool:
        """Whether members could not be created or deleted; what is only stale is no news."""
        return bool(outcome.shown)

    def reported(self, seen: Seen[S, M], status: Any, outcome: Outcome, *, written: bool) -> None:
        """Send the events that go with the status; look again when the next member becomes available, and
        while a creation is in doubt."""
        found = seen.set
        for event in self.policy.status_events(found, status) if written else ():
            self._sources.event(found, event.reason, event.message, component=event.component)
        outcome.sooner(until_available(seen.members, found.spec.min_ready_seconds, seen.now))
        if self.index.doubted(found.metadata.uid):
            outcome.sooner(DOUBT_SECONDS)

    def refused(self, about: S, error: ApiError) -> Result:
        """A write onto the set, or its status: the error says when it is tried again.

        Raises:
            ApiError: always.
        """
        raise error

    async def _patch_object(self, seen: Seen[S, M], step: PatchObject, outcome: Outcome) -> None:
        """Patch what the step says. A patch of the set itself that names the version that was seen is for the
        one that earlier steps of this pass have made of it."""
        own = (step.kind, step.key) == (self.policy.kind, key_of(seen.set))
        body, version = step.body, seen.set.metadata.resource_version
        if own and body.get("metadata", {}).get("resourceVersion") == version:
            body = with_version(body, outcome.meta.resource_version)
        answer = await self.client.patch(step.kind, step.key, body)
        if own:
            outcome.meta = answer.metadata

    async def _adopt(self, about: S, members: Sequence[Member], outcome: Outcome) -> None:
        if not await may_adopt(self.client, self.policy.kind, about):
            raise self._gone(about)
        ours = reference(about, self.policy.kind)
        await self._patch_each(members, lambda found: adopted(found, ours), outcome)

    async def _propagate(self, about: S, members: Sequence[Member], outcome: Outcome) -> None:
        def patch_of(found: Obj) -> Patch:
            return with_uid(self.policy.propagation(about, found), found.metadata.uid)

        before = partial(self.policy.before_propagation, self.client, about)
        await self._patch_each(members, patch_of, outcome, before)

    def _gone(self, about: S) -> Stale:
        return Stale(f"{self.policy.kind.resource.kind} {about.name} is gone, or is being deleted")

    async def _patch_each(
        self,
        members: Sequence[Member],
        patch_of: Callable[[Obj], Patch],
        outcome: Outcome,
        before: Before[Obj] | None = None,
    ) -> None:
        """Patch members as the cache has them, unless the patch of one is empty; one that was created again
        under its name is left alone."""

        async def patch(member: Member) -> KubewrightError | None:
            found = self.index.objects.get(member.key)
            if found is None or found.metadata.uid != member.uid or not (body := patch_of(found)):
                return None
            if before is not None and (error := await error_of(before(found))) is not None:
                return error
            error = await error_of(self.client.patch(self.policy.member_kind, member.key, body))
            return stale_or(error, f"{self.policy.words.one} {member.name}")

        outcome.errors += await run_parallel(members, patch)

    async def _create(self, about: S, names: Sequence[str], outcome: Outcome) -> None:
        """Create members of these names by slow start, and send events about it.

        A name that is taken, and a namespace that is being deleted, are not reported as failures. But the key
        is retried with backoff, until the next pass sees more, or the set is deleted.
        """
        memory = self._memories[key_of(about)]
        creation = Creation(self.policy, self.client, about, memory, self.index.creations)
        errors = await slow_start(names, creation.one)
        reporter = self._reporter(about)
        reporter.created(creation.created)
        outcome.errors += (error for error in errors if _is_no_failure(error))
        failures = [error for error in errors if not _is_no_failure(error)]
        reporter.failed(FAILED_CREATE, failures)
        has_failed(outcome, FAILED_CREATE, failures)

    async def _delete(self, about: S, members: Sequence[Member], outcome: Outcome) -> None:
        deleted: list[str] = []

        async def delete(member: Member) -> KubewrightError | None:
            uid, version = member.uid, member.version
            call = self.client.delete(self.policy.member_kind, member.key, uid=uid, resource_version=version)
            error = await error_of(call)
            if error is None:
                deleted.append(member.name)
                self.policy.deleted(member)
            return error

        errors = await run_parallel(members, delete)
        reporter = self._reporter(about)
        reporter.deleted(deleted)
        outcome.errors += (error for error in errors if is_stale(error))
        failures = [error for error in errors if not is_stale(error)]
        reporter.failed(FAILED_DELETE, failures)
        has_failed(outcome, FAILED_DELETE, failures)

    def _reporter(self, about: S) -> Reporter:
        return Reporter(self.recorder, self.policy.words, about)

    def controller(self, metrics: Metrics | None = None) -> Controller:
        """Workers for this reconciler, listening to sets and to facts about members."""
        controller = Controller(self.policy.name, self, self.client.clock, metrics=metrics)
        controller.watches(self.objects, self.reports.matters)
        why = f"a {self.policy.words.one} has changed"
        self.index.wake(controller, self._sets_of, delays.GATHER_FOR_SET, why)
        return controller

    def _sets_of(self, before: M | None, after: M | None) -> set[Key]:
        """The sets that a member belonged and belongs to, or that might adopt it."""
        found: set[Key] = set()
        for uid in owners_of(before, after):
            found.update(self.objects.keys_by(BY_UID, uid))
        if after is not None and not after.owner_uid:
            sets = map(self.policy.with_defaults, self.objects.list(after.key.namespace))
            found |= selecting(sets, after.labels)
        return found


def _now(seen: Seen[S, M], outcome: Outcome) -> S:
    """The set as the steps of this pass have made it."""
    return changed(seen.set, metadata=outcome.meta)


def has_failed(outcome: Outcome, reason: str, errors: Sequence[KubewrightError]) -> None:
    """Add errors of creations or deletions. The status tells of the first one of the pass."""
    outcome.errors += errors
    if errors and not outcome.shown:
        outcome.shown[reason] = str(errors[0])


@dataclass(slots=True)
class Creation(Generic[S]):
    """The creations of one pass for one set."""

    policy: SetPolicy[S, Any, Any]
    client: Client
    owner: S
    memory: Memory
    doubts: Creations
    created: list[str] = field(default_factory=list)

    async def one(self, name: str) -> KubewrightError | None:
        """Create the member ``name``. Returns the error when it was not created, None when it was."""
        in_doubt_before = self.doubts.creating(self._uid, name, self.client.clock.monotonic())
        try:
            await self.policy.create(self.client, self.owner, name)
        except AlreadyExists as error:
            return await self._check_owner(name, error)
        except (ApiError, TransportError) as error:
            if not unanswered(error) and not in_doubt_before:  # it says nothing about earlier attempts
                await self._give_up(name)
            return error
        self.doubts.resolved(self._uid, name)
        self.created.append(name)
        return None

    async def _give_up(self, name: str) -> None:
        """No member of this name exists, and none will. The doubt ends once the attempt's other objects are
        deleted."""
        try:
            await self.policy.discard(self.client, self.owner, name)
        except KubewrightError:
            return
        self.doubts.resolved(self._uid, name)

    async def _check_owner(self, name: str, error: AlreadyExists) -> KubewrightError:
        """Find out which owner has the name. If our set has, the doubt stays until the cache shows it."""
        try:
            found = await self.client.get(self.policy.member_kind, Key(self.owner.metadata.namespace, name))
        except NotFound as missing:
            if not missing.names(name):
                return missing
            if self.policy.creates_parts:  # another owner has what the member needs before it
                self.memory.belongs_to_another(name)
            await self._give_up(name)
            return error
        except KubewrightError as unknown:
            return unknown
        controller = found.metadata.controller
        if controller is None or controller.uid != self.owner.metadata.uid:
            self.memory.belongs_to_another(name)
            await self._give_up(name)
        return error

    @property
    def _uid(self) -> str:
        return self.owner.metadata.uid


def _is_no_failure(error: KubewrightError) -> bool:
    """Nothing to tell users of: the name is taken, or the namespace goes, and the set with it."""
    return isinstance(error, AlreadyExists) or (isinstance(error, Forbidden) and error.namespace_ends)
