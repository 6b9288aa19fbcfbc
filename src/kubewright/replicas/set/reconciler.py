"""One set, one pass: look, decide, act, report. And what enqueues a set.

Theory.      A set is enqueued by its own spec and by facts about its members (``members``), and waits
             a moment for more of them, so that a burst of changes is one pass. After acting the
             pass looks again, and the status is of that second look: the cache shows our writes.
Called by    ``runtime.controller``; each world wires its own (``machines.machineset``).
"""

from collections.abc import Iterable
from typing import Generic

import structlog

from kubewright.base.errors import KubewrightError
from kubewright.base.limits import DOUBT_SECONDS
from kubewright.kube.cache import Change
from kubewright.kube.client import Client
from kubewright.kube.informer import Informer
from kubewright.kube.informers import Informers
from kubewright.kube.patches import exactly, merge_patch
from kubewright.replicas.claims import BY_UID, selecting
from kubewright.replicas.member import M, Obj, until_available
from kubewright.replicas.members import Members
from kubewright.replicas.objects import INVALID, S
from kubewright.replicas.pace import Pace
from kubewright.replicas.set.act import Actor
from kubewright.replicas.set.decide import decide
from kubewright.replicas.set.observe import Memory, Observer
from kubewright.replicas.set.outcome import Outcome
from kubewright.replicas.set.seen import Seen, SetSettings
from kubewright.replicas.set.world import SetWorld
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import Recorder
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.result import Result
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

SHOWN_ERRORS = 5

log = structlog.get_logger(__name__)


class Sets(Generic[S, M, Obj]):
    """The reconciler of one world's sets. ``index`` may be shared with the deployments of that world."""

    def __init__(
        self,
        world: SetWorld[S, M, Obj],
        client: Client,
        informers: Informers,
        recorder: Recorder,
        *,
        index: Members[Obj, M],
        settings: SetSettings | None = None,
    ) -> None:
        self.world = world
        self.settings = settings or SetSettings()
        self.sets: Informer[S] = informers.get(world.kind)
        self.sets.index(BY_UID, lambda found: (found.metadata.uid,))
        self.index = index
        owners = informers.get(world.owner) if world.owner is not None else None
        self._observer = Observer(world, index, owners, client.clock, self.settings)
        self._client = client
        self._clock = client.clock
        self._recorder = recorder
        self._teller = recorder.of(world.component)
        self._actor = Actor(world, client, index, self._teller, self.settings.concurrency)
        self._memories: dict[Key, tuple[str, Memory]] = {}
        self._reporting: set[Key] = set()

    async def reconcile(self, key: Key) -> Result:
        """One pass."""
        found = self.sets.get(key)
        if found is None:
            self._forget(key)
            return Result.done()
        memory = self._memory(key, found)
        seen = self._observer.look(found, memory, self._observer.pause(found, memory))
        plan = decide(seen)
        log.debug("plan", because=plan.because, steps=[type(step).__name__ for step in plan.steps])
        outcome = await self._actor.perform(seen, memory, plan)
        result = Result.later(plan.wake)
        if not outcome.gone:
            result = result.sooner(await self._report(key, memory, outcome))
        if self.index.doubted(found.metadata.uid):
            result = result.sooner(Result.later(DOUBT_SECONDS))
        if outcome.errors:
            raise self._as_one(outcome.errors)
        return result

    def _memory(self, key: Key, found: S) -> Memory:
        """What is remembered of this very set."""
        uid, memory = self._memories.get(key, ("", Memory()))
        if uid != found.metadata.uid:
            self._forget(key)
            memory = Memory(pace=Pace(self.settings.status_seconds))
            self._memories[key] = (found.metadata.uid, memory)
        self.index.creations.expire(found.metadata.uid, self._clock.monotonic())
        return memory

    def _forget(self, key: Key) -> None:
        uid, _ = self._memories.pop(key, ("", None))
        self.index.forget_owner(uid)

    async def _report(self, key: Key, memory: Memory, outcome: Outcome) -> Result:
        """Write the status when it says something new, but not too often; return when to look again."""
        found = self.sets.get(key)
        if found is None:
            return Result.done()
        seen = self._observer.look(found, memory)
        self._complain(seen, memory)
        result = Result.later(until_available(seen.members, found.spec.min_ready_seconds, seen.now))
        patch = merge_patch(found.status, status := self.world.status(seen, outcome.failure))
        if not patch:
            return result
        now = self._clock.monotonic()
        if (wait := memory.pace.wait(now)) > 0:
            return result.sooner(Result.later(wait))
        body = {"metadata": exactly(found.metadata), "status": patch}
        self._reporting.add(key)
        try:
            await self._client.patch(self.world.kind, key, body, subresource="status")
        except NotFound:
            return Result.done()
        finally:
            self._reporting.discard(key)
        memory.pace.wrote(now)  # not before: a refused write must not look like a good pass
        for told in self.world.announced(found, status):
            self._recorder.event(found, told.reason, told.message, component=told.component)
        return result

    def _complain(self, seen: Seen[S, M], memory: Memory) -> None:
        """Send one event about a set that is invalid, and another only when the problem is another."""
        if seen.problem and seen.problem != memory.complaint and not seen.deleting:
            self._teller.event(seen.set, INVALID, seen.problem, warning=True)
        memory.complaint = seen.problem

    def _as_one(self, errors: list[KubewrightError]) -> Exception:
        """One error as it is, several as a group; the controller obeys the retry that comes first."""
        many = f"{self.world.words.many} of a set"
        return errors[0] if len(errors) == 1 else ExceptionGroup(many, errors[:SHOWN_ERRORS])

    def controller(self, metrics: Metrics | None = None) -> Controller:
        """Workers for this reconciler, listening to sets and to facts about members."""
        workers = self.settings.workers
        controller = Controller(self.world.name, self, self._clock, workers=workers, metrics=metrics)
        controller.watches(self.sets, self._matters)
        why = f"a {self.world.words.one} has changed"

        def changed(before: M | None, after: M | None) -> None:
            owners = [member.owner_uid for member in (before, after) if member is not None]
            wait = self.index.gather_seconds(self.settings.gather_seconds, *owners)
            for key in sorted(self._sets_of(before, after), key=str):
                controller.enqueue(key, why, after=wait)

        self.index.listen(changed)
        return controller

    def _matters(self, change: Change[S]) -> Iterable[Key]:
        """The key; none for the status that a pass is writing just now. What others write is corrected."""
        return () if change.key in self._reporting and _same_but_status(change) else (change.key,)

    def _sets_of(self, before: M | None, after: M | None) -> set[Key]:
        """The sets that a member belonged and belongs to, or that might adopt it."""
        found: set[Key] = set()
        for member in (before, after):
            if member is not None and member.owner_uid:
                found |= self.sets.keys_by(BY_UID, member.owner_uid)
        if after is not None and not after.owner_uid:
            found |= selecting(self.sets.list(after.key.namespace), after.labels)
        return found


def _same_but_status(change: Change[S]) -> bool:
    old, new = change.old, change.new
    if old is None or new is None or old.uid != new.uid:
        return False
    if (old.generation, old.deleting, old.labels) != (new.generation, new.deleting, new.labels):
        return False
    before, after = change.before(), change.after()
    if before is None or after is None:
        return False
    mine, theirs = before.metadata, after.metadata
    return (mine.annotations, mine.finalizers) == (theirs.annotations, theirs.finalizers)
