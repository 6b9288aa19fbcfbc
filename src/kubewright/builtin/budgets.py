"""Keeps the status of PodDisruptionBudgets: look, ``disruption.judge``, one patch.

Invariants.  The patch is bound to the version that was judged, since the API server spends
             ``disruptionsAllowed`` at the same time: on a conflict we look again. A budget whose pods cannot
             be counted allows nothing, and its condition says why (``SyncFailed``).
Frugal.      No reads for pods without owners, or of Deployments, ReplicaSets and StatefulSets: everything
             comes from informers. An unchanged status is not written.
Called by    ``controllers`` of ``builtin``.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from kubewright.api.apps import DEPLOYMENT, REPLICA_SET, STATEFUL_SET
from kubewright.api.conditions import with_json_conditions
from kubewright.api.core import PDB, Pod, PodDisruptionBudget
from kubewright.api.diff import merge_patch
from kubewright.api.kinds import Kind
from kubewright.base.clock import rfc3339
from kubewright.builtin.disruption import Seen, Verdict, counts_scales, failed, judge
from kubewright.builtin.scales import NoScale, Scales, Wanted
from kubewright.kube.client import Client
from kubewright.kube.informer import Change, Informer
from kubewright.kube.patches import with_version
from kubewright.nodes.drain.budgets import selector_of
from kubewright.runtime.controller import spec_or_existence
from kubewright.runtime.events import Recorder
from kubewright.runtime.result import Result
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

Json = dict[str, Any]

SCALED: tuple[Kind[Any], ...] = (REPLICA_SET, DEPLOYMENT, STATEFUL_SET)
"""Controllers of pods whose ``spec.replicas`` says how many pods there should be."""

_UNMANAGED = (
    "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the "
    "status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account "
    'for these pods please set ".spec.minAvailable" field of the PDB to an integer value.'
)


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
        self._scales = Scales(client, scaled)
        self._recorder = recorder

    async def reconcile(self, key: Key) -> Result:
        """Judge one budget and write what changed."""
        budget = self._budgets.get(key)
        if budget is None or budget.metadata.deleting:
            return Result.done()
        pods = self._pods.list(key.namespace, selector=selector_of(budget))
        try:
            wanted = await self._scales.of(pods) if counts_scales(budget) else Wanted(0)
        except NoScale as error:
            verdict = failed(budget, str(error), error.retry.seconds)
        else:
            seen = Seen(budget, pods, wanted.replicas, wanted.unmanaged)
            verdict = judge(seen, self._client.clock.now())
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

    async def _write(self, budget: PodDisruptionBudget, verdict: Verdict) -> None:
        patch = merge_patch(budget, msgspec.structs.replace(budget, status=verdict.status))
        if not patch and verdict.is_told_in(budget):
            return
        status = patch.setdefault("status", {})
        status["conditions"] = self._conditions(budget, verdict)
        try:
            key = Key(budget.namespace, budget.name)
            version = budget.metadata.resource_version
            await self._client.patch(PDB, key, with_version(patch, version), subresource="status")
        except NotFound:
            return
        self._tell(budget, verdict)

    def _conditions(self, budget: PodDisruptionBudget, verdict: Verdict) -> list[Json]:
        known = {"conditions": [msgspec.to_builtins(each) for each in budget.status.conditions]}
        wanted = {
            "type": "DisruptionAllowed",
            "status": verdict.condition_status,
            "reason": verdict.reason,
            "message": verdict.message,
            "observedGeneration": verdict.status.observed_generation,
            "lastTransitionTime": rfc3339(self._client.clock.now()),
        }
        return with_json_conditions(known, wanted)

    def _tell(self, budget: PodDisruptionBudget, verdict: Verdict) -> None:
        """Events about what was written."""
        if self._recorder is None:
            return
        if verdict.message:
            message = f"Failed to calculate the number of expected pods: {verdict.message}"
            self._recorder.event(budget, "CalculateExpectedPodCountFailed", message, warning=True)
        if verdict.unmanaged:
            message = _UNMANAGED.format(selector_of(budget))
            self._recorder.event(budget, "UnmanagedPods", message, warning=True)
        for pod in verdict.not_deleted:
            message = (
                f"Pod was expected by PDB {budget.namespace}/{budget.name} to be deleted but it wasn't: {pod}"
            )
            self._recorder.event(budget, "NotDeleted", message, warning=True)
