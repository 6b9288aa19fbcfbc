"""Perform a MachineDeployment's plan: the only door through which a deployment's pass writes.

Theory.      Every decision here rests on sizes that were read, so every patch of a set or of the
             deployment names the version: a leader that has lost its lease without knowing cannot
             write yesterday's sizes. ``Stale`` then ends the pass; the next look decides anew.
Invariants.  Never a PUT. A name that is taken by a set of ours that is going away, or by a stranger,
             raises ``collisionCount`` and so changes the next hash; nothing is made meanwhile.
Called by    ``reconciler.MachineDeployments``.
"""

from typing import Any, assert_never

from msgspec import to_builtins

from kubewright.api.kinds import Kind
from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason
from kubewright.api.machine.v1alpha1 import (
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    MachineDeployment,
    MachineSet,
)
from kubewright.api.meta import KubeObject, owner_of
from kubewright.base.errors import KubewrightError
from kubewright.kube.client import Client
from kubewright.kube.patches import exactly, merge_patch
from kubewright.machines.deployment.doubts import Doubts, Stale
from kubewright.machines.deployment.observe import Seen
from kubewright.machines.deployment.progress import News
from kubewright.machines.deployment.steps import (
    Adopt,
    Change,
    ChangeSet,
    CreateSet,
    DeleteSets,
    LetGo,
    MarkVictims,
    Plan,
    Release,
    Tell,
)
from kubewright.machines.deployment.template import identity
from kubewright.machines.deployment.victims import CHOSEN_PRIORITY, Mark
from kubewright.replicas.batches import spread
from kubewright.runtime.events import Teller
from kubewright.wire.errors import AlreadyExists, ApiError, Conflict, NotFound
from kubewright.wire.gvk import Key

Write = Change | Adopt | Release | MarkVictims | ChangeSet | DeleteSets | LetGo


class Actor:
    """Performs plans of MachineDeployments."""

    def __init__(self, client: Client, recorder: Teller, doubts: Doubts, at_once: int) -> None:
        self._client = client
        self._doubts = doubts
        self._recorder = recorder
        self._at_once = at_once

    async def perform(self, seen: Seen, plan: Plan) -> News:
        """All steps in order.

        Raises:
            Stale: another look is needed before anything else is done.
            KubewrightError: a write failed; what comes after it is not done.
        """
        news = News()
        for step in plan.steps:
            match step:
                case CreateSet(machine_set):
                    news = await self._create(seen, machine_set)
                case Tell(reason, message, warning):
                    self._recorder.event(seen.written, reason, message, warning=warning)
                case _:
                    await self._write(seen, step)
            if news.failed:
                break
        return news

    async def _write(self, seen: Seen, step: Write) -> None:
        match step:
            case Change(after):
                await self._patch(seen, MACHINE_DEPLOYMENT, seen.written, _difference(seen.written, after))
            case ChangeSet(before, after):
                await self._patch(seen, MACHINE_SET, before, _difference(before, after))
            case Adopt(sets):
                await self._adopt(seen, sets)
            case Release(sets):
                for each in sets:
                    await self._patch(seen, MACHINE_SET, each, _owners(_others(each, seen.written)))
            case MarkVictims(marks):
                _raise_first(await spread(marks, self._mark, self._at_once))
            case DeleteSets(sets):
                _raise_first(await spread(sets, self._delete, self._at_once))
            case LetGo():
                left = names.without_finalizer(seen.written.metadata.finalizers, names.FINALIZER)
                without = {"metadata": {"finalizers": left or None}}
                await self._patch(seen, MACHINE_DEPLOYMENT, seen.written, without)
            case _:
                assert_never(step)

    async def _patch(self, seen: Seen, kind: Kind[Any], read: KubeObject, patch: dict[str, Any]) -> None:
        """Write a difference onto exactly what was read."""
        if not patch:
            return
        body = {**patch, "metadata": {**patch.get("metadata", {}), **exactly(read.metadata)}}
        self._doubts.writing(seen.key, kind, read)
        try:
            await self._client.patch(kind, Key(read.namespace, read.name), body)
        except (Conflict, NotFound):
            raise Stale("what was read has changed") from None
        except KubewrightError as error:
            self._doubts.failed(seen.key, error)
            raise

    async def _adopt(self, seen: Seen, sets: tuple[MachineSet, ...]) -> None:
        """Only after a look at the server: a deployment that is going adopts nothing."""
        resource = MACHINE_DEPLOYMENT.resource
        try:
            live = await self._client.get(MACHINE_DEPLOYMENT, seen.key)
        except NotFound:
            raise Stale("what was read has changed") from None
        if live.metadata.uid != seen.written.metadata.uid or live.metadata.deleting:
            raise Stale("the deployment is going")
        ours = owner_of(seen.written, resource.api_version, resource.kind)
        for each in sets:
            owners = [*each.metadata.owner_references, ours]
            await self._patch(seen, MACHINE_SET, each, _owners(to_builtins(owners)))

    async def _mark(self, mark: Mark) -> KubewrightError | None:
        annotations = {
            names.PRIORITY_ANNOTATION: str(CHOSEN_PRIORITY),
            names.MARKED_FOR_DELETION_TIME_ANNOTATION: mark.time,
        }
        body = {"metadata": {"uid": mark.member.uid, "annotations": annotations}}
        try:
            await self._client.patch(MACHINE, mark.member.key, body)
        except (NotFound, Conflict):
            return Stale(f"machine {mark.member.name} is no longer the one that was seen")
        except KubewrightError as error:
            return error
        return None

    async def _delete(self, machine_set: MachineSet) -> KubewrightError | None:
        """Exactly what was read: a set that was let go since, to be kept, must not go with its deployment."""
        meta, version = machine_set.metadata, machine_set.metadata.resource_version
        key = Key(meta.namespace, meta.name)
        try:
            await self._client.delete(MACHINE_SET, key, uid=meta.uid, resource_version=version)
        except NotFound:
            return None
        except Conflict:  # it is another one by now: nothing else would wake us
            return Stale(f"set {meta.name} could not be deleted as it was seen")
        except KubewrightError as error:
            return error
        return None

    async def _create(self, seen: Seen, machine_set: MachineSet) -> News:
        """Make the current set. One that was refused is news; one that was made, the caches show."""
        self._doubts.asking(seen.key, machine_set)
        try:
            await self._client.create(MACHINE_SET, machine_set)
        except AlreadyExists:
            await self._collide(seen, machine_set)
            raise Stale("what was read has changed") from None
        except KubewrightError as error:
            self._doubts.failed(seen.key, error)
            if not isinstance(error, ApiError):
                raise
            told = f'Failed to create new machine set "{machine_set.name}": {error}'
            self._recorder.event(seen.written, EventReason.MACHINE_SET_CREATE_ERROR, told, warning=True)
            return News(create_error=told, failed=True)
        return News()

    async def _collide(self, seen: Seen, wanted: MachineSet) -> None:
        """The name is taken. A living set of ours with this very template: only the cache lags."""
        try:
            found = await self._client.get(MACHINE_SET, Key(wanted.namespace, wanted.name))
        except NotFound:
            return
        owner, template = found.metadata.controller, found.spec.template
        ours = owner is not None and owner.uid == seen.written.metadata.uid
        if ours and not found.metadata.deleting and identity(template) == identity(wanted.spec.template):
            return
        self._doubts.settled(seen.key)
        count = (seen.written.status.collision_count or 0) + 1
        body = {"metadata": {"uid": seen.written.metadata.uid}, "status": {"collisionCount": count}}
        await self._client.patch(MACHINE_DEPLOYMENT, seen.key, body, subresource="status")


def _difference(
    before: MachineDeployment | MachineSet, after: MachineDeployment | MachineSet
) -> dict[str, Any]:
    return merge_patch(before, after)


def _others(machine_set: MachineSet, deployment: MachineDeployment) -> list[dict[str, Any]]:
    owners = machine_set.metadata.owner_references
    kept: list[dict[str, Any]] = to_builtins([o for o in owners if o.uid != deployment.metadata.uid])
    return kept


def _owners(references: list[dict[str, Any]]) -> dict[str, Any]:
    """The list is replaced as a whole; the version that goes with it says that nobody else did."""
    return {"metadata": {"ownerReferences": references or None}}


def _raise_first(errors: list[KubewrightError]) -> None:
    if errors:
        raise errors[0]
