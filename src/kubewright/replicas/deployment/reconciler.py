"""Reconcile one deployment: look, decide, act, report. And what enqueues a deployment.

Theory.      A deployment is enqueued when it changes, when one of its sets changes, and when facts about
             their members do (``replicas.members``). The last are gathered for a moment, because each
             pass may resize sets. After acting the pass looks again, and reports what it sees then.
Called by    ``runtime.controller``; each world wires its own (``machines.deployment``).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic

import structlog

from kubewright.api.meta import Object
from kubewright.base.errors import After, KubewrightError
from kubewright.base.witness import Witness
from kubewright.kube.cache import Change
from kubewright.kube.client import Client
from kubewright.kube.informer import Informer
from kubewright.kube.informers import Informers
from kubewright.kube.patches import exactly, merge_patch
from kubewright.replicas.claims import BY_UID, WITHOUT_OWNER, namespace_of_orphans, selecting
from kubewright.replicas.deployment.act import Actor
from kubewright.replicas.deployment.decide import decide
from kubewright.replicas.deployment.observe import observe
from kubewright.replicas.deployment.progress import begins, progress_reported, reported_counts
from kubewright.replicas.deployment.seen import Seen
from kubewright.replicas.deployment.status import next_look
from kubewright.replicas.deployment.steps import LetGo, Outcome
from kubewright.replicas.deployment.world import D, DeploymentWorld
from kubewright.replicas.doubts import Doubts
from kubewright.replicas.member import M
from kubewright.replicas.members import Members
from kubewright.replicas.objects import S
from kubewright.replicas.pace import Pace
from kubewright.rollout.progress import Counts, best_of
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import Recorder
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.result import Result
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

DOUBT_POLL_SECONDS = 5.0
"""How soon to look again while the creation of a member is in doubt: no event says when the doubt expires."""

RETRY_SECONDS = 1.0
"""Pause after a set could not be created; the condition says why meanwhile."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class DeploymentSettings:
    """What an operator may set for all deployments of a world. Times are in seconds."""

    concurrency: int = 32
    """Requests of one pass in flight."""

    status_seconds: float = 0.5
    """Least time between two status writes of one deployment; the last state is always written."""

    gather_seconds: float = 0.05
    """How long a member's change waits for others before its deployment looks: each look may resize sets,
    and each resize is a write."""

    workers: int = 10


@dataclass(slots=True)
class _Memory:
    """What a process remembers of one deployment between passes; losing it costs writes, never safety.

    ``complaint`` is the problem of the last event, with the deployment's uid. ``best`` holds the best counts
    reported of a rollout, with the deployment's uid and generation.
    """

    pace: Pace
    complaint: tuple[str, str] = ("", "")
    best: tuple[str, int, Counts | None] = ("", 0, None)


class Deployments(Generic[D, S, M]):
    """The reconciler of a world's deployments."""

    def __init__(
        self,
        world: DeploymentWorld[D, S, M],
        client: Client,
        informers: Informers,
        recorder: Recorder,
        *,
        index: Members[Any, M],
        settings: DeploymentSettings | None = None,
    ) -> None:
        self.world = world
        self.settings = settings or DeploymentSettings()
        self.deployments: Informer[D] = informers.get(world.kind)
        self.sets: Informer[S] = informers.get(world.set_kind)
        self.deployments.index(BY_UID, lambda deployment: (deployment.metadata.uid,))
        self.sets.index(BY_UID, lambda each: (each.metadata.uid,))
        self.sets.index(WITHOUT_OWNER, namespace_of_orphans)
        self.index = index
        self._witness = Witness(index.clock)
        self._client = client
        self._teller = recorder.of(world.component)
        self._clock = client.clock
        self._doubts = Doubts(client, self.deployments, self.sets)
        self._actor = Actor(world, client, self._teller, self._doubts, self.settings.concurrency)
        self._memories: dict[Key, _Memory] = {}
        self._reporting: set[Key] = set()

    async def reconcile(self, key: Key) -> Result:
        """One pass.

        Raises:
            Stale: an object changed after this pass read it; the key's backoff applies.
            KubewrightError: a write failed.
        """
        await self._doubts.settle(key)
        seen = self._look(key)
        if seen is None:
            self._memories.pop(key, None)
            self._witness.forget(str(key))
            return Result.done()
        plan = decide(seen)
        log.debug("plan", because=plan.because, steps=[type(step).__name__ for step in plan.steps])
        try:
            outcome = await self._actor.perform(seen, plan)
        except KubewrightError as error:
            if not isinstance(error.retry, After):  # After: only our caches are late
                await self._report(key, Outcome(failed=True))
            raise
        if any(isinstance(step, LetGo) for step in plan.steps):
            return Result.done()
        result = await self._report(key, outcome)
        if any(seen.doubted.values()):
            result = result.sooner(Result.later(DOUBT_POLL_SECONDS))
        if outcome.failed:
            return result.sooner(Result.later(RETRY_SECONDS))
        return Result.later(plan.wake) if plan.wake is not None else result

    def _memory(self, key: Key) -> _Memory:
        return self._memories.setdefault(key, _Memory(Pace(self.settings.status_seconds)))

    def _look(self, key: Key) -> Seen[D, S, M] | None:
        deployment = self.deployments.get(key)
        if deployment is None:
            return None
        reported = self._witness.since(str(key), progress_reported(deployment))
        uid, generation, best = self._memory(key).best
        mine = (uid, generation) == (deployment.metadata.uid, deployment.metadata.generation)
        wall, best = self._clock.now(), best if mine else None
        return observe(self.world, deployment, self.sets, self.index, wall=wall, reported=reported, best=best)

    async def _report(self, key: Key, outcome: Outcome) -> Result:
        """Write the status when it says something new, but not too often; return when to look again."""
        seen = self._look(key)
        if seen is None:
            return Result.done()
        memory = self._memory(key)
        self._complain(seen, memory)
        status = self.world.status(seen, outcome)
        result, patch = Result.later(next_look(seen)), merge_patch(seen.written.status, status)
        if not patch:
            return result
        now = self._clock.monotonic()
        if (due := memory.pace.wait(now)) > 0:
            return result.sooner(Result.later(due))
        body: dict[str, Any] = {"metadata": exactly(seen.written.metadata), "status": patch}
        self._reporting.add(key)
        try:
            await self._client.patch(self.world.kind, key, body, subresource="status")
        except NotFound:
            return Result.done()
        finally:
            self._reporting.discard(key)
        memory.pace.wrote(now)  # not before: a refused write does not count
        self._remember(seen, memory, reported_counts(status))
        after = self._look(key)  # the first report starts the deadline
        return result.sooner(Result.later(next_look(after))) if after is not None else Result.done()

    def _remember(self, seen: Seen[D, S, M], memory: _Memory, counts: Counts) -> None:
        """Remember the best counts reported of this rollout, so that reaching them again is no progress."""
        meta = seen.written.metadata
        best = counts if seen.best is None or begins(seen) else best_of(seen.best, counts)
        memory.best = (meta.uid, meta.generation, best)

    def _complain(self, seen: Seen[D, S, M], memory: _Memory) -> None:
        """Send one event about a deployment that is invalid, or asks for a rollout that is not supported."""
        reasons, problem = self.world.reasons, "" if seen.deleting else seen.problem or seen.refused
        complaint = (seen.written.metadata.uid, problem)
        if problem and memory.complaint != complaint:
            wrong = reasons.selects_all if seen.selects_all else reasons.invalid
            reason = wrong if seen.problem else reasons.refused
            self._teller.event(seen.written, reason, problem, warning=True)
        memory.complaint = complaint

    def controller(self, metrics: Metrics | None = None) -> Controller:
        """Workers for this reconciler, listening to deployments, sets and facts about members."""
        workers, index = self.settings.workers, self.index
        controller = Controller(self.world.name, self, self._clock, workers=workers, metrics=metrics)
        controller.watches(self.deployments, self._matters)
        controller.watches(
            self.sets, self._of_set, gather=lambda change: index.gather_seconds(0.0, _uid(change))
        )
        why = f"a {self.world.words.member} has changed"

        def changed(before: M | None, after: M | None) -> None:
            owners = [member.owner_uid for member in (before, after) if member is not None]
            wait = index.gather_seconds(self.settings.gather_seconds, *owners)
            for key in sorted(self._of_members(owners), key=str):
                controller.enqueue(key, why, after=wait)

        index.listen(changed)
        return controller

    def _matters(self, change: Change[D]) -> Iterable[Key]:
        """The key; none for the status that a pass is writing just now. What others write is corrected."""
        return () if change.key in self._reporting and _of_status_alone(change) else (change.key,)

    def _of_members(self, set_uids: Iterable[str]) -> set[Key]:
        """The deployments of the sets that a member belonged and belongs to."""
        found: set[Key] = set()
        for uid in filter(None, set_uids):
            for key in self.sets.keys_by(BY_UID, uid):
                header = self.sets.header(key)
                if header is not None and header.owner_uid:
                    found |= self.deployments.keys_by(BY_UID, header.owner_uid)
        return found

    def _of_set(self, change: Change[S]) -> set[Key]:
        """The deployments that own a set before and after a change; for an orphan, those that select it.

        Of a set's status only conditions and the observed generation matter: a deployment counts the members
        themselves.
        """
        before, after = change.before(), change.after()
        if before is not None and after is not None and _same_but_status(before, after):
            conditions = self.world.set_conditions
            same = before.status.observed_generation == after.status.observed_generation
            if same and conditions(before) == conditions(after):
                return set()
        found: set[Key] = set()
        for header in (change.old, change.new):
            if header is not None and header.owner_uid:
                found |= self.deployments.keys_by(BY_UID, header.owner_uid)
        if change.new is not None and not change.new.owner_uid:
            found |= selecting(self.deployments.list(change.key.namespace), change.new.labels)
        return found


def _uid(change: Change[S]) -> str:
    header = change.new or change.old
    return header.uid if header is not None else ""


def _of_status_alone(change: Change[D]) -> bool:
    before, after = change.before(), change.after()
    if before is None or after is None or before.metadata.uid != after.metadata.uid:
        return False
    return _same_but_status(before, after)


def _same_but_status(before: Object, after: Object) -> bool:
    mine, theirs = before.metadata, after.metadata
    if mine.generation != theirs.generation or mine.deletion_timestamp != theirs.deletion_timestamp:
        return False
    return (mine.labels, mine.annotations, mine.finalizers, mine.owner_references) == (
        theirs.labels,
        theirs.annotations,
        theirs.finalizers,
        theirs.owner_references,
    )
