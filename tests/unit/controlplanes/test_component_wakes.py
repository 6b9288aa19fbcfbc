"""Which changes of a control plane and of its etcd enqueue an API server: those that its decision could see."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import structs
from tests.unit.controlplanes.component_views import etcd, plane

from kubewright.api.cluster.names import CLUSTER_NAME_LABEL, MANAGED_BY_ANNOTATION
from kubewright.api.controlplane.v1alpha4 import (
    NESTED_CONTROL_PLANE,
    NESTED_ETCD,
    NestedControlPlane,
    NestedEtcd,
    NestedEtcdSpec,
)
from kubewright.api.kinds import Kind
from kubewright.api.meta import OwnerReference
from kubewright.controlplanes.caches import Caches
from kubewright.controlplanes.component.policies import API_SERVER
from kubewright.controlplanes.component.wiring import Components, Wakes
from kubewright.kube import header as headers
from kubewright.kube.cache import Change
from kubewright.wire.gvk import Key

FRONT = Key("team", "front")
PLANE = structs.replace(plane(), metadata=structs.replace(plane().metadata, resource_version="1"))
OWNED = OwnerReference(
    api_version="controlplane.cluster.x-k8s.io/v1alpha4",
    kind="NestedControlPlane",
    name="demo",
    uid="p",
    controller=True,
)
STORE = structs.replace(
    etcd(), metadata=structs.replace(etcd().metadata, resource_version="1", owner_references=(OWNED,))
)


def change(kind: Kind[Any], before: Any, after: Any) -> Change[Any]:
    old, new = (headers.read(kind.encode(each)) for each in (before, after))
    return Change(Key("team", before.name), old, new, lambda header: kind.decode(header.data))


def wakes() -> Wakes:
    caches = SimpleNamespace(planes={Key("team", "demo"): PLANE})
    components = SimpleNamespace(policy=API_SERVER)
    return Wakes(cast("Components", components), cast("Caches", caches))


def planned(**status: Any) -> NestedControlPlane:
    return structs.replace(PLANE, status=structs.replace(PLANE.status, **status))


def annotated(**meta: Any) -> NestedEtcd:
    return structs.replace(STORE, metadata=structs.replace(STORE.metadata, **meta))


@pytest.mark.parametrize(
    ("after", "woken"),
    [
        pytest.param(
            planned(version="1.36.3"), True, id="its version: the next minor version is allowed now"
        ),
        pytest.param(
            structs.replace(
                PLANE, metadata=structs.replace(PLANE.metadata, labels={CLUSTER_NAME_LABEL: "shop"})
            ),
            True,
            id="the label that all names begin with",
        ),
        pytest.param(planned(ready=True), False, id="not whether it is ready: no component waits for that"),
    ],
)
def test_which_changes_of_a_control_plane_enqueue_its_api_server(
    after: NestedControlPlane, woken: bool
) -> None:
    assert (FRONT in set(wakes().of_plane(change(NESTED_CONTROL_PLANE, PLANE, after)))) is woken


@pytest.mark.parametrize(
    ("after", "woken"),
    [
        pytest.param(
            structs.replace(STORE, spec=NestedEtcdSpec(replicas=0)), True, id="how many instances it asks for"
        ),
        pytest.param(
            annotated(annotations={MANAGED_BY_ANNOTATION: "eco"}), True, id="another program manages it now"
        ),
        pytest.param(annotated(annotations={"note": "x"}), False, id="not an annotation of a user"),
    ],
)
def test_which_changes_of_its_etcd_enqueue_an_api_server(after: NestedEtcd, woken: bool) -> None:
    assert (FRONT in set(wakes().of_sibling(change(NESTED_ETCD, STORE, after)))) is woken
