"""Reconcile one deployment: look, decide, act, report. And what enqueues a deployment.

Theory.      A deployment is enqueued when it changes, when one of its sets changes, and when facts about
             their members do (``replicas.members``). The last are gathered for a moment, because each
             pass may resize sets. After acting the pass looks again, and reports what it sees then.
Called by    ``runtime.controller``; each world wires its own (``machines.world``).
"""

from typing import Any, Generic

from kubewright.base import delays
from kubewright.base.errors import After, KubewrightError
from kubewright.base.plan import Plan
from kubewright.base.witness import Witness
from kubewright.kube.cache import Change
from kubewright.kube.informer import Informer, Informers
from kubewright.replicas.deployment.act import Actor
from kubewright.replicas.deployment.decide import decide
from kubewright.replicas.deployment.look import look
from kubewright.replicas.deployment.policy import DeploymentPolicy
from kubewright.replicas.deployment.seen import Outcome, Seen
from kubewright.replicas.deployment.status import is_unreported, next_look, progress_reported, reported_counts
from kubewright.replicas.member import M
from kubewright.replicas.members import MemberIndex, owners_of
from kubewright.replicas.objects import (
    BY_UID,
    WITHOUT_CONTROLLER,
    D,
    RemoveFinalizer,
    S,
    namespace_if_uncontrolled,
    selecting,
)
from kubewright.replicas.writes import Doubts, Refused
from kubewright.rollout.progress import Counts, best_of
from kubewright.runtime.controller import Controller, status_alone
from kubewright.runtime.events import Recorder
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.passes import idle, planned
from kubewright.runtime.reports import Reports
from kubewright.runtime.result import Result
from kubewright.wire.errors import is_refusal
from kubewright.wire.gvk import Key


class Deployments(Generic[D, S, M]):
    """The reconciler of one API's deployments."""

    def __init__(
        self,
        policy: DeploymentPolicy[D, S, M],
        informers: Informers,
        recorder: Recorder,
        *,
        index: MemberIndex[Any, M],
    ) -> None:
        client, events = informers.client, recorder.of(policy.component)
        self.policy = policy
        self.deployments: Informer[D] = informers.get(policy.kind)
        self.sets: Informer[S] = informers.get(policy.set_kind)
        self.deployments.index(BY_UID, lambda deployment: (deployment.metadata.uid,))
        self.sets.index(BY_UID, lambda each: (each.metadata.uid,))
        self.sets.index(WITHOUT_CONTROLLER, namespace_if_uncontrolled)
        self.index = index
        self._witness = Witness(index.time)
        self._clock = client.clock
        self._doubts = Doubts(client, self.deployments, self.sets)
        self._actor = Actor(policy, client, events, self._doubts)
        self._reports = Reports(client, policy.kind, events, policy.pace)
        self._best: dict[Key, tuple[str, int, Counts]] = {}
        """The best counts reported of a rollout, with the deployment's uid and generation; losing them costs
        writes, never safety."""

    async def reconcile(self, key: Key) -> Result:
        """One pass.

        Raises:
            Stale: an object changed after this pass read it; the key's backoff applies.
            KubewrightError: a write before the plan was made failed.
            PartlyFailed: a write of the plan failed, or a creation in doubt is refused now.
        """
        deployment = self.deployments.get(key)
        if deployment is None:
            self._forget(key)
            return Result.done()
        if resting := self.policy.idle(deployment):
            self._reports.rest(key)
            idle(resting)
            return Result.done()
        refused = await self._doubts.resolve(key, deployment.metadata.uid)
        if (seen := self.look(key)) is None:
            return Result.done()  # its end has enqueued the key
        if refused is not None:
            return await self._not_created(seen, refused)
        plan = decide(seen)
        planned(plan)
        try:
            outcome = await self._actor.perform(seen, plan)
        except KubewrightError as error:
            if isinstance(error.retry, After) and not is_refusal(error):
                raise  # our caches are behind, or the server is busy: nothing has failed
            reported = await self._report(key, None, Outcome(failed=True))
            return reported.unless([error])
        if any(isinstance(step, RemoveFinalizer) for step in plan.steps):
            return Result.done()
        result = await self._report(key, None if plan.steps else seen, outcome)
        if any(seen.doubted.values()):
            result = result.sooner(Result.later(delays.POLL))
        return result.sooner(Result.later(plan.wake)).unless([outcome.error] if outcome.error else [])

    async def _not_created(self, seen: Seen[D, S, M], refused: Refused) -> Result:
        """Report a creation in doubt that the server has refused now; it stays in doubt."""
        planned(Plan(because=f"a creation without an answer: {refused.new.name}"))
        outcome = self._actor.not_created(seen, refused.new, refused.error)
        return (await self._report(seen.key, seen, outcome)).unless([refused.error])

    def _forget(self, key: Key) -> None:
        """The deployment is gone."""
        self._best.pop(key, None)
        self._reports.forget(key)
        self._witness.forget(str(key))
        self._doubts.resolved(key)

    def look(self, key: Key) -> Seen[D, S, M] | None:
        """What is seen of one deployment, from caches; None if there is none."""
        deployment = self.deployments.get(key)
        if deployment is None:
            return None
        reported = self._witness.since(str(key), progress_reported(deployment))
        uid, generation, counts = self._best.get(key, ("", 0, None))
        mine = (uid, generation) == (deployment.metadata.uid, deployment.metadata.generation)
        wall, best = self._clock.now(), counts if mine else None
        return look(self.policy, deployment, self.sets, self.index, wall=wall, reported=reported, best=best)

    async def _report(self, key: Key, seen: Seen[D, S, M] | None, outcome: Outcome) -> Result:
        """Write the status, and send an event about a problem; return when to look again.

        ``seen``: what there is; None: it has changed since this pass looked.
        """
        seen = self.look(key) if seen is None else seen
        if seen is None:
            return Result.done()
        self._report_problem(seen)
        status = self.policy.status(seen, outcome)
        written, again = await self._reports.write(
            seen.written.metadata, seen.written.status, status, urgent=outcome.failed
        )
        result = again.sooner(Result.later(next_look(seen)))
        if written:
            self._remember(seen, reported_counts(status))
            after = self.look(key)  # the first report starts the deadline
            result = result.sooner(Result.later(next_look(after) if after is not None else None))
        return result

    def _remember(self, seen: Seen[D, S, M], counts: Counts) -> None:
        """Remember the best counts reported of this rollout, so that reaching them again is no progress."""
        meta = seen.written.metadata
        best = counts if seen.best is None or is_unreported(seen) else best_of(seen.best, counts)
        self._best[seen.key] = (meta.uid, meta.generation, best)

    def _report_problem(self, seen: Seen[D, S, M]) -> None:
        """Send an event about a deployment that is invalid."""
        reasons = self.policy.reasons
        wrong = reasons.selects_all if seen.selects_all else reasons.invalid
        self._reports.report_problem(seen.written, wrong, "" if seen.deleting else seen.problem)

    def controller(self, metrics: Metrics | None = None) -> Controller:
        """Workers for this reconciler, listening to deployments, sets and facts about members."""
        controller = Controller(self.policy.name, self, self._clock, metrics=metrics)
        controller.watches(self.deployments, self._reports.matters)
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
                    found.update(self.deployments.keys_by(BY_UID, header.owner_uid))
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
                found.update(self.deployments.keys_by(BY_UID, header.owner_uid))
        if change.new is not None and not change.new.owner_uid:
            deployments = map(self.policy.with_defaults, self.deployments.list(change.key.namespace))
            found |= selecting(deployments, change.new.labels)
        return found

    def _same_status(self, before: S, after: S) -> bool:
        conditions, old, new = self.policy.set_conditions, before.status, after.status
        if self.policy.metadata_keys.is_frozen(after.metadata) and old.replicas != new.replicas:
            return False
        return conditions(before) == conditions(after) and old.observed_generation == new.observed_generation


def _uid(change: Change[S]) -> str:
    header = change.new or change.old
    return header.uid if header is not None else ""
