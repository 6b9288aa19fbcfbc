"""Decide what comes next for one ControlPlaneRestore, and what its status says. Pure.

Theory.      The file is verified before anything stops. Then an annotation on the control plane makes the
             controllers of its components stop them, each after the one that needs it. The host replaces the
             data, ``status.replacedAt`` is written, the annotation is removed, and the components start in
             their order. Which step is next follows from what exists: the annotation, the status, and a mark
             beside the data.
             Members of an etcd that start with different data lose what users wrote, so a replacement that
             has begun is completed by the same file. ``status.source`` says which, and is written before the
             first member's data is replaced: after that neither the spec nor the ControlPlaneSnapshot counts.
Invariants.  Data is replaced only while no component runs, only after the file was verified, and only once:
             ``replacedAt`` is written before any component starts again. A restore that is deleted lets its
             control plane start at once if it has no ``source`` yet; else when all data is replaced, unless
             the data goes with the etcd. An etcd that is deleted, and whose data is kept, waits for it
             (``component.obstacles``). Only one restore at a time stops a control plane (decisions 0036 and
             0039).
Called by    ``act``.
"""

from dataclasses import dataclass
from enum import StrEnum

from msgspec import structs

from kubewright.api.cluster.conditions import with_conditions
from kubewright.api.controlplane.names import KEEP_DATA_ANNOTATION, Component, Reason
from kubewright.api.controlplane.snapshots import (
    ControlPlaneRestore,
    ControlPlaneRestoreStatus,
    ControlPlaneSnapshot,
    SnapshotFile,
    SnapshotLocation,
)
from kubewright.base import delays
from kubewright.base.plan import AT_ONCE, Awaited, Plan, in_order
from kubewright.controlplanes.family import KINDS, Family, with_pause, without_pause
from kubewright.controlplanes.hosting.contract import Replaced
from kubewright.controlplanes.snapshots import once
from kubewright.controlplanes.snapshots.once import AddFinalizer, RemoveFinalizer

FINISHED_FIRST = ", and this restore, which is deleted, goes when that is complete"

FILE_PARTS = 3
"""Of the name of a snapshot's file: namespace, control plane, and the rest (``act.file_of``)."""


class Phase(StrEnum):
    """What is being done, for people."""

    PENDING = "Pending"
    STOPPING = "Stopping"
    REPLACING = "Replacing"
    STARTING = "Starting"
    COMPLETE = "Complete"


@dataclass(frozen=True, slots=True)
class Source:
    """The file that is restored. ``told``: how a sentence names it.

    ``format``  empty where no ControlPlaneSnapshot says it
    ``sha256``  empty where only the hash at its own end is known
    """

    told: str
    location: SnapshotLocation
    file: str
    sha256: str = ""
    format: str = ""


def source_of(restore: ControlPlaneRestore, snapshot: ControlPlaneSnapshot | None) -> Source | None:
    """The file with which it has begun; before, the one that it names itself, or that of its snapshot.

    None: there is none, or none yet.
    """
    named = restore.status.source or restore.spec.file
    if named is not None:
        return Source(f"file {named.name}", named.location, named.name, named.sha256)
    if snapshot is None or not snapshot.status.ready:
        return None
    status, told = snapshot.status, f"ControlPlaneSnapshot {snapshot.name}"
    return Source(told, snapshot.spec.location, status.file, status.sha256, status.format)


@dataclass(frozen=True, slots=True)
class Seen(once.Seen[ControlPlaneRestore]):
    """One restore, and all around it.

    ``snapshot``  the snapshot that it names, if that exists
    ``family``    the control plane and its components, if that exists
    ``abandoned`` whether the restore that has stopped the control plane does not exist any more
    ``unable``    why the data of this control plane cannot be replaced, a sentence; empty if it can
    ``begun``     whether this pass writes into the status by which file the data is replaced
    ``replaced``  what the host answered, if this pass has asked it to replace the data
    """

    snapshot: ControlPlaneSnapshot | None = None
    family: Family | None = None
    abandoned: bool = False
    unable: str = ""
    begun: bool = False
    replaced: Replaced | None = None

    @property
    def source(self) -> Source | None:
        """The file that is restored, if it is known."""
        return source_of(self.found, self.snapshot)

    @property
    def holds(self) -> bool:
        """Whether the control plane is stopped for this restore."""
        return self.family is not None and self.family.restore == self.found.name

    @property
    def half_done(self) -> bool:
        """Whether the data of some members may be replaced and that of others not, and the data stays."""
        status, family = self.found.status, self.family if self.holds else None
        if status.source is None or status.replaced_at is not None or family is None:
            return False
        etcd = family.components.get(Component.ETCD)
        if etcd is None or KEEP_DATA_ANNOTATION in etcd.metadata.annotations:
            return etcd is not None
        return not (etcd.metadata.deleting or family.plane.metadata.deleting)

    @property
    def running(self) -> list[str]:
        """The components that still have instances."""
        there = self.family.components if self.family is not None else {}
        return [
            f"{KINDS[name].resource.kind} {each.name}" for name, each in there.items() if each.status.replicas
        ]

    @property
    def unready(self) -> list[str]:
        """The components that are not ready."""
        there = self.family.components if self.family is not None else {}
        return [
            f"{KINDS[name].resource.kind} {each.name}"
            for name, each in there.items()
            if not each.status.ready
        ]


@dataclass(frozen=True, slots=True)
class Verify:
    """Fetch the file, and compare its hash."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop all components of the control plane."""


@dataclass(frozen=True, slots=True)
class Begin:
    """Write into the status by which file the data is replaced."""


@dataclass(frozen=True, slots=True)
class ReplaceData:
    """Fetch and verify the file again, and replace the data by it."""


@dataclass(frozen=True, slots=True)
class Release:
    """Remove the annotation, so that the components start."""


Step = AddFinalizer | Verify | Stop | Begin | ReplaceData | Release | RemoveFinalizer


def decide(seen: Seen) -> Plan[Step]:
    """The plan for what is seen now. An equal ``Seen`` gives an equal plan."""
    last = (Release(),) if seen.holds else ()
    if (plan := once.paused_or_deleted(seen, last, unfinished=seen.half_done)) is not None:
        return plan
    if seen.found.status.replaced_at is not None:
        if seen.holds:
            return Plan((Release(),), because="the data is replaced")
        return Plan(because="it is done")
    if seen.holds and seen.found.status.source is None and (told := _ends(seen)):
        return Plan((Release(),), because=told)
    if told := held_up(seen):
        needs = Awaited("what a restore takes", f"see this: {told}")
        return Plan(wake=delays.UNHEARD, because=told, awaits=(needs,))
    return in_order((once.finalizer, _stopped, _begun, _replaced), seen, Plan())


def held_up(seen: Seen) -> str:
    """Why nothing can be done now, a clause; empty: something can."""
    if seen.problem:
        return seen.problem
    if seen.source is None:
        named = f"ControlPlaneSnapshot {seen.found.spec.snapshot_name}"
        return f"there is no {named}" if seen.snapshot is None else f"{named} is not complete"
    if seen.family is None:
        return f"there is no NestedControlPlane {plane_name(seen.found, seen.snapshot)}"
    plane = seen.family.plane
    if (told := _ends(seen)) and not seen.half_done:
        return told
    if seen.family.restore and not seen.holds and not seen.abandoned:
        return f"ControlPlaneRestore {seen.family.restore} is at work on NestedControlPlane {plane.name}"
    return seen.unable


def _ends(seen: Seen) -> str:
    """That its control plane is being deleted, a clause; empty: it is not."""
    if seen.family is None or not seen.family.plane.metadata.deleting:
        return ""
    return f"NestedControlPlane {seen.family.plane.name} is being deleted"


def plane_name(restore: ControlPlaneRestore, snapshot: ControlPlaneSnapshot | None) -> str:
    """The control plane whose data is replaced; empty: not known.

    Once it has begun its snapshot may go: the name of the file says of which control plane that was.
    """
    if restore.spec.control_plane_name:
        return restore.spec.control_plane_name
    if snapshot is not None:
        return snapshot.spec.control_plane_name
    source = restore.status.source
    parts = source.name.split("/") if source is not None else []
    return parts[1] if len(parts) == FILE_PARTS else ""


def _stopped(seen: Seen) -> Plan[Step] | None:
    if seen.holds:
        return None
    return Plan((Verify(), Stop()), AT_ONCE, "the snapshot is complete", last=True)


def _begun(seen: Seen) -> Plan[Step] | None:
    if running := seen.running:
        names = ", ".join(running)
        ends = Awaited(f"{names} to end", "see its conditions")
        return Plan(wake=delays.POLL, because=f"waits until {names} has ended", awaits=(ends,))
    if seen.found.status.source is not None:
        return None
    return Plan((Begin(),), AT_ONCE, "nothing of the control plane runs", last=True)


def _replaced(seen: Seen) -> Plan[Step] | None:
    if seen.running:
        return None
    return Plan((ReplaceData(),), delays.SOON, "its data is replaced by that of the file in the status")


def status_of(seen: Seen) -> ControlPlaneRestoreStatus:
    """The status, as it is to be written."""
    before = seen.found.status
    if seen.pause is not None:
        return structs.replace(before, conditions=with_pause(before.conditions, seen.pause, seen.now))
    status = structs.replace(before, observed_generation=seen.found.metadata.generation)
    if seen.begun and (source := seen.source) is not None:
        file = SnapshotFile(name=source.file, location=source.location, sha256=source.sha256)
        status = structs.replace(status, source=file)
    elif seen.replaced is not None and not seen.replaced.waits:
        status = structs.replace(status, replaced_at=seen.now, former_data=seen.replaced.former)
    elif status.replaced_at is not None and seen.family is not None and not status.ready:
        ready = not seen.holds and not seen.unready and bool(seen.family.components)
        status = structs.replace(status, ready=ready)
    reason, told = _why(seen, status)
    said = once.condition(seen, ready=status.ready, reason=reason, told=told)
    conditions = with_conditions(without_pause(before.conditions), [said], seen.now)
    return structs.replace(status, phase=_phase(seen, status), conditions=conditions)


def _phase(seen: Seen, status: ControlPlaneRestoreStatus) -> Phase:
    if status.ready:
        return Phase.COMPLETE
    if status.replaced_at is not None:
        return Phase.STARTING
    if seen.holds:
        return Phase.STOPPING if seen.running or status.source is None else Phase.REPLACING
    return Phase.PENDING


def _why(seen: Seen, status: ControlPlaneRestoreStatus) -> tuple[Reason, str]:
    """What it waits for, unless it is ready."""
    if status.replaced_at is not None:
        told = ", ".join(seen.unready)
        return (
            Reason.PROVISIONING,
            f"the data is replaced; not ready yet: {told}" if told else "the data is replaced",
        )
    if told := held_up(seen):
        return Reason.WAITING_FOR_DEPENDENCY, told
    if running := ", ".join(seen.running):
        return Reason.PROVISIONING, f"waits until these have ended: {running}"
    waits = f": {seen.replaced.waits}" if seen.replaced is not None else ""
    ends = FINISHED_FIRST if seen.found.metadata.deleting else ""
    return Reason.PROVISIONING, f"the data is being replaced{ends}{waits}"
