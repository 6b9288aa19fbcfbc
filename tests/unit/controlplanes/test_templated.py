"""Which components are made from a template."""

import pytest

from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.v1alpha4 import (
    NESTED_CONTROL_PLANE,
    NESTED_CONTROL_PLANE_TEMPLATE,
    NestedAPIServerSpec,
    NestedEtcdSpec,
)
from kubewright.api.controlplane.validate import validate_template
from kubewright.controlplanes.family import Pause
from kubewright.controlplanes.templated.decide import Create, Refer, Seen, decide

ETCD, SERVER = Component.ETCD, Component.API_SERVER


def template(**components):
    spec = {"template": {"spec": {}, "components": components}}
    return NESTED_CONTROL_PLANE_TEMPLATE.from_plain({"metadata": {"name": "small"}, "spec": spec})


def plane(meta=None, **spec):
    spec = {"templateName": "small", **spec}
    return NESTED_CONTROL_PLANE.from_plain({"metadata": {"name": "demo", **(meta or {})}, "spec": spec})


TWO = template(etcd={"replicas": 3}, apiserver={"channel": "embedded"})
NEW_ETCD, NEW_SERVER = (
    Create(ETCD, "demo-etcd", NestedEtcdSpec(replicas=3)),
    Create(SERVER, "demo-apiserver", NestedAPIServerSpec(channel="embedded")),
)
REFERRED = {"etcd": {"name": "demo-etcd"}, "apiserver": {"name": "demo-apiserver"}}
STEPS = {
    "all that the template has, and references to it": (
        Seen(plane(), TWO),
        [NEW_ETCD, NEW_SERVER, Refer({ETCD: "demo-etcd", SERVER: "demo-apiserver"})],
    ),
    "nothing where all is there": (Seen(plane(**REFERRED), TWO, frozenset({ETCD, SERVER})), []),
    "one that was deleted, again": (Seen(plane(**REFERRED), TWO, frozenset({SERVER})), [NEW_ETCD]),
    "under the name that a user has written": (
        Seen(plane(etcd={"name": "mine"}, apiserver={"name": "demo-apiserver"}), TWO, frozenset({SERVER})),
        [Create(ETCD, "mine", NestedEtcdSpec(replicas=3))],
    ),
    "nothing that the template does not have": (Seen(plane(), template()), []),
    "nothing without the template": (Seen(plane()), []),
    "nothing while it is paused": (Seen(plane(), TWO, pause=Pause("it is paused")), []),
    "nothing for one that is deleted": (Seen(plane({"deletionTimestamp": "2026-01-01T00:00:00Z"}), TWO), []),
    "nothing for one that another program manages": (
        Seen(plane({"annotations": {"cluster.x-k8s.io/managed-by": "x"}}), TWO),
        [],
    ),
}


@pytest.mark.parametrize(("seen", "steps"), STEPS.values(), ids=STEPS)
def test_what_is_made(seen, steps):
    assert list(decide(seen).steps) == steps


def test_a_template_that_is_not_there_is_told():
    assert decide(Seen(plane())).problem == "there is no NestedControlPlaneTemplate small"


def test_the_specs_of_a_template_follow_the_rules_of_components():
    broken = template(etcd={"replicas": -1}, apiserver={"channel": "../up"})
    assert [each.path for each in validate_template(broken)] == [
        "spec.template.components.etcd.replicas",
        "spec.template.components.apiserver.channel",
    ]
