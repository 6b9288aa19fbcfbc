"""Passes over a ControlPlaneRestore: what enqueues it, and what is stopped, replaced, written and told."""

from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import ANY

from tests.unit.looks import planes
from tests.unit.looks.planes import There, a_cluster, a_component, a_plane, a_restore, a_snapshot, key

from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.snapshots import CONTROL_PLANE_RESTORE
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE, NESTED_CONTROLLER_MANAGER, NESTED_ETCD
from kubewright.controlplanes.hosting.contract import Hosts, Replaced, Replacement, Running, WorkloadIdentity
from kubewright.controlplanes.snapshots.wiring import wire_restores as wire
from kubewright.testing.looks import Shelf, Write
from kubewright.testing.passes import Scene, Stage, Wired, changed, gone, put

from .of_snapshots import CONTENT, FILE, Snapshots

PATH = CONTROL_PLANE_RESTORE.resource.path(planes.NS, "back")
PLANE = NESTED_CONTROL_PLANE.resource.path(planes.NS, "p")
HELD = "nested.controlplane.cluster.x-k8s.io/restoring"
NOW = "2030-01-01T00:00:00Z"
HASH = sha256(CONTENT).hexdigest()


@dataclass
class Host(planes.Host):
    """A host whose data can be replaced. ``data``: that of the etcd; ``by``: with what it was replaced."""

    data: bytes = b"lost"
    by: list[tuple[str, str, int]] = field(default_factory=list)

    def lacks_to_replace(self) -> str:
        return ""

    async def replace_data(self, identity: WorkloadIdentity, by: Replacement) -> Replaced:
        async with by.fetch() as path:
            self.data = _content(path)
        self.by.append((identity.workload, by.mark, by.members))
        return Replaced(former="former")


def _content(path: Path) -> bytes:
    return path.read_bytes()


class Restores(Snapshots):
    """With a host that has an etcd."""

    def __init__(self, kept: dict[str, bytes] | None = None) -> None:
        super().__init__(kept)
        self.host = Host(Running(exists=True))


def stage(*there: There, kept: bytes = CONTENT) -> Stage:
    async def wired() -> Wired:
        shelf = Restores({FILE: kept})
        hosts = Hosts(programs=shelf.host, snapshots=Path(shelf.folder.name))
        controller = wire(shelf.environment, hosts)
        await shelf.holds(*there)
        return Wired(shelf, controller, shelf.told, shelf.folder.cleanup)

    return wired


def _replaced(shelf: Shelf) -> None:
    assert isinstance(shelf, Restores)
    assert (shelf.host.data, shelf.host.by) == (CONTENT, [("c-etcd", "back", 2)])


def _kept(shelf: Shelf) -> None:
    assert isinstance(shelf, Restores)
    assert (shelf.host.data, shelf.host.by) == (b"lost", [])


ADDRESSES = {"addresses": [{"ip": "127.0.0.2"}, {"ip": "127.0.0.3"}]}
ETCD = a_component(Component.ETCD, ADDRESSES, of=planes.FINALIZED)
TAKEN = a_snapshot(status={"ready": True, "format": "etcd", "file": FILE, "sha256": HASH})
FOUND = a_restore(of=planes.FINALIZED, snapshotName="first")
MOVED = {"annotations": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}}
PAUSED = a_restore(of=MOVED)
"""A restore that is not written: which changes enqueue it."""
BEGUN = {"source": {"name": FILE, "sha256": HASH}}


def onto(uid: str, version: str, **said: Any) -> dict[str, Any]:
    return {"metadata": {"uid": uid, "resourceVersion": version}, **said}


def status(version: str, phase: str = "", told: str = "", **said: Any) -> Write:
    condition = {"type": "Ready", "status": "False", "severity": "Info", "lastTransitionTime": NOW}
    why = [{**condition, "reason": "Provisioning", "message": told}]
    body = {**({"conditions": why} if told else {}), **({"phase": phase} if phase else {}), **said}
    return Write("PATCH", f"{PATH}/status", onto("back", version, status=body))


def held(by: str | None, version: str) -> Write:
    meta = {"uid": "p", "resourceVersion": version, "annotations": {HELD: by}}
    return Write("PATCH", PLANE, {"metadata": meta})


ONE = a_plane(named={"etcd": {"name": "e"}})
STOPPED = a_plane(of={**planes.BY_CLUSTER, "annotations": {HELD: "back"}}, named={"etcd": {"name": "e"}})
READY = {"type": "Ready", "status": "True", "lastTransitionTime": NOW}
SCENES = (
    Scene(
        "from the first pass until the control plane starts again",
        stage(a_restore(), TAKEN, ONE, ETCD),
        writes=(
            Write("PATCH", PATH, {"metadata": {"uid": "back", "resourceVersion": "101", **planes.FINALIZED}}),
            held("back", "103"),
            status("105", "Pending", "the data is being replaced"),
            status("107", "Replacing", source={**BEGUN["source"], "location": {}}),
            status(
                "108",
                "Starting",
                "the data is replaced; not ready yet: NestedEtcd e",
                replacedAt=NOW,
                formerData="former",
            ),
            held(None, "106"),
        ),
        events=(
            ("back", "Pending", "the snapshot is complete", False),
            ("back", "Replacing", "nothing of the control plane runs", False),
            ("back", "Starting", "its data is replaced by that of the file in the status", False),
        ),
        because={"n/back": "it is done"},
        then=_replaced,
    ),
    Scene(
        "the file is not what was taken: nothing is stopped",
        stage(FOUND, TAKEN, ONE, ETCD, kept=b"another"),
        writes=(Write("PATCH", f"{PATH}/status", ANY),),
        events=(
            ("back", "Pending", "the snapshot is complete", False),
            ("back", "Failed", ANY, True),
        ),
        then=_kept,
    ),
    Scene(
        "it is ready when its control plane is, though its snapshot is gone",
        stage(
            a_restore(
                status={**BEGUN, "phase": "Starting", "replacedAt": NOW},
                of=planes.FINALIZED,
                snapshotName="first",
            ),
            ONE,
            ETCD,
        ),
        changed(NESTED_ETCD, key("e"), status={"ready": True}),
        {"n/back": "NestedEtcd n/e changed"},
        writes=(
            Write(
                "PATCH",
                f"{PATH}/status",
                onto(
                    "back",
                    "104",
                    status={
                        "ready": True,
                        "phase": "Complete",
                        "conditions": [{**READY, "lastTransitionTime": "2030-01-01T00:00:01Z"}],
                    },
                ),
            ),
        ),
        events=(("back", "Complete", "it is done", False),),
    ),
    Scene(
        "it is being deleted before it has begun: the control plane starts again",
        stage(a_restore(of=planes.DELETED), TAKEN, STOPPED, ETCD),
        writes=(
            held(None, "103"),
            Write("PATCH", PATH, {"metadata": {"uid": "back", "resourceVersion": "101", "finalizers": None}}),
        ),
        then=_kept,
    ),
    Scene(
        "it changes",
        stage(PAUSED),
        changed(CONTROL_PLANE_RESTORE, key("back"), metadata={"labels": {"a": "b"}}),
        {"n/back": "ControlPlaneRestore n/back changed"},
    ),
    Scene(
        "its status changes in what nobody waits for",
        stage(PAUSED),
        changed(CONTROL_PLANE_RESTORE, key("back"), status={"formerData": "x"}),
        {},
    ),
    Scene(
        "its status says that the data is replaced",
        stage(PAUSED),
        changed(CONTROL_PLANE_RESTORE, key("back"), status={"replacedAt": NOW}),
        {"n/back": "ControlPlaneRestore n/back changed"},
    ),
    Scene(
        "its status has said so before",
        stage(a_restore(status={"replacedAt": NOW}, of=MOVED)),
        changed(CONTROL_PLANE_RESTORE, key("back"), status={"formerData": "x"}),
        {},
    ),
    Scene("it is gone", stage(PAUSED), gone(CONTROL_PLANE_RESTORE, key("back")), {}),
    Scene("its snapshot comes", stage(PAUSED), put(*TAKEN), {"n/back": "ControlPlaneSnapshot n/first added"}),
    Scene(
        "a component comes",
        stage(PAUSED),
        put(*a_component(Component.API_SERVER)),
        {"n/back": "NestedAPIServer n/a added"},
    ),
    Scene(
        "the controller manager changes",
        stage(PAUSED, a_component(Component.CONTROLLER_MANAGER)),
        changed(NESTED_CONTROLLER_MANAGER, key("m"), status={"replicas": 0}),
        {"n/back": "NestedControllerManager n/m changed"},
    ),
    Scene("a control plane comes", stage(PAUSED), put(*ONE), {"n/back": "NestedControlPlane n/p added"}),
    Scene(
        "a restore that is done is not enqueued",
        stage(a_restore(status={"ready": True}, of=MOVED), a_restore("other", of=MOVED)),
        put(*ONE),
        {"n/other": "NestedControlPlane n/p added"},
    ),
    Scene(
        "the spec of the Cluster of a control plane changes",
        stage(PAUSED, ONE, a_cluster()),
        changed(CLUSTER, key("c"), spec={"paused": True}),
        {"n/back": "Cluster n/c changed"},
    ),
    Scene("a Cluster without a control plane comes", stage(PAUSED, ONE), put(*a_cluster("d")), {}),
)
