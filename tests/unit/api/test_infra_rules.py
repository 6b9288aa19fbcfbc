"""Which KubewrightClusters, KubewrightMachines and templates are good, and which changes of them."""

import pytest

from kubewright.api.infra.v1beta1 import (
    KUBEWRIGHT_CLUSTER,
    KUBEWRIGHT_CLUSTER_TEMPLATE,
    KUBEWRIGHT_MACHINE,
    KUBEWRIGHT_MACHINE_TEMPLATE,
)
from kubewright.api.infra.validate import (
    validate_cluster,
    validate_cluster_change,
    validate_cluster_template,
    validate_machine,
    validate_machine_change,
    validate_machine_template,
    validate_template_change,
)

ENDPOINT = {"host": "10.0.0.1", "port": 6443}
DRY_RUN = {"topology.cluster.x-k8s.io/dry-run": ""}


def machine(**spec):
    return KUBEWRIGHT_MACHINE.from_plain({"spec": spec})


def cluster(**spec):
    return KUBEWRIGHT_CLUSTER.from_plain({"spec": spec})


def template(annotations=None, **spec):
    body = {"metadata": {"annotations": annotations or {}}, "spec": {"template": {"spec": spec}}}
    return KUBEWRIGHT_MACHINE_TEMPLATE.from_plain(body)


def cluster_template(**spec):
    return KUBEWRIGHT_CLUSTER_TEMPLATE.from_plain({"spec": {"template": {"spec": spec}}})


def messages(errors):
    return [str(error) for error in errors]


@pytest.mark.parametrize(
    "errors",
    [
        pytest.param(validate_machine(machine()), id="a machine that takes everything from its cluster"),
        pytest.param(
            validate_machine(machine(driver="sim", providerSpec={"a": 1}, credentialsRef={"name": "cloud"})),
            id="a machine with driver, spec and credentials",
        ),
        pytest.param(validate_cluster(cluster()), id="a cluster without an endpoint yet"),
        pytest.param(validate_cluster(cluster(controlPlaneEndpoint=ENDPOINT)), id="a cluster with an endpoint"),
        pytest.param(
            validate_cluster(cluster(controlPlaneEndpoint={"host": "", "port": 0})), id="an empty endpoint"
        ),
        pytest.param(validate_machine_template(template(driver="sim")), id="a template"),
        pytest.param(validate_cluster_template(cluster_template(driver="sim")), id="a template of clusters"),
        pytest.param(
            validate_machine_change(machine(), machine(providerID="sim:///a", failureDomain="a")),
            id="id and place are written once",
        ),
        pytest.param(
            validate_machine_change(
                machine(driver="no", providerSpec={"a": 1}), machine(driver="sim", providerSpec={"a": 2})
            ),
            id="what a VM is going to be made from is mended",
        ),
        pytest.param(
            validate_cluster_change(cluster(), cluster(controlPlaneEndpoint=ENDPOINT)),
            id="the endpoint is written once",
        ),
        pytest.param(
            validate_cluster_change(
                cluster(controlPlaneEndpoint={"host": "a", "port": 0}), cluster(controlPlaneEndpoint=ENDPOINT)
            ),
            id="an endpoint that is not complete changes",
        ),
        pytest.param(
            validate_template_change(template(driver="sim"), template({"a": "b"}, driver="sim")),
            id="a template's annotations change",
        ),
        pytest.param(
            validate_template_change(template(driver="sim"), template(DRY_RUN, driver="aws"), dry_run=True),
            id="the topology tries a template out in a dry run",
        ),
    ],
)  # fmt: skip
def test_it_is_good(errors):
    assert messages(errors) == []


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        pytest.param(
            validate_machine(machine(credentialsRef={"name": ""})),
            "spec.credentialsRef.name: Required value: it names no Secret",
            id="credentials without a name",
        ),
        pytest.param(
            validate_cluster(cluster(controlPlaneEndpoint={"host": "a", "port": 70000})),
            "spec.controlPlaneEndpoint.port: Invalid value: 70000: must be between 1 and 65535",
            id="a port that is none",
        ),
        pytest.param(
            validate_cluster(cluster(controlPlaneEndpoint={"host": "", "port": 6443})),
            "spec.controlPlaneEndpoint.host: Required value: a port alone is no endpoint",
            id="a port without a host",
        ),
        pytest.param(
            validate_machine_template(template(providerID="sim:///a")),
            "spec.template.spec.providerID: Forbidden: it belongs to one object, and stands in no template",
            id="the id of one VM in a template",
        ),
        pytest.param(
            validate_cluster_template(cluster_template(controlPlaneEndpoint=ENDPOINT)),
            "spec.template.spec.controlPlaneEndpoint: Forbidden: it belongs to one object, and stands in no"
            " template",
            id="the endpoint of one cluster in a template",
        ),
        pytest.param(
            validate_machine_change(
                machine(providerSpec={"a": 1}, providerID="sim:///a"),
                machine(providerSpec={"a": 2}, providerID="sim:///a"),
            ),
            "spec.providerSpec: Forbidden: the VM is made from it: it never changes",
            id="another spec of a VM",
        ),
        pytest.param(
            validate_machine_change(machine(providerID="sim:///a"), machine(providerID="sim:///b")),
            "spec.providerID: Forbidden: it is set to sim:///a, and never changes after that",
            id="another VM",
        ),
        pytest.param(
            validate_cluster_change(cluster(controlPlaneEndpoint=ENDPOINT), cluster()),
            "spec.controlPlaneEndpoint: Forbidden: it is set to 10.0.0.1:6443, and never changes after that",
            id="an endpoint that goes",
        ),
        pytest.param(
            validate_template_change(template(driver="sim"), template(driver="aws")),
            "spec.template.spec: Forbidden: it is immutable: make another template, and refer to that one",
            id="another template",
        ),
        pytest.param(
            validate_template_change(template(driver="sim"), template(DRY_RUN, driver="aws")),
            "spec.template.spec: Forbidden: it is immutable: make another template, and refer to that one",
            id="the annotation of a dry run in a request that is none",
        ),
    ],
)
def test_it_is_refused(errors, message):
    assert messages(errors) == [message]
