"""Passes over a control plane that was restored: what enqueues it, and which of its users are deleted there."""

from typing import Any

from tests.unit.looks import planes
from tests.unit.looks.of_plane_users import a_user
from tests.unit.looks.planes import There, a_cluster, a_plane, a_restore, a_secret, key

from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.api.controlplane.snapshots import CONTROL_PLANE_RESTORE
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE
from kubewright.base.clock import Clock
from kubewright.base.delays import DATED, UNHEARD
from kubewright.controlplanes.users import seen
from kubewright.controlplanes.users.restored import wire
from kubewright.controlplanes.users.seen import ACCOUNT, BINDING, ROLE
from kubewright.kube.access import Access
from kubewright.kube.transport import InProcess, Transport
from kubewright.pki.clusters import kubeconfig
from kubewright.testing.looks import Shelf
from kubewright.testing.passes import Scene, Stage, Wired, changed, put

SERVER = "https://127.0.0.9:6443"
ADMINISTRATOR = kubeconfig("c", "admin", SERVER, b"CA", {"token": "secret"}).decode()


class Restored(planes.Planes):
    """With the server of the control plane itself: ``own``."""

    def __init__(self) -> None:
        super().__init__()
        self.own = Shelf(self.clock)
        for name in ("wanted", "brought-back"):
            mine = a_user(of={"name": name})[1]
            for kind, made in ((ACCOUNT, seen.account_of), (ROLE, seen.role_of), (BINDING, seen.binding_of)):
                body: Any = made(mine)
                place = body["metadata"]
                path = kind.resource.path(place.get("namespace", ""), place["name"])
                self.own.objects[path] = {**body, "metadata": {**place, "uid": name, "resourceVersion": "1"}}

    def connect(self, access: Access, _clock: Clock) -> Transport:
        assert access.server == SERVER
        return InProcess(self.own.handle)


def stage(*there: There) -> Stage:
    async def wired() -> Wired:
        shelf = Restored()
        controller = wire(shelf.environment, shelf.connect)
        await shelf.holds(*there)
        return Wired(shelf, controller, shelf.told)

    return wired


def _cleaned(shelf: Shelf) -> None:
    assert isinstance(shelf, Restored)
    assert {path.rsplit("/", 1)[-1] for path in shelf.own.objects} == {
        "kubewright-user-wanted",
        "kubewright:user:wanted",
    }


def _left(shelf: Shelf) -> None:
    assert isinstance(shelf, Restored)
    assert len(shelf.own.objects) == 2 * 3


READY = {"ready": True}
DONE = a_restore(status={"ready": True, "replacedAt": "2029-12-31T23:00:00Z"}, controlPlaneName="p")
OLD = a_restore(status={"replacedAt": "2020-01-01T00:00:00Z"}, controlPlaneName="p")
PLANE, SECRET, WANTED = (
    a_plane(status=READY),
    a_secret("c-kubeconfig", value=ADMINISTRATOR),
    a_user(of={"name": "wanted"}),
)
PAUSED = a_plane(status=READY, of={**planes.BY_CLUSTER, **planes.PAUSED})
CLEAN = "it was restored, and has only users that are wanted"
SCENES = (
    Scene(
        "a user that the restore has brought back is deleted there",
        stage(PLANE, SECRET, WANTED, DONE),
        because={"n/p": CLEAN},
        due={"n/p": DATED},
        then=_cleaned,
    ),
    Scene(
        "a restore so long ago that no token is good has brought back none",
        stage(PLANE, SECRET, WANTED, OLD),
        wakes={},
        then=_left,
    ),
    Scene(
        "a restore of another control plane",
        stage(
            PLANE,
            SECRET,
            a_restore(status={"replacedAt": "2029-12-31T23:00:00Z"}, controlPlaneName="q"),
        ),
        wakes={},
        then=_left,
    ),
    Scene(
        "it is paused: nothing is deleted",
        stage(PAUSED, SECRET, WANTED, DONE),
        because={"n/p": "paused: it has the annotation cluster.x-k8s.io/paused"},
        due={"n/p": DATED},
        then=_left,
    ),
    Scene(
        "its own pause ends",
        stage(PAUSED, SECRET, WANTED, DONE),
        changed(NESTED_CONTROL_PLANE, key("p"), metadata={"annotations": None}),
        {"n/p": "NestedControlPlane n/p changed"},
        then=_cleaned,
    ),
    Scene(
        "the pause of its Cluster ends",
        stage(PLANE, a_cluster(paused=True), SECRET, WANTED, DONE),
        changed(CLUSTER, key("c"), spec={"paused": False}),
        {"n/p": "Cluster n/c changed"},
        then=_cleaned,
    ),
    Scene(
        "it becomes ready",
        stage(a_plane(), SECRET, WANTED, DONE),
        changed(NESTED_CONTROL_PLANE, key("p"), status=READY),
        {"n/p": "NestedControlPlane n/p changed"},
        then=_cleaned,
    ),
    Scene(
        "a restore is complete",
        stage(PLANE, SECRET, WANTED, a_restore(controlPlaneName="p")),
        changed(CONTROL_PLANE_RESTORE, key("back"), status={"replacedAt": "2030-01-01T00:00:00Z"}),
        {"n/p": "ControlPlaneRestore n/back changed"},
        then=_cleaned,
    ),
    Scene(
        "its kubeconfig is not there",
        stage(PLANE, WANTED, DONE),
        because={
            "n/p": "it was restored, and its users cannot be looked at: there is no Secret c-kubeconfig"
        },
        due={"n/p": UNHEARD},
        then=_left,
    ),
    Scene(
        "it sleeps: it is looked at when it is ready again",
        stage(a_plane(status={"asleep": True}), SECRET, WANTED, DONE),
        because={"n/p": "it was restored, and its users cannot be looked at: it is not ready"},
        due={"n/p": None},
        then=_left,
    ),
    Scene(
        "it changes in what is not read",
        stage(PLANE, SECRET, WANTED, DONE),
        changed(NESTED_CONTROL_PLANE, key("p"), status={"version": "1.36.3"}),
        {},
    ),
    Scene("another user comes, which its own controller looks at", stage(PLANE, DONE), put(*a_user()), {}),
)
