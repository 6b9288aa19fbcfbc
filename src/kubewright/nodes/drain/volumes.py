"""Which volumes pods have left behind on a node, and whether the next pod with volumes waits for them. Pure.

Theory.      Clouds detach and attach one volume after another, so a pod with volumes leaves when those of the
             pod before it have moved. A volume *leaves* while it is attached to the node and no
             pod there uses it: VolumeAttachments and pods say so, and a process that begins in the middle
             sees the same. It then *arrives* when it is attached to another node. That is awaited only by a
             process that saw the pod, and only for a pod with a controller, which makes it again.
             ``Trip`` is what a session remembers of one volume; losing it costs pauses, never data.
             A generic ephemeral volume (``volumes[].ephemeral``) is deleted with its pod and never moves, so
             no pod waits for it, as upstream; the wait before the VM goes is for all attached volumes.
Invariants.  A volume of several pods leaves when the last of them is gone. A volume that was never attached
             here is not awaited. Every wait has an end if the policy has one.
Called by    ``session`` (remembers trips), ``decide`` (asks which are awaited).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kubewright.api.core import Pod
from kubewright.nodes.drain.policy import DrainPolicy
from kubewright.wire.gvk import Key


@dataclass(frozen=True, slots=True, order=True)
class Attachment:
    """A VolumeAttachment. One that is being deleted stays until its CSI driver has detached the volume."""

    name: str
    uid: str
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class Attached:
    """Where PersistentVolumes are attached, by their names.

    ``here``       those that are attached to the node, or are being attached or detached
    ``elsewhere``  whether one is attached to another node
    ``listed``     names in the node's ``status.volumesAttached`` of volumes that have no VolumeAttachment
    """

    here: frozenset[str] = frozenset()
    elsewhere: Callable[[str], bool] = lambda _volume: False
    listed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trip:
    """A volume on its way from the node.

    ``pod``           the pod that used it last, as namespace/name; empty: this process saw none
    ``returns``       a controller makes that pod again
    ``attached``      it was seen attached to the node
    ``unused_since``  when it was first seen that no pod of the node uses it; None: one does
    ``detached``      when it was first seen detached from the node; None: it is attached
    """

    volume: str
    pod: str = ""
    returns: bool = False
    attached: bool = False
    unused_since: datetime | None = None
    detached: datetime | None = None

    def __str__(self) -> str:
        return f"{self.volume} of {self.pod}" if self.pod else self.volume


CSI_PREFIX = "kubernetes.io/csi/"
"""How the names of a CSI driver's volumes begin in ``status.volumesAttached`` of a node."""

Trips = Mapping[str, Trip]
"""By the name of the volume."""


@dataclass(frozen=True, slots=True)
class Moving:
    """The volumes that no pod of the node uses any more.

    ``detaching``  awaited until they are detached from the node
    ``arriving``   awaited until they are attached to another one
    ``late``       those that have had their time to be detached, and are not
    ``until``      when the first wait ends at the latest; None: no wait, or one without an end
    """

    detaching: tuple[Trip, ...] = ()
    arriving: tuple[Trip, ...] = ()
    late: tuple[Trip, ...] = ()
    until: datetime | None = None

    def __bool__(self) -> bool:
        """Whether any volume is awaited."""
        return bool(self.detaching or self.arriving)

    @property
    def clauses(self) -> list[str]:
        """What is awaited, a clause for each volume."""
        first = [f"volume {trip} is to be detached from the node" for trip in self.detaching]
        return first + [f"volume {trip} is to be attached to another node" for trip in self.arriving]


NOTHING_MOVES = Moving()


def without_attachment(names: Iterable[str]) -> tuple[str, ...]:
    """Of the names in ``status.volumesAttached``, those of plugins inside Kubernetes.

    A CSI driver's volumes have VolumeAttachments, which say more.
    """
    return tuple(name for name in names if not name.startswith(CSI_PREFIX))


def is_listed(ids: Iterable[str], names: Iterable[str]) -> bool:
    """Whether a volume with these ids of its cloud is among these names: a plugin, and then an id."""
    found = tuple(names)
    return any(name == each or name.endswith((f"/{each}", f"^{each}")) for each in ids for name in found)


def claims(pod: Pod) -> tuple[Key, ...]:
    """The PersistentVolumeClaims that a pod uses."""
    sources = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    return tuple(Key(pod.namespace, source.claim_name) for source in sources if source is not None)


def users(pods: Iterable[Pod], volumes: Mapping[Key, str]) -> dict[str, Pod]:
    """A pod that uses it, for each volume in use.

    Args:
        pods: all pods of the node.
        volumes: the PersistentVolume of each claim; empty where it has none.
    """
    return {volume: pod for pod in pods for claim in claims(pod) if (volume := volumes.get(claim, ""))}


def follow(trips: Trips, used: Mapping[str, Pod], attached: Attached, now: datetime) -> dict[str, Trip]:
    """The trips after another look. A volume that has arrived, or need not, has none any more."""
    found = (
        _next(trips.get(volume, Trip(volume)), used.get(volume), attached, now)
        for volume in sorted({*trips, *used, *attached.here})
    )
    return {trip.volume: trip for trip in found if trip is not None}


def awaited(trips: Trips, policy: DrainPolicy, now: datetime) -> Moving:
    """Which volumes the next pod with volumes waits for."""
    unused = [trip for trip in trips.values() if trip.unused_since is not None]
    detaching, late = _in_time([t for t in unused if t.detached is None], policy.detach_timeout, now)
    arriving, _ = _in_time([t for t in unused if t.detached is not None], policy.reattach_timeout, now)
    ends = [end for trip in detaching if (end := _end(trip, policy.detach_timeout)) is not None]
    ends += [end for trip in arriving if (end := _end(trip, policy.reattach_timeout)) is not None]
    return Moving(tuple(detaching), tuple(arriving), tuple(late), min(ends, default=None))


def _next(trip: Trip, user: Pod | None, attached: Attached, now: datetime) -> Trip | None:
    here = trip.volume in attached.here
    if user is not None:
        name, returns = f"{user.namespace}/{user.name}", user.metadata.controller is not None
        return Trip(trip.volume, name, returns, attached=trip.attached or here)
    if here:
        return replace(trip, attached=True, unused_since=trip.unused_since or now, detached=None)
    if not (trip.attached and trip.returns) or attached.elsewhere(trip.volume):
        return None
    return replace(trip, unused_since=trip.unused_since or now, detached=trip.detached or now)


def _in_time(trips: Iterable[Trip], limit: timedelta | None, now: datetime) -> tuple[list[Trip], list[Trip]]:
    """Those whose wait goes on, and those whose wait is over."""
    ends = [(trip, _end(trip, limit)) for trip in trips]
    return (
        [trip for trip, end in ends if end is None or now < end],
        [trip for trip, end in ends if end is not None and now >= end],
    )


def _end(trip: Trip, limit: timedelta | None) -> datetime | None:
    since = trip.detached or trip.unused_since
    return None if limit is None or since is None else since + limit
