"""One deployment, one pass on the kernel: what performs each step, its status, and what enqueues it.

Theory.      A deployment is enqueued when it changes, when one of its sets changes, and when facts about
             their members do (``replicas.members``). The last are gathered for a moment, because each
             pass may resize sets. The status is of a second look, after the steps.
             Every decision here rests on sizes that were read, so every patch of a set or of the
             deployment names the version: a leader that has lost its lease without knowing cannot
             write sizes that are out of date. A refused one raises ``Stale``, which ends the pass; the next
             pass decides anew. Only members' annotations do not depend on the version: their patches name the
             uid alone. What has become of the last write is asked of the server (``closer``) before anything
             else is decided, unless the caches show it. A set may be newer in the caches than its deployment:
             so before a set is made smaller for a generation of the deployment, the server is asked once
             whether that is the latest, for members that go do not come back.
             A name may be taken by a set of this deployment that is being deleted or has another template, or
             by another owner's set. Then ``collisionCount`` is raised, which changes the next hash.
Invariants.  Never a PUT. Nothing is created in the pass that raises ``collisionCount``. After a step that
             failed no other is tried.
Called by    ``runtime.controller``; each world wires its own (``machines.world``).
"""

from collections.abc import Awaitable, Iterable
from typing import Any, Generic

from kubewright.api.diff import Patch, merge_patch
from kubewright.api.kinds import Kind
from kubewright.api.meta import Object, integer, with_finalizer, without_finalizer
from kubewright.base import delays
from kubewright.base.errors import After, KubewrightError, first_to_return
from kubewright.base.plan import Plan
from kubewright.base.witness import Witness
from kubewright.kube.cache import Change
from kubewright.kube.informer import Informer, Informers
from kubewright.kube.patches import onto, with_uid
from kubewright.replicas.deployment.decide import decide
from kubewright.replicas.deployment.look import look
from kubewright.replicas.deployment.seen import (
    Adopt,
    AnnotateMembers,
    ChangeDeployment,
    ChangeSet,
    CreateSet,
    DeleteSets,
    DeploymentPolicy,
    Disown,
    Failures,
    MemberAnnotations,
    RecordEvent,
    Seen,
    Step,
)
from kubewright.replicas.deployment.status import is_unreported, next_look, progress_reported, reported_counts
from kubewright.replicas.members import MemberIndex, owners_of
from kubewright.replicas.objects import (
    BY_UID,
    WITHOUT_CONTROLLER,
    AddFinalizer,
    D,
    M,
    NotCreated,
    RemoveFinalizer,
    S,
    SetObject,
    adopted,
    disowned,
    key_of,
    namespace_if_uncontrolled,
    reference,
    selecting,
)
from kubewright.replicas.writes import Doubts, Stale, error_of, may_adopt, run_parallel, stale_or
from kubewright.rollout.progress import Counts, best_of
from kubewright.runtime.controller import Controller, status_alone
from kubewright.runtime.events import Recorder
from kubewright.runtime.kernel import Effect, ObjectReconciler, Outcome
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.result import Result
from kubewright.wire.errors import AlreadyExists, ApiError, Conflict, NotFound, is_refusal, is_stale
from kubewright.wire.gvk import Key

OnSets = Adopt | Disown | ChangeSet | DeleteSets


class Deployments(ObjectReconciler[D, Seen[D, S, M], Plan[Step]], Generic[D, S, M]):
    """The reconciler of one API's deployments."""

    looks_again = True

    def __init__(
        self,
        policy: DeploymentPolicy[D, S, M],
        informers: Informers,
        recorder: Recorder,
        *,
        index: MemberIndex[Any, M],
    ) -> None:
        deployments = informers.get(policy.kind)
        super().__init__(informers.client, deployments, recorder.of(policy.component), pace=policy.pace)
        self.policy = policy
        self.sets: Informer[S] = informers.get(policy.set_kind)
        deployments.index(BY_UID, lambda deployment: (deployment.metadata.uid,))
        self.sets.index(BY_UID, lambda each: (each.metadata.uid,))
        self.sets.index(WITHOUT_CONTROLLER, namespace_if_uncontrolled)
        self.index = index
        self._witness = Witness(index.time)
        self._doubts = Doubts(self.client, deployments, self.sets)
        self._best: dict[Key, tuple[int, Counts]] = {}
        """The best counts reported of a rollout, with the deployment's generation; losing them costs writes,
        never safety."""
        self._latest: dict[Key, int] = {}
        """The generation of a deployment that the server has confirmed; losing it costs a request."""

    def forget(self, key: Key, uid: str) -> None:
        """The deployment is gone, or another one has its name."""
        self._best.pop(key, None)
        self._latest.pop(key, None)
        self._witness.forget(str(key))
        self._doubts.resolved(key)

    def resting(self, found: D) -> str:
        """As ``DeploymentPolicy.idle``."""
        return self.policy.idle(found)

    async def look(self, found: D) -> Seen[D, S, M]:
        """What the caches show, and whether that may be old."""
        return self.view(found, in_doubt=self._doubts.open(key_of(found), found.metadata.uid))

    def view(
        self, written: D, *, in_doubt: bool = False, not_created: NotCreated | None = None
    ) -> Seen[D, S, M]:
        """What is seen of one deployment, from caches."""
        key, meta = key_of(written), written.metadata
        reported = self._witness.since(str(key), progress_reported(written))
        generation, counts = self._best.get(key, (0, None))
        return look(
            self.policy,
            written,
            self.sets,
            self.index,
            wall=self.client.clock.now(),
            reported=reported,
            best=counts if generation == meta.generation else None,
            in_doubt=in_doubt,
            not_created=not_created,
        )

    def decide(self, seen: Seen[D, S, M]) -> Plan[Step]:
        """As ``decide.decide``."""
        return decide(seen)

    def closer(self, seen: Seen[D, S, M], plan: Plan[Step]) -> Awaitable[Seen[D, S, M]] | None:
        """What came of the last write, where the caches do not show it; and whether the deployment is the
        latest, before a set is made smaller for it."""
        if seen.in_doubt:
            return self._resolved(seen)
        unconfirmed = self._latest.get(seen.key) != seen.written.metadata.generation
        return self._confirmed(seen) if unconfirmed and any(map(_shrinks, plan.steps)) else None

    async def _confirmed(self, seen: Seen[D, S, M]) -> Seen[D, S, M]:
        """The same, if the server has no later generation of the deployment.

        Raises:
            Stale: it has, or has another object of this name.
            ApiError, TransportError: it could not be asked.
        """
        read = seen.written.metadata
        found = (await self.client.get(self.objects.kind, seen.key)).metadata
        if (found.uid, found.generation) != (read.uid, read.generation):
            raise Stale(f"{self.objects.kind.resource.kind} {read.name} has changed since it was read")
        self._latest[seen.key] = read.generation
        now = self.objects.get(seen.key)
        return seen if now is None else self.view(now)

    async def _resolved(self, seen: Seen[D, S, M]) -> Seen[D, S, M]:
        refused = await self._doubts.resolve(seen.key, seen.written.metadata.uid)
        now = self.objects.get(seen.key)
        return seen if now is None else self.view(now, not_created=refused)  # its end has enqueued the key

    async def carry_out(self, found: D, seen: Seen[D, S, M], plan: Plan[Step]) -> Result:
        """As ``ObjectReconciler.carry_out``; while members are in doubt the next pass comes soon.

        Raises:
            Stale: an object changed after this pass read it; the key's backoff applies.
            ApiError, TransportError: as there.
            PartlyFailed: a write of the plan failed, or a creation in doubt is refused now.
        """
        if any(seen.doubted.values()):
            plan = plan.sooner(delays.POLL)
        return await super().carry_out(found, seen, plan)

    def act(self, seen: Seen[D, S, M], step: Step, outcome: Outcome) -> Effect:
        """What performs a step."""
        match step:
            case AddFinalizer():
                finalizers = with_finalizer(seen.written.metadata.finalizers, self.policy.finalizer)
                return self._change_finalizers(seen, finalizers)
            case RemoveFinalizer():
                return self._let_go(seen, outcome)
            case ChangeDeployment(after):
                return self._patch(seen, self.objects.kind, seen.written, merge_patch(seen.written, after))
            case AnnotateMembers(members):
                return _together(run_parallel(members, self._annotate))
            case CreateSet(new):
                return self._create(seen, new, outcome)
            case NotCreated(new, error):
                self._tell_refusal(seen, new, error, outcome)
                outcome.wake = None
                return None
            case RecordEvent(reason, message, warning):
                self.recorder.event(seen.written, reason, message, warning=warning)
                return None
            case _:
                return self._on_sets(seen, step)

    def _on_sets(self, seen: Seen[D, S, M], step: OnSets) -> Effect:
        match step:
            case Adopt(sets):
                return self._adopt(seen, sets)
            case Disown(sets):
                return self._disown(seen, sets)
            case ChangeSet(before, after):
                return self._patch(seen, self.policy.set_kind, before, merge_patch(before, after))
            case DeleteSets(sets):
                return _together(run_parallel(sets, self._delete))

    def after_step(
        self, seen: Seen[D, S, M], step: Step, error: KubewrightError | None, outcome: Outcome
    ) -> bool:
        """An error ends the pass: at once where it says that our caches are behind or the server is busy, for
        then nothing has failed; else the status says first that something has."""
        if error is None:
            return not outcome.errors
        if isinstance(error.retry, After) and not is_refusal(error):
            raise error
        outcome.errors.append(error)
        outcome.wake = None
        return False

    async def look_again(self, found: D, seen: Seen[D, S, M], outcome: Outcome) -> Seen[D, S, M]:
        """What the caches show after the steps."""
        return self.view(found)

    def tell_problem(self, found: D, seen: Seen[D, S, M]) -> None:
        """Tell that the deployment is not valid."""
        reasons = self.policy.reasons
        wrong = reasons.selects_all if seen.selects_all else reasons.invalid
        self.reports.report_problem(found, wrong, "" if seen.deleting else seen.problem)

    def status(self, seen: Seen[D, S, M], plan: Plan[Step], outcome: Outcome) -> Any:
        """As ``DeploymentPolicy.status``."""
        create_error = next(iter(outcome.shown.values()), "")
        return self.policy.status(seen, Failures(create_error, failed=bool(outcome.errors)))

    def reported(self, seen: Seen[D, S, M], status: Any, outcome: Outcome, *, written: bool) -> None:
        """Remember the best counts reported of this rollout, so that reaching them again is no progress."""
        outcome.sooner(next_look(seen))
        if not written:
            return
        counts, key = reported_counts(status), seen.key
        best = counts if seen.best is None or is_unreported(seen) else best_of(seen.best, counts)
        self._best[key] = (seen.written.metadata.generation, best)
        if (after := self.objects.get(key)) is not None:
            outcome.sooner(next_look(self.view(after)))  # the first report starts the deadline

    def refused(self, about: D, error: ApiError) -> Result:
        """What came of the last write could not be asked, or the status not be written: the error says when
        that is tried again.

        Raises:
            ApiError: always.
        """
        raise error

    async def _change_finalizers(self, seen: Seen[D, S, M], finalizers: list[str]) -> None:
        patch = {"metadata": {"finalizers": finalizers or None}}
        await self._patch(seen, self.objects.kind, seen.written, patch)

    async def _let_go(self, seen: Seen[D, S, M], outcome: Outcome) -> None:
        finalizers = without_finalizer(seen.written.metadata.finalizers, self.policy.finalizer)
        await self._change_finalizers(seen, finalizers)
        outcome.gone = True

    async def _disown(self, seen: Seen[D, S, M], sets: Iterable[Object]) -> None:
        for each in sets:
            await self._patch(seen, self.policy.set_kind, each, disowned(each, seen.written))

    async def _patch(self, seen: Seen[D, S, M], kind: Kind[Any], read: Object, patch: Patch) -> None:
        """Write a difference onto exactly what was read."""
        if not patch:
            return
        self._doubts.writing(seen.key, kind, read)
        try:
            await self.client.patch(kind, key_of(read), onto(patch, read.metadata))
        except KubewrightError as error:
            if is_stale(error):
                what = f"{kind.resource.kind} {read.metadata.name}"
                raise Stale(f"{what} has changed since it was read") from None
            self._doubts.failed(seen.key, error)
            raise

    async def _adopt(self, seen: Seen[D, S, M], sets: Iterable[Object]) -> None:
        if not await may_adopt(self.client, self.objects.kind, seen.written):
            kind = self.objects.kind.resource.kind
            raise Stale(f"{kind} {seen.written.name} is gone, or is being deleted")
        ours = reference(seen.written, self.policy.kind)
        for each in sets:
            await self._patch(seen, self.policy.set_kind, each, adopted(each, ours))

    async def _annotate(self, change: MemberAnnotations) -> KubewrightError | None:
        member = change.member
        body = with_uid({"metadata": {"annotations": dict(change.annotations)}}, member.uid)
        error = await error_of(self.client.patch(self.policy.member_kind, member.key, body))
        return stale_or(error, f"{self.policy.words.member} {member.name}")

    async def _delete(self, each: Object) -> KubewrightError | None:
        """Delete exactly what was read: a set that was disowned since, to be kept, must not be deleted."""
        meta, version = each.metadata, each.metadata.resource_version
        delete = self.client.delete(
            self.policy.set_kind, key_of(each), uid=meta.uid, resource_version=version
        )
        error = await error_of(delete)
        if isinstance(error, NotFound) and error.names(meta.name):
            return None
        if isinstance(error, Conflict):  # it has changed: nothing else would wake us
            kind = self.policy.set_kind.resource.kind
            return Stale(f"{kind} {meta.name} has changed since it was chosen for deletion")
        return error

    async def _create(self, seen: Seen[D, S, M], new: SetObject, outcome: Outcome) -> None:
        """Create the current set. That the server refuses it is told."""
        kind: Kind[Any] = self.policy.set_kind
        self._doubts.creating(seen.key, new)
        try:
            await self.client.create(kind, new)
        except AlreadyExists:
            await self._collide(seen, new)
            raise Stale(f"the name that {kind.resource.kind} {new.name} was to have is taken") from None
        except KubewrightError as error:
            self._doubts.failed(seen.key, error)
            if not isinstance(error, ApiError):
                raise
            self._tell_refusal(seen, new, error, outcome)

    def _tell_refusal(self, seen: Seen[D, S, M], new: SetObject, error: ApiError, outcome: Outcome) -> None:
        """The server refuses to create the current set: users are told, and the status says it."""
        message = f'Failed to create new {self.policy.words.set} "{new.name}": {error}'
        self.recorder.event(seen.written, self.policy.reasons.create_error, message, warning=True)
        outcome.shown[new.name] = message
        outcome.errors.append(error)

    async def _collide(self, seen: Seen[D, S, M], wanted: SetObject) -> None:
        """Raise ``collisionCount``, unless our own set of this template has the name: then the cache lags."""
        try:
            found = await self.client.get(self.policy.set_kind, key_of(wanted))
        except NotFound as missing:
            if not missing.names(wanted.name):
                raise
            return
        owner, identity = found.metadata.controller, self.policy.identity
        ours = owner is not None and owner.uid == seen.written.metadata.uid
        same = identity(found.spec.template) == identity(wanted.spec.template)
        if ours and same and not found.metadata.deleting:
            return
        self._doubts.resolved(seen.key)
        error = await error_of(self._count_collision(seen.written))
        if error is not None and not is_stale(error):  # else the next pass sees what has become of it
            raise error

    async def _count_collision(self, deployment: D) -> None:
        meta, key = deployment.metadata, self.policy.metadata_keys.collisions
        if key:
            count = integer(meta.annotations, key) + 1
            body = onto({"metadata": {"annotations": {key: str(count)}}}, meta)
            await self.client.patch(self.objects.kind, key_of(deployment), body)
            return
        count = (deployment.status.collision_count or 0) + 1
        body = onto({"status": {"collisionCount": count}}, meta)  # in a status a uid alone is no condition
        await self.client.patch(self.objects.kind, key_of(deployment), body, subresource="status")

    def controller(self, metrics: Metrics | None = None) -> Controller:
        """Workers for this reconciler, listening to deployments, sets and facts about members."""
        controller = Controller(self.policy.name, self, self.client.clock, metrics=metrics)
        controller.watches(self.objects, self.reports.matters)
        controller.watches(
            self.sets, self.of_set, gather=lambda change: self.index.gather_seconds(0.0, _uid(change))
        )
        why = f"a {self.policy.words.member} has changed"
        self.index.wake(controller, self.of_member, delays.GATHER_FOR_DEPLOYMENT, why)
        return controller

    def of_member(self, before: M | None, after: M | None) -> set[Key]:
        """The deployments of the sets that a member belonged and belongs to, if they see a difference."""
        found: set[Key] = set()
        if before is not None and after is not None and self.policy.same_member(before, after):
            return found
        for uid in owners_of(before, after):
            for key in self.sets.keys_by(BY_UID, uid):
                header = self.sets.header(key)
                if header is not None and header.owner_uid:
                    found.update(self.objects.keys_by(BY_UID, header.owner_uid))
        return found

    def of_set(self, change: Change[S]) -> set[Key]:
        """The deployments that own a set before and after a change; for an orphan, those that select it.

        Of a set's status only conditions and the observed generation matter: a deployment counts the members
        themselves. Of a set that may create none it also matters that its controller has seen some leave.
        """
        if status_alone(change, self._same_status):
            return set()
        found: set[Key] = set()
        for header in (change.old, change.new):
            if header is not None and header.owner_uid:
                found.update(self.objects.keys_by(BY_UID, header.owner_uid))
        if change.new is not None and not change.new.owner_uid:
            deployments = map(self.policy.with_defaults, self.objects.list(change.key.namespace))
            found |= selecting(deployments, change.new.labels)
        return found

    def _same_status(self, before: S, after: S) -> bool:
        conditions, old, new = self.policy.set_conditions, before.status, after.status
        if self.policy.metadata_keys.is_frozen(after.metadata) and old.replicas != new.replicas:
            return False
        return conditions(before) == conditions(after) and old.observed_generation == new.observed_generation


async def _together(writes: Awaitable[list[KubewrightError]]) -> None:
    """Raise the error that is to be retried first; the next pass meets the others again."""
    if errors := await writes:
        raise first_to_return(errors)


def _uid(change: Change[S]) -> str:
    header = change.new or change.old
    return header.uid if header is not None else ""


def _shrinks(step: Step) -> bool:
    """Whether a step makes a set smaller."""
    return isinstance(step, ChangeSet) and step.after.spec.replicas < step.before.spec.replicas
