"""Decide what comes next for one ControlPlaneSnapshot, and what its status says. Pure.

Invariants.  A snapshot that is complete is never taken again. A file is deleted only when its object is
             deleted and ``deletionPolicy`` is ``Delete``, and not while a restore replaces data by it. If the
             file cannot be deleted for ``LONGEST_WAIT``, the object goes without it.
Called by    ``act``.
"""

from dataclasses import dataclass
from datetime import timedelta

from msgspec import structs

from kubewright.api.cluster.conditions import with_conditions
from kubewright.api.controlplane.names import Reason
from kubewright.api.controlplane.snapshots import ControlPlaneSnapshot, ControlPlaneSnapshotStatus
from kubewright.api.controlplane.v1alpha4 import DELETE
from kubewright.base import delays
from kubewright.base.plan import Awaited, Plan
from kubewright.controlplanes.family import with_pause, without_pause
from kubewright.controlplanes.snapshots import once
from kubewright.controlplanes.snapshots.files import Taken
from kubewright.controlplanes.snapshots.once import AddFinalizer, RemoveFinalizer

LONGEST_WAIT = timedelta(minutes=10)
"""How long the deletion of an object waits until its file can be deleted."""


@dataclass(frozen=True, slots=True)
class Seen(once.Seen[ControlPlaneSnapshot]):
    """One snapshot, and all around it.

    ``waiting``    why its control plane has no data to copy yet, a clause
    ``needed_by``  the ControlPlaneRestore that has begun to replace data by its file; empty: none has
    ``taken``      the file, if this pass has taken the snapshot
    """

    waiting: str = ""
    needed_by: str = ""
    taken: Taken | None = None


@dataclass(frozen=True, slots=True)
class Take:
    """Copy the data, and keep the file."""


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """Delete the file."""


Step = AddFinalizer | Take | DeleteFile | RemoveFinalizer


def decide(seen: Seen) -> Plan[Step]:
    """The plan for what is seen now. An equal ``Seen`` gives an equal plan."""
    if (plan := once.paused_or_deleted(seen, _last(seen))) is not None:
        if seen.needed_by and DeleteFile() in plan.steps:
            because = f"ControlPlaneRestore {seen.needed_by} replaces data by its file"
            restore = Awaited(
                f"ControlPlaneRestore {seen.needed_by} to end", "see its condition, or delete it"
            )
            return Plan(wake=delays.UNHEARD, because=because, silent=True, awaits=(restore,))
        return plan
    if seen.found.status.ready:
        return Plan(because="it is complete")
    if told := seen.problem or seen.waiting:
        wake = delays.UNHEARD if seen.waiting else None
        return Plan(wake=wake, because=told, awaits=(Awaited("what a snapshot takes", f"see this: {told}"),))
    return once.finalizer(seen) or Plan((Take(),), because="it is not taken yet")


def _last(seen: Seen) -> tuple[Step, ...]:
    """What is done on deletion, before our finalizer is removed."""
    since = seen.found.metadata.deletion_timestamp
    gives_up = since is not None and seen.now >= since + LONGEST_WAIT
    return (DeleteFile(),) if seen.found.spec.deletion_policy == DELETE and not gives_up else ()


def status_of(seen: Seen, file: str) -> ControlPlaneSnapshotStatus:
    """The status, as it is to be written. ``file``: the name under which the file is kept."""
    before, taken = seen.found.status, seen.taken
    if seen.pause is not None:
        return structs.replace(before, conditions=with_pause(before.conditions, seen.pause, seen.now))
    status = structs.replace(before, observed_generation=seen.found.metadata.generation)
    if taken is not None:
        status = structs.replace(
            status,
            ready=True,
            taken_at=seen.now,
            file=file,
            size=taken.size,
            sha256=taken.sha256,
            format=taken.format,
            version=taken.version,
            member=taken.member,
        )
    said = once.condition(
        seen, ready=status.ready, reason=Reason.WAITING_FOR_CONTROL_PLANE, told=seen.waiting
    )
    conditions = with_conditions(without_pause(before.conditions), [said], seen.now)
    return structs.replace(status, conditions=conditions)
