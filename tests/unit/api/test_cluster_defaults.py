"""What omitted fields of Cluster API's kinds mean, as plain objects before and after admission."""

import pytest

from kubewright.api.admission import Rules, defaulted, violations
from kubewright.api.catalog import RULES
from kubewright.api.cluster.v1beta1 import CLUSTER

BY_KIND = {rules.kind.resource.kind: rules for rules in RULES}
REF = {"kind": "FooMachine", "name": "m", "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1"}
HOME = {**REF, "namespace": "ns"}
LABELS = {"cluster.x-k8s.io/cluster-name": "c"}


def made(kind, spec, **metadata):
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta1",
        "kind": kind,
        "metadata": {"name": "o", "namespace": "ns", **metadata},
        "spec": spec,
    }


def after(kind, spec, old=None, **metadata):
    return defaulted(BY_KIND[kind], made(kind, spec, **metadata), old)


CASES = {
    "a cluster's references are to its own namespace": (
        "Cluster", {"infrastructureRef": REF, "controlPlaneRef": REF},
        {"infrastructureRef": HOME, "controlPlaneRef": HOME},
    ),
    "a cluster without references stays as it is": ("Cluster", {"paused": True}, {"paused": True}),
    "a namespace that is given stays": (
        "Cluster", {"infrastructureRef": {**REF, "namespace": "other"}},
        {"infrastructureRef": {**REF, "namespace": "other"}},
    ),
    "a machine": (
        "Machine", {"clusterName": "c", "bootstrap": {"configRef": REF}, "infrastructureRef": REF, "version": "1.30.0"},
        {"clusterName": "c", "bootstrap": {"configRef": HOME}, "infrastructureRef": HOME, "version": "v1.30.0",
         "nodeDeletionTimeout": "10s"},
    ),
    "a machine keeps what it has": (
        "Machine", {"clusterName": "c", "bootstrap": {"dataSecretName": ""}, "infrastructureRef": HOME, "version": "v1.30.0",
                    "nodeDeletionTimeout": "0s"},
        {"clusterName": "c", "bootstrap": {"dataSecretName": ""}, "infrastructureRef": HOME, "version": "v1.30.0",
         "nodeDeletionTimeout": "0s"},
    ),
    "a set without a selector selects by its own name": (
        "MachineSet", {"clusterName": "c", "selector": {}},
        {"clusterName": "c", "replicas": 1, "deletePolicy": "Random",
         "selector": {"matchLabels": {"cluster.x-k8s.io/set-name": "o"}},
         "template": {"metadata": {"labels": {"cluster.x-k8s.io/set-name": "o"}}}},
    ),
    "a set with a selector keeps it": (
        "MachineSet",
        {"clusterName": "c", "replicas": 0, "deletePolicy": "Oldest", "selector": {"matchLabels": {"a": "b"}},
         "template": {"spec": {"version": "1.2.3"}}},
        {"clusterName": "c", "replicas": 0, "deletePolicy": "Oldest", "selector": {"matchLabels": {"a": "b"}},
         "template": {"spec": {"version": "v1.2.3"}}},
    ),
    "a deployment that says nothing rolls by 1 and 0 and selects by its own name in its cluster": (
        "MachineDeployment", {"clusterName": "c", "selector": {}, "template": {}},
        {"clusterName": "c", "replicas": 1, "revisionHistoryLimit": 1, "progressDeadlineSeconds": 600,
         "selector": {"matchLabels": {"cluster.x-k8s.io/deployment-name": "o", **LABELS}},
         "template": {"metadata": {"labels": {"cluster.x-k8s.io/deployment-name": "o", **LABELS}}},
         "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}},
    ),
    "a deployment that replaces on deletion has no bounds": (
        "MachineDeployment",
        {"clusterName": "c", "replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": {},
         "strategy": {"type": "OnDelete"}, "revisionHistoryLimit": 0, "progressDeadlineSeconds": 1},
        {"clusterName": "c", "replicas": 3, "selector": {"matchLabels": {"a": "b", **LABELS}},
         "template": {"metadata": {"labels": LABELS}},
         "strategy": {"type": "OnDelete"}, "revisionHistoryLimit": 0, "progressDeadlineSeconds": 1},
    ),
    "a health check": (
        "MachineHealthCheck", {"clusterName": "c", "remediationTemplate": REF},
        {"clusterName": "c", "remediationTemplate": HOME, "maxUnhealthy": "100%", "nodeStartupTimeout": "10m0s"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "spec", "wanted"), CASES.values(), ids=CASES)
def test_spec_after_admission(kind, spec, wanted):
    found = after(kind, spec)
    assert found["spec"] == wanted
    assert found["metadata"].get("labels") == (None if kind == "Cluster" else LABELS)


@pytest.mark.parametrize(("kind", "spec", "wanted"), CASES.values(), ids=CASES)
def test_what_has_its_defaults_stays_as_it_is(kind, spec, wanted):
    once = after(kind, spec)
    assert defaulted(
        BY_KIND[kind], {**once, "metadata": {**once["metadata"], "annotations": {"a": "b"}}}, once
    ) == {
        **once,
        "metadata": {**once["metadata"], "annotations": {"a": "b"}},
    }


def test_a_long_name_is_hashed_as_in_go():
    found = after("MachineSet", {"clusterName": "c", "selector": {}}, name="a" * 64)
    assert found["spec"]["selector"]["matchLabels"] == {"cluster.x-k8s.io/set-name": "hash_2W8PhQ_z"}


AUTOSCALER = {
    "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "3",
    "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "5",
}
REPLICAS = {
    "sent: as sent": (7, AUTOSCALER, None, 7),
    "nothing said: one": (None, {}, None, 1),
    "nothing said of one that has four: one": (None, {}, 4, 1),
    "new with bounds: the least": (None, AUTOSCALER, None, 3),
    "fewer than the bounds: the least": (None, AUTOSCALER, 1, 3),
    "within the bounds: as it is": (None, AUTOSCALER, 4, 4),
    "more than the bounds: the most": (None, AUTOSCALER, 9, 5),
    "bounds that are no numbers: one": (None, dict.fromkeys(AUTOSCALER, "many"), 4, 1),
    "one bound alone: one": (None, dict(list(AUTOSCALER.items())[:1]), 4, 1),
}


@pytest.mark.parametrize("kind", ["MachineSet", "MachineDeployment"])
@pytest.mark.parametrize(("sent", "annotations", "before", "wanted"), REPLICAS.values(), ids=REPLICAS)
def test_replicas(kind, sent, annotations, before, wanted):
    spec = {"clusterName": "c", "selector": {}, "template": {}}
    old = None if before is None else made(kind, {**spec, "replicas": before})
    found = after(kind, spec if sent is None else {**spec, "replicas": sent}, old, annotations=annotations)
    assert found["spec"]["replicas"] == wanted


def test_fields_that_no_type_knows_stay():
    spec = {"clusterName": "c", "selector": {}, "template": {}, "future": {"a": [1]}}
    assert after("MachineDeployment", spec)["spec"]["future"] == {"a": [1]}


def test_an_object_that_its_type_cannot_read_gets_no_defaults_and_is_refused():
    wrong = made("Machine", {"clusterName": 5})
    assert defaulted(BY_KIND["Machine"], wrong, None) == wrong
    assert [str(error) for error in violations(BY_KIND["Machine"], wrong, None)] == [
        "spec.clusterName: Invalid value: 5: Expected `str`, got `int`"
    ]


def test_an_object_that_its_type_cannot_read_may_still_lose_its_finalizer():
    wrong = made("Machine", {"clusterName": 5}) | {"metadata": {"name": "o", "finalizers": ["a/b"]}}
    assert violations(BY_KIND["Machine"], {**wrong, "metadata": {"name": "o"}}, wrong) == []


def test_a_write_of_the_status_alone_adds_nothing():
    bare = made("Machine", {"clusterName": "c"})
    assert (
        defaulted(BY_KIND["Machine"], {**bare, "status": {"phase": "Running"}}, bare)["spec"] == bare["spec"]
    )


def test_an_update_that_leaves_the_spec_breaks_no_rule():
    bad = made("Machine", {"clusterName": "c"})
    assert violations(BY_KIND["Machine"], bad, None)
    assert violations(BY_KIND["Machine"], {**bad, "metadata": {"name": "o"}}, bad) == []


def test_a_kind_without_rules_is_let_through():
    assert violations(Rules(CLUSTER), made("Cluster", {"topology": {}}), None) == []
