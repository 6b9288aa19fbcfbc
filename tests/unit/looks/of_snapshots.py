"""Scenes of a ControlPlaneSnapshot: what the management cluster's caches hold, and what the look must say."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path

from kubewright.api.controlplane.names import Component
from kubewright.controlplanes.etcd import Streamed
from kubewright.controlplanes.family import Pause
from kubewright.controlplanes.hosting.contract import Hosts
from kubewright.controlplanes.members import Credentials, Endpoint
from kubewright.controlplanes.snapshots.act import Snapshots
from kubewright.controlplanes.snapshots.taking import Seen
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Look, Scene

from . import planes
from .planes import Planes, There, a_cluster, a_component, a_plane, a_restore, a_snapshot

FILE = "n/p/first-first"
REPLACED = "2030-01-01T00:00:00Z"
HELD = {"annotations": {"nested.controlplane.cluster.x-k8s.io/restoring": "back"}}
READY = a_component(Component.ETCD, {"ready": True})


async def no_stream(_from: Sequence[Endpoint], _with: Credentials, _to: Path) -> Streamed:
    raise AssertionError("nothing is copied in a look")


def scene(of: There, *there: There, at: float = 0) -> Callable[[], Awaitable[Seen]]:
    async def look() -> Seen:
        shelf = Planes()
        policy = Snapshots(shelf.environment, shelf.in_caches, Hosts(), no_stream)
        await shelf.holds(*there)
        shelf.clock.passed = at
        return await policy.look(of[1])

    return look


def by(*names: str, **status: str) -> There:
    """A restore that has begun with a file, or ended."""
    return a_restore(status={"source": {"name": names[0]}, **status} if names else status)


FOUND = a_snapshot()
ADDRESSES = {"etcd": {"addresses": [{"hostname": "etcd.example.com", "port": 2379}]}}
LOOK = Look(
    "controlplanes.snapshots.act",
    Seen,
    (
        Scene(
            "a snapshot of a control plane that does not exist",
            scene(FOUND),
            {"found": FOUND[1], "now": BEGIN, "pause": None, "problem": "", "needed_by": ""}
            | {"waiting": "there is no NestedControlPlane p"},
        ),
        Scene(
            "its etcd is ready",
            scene(a_snapshot("second"), a_plane(), READY, at=60),
            {"found": a_snapshot("second")[1], "now": BEGIN + timedelta(seconds=60), "waiting": ""},
        ),
        Scene(
            "its etcd is not ready",
            scene(FOUND, a_plane(), a_component(Component.ETCD)),
            {"waiting": "NestedEtcd e is not ready"},
        ),
        Scene(
            "its control plane has no etcd",
            scene(FOUND, a_plane(named={})),
            {"waiting": "NestedControlPlane p has no etcd yet"},
        ),
        Scene(
            "its control plane has the etcd of another program",
            scene(FOUND, a_plane(named={}, status=ADDRESSES)),
            {"waiting": ""},
        ),
        Scene(
            "its control plane is stopped for a restore",
            scene(FOUND, a_plane(of={**planes.BY_CLUSTER, **HELD}), READY),
            {"waiting": "ControlPlaneRestore back replaces the data of NestedControlPlane p"},
        ),
        Scene(
            "it names no control plane, and it is paused",
            scene(a_snapshot(controlPlaneName="", of=planes.PAUSED)),
            {"problem": "spec.controlPlaneName: Required value: it names no object"}
            | {"pause": Pause("it has the annotation cluster.x-k8s.io/paused")},
        ),
        Scene(
            "its control plane is paused",
            scene(FOUND, a_plane(of=planes.PAUSED), READY),
            {"pause": Pause("NestedControlPlane p has the annotation cluster.x-k8s.io/paused")},
        ),
        Scene(
            "its Cluster is paused",
            scene(FOUND, a_plane(), a_cluster(paused=True), READY),
            {"pause": Pause("Cluster c has spec.paused")},
        ),
        Scene("a restore replaces data by its file", scene(FOUND, by(FILE)), {"needed_by": "back"}),
        Scene("a restore has not begun", scene(FOUND, by()), {"needed_by": ""}),
        Scene(
            "a restore has replaced the data", scene(FOUND, by(FILE, replacedAt=REPLACED)), {"needed_by": ""}
        ),
        Scene("a restore of another file", scene(FOUND, by("n/p/second-second")), {"needed_by": ""}),
    ),
    given={
        "failed": "the pass says why a step of it failed (act.Once)",
        "taken": "the pass says what it took",
    },
)
