"""Passes over a ControlPlaneSnapshot: what enqueues it, and what is taken, written, told and deleted."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import ANY

from tests.unit.looks import planes
from tests.unit.looks.planes import There, a_cluster, a_component, a_plane, a_secret, a_snapshot, key

from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.snapshots import CONTROL_PLANE_SNAPSHOT
from kubewright.api.controlplane.v1alpha4 import NESTED_API_SERVER, NESTED_CONTROL_PLANE, NESTED_ETCD
from kubewright.controlplanes.etcd import Streamed
from kubewright.controlplanes.hosting.contract import Hosts
from kubewright.controlplanes.members import Credentials, Endpoint
from kubewright.controlplanes.snapshots.wiring import wire_snapshots as wire
from kubewright.testing.looks import Shelf, Write
from kubewright.testing.passes import Scene, Stage, Wired, changed, gone, put

PATH = CONTROL_PLANE_SNAPSHOT.resource.path(planes.NS, "first")
FILE = "n/p/first-first"
DATA = b"the data of an etcd"
CONTENT = DATA + sha256(DATA).digest()
ADDRESS = [{"ip": "127.0.0.2", "port": 2379}]
ETCD = a_component(Component.ETCD, {"ready": True, "addresses": ADDRESS})
CREDENTIALS = (
    a_secret("c-etcd", **{"tls.crt": "CA"}),
    a_secret("c-etcd-health-client", **{"tls.crt": "CERT", "tls.key": "KEY"}),
)
FOUND = a_snapshot(of=planes.FINALIZED)
NEW = a_snapshot(of={})
DONE = a_snapshot(status={"ready": True}, of=planes.FINALIZED)
NO_PLANE = "there is no NestedControlPlane p"


async def stream(members: Sequence[Endpoint], own: Credentials, target: Path) -> Streamed:
    """What an etcd sends to those who have its credentials."""
    assert own == Credentials(b"CA", b"CERT", b"KEY")
    _written(target)
    return Streamed("3.6.1", members[0])


def _written(target: Path) -> None:
    target.write_bytes(CONTENT)


class Snapshots(planes.Planes):
    """With a folder of snapshots, which goes with it; ``kept``: its files, by name."""

    def __init__(self, kept: dict[str, bytes] | None = None) -> None:
        super().__init__()
        self.folder = TemporaryDirectory(prefix="kubewright-")
        for name, content in (kept or {}).items():
            path = Path(self.folder.name) / name
            path.parent.mkdir(parents=True)
            path.write_bytes(content)

    @property
    def kept(self) -> dict[str, bytes]:
        root = Path(self.folder.name)
        return {str(each.relative_to(root)): each.read_bytes() for each in root.rglob("*") if each.is_file()}


def stage(*there: There, kept: dict[str, bytes] | None = None) -> Stage:
    async def wired() -> Wired:
        shelf = Snapshots(kept)
        hosts = Hosts(snapshots=Path(shelf.folder.name))
        controller = wire(shelf.environment, hosts, stream)
        await shelf.holds(*there)
        return Wired(shelf, controller, shelf.told, shelf.folder.cleanup)

    return wired


def keeps(**files: bytes) -> Any:
    """Its folder has these files in the end, by their names."""

    def then(shelf: Shelf) -> None:
        assert isinstance(shelf, Snapshots)
        assert shelf.kept == files

    return then


def of_version(version: str, **said: Any) -> dict[str, Any]:
    return {"metadata": {"uid": "first", "resourceVersion": version}, **said}


def condition(status: str, **told: str) -> dict[str, Any]:
    since = {"lastTransitionTime": "2030-01-01T00:00:00Z"}
    return {"conditions": [{"type": "Ready", "status": status, **since, **told}]}


def waits(version: str, told: str) -> Write:
    said = condition("False", severity="Info", reason="WaitingForControlPlane", message=told)
    return Write("PATCH", f"{PATH}/status", of_version(version, status=said))


TAKEN = {
    "ready": True,
    "takenAt": "2030-01-01T00:00:00Z",
    "file": FILE,
    "size": len(CONTENT),
    "sha256": sha256(CONTENT).hexdigest(),
    "format": "etcd",
    "version": "3.6.1",
    "member": "https://127.0.0.2:2379",
}
OFF = of_version("101", metadata={"uid": "first", "resourceVersion": "101", "finalizers": None})
DELETED = a_snapshot(of=planes.DELETED, deletionPolicy="Delete")
SCENES = (
    Scene(
        "there is no control plane: its status says so",
        stage(FOUND),
        wakes={"n/first": "ControlPlaneSnapshot n/first added"},
        writes=(waits("101", NO_PLANE),),
        because={"n/first": NO_PLANE},
    ),
    Scene(
        "its etcd is ready: it is taken and kept, and its status says what it is",
        stage(FOUND, a_plane(), ETCD, *CREDENTIALS),
        writes=(Write("PATCH", f"{PATH}/status", of_version("101", status=condition("True") | TAKEN)),),
        events=(("first", "Taken", f"{len(CONTENT)} bytes are kept as {FILE}", False),),
        because={"n/first": "it is not taken yet"},
        then=keeps(**{FILE: CONTENT}),
    ),
    Scene(
        "its etcd has no credentials for us: its status says so",
        stage(FOUND, a_plane(), ETCD),
        writes=(Write("PATCH", f"{PATH}/status", ANY),),
        events=(("first", "Failed", ANY, True),),
        then=keeps(),
    ),
    Scene(
        "it has no finalizer of ours: that comes first",
        stage(NEW, a_plane(), ETCD, *CREDENTIALS),
        writes=(
            Write(
                "PATCH",
                PATH,
                {"metadata": {"uid": "first", "resourceVersion": "101", **planes.FINALIZED}},
            ),
            Write("PATCH", f"{PATH}/status", of_version("106", status=condition("True") | TAKEN)),
        ),
        events=(("first", "Taken", ANY, False),),
    ),
    Scene(
        "it is taken already: nothing more is told",
        stage(DONE, a_plane(), ETCD),
        writes=(Write("PATCH", f"{PATH}/status", of_version("101", status=condition("True"))),),
        because={"n/first": "it is complete"},
        then=keeps(),
    ),
    Scene(
        "it is being deleted, with its file",
        stage(DELETED, kept={FILE: CONTENT}),
        writes=(Write("PATCH", PATH, OFF),),
        then=keeps(),
    ),
    Scene(
        "it is being deleted, and its file stays",
        stage(a_snapshot(of=planes.DELETED), kept={FILE: CONTENT}),
        writes=(Write("PATCH", PATH, OFF),),
        then=keeps(**{FILE: CONTENT}),
    ),
    Scene(
        "it changes",
        stage(DONE),
        changed(CONTROL_PLANE_SNAPSHOT, key("first"), metadata={"labels": {"a": "b"}}),
        {"n/first": "ControlPlaneSnapshot n/first changed"},
    ),
    Scene(
        "its status changes",
        stage(DONE),
        changed(CONTROL_PLANE_SNAPSHOT, key("first"), status={"file": FILE}),
        {},
    ),
    Scene("it is gone", stage(DONE), gone(CONTROL_PLANE_SNAPSHOT, key("first")), {}),
    Scene(
        "its control plane comes",
        stage(DONE),
        put(*a_plane()),
        {"n/first": "NestedControlPlane n/p added"},
    ),
    Scene("another control plane comes", stage(DONE), put(*a_plane("q")), {}),
    Scene(
        "its control plane changes",
        stage(DONE, a_plane()),
        changed(NESTED_CONTROL_PLANE, key("p"), status={"ready": True}),
        {"n/first": "NestedControlPlane n/p changed"},
    ),
    Scene(
        "its etcd changes",
        stage(DONE, a_plane(), ETCD),
        changed(NESTED_ETCD, key("e"), status={"ready": False}),
        {"n/first": "NestedEtcd n/e changed"},
    ),
    Scene(
        "another etcd changes",
        stage(DONE, a_plane(named={"etcd": {"name": "x"}}), ETCD),
        changed(NESTED_ETCD, key("e"), status={"ready": False}),
        {},
    ),
    Scene(
        "its API server changes, which it does not read",
        stage(DONE, a_plane(), a_component(Component.API_SERVER)),
        changed(NESTED_API_SERVER, key("a"), status={"ready": True}),
        {},
    ),
    Scene(
        "the spec of its Cluster changes",
        stage(DONE, a_plane(), a_cluster(clusterNetwork={})),
        changed(CLUSTER, key("c"), spec={"clusterNetwork": {"serviceDomain": "x"}}),
        {"n/first": "Cluster n/c changed"},
    ),
    Scene(
        "its Cluster changes in what is not read",
        stage(DONE, a_plane(), a_cluster()),
        changed(CLUSTER, key("c"), metadata={"labels": {"a": "b"}}),
        {},
    ),
)
