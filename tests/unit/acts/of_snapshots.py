"""Scenes of snapshots: what becomes of the data of an etcd, and of the file that is kept of it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kubewright.api.cluster.v1beta1 import ObjectReference
from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.snapshots import (
    BucketLocation,
    ControlPlaneSnapshot,
    ControlPlaneSnapshotSpec,
    SnapshotLocation,
)
from kubewright.api.controlplane.v1alpha4 import (
    Address,
    EtcdStatus,
    NestedControlPlane,
    NestedControlPlaneSpec,
    NestedControlPlaneStatus,
    NestedEtcd,
    NestedEtcdStatus,
)
from kubewright.api.core import SECRET, Secret
from kubewright.api.meta import ObjectMeta
from kubewright.base.errors import InvalidInput, KubewrightError
from kubewright.controlplanes.etcd import NoCredentials, NoData, Streamed
from kubewright.controlplanes.family import Family
from kubewright.controlplanes.hosting.contract import Hosts, Instance, Running, WorkloadIdentity
from kubewright.controlplanes.members import Credentials, Endpoint
from kubewright.controlplanes.snapshots.act import NotTaken, Taker
from kubewright.controlplanes.snapshots.files import SCRATCH, SQLITE, Damaged, StoreFailed, Taken
from kubewright.controlplanes.snapshots.taking import DeleteFile, Take
from kubewright.kube.errors import Deposed
from kubewright.testing.acts import Act, Happened, Scene, Told, happened
from kubewright.testing.looks import Shelf
from kubewright.wire.errors import Forbidden

FILE = "n/p/s-u"
"""The name of the file of the snapshot."""
SECRETS = "/api/v1/namespaces/n/secrets"


def with_hash(data: bytes) -> bytes:
    """As an etcd streams it: its hash at its end."""
    return data + sha256(data).digest()


DATA, OLDER = with_hash(b"data"), with_hash(b"older data")
EMBEDDED = SQLITE + b"data"
ADDRESSES = (Address(ip="10.0.0.1", port=2379), Address(hostname="etcd-1", port=2379))
ETCD = NestedEtcd(
    metadata=ObjectMeta(name="e", namespace="n", uid="e"),
    status=NestedEtcdStatus(version="3.6.1", addresses=ADDRESSES),
)
MEMBERS = (
    Instance(0, "p-etcd-0", "p-etcd-0.p-etcd", "10.1.0.1"),
    Instance(1, "p-etcd-1", "p-etcd-1.p-etcd", "10.1.0.2", ending=True),
    Instance(2, "p-etcd-2", "10.1.0.3"),
)


def put(path: Path, data: bytes) -> None:
    """Write a file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def family(ours: NestedEtcd | None = ETCD, **status: Any) -> Family:
    """A control plane, with or without an etcd of ours."""
    named = None if ours is None else ObjectReference(name=ours.name)
    plane = NestedControlPlane(
        metadata=ObjectMeta(name="p", namespace="n", uid="p"),
        spec=NestedControlPlaneSpec(etcd=named),
        status=NestedControlPlaneStatus(**status),
    )
    return Family(plane, components={} if ours is None else {Component.ETCD: ours})


def snapshot(location: SnapshotLocation | None = None) -> ControlPlaneSnapshot:
    spec = ControlPlaneSnapshotSpec(control_plane_name="p", location=location or SnapshotLocation())
    return ControlPlaneSnapshot(metadata=ObjectMeta(name="s", namespace="n", uid="u"), spec=spec)


def secrets(*, without: str = "") -> list[Secret]:
    """Those of a client of the etcd."""
    data = {"p-etcd": {"tls.crt": b"ca"}, "p-etcd-health-client": {"tls.crt": b"crt", "tls.key": b"key"}}
    return [
        Secret(metadata=ObjectMeta(name=name, namespace="n"), data=each)
        for name, each in data.items()
        if name != without
    ]


@dataclass
class Inside:
    """The host of an etcd in this process, whose data file it copies itself."""

    data: bytes = EMBEDDED

    def status(self, _identity: WorkloadIdentity) -> Running:
        return Running(exists=True)

    async def save_data(self, identity: WorkloadIdentity, target: Path) -> None:
        put(target, self.data + identity.workload.encode())


@dataclass
class Programs:
    """The host of an etcd whose members are programs."""

    instances: tuple[Instance, ...] = MEMBERS

    def status(self, _identity: WorkloadIdentity) -> Running:
        return Running(self.instances, exists=True)


@dataclass
class Etcd:
    """What an etcd sends, or why it does not, and for how long that takes.

    ``asked``  by which endpoints and credentials
    ``wrote``  the folder of the copy: its parent, and the beginning of its name
    """

    sends: bytes | BaseException = DATA
    member: int = -1
    seconds: float = 0.0
    asked: list[tuple[list[Endpoint], Credentials]] = field(default_factory=list)
    wrote: list[tuple[Path, str]] = field(default_factory=list)

    async def stream(self, there: Sequence[Endpoint], own: Credentials, target: Path) -> Streamed:
        self.asked.append((list(there), own))
        self.wrote.append((target.parent.parent, target.parent.name[: len(SCRATCH)]))
        await asyncio.sleep(self.seconds)
        if isinstance(self.sends, BaseException):
            raise self.sends
        put(target, self.sends)
        return Streamed("3.6.2", there[self.member])


@dataclass(frozen=True)
class Left:
    """What came of it. ``files``: what is in the store; ``scratch``: what is left of temporary folders."""

    outcome: object
    files: Mapping[str, bytes]
    scratch: tuple[str, ...]
    etcd: Etcd


def acting(
    work: Callable[[Taker, ControlPlaneSnapshot, Family], Awaitable[object]],
    *,
    of: Family | None = None,
    kept: bytes | None = None,
    host: object = None,
    etcd: Callable[[], Etcd] = Etcd,
    location: SnapshotLocation | None = None,
    folder: bool = True,
    lacks: str = "",
    refused: KubewrightError | None = None,
    before: Callable[[Path], object] = lambda _path: None,
    leads: bool = True,
) -> Callable[[], Any]:
    """One call. ``kept``: the file that is in the store already; ``before``: what else becomes of the store."""

    async def act_() -> tuple[Shelf, Happened]:
        shelf, sends = Shelf(), etcd()
        shelf.lay(SECRET, *secrets(without=lacks))
        if refused is not None:
            shelf.answers[f"{SECRETS}/p-etcd"] = refused
        with TemporaryDirectory() as name:
            root = Path(name)
            if kept is not None:
                put(root / FILE, kept)
            before(root)
            embedded, programs = (host, None) if isinstance(host, Inside) else (None, host)
            taker = Taker(
                shelf.client, Hosts(embedded, programs, root if folder else None), sends.stream, lambda: leads
            )
            came = await happened(work(taker, snapshot(location), of or family()), Told())
            left = Left(came.outcome, *kept_below(root), sends)
        wrote = [(parent == root, begins) for parent, begins in sends.wrote]
        assert wrote in ([], [(True, SCRATCH)])
        return shelf, replace(came, outcome=left)

    return act_


def kept_below(root: Path) -> tuple[Mapping[str, bytes], tuple[str, ...]]:
    """The files below a folder, and the names of temporary ones in it."""
    files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    return files, tuple(path.name for path in root.glob(f"{SCRATCH}*"))


async def take(taker: Taker, of: ControlPlaneSnapshot, family: Family) -> object:
    return await taker.take(of, family)


async def delete(taker: Taker, of: ControlPlaneSnapshot, _family: Family) -> object:
    return await taker.delete_file(of)


def taken(data: bytes, form: str = "etcd", version: str = "3.6.2", member: str = "") -> Taken:
    return Taken(form, version, len(data), sha256(data).hexdigest(), member)


def left(outcome: object = None, said: str = "", **files: bytes) -> Callable[[Shelf, Happened], None]:
    """The outcome, what the error says, the file that is kept, and nothing else."""

    def check(_shelf: Shelf, found: Happened) -> None:
        there = found.outcome
        assert isinstance(there, Left)
        assert (there.outcome, there.files, there.scratch) == (
            outcome,
            {FILE: files["kept"]} if files else {},
            (),
        )
        assert said in str(found.error)

    return check


def asked(*endpoints: Endpoint) -> Callable[[Shelf, Happened], None]:
    """Which members were asked, with the certificates of a client."""

    def check(_shelf: Shelf, found: Happened) -> None:
        there = found.outcome
        assert isinstance(there, Left)
        own = Credentials(b"ca", b"crt", b"key")
        assert there.etcd.asked == ([(list(endpoints), own)] if endpoints else [])

    return check


def both(*checks: Callable[[Shelf, Happened], None]) -> Callable[[Shelf, Happened], None]:
    def check(shelf: Shelf, found: Happened) -> None:
        for each in checks:
            each(shelf, found)

    return check


RUNNING = (Endpoint("https://10.1.0.1:2379", "p-etcd-0.p-etcd"), Endpoint("https://10.1.0.3:2379"))
REPORTED = (Endpoint("https://10.0.0.1:2379"), Endpoint("https://etcd-1:2379"))
SAVED = EMBEDDED + b"p-etcd"
FOREIGN = family(None, etcd=EtcdStatus(addresses=ADDRESSES))
BUCKET = SnapshotLocation(bucket=BucketLocation(bucket="b", secret_name="login"))

TAKEN = (
    Scene(
        "the host of an etcd in this process copies its data",
        acting(take, host=Inside()),
        (Take,),
        then=both(left(taken(SAVED, "embedded", "3.6.1"), kept=SAVED), asked()),
    ),
    Scene(
        "a member that runs sends the data, and one that is ending is not asked",
        acting(take, host=Programs()),
        (Take,),
        then=both(left(taken(DATA, member="p-etcd-2"), kept=DATA), asked(*RUNNING)),
    ),
    Scene(
        "another member sends the data",
        acting(take, host=Programs(), etcd=lambda: Etcd(member=0)),
        (Take,),
        then=both(left(taken(DATA, member="p-etcd-0"), kept=DATA), asked(*RUNNING)),
    ),
    Scene(
        "members that no host knows are asked where the NestedEtcd says",
        acting(take),
        (Take,),
        then=both(left(taken(DATA, member="https://etcd-1:2379"), kept=DATA), asked(*REPORTED)),
    ),
    Scene(
        "an etcd of another program is asked where the control plane says",
        acting(take, of=FOREIGN, host=Programs()),
        (Take,),
        then=both(left(taken(DATA, member="https://etcd-1:2379"), kept=DATA), asked(*REPORTED)),
    ),
    Scene(
        "a copy may take almost half an hour",
        acting(take, etcd=lambda: Etcd(seconds=1799.0)),
        (Take,),
        then=left(taken(DATA, member="https://etcd-1:2379"), kept=DATA),
    ),
)
KEPT = (
    Scene(
        "a whole file that an earlier attempt has kept is the snapshot, and stays",
        acting(take, host=Programs(), kept=OLDER),
        (Take,),
        then=both(left(taken(OLDER, version="3.6.1"), kept=OLDER), asked()),
    ),
    Scene(
        "so is the file of an etcd in this process",
        acting(take, host=Inside(), kept=EMBEDDED),
        (Take,),
        then=left(taken(EMBEDDED, "embedded", "3.6.1"), kept=EMBEDDED),
    ),
    Scene(
        "so is the file of an etcd of another program, whose version is not known",
        acting(take, of=FOREIGN, kept=OLDER),
        (Take,),
        then=left(taken(OLDER, version=""), kept=OLDER),
    ),
    Scene(
        "a file that is cut short is replaced",
        acting(take, kept=OLDER[:-1]),
        (Take,),
        then=left(taken(DATA, member="https://etcd-1:2379"), kept=DATA),
    ),
)


def linked(root: Path) -> None:
    """In the place of the file is a link to one, which no store follows."""
    (root / FILE).parent.mkdir(parents=True)
    (root / FILE).symlink_to("elsewhere")


FAILED = (
    Scene(
        "a file that cannot be read now may be whole, so it is not replaced",
        acting(take, before=linked),
        (Take,),
        error=StoreFailed,
        then=both(left(said="cannot be read from the folder for snapshots"), asked()),
    ),
    Scene(
        "a folder that is gone is said before anything is copied",
        acting(take, before=Path.rmdir),
        (),
        error=StoreFailed,
        then=both(left(said="no temporary folder can be made: No such file or directory"), asked()),
    ),
    Scene(
        "an etcd that sends nothing leaves no file",
        acting(take, etcd=lambda: Etcd(NoData("no member gives its data"))),
        (),
        error=NoData,
        then=left(said="no member gives its data"),
    ),
    Scene(
        "data that is cut short is not kept",
        acting(take, etcd=lambda: Etcd(DATA[:-1])),
        (),
        error=Damaged,
        then=left(said="is not theirs"),
    ),
    Scene(
        "a disk that is full is said, and nothing is left on it",
        acting(take, etcd=lambda: Etcd(OSError(28, "No space left on device"))),
        (),
        error=NotTaken,
        then=left(said="its file cannot be written: No space left on device"),
    ),
    Scene(
        "an error of the system without a text says what it has",
        acting(take, etcd=lambda: Etcd(OSError("odd"))),
        (),
        error=NotTaken,
        then=left(said="its file cannot be written: odd"),
    ),
    Scene(
        "a copy that does not end in half an hour is given up",
        acting(take, etcd=lambda: Etcd(seconds=1801.0)),
        (),
        error=NotTaken,
        then=left(said="it was not complete within 1800 seconds"),
    ),
    Scene(
        "without a client's certificate no member is asked",
        acting(take, lacks="p-etcd-health-client"),
        (),
        error=NoCredentials,
        then=both(left(said="or none with a client's certificate"), asked()),
    ),
    Scene(
        "a Secret that may not be read is said",
        acting(take, refused=Forbidden("no")),
        (),
        error=Forbidden,
        then=left(),
    ),
    Scene(
        "a program without a folder says what would help",
        acting(take, folder=False),
        (),
        error=InvalidInput,
        then=left(said="--snapshot-folder"),
    ),
    Scene(
        "a bucket without its Secret is said",
        acting(take, location=BUCKET),
        (),
        error=StoreFailed,
        then=left(said="there is no Secret login for bucket b"),
    ),
)
DEPOSED = (
    Scene(
        "a process that leads no more keeps no file, which may be whole by now",
        acting(take, leads=False),
        (Take,),
        error=Deposed,
        then=left(said=f"file {FILE} is not kept: our Lease was not renewed in time"),
    ),
    Scene(
        "it still says which file it finds, and its status is not written",
        acting(take, kept=OLDER, leads=False),
        (Take,),
        then=left(taken(OLDER, version="3.6.1"), kept=OLDER),
    ),
    Scene(
        "a process that leads no more deletes no file",
        acting(delete, kept=DATA, leads=False),
        (DeleteFile,),
        error=Deposed,
        then=left(said=f"file {FILE} is not deleted: our Lease was not renewed in time", kept=DATA),
    ),
)
DELETED = (
    Scene(
        "the file goes, and the folders that it leaves empty",
        acting(delete, kept=DATA),
        (DeleteFile,),
        then=left(),
    ),
    Scene("a file that is gone is deleted", acting(delete), (DeleteFile,), then=left()),
    Scene(
        "a program without a folder deletes none",
        acting(delete, folder=False),
        (DeleteFile,),
        error=InvalidInput,
        then=left(said="--snapshot-folder"),
    ),
    Scene(
        "a bucket without its Secret is said before anything is deleted",
        acting(delete, kept=DATA, location=BUCKET),
        (DeleteFile,),
        error=StoreFailed,
        then=left(said="there is no Secret login for bucket b", kept=DATA),
    ),
)
ACT = Act("controlplanes.snapshots.act", Take | DeleteFile, (*TAKEN, *KEPT, *FAILED, *DEPOSED, *DELETED))
