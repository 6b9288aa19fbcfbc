"""Scenes of a NestedCluster: what the management cluster's caches hold, and what the look must say of it."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

from kubewright.controlplanes.family import Pause
from kubewright.controlplanes.nestedcluster.decide import Seen
from kubewright.controlplanes.nestedcluster.wiring import Caches, NestedClusters
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Look, Named, Scene

from . import planes
from .planes import Planes, There, a_cluster, a_nested_cluster, a_plane

REF = {"apiVersion": planes.NESTED, "kind": "NestedControlPlane", "name": "p", "namespace": planes.NS}
ELSEWHERE = planes.owner("cluster.x-k8s.io/v1beta2", "Cluster", "other", controller=False)
OTHERS = planes.owner("example.com/v1", "Cluster", "c")


def scene(of: There, *there: There, at: float = 0) -> Callable[[], Awaitable[Seen]]:
    async def look() -> Seen:
        shelf = Planes()
        reconciler = NestedClusters(shelf.environment, Caches(shelf.caches))
        await shelf.holds(*there)
        shelf.clock.passed = at
        return await reconciler.look(of[1])

    return look


FOUND = a_nested_cluster()
LOOK = Look(
    "controlplanes.nestedcluster.wiring",
    Seen,
    (
        Scene(
            "a NestedCluster without anything",
            scene(FOUND),
            {"cluster": FOUND[1], "now": BEGIN, "owner": None, "plane": None, "pause": None},
        ),
        Scene(
            "with a Cluster that names a control plane",
            scene(
                a_nested_cluster(replicas=3), a_cluster(controlPlaneRef=REF), a_plane(), a_plane("q"), at=60
            ),
            {"cluster": Named("c"), "owner": Named("c"), "plane": Named("p")}
            | {"now": BEGIN + timedelta(seconds=60)},
        ),
        Scene(
            "a reference without a namespace is to one of the Cluster's own",
            scene(FOUND, a_cluster(controlPlaneRef={**REF, "namespace": ""}), a_plane()),
            {"plane": Named("p")},
        ),
        Scene(
            "a reference into another namespace",
            scene(FOUND, a_cluster(controlPlaneRef={**REF, "namespace": "else"}), a_plane()),
            {"owner": Named("c"), "plane": None},
        ),
        Scene(
            "a reference to a control plane of another version of the API",
            scene(FOUND, a_cluster(controlPlaneRef={**REF, "apiVersion": f"{planes.NESTED}x"}), a_plane()),
            {"plane": Named("p")},
        ),
        Scene(
            "a reference to another kind, of the same group",
            scene(FOUND, a_cluster(controlPlaneRef={**REF, "kind": "Other"}), a_plane()),
            {"owner": Named("c"), "plane": None},
        ),
        Scene(
            "a reference to a kind of the same name, of another group",
            scene(FOUND, a_cluster(controlPlaneRef={**REF, "apiVersion": "example.com/v1"}), a_plane()),
            {"owner": Named("c"), "plane": None},
        ),
        Scene(
            "its Cluster is paused",
            scene(FOUND, a_cluster(paused=True)),
            {"pause": Pause("Cluster c has spec.paused"), "owner": Named("c")},
        ),
        Scene(
            "it is paused itself",
            scene(a_nested_cluster(of={**planes.BY_CLUSTER, **planes.PAUSED})),
            {"pause": Pause("it has the annotation cluster.x-k8s.io/paused")},
        ),
        Scene(
            "its owner is a Cluster in another version of the API, and not its controller",
            scene(a_nested_cluster(of=ELSEWHERE), a_cluster(), a_cluster("other")),
            {"owner": Named("other")},
        ),
        Scene(
            "its owner is of a kind of the same name, of another group",
            scene(a_nested_cluster(of=OTHERS), a_cluster()),
            {"owner": None},
        ),
    ),
)
