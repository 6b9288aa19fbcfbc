"""The classes that come with the simulated cloud are good ones."""

import pytest

from kubewright.providers.sim.manifests import Object, machine_class, objects
from kubewright.providers.sim.spec import parse_spec

CLASSES = [it for it in objects() if it["kind"] == "MachineClass"]


@pytest.mark.parametrize("it", CLASSES, ids=lambda it: it["metadata"]["name"])
def test_a_class_is_what_its_node_template_says(it: Object) -> None:
    spec, template = parse_spec(it["providerSpec"]), it["nodeTemplate"]
    assert (spec.region, spec.zone, spec.instance_type) == (
        template["region"],
        template["zone"],
        template["instanceType"],
    )
    assert {"cpu", "gpu", "memory"} <= template["capacity"].keys()
    assert (spec.capacity["cpu"], spec.capacity["memory"]) == (
        template["capacity"]["cpu"],
        template["capacity"]["memory"],
    )


def test_the_secret_comes_before_what_refers_to_it() -> None:
    kinds = [it["kind"] for it in objects()]
    assert kinds == ["Secret", "MachineClass", "MachineClass"]


def test_classes_can_be_told_apart_on_their_nodes() -> None:
    small, large = (parse_spec(it["providerSpec"]) for it in CLASSES)
    assert small.instance_type != large.instance_type
    assert small.kubelet_version != large.kubelet_version


def test_a_class_can_be_made_instant_or_broken() -> None:
    spec = parse_spec(machine_class("c", pace=0, more={"quota": 3})["providerSpec"])
    assert (spec.create_seconds, spec.boot_seconds, spec.delete_seconds, spec.quota) == (0, 0, 0, 3)
