"""The CRDs of our infrastructure provider: what Cluster API's contract asks for, structural and explained."""

import pytest

from kubewright.api.infra.manifests import crds
from kubewright.api.infra.v1beta1 import GROUP
from kubewright.wire.gvk import crd_name

CRDS = {crd["spec"]["names"]["kind"]: crd for crd in crds()}
ALL = pytest.mark.parametrize("crd", CRDS.values(), ids=CRDS)


def version(kind):
    return CRDS[kind]["spec"]["versions"][0]


def schema(kind, path=""):
    found = version(kind)["schema"]["openAPIV3Schema"]
    for step in filter(None, path.split(".")):
        found = found["items"] if step == "[]" else found["properties"][step]
    return found


def nodes(found, path="$"):
    yield path, found
    for name, inner in found.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if name in found:
            yield from nodes(found[name], f"{path}[]")


@ALL
def test_every_field_of_ours_is_explained(crd):
    for path, found in nodes(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]):
        if not path.endswith("[]") and path != "$.metadata":
            assert found.get("description", "").endswith("."), path


@ALL
def test_the_core_finds_the_crd_by_its_name_and_clusterctl_by_its_labels(crd):
    names = crd["spec"]["names"]
    assert crd["metadata"]["name"] == crd_name(GROUP, names["kind"])
    assert names["categories"] == ["cluster-api"]
    assert crd["spec"]["scope"] == "Namespaced"
    assert crd["metadata"]["labels"] == {
        "cluster.x-k8s.io/provider": "infrastructure-kubewright",
        "clusterctl.cluster.x-k8s.io": "",
        "cluster.x-k8s.io/v1beta1": "v1beta1",
    }


CONTRACT = [
    ("KubewrightCluster", "spec.controlPlaneEndpoint.host", "string"),
    ("KubewrightCluster", "spec.controlPlaneEndpoint.port", "integer"),
    ("KubewrightCluster", "status.ready", "boolean"),
    ("KubewrightCluster", "status.failureReason", "string"),
    ("KubewrightCluster", "status.failureMessage", "string"),
    ("KubewrightCluster", "status.failureDomains", "object"),
    ("KubewrightCluster", "status.conditions", "array"),
    ("KubewrightClusterTemplate", "spec.template.metadata", "object"),
    ("KubewrightClusterTemplate", "spec.template.spec", "object"),
    ("KubewrightMachine", "spec.providerID", "string"),
    ("KubewrightMachine", "spec.failureDomain", "string"),
    ("KubewrightMachine", "status.ready", "boolean"),
    ("KubewrightMachine", "status.addresses", "array"),
    ("KubewrightMachine", "status.addresses.[].type", "string"),
    ("KubewrightMachine", "status.addresses.[].address", "string"),
    ("KubewrightMachine", "status.interruptible", "boolean"),
    ("KubewrightMachine", "status.failureReason", "string"),
    ("KubewrightMachine", "status.failureMessage", "string"),
    ("KubewrightMachine", "status.conditions", "array"),
    ("KubewrightMachineTemplate", "spec.template.metadata", "object"),
    ("KubewrightMachineTemplate", "spec.template.spec", "object"),
    ("KubewrightMachineTemplate", "status.capacity", "object"),
    ("KubewrightMachineTemplate", "status.nodeInfo.architecture", "string"),
    ("KubewrightMachineTemplate", "status.nodeInfo.operatingSystem", "string"),
]


@pytest.mark.parametrize(("kind", "path", "kind_of_value"), CONTRACT, ids=lambda part: part)
def test_the_contract_finds_a_field_where_it_looks(kind, path, kind_of_value):
    assert schema(kind, path)["type"] == kind_of_value


def test_only_the_template_of_clusters_has_no_status():
    assert {kind for kind in CRDS if "subresources" not in version(kind)} == {"KubewrightClusterTemplate"}


def test_what_is_the_drivers_own_is_kept_as_it_is():
    for kind, path in (
        ("KubewrightCluster", "spec.providerSpec"),
        ("KubewrightMachine", "spec.providerSpec"),
        ("KubewrightMachineTemplate", "spec.template.spec.providerSpec"),
    ):
        assert schema(kind, path)["x-kubernetes-preserve-unknown-fields"], (kind, path)


def test_ready_is_always_written():
    assert schema("KubewrightCluster", "status.ready")["default"] is False
    assert schema("KubewrightMachine", "status.ready")["default"] is False


COLUMNS = {
    "KubewrightCluster": ["Cluster", "Ready", "Host", "Port", "Age"],
    "KubewrightClusterTemplate": ["Age"],
    "KubewrightMachine": ["Cluster", "Machine", "ProviderID", "Ready", "Age"],
    "KubewrightMachineTemplate": ["Age"],
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns(kind):
    assert [each["name"] for each in version(kind)["additionalPrinterColumns"]] == COLUMNS[kind]
