"""Reconcile one set: look, decide, act, report. And what enqueues a set.

Theory.      A set is enqueued when its spec changes, and when facts about its members do (``members``), after
             a moment, so that a burst of changes is one pass. After acting the
             pass looks again, and the status is of that second look: the cache shows our writes.
Called by    ``runtime.controller``; each world wires its own (``machines.world``).
"""

from typing import Generic

from kubewright.base import delays
from kubewright.base.limits import DOUBT_SECONDS
from kubewright.kube.informer import Informer, Informers
from kubewright.replicas.member import M, Obj, until_available
from kubewright.replicas.members import MemberIndex, owners_of
from kubewright.replicas.objects import BY_UID, INVALID, S, selecting
from kubewright.replicas.set.act import Actor
from kubewright.replicas.set.decide import decide
from kubewright.replicas.set.look import Looker, Memory
from kubewright.replicas.set.policy import Failure, SetPolicy
from kubewright.replicas.set.seen import Seen
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import Recorder
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.passes import idle, planned
from kubewright.runtime.reports import Reports
from kubewright.runtime.result import Result
from kubewright.wire.gvk import Key


class Sets(Generic[S, M, Obj]):
    """The reconciler of one API's sets. ``index`` may be shared with the deployments of that API."""

    def __init__(
        self,
        policy: SetPolicy[S, M, Obj],
        informers: Informers,
        recorder: Recorder,
        *,
        index: MemberIndex[Obj, M],
    ) -> None:
        client = informers.client
        self.policy = policy
        self.sets: Informer[S] = informers.get(policy.kind)
        self.sets.index(BY_UID, lambda found: (found.metadata.uid,))
        self.index = index
        index.follow(self.sets)
        owners = informers.get(policy.owner) if policy.owner is not None else None
        self._looker = Looker(policy, index, owners, client.clock)
        self._clock = client.clock
        self._recorder = recorder
        events = recorder.of(policy.component)
        self._actor = Actor(policy, client, index, events)
        self._reports = Reports(client, policy.kind, events, policy.pace)
        self._memories: dict[Key, tuple[str, Memory]] = {}

    async def reconcile(self, key: Key) -> Result:
        """One pass."""
        found = self._read(key)
        if found is None:
            self._forget(key)
            return Result.done()
        if resting := self.policy.idle(found):
            self._reports.rest(key)
            idle(resting)
            return Result.done()
        memory = self._memory(key, found)
        seen = self._looker.look(found, memory, self._looker.pause(found, memory))
        plan = decide(seen)
        planned(plan)
        outcome = await self._actor.perform(seen, memory, plan)
        result = Result.later(plan.wake)
        if not outcome.gone:
            unchanged = None if plan.steps else seen
            result = result.sooner(await self._report(key, unchanged, memory, outcome.failure))
        if self.index.doubted(found.metadata.uid):
            result = result.sooner(Result.later(DOUBT_SECONDS))
        return result.unless(outcome.errors)

    def _read(self, key: Key) -> S | None:
        """The set with its defaults; None: there is none of this name."""
        found = self.sets.get(key)
        return None if found is None else self.policy.with_defaults(found)

    def _memory(self, key: Key, found: S) -> Memory:
        """What is remembered of this very set."""
        uid, memory = self._memories.get(key, ("", Memory()))
        if uid != found.metadata.uid:
            self._forget(key)
            memory = Memory()
            self._memories[key] = (found.metadata.uid, memory)
        self.index.creations.expire(found.metadata.uid, self._clock.monotonic())
        return memory

    def _forget(self, key: Key) -> None:
        uid, _ = self._memories.pop(key, ("", None))
        self.index.forget_owner(uid)
        self._reports.forget(key)
        self.policy.forget(key)

    async def _report(
        self, key: Key, seen: Seen[S, M] | None, memory: Memory, failure: Failure | None
    ) -> Result:
        """Write the status, and send the events that go with it; return when to look again.

        ``seen``: what there is; None: it has changed since this pass looked.
        """
        if seen is None:
            now = self._read(key)
            if now is None:
                return Result.done()
            seen = self._looker.look(now, memory)
        found = seen.set
        self._reports.report_problem(found, INVALID, "" if seen.deleting else seen.problem)
        status = self.policy.status(seen, failure)
        written, again = await self._reports.write(
            found.metadata, found.status, status, urgent=failure is not None
        )
        for event in self.policy.status_events(found, status) if written else ():
            self._recorder.event(found, event.reason, event.message, component=event.component)
        waits = until_available(seen.members, found.spec.min_ready_seconds, seen.now)
        return Result.later(waits).sooner(again)

    def controller(self, metrics: Metrics | None = None) -> Controller:
        """Workers for this reconciler, listening to sets and to facts about members."""
        controller = Controller(self.policy.name, self, self._clock, metrics=metrics)
        controller.watches(self.sets, self._reports.matters)
        why = f"a {self.policy.words.one} has changed"
        self.index.wake(controller, self._sets_of, delays.GATHER_FOR_SET, why)
        return controller

    def _sets_of(self, before: M | None, after: M | None) -> set[Key]:
        """The sets that a member belonged and belongs to, or that might adopt it."""
        found: set[Key] = set()
        for uid in owners_of(before, after):
            found.update(self.sets.keys_by(BY_UID, uid))
        if after is not None and not after.owner_uid:
            sets = map(self.policy.with_defaults, self.sets.list(after.key.namespace))
            found |= selecting(sets, after.labels)
        return found
