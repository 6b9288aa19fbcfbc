"""Which volume each claim of a node's pods has, and by which ids its cloud knows it.

Theory.      A claim never gets another volume, and a volume no other id, so answers are kept for the drain.
             Where a volume is attached, its VolumeAttachments say. Volumes of plugins inside Kubernetes have
             none: only ``status.volumesAttached`` of a node names them, by ids that follow from the
             PersistentVolume in a way that the cloud's driver knows (GetVolumeIDs).
Invariants.  A driver is asked about such volumes alone, once in a drain for each, and holds up a pass for
             ``IDS_SECONDS`` at most, however many there are. A volume that it does not know, or about which
             it fails, is not awaited. Questions are asked in an order that follows from the pods: the same
             world, the same requests.
Source       mcm.md §5.5, §3.4; seed 004, "GetVolumeIDs".
Called by    ``session``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import structlog

from kubewright.api.core import Pod
from kubewright.api.storage import PV, PVC, PersistentVolume
from kubewright.base.errors import KubewrightError
from kubewright.kube.client import Client
from kubewright.nodes.drain.volumes import Attached, claims, is_listed
from kubewright.wire.errors import ApiError, NotFound, is_refusal
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
