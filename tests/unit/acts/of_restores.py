"""Scenes of restores: whether data can be replaced, what a host is given for it, and what stops for it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import chain, repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import structs

from kubewright.api.controlplane.names import RESTORING_ANNOTATION
from kubewright.api.controlplane.snapshots import BucketLocation, SnapshotLocation
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE, NestedEtcdStatus
from kubewright.api.core import SECRET
from kubewright.base.errors import KubewrightError
from kubewright.controlplanes.family import Family
from kubewright.controlplanes.hosting.contract import Hosts, Replaced, Replacement, Running, WorkloadIdentity
from kubewright.controlplanes.hosting.member_data import NotReplaced
from kubewright.controlplanes.members import Credentials
from kubewright.controlplanes.snapshots.act import NotRestored, Restorer
from kubewright.controlplanes.snapshots.files import Damaged, NotKept, StoreFailed
from kubewright.controlplanes.snapshots.restoring import Release, ReplaceData, Source, Stop, Verify
from kubewright.kube.errors import Deposed
from kubewright.testing.acts import Act, Happened, Scene, Told, happened
from kubewright.testing.looks import Shelf, Write
from kubewright.wire.errors import Conflict, Forbidden, NotFound

from .of_snapshots import DATA, EMBEDDED, ETCD, FILE, SECRETS, family, kept_below, put, secrets

PATH = "/apis/controlplane.cluster.x-k8s.io/v1alpha4/namespaces/n/nestedcontrolplanes/p"
SOURCE = Source("file n/p/s-u", SnapshotLocation(), FILE)
CHANGED = replace(SOURCE, sha256="0" * 64)
BUCKET = replace(SOURCE, location=SnapshotLocation(bucket=BucketLocation(bucket="b", secret_name="login")))


@dataclass
class Host:
    """A host of an etcd that is stopped.

    ``lacks``    what it lacks to replace data
    ``fails``    why it does not replace it
    ``seconds``  how long it waits, before and after it has fetched the file
    ``given``    the workload whose data was replaced, mark, number of members, file and credentials
    """

    lacks: str = ""
    fails: BaseException | None = None
    seconds: tuple[float, float] = (0.0, 0.0)
    holds: bool = True
    given: list[tuple[str, str, int, bytes, Credentials]] = field(default_factory=list)

    def status(self, _identity: WorkloadIdentity) -> Running:
        return Running(exists=self.holds)

    def lacks_to_replace(self) -> str:
        return self.lacks

    async def replace_data(self, identity: WorkloadIdentity, by: Replacement) -> Replaced:
        await asyncio.sleep(self.seconds[0])
        async with by.fetch() as path:
            await asyncio.sleep(self.seconds[1])
            if self.fails is not None:
                raise self.fails
            assert path.parent.name.startswith("kubewright-")
            read = await asyncio.to_thread(path.read_bytes)
        assert not path.parent.exists()
        own = await by.credentials()
        self.given.append((identity.workload, by.mark, by.members, read, own))
        return Replaced("former", "waits")


class Unable(Host):
    """A host that replaces no data."""

    replace_data: Any = None
    lacks_to_replace: Any = None


@dataclass(frozen=True)
class Left:
    """What came of it: the outcome, what the host was given, and what is left of temporary folders."""

    outcome: object
    given: list[tuple[str, str, int, bytes, Credentials]]
    scratch: tuple[str, ...]


def acting(
    work: Callable[[Restorer], Awaitable[object]],
    *,
    host: Callable[[], Host] = Host,
    embedded: bool = False,
    kept: bytes | None = DATA,
    before: Callable[[Path], object] = lambda _path: None,
    refused: KubewrightError | None = None,
    laid: bool = True,
    leads: int = 99,
) -> Callable[[], Any]:
    """One call. ``kept``: the file that is in the store; ``before``: what else becomes of the store; ``leads``:
    how often this process finds that it leads."""

    async def act_() -> tuple[Shelf, Happened]:
        shelf, on = Shelf(), host()
        if laid:
            shelf.lay(NESTED_CONTROL_PLANE, family().plane)
        shelf.lay(SECRET, *secrets())
        if refused is not None:
            shelf.answers |= {PATH: refused, f"{SECRETS}/p-etcd": refused}
        with TemporaryDirectory() as name:
            root = Path(name)
            if kept is not None:
                put(root / FILE, kept)
            before(root)
            inside, programs = (on, None) if embedded else (None, on)
            answers = chain(repeat(True, leads), repeat(False))
            restorer = Restorer(shelf.client, Hosts(inside, programs, root), lambda: next(answers))
            came = await happened(work(restorer), Told())
            _, scratch = kept_below(root)
        return shelf, replace(came, outcome=Left(came.outcome, on.given, scratch))

    return act_


def able(form: str = "etcd", of: Family | None = None) -> Callable[[Restorer], Awaitable[object]]:
    """Ask whether the data can be replaced by a file of this format."""

    async def work(restorer: Restorer) -> object:
        return restorer.unable(of or family(), form)

    return work


def verifying(source: Source = SOURCE) -> Callable[[Restorer], Awaitable[object]]:
    return lambda restorer: restorer.verify(family(), source)


def replacing(source: Source = SOURCE, of: Family | None = None) -> Callable[[Restorer], Awaitable[object]]:
    return lambda restorer: restorer.replace(of or family(), source, "mark")


def holding(restore: str, version: str = "101") -> Callable[[Restorer], Awaitable[object]]:
    plane = family().plane
    meta = structs.replace(plane.metadata, resource_version=version)
    return lambda restorer: restorer.hold(structs.replace(plane, metadata=meta), restore)


def left(outcome: object = None, said: str = "", *given: object) -> Callable[[Shelf, Happened], None]:
    """The outcome, what the error says, what the host was given, and nothing else."""

    def check(_shelf: Shelf, found: Happened) -> None:
        assert found.outcome == Left(outcome, list(given), ())
        assert (str(found.error) if found.error is not None else "") == said

    return check


def held(restore: str | None, version: str = "101") -> Write:
    """The write of the annotation by which components stop."""
    meta = {"annotations": {RESTORING_ANNOTATION: restore}, "uid": "p", "resourceVersion": version}
    return Write("PATCH", PATH, {"metadata": meta})


OWN = Credentials(b"ca", b"crt", b"key")
GIVEN = ("p-etcd", "mark", 2, DATA, OWN)
ALONE = structs.replace(ETCD, status=NestedEtcdStatus(version="3.6.1"))
OTHER_FORMAT = (
    "a snapshot of format {} cannot take the place of the data of NestedEtcd e, which has format {}"
)
TOO_LONG = "it did not end within 1800 seconds"
ABLE = (
    Scene("data of an etcd is replaced by that of an etcd", acting(able()), (), then=left("")),
    Scene("a format that is not known yet is no reason", acting(able("")), (), then=left("")),
    Scene(
        "data in this process is replaced by such data",
        acting(able("embedded"), embedded=True),
        (),
        then=left(""),
    ),
    Scene(
        "data of an etcd is not replaced by that of this process",
        acting(able("embedded")),
        (),
        then=left(OTHER_FORMAT.format("embedded", "etcd")),
    ),
    Scene(
        "data in this process is not replaced by that of an etcd",
        acting(able("etcd"), embedded=True),
        (),
        then=left(OTHER_FORMAT.format("etcd", "embedded")),
    ),
    Scene(
        "a control plane without an etcd of ours has no data",
        acting(able(of=family(None))),
        (),
        then=left("NestedControlPlane p has no NestedEtcd whose data could be replaced"),
    ),
    Scene(
        "an etcd that runs nowhere has no data",
        acting(able(), host=lambda: Host(holds=False)),
        (),
        then=left("nothing of NestedEtcd e runs here, so there is no data to replace"),
    ),
    Scene(
        "a host that replaces no data",
        acting(able(), host=Unable),
        (),
        then=left("the data of NestedEtcd e cannot be replaced where it runs"),
    ),
    Scene(
        "a host says what it lacks",
        acting(able(), host=lambda: Host("there is no etcdutl")),
        (),
        then=left("there is no etcdutl"),
    ),
)
VERIFIED = (
    Scene("a whole file is good", acting(verifying()), (Verify,), then=left()),
    Scene(
        "a file with another hash is not",
        acting(verifying(CHANGED)),
        (Verify,),
        error=Damaged,
        then=left(
            None,
            f"the file has SHA-256 {sha256(DATA).hexdigest()}, and the snapshot was taken with {CHANGED.sha256}",
        ),
    ),
    Scene(
        "nor is one of another format, whatever its object says",
        acting(verifying(replace(SOURCE, sha256=sha256(EMBEDDED).hexdigest())), kept=EMBEDDED),
        (Verify,),
        error=NotRestored,
        then=left(None, OTHER_FORMAT.format("embedded", "etcd")),
    ),
    Scene(
        "a file that is not there is said",
        acting(verifying(), kept=None),
        (Verify,),
        error=NotKept,
        then=left(
            None,
            f"file {FILE} cannot be read from the folder for snapshots of this program: "
            "No such file or directory",
        ),
    ),
    Scene(
        "a folder that is gone is said",
        acting(verifying(), kept=None, before=Path.rmdir),
        (Verify,),
        error=StoreFailed,
        then=left(None, "no temporary folder can be made: No such file or directory"),
    ),
    Scene(
        "a bucket without its Secret is said",
        acting(verifying(BUCKET)),
        (Verify,),
        error=StoreFailed,
        then=left(None, "there is no Secret login for bucket b"),
    ),
)
REPLACED = (
    Scene(
        "a host is given the file, the mark, the number of members and a client's certificate",
        acting(replacing()),
        (ReplaceData,),
        then=left(Replaced("former", "waits"), "", GIVEN),
    ),
    Scene(
        "an etcd whose members are not known has one",
        acting(replacing(of=family(ALONE))),
        (ReplaceData,),
        then=left(Replaced("former", "waits"), "", ("p-etcd", "mark", 1, DATA, OWN)),
    ),
    Scene(
        "a host is not given a file with another hash",
        acting(replacing(CHANGED)),
        (ReplaceData,),
        error=Damaged,
        then=left(
            None,
            f"the file has SHA-256 {sha256(DATA).hexdigest()}, and the snapshot was taken with {CHANGED.sha256}",
        ),
    ),
    Scene(
        "a host may take almost half an hour",
        acting(replacing(), host=lambda: Host(seconds=(0.0, 1799.0))),
        (ReplaceData,),
        then=left(Replaced("former", "waits"), "", GIVEN),
    ),
    Scene(
        "a host that does not end in half an hour is given up, and the file goes",
        acting(replacing(), host=lambda: Host(seconds=(900.0, 901.0))),
        (ReplaceData,),
        error=NotRestored,
        then=left(None, TOO_LONG),
    ),
    Scene(
        "what a host says is said",
        acting(replacing(), host=lambda: Host(fails=NotReplaced("p-etcd still runs"))),
        (ReplaceData,),
        error=NotReplaced,
        then=left(None, "p-etcd still runs"),
    ),
    Scene(
        "an error of the host's machine is not one of the file",
        acting(replacing(), host=lambda: Host(fails=PermissionError(13, "Permission denied"))),
        (ReplaceData,),
        error=NotRestored,
        then=left(None, "the data cannot be replaced: Permission denied"),
    ),
    Scene(
        "one without a text says what it has",
        acting(replacing(), host=lambda: Host(fails=OSError("odd"))),
        (ReplaceData,),
        error=NotRestored,
        then=left(None, "the data cannot be replaced: odd"),
    ),
    Scene(
        "credentials that may not be read are said",
        acting(replacing(), refused=Forbidden("no")),
        (ReplaceData,),
        error=Forbidden,
        then=left(None, "no"),
    ),
)
NOT_SURE = "the data of p is not replaced: our Lease was not renewed in time, so another process may lead"
DEPOSED = (
    Scene(
        "a process that leads no more replaces nothing",
        acting(replacing(), leads=0),
        (ReplaceData,),
        error=Deposed,
        then=left(None, NOT_SURE),
    ),
    Scene(
        "nor does one that has lost its Lease while it fetched the file",
        acting(replacing(), leads=1),
        (ReplaceData,),
        error=Deposed,
        then=left(None, NOT_SURE),
    ),
    Scene("a file is verified all the same", acting(verifying(), leads=0), (Verify,), then=left()),
)
HELD = (
    Scene("the control plane stops for it", acting(holding("r")), (Stop,), (held("r"),), then=left()),
    Scene("the control plane starts again", acting(holding("")), (Release,), (held(None),), then=left()),
    Scene(
        "one that has changed since stops for none",
        acting(holding("r", "7")),
        (Stop,),
        (held("r", "7"),),
        error=Conflict,
    ),
    Scene(
        "one that is gone has stopped", acting(holding("r"), laid=False), (Stop,), (held("r"),), then=left()
    ),
    Scene(
        "one of which the server says nothing may go on",
        acting(holding("r"), refused=NotFound("404 page not found")),
        (Stop,),
        (held("r"),),
        error=NotFound,
    ),
    Scene(
        "one that may not be written is said",
        acting(holding("r"), refused=Forbidden("no")),
        (Stop,),
        (held("r"),),
        error=Forbidden,
    ),
    Scene(
        "a process that leads no more stops none",
        acting(holding("r"), refused=Deposed("no")),
        (Stop,),
        (held("r"),),
        error=Deposed,
    ),
)
ACT = Act(
    "controlplanes.snapshots.act",
    Verify | ReplaceData | Stop | Release,
    (*ABLE, *VERIFIED, *REPLACED, *DEPOSED, *HELD),
)
