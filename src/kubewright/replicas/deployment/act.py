"""Perform a deployment's plan: every write of a pass, but for the status, is sent from here.

Theory.      Every decision here rests on sizes that were read, so every patch of a set or of the
             deployment names the version: a leader that has lost its lease without knowing cannot
             write sizes that are out of date. A refused one raises ``Stale``, which ends the pass; the next
             pass decides anew. Only members' annotations do not depend on the version: their patches name the
             uid alone.
             A name may be taken by a set of this deployment that is being deleted or has another template, or
             by another owner's set. Then ``collisionCount`` is raised, which changes the next hash.
Invariants.  Never a PUT. Nothing is created in the pass that raises ``collisionCount``.
Called by    ``wiring``.
"""

from collections.abc import Iterable
from typing import Any, Generic, assert_never

from kubewright.api.diff import Patch, merge_patch
from kubewright.api.kinds import Kind
from kubewright.api.meta import Object, integer, with_finalizer, without_finalizer
from kubewright.base.errors import KubewrightError, first_to_return
from kubewright.base.plan import Plan
from kubewright.kube.client import Client
from kubewright.kube.patches import onto, with_uid
from kubewright.replicas.deployment.policy import DeploymentPolicy
from kubewright.replicas.deployment.seen import (
    Adopt,
    AnnotateMembers,
    ChangeDeployment,
    ChangeSet,
    CreateSet,
    DeleteSets,
    Disown,
    MemberAnnotations,
    Outcome,
    RecordEvent,
    Seen,
    Step,
)
from kubewright.replicas.member import M
from kubewright.replicas.objects import (
    AddFinalizer,
    D,
    RemoveFinalizer,
    S,
    SetObject,
    adopted,
    disowned,
    key_of,
    reference,
)
from kubewright.replicas.writes import Doubts, Stale, error_of, may_adopt, run_parallel, stale_or
from kubewright.runtime.events import EventRecorder
from kubewright.wire.errors import AlreadyExists, ApiError, Conflict, NotFound, is_stale

Write = (
    AddFinalizer
    | ChangeDeployment
    | Adopt
    | Disown
    | AnnotateMembers
    | ChangeSet
    | DeleteSets
    | RemoveFinalizer
)


class Actor(Generic[D, S, M]):
    """Performs plans of the deployments of one API."""

    def __init__(
        self, policy: DeploymentPolicy[D, S, M], client: Client, events: EventRecorder, doubts: Doubts
    ) -> None:
        self._policy = policy
        self._deployments: Kind[Any] = policy.kind
        self._sets: Kind[Any] = policy.set_kind
        self._client = client
        self._doubts = doubts
        self._events = events

    async def perform(self, seen: Seen[D, S, M], plan: Plan[Step]) -> Outcome:
        """All steps in order.

        Raises:
            Stale: another look is needed before anything else is done.
            KubewrightError: a write failed; what comes after it is not done.
        """
        outcome = Outcome()
        for step in plan.steps:
            match step:
                case CreateSet(new):
                    outcome = await self._create(seen, new)
                case RecordEvent(reason, message, warning):
                    self._events.event(seen.written, reason, message, warning=warning)
                case _:
                    await self._write(seen, step)
            if outcome.failed:
                break
        return outcome

    async def _write(self, seen: Seen[D, S, M], step: Write) -> None:
        match step:
            case ChangeDeployment(after):
                await self._patch(seen, self._deployments, seen.written, merge_patch(seen.written, after))
            case ChangeSet(before, after):
                await self._patch(seen, self._sets, before, merge_patch(before, after))
            case Adopt(sets):
                await self._adopt(seen, sets)
            case Disown(sets):
                for each in sets:
                    await self._patch(seen, self._sets, each, disowned(each, seen.written))
            case AnnotateMembers(members):
                _raise_one(await run_parallel(members, self._annotate))
            case DeleteSets(sets):
                _raise_one(await run_parallel(sets, self._delete))
            case AddFinalizer():
                finalizers = with_finalizer(seen.written.metadata.finalizers, self._policy.finalizer)
                await self._change_finalizers(seen, finalizers)
            case RemoveFinalizer():
                finalizers = without_finalizer(seen.written.metadata.finalizers, self._policy.finalizer)
                await self._change_finalizers(seen, finalizers)
            case _:
                assert_never(step)

    async def _change_finalizers(self, seen: Seen[D, S, M], finalizers: list[str]) -> None:
        patch = {"metadata": {"finalizers": finalizers or None}}
        await self._patch(seen, self._deployments, seen.written, patch)

    async def _patch(self, seen: Seen[D, S, M], kind: Kind[Any], read: Object, patch: Patch) -> None:
        """Write a difference onto exactly what was read."""
        if not patch:
            return
        self._doubts.writing(seen.key, kind, read)
        try:
            await self._client.patch(kind, key_of(read), onto(patch, read.metadata))
        except KubewrightError as error:
            if is_stale(error):
                what = f"{kind.resource.kind} {read.metadata.name}"
                raise Stale(f"{what} has changed since it was read") from None
            self._doubts.failed(seen.key, error)
            raise

    async def _adopt(self, seen: Seen[D, S, M], sets: Iterable[Object]) -> None:
        if not await may_adopt(self._client, self._deployments, seen.written):
            kind = self._deployments.resource.kind
            raise Stale(f"{kind} {seen.written.name} is gone, or is being deleted")
        ours = reference(seen.written, self._policy.kind)
        for each in sets:
            await self._patch(seen, self._sets, each, adopted(each, ours))

    async def _annotate(self, change: MemberAnnotations) -> KubewrightError | None:
        member = change.member
        body = with_uid({"metadata": {"annotations": dict(change.annotations)}}, member.uid)
        error = await error_of(self._client.patch(self._policy.member_kind, member.key, body))
        return stale_or(error, f"{self._policy.words.member} {member.name}")

    async def _delete(self, each: Object) -> KubewrightError | None:
        """Delete exactly what was read: a set that was disowned since, to be kept, must not be deleted."""
        meta, version = each.metadata, each.metadata.resource_version
        delete = self._client.delete(self._sets, key_of(each), uid=meta.uid, resource_version=version)
        error = await error_of(delete)
        if isinstance(error, NotFound) and error.names(meta.name):
            return None
        if isinstance(error, Conflict):  # it has changed: nothing else would wake us
            kind = self._sets.resource.kind
            return Stale(f"{kind} {meta.name} has changed since it was chosen for deletion")
        return error

    async def _create(self, seen: Seen[D, S, M], new: SetObject) -> Outcome:
        """Create the current set. A refusal is returned in the outcome."""
        self._doubts.creating(seen.key, new)
        try:
            await self._client.create(self._sets, new)
        except AlreadyExists:
            await self._collide(seen, new)
            kind = self._sets.resource.kind
            raise Stale(f"the name that {kind} {new.name} was to have is taken") from None
        except KubewrightError as error:
            self._doubts.failed(seen.key, error)
            if not isinstance(error, ApiError):
                raise
            return self.not_created(seen, new, error)
        return Outcome()

    def not_created(self, seen: Seen[D, S, M], new: SetObject, error: ApiError) -> Outcome:
        """Send the event that the server refuses to create the current set."""
        message = f'Failed to create new {self._policy.words.set} "{new.name}": {error}'
        self._events.event(seen.written, self._policy.reasons.create_error, message, warning=True)
        return Outcome(create_error=message, failed=True, error=error)

    async def _collide(self, seen: Seen[D, S, M], wanted: SetObject) -> None:
        """Raise ``collisionCount``, unless our own set of this template has the name: then the cache lags."""
        try:
            found = await self._client.get(self._sets, key_of(wanted))
        except NotFound as missing:
            if not missing.names(wanted.name):
                raise
            return
        owner, identity = found.metadata.controller, self._policy.identity
        ours = owner is not None and owner.uid == seen.written.metadata.uid
        same = identity(found.spec.template) == identity(wanted.spec.template)
        if ours and same and not found.metadata.deleting:
            return
        self._doubts.resolved(seen.key)
        error = await error_of(self._count_collision(seen.written))
        if error is not None and not is_stale(error):  # else the next pass sees what has become of it
            raise error

    async def _count_collision(self, deployment: D) -> None:
        meta, key = deployment.metadata, self._policy.metadata_keys.collisions
        if key:
            count = integer(meta.annotations, key) + 1
            body = onto({"metadata": {"annotations": {key: str(count)}}}, meta)
            await self._client.patch(self._deployments, key_of(deployment), body)
            return
        count = (deployment.status.collision_count or 0) + 1
        body = onto({"status": {"collisionCount": count}}, meta)  # in a status a uid alone is no condition
        await self._client.patch(self._deployments, key_of(deployment), body, subresource="status")


def _raise_one(errors: list[KubewrightError]) -> None:
    """Raise the error that is to be retried first; the next pass meets the others again."""
    if errors:
        raise first_to_return(errors)
