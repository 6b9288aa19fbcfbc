"""Perform a set's plan: every write of a pass, but for the status, and the events about it.

Theory.      Each write names the uid of what was seen, and the version where the decision rests on
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
Called by    ``wiring``.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, assert_never

from kubewright.api.diff import Patch
from kubewright.api.meta import with_finalizer, without_finalizer
from kubewright.base.errors import KubewrightError
from kubewright.base.plan import Plan
from kubewright.kube.client import Client
from kubewright.kube.errors import TransportError, unanswered
from kubewright.kube.patches import onto, with_uid, with_version
from kubewright.replicas.member import M, Member, Obj
from kubewright.replicas.members import MemberIndex
from kubewright.replicas.objects import (
    AddFinalizer,
    RemoveFinalizer,
    S,
    SetObject,
    adopted,
    changed,
    disowned,
    key_of,
    reference,
)
from kubewright.replicas.set.look import Memory
from kubewright.replicas.set.policy import Failure, SetPolicy, Words
from kubewright.replicas.set.seen import (
    Adopt,
    Annotate,
    Create,
    Delete,
    Disown,
    PatchObject,
    Propagate,
    RecordNumber,
    Seen,
    Step,
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
from kubewright.runtime.events import EventRecorder
from kubewright.wire.errors import AlreadyExists, ApiError, Forbidden, NotFound, is_stale
from kubewright.wire.gvk import Key

Before = Callable[[Obj], Awaitable[object]]
MemberStep = Adopt | Disown | Propagate | Create | Delete | Annotate


SUCCESSFUL_CREATE, FAILED_CREATE = "SuccessfulCreate", "FailedCreate"


SUCCESSFUL_DELETE, FAILED_DELETE = "SuccessfulDelete", "FailedDelete"
"""Reasons of events, the same in every API; the failures are reasons of conditions too."""


ONE_BY_ONE = 5
"""Most errors of one pass that get an event each."""


@dataclass(slots=True)
class Outcome:
    """How a pass went.

    ``errors``   what the key is retried for
    ``failure``  what the status will say
    ``gone``     our finalizer is off
    """

    errors: list[KubewrightError] = field(default_factory=list)
    failure: Failure | None = None
    gone: bool = False

    def failed(self, reason: str, errors: Sequence[KubewrightError]) -> None:
        """Add errors of creations or deletions. The status tells of the first one of the pass."""
        self.errors += errors
        if errors and self.failure is None:
            self.failure = Failure(reason, str(errors[0]))


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


class Actor(Generic[S, M, Obj]):
    """Performs plans of sets."""

    def __init__(
        self,
        policy: SetPolicy[S, M, Obj],
        client: Client,
        index: MemberIndex[Obj, M],
        events: EventRecorder,
    ) -> None:
        self._policy = policy
        self._client = client
        self._objects = index.objects
        self._events = events
        self._doubts = index.creations

    async def perform(self, seen: Seen[S, M], memory: Memory, plan: Plan[Step]) -> Outcome:
        """All steps in order. A member's failure is kept in the outcome; the set's own is raised.

        Raises:
            Stale: the set is gone.
            KubewrightError: the set could not be written.
        """
        outcome, latest = Outcome(), seen.set
        for step in plan.steps:
            if isinstance(step, PatchObject):
                latest = await self._patch_object(seen.set, latest, step, outcome)
            elif isinstance(step, AddFinalizer | RemoveFinalizer | RecordNumber):
                latest = await self._write(latest, step, outcome)
            else:
                await self._on_members(latest, memory, step, outcome)
        return outcome

    async def _on_members(self, about: S, memory: Memory, step: MemberStep, outcome: Outcome) -> None:
        reporter = Reporter(self._events, self._policy.words, about)
        match step:
            case Adopt(members):
                if not await may_adopt(self._client, self._policy.kind, about):
                    raise self._gone(about)
                outcome.errors += await self._patch_each(members, partial(self._patch_of, about, step))
            case Disown(members) | Annotate(members):
                outcome.errors += await self._patch_each(members, partial(self._patch_of, about, step))
            case Propagate(members):
                patch_of = partial(self._patch_of, about, step)
                before = partial(self._policy.before_propagation, self._client, about)
                outcome.errors += await self._patch_each(members, patch_of, before)
            case Create(names):
                creation = Creation(self._policy, self._client, about, memory, self._doubts)
                await create(creation, names, reporter, outcome)
            case Delete(members):
                await self._delete(members, reporter, outcome)
            case _:
                assert_never(step)

    async def _write(
        self, about: S, step: AddFinalizer | RemoveFinalizer | RecordNumber, outcome: Outcome
    ) -> S:
        """Write the set itself; return it as it is then."""
        policy, finalizers = self._policy, about.metadata.finalizers
        match step:
            case AddFinalizer():
                return await self._patch(about, {"finalizers": with_finalizer(finalizers, policy.finalizer)})
            case RecordNumber(number):
                return await self._patch(about, {"annotations": {policy.number_annotation: str(number)}})
            case RemoveFinalizer():
                outcome.gone = True
                left = without_finalizer(finalizers, policy.finalizer)
                with suppress(Stale):  # it is gone, which is what the step is for
                    return await self._patch(about, {"finalizers": left or None})
        return about

    async def _patch_object(self, seen: S, latest: S, step: PatchObject, outcome: Outcome) -> S:
        """Patch what the step says; return the set as it is then. A patch of the set itself that names the
        version that was seen is for the one that earlier steps of this pass have made of it."""
        own = (step.kind, step.key) == (self._policy.kind, key_of(latest))
        body, version = step.body, seen.metadata.resource_version
        if own and body.get("metadata", {}).get("resourceVersion") == version:
            body = with_version(body, latest.metadata.resource_version)
        try:
            answer = await self._client.patch(step.kind, step.key, body)
        except KubewrightError as error:
            outcome.errors.append(error)
            return latest
        return _after(latest, answer) if own else latest

    async def _patch(self, about: S, metadata: Patch) -> S:
        """Patch the set in the version that was read: a late request of an earlier leader changes nothing.
        Returns it as it is then: the next step names that version."""
        patch = onto({"metadata": metadata}, about.metadata)
        try:
            return _after(about, await self._client.patch(self._policy.kind, key_of(about), patch))
        except NotFound as error:
            if not error.names(about.name):
                raise
            raise self._gone(about) from None

    def _gone(self, about: S) -> Stale:
        return Stale(f"{self._policy.kind.resource.kind} {about.name} is gone, or is being deleted")

    async def _patch_each(
        self,
        members: Sequence[Member],
        patch_of: Callable[[Obj], Patch],
        before: Before[Obj] | None = None,
    ) -> list[KubewrightError]:
        """Patch members as the cache has them; one that was created again under its name is left alone."""

        async def patch(member: Member) -> KubewrightError | None:
            found = self._objects.get(member.key)
            if found is None or found.metadata.uid != member.uid or not (body := patch_of(found)):
                return None
            if before is not None and (error := await error_of(before(found))) is not None:
                return error
            error = await error_of(self._client.patch(self._policy.member_kind, member.key, body))
            return stale_or(error, f"{self._policy.words.one} {member.name}")

        return await run_parallel(members, patch)

    def _patch_of(self, about: S, step: Adopt | Disown | Propagate | Annotate, found: Obj) -> Patch:
        """The patch by which a step changes one member; empty if nothing changes."""
        match step:
            case Adopt():
                return adopted(found, reference(about, self._policy.kind))
            case Disown():
                return disowned(found, about)
            case Propagate():
                return with_uid(self._policy.propagation(about, found), found.metadata.uid)
            case Annotate(_, annotation, value):
                return onto({"metadata": {"annotations": {annotation: value}}}, found.metadata)

    async def _delete(self, members: Sequence[Member], reporter: Reporter, outcome: Outcome) -> None:
        deleted: list[str] = []

        async def delete(member: Member) -> KubewrightError | None:
            uid, version = member.uid, member.version
            call = self._client.delete(
                self._policy.member_kind, member.key, uid=uid, resource_version=version
            )
            error = await error_of(call)
            if error is None:
                deleted.append(member.name)
                self._policy.deleted(member)
            return error

        errors = await run_parallel(members, delete)
        reporter.deleted(deleted)
        outcome.errors += (error for error in errors if is_stale(error))
        failed = [error for error in errors if not is_stale(error)]
        reporter.failed(FAILED_DELETE, failed)
        outcome.failed(FAILED_DELETE, failed)


def _after(about: S, answer: S) -> S:
    """The set with the metadata that a patch of it was answered with."""
    return changed(about, metadata=answer.metadata)


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


async def create(creation: Creation[S], names: Sequence[str], reporter: Reporter, outcome: Outcome) -> None:
    """Create members of these names by slow start, and send events about it.

    A name that is taken, and a namespace that is being deleted, are not reported as failures. But the key is
    retried with backoff, until the next pass sees more, or the set is deleted.
    """
    errors = await slow_start(names, creation.one)
    reporter.created(creation.created)
    outcome.errors += (error for error in errors if _is_no_failure(error))
    failures = [error for error in errors if not _is_no_failure(error)]
    reporter.failed(FAILED_CREATE, failures)
    outcome.failed(FAILED_CREATE, failures)


def _is_no_failure(error: KubewrightError) -> bool:
    """Nothing to tell users of: the name is taken, or the namespace goes, and the set with it."""
    return isinstance(error, AlreadyExists) or (isinstance(error, Forbidden) and error.namespace_ends)
