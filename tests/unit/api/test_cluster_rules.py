"""The rules of Cluster API's kinds: what is refused, and in which words."""

import pytest

from kubewright.api.admission import defaulted, violations
from kubewright.api.catalog import RULES
from kubewright.api.cluster.validate import is_version

BY_KIND = {rules.kind.resource.kind: rules for rules in RULES}
REF = {"kind": "Foo", "name": "m", "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1"}
MACHINE = {"clusterName": "c", "bootstrap": {"configRef": REF}, "infrastructureRef": REF}
SET = {"clusterName": "c", "selector": {}, "template": {"spec": MACHINE}}
CHECK = {
    "clusterName": "c",
    "selector": {"matchLabels": {"a": "b"}},
    "unhealthyConditions": [{"type": "Ready", "status": "False", "timeout": "5m"}],
}
GOOD = {
    "Cluster": {},
    "Machine": MACHINE,
    "MachineSet": SET,
    "MachineDeployment": SET,
    "MachineHealthCheck": CHECK,
    "MachineDrainRule": {"drain": {"behavior": "Drain", "order": -1}, "pods": [{"selector": {}}]},
}


def refusals(kind, spec, old_spec=None, **metadata):
    rules = BY_KIND[kind]

    def made(given, before):
        plain = {"metadata": {"name": "o", "namespace": "ns", **metadata}, "spec": given}
        return defaulted(rules, plain, before)

    old = None if old_spec is None else made(old_spec, None)
    return [str(error) for error in violations(rules, made(spec, old), old)]


@pytest.mark.parametrize("kind", GOOD)
def test_a_good_object_is_let_through(kind):
    assert refusals(kind, GOOD[kind]) == []


def other(spec, **changes):
    return {**spec, **changes}


CIDRS = {"pods": {"cidrBlocks": ["10.0.0.0/8", "nowhere"]}, "services": {"cidrBlocks": ["10.0.0.1"]}}
TOLD_SELECTOR = 'must match spec.selector "a=b"'
BAD = {
    "a topology": (
        "Cluster", {"topology": {"class": "x", "version": "v1.30.0"}},
        ["spec.topology: Forbidden: ClusterClass is not supported: refer to a control plane and an infrastructure by "
         "controlPlaneRef and infrastructureRef, and make MachineDeployments for workers"],
    ),
    "references to another namespace": (
        "Cluster", {"infrastructureRef": {**REF, "namespace": "x"}, "controlPlaneRef": {**REF, "namespace": "y"}},
        ['spec.infrastructureRef.namespace: Invalid value: "x": must match metadata.namespace',
         'spec.controlPlaneRef.namespace: Invalid value: "y": must match metadata.namespace'],
    ),
    "ranges that are none": (
        "Cluster", {"clusterNetwork": CIDRS},
        ['spec.clusterNetwork.pods.cidrBlocks[1]: Invalid value: "nowhere": invalid CIDR address: nowhere',
         'spec.clusterNetwork.services.cidrBlocks[0]: Invalid value: "10.0.0.1": invalid CIDR address: 10.0.0.1'],
    ),
    "a machine without bootstrap": (
        "Machine", other(MACHINE, bootstrap={}),
        ["spec.bootstrap.data: Required value: expected either spec.bootstrap.dataSecretName or "
         "spec.bootstrap.configRef to be populated"],
    ),
    "a machine whose objects are elsewhere": (
        "Machine",
        other(MACHINE, bootstrap={"configRef": {**REF, "namespace": "x"}}, infrastructureRef={**REF, "namespace": "y"}),
        ['spec.bootstrap.configRef.namespace: Invalid value: "x": must match metadata.namespace',
         'spec.infrastructureRef.namespace: Invalid value: "y": must match metadata.namespace'],
    ),
    "a version that is none": (
        "Machine", other(MACHINE, version="latest"),
        ['spec.version: Invalid value: "vlatest": must be a valid semantic version'],
    ),
    "a timeout that is none": (
        "Machine", other(MACHINE, nodeDrainTimeout="soon", nodeDeletionTimeout="-1s"),
        ['spec.nodeDrainTimeout: Invalid value: "soon": must be a duration like 90s, 20m or 1h30m',
         'spec.nodeDeletionTimeout: Invalid value: "-1s": must not be negative'],
    ),
    "a set whose selector misses its template": (
        "MachineSet", other(SET, selector={"matchLabels": {"a": "b"}}),
        ["spec.template.metadata.labels: Invalid value: {}: " + TOLD_SELECTOR],
    ),
    "a deployment whose selector misses its template": (
        "MachineDeployment", other(SET, selector={"matchLabels": {"a": "b"}}),
        ['spec.template.metadata.labels: Forbidden: must match spec.selector "a=b,cluster.x-k8s.io/cluster-name=c"'],
    ),
    "a selector that cannot be read": (
        "MachineSet", other(SET, selector={"matchExpressions": [{"key": "a", "operator": "Is"}]}),
        ['spec.selector: Invalid value: {"matchExpressions":[{"key":"a","operator":"Is"}]}: '
         '"Is" is not a valid label selector operator'],
    ),
    "labels and annotations that no machine can have": (
        "MachineSet",
        other(SET, template={"metadata": {"labels": {"a/b/c": "x y"}, "annotations": {"": "x"}}, "spec": MACHINE}),
        None,
    ),
    "bounds that are none": (
        "MachineDeployment", other(SET, strategy={"rollingUpdate": {"maxSurge": "many", "maxUnavailable": -1}}),
        ['spec.strategy.rollingUpdate.maxSurge: Invalid value: "many": must be either an int or a percentage: '
         "invalid value for IntOrString: it is no percentage",
         "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: -1: must be greater than or equal to 0"],
    ),
    "a check of everything": (
        "MachineHealthCheck", other(CHECK, selector={}), ["spec.selector: Required value: selector must not be empty"],
    ),
    "a check of another cluster": (
        "MachineHealthCheck", other(CHECK, selector={"matchLabels": {"cluster.x-k8s.io/cluster-name": "d"}}),
        ['spec.selector: Invalid value: {"matchLabels":{"cluster.x-k8s.io/cluster-name":"d"}}: cannot specify a '
         "cluster selector other than the one specified by ClusterName"],
    ),
    "a check that is too quick": (
        "MachineHealthCheck", other(CHECK, nodeStartupTimeout="29s"),
        ['spec.nodeStartupTimeout: Invalid value: "29s": must be at least 30s'],
    ),
    "a check of nothing": (
        "MachineHealthCheck", other(CHECK, unhealthyConditions=[]),
        ["spec.unhealthyConditions: Forbidden: must have at least one entry"],
    ),
    "a check with a range that ends before it begins": (
        "MachineHealthCheck", other(CHECK, unhealthyRange="[3-1]"),
        ['spec.unhealthyRange: Invalid value: "[3-1]": must not begin with more machines than it ends with: '
         "3 is more than 1"],
    ),
    "a check with a range that no number of machines has": (
        "MachineHealthCheck", other(CHECK, unhealthyRange="[1-2147483648]"),
        ['spec.unhealthyRange: Invalid value: "[1-2147483648]": must not end with more than 2147483647'],
    ),
    "a drain rule with an order of what is not evicted": (
        "MachineDrainRule", {"drain": {"behavior": "Skip", "order": 1}},
        ["spec.drain.order: Invalid value: 1: order must not be set if drain behavior is 'Skip'"],
    ),
    "a drain rule that says a thing twice": (
        "MachineDrainRule", {"drain": {"behavior": "Skip"}, "machines": [{"selector": {}}, {"selector": {}}]}, None,
    ),
    "a drain rule with selectors that are none": (
        "MachineDrainRule",
        {"drain": {"behavior": "Skip"}, "pods": [{"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}]},
        None,
    ),
    "a check with a timeout that is none": (
        "MachineHealthCheck", other(CHECK, unhealthyConditions=[{"type": "a", "status": "b", "timeout": "c"}]),
        ['spec.unhealthyConditions[0].timeout: Invalid value: "c": must be a duration like 90s, 20m or 1h30m'],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "spec", "wanted"), BAD.values(), ids=BAD)
def test_a_bad_object_is_refused(kind, spec, wanted):
    found = refusals(kind, spec)
    assert found
    assert wanted is None or found == wanted


@pytest.mark.parametrize("kind", ["Machine", "MachineSet", "MachineDeployment", "MachineHealthCheck"])
def test_the_cluster_never_changes(kind):
    moved = refusals(kind, {**GOOD[kind], "clusterName": "d"}, GOOD[kind])
    assert "spec.clusterName: Forbidden: field is immutable" in moved


@pytest.mark.parametrize("kind", ["Cluster", "MachineDeployment"])
def test_a_name_that_is_no_label_is_refused(kind):
    assert "metadata.name" in refusals(kind, GOOD[kind], name="a" * 64)[0]


def test_checks_that_are_skipped_must_exist():
    annotations = {"machineset.cluster.x-k8s.io/skip-preflight-checks": "All, Some"}
    assert refusals("MachineSet", SET, annotations=annotations) == [
        "metadata.annotations.machineset.cluster.x-k8s.io/skip-preflight-checks: Invalid value: "
        '["Some"]: skipped preflight check(s) must be among: [All ControlPlaneIsStable KubeadmVersionSkew '
        "KubernetesVersionSkew]"
    ]


BROUGHT = {
    "a secret's name": {"dataSecretName": "s"},
    "an empty name, which means none is needed": {"dataSecretName": ""},
    "the data themselves": {"data": "#cloud-config"},
    "empty data, which mean none are needed": {"data": ""},
}


@pytest.mark.parametrize("bootstrap", BROUGHT.values(), ids=BROUGHT)
def test_bootstrap_data_of_a_users_own(bootstrap):
    assert refusals("Machine", other(MACHINE, bootstrap=bootstrap)) == []


def test_a_machine_of_a_pool_needs_no_bootstrap():
    assert refusals("Machine", other(MACHINE, bootstrap={}), labels={"cluster.x-k8s.io/pool-name": "p"}) == []


def test_a_check_that_is_switched_off_or_patient_is_good():
    assert refusals("MachineHealthCheck", other(CHECK, nodeStartupTimeout="0s")) == []
    assert refusals("MachineHealthCheck", other(CHECK, nodeStartupTimeout="30s")) == []
    assert refusals("MachineHealthCheck", other(CHECK, unhealthyRange="[3-3]")) == []


VERSIONS = {
    "v1.30.0": True,
    "v1.30.0-rc.1": True,
    "v1.30.0+k3s1": True,
    "1.30.0": False,
    "v1.30": False,
    "v01.2.3": False,
}


@pytest.mark.parametrize("text", VERSIONS)
def test_versions(text):
    assert is_version(text) == VERSIONS[text]
