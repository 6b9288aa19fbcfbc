"""Passes over a KubewrightCluster: what enqueues it, and what the driver is asked, written and told."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tests.unit.looks.of_infra_clusters import (
    DELETED,
    NS,
    OWNED,
    PAUSED,
    SHARED,
    Clusters,
    There,
    a_cluster,
    a_core_machine,
    a_machine,
    a_secret,
    found,
)

from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE
from kubewright.api.infra.names import CLUSTER_FINALIZER
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_CLUSTER, KUBEWRIGHT_MACHINE
from kubewright.driver.errors import Code, DriverError
from kubewright.infra.cluster.wiring import wire
from kubewright.testing.looks import Shelf, Write
from kubewright.testing.passes import Scene, Stage, Wired, changed, gone, put
from kubewright.wire.errors import ApiError, Conflict, NotFound
from kubewright.wire.gvk import Key

PATH = KUBEWRIGHT_CLUSTER.resource.path(NS, "k")


def stage(*there: There, driver: DriverError | None = None) -> Stage:
    """``driver``: what it answers when it is asked for an endpoint."""

    async def wired() -> Wired:
        shelf = Clusters()
        shelf.offering.error = driver
        controller, _calls = wire(shelf.shared)
        for kind, each in there:
            await shelf.put(kind, each)
        return Wired(shelf, controller, shelf.told)

    return wired


def a(of: Any = None, **spec: Any) -> There:
    return KUBEWRIGHT_CLUSTER, found(of, **spec)


def key(name: str) -> Key:
    return Key(NS, name)


def onto(version: str, **said: Any) -> dict[str, Any]:
    return {**said, "metadata": {**said.get("metadata", {}), "uid": "k", "resourceVersion": version}}


def status(version: str, **said: Any) -> Write:
    return Write("PATCH", f"{PATH}/status", onto(version, status=said))


def condition(kind: str, **told: str) -> dict[str, Any]:
    return {"type": kind, "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z", **told}


def both(**told: str) -> dict[str, Any]:
    return {"conditions": [condition(kind, **told) for kind in ("Ready", "EndpointReady")]}


def deletes(name: str, version: str) -> Write:
    said = {"uid": name, "resourceVersion": version}
    body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": said}
    return Write("DELETE", KUBEWRIGHT_MACHINE.resource.path(NS, name), body)


def given(**of: bytes) -> Callable[[Shelf], object]:
    """The driver has given an endpoint to Cluster c, with these credentials; without any: to none."""

    def then(shelf: Shelf) -> None:
        assert isinstance(shelf, Clusters)
        place = ("c.infrastructure.cluster.x-k8s.io", "kubewrightcluster.k")
        assert shelf.offering.given == ({place: dict(of)} if of else {})

    return then


def reserved(
    *there: There, laid: tuple[There, ...] = (), answers: dict[str, ApiError] | None = None
) -> Stage:
    """The same, where the driver has given the endpoint in an earlier term.

    ``laid``     what stands on the server, and in no cache yet
    ``answers``  as of a ``Shelf``
    """

    async def wired() -> Wired:
        found_there = await stage(*there)()
        shelf = found_there.shelf
        assert isinstance(shelf, Clusters)
        shelf.offering.given["c.infrastructure.cluster.x-k8s.io", "kubewrightcluster.k"] = {}
        for kind, each in laid:
            shelf.lay(kind, each)
        shelf.answers = answers or {}
        return found_there

    return wired


REFUSED = "spec.controlPlaneEndpoint.host: Required value: a port alone is no endpoint"
INVALID = {"status": "False", "severity": "Error", "reason": "InvalidConfiguration", "message": REFUSED}
OURS = {"finalizers": [CLUSTER_FINALIZER]}
GOING = {**OURS, "deletionTimestamp": "2029-12-31T23:59:00Z"}
LABELS = {"labels": {"cluster.x-k8s.io/cluster-name": "c"}}
REF = {"apiVersion": KUBEWRIGHT_CLUSTER.resource.api_version, "kind": "KubewrightCluster", "name": "k"}
QUIET = a({**OWNED, **PAUSED}, **SHARED)
"""A KubewrightCluster that is not written: which changes enqueue it."""
OFF = Write("PATCH", PATH, onto("101", metadata={"finalizers": None}))
LEFT, LEFT_PATH = a_machine("left"), KUBEWRIGHT_MACHINE.resource.path(NS, "left")
BUSY = "machine codes error: code = [Unavailable] message = [busy]"
FAILED = {"status": "False", "severity": "Warning", "reason": "EndpointFailed", "message": BUSY}
UNSAID = NotFound("404 page not found")
NAMED = a_core_machine("left")
SCENES = (
    Scene(
        "it gets its endpoint from the driver: finalizer, endpoint and status, in this order",
        stage(a(OWNED, driver="offers", **SHARED), a_cluster(), a_secret(key="eA==")),
        writes=(
            Write(
                "PATCH",
                PATH,
                onto(
                    "101",
                    metadata={**OURS, "annotations": {"kubewright.dev/cloud-owner": "kubewrightcluster.k"}},
                ),
            ),
            Write(
                "PATCH", PATH, onto("104", spec={"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}})
            ),
            status("105", ready=True, observedGeneration=1, **both()),
        ),
        events=(("k", "EndpointKnown", "The API server will be at 10.0.0.1:6443", False),),
        because={"n/k": "its API server is at 10.0.0.1:6443"},
        then=given(key=b"x"),
    ),
    Scene(
        "its spec breaks a rule: its status and an event say so",
        stage(a({**OWNED, **OURS}, controlPlaneEndpoint={"port": 6443}), a_cluster()),
        wakes={"n/k": "KubewrightCluster n/k added"},
        writes=(status("101", **both(**INVALID)),),
        events=(("k", "FailedValidation", REFUSED, True),),
        because={"n/k": REFUSED},
    ),
    Scene(
        "it is being deleted: the endpoint is given back, then the finalizer goes",
        reserved(a({**OWNED, **GOING}, driver="offers"), a_cluster()),
        writes=(OFF,),
        then=given(),
    ),
    Scene(
        "it is being deleted, and a machine that nobody deletes is deleted from here",
        stage(a({**LABELS, **GOING}), LEFT),
        writes=(deletes("left", "102"), OFF),
        then=given(),
    ),
    Scene(
        "the same, while the server shows its Cluster, which no cache shows yet",
        reserved(a({**LABELS, **GOING}), LEFT, laid=(a_cluster(),)),
        because={"n/k": "KubewrightMachine left of its cluster is still there"},
    ),
    Scene(
        "the same, while the server does not say whether there is one: nothing is deleted",
        reserved(a({**LABELS, **GOING}), LEFT, answers={CLUSTER.resource.path(NS, "c"): UNSAID}),
        because={"n/k": "404 page not found"},
    ),
    Scene(
        "the same, while its Cluster is being deleted",
        reserved(a({**LABELS, **GOING}), LEFT, laid=(a_cluster(of=DELETED),)),
        writes=(deletes("left", "102"), OFF),
    ),
    Scene(
        "the same, and the machine has changed meanwhile: it is looked at again when a cache shows that",
        reserved(a({**LABELS, **GOING}), LEFT, answers={LEFT_PATH: Conflict("it has changed")}),
        writes=(deletes("left", "102"),),
        because={"n/k": "KubewrightMachine left of its cluster is still there"},
    ),
    Scene(
        "the same, and the machine is gone meanwhile",
        reserved(
            a({**LABELS, **GOING}),
            LEFT,
            answers={LEFT_PATH: NotFound("it is gone", details={"name": "left"})},
        ),
        writes=(deletes("left", "102"), OFF),
    ),
    Scene(
        "the driver fails: the call is made again",
        stage(
            a({**OWNED, **OURS}, driver="offers"),
            a_cluster(),
            driver=DriverError.of(Code.Unavailable, "busy"),
        ),
        writes=(status("101", **both(**FAILED)),),
        because={"n/k": "the cloud refused; next try in 5s"},
        due={"n/k": timedelta(seconds=5)},
    ),
    Scene(
        "it changes",
        stage(QUIET),
        changed(KUBEWRIGHT_CLUSTER, key("k"), metadata={"labels": {"a": "b"}}),
        {"n/k": "KubewrightCluster n/k changed"},
    ),
    Scene(
        "its status changes", stage(QUIET), changed(KUBEWRIGHT_CLUSTER, key("k"), status={"ready": True}), {}
    ),
    Scene(
        "it is gone", stage(QUIET), gone(KUBEWRIGHT_CLUSTER, key("k")), {}, because={"n/k": "it had no pass"}
    ),
    Scene(
        "a Cluster that names it comes",
        stage(QUIET),
        put(*a_cluster(infrastructureRef=REF)),
        {"n/k": "Cluster n/c added"},
    ),
    Scene(
        "a Cluster that names another comes",
        stage(QUIET),
        put(*a_cluster(infrastructureRef={**REF, "name": "x"})),
        {},
    ),
    Scene(
        "a Cluster that names an object of its name, of another kind, comes",
        stage(QUIET),
        put(*a_cluster(infrastructureRef={**REF, "kind": "DockerCluster"})),
        {},
    ),
    Scene(
        "the Cluster in its label comes",
        stage(a({**LABELS, **PAUSED})),
        put(*a_cluster()),
        {"n/k": "Cluster n/c added"},
    ),
    Scene(
        "the Cluster that names it is gone",
        stage(QUIET, a_cluster(infrastructureRef=REF)),
        gone(CLUSTER, key("c")),
        {"n/k": "Cluster n/c gone"},
    ),
    Scene(
        "the Cluster that named it names another",
        stage(QUIET, a_cluster(infrastructureRef=REF)),
        changed(CLUSTER, key("c"), spec={"infrastructureRef": {"name": "x"}}),
        {"n/k": "Cluster n/c changed"},
    ),
    Scene(
        "its Cluster is to be deleted",
        stage(QUIET, a_cluster(infrastructureRef=REF)),
        changed(
            CLUSTER, key("c"), metadata={"deletionTimestamp": "2030-01-01T00:00:00Z", "finalizers": ["f"]}
        ),
        {"n/k": "Cluster n/c changed"},
    ),
    Scene(
        "its Cluster changes in what is not read",
        stage(QUIET, a_cluster(infrastructureRef=REF)),
        changed(CLUSTER, key("c"), status={"phase": "Provisioned"}),
        {},
    ),
    Scene(
        "its credentials come",
        stage(QUIET),
        put(*a_secret(key="eA==")),
        {"n/k": "Secret n/cloud added"},
    ),
    Scene("another Secret comes", stage(a({**OWNED, **PAUSED})), put(*a_secret(key="eA==")), {}),
    Scene(
        "a machine of its cluster is gone",
        stage(a({**LABELS, **PAUSED}), LEFT),
        gone(KUBEWRIGHT_MACHINE, key("left")),
        {"n/k": "KubewrightMachine n/left gone"},
    ),
    Scene(
        "a machine of its cluster loses its owners",
        stage(a({**LABELS, **PAUSED}), a_machine("left", of=OWNED)),
        changed(KUBEWRIGHT_MACHINE, key("left"), metadata={"ownerReferences": None}),
        {"n/k": "KubewrightMachine n/left changed"},
    ),
    Scene(
        "a machine of its cluster that something owns comes",
        stage(a({**LABELS, **PAUSED})),
        put(*a_machine("left", of=OWNED)),
        {},
    ),
    Scene(
        "a machine of another cluster is gone",
        stage(a({**LABELS, **PAUSED}), a_machine("left", cluster="d")),
        gone(KUBEWRIGHT_MACHINE, key("left")),
        {},
    ),
    Scene(
        "a machine of no cluster is gone",
        stage(a(PAUSED), a_machine("left", cluster="")),
        gone(KUBEWRIGHT_MACHINE, key("left")),
        {},
    ),
    Scene(
        "a Machine of its cluster is gone, whose machine nobody deletes now",
        stage(a({**LABELS, **PAUSED}), NAMED),
        gone(MACHINE, key("m")),
        {"n/k": "Machine n/m gone"},
    ),
    Scene(
        "a Machine of its cluster comes",
        stage(a({**LABELS, **PAUSED})),
        put(*NAMED),
        {},
    ),
)
