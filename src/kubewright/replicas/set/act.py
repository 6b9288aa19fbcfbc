"""Perform a set's plan: every write of a pass, but for the status, is sent from here.

Theory.      Each write names the uid of what was seen, and the version where the decision rests on
             what was read: a list that is replaced as a whole, a member that was chosen for
             deletion in that state (Failed, not ready, ours) and may have changed. Of several writes onto the
             set each names the version that the one before has made. An object that has changed or gone
             meanwhile is not reported as a failure, but the key is retried with backoff: the cache is behind,
             and only time helps. If it is the set itself, the pass ends: nothing is created for a set that is
             gone.
Invariants.  One member's failure does not stop the others, but for creations (``effects``).
Called by    ``reconciler.Sets``. Continues in ``creation``.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Generic, assert_never

from kubewright.api.diff import Patch
from kubewright.api.meta import with_finalizer, without_finalizer
from kubewright.base.errors import KubewrightError
from kubewright.base.plan import Plan
from kubewright.kube.client import Client
from kubewright.kube.patches import onto, with_uid, with_version
from kubewright.replicas.doubts import Stale
from kubewright.replicas.effects import error_of, may_adopt, run_parallel, stale_or
from kubewright.replicas.member import M, Member, Obj
from kubewright.replicas.members import MemberIndex
from kubewright.replicas.objects import S, changed
from kubewright.replicas.ownership import AddFinalizer, RemoveFinalizer, adopted, disowned, key_of, reference
from kubewright.replicas.set.creation import Creation, create
from kubewright.replicas.set.look import Memory
from kubewright.replicas.set.outcome import FAILED_DELETE, Outcome, Reporter
from kubewright.replicas.set.policy import SetPolicy
from kubewright.replicas.set.seen import Seen
from kubewright.replicas.set.steps import (
    Adopt,
    Annotate,
    Create,
    Delete,
    Disown,
    PatchObject,
    Propagate,
    RecordNumber,
    Step,
)
from kubewright.runtime.events import EventRecorder
from kubewright.wire.errors import NotFound, is_stale

Before = Callable[[Obj], Awaitable[object]]
MemberStep = Adopt | Disown | Propagate | Create | Delete | Annotate


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
                patch_of, before = partial(self._patch_of, about, step), self._before(about)
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

    def _before(self, about: S) -> Before[Obj] | None:
        """What is written before a member is patched with what its set's template changes."""
        propagation = self._policy.propagation
        if propagation is None or propagation.before is None:
            return None
        return partial(propagation.before, self._client, about)

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
                propagation = self._policy.propagation
                return with_uid(propagation.patch(about, found), found.metadata.uid) if propagation else {}
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
