"""Keeps the status of PodDisruptionBudgets: look, ``disruption.judge``, one patch.

Invariants.  The patch is bound to the version that was judged, since the API server spends
             ``disruptionsAllowed`` at the same time: on a conflict we look again.
Frugal.      No reads: everything comes from informers. An unchanged status is not written.
Called by    ``controllers`` of ``builtin``.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from kubewright.api.apps import DEPLOYMENT, REPLICA_SET, STATEFUL_SET
from kubewright.api.core import PDB, Pod, PodDisruptionBudget
from kubewright.api.diff import merge_patch
from kubewright.api.kinds import Kind
from kubewright.api.meta import OwnerReference
from kubewright.base.clock import rfc3339
from kubewright.builtin.disruption import Seen, Verdict, judge
from kubewright.kube.client import Client
from kubewright.kube.informer import Change, Informer
from kubewright.kube.patches import with_version
from kubewright.nodes.drain.budgets import selector_of
from kubewright.runtime.events import Recorder
from kubewright.runtime.mapping import spec_or_existence
from kubewright.runtime.result import Result
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

Json = dict[str, Any]

SCALED: tuple[Kind[Any], ...] = (REPLICA_SET, DEPLOYMENT, STATEFUL_SET)
"""Controllers of pods whose ``spec.replicas`` says how many pods there should be."""


class Budgets:
    """Reconciles budgets. ``scaled`` are the informers of ``SCALED``, by kind name."""

    def __init__(
        self,
        client: Client,
        budgets: Informer[PodDisruptionBudget],
        pods: Informer[Pod],
        scaled: dict[str, Informer[Any]],
        recorder: Recorder | None = None,
    ) -> None:
        self._client = client
        self._budgets = budgets
        self._pods = pods
        self._scaled = scaled
        self._recorder = recorder

    async def reconcile(self, key: Key) -> Result:
        """Judge one budget and write what changed."""
        budget = self._budgets.get(key)
        if budget is None or budget.metadata.deleting:
            return Result.done()
        pods = self._pods.list(key.namespace, selector=selector_of(budget))
        verdict = judge(Seen(budget, pods, self._scale(pods)), self._client.clock.now())
        await self._write(budget, verdict)
        return Result(verdict.wake)

    def of_pod(self, change: Change[Pod]) -> Iterable[Key]:
        """The budgets that select a changed pod, as it was or as it is."""
        labels = [side.labels for side in (change.old, change.new) if side is not None]
        for budget in self._budgets.by("namespace", change.key.namespace):
            selector = selector_of(budget)
            if any(selector.matches(each) for each in labels):
                yield Key(budget.namespace, budget.name)

    def of_scaled(self, change: Change[Any]) -> Iterable[Key]:
        """Every budget in the namespace of a controller whose scale changed."""
        if spec_or_existence(change):
            return self._budgets.keys_by("namespace", change.key.namespace)
        return ()

    def _scale(self, pods: Iterable[Pod]) -> int:
        """How many pods their controllers want; a pod without a known one counts as 1."""
        wanted: dict[str, int] = {}
        for pod in pods:
            owner = pod.metadata.controller
            source = self._source(pod.namespace, owner) if owner else None
            uid, replicas = source or (pod.metadata.uid, 1)
            wanted[uid] = replicas
        return sum(wanted.values())

    def _source(self, namespace: str, owner: OwnerReference) -> tuple[str, int] | None:
        """The uid of what decides how many pods there are, and the number; None when we do not know it."""
        informer = self._scaled.get(owner.kind)
        found = informer.get(Key(namespace, owner.name)) if informer else None
        if found is None or found.metadata.uid != owner.uid:
            return None
        above: OwnerReference | None = found.metadata.controller
        if owner.kind == "ReplicaSet" and above is not None:
            return self._source(namespace, above)
        return owner.uid, found.spec.replicas

    async def _write(self, budget: PodDisruptionBudget, verdict: Verdict) -> None:
        after = msgspec.structs.replace(budget, status=verdict.status)
        patch = merge_patch(budget, after)
        if not patch:
            return
        allowed = verdict.status.disruptions_allowed
        if budget.status.observed_generation == 0 or (allowed > 0) != (budget.status.disruptions_allowed > 0):
            patch["status"]["conditions"] = [self._condition(verdict)]
        try:
            key = Key(budget.namespace, budget.name)
            version = budget.metadata.resource_version
            await self._client.patch(PDB, key, with_version(patch, version), subresource="status")
        except NotFound:
            return
        for pod in verdict.not_deleted:
            self._say_not_deleted(budget, pod)

    def _condition(self, verdict: Verdict) -> Json:
        allowed = verdict.status.disruptions_allowed > 0
        return {
            "type": "DisruptionAllowed",
            "status": str(allowed),
            "reason": "SufficientPods" if allowed else "InsufficientPods",
            "message": "",
            "observedGeneration": verdict.status.observed_generation,
            "lastTransitionTime": rfc3339(self._client.clock.now()),
        }

    def _say_not_deleted(self, budget: PodDisruptionBudget, pod: str) -> None:
        if self._recorder is not None:
            message = (
                f"Pod was expected by PDB {budget.namespace}/{budget.name} to be deleted but it wasn't: {pod}"
            )
            self._recorder.event(budget, "NotDeleted", message, warning=True)
