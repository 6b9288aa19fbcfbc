"""Passes over a NestedCluster: what enqueues it, and what is written."""

from typing import Any

from tests.unit.looks import planes
from tests.unit.looks.planes import There, a_cluster, a_nested_cluster, a_plane, key, staged

from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.api.controlplane.v1alpha4 import NESTED_CLUSTER, NESTED_CONTROL_PLANE
from kubewright.controlplanes.nestedcluster.wiring import wire
from kubewright.testing.looks import Write
from kubewright.testing.passes import Scene, Stage, changed, gone, put

PATH = NESTED_CLUSTER.resource.path(planes.NS, "c")
REF = {"apiVersion": planes.NESTED, "kind": "NestedControlPlane", "name": "p"}
ENDPOINT = {"host": "127.0.0.9", "port": 6443}
FOREIGN = a_nested_cluster(of={**planes.BY_CLUSTER, **planes.FOREIGN})
SINCE = "2030-01-01T00:00:00Z"


def stage(*there: There) -> Stage:
    return staged(wire, *there)


def not_ready(reason: str, message: str) -> dict[str, Any]:
    told = {"type": "Ready", "status": "False", "severity": "Info", "reason": reason, "message": message}
    return {"conditions": [{**told, "lastTransitionTime": SINCE}]}


def of_version(version: str, **said: Any) -> dict[str, Any]:
    return {"metadata": {"uid": "c", "resourceVersion": version}, **said}


def status(version: str, **said: Any) -> Write:
    return Write("PATCH", f"{PATH}/status", of_version(version, status=said))


READY = {"type": "Ready", "status": "True", "lastTransitionTime": SINCE}
IS_READY = {"ready": True, "initialized": True}
QUIET = (FOREIGN, a_cluster(controlPlaneRef=REF), a_plane(controlPlaneEndpoint=ENDPOINT))
"""A NestedCluster that is not written: which changes enqueue it."""
SCENES = (
    Scene(
        "nothing owns it yet, and its status says so",
        stage(a_nested_cluster(of={})),
        wakes={"n/c": "NestedCluster n/c added"},
        writes=(status("101", **not_ready("WaitingForOwner", "no Cluster that is there owns it")),),
        because={"n/c": "its control plane has no endpoint yet"},
    ),
    Scene(
        "its control plane is ready: the endpoint is published first, and the status says so of that version",
        stage(
            a_nested_cluster(),
            a_cluster(controlPlaneRef=REF),
            a_plane(status=IS_READY, controlPlaneEndpoint=ENDPOINT),
        ),
        writes=(
            Write("PATCH", PATH, of_version("101", spec={"controlPlaneEndpoint": ENDPOINT})),
            status("104", conditions=[READY], ready=True),
            status("105", observedGeneration=1),  # of the next pass
        ),
        because={"n/c": "it has the endpoint 127.0.0.9:6443"},
    ),
    Scene(
        "another program manages it: nothing is written",
        stage(*QUIET),
        wakes={"n/c": "NestedCluster n/c added"},
        because={"n/c": "another program manages it"},
    ),
    Scene(
        "it changes",
        stage(*QUIET),
        changed(NESTED_CLUSTER, key("c"), metadata={"labels": {"a": "b"}}),
        {"n/c": "NestedCluster n/c changed"},
    ),
    Scene(
        "its status changes",
        stage(*QUIET),
        changed(NESTED_CLUSTER, key("c"), status={"ready": True}),
        {},
    ),
    Scene(
        "it is gone",
        stage(*QUIET),
        gone(NESTED_CLUSTER, key("c")),
        {},
        because={"n/c": "it had no pass"},
    ),
    Scene(
        "the spec of its Cluster changes",
        stage(*QUIET),
        changed(CLUSTER, key("c"), spec={"paused": True}),
        {"n/c": "Cluster n/c changed"},
    ),
    Scene(
        "its Cluster changes in what is not read",
        stage(*QUIET),
        changed(CLUSTER, key("c"), metadata={"labels": {"a": "b"}}),
        {},
    ),
    Scene("its Cluster comes", stage(FOREIGN), put(*a_cluster()), {"n/c": "Cluster n/c added"}),
    Scene("its Cluster is gone", stage(*QUIET), gone(CLUSTER, key("c")), {"n/c": "Cluster n/c gone"}),
    Scene("another Cluster comes", stage(FOREIGN), put(*a_cluster("d")), {}),
    Scene(
        "its control plane changes",
        stage(*QUIET),
        changed(NESTED_CONTROL_PLANE, key("p"), status={"ready": True}),
        {"n/c": "NestedControlPlane n/p changed"},
    ),
    Scene("another control plane comes", stage(*QUIET), put(*a_plane("q")), {}),
)
