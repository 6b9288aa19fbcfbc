"""The drain of one node over all its passes: lists the pods, plans a pass, sends requests, notes failures.

Theory.      A pass never waits for a pod to leave: each request is sent once, some at a time, and its error
             is noted. The next list of pods shows which are gone. A request that is under way when a look
             begins is not sent again before it has ended. No worker waits for requests either: ``removals``
             sends them. Pods are listed for each pass: a cache of all pods would cost more memory than
             everything else, and a late one could show a node as empty that is not.
             Which volume a claim has, and by which ids its cloud knows it, never changes, so answers are kept
             for the drain (``VolumeLookup``). Where a volume is attached, its VolumeAttachments say. Volumes
             of plugins inside Kubernetes have none: only ``status.volumesAttached`` of a node names them, by
             ids that follow from the PersistentVolume in a way that the cloud's driver knows (GetVolumeIDs).
Invariants.  Each request names the pod's uid, so that a later pod of the same name is never hit.
             An eviction of a pod that is gone succeeds. One pod's failure never stops the others. Whatever
             its error, it is noted in ``tries``, and so leads to another try or, if the policy says so, to
             a deletion.
             A driver is asked about volumes without a VolumeAttachment alone, once in a drain for each, and
             holds up a pass for ``IDS_SECONDS`` at most, however many there are. A volume that it does not
             know, or about which it fails, is not awaited. Questions are asked in an order that follows from
             the pods: the same world, the same requests.
Called by    the contexts that own machines (``machines.machine``, ``machines.orphans``, ``clusters.machine``)
             look; ``removals`` sends.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

import structlog

from kubewright.api.core import POD, NodeCondition, Pod
from kubewright.api.storage import PV, PVC, PersistentVolume
from kubewright.base.errors import KubewrightError
from kubewright.kube.client import Client
from kubewright.nodes.drain.budgets import Budgets
from kubewright.nodes.drain.decide import plan_pass
from kubewright.nodes.drain.plan import (
    NO_REQUESTS,
    DrainPlan,
    Requests,
    Tries,
    Try,
    explain,
    refused_by_several,
    uids,
)
from kubewright.nodes.drain.policy import DrainPolicy
from kubewright.nodes.drain.volumes import Attached, Trips, claims, follow, is_listed, users
from kubewright.wire.errors import ApiError, NotFound, TooManyRequests, is_refusal
from kubewright.wire.gvk import Key

log = structlog.get_logger(__name__)

IDS_SECONDS = 5.0
"""For how long a driver is asked in one look. It answers from the objects alone, without its cloud."""
CSI = "csi"
"""The field in the spec of a PersistentVolume of a CSI driver."""
LOOKUPS_PER_NODE = 10
"""Claims or volumes of one node that are read at the same time."""

VolumeIds = Callable[[PersistentVolume], Awaitable[Sequence[str]]]
"""The ids of a volume in its cloud; none: it is of another cloud. Raises KubewrightError."""

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class VolumeLookup:
    """What the drain of one node has found out about volumes."""

    _of_claim: dict[Key, str] = field(default_factory=dict)
    _ids: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _asking: set[asyncio.Task[tuple[str, ...]]] = field(default_factory=set)
    """Questions to the driver; those that took too long are cancelled, and end when the driver lets them."""

    async def of_claims(self, client: Client, pods: Iterable[Pod]) -> Mapping[Key, str] | None:
        """The PersistentVolume of each claim that has one; None where claims may not be read.

        Raises:
            ApiError, TransportError: a claim could not be read now.
        """
        used = dict.fromkeys(claim for pod in pods for claim in claims(pod))
        unknown = [claim for claim in used if claim not in self._of_claim]
        found = await _read_all(unknown, lambda claim: _volume_of(client, claim))
        if found is None:
            return None
        self._of_claim |= {claim: volume for claim, volume in found.items() if volume}
        return self._of_claim

    async def located(
        self, volumes: Iterable[str], attached: Attached, client: Client, ask: VolumeIds
    ) -> Attached:
        """``attached``, and those of ``volumes`` that the node lists by the ids of their cloud.

        Where else one of these is attached, no object says; so it is not awaited there.

        Raises:
            ApiError, TransportError: a PersistentVolume could not be read now.
        """
        asked = sorted({*volumes} - attached.here)
        unknown = [volume for volume in asked if volume not in self._ids]
        found = await _read_all(unknown, lambda volume: _read(client, volume)) or {}
        self._ids |= dict.fromkeys(found, ()) | await self._ids_of(found.values(), ask)
        by_id = {volume for volume in asked if self._ids.get(volume)}
        listed = {volume for volume in by_id if is_listed(self._ids[volume], attached.listed)}
        return replace(
            attached,
            here=attached.here | listed,
            elsewhere=lambda volume: volume in by_id or attached.elsewhere(volume),
        )

    async def _ids_of(
        self, volumes: Iterable[PersistentVolume | None], ask: VolumeIds
    ) -> dict[str, tuple[str, ...]]:
        """The ids of those volumes that the driver names in time. A CSI driver's are not asked about."""
        wanted = [each for each in volumes if each is not None and CSI not in each.spec]
        tasks = {each.name: asyncio.create_task(_ids_of(each, ask)) for each in wanted}
        if not tasks:
            return {}
        for task in tasks.values():
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        _, late = await asyncio.wait(tasks.values(), timeout=IDS_SECONDS)
        for task in late:
            task.cancel()
        if late:
            names = ", ".join(name for name, task in tasks.items() if task in late)
            why = f"the driver has not said their ids within {IDS_SECONDS:g} s"
            log.warning("the detachment of volumes is not awaited", volumes=names, because=why)
        return {name: task.result() for name, task in tasks.items() if task not in late}


async def _read_all(keys: Iterable[K], read: Callable[[K], Awaitable[V]]) -> dict[K, V] | None:
    """What ``read`` answers for each key; None when a server refuses one of them for good."""
    gate = asyncio.Semaphore(LOOKUPS_PER_NODE)

    async def one(key: K) -> V | KubewrightError:
        async with gate:
            try:
                return await read(key)
            except KubewrightError as error:
                return error

    async with asyncio.TaskGroup() as group:
        tasks = {key: group.create_task(one(key)) for key in keys}
    found: dict[K, V] = {}
    for key, task in tasks.items():
        answer = task.result()
        if not isinstance(answer, KubewrightError):
            found[key] = answer
        elif isinstance(answer, ApiError) and is_refusal(answer):
            log.warning("volumes are not awaited", object=str(key), because=str(answer))
            return None
        else:
            raise answer
    return found


async def _volume_of(client: Client, claim: Key) -> str:
    """The PersistentVolume of a claim; empty if it has none or is gone."""
    try:
        return (await client.get(PVC, claim)).spec.volume_name
    except NotFound:
        return ""


async def _read(client: Client, volume: str) -> PersistentVolume | None:
    """A PersistentVolume; None: it is gone."""
    try:
        return await client.get(PV, Key("", volume))
    except NotFound:
        return None


async def _ids_of(volume: PersistentVolume, ask: VolumeIds) -> tuple[str, ...]:
    """The ids of a volume in its cloud; none where its driver does not say."""
    try:
        return tuple(await ask(volume))
    except KubewrightError as error:
        log.warning("the detachment of a volume is not awaited", volume=volume.name, because=str(error))
        return ()


REQUESTS_PER_NODE = 10
"""Requests of one node that are under way at the same time."""


class Failure(NamedTuple):
    """A pod, and the error of the request about it; ``forced``: it was a deletion of a forced drain."""

    pod: Pod
    error: KubewrightError
    forced: bool

    @property
    def of_budget(self) -> bool:
        """Whether budgets may stand behind it: the server answers so when one of them forbids it, or when
        there is more than one to ask."""
        return isinstance(self.error, TooManyRequests) or refused_by_several(self.error)


@dataclass(slots=True)
class DrainSession:
    """What a process remembers of one node's drain; losing it costs requests and time, never safety.

    ``tries``          the requests that failed, by the pod's uid
    ``trips``          volumes of the node's pods, and those that they left behind
    ``under_way``      the requests that have not ended; ``removals`` keeps it
    ``overlapped``     requests were under way when the last look began, so it planned without their results
    ``drained_since``  when a plan first said that no pod is waited for; None: none has yet
    """

    tries: Tries = field(default_factory=dict)
    trips: Trips = field(default_factory=dict)
    under_way: Requests = NO_REQUESTS
    overlapped: bool = False
    drained_since: datetime | None = None
    _lookup: VolumeLookup = field(default_factory=VolumeLookup)

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
        volume_ids: VolumeIds | None = None,
    ) -> DrainPlan:
        """``plan_pass`` for the pods that the server lists; a note is kept of when the drain is done.

        Args:
            client: of the cluster that the node belongs to.
            node: its name.
            policy: what is asked of the drain.
            now: the time, as for ``plan_pass``.
            started: when the drain began.
            conditions: those of the node.
            attached: where volumes are attached; None: pods do not wait for them.
            volume_ids: asks the cloud's driver; None: volumes without a VolumeAttachment are not awaited.

        Raises:
            ApiError, TransportError: pods, claims or volumes could not be read.
        """
        under_way = self.under_way  # the list of pods may be older than the end of these requests
        self.overlapped = bool(under_way)
        pods = await client.list(POD, fields=f"spec.nodeName={node}")
        if attached is not None and (attached.here or attached.listed or self.trips):
            self.trips = await self._follow(client, pods, attached, volume_ids, now)
        found = plan_pass(
            pods,
            policy,
            now=now,
            started=started,
            conditions=conditions,
            tries=self.tries,
            trips=self.trips,
            under_way=under_way,
        )
        if found.done and self.drained_since is None:
            self.drained_since = now
        return found

    async def send(self, plan: DrainPlan, client: Client, *, now: datetime) -> list[Failure]:
        """Send the requests of ``plan``, each once; returns those that failed, which are noted as tries.

        Ends after at most one deadline of an eviction for each ``REQUESTS_PER_NODE`` pods. Raises nothing
        that an API server or the network can cause.

        Args:
            plan: of the last look.
            client: of the cluster that the node belongs to.
            now: the time when the requests begin.
        """
        began = client.clock.monotonic()
        failed = await _perform(plan, client)
        took = timedelta(seconds=client.clock.monotonic() - began)
        self._note(plan, failed, now + took)
        return failed

    async def explain(self, failed: Iterable[Failure], budgets: Budgets) -> None:
        """Find out which budgets stand behind what failed, for messages.

        ``budgets``: of the cluster, shared by its drains.
        """
        asked = [each for each in failed if each.of_budget]
        behind = await budgets.among({each.pod.namespace for each in asked})
        tries = dict(self.tries)
        for pod, error, _ in asked:
            if (tried := tries.get(pod.metadata.uid)) is not None:
                tries[pod.metadata.uid] = replace(tried, why=explain(pod, error, behind.of(pod)))
        self.tries = tries

    async def _follow(
        self, client: Client, pods: Sequence[Pod], attached: Attached, ids: VolumeIds | None, now: datetime
    ) -> Trips:
        """The trips after this look; none where claims may not be read: no pod waits for volumes then."""
        volumes = await self._lookup.of_claims(client, pods)
        if volumes is None:
            return {}
        used = users(pods, volumes)
        if attached.listed and ids is not None:
            attached = await self._lookup.located({*used, *self.trips}, attached, client, ids)
        return follow(self.trips, used, attached, now)

    def _note(self, plan: DrainPlan, failed: Iterable[Failure], now: datetime) -> None:
        """Keep the tries of pods that are still there and were not asked now; add what failed.

        Until a new refusal is explained, messages keep the words about the one before: a status that changes
        twice for each try would cost more than it tells.
        """
        asked, still = uids((*plan.evict, *plan.delete)), plan.known | uids(plan.waiting)
        kept = {uid: tried for uid, tried in self.tries.items() if uid in still - asked}
        for each in failed:
            pod, error, forced = each
            before = self.tries.get(pod.metadata.uid, Try(0, now))
            why = before.why if each.of_budget and before.why is not None else explain(pod, error, ())
            kept[pod.metadata.uid] = Try(
                failed=before.failed + 1,
                last=now,
                forced=before.forced + forced,
                refused=forced and is_refusal(error),
                first=before.first or now,
                why=why,
            )
        self.tries = kept


async def _perform(plan: DrainPlan, client: Client) -> list[Failure]:
    """Send the requests of a plan; returns those that failed."""
    gate = asyncio.Semaphore(REQUESTS_PER_NODE)
    async with asyncio.TaskGroup() as group:
        asked = [(pod, False, group.create_task(_ask(gate, _evict, client, pod))) for pod in plan.evict]
        asked += [
            (pod, plan.forced, group.create_task(_ask(gate, _delete, client, pod))) for pod in plan.delete
        ]
    ended = [(pod, task.result(), forced) for pod, forced, task in asked]
    return [Failure(pod, error, forced) for pod, error, forced in ended if error is not None]


def asked_by(plan: DrainPlan) -> Requests:
    """The requests that a plan asks for."""
    return Requests(uids((*plan.evict, *plan.delete)), plan.forced)


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
