"""Decide what comes next for one ControlPlaneSnapshot, and what its status says. Pure.

Invariants.  A snapshot that is complete is never taken again. A file is deleted only when its object is
             deleted and ``deletionPolicy`` is ``Delete``. If the file cannot be deleted for ``LONGEST_WAIT``,
             the object goes without it.
Called by    ``reconciler``.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec import structs

from kubewright.api.cluster.conditions import (
    ERROR,
    INFO,
    READY,
    false_condition,
    true_condition,
    with_conditions,
)
from kubewright.api.controlplane.names import FINALIZER
from kubewright.api.controlplane.reasons import Reason
from kubewright.api.controlplane.v1alpha4 import DELETE, ControlPlaneSnapshot, ControlPlaneSnapshotStatus
from kubewright.base import delays, plan
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.base.plan import AT_ONCE
from kubewright.controlplanes.snapshots.files import Taken

LONGEST_WAIT = timedelta(minutes=10)
"""How long the deletion of an object waits until its file can be deleted."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One snapshot, and all around it.

    ``problem``  how its spec breaks the rules of its kind, a sentence
    ``waiting``  why its control plane has no data to copy yet, a clause
    ``failed``   why the last step of this pass failed, a sentence
    ``taken``    the file, if this pass has taken the snapshot
    """

    snapshot: ControlPlaneSnapshot
    now: datetime
    paused: bool = False
    problem: str = ""
    waiting: str = ""
    failed: str = ""
    taken: Taken | None = None


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Add our finalizer."""


@dataclass(frozen=True, slots=True)
class Take:
    """Copy the data, and keep the file."""


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """Delete the file."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Remove our finalizer."""


Step = AddFinalizer | Take | DeleteFile | RemoveFinalizer


@dataclass(frozen=True, slots=True)
class Plan(plan.Plan[Step]):
    """What to do now. ``silent``: not even the status is written."""

    silent: bool = False


def decide(seen: Seen) -> Plan:
    """The plan for what is seen now. An equal ``Seen`` gives an equal plan."""
    meta = seen.snapshot.metadata
    if seen.paused:
        return Plan(because="it is paused", silent=True)
    if meta.deleting:
        return _deleted(seen)
    if seen.snapshot.status.ready:
        return Plan(because="it is complete")
    if told := seen.problem or seen.waiting:
        return Plan(wake=delays.UNHEARD if seen.waiting else None, because=told)
    if FINALIZER not in meta.finalizers:
        return Plan((AddFinalizer(),), AT_ONCE, "it has no finalizer of ours", silent=True)
    return Plan((Take(),), because="it is not taken yet")


def _deleted(seen: Seen) -> Plan:
    meta = seen.snapshot.metadata
    if FINALIZER not in meta.finalizers:
        return Plan(because="it is being deleted and has no finalizer of ours", silent=True)
    of_file = (DeleteFile(),) if seen.snapshot.spec.deletion_policy == DELETE and not _gives_up(seen) else ()
    return Plan((*of_file, RemoveFinalizer()), because="it is being deleted", silent=True)


def _gives_up(seen: Seen) -> bool:
    since = seen.snapshot.metadata.deletion_timestamp
    return since is not None and seen.now >= since + LONGEST_WAIT


def status_of(seen: Seen, file: str) -> ControlPlaneSnapshotStatus:
    """The status, as it is to be written. ``file``: the name under which the file is kept."""
    before, taken = seen.snapshot.status, seen.taken
    status = structs.replace(before, observed_generation=seen.snapshot.metadata.generation)
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
        )
    said = true_condition(READY)
    if not status.ready:
        told = (seen.problem or seen.failed or seen.waiting)[:MESSAGE_CHARS]
        reason, severity = Reason.WAITING_FOR_CONTROL_PLANE, INFO
        if seen.problem or seen.failed:
            reason = Reason.INVALID_CONFIGURATION if seen.problem else Reason.FAILED_TO_APPLY
            severity = ERROR
        said = false_condition(READY, reason, severity, told)
    return structs.replace(status, conditions=with_conditions(before.conditions, [said], seen.now))
