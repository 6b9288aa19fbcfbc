"""Copies of the data of control planes: ControlPlaneSnapshot, its schedule, and ControlPlaneRestore.

Continues    in ``v1alpha4`` (what they are copies of), ``validate`` and ``crds``.
"""

from datetime import datetime
from typing import Annotated

from msgspec import field

from kubewright.api.controlplane.v1alpha4 import Reported, resource
from kubewright.api.kinds import Kind
from kubewright.api.meta import (
    Int32,
    Int64,
    KubeObject,
    Value,
    doc,
)

_PLANE = "The NestedControlPlane, in the same namespace."


class BucketLocation(Value, frozen=True, kw_only=True):
    """A bucket that speaks the protocol of Amazon S3."""

    bucket: Annotated[str, doc("The name of the bucket.", required=True)] = ""
    prefix: Annotated[str, doc("What the keys of snapshots begin with.")] = ""
    endpoint: Annotated[str, doc("The URL of the server; that of Amazon when it is unset.")] = ""
    region: Annotated[str, doc("The region of the bucket.")] = ""
    secret_name: Annotated[
        str,
        doc(
            "The Secret in the same namespace with accessKeyId and secretAccessKey, and sessionToken where "
            "there is one.",
            required=True,
        ),
    ] = ""


class SnapshotLocation(Value, frozen=True, kw_only=True):
    """Where files of snapshots are: in a folder of the program that takes them, or in a bucket."""

    folder: Annotated[str, doc("A folder below that of the program; its own folder when unset.")] = ""
    bucket: Annotated[BucketLocation | None, doc("A bucket, in place of a folder.")] = None


class ControlPlaneSnapshotSpec(Value, frozen=True, kw_only=True):
    """Of what the snapshot is, and where it is kept."""

    control_plane_name: Annotated[str, doc(_PLANE, required=True)] = ""
    location: Annotated[SnapshotLocation, doc("Where the file is kept.")] = field(
        default_factory=SnapshotLocation
    )
    deletion_policy: Annotated[
        str, doc("What becomes of the file when this object is deleted: Retain (when unset) or Delete.")
    ] = ""


class ControlPlaneSnapshotStatus(Reported, frozen=True, kw_only=True):
    """The snapshot as it was taken."""

    ready: Annotated[bool, doc("Whether the file is complete, where it is kept.")] = False
    taken_at: Annotated[datetime | None, doc("When it was taken.")] = None
    file: Annotated[str, doc("The name of the file, or the key in the bucket.")] = ""
    size: Annotated[Int64, doc("How many bytes it has.")] = 0
    sha256: Annotated[str, doc("The SHA-256 of all its bytes, by which it is verified.")] = ""
    format: Annotated[str, doc("Of what it is a copy: etcd, or embedded.")] = ""
    version: Annotated[str, doc("The version of the etcd that it was taken from.")] = ""
    member: Annotated[
        str,
        doc("The member of the etcd that has sent it: its leader, or else the one that had applied most."),
    ] = ""


class ControlPlaneSnapshot(KubeObject, frozen=True, kw_only=True):
    """A copy of all the data of a control plane at one moment."""

    spec: Annotated[ControlPlaneSnapshotSpec, doc("Of what it is, and where.", required=True)] = field(
        default_factory=ControlPlaneSnapshotSpec
    )
    status: Annotated[ControlPlaneSnapshotStatus, doc("What became of it.")] = field(
        default_factory=ControlPlaneSnapshotStatus
    )


class ControlPlaneSnapshotScheduleSpec(Value, frozen=True, kw_only=True):
    """When snapshots are taken, and how many are kept."""

    schedule: Annotated[
        str, doc("When, as cron writes it: minute hour day month weekday.", required=True)
    ] = ""
    time_zone: Annotated[str, doc("The name of the time zone of the schedule; UTC when unset.")] = ""
    control_plane_name: Annotated[str, doc(_PLANE, required=True)] = ""
    location: Annotated[SnapshotLocation, doc("Where the files are kept.")] = field(
        default_factory=SnapshotLocation
    )
    keep: Annotated[
        Int32 | None, doc("How many complete snapshots of this schedule are kept; 7 when unset.")
    ] = None
    suspend: Annotated[bool, doc("Take none for now, and delete none.")] = False


class ControlPlaneSnapshotScheduleStatus(Reported, frozen=True, kw_only=True):
    """What the schedule has done, and does next."""

    last_schedule_time: Annotated[datetime | None, doc("The time for which a snapshot was created last.")] = (
        None
    )
    next_schedule_time: Annotated[datetime | None, doc("When the next one is due.")] = None


class ControlPlaneSnapshotSchedule(KubeObject, frozen=True, kw_only=True):
    """Takes snapshots of a control plane at times."""

    spec: Annotated[ControlPlaneSnapshotScheduleSpec, doc("When, and how many.", required=True)] = field(
        default_factory=ControlPlaneSnapshotScheduleSpec
    )
    status: Annotated[ControlPlaneSnapshotScheduleStatus, doc("What it did.")] = field(
        default_factory=ControlPlaneSnapshotScheduleStatus
    )


class SnapshotFile(Value, frozen=True, kw_only=True):
    """The file of a snapshot whose object does not exist, or was taken elsewhere."""

    name: Annotated[
        str,
        doc(
            "What status.file of the snapshot was: namespace, control plane and name, with slashes between "
            "them; or the key in a bucket, without the prefix.",
            required=True,
        ),
    ] = ""
    location: Annotated[SnapshotLocation, doc("Where it is kept.")] = field(default_factory=SnapshotLocation)
    sha256: Annotated[
        str,
        doc(
            "The SHA-256 of all its bytes. What an etcd has streamed ends with a hash of its own, and needs "
            "none."
        ),
    ] = ""


class ControlPlaneRestoreSpec(Value, frozen=True, kw_only=True):
    """Which snapshot takes the place of the data of which control plane."""

    snapshot_name: Annotated[
        str, doc("The ControlPlaneSnapshot, in the same namespace; unset where file is set.")
    ] = ""
    file: Annotated[SnapshotFile | None, doc("A file of no ControlPlaneSnapshot, in place of one.")] = None
    control_plane_name: Annotated[
        str,
        doc(
            "The NestedControlPlane, in the same namespace; that of the snapshot when unset, and needed "
            "where file is set."
        ),
    ] = ""


class ControlPlaneRestoreStatus(Reported, frozen=True, kw_only=True):
    """How far it is."""

    ready: Annotated[bool, doc("Whether the control plane runs with the data of the snapshot.")] = False
    phase: Annotated[str, doc("For people: what is being done.")] = ""
    source: Annotated[
        SnapshotFile | None,
        doc(
            "The file by which the data is replaced. It is written before any data is replaced; from then on "
            "spec counts no more, and the replacement is completed, even if this object is deleted."
        ),
    ] = None
    replaced_at: Annotated[
        datetime | None, doc("When the data was replaced; from then on it is not done again.")
    ] = None
    former_data: Annotated[str, doc("Where the former data is kept. A path is inside the data folder.")] = ""


class ControlPlaneRestore(KubeObject, frozen=True, kw_only=True):
    """Puts the data of a snapshot in the place of that of a control plane, once."""

    spec: Annotated[ControlPlaneRestoreSpec, doc("What takes the place of what.", required=True)] = field(
        default_factory=ControlPlaneRestoreSpec
    )
    status: Annotated[ControlPlaneRestoreStatus, doc("How far it is.")] = field(
        default_factory=ControlPlaneRestoreStatus
    )


CONTROL_PLANE_SNAPSHOT = Kind(resource("ControlPlaneSnapshot", "cps"), ControlPlaneSnapshot)
CONTROL_PLANE_SNAPSHOT_SCHEDULE = Kind(
    resource("ControlPlaneSnapshotSchedule", "cpss"), ControlPlaneSnapshotSchedule
)
CONTROL_PLANE_RESTORE = Kind(resource("ControlPlaneRestore", "cpr"), ControlPlaneRestore)
