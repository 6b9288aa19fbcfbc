"""Scenes of a ControlPlaneRestore: caches and hosts of the management cluster, and what the look must say."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

from kubewright.api.controlplane.names import Component
from kubewright.controlplanes.family import Pause
from kubewright.controlplanes.hosting.contract import Hosts, Running
from kubewright.controlplanes.snapshots.act import Restores
from kubewright.controlplanes.snapshots.restoring import Seen
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Look, Named, Scene

from . import planes
from .planes import Host, Planes, There, a_cluster, a_component, a_plane, a_restore, a_snapshot

ETCD = a_component(Component.ETCD, of=planes.FINALIZED)
HELD = "nested.controlplane.cluster.x-k8s.io/restoring"
FILE = {"file": {"name": "n/p/first-1"}, "controlPlaneName": "p"}
TAKEN = a_snapshot(status={"ready": True, "format": "embedded", "file": "n/p/first-1"})
RUNS = Running(exists=True)
NO_ETCD = "NestedControlPlane p has no NestedEtcd whose data could be replaced"
WITHOUT_A_PART = "the data of NestedEtcd e cannot be replaced where it runs"

OF_Q = {
    "labels": planes.OF_CLUSTER,
    **planes.FINALIZED,
    **planes.owner(planes.NESTED, "NestedControlPlane", "q"),
}
NOWHERE = Hosts()


def scene(of: There, *there: There, hosts: Hosts = NOWHERE, at: float = 0) -> Callable[[], Awaitable[Seen]]:
    async def look() -> Seen:
        shelf = Planes()
        policy = Restores(shelf.environment, shelf.in_caches, hosts)
        await shelf.holds(*there)
        shelf.clock.passed = at
        return await policy.look(of[1])

    return look


def held(by: str, name: str = "p") -> There:
    return a_plane(name, of={**planes.BY_CLUSTER, "annotations": {HELD: by}})


FOUND = a_restore()
LOOK = Look(
    "controlplanes.snapshots.act",
    Seen,
    (
        Scene(
            "a restore by a snapshot that does not exist",
            scene(FOUND),
            {"found": FOUND[1], "now": BEGIN, "pause": None, "problem": "", "snapshot": None, "family": None}
            | {"abandoned": False, "unable": ""},
        ),
        Scene(
            "by a snapshot that is complete",
            scene(
                a_restore("second", snapshotName="first"),
                TAKEN,
                a_plane(),
                a_cluster(),
                ETCD,
                hosts=Hosts(embedded=Host(RUNS)),
                at=60,
            ),
            {"found": Named("second"), "now": BEGIN + timedelta(seconds=60), "snapshot": Named("first")}
            | {"family.plane": Named("p"), "family.cluster": Named("c")}
            | {"family.components": {Component.ETCD: Named("e")}, "unable": WITHOUT_A_PART},
        ),
        Scene(
            "a snapshot that does not fit the etcd",
            scene(FOUND, TAKEN, a_plane(), ETCD, hosts=Hosts(programs=Host(RUNS))),
            {
                "unable": "a snapshot of format embedded cannot take the place of the data of NestedEtcd e, "
                "which has format etcd"
            },
        ),
        Scene(
            "a snapshot that is not complete: whether it fits is not asked",
            scene(FOUND, a_snapshot(), a_plane()),
            {"snapshot": Named("first"), "family.plane": Named("p"), "unable": ""},
        ),
        Scene(
            "a control plane without an etcd",
            scene(FOUND, TAKEN, a_plane(named={})),
            {"family.components": {}, "unable": NO_ETCD},
        ),
        Scene(
            "by a file, onto a control plane that its spec names",
            scene(a_restore(**FILE), a_plane(), a_plane("q")),
            {"snapshot": None, "family.plane": Named("p"), "problem": "", "unable": NO_ETCD},
        ),
        Scene(
            "a control plane whose name another one has: the data there is not its own",
            scene(
                a_restore(**FILE),
                a_plane(),
                a_component(Component.ETCD),
                a_plane("q", named={"etcd": {"name": "x"}}),
                a_component(Component.ETCD, of={**OF_Q, "name": "x"}),
                hosts=Hosts(programs=Host(RUNS)),
            ),
            {
                "unable": "the data that NestedEtcd e would have is that of NestedEtcd x of NestedControlPlane q"
            },
        ),
        Scene(
            "onto another control plane than that of the snapshot",
            scene(a_restore(snapshotName="first", controlPlaneName="q"), TAKEN, a_plane(), a_plane("q")),
            {"family.plane": Named("q")},
        ),
        Scene(
            "a control plane that is stopped for it is found without its snapshot",
            scene(FOUND, held("another"), held("back", "q")),
            {"family.plane": Named("q"), "snapshot": None, "abandoned": True},
        ),
        Scene(
            "a control plane that is stopped for it, which is there",
            scene(FOUND, FOUND, held("back")),
            {"family.plane": Named("p"), "abandoned": False},
        ),
        Scene(
            "a control plane that is stopped for another restore, which is there",
            scene(a_restore(**FILE), held("another"), a_restore("another")),
            {"family.plane": Named("p"), "abandoned": False},
        ),
        Scene(
            "a control plane that is stopped for another restore, which is gone",
            scene(a_restore(**FILE), held("another")),
            {"family.plane": Named("p"), "abandoned": True},
        ),
        Scene(
            "it has begun, and its snapshot is gone: its file says of which control plane it was",
            scene(a_restore(status={"source": {"name": "n/q/first-1"}}), a_plane(), a_plane("q")),
            {"snapshot": None, "family.plane": Named("q")},
        ),
        Scene(
            "it has begun by a key in a bucket, which says nothing",
            scene(a_restore(status={"source": {"name": "p/first"}}, snapshotName=""), a_plane()),
            {"family": None},
        ),
        Scene(
            "its spec names nothing, and it is paused",
            scene(a_restore(snapshotName="", of=planes.PAUSED)),
            {"problem": "spec.snapshotName: Required value: it names no object"}
            | {"pause": Pause("it has the annotation cluster.x-k8s.io/paused")},
        ),
        Scene(
            "the same, once it has begun",
            scene(a_restore(status={"source": {"name": "n/p/first-1"}}, snapshotName="")),
            {"problem": ""},
        ),
        Scene(
            "the same, once the data is replaced",
            scene(a_restore(status={"replacedAt": "2030-01-01T00:00:00Z"}, snapshotName="")),
            {"problem": ""},
        ),
        Scene(
            "its Cluster is paused",
            scene(a_restore(**FILE), a_plane(), a_cluster(paused=True)),
            {"pause": Pause("Cluster c has spec.paused")},
        ),
    ),
    given={
        "failed": "the pass says why a step of it failed (act.Once)",
        "begun": "the pass says that it has begun",
        "replaced": "the pass says what its host answered",
    },
)
