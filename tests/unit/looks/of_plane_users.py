"""Scenes of a ControlPlaneUser: its control plane and its Secrets, and what the look must say of it."""

import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.v1alpha4 import CONTROL_PLANE_USER
from kubewright.base.clock import Clock
from kubewright.controlplanes.family import Pause
from kubewright.controlplanes.users import kubeconfigs
from kubewright.controlplanes.users.seen import Seen, TokenKubeconfig
from kubewright.controlplanes.users.wiring import Users
from kubewright.kube.access import Access
from kubewright.kube.transport import Transport
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Look, Named, Scene
from kubewright.wire.http import User

from . import planes
from .planes import Planes, There, a_cluster, a_component, a_plane, a_secret

ALICE = User("alice", ("devs",))
SERVER = "https://127.0.0.9:6443"
HELD = {"nested.controlplane.cluster.x-k8s.io/restoring": "back"}


def a_user(**spec: Any) -> There:
    of = spec.pop("of", {})
    given = {
        "metadata": planes.meta("u", **of),
        "spec": {"controlPlaneName": "p", "groups": ["devs"], **spec},
    }
    return CONTROL_PLANE_USER, CONTROL_PLANE_USER.from_plain(given)


def a_token(seconds: int) -> str:
    """A bound token of a service account: issued now, and good for so many seconds."""
    now = int(BEGIN.timestamp())
    bound = {"serviceaccount": {"name": "x", "uid": "7"}}
    claims = {"iat": now, "exp": now + seconds, "kubernetes.io": bound}
    return f"head.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.end"


def connect(_access: Access, _clock: Clock) -> Transport:
    raise AssertionError("nothing is asked of the control plane in a look")


def scene(of: There, *there: There, at: float = 0) -> Callable[[], Awaitable[Seen]]:
    async def look() -> Seen:
        shelf = Planes()
        reconciler = Users(shelf.environment, shelf.in_caches, connect)
        await shelf.holds(*there)
        shelf.clock.passed = at
        return await reconciler.look(of[1])

    return look


class Secrets:
    """Equals the Secrets of these names."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and set(other) == self.names

    def __hash__(self) -> int:
        return hash(frozenset(self.names))


TOKEN = a_token(3600)
TEXT = kubeconfigs.render("c", SERVER, b"CA", ALICE, TOKEN).decode()
ADMINISTRATOR = a_secret("c-kubeconfig", value="x")
READY = a_component(Component.API_SERVER, {"ready": True})
FOUND = a_user()
PLANE = a_plane()


def unreachable(name: str, because: str, *there: There, of: There = FOUND, unheard: bool = False) -> Scene:
    return Scene(name, scene(of, *there), {"unreachable": because, "unheard": unheard})


LOOK = Look(
    "controlplanes.users.wiring",
    Seen,
    (
        Scene(
            "there is no control plane",
            scene(FOUND, a_secret("c-ca"), ADMINISTRATOR),
            {"user": FOUND[1], "now": BEGIN, "family": None, "pause": None, "problem": "", "found": {}}
            | {"held": None, "unreachable": "there is no NestedControlPlane p", "unheard": True},
        ),
        Scene(
            "all is there",
            scene(
                a_user(user="alice"),
                PLANE,
                a_cluster(),
                READY,
                ADMINISTRATOR,
                a_secret("c-ca", **{"tls.crt": "CA"}),
                a_secret("c-user-u", value=TEXT),
                a_secret("c-user-other", value=TEXT),
                at=60,
            ),
            {"user": a_user(user="alice")[1], "now": BEGIN + timedelta(minutes=1)}
            | {"family.plane": Named("p"), "family.cluster": Named("c"), "problem": ""}
            | {"found": Secrets("c-ca", "c-user-u", "c-kubeconfig"), "unreachable": "", "unheard": False}
            | {
                "held": TokenKubeconfig(
                    TOKEN, SERVER, b"CA", ALICE, "7", BEGIN, datetime(2030, 1, 1, 1, tzinfo=UTC)
                )
            },
        ),
        Scene(
            "its Secret has no kubeconfig",
            scene(FOUND, PLANE, a_secret("c-user-u", other="x")),
            {"found": Secrets("c-user-u"), "held": None},
        ),
        Scene(
            "it names no control plane",
            scene(a_user(controlPlaneName="")),
            {"problem": "spec.controlPlaneName: Required value: it names no control plane"},
        ),
        Scene(
            "its control plane is paused: no Secret is read",
            scene(FOUND, a_plane(of=planes.PAUSED), ADMINISTRATOR),
            {"pause": Pause("NestedControlPlane p has the annotation cluster.x-k8s.io/paused"), "found": {}},
        ),
        Scene(
            "its Cluster is paused",
            scene(FOUND, PLANE, a_cluster(paused=True)),
            {"pause": Pause("Cluster c has spec.paused")},
        ),
        unreachable(
            "there is no kubeconfig of the administrator",
            "there is no Secret c-kubeconfig",
            PLANE,
            READY,
            unheard=True,
        ),
        unreachable(
            "its control plane sleeps",
            "NestedControlPlane p sleeps",
            a_plane(status={"asleep": True}),
            READY,
            ADMINISTRATOR,
        ),
        unreachable(
            "its control plane sleeps, and another program manages the API server, which may go on",
            "",
            a_plane(status={"asleep": True}),
            a_component(Component.API_SERVER, {"ready": True}, of=planes.FOREIGN),
            ADMINISTRATOR,
        ),
        unreachable(
            "its control plane is stopped for a restore",
            "ControlPlaneRestore back replaces the data of p",
            a_plane(of={**planes.BY_CLUSTER, "annotations": HELD}),
            READY,
            ADMINISTRATOR,
        ),
        unreachable(
            "the API server is not ready",
            "NestedAPIServer a is not ready",
            PLANE,
            a_component(Component.API_SERVER),
            ADMINISTRATOR,
        ),
        unreachable(
            "the API server is not ready, and the user is being deleted",
            "",
            PLANE,
            a_component(Component.API_SERVER),
            ADMINISTRATOR,
            of=a_user(of=planes.DELETED),
        ),
    ),
    given={
        "objects": "the pass asks the control plane (connection.look)",
        "refused": "the pass says why the control plane refused it",
    },
)
