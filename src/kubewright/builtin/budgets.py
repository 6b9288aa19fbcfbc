"""Keeps the status of PodDisruptionBudgets: look, ``disruption.judge``, one patch.

Theory.      How many pods the owners of some pods want: from what is watched, else from their ``scale``
             subresource. A budget in percent, or one that says how many pods may be missing, counts from the
             scales of the controlling owners of its pods, each once. ReplicaSets, Deployments and
             StatefulSets are watched. Any other kind, and one of those that a watch does not show, is asked
             for its ``scale``. Pods without a controlling owner are *unmanaged*: they want nothing, so such a
             budget allows no disruption of them.
Frugal.      No reads for pods without owners, or of Deployments, ReplicaSets and StatefulSets: everything
             comes from informers. An unchanged status is not written.
Invariants.  The patch is bound to the version that was judged, since the API server spends
             ``disruptionsAllowed`` at the same time: on a conflict we look again. A budget whose pods cannot
             be counted allows nothing, and its condition says why (``SyncFailed``).
             What cannot be counted is an error with the owner's name (``NoScale``), never a guess: a guess
             that is too low lets a pod go that should stay. What a server serves is asked again after
             ``KNOWN_SECONDS`` at the earliest.
Called by    ``controllers`` of ``builtin``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from kubewright.api.apps import DEPLOYMENT, REPLICA_SET, STATEFUL_SET
from kubewright.api.conditions import with_json_conditions
from kubewright.api.core import PDB, Pod, PodDisruptionBudget
from kubewright.api.diff import merge_patch
from kubewright.api.kinds import Kind
from kubewright.api.meta import OwnerReference
from kubewright.base import delays
from kubewright.base.clock import rfc3339
from kubewright.base.errors import After, KubewrightError
from kubewright.builtin.disruption import Seen, Verdict, counts_scales, failed, judge
from kubewright.kube.client import Client
from kubewright.kube.informer import Change, Informer
from kubewright.kube.patches import with_version
from kubewright.nodes.drain.budgets import selector_of
from kubewright.runtime.controller import spec_or_existence
from kubewright.runtime.events import Recorder
from kubewright.runtime.result import Result
from kubewright.wire import naming
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key, Resource, split_api_version

KNOWN_SECONDS = 30.0
"""How long the list of resources of a group's version is used again."""

APPS = frozenset(("apps", "extensions"))
"""The groups that owner references may name for the watched kinds."""


class NoScale(KubewrightError):
    """The owner of a pod does not say how many pods there should be."""

    retry: After = After(delays.UNHEARD.total_seconds())


class _Scale(msgspec.Struct, frozen=True):
    class _Metadata(msgspec.Struct, frozen=True):
        uid: str = ""

    class _Spec(msgspec.Struct, frozen=True):
        replicas: int = 0

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Resources(msgspec.Struct, frozen=True):
    class _Resource(msgspec.Struct, frozen=True):
        name: str
        kind: str

    resources: list[_Resource]


@dataclass(frozen=True, slots=True)
class Wanted:
    """How many pods all owners want together, and the pods that have no controller."""

    replicas: int
    unmanaged: tuple[str, ...] = ()


class Scales:
    """Counts; ``watched`` are the informers of ReplicaSets, Deployments and StatefulSets, by kind."""

    def __init__(self, client: Client, watched: Mapping[str, Informer[Any]]) -> None:
        self._client = client
        self._watched = watched
        self._served: dict[tuple[str, str], tuple[float, Mapping[str, str], frozenset[str]]] = {}
        """By group and version: when it was asked, resources by their kind, and those with a scale."""

    async def of(self, pods: Iterable[Pod]) -> Wanted:
        """What the controlling owners of these pods want.

        Raises:
            NoScale: an owner is not there, or its kind has no scale.
            ApiError, TransportError: the server could not be asked.
        """
        wanted: dict[str, int] = {}
        unmanaged = []
        for pod in pods:
            owner = pod.metadata.controller
            if owner is None:
                unmanaged.append(pod.name)
            elif owner.uid not in wanted:
                uid, replicas = self._known(pod.namespace, owner) or await self._asked(pod, owner)
                wanted[uid] = replicas
        return Wanted(sum(wanted.values()), tuple(unmanaged))

    def _known(self, namespace: str, owner: OwnerReference) -> tuple[str, int] | None:
        """The uid of what decides how many pods there are, and the number; None where no watch shows it."""
        informer = self._watched.get(owner.kind) if split_api_version(owner.api_version)[0] in APPS else None
        found = informer.get(Key(namespace, owner.name)) if informer is not None else None
        if found is None or found.metadata.uid != owner.uid:
            return None
        above: OwnerReference | None = found.metadata.controller
        if owner.kind == "ReplicaSet" and above is not None and above.kind == "Deployment":
            return self._known(namespace, above)
        return owner.uid, found.spec.replicas

    async def _asked(self, pod: Pod, owner: OwnerReference) -> tuple[str, int]:
        """The same from the server."""
        if owner.api_version.count("/") > 1:
            raise NoScale(f"unexpected GroupVersion string: {owner.api_version}")
        if naming.path_segment(owner.name):
            raise _nobody(pod)  # no object has such a name, and it would be part of a path
        group, version = split_api_version(owner.api_version)
        plurals, scaled = await self._resources(group, version)
        plural = plurals.get(owner.kind)
        if plural is None:
            raise NoScale(f'no matches for kind "{owner.kind}" in version "{owner.api_version}"')
        resource = Resource(group, version, plural, owner.kind)
        if plural not in scaled:
            raise NoScale(f"{resource} does not implement the scale subresource")
        request = self._client.request("GET", resource.path(pod.namespace, owner.name, "scale"))
        try:
            response = await self._client.send(request, safe=True)
            scale = msgspec.json.decode(response.body, type=_Scale)
        except (NotFound, msgspec.DecodeError):
            raise _nobody(pod) from None
        if scale.metadata.uid != owner.uid:
            raise _nobody(pod)
        return owner.uid, scale.spec.replicas

    async def _resources(self, group: str, version: str) -> tuple[Mapping[str, str], frozenset[str]]:
        """The resources of a group's version by kind, and which of them have a scale."""
        now = self._client.clock.monotonic()
        self._served = {key: kept for key, kept in self._served.items() if now < kept[0] + KNOWN_SECONDS}
        if (kept := self._served.get((group, version))) is None:
            path = f"/apis/{group}/{version}" if group else f"/api/{version}"
            try:
                response = await self._client.send(self._client.request("GET", path), safe=True)
                served = msgspec.json.decode(response.body, type=_Resources).resources
            except (NotFound, msgspec.DecodeError):
                served = []
            names = {each.name: each.kind for each in served}
            plurals = {kind: name for name, kind in names.items() if "/" not in name}
            scaled = frozenset(name.removesuffix("/scale") for name in names if name.endswith("/scale"))
            kept = self._served[group, version] = (now, plurals, scaled)
        return kept[1], kept[2]


def _nobody(pod: Pod) -> NoScale:
    return NoScale(f'found no controllers for pod "{pod.name}"')


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
