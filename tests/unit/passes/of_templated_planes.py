"""Passes over a control plane that names a template: what enqueues it, and what is made from the template."""

from typing import Any

from tests.unit.looks import planes
from tests.unit.looks.of_templated_planes import a_template
from tests.unit.looks.planes import There, a_cluster, a_component, a_plane, key, staged

from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.v1alpha4 import (
    NESTED_API_SERVER,
    NESTED_CONTROL_PLANE,
    NESTED_CONTROL_PLANE_TEMPLATE,
    NESTED_ETCD,
)
from kubewright.base import delays
from kubewright.controlplanes.templated.wiring import wire
from kubewright.testing.looks import Write
from kubewright.testing.passes import Scene, Stage, changed, gone, put

PATH = NESTED_CONTROL_PLANE.resource.path(planes.NS, "p")
FOREIGN = {**planes.BY_CLUSTER, **planes.FOREIGN}


def stage(*there: There) -> Stage:
    return staged(wire, *there)


def made(kind: Any, name: str, **spec: Any) -> Write:
    ref = {"apiVersion": planes.NESTED, "kind": "NestedControlPlane", "name": "p", "uid": "p"}
    owners = [{**ref, "controller": True, "blockOwnerDeletion": True}]
    meta = {"name": name, "namespace": planes.NS, "ownerReferences": owners}
    body = {"apiVersion": planes.NESTED, "kind": kind.resource.kind, "metadata": meta, "spec": spec}
    return Write("POST", kind.resource.path(planes.NS), body)


def refers(**names: str) -> Write:
    spec = {field: {"name": name} for field, name in names.items()}
    return Write("PATCH", PATH, {"metadata": {"uid": "p", "resourceVersion": "101"}, "spec": spec})


EMPTY = a_plane(templateName="t", named={})
QUIET = a_plane(templateName="t", of=FOREIGN)
TEMPLATE = a_template(etcd={"replicas": 3}, apiserver={})
SCENES = (
    Scene(
        "what the template has is made, and then the control plane refers to it",
        stage(EMPTY, TEMPLATE),
        writes=(
            made(NESTED_ETCD, "p-etcd", replicas=3),
            made(NESTED_API_SERVER, "p-apiserver"),
            refers(etcd="p-etcd", apiserver="p-apiserver"),
        ),
        because={"n/p": "it has all components of its template"},
    ),
    Scene(
        "a component that exists is left as it is, and referred to",
        stage(EMPTY, TEMPLATE, a_component(Component.ETCD, of={"name": "p-etcd"})),
        writes=(
            made(NESTED_ETCD, "p-etcd", replicas=3),  # the server says that it is there
            made(NESTED_API_SERVER, "p-apiserver"),
            refers(etcd="p-etcd", apiserver="p-apiserver"),
        ),
    ),
    Scene(
        "there is no such template: an event says so",
        stage(EMPTY),
        wakes={"n/p": "NestedControlPlane n/p added"},
        events=(("p", "NoTemplate", "there is no NestedControlPlaneTemplate t", True),),
        because={"n/p": "there is no NestedControlPlaneTemplate t"},
        due={"n/p": delays.UNHEARD},
    ),
    Scene("a control plane without a template is left alone", stage(a_plane()), wakes={}),
    Scene(
        "its template comes",
        stage(QUIET),
        put(*TEMPLATE),
        {"n/p": "NestedControlPlaneTemplate n/t added"},
    ),
    Scene("another template comes", stage(QUIET), put(*a_template("other")), {}),
    Scene(
        "its template is gone",
        stage(QUIET, TEMPLATE),
        gone(NESTED_CONTROL_PLANE_TEMPLATE, key("t")),
        {"n/p": "NestedControlPlaneTemplate n/t gone"},
    ),
    Scene(
        "a component that it names is gone",
        stage(QUIET, a_component(Component.ETCD)),
        gone(NESTED_ETCD, key("e")),
        {"n/p": "NestedEtcd n/e gone"},
    ),
    Scene(
        "a component that it names changes, which it does not read",
        stage(QUIET, a_component(Component.ETCD)),
        changed(NESTED_ETCD, key("e"), status={"ready": True}),
        {},
    ),
    Scene(
        "a component of another kind with a name that it names is gone",
        stage(QUIET, a_component(Component.ETCD, of={"name": "a"})),
        gone(NESTED_ETCD, key("a")),
        {},
    ),
    Scene(
        "it changes",
        stage(QUIET),
        changed(NESTED_CONTROL_PLANE, key("p"), metadata={"labels": {"a": "b"}}),
        {"n/p": "NestedControlPlane n/p changed"},
    ),
    Scene(
        "its status changes",
        stage(QUIET),
        changed(NESTED_CONTROL_PLANE, key("p"), status={"ready": True}),
        {},
    ),
    Scene("it is gone", stage(QUIET), gone(NESTED_CONTROL_PLANE, key("p")), {}),
    Scene(
        "the spec of its Cluster changes",
        stage(QUIET, a_cluster()),
        changed(CLUSTER, key("c"), spec={"paused": True}),
        {"n/p": "Cluster n/c changed"},
    ),
)
