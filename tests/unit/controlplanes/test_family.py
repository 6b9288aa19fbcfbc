"""Which objects belong to one control plane: owners by group and kind, names by the Cluster."""

import pytest

from kubewright.api.cluster.v1beta1 import ObjectReference
from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.v1alpha4 import NestedControlPlane, NestedControlPlaneSpec
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.controlplanes.family import cluster_name, keys_of, owning_plane
from kubewright.wire.gvk import Key


def owner(api_version: str, kind: str, name: str, *, controller: bool = True) -> OwnerReference:
    return OwnerReference(api_version=api_version, kind=kind, name=name, uid="u", controller=controller)


CASES = {
    "a component's control plane is found in any version": (
        owner("controlplane.cluster.x-k8s.io/v1beta9", "NestedControlPlane", "demo"),
        "demo",
    ),
    "an owner that does not control it is none": (
        owner("controlplane.cluster.x-k8s.io/v1alpha4", "NestedControlPlane", "demo", controller=False),
        "",
    ),
    "a kind of the same name in another group is none": (
        owner("example.com/v1", "NestedControlPlane", "demo"),
        "",
    ),
}


@pytest.mark.parametrize(("reference", "name"), CASES.values(), ids=CASES.keys())
def test_a_component_finds_its_control_plane_by_its_controlling_owner(
    reference: OwnerReference, name: str
) -> None:
    found = owning_plane(ObjectMeta(owner_references=(reference,)))
    assert (found.name if found is not None else "") == name


OF_CLUSTER = (owner("cluster.x-k8s.io/v1beta2", "Cluster", "demo"),)


@pytest.mark.parametrize(
    ("meta", "name"),
    [
        pytest.param(ObjectMeta(name="my-plane"), "my-plane", id="its own"),
        pytest.param(ObjectMeta(name="my-plane", owner_references=OF_CLUSTER), "demo", id="its Cluster's"),
        pytest.param(
            ObjectMeta(name="my-plane", labels={"cluster.x-k8s.io/cluster-name": "demo"}),
            "demo",
            id="that of its label, before its Cluster has become its owner",
        ),
        pytest.param(
            ObjectMeta(
                name="my-plane",
                owner_references=OF_CLUSTER,
                labels={"cluster.x-k8s.io/cluster-name": "another"},
            ),
            "demo",
            id="its Cluster's, whatever the label says",
        ),
    ],
)
def test_names_of_secrets_and_programs_begin_with(meta: ObjectMeta, name: str) -> None:
    assert cluster_name(NestedControlPlane(metadata=meta)) == name


def test_components_are_in_the_namespace_of_their_control_plane_and_need_a_name() -> None:
    spec = NestedControlPlaneSpec(etcd=ObjectReference(name="store"), apiserver=ObjectReference())
    plane = NestedControlPlane(metadata=ObjectMeta(namespace="team"), spec=spec)
    assert keys_of(plane) == {Component.ETCD: Key("team", "store")}
