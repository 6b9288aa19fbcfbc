"""Reconcile one deployment: look, decide, act, report. And what enqueues a deployment.

Theory.      A deployment is enqueued when it changes, when one of its sets changes, and when facts about
             their machines do (``machineset.members``). The last are gathered for a moment, because each
             pass may resize sets. After acting the pass looks again, and reports what it sees then.
Called by    ``runtime.controller``; the composition root calls ``wire``.
"""

from collections.abc import Iterable
from typing import Any

import structlog

from kubewright.api.machine import names
from kubewright.api.machine.names import ConditionReason, EventReason
from kubewright.api.machine.v1alpha1 import (
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    MachineDeployment,
    MachineSet,
)
from kubewright.base.clock import Clock
from kubewright.base.errors import After, KubewrightError
from kubewright.base.witness import Witness
from kubewright.kube.changes import Change
from kubewright.kube.client import Client
from kubewright.kube.informer import Informer
from kubewright.kube.informers import Informers
from kubewright.kube.patches import exactly, merge_patch
from kubewright.machines.deployment.act import Actor
from kubewright.machines.deployment.decide import decide
from kubewright.machines.deployment.doubts import Doubts
from kubewright.machines.deployment.observe import Seen, observe
from kubewright.machines.deployment.progress import News, begins, progress_reported, told_counts
from kubewright.machines.deployment.settings import DeploymentSettings
from kubewright.machines.deployment.status import deployment_status, next_look
from kubewright.machines.deployment.steps import LetGo
from kubewright.machines.machineset.member import MachineMember, MachineMembers, members_of
from kubewright.machines.parts import Parts
from kubewright.replicas.claims import BY_UID, WITHOUT_OWNER, namespace_of_orphans, read_selector
from kubewright.replicas.objects import INVALID
from kubewright.replicas.pace import Pace
from kubewright.rollout.progress import Counts, best_of
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import Recorder
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.result import Result
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

DOUBT_SECONDS = 5.0
"""How soon to look again while a creation of a machine is unanswered: no event ends the doubt."""

RETRY_SECONDS = 1.0
"""Pause after a set could not be created; the condition says why meanwhile."""

log = structlog.get_logger(__name__)


class MachineDeployments:
    """The reconciler of MachineDeployments."""

    def __init__(
        self,
        client: Client,
        informers: Informers,
        recorder: Recorder,
        clock: Clock,
        settings: DeploymentSettings | None = None,
        *,
        index: MachineMembers | None = None,
    ) -> None:
        self.settings = settings or DeploymentSettings()
        self.deployments: Informer[MachineDeployment] = informers.get(MACHINE_DEPLOYMENT)
        self.sets: Informer[MachineSet] = informers.get(MACHINE_SET)
        self.deployments.index(BY_UID, lambda deployment: (deployment.metadata.uid,))
        self.sets.index(BY_UID, lambda each: (each.metadata.uid,))
        self.sets.index(WITHOUT_OWNER, namespace_of_orphans)
        self.index = index or members_of(informers.get(MACHINE), client.steady())
        self._witness = Witness(self.index.clock)
        self._client = client
        self._recorder = recorder.of(names.DEPLOYMENT_COMPONENT)
        self._clock = clock
        self._doubts = Doubts(client, self.deployments, self.sets)
        self._actor = Actor(client, self._recorder, self._doubts, self.settings.concurrency)
        self._paces: dict[Key, Pace] = {}
        self._reporting: set[Key] = set()
        self._told: dict[Key, tuple[str, str]] = {}
        self._best: dict[Key, tuple[str, int, Counts]] = {}
        """The best counts reported of a rollout, with the deployment's uid and generation."""

    async def reconcile(self, key: Key) -> Result:
        """One pass.

        Raises:
            Stale: an object changed after this pass read it; the key's backoff applies.
            KubewrightError: a write failed.
        """
        await self._doubts.settle(key)
        seen = self._look(key)
        if seen is None:
            self._paces.pop(key, None)
            self._told.pop(key, None)
            self._best.pop(key, None)
            self._witness.forget(str(key))
            return Result.done()
        plan = decide(seen)
        log.debug("plan", because=plan.because, steps=[type(step).__name__ for step in plan.steps])
        try:
            news = await self._actor.perform(seen, plan)
        except KubewrightError as error:
            if not isinstance(error.retry, After):  # After: only our caches are late
                await self._report(key, News(failed=True))
            raise
        if any(isinstance(step, LetGo) for step in plan.steps):
            return Result.done()
        result = await self._report(key, news)
        if any(seen.doubted.values()):
            result = result.sooner(Result.later(DOUBT_SECONDS))
        if news.failed:
            return result.sooner(Result.later(RETRY_SECONDS))
        return Result.later(0.0) if plan.again else result

    def _look(self, key: Key) -> Seen | None:
        deployment = self.deployments.get(key)
        if deployment is None:
            return None
        reported = self._witness.since(str(key), progress_reported(deployment))
        told = (reported, self._best_of(deployment))
        return observe(deployment, self.sets, self.index, self._clock.now(), told)

    def _best_of(self, deployment: MachineDeployment) -> Counts | None:
        meta = deployment.metadata
        uid, generation, counts = self._best.get(Key(meta.namespace, meta.name), ("", 0, None))
        return counts if (uid, generation) == (meta.uid, meta.generation) else None

    async def _report(self, key: Key, news: News) -> Result:
        """Write the status when it says something new, but not too often; return when to look again."""
        seen = self._look(key)
        if seen is None:
            return Result.done()
        self._complain(seen)
        result, patch = _next(seen), merge_patch(seen.written.status, status := deployment_status(seen, news))
        if not patch:
            return result
        pace = self._paces.setdefault(key, Pace(self.settings.status_seconds))
        now = self._clock.monotonic()
        if (due := pace.wait(now)) > 0:
            return result.sooner(Result.later(due))
        body: dict[str, Any] = {"metadata": exactly(seen.written.metadata), "status": patch}
        self._reporting.add(key)
        try:
            await self._client.patch(MACHINE_DEPLOYMENT, key, body, subresource="status")
        except NotFound:
            return Result.done()
        finally:
            self._reporting.discard(key)
        pace.wrote(now)  # not before: a refused write does not count
        self._has_told(seen, told_counts(status))
        after = self._look(key)  # the first report starts the deadline
        return result.sooner(_next(after)) if after is not None else Result.done()

    def _has_told(self, seen: Seen, counts: Counts) -> None:
        """Remember the best counts reported of this rollout, so that reaching them again is no progress."""
        meta = seen.written.metadata
        best = counts if seen.best is None or begins(seen) else best_of(seen.best, counts)
        self._best[seen.key] = (meta.uid, meta.generation, best)

    def when_it_matters(self, change: Change[MachineDeployment]) -> Iterable[Key]:
        """The key; none for the status that a pass is writing just now. What others write is corrected."""
        return () if change.key in self._reporting and _of_status_alone(change) else (change.key,)

    def _complain(self, seen: Seen) -> None:
        """Send one event about a deployment that is invalid, or asks for a rollout that is not supported."""
        problem = "" if seen.deleting else seen.problem or seen.refused
        told = (seen.written.metadata.uid, problem)
        if problem and self._told.get(seen.key) != told:
            wrong = EventReason.SELECTING_ALL if seen.selects_all else INVALID
            reason = wrong if seen.problem else ConditionReason.IN_PLACE_UPDATE_UNSUPPORTED
            self._recorder.event(seen.written, reason, told[1], warning=True)
        self._told[seen.key] = told


def wire(
    parts: Parts, settings: DeploymentSettings | None = None, *, index: MachineMembers | None = None
) -> Controller:
    """The controller of MachineDeployments; ``index`` is the one that the controller of sets has."""
    deployments = MachineDeployments(
        parts.control, parts.control_caches, parts.recorder, parts.clock, settings, index=index
    )
    return controller_of(deployments, parts.clock, parts.metrics)


def controller_of(
    deployments: MachineDeployments, clock: Clock, metrics: Metrics | None = None
) -> Controller:
    """Workers for a reconciler, listening to deployments, sets and facts about machines."""
    settings = deployments.settings
    controller = Controller(
        "machinedeployment", deployments, clock, workers=settings.workers, metrics=metrics
    )
    controller.watches(deployments.deployments, deployments.when_it_matters)
    controller.watches(
        deployments.sets,
        lambda change: _of_set(deployments.deployments, change),
        gather=lambda change: deployments.index.gather_seconds(0.0, _uid(change)),
    )

    def told(before: MachineMember | None, after: MachineMember | None) -> None:
        owners = [member.owner_uid for member in (before, after) if member is not None]
        wait = deployments.index.gather_seconds(settings.gather_seconds, *owners)
        for key in sorted(deployments_of(deployments, before, after), key=str):
            controller.enqueue(key, "a machine has changed", after=wait)

    deployments.index.listen(told)
    return controller


def _uid(change: Change[MachineSet]) -> str:
    header = change.new or change.old
    return header.uid if header is not None else ""


def deployments_of(
    deployments: MachineDeployments, before: MachineMember | None, after: MachineMember | None
) -> set[Key]:
    """The deployments of the sets that a machine belonged and belongs to."""
    found: set[Key] = set()
    for member in (before, after):
        if member is None or not member.owner_uid:
            continue
        for key in deployments.sets.keys_by(BY_UID, member.owner_uid):
            header = deployments.sets.header(key)
            if header is not None and header.owner_uid:
                found |= deployments.deployments.keys_by(BY_UID, header.owner_uid)
    return found


def _next(seen: Seen) -> Result:
    wait = next_look(seen)
    return Result.later(wait) if wait is not None else Result.done()


def _of_status_alone(change: Change[MachineDeployment]) -> bool:
    before, after = change.before(), change.after()
    if before is None or after is None or before.metadata.uid != after.metadata.uid:
        return False
    return _same_but_status(before, after)


def _of_set(deployments: Informer[MachineDeployment], change: Change[MachineSet]) -> set[Key]:
    """The deployments that own a set before and after a change; for an orphan, those that select it.

    Of a set's status only conditions and the observed generation matter: a deployment counts the machines
    themselves.
    """
    before, after = change.before(), change.after()
    if before is not None and after is not None and _same_but_status(before, after):
        told = (after.status.machine_set_condition, after.status.observed_generation)
        if told == (before.status.machine_set_condition, before.status.observed_generation):
            return set()
    found: set[Key] = set()
    for header in (change.old, change.new):
        if header is not None and header.owner_uid:
            found |= deployments.keys_by(BY_UID, header.owner_uid)
    if change.new is not None and not change.new.owner_uid:
        found |= {
            Key(each.namespace, each.name)
            for each in deployments.list(change.key.namespace)
            if read_selector(each.spec.selector)[0].matches(change.new.labels)
        }
    return found


def _same_but_status(before: MachineDeployment | MachineSet, after: MachineDeployment | MachineSet) -> bool:
    mine, theirs = before.metadata, after.metadata
    if mine.generation != theirs.generation or mine.deletion_timestamp != theirs.deletion_timestamp:
        return False
    return (mine.labels, mine.annotations, mine.finalizers, mine.owner_references) == (
        theirs.labels,
        theirs.annotations,
        theirs.finalizers,
        theirs.owner_references,
    )
