"""Passes over a NestedControlPlane: what enqueues it, and what its deletion asks of the server."""

from datetime import timedelta
from typing import Any
from unittest.mock import ANY

from tests.unit.looks import planes
from tests.unit.looks.planes import There, a_cluster, a_component, a_plane, a_secret, key, staged

from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.v1alpha4 import NESTED_API_SERVER, NESTED_CONTROL_PLANE, NESTED_ETCD
from kubewright.api.core import SECRET
from kubewright.controlplanes.plane.wiring import wire
from kubewright.testing.looks import Write
from kubewright.testing.passes import Scene, Stage, Wired, changed, gone, put

PATH = NESTED_CONTROL_PLANE.resource.path(planes.NS, "p")
ELSEWHERE = planes.owner(planes.NESTED, "NestedControlPlane", "another")
MOVED = {"annotations": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}}
QUIET = a_plane(of={**planes.BY_CLUSTER, **planes.FOREIGN})
"""A control plane that is not written: which changes enqueue it."""
DELETED = a_plane(of={**planes.BY_CLUSTER, **planes.DELETED})
ADDED = {"n/p": "NestedControlPlane n/p added"}


def stage(*there: There, laid: tuple[There, ...] = ()) -> Stage:
    """``laid``: what stands on the server, and in no cache yet."""

    async def wired() -> Wired:
        found = await staged(wire, *there)()
        for kind, each in laid:
            found.shelf.lay(kind, each)
        return found

    return wired


def changes(kind: Any, name: str) -> Any:
    return changed(kind, key(name), metadata={"labels": {"a": "b"}})


def etcd(name: str = "e", **owner: Any) -> There:
    kind, found = a_component(Component.ETCD, of={"name": name, "uid": name, **owner})
    return kind, found


SCENES = (
    Scene(
        "it is being deleted, and a component that no cache shows yet is deleted first",
        stage(DELETED, laid=(a_component(Component.API_SERVER),)),
        wakes=ADDED,
        writes=(
            Write(
                "DELETE",
                NESTED_API_SERVER.resource.path(planes.NS, "a"),
                {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "a"}},
            ),
            Write("PATCH", f"{PATH}/status", ANY),
        ),
        because={"n/p": "it is being deleted, and NestedAPIServer a is there"},
    ),
    Scene(
        "it is being deleted, and the server has components of others alone",
        stage(
            DELETED, laid=(etcd(**ELSEWHERE), a_component(Component.API_SERVER, of={"ownerReferences": []}))
        ),
        writes=(
            Write("PATCH", PATH, {"metadata": {"uid": "p", "resourceVersion": "101", "finalizers": None}}),
        ),
        because={"n/p": "it had no pass"},  # then it is gone, and the record of its last pass too
    ),
    Scene(
        "it goes to sleep by its schedule: then it has a pass",
        stage(a_plane(of=planes.FINALIZED, named={}, schedule=[{"sleep": "0 20 * * *"}])),
        writes=(Write("PATCH", f"{PATH}/status", ANY),),
        due={"n/p": timedelta(hours=20)},
        because={"n/p": "it goes to sleep then"},
    ),
    Scene(
        "it is paused because it was moved: nothing is written",
        stage(a_plane(of={**planes.BY_CLUSTER, **MOVED})),
        wakes=ADDED,
        because={"n/p": "paused: clusterctl has moved it to another management cluster"},
    ),
    Scene(
        "it changes",
        stage(QUIET),
        changes(NESTED_CONTROL_PLANE, "p"),
        {"n/p": "NestedControlPlane n/p changed"},
    ),
    Scene(
        "it is gone",
        stage(QUIET),
        gone(NESTED_CONTROL_PLANE, key("p")),
        {},
        because={"n/p": "it had no pass"},
    ),
    Scene(
        "a component that it names comes",
        stage(QUIET),
        put(*etcd(ownerReferences=[])),
        {"n/p": "NestedEtcd n/e added"},
    ),
    Scene(
        "a component that it controls, and does not name any more, comes",
        stage(a_plane(of=planes.FOREIGN, named={})),
        put(*a_component(Component.API_SERVER)),
        {"n/p": "NestedAPIServer n/a added"},
    ),
    Scene(
        "a component that it controlled gets another owner",
        stage(QUIET, etcd("x")),
        changed(NESTED_ETCD, key("x"), metadata=ELSEWHERE),
        {"n/p": "NestedEtcd n/x changed"},
    ),
    Scene("a component of another control plane comes", stage(QUIET), put(*etcd("x", **ELSEWHERE)), {}),
    Scene(
        "a component of the name of another kind that it names comes",
        stage(QUIET),
        put(*etcd("a", ownerReferences=[])),
        {},
    ),
    Scene(
        "the spec of its Cluster changes",
        stage(QUIET, a_cluster()),
        changed(CLUSTER, key("c"), spec={"paused": True}),
        {"n/p": "Cluster n/c changed"},
    ),
    Scene(
        "its Cluster changes in what is not read",
        stage(QUIET, a_cluster()),
        changes(CLUSTER, "c"),
        {},
    ),
    Scene(
        "its kubeconfig comes",
        stage(QUIET),
        put(*a_secret("c-kubeconfig", value="x")),
        {"n/p": "Secret n/c-kubeconfig added"},
    ),
    Scene(
        "its kubeconfig is gone",
        stage(QUIET, a_secret("c-kubeconfig", value="x")),
        gone(SECRET, key("c-kubeconfig")),
        {"n/p": "Secret n/c-kubeconfig gone"},
    ),
    Scene(
        "its kubeconfig changes, which it does not read",
        stage(QUIET, a_secret("c-kubeconfig", value="x")),
        changes(SECRET, "c-kubeconfig"),
        {},
    ),
    Scene(
        "another Secret of its Cluster comes",
        stage(QUIET),
        put(*a_secret("c-ca", value="x")),
        {},
    ),
    Scene("the kubeconfig of another Cluster comes", stage(QUIET), put(*a_secret("d-kubeconfig")), {}),
)
