"""Scenes of a NestedControlPlane: what the management cluster holds, and what the look must say of it."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.v1alpha4 import NestedControlPlane
from kubewright.controlplanes.family import Pause
from kubewright.controlplanes.plane.act import ControlPlanes
from kubewright.controlplanes.plane.seen import Rest, Seen
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Look, Named, Scene

from . import planes
from .planes import Planes, There, a_cluster, a_component, a_secret, plane

ETCD, SERVER, MANAGER = Component
EVENING = [{"sleep": "0 20 * * *", "wake": "0 7 * * *"}]
MADE = {**planes.BY_CLUSTER, "creationTimestamp": "2029-12-31T12:00:00Z"}

NO_SCHEDULE = (
    'Invalid value: "often": a schedule has five fields: minute, hour, day of month, month, day of week'
)


def scene(
    of: NestedControlPlane, *there: There, laid: tuple[There, ...] = (), at: float = 0
) -> Callable[[], Awaitable[Seen]]:
    """A look at ``of``; ``laid``: what stands on the server, and in no cache."""

    async def look() -> Seen:
        shelf = Planes()
        reconciler = ControlPlanes(shelf.environment, shelf.in_caches)
        await shelf.holds(*there)
        for kind, each in laid:
            shelf.lay(kind, each)
        shelf.clock.passed = at
        return await reconciler.look(of)

    return look


def owned(which: Component, **of: Any) -> There:
    return a_component(which, of=of)


PLANE = plane()
LOOK = Look(
    "controlplanes.plane.act",
    Seen,
    (
        Scene(
            "a control plane without anything",
            scene(plane(of={})),
            {"family.plane": plane(of={}), "family.cluster": None, "family.components": {}, "now": BEGIN}
            | {"pause": None, "problem": "", "kubeconfig": False, "rest": Rest(), "owned": ()},
        ),
        Scene(
            "a control plane with everything",
            scene(
                PLANE,
                a_cluster(),
                *(owned(each) for each in Component),
                a_secret("c-kubeconfig", value="x"),
                at=60,
            ),
            {"family.plane": PLANE, "family.cluster": Named("c"), "now": BEGIN + timedelta(seconds=60)}
            | {"family.components": {ETCD: Named("e"), SERVER: Named("a"), MANAGER: Named("m")}}
            | {"kubeconfig": True}
            | {"owned": ((ETCD, Named("e")), (SERVER, Named("a")), (MANAGER, Named("m")))},
        ),
        Scene(
            "components that it names and does not control, and one that it controls and does not name",
            scene(
                plane(named={"etcd": {"name": "e"}, "apiserver": {"name": "none"}}),
                owned(ETCD, **planes.owner(planes.NESTED, "NestedControlPlane", "another")),
                owned(MANAGER),
            ),
            {"family.components": {ETCD: Named("e")}, "owned": ((MANAGER, Named("m")),)},
        ),
        Scene(
            "its kubeconfig is one without a label, which no cache holds",
            scene(PLANE, laid=(a_secret("c-kubeconfig", labels={}, value="x"),)),
            {"kubeconfig": True},
        ),
        Scene(
            "a Secret with its own name, where a Cluster owns it, is no kubeconfig of it",
            scene(PLANE, a_secret("p-kubeconfig", value="x"), laid=(a_secret("c-ca", labels={}),)),
            {"kubeconfig": False},
        ),
        Scene(
            "without a Cluster the names of its Secrets begin with its own",
            scene(plane(of={}), a_secret("p-kubeconfig", value="x")),
            {"kubeconfig": True},
        ),
        Scene(
            "it is paused",
            scene(plane(of={**planes.BY_CLUSTER, **planes.PAUSED})),
            {"pause": Pause("it has the annotation cluster.x-k8s.io/paused")},
        ),
        Scene(
            "its Cluster is paused",
            scene(PLANE, a_cluster(paused=True)),
            {"pause": Pause("Cluster c has spec.paused")},
        ),
        Scene(
            "its spec breaks a rule: its schedule is not read, and it stays asleep",
            scene(plane(status={"asleep": True}, schedule=[{"sleep": "often"}])),
            {"rest": Rest(asleep=True), "problem": f"spec.schedule[0].sleep: {NO_SCHEDULE}"},
        ),
        Scene(
            "it is night, by the clock and since it was made",
            scene(plane(of=MADE, schedule=EVENING)),
            {"rest": Rest(asleep=True, until=BEGIN + timedelta(hours=7))},
        ),
        Scene(
            "the same, of one that was made in the night",
            scene(plane(of={**MADE, "creationTimestamp": "2029-12-31T22:00:00Z"}, schedule=EVENING), at=3600),
            {"rest": Rest(asleep=False, until=BEGIN + timedelta(hours=20))},
        ),
        Scene(
            "a user puts it to sleep",
            scene(plane(asleep=True)),
            {"rest": Rest(asleep=True, by_hand=True)},
        ),
    ),
)
