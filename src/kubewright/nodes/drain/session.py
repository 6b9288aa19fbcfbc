"""The drain of one node over all its passes: lists the pods, plans a pass, performs it, remembers refusals.

Theory.      A pass never waits for a pod to leave: it sends each request once, some at a time, and notes the
             errors. The next list of pods shows which are gone. Pods are listed for each pass: a cache of
             all pods would cost more memory than everything else, and a late one could show a node as
             empty that is not.
Invariants.  Each request names the pod's uid, so that a later pod of the same name is never hit.
             An eviction of a pod that is gone succeeds. One pod's failure never stops the others; it is
             noted in ``tries`` like a refusal, and so leads to another try or, if the policy says so, to
             a deletion.
Called by    the contexts that own machines: ``machines.machine``, ``machines.orphans``, ``clusters.machine``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from kubewright.api.core import PDB, POD, NodeCondition, Pod, PodDisruptionBudget
from kubewright.api.storage import PVC
from kubewright.base.errors import KubewrightError
from kubewright.kube.client import Client
from kubewright.nodes.drain.obstacles import explain
from kubewright.nodes.drain.plan import DrainPlan, Tries, Try, plan_pass
from kubewright.nodes.drain.policy import DrainPolicy
from kubewright.nodes.drain.volumes import Attached, Trips, claims, follow, users
from kubewright.wire.errors import ApiError, NotFound, is_refusal
from kubewright.wire.gvk import Key

log = structlog.get_logger(__name__)

AT_ONCE = 10
"""Requests of one pass that are under way at the same time."""

Refusal = tuple[Pod, KubewrightError, bool]
"""A pod, the error of its request, and whether that was a forced deletion."""


@dataclass(slots=True)
class DrainSession:
    """What a process remembers of one node's drain; losing it costs requests and time, never safety.

    ``tries``          refused evictions and failed deletions, by the pod's uid
    ``trips``          volumes of the node's pods, and those that they left behind
    ``drained_since``  when a plan first said that no pod is waited for; None: none has yet
    """

    tries: Tries = field(default_factory=dict)
    trips: Trips = field(default_factory=dict)
    drained_since: datetime | None = None
    _volumes: dict[Key, str] = field(default_factory=dict)
    """The PersistentVolume of each claim that a pod of the node was seen to use."""

    async def look(
        self,
        client: Client,
        node: str,
        policy: DrainPolicy,
        *,
        now: datetime,
        started: datetime,
        conditions: Sequence[NodeCondition] = (),
        attached: Attached | None = None,
    ) -> DrainPlan:
        """``plan_pass`` for the pods that the server lists; a note is kept of when the drain is over.

        Args:
            client: of the cluster that the node belongs to.
            node: its name.
            policy: what is asked of the drain.
            now: the time.
            started: when the drain began.
            conditions: those of the node.
            attached: where volumes are attached; None: pods do not wait for them.

        Raises:
            ApiError, TransportError: pods or claims could not be read.
        """
        pods = await client.list(POD, fields=f"spec.nodeName={node}")
        if attached is not None and (attached.here or self.trips):
            self.trips = await self._follow(client, pods, attached, now)
        found = plan_pass(
            pods, policy, now=now, started=started, conditions=conditions, tries=self.tries, trips=self.trips
        )
        if found.done and self.drained_since is None:
            self.drained_since = now
        return found

    async def run(self, plan: DrainPlan, client: Client, *, now: datetime) -> None:
        """Perform ``plan`` once; ends after at most one API deadline per ``AT_ONCE`` pods.

        Raises nothing that an API server or the network can cause.
        """
        gate = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as group:
            asked = [(pod, False, group.create_task(_ask(gate, _evict, client, pod))) for pod in plan.evict]
            asked += [
                (pod, plan.forced, group.create_task(_ask(gate, _delete, client, pod))) for pod in plan.delete
            ]
        refusals = [
            (pod, error, forced) for pod, forced, task in asked if (error := task.result()) is not None
        ]
        self._note(plan, refusals, await _budgets(client, refusals), now)

    async def _follow(self, client: Client, pods: Sequence[Pod], attached: Attached, now: datetime) -> Trips:
        """The trips after this look; none where claims may not be read: no pod waits for volumes then.

        A claim whose volume is known is not read again, since it never gets another.
        """
        unknown = {claim for pod in pods for claim in claims(pod)} - self._volumes.keys()
        gate = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as group:
            asked = {claim: group.create_task(_volume_of(gate, client, claim)) for claim in unknown}
        for claim, task in asked.items():
            if isinstance(found := task.result(), str):
                self._volumes |= {claim: found} if found else {}
            elif isinstance(found, ApiError) and is_refusal(found):
                log.warning("volumes are not awaited", claim=str(claim), because=str(found))
                return {}
            else:
                raise found
        return follow(self.trips, users(pods, self._volumes), attached, now)

    def _note(
        self,
        plan: DrainPlan,
        refusals: Iterable[Refusal],
        budgets: Sequence[PodDisruptionBudget],
        now: datetime,
    ) -> None:
        """Keep the tries of pods that are still there and were not asked now; add the refusals."""
        asked = {pod.metadata.uid for pod in (*plan.evict, *plan.delete)}
        still = plan.known | {pod.metadata.uid for pod in plan.waiting}
        kept = {uid: tried for uid, tried in self.tries.items() if uid in still - asked}
        for pod, error, forced in refusals:
            before = self.tries.get(pod.metadata.uid, Try(0, now))
            why = explain(pod, error, budgets)
            kept[pod.metadata.uid] = Try(before.refused + 1, now, forced, before.first or now, why)
        self.tries = kept


async def _volume_of(gate: asyncio.Semaphore, client: Client, claim: Key) -> str | KubewrightError:
    """The PersistentVolume of a claim, empty if it has none or is gone; or why it could not be read."""
    async with gate:
        try:
            return (await client.get(PVC, claim)).spec.volume_name
        except NotFound:
            return ""
        except KubewrightError as error:
            return error


async def _budgets(client: Client, refusals: Iterable[Refusal]) -> Sequence[PodDisruptionBudget]:
    """The budgets that may stand behind refusals, in one request; none if they cannot be read.

    Refusals are rare and rest for 20 s, so that a cache of budgets would cost more.
    """
    asked = {
        pod.namespace
        for pod, error, _ in refusals
        if isinstance(error, ApiError) and error.code in (429, 500)
    }
    if not asked:
        return ()
    try:
        return await client.list(PDB, asked.pop() if len(asked) == 1 else "")
    except KubewrightError:
        return ()


async def _ask(
    gate: asyncio.Semaphore, verb: Callable[[Client, Pod], Awaitable[None]], client: Client, pod: Pod
) -> KubewrightError | None:
    """Send one request for a pod. Returns its error; None when the server accepted it or the pod is gone."""
    async with gate:
        try:
            await verb(client, pod)
        except NotFound:
            return None
        except KubewrightError as error:
            # A conflict, too: either another pod has taken the name, and ours is gone, or the server
            # was busy. The next list of pods tells.
            return error
    return None


async def _evict(client: Client, pod: Pod) -> None:
    await client.evict(Key(pod.namespace, pod.name), uid=pod.metadata.uid)


async def _delete(client: Client, pod: Pod) -> None:
    await client.delete(POD, Key(pod.namespace, pod.name), uid=pod.metadata.uid, grace=0)
