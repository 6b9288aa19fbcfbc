"""The CRDs: upstream's names and shapes, structural, and as committed."""

from pathlib import Path

import pytest
import yaml

from kubewright.api.crd import schema_of
from kubewright.api.machine import manifests
from kubewright.api.machine.manifests import crds, files, manifest

ROOT = Path(__file__).parents[3]
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
    """Every schema below and including this one."""
    yield path, found
    for name, inner in found.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if name in found:
            yield from nodes(found[name], f"{path}[]")


@ALL
def test_every_schema_is_structural(crd):
    for path, found in nodes(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]):
        free = found.get("x-kubernetes-int-or-string") or found.get("x-kubernetes-preserve-unknown-fields")
        assert ("type" in found) or free, path
        assert not ("properties" in found and "additionalProperties" in found), path
        assert set(found.get("required", ())) <= set(found.get("properties", ())), path
        if "anyOf" in found:
            assert found["x-kubernetes-int-or-string"], path
            assert "type" not in found, path


@ALL
def test_every_field_of_ours_is_explained(crd):
    root = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for path, found in nodes(root):
        if not path.endswith("[]") and path != "$.metadata":
            assert found.get("description", "").endswith("."), path


NAMES = {
    "MachineClass": ("machineclasses", "machineclass", ["mcc"]),
    "Machine": ("machines", "machine", ["mc"]),
    "MachineSet": ("machinesets", "machineset", ["mcs"]),
    "MachineDeployment": ("machinedeployments", "machinedeployment", ["mcd"]),
}


@pytest.mark.parametrize("kind", NAMES)
def test_names(kind):
    spec = CRDS[kind]["spec"]
    plural, singular, short = NAMES[kind]
    assert spec["names"] == {
        "kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": singular, "shortNames": short,
    }  # fmt: skip
    assert CRDS[kind]["metadata"]["name"] == f"{plural}.machine.sapcloud.io"
    assert (spec["group"], spec["scope"], version(kind)["name"]) == (
        "machine.sapcloud.io",
        "Namespaced",
        "v1alpha1",
    )


AGE = ("Age", ".metadata.creationTimestamp", "date", 0)
COLUMNS = {
    "MachineClass": [],
    "Machine": [
        ("Status", ".status.currentStatus.phase", "string", 0), AGE,
        ("Node", ".metadata.labels.node", "string", 0), ("ProviderID", ".spec.providerID", "string", 1),
    ],
    "MachineSet": [
        ("Desired", ".spec.replicas", "integer", 0), ("Current", ".status.replicas", "integer", 0),
        ("Ready", ".status.readyReplicas", "integer", 0), AGE,
    ],
    "MachineDeployment": [
        ("Ready", ".status.readyReplicas", "integer", 0), ("Desired", ".spec.replicas", "integer", 0),
        ("Up-to-date", ".status.updatedReplicas", "integer", 0),
        ("Available", ".status.availableReplicas", "integer", 0), AGE,
        ("Excess", ".spec.excessReplicas", "integer", 1),
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns(kind):
    columns = version(kind).get("additionalPrinterColumns", [])
    assert [(c["name"], c["jsonPath"], c["type"], c.get("priority", 0)) for c in columns] == COLUMNS[kind]


def test_subresources():
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    assert version("MachineClass")["subresources"] == {"status": {}}  # ours: whether a driver accepts it
    assert version("Machine")["subresources"] == {"status": {}}
    assert version("MachineSet")["subresources"] == {"status": {}, "scale": scale}
    assert version("MachineDeployment")["subresources"] == {"status": {}, "scale": scale}


REQUIRED = {
    "MachineClass": {
        "$": ["providerSpec"],
        "$.nodeTemplate": ["capacity", "instanceType", "region", "zone"],
        "$.status.conditions[]": ["status", "type"],
    },
    "MachineDeployment": {"$.spec": ["template"], "$.status.conditions[]": ["status", "type"]},
    "MachineSet": {"$.status.machineSetCondition[]": ["status", "type"]},
    "Machine": {"$.status.addresses[]": ["address", "type"], "$.status.conditions[]": ["status", "type"]},
}
NODE_SPEC = {
    ".taints[]": ["effect", "key"],
    ".configSource.configMap": ["kubeletConfigKey", "name", "namespace"],
}
TEMPLATE_AT = {
    "Machine": "$.spec",
    "MachineSet": "$.spec.template.spec",
    "MachineDeployment": "$.spec.template.spec",
}
EXPRESSIONS = {"$.spec.selector.matchExpressions[]": ["key", "operator"]}


@pytest.mark.parametrize("kind", REQUIRED)
def test_required_fields_are_upstreams_and_no_others(kind):
    found = {path: inner["required"] for path, inner in nodes(schema(kind)) if "required" in inner}
    wanted = dict(REQUIRED[kind])
    if kind in TEMPLATE_AT:
        wanted |= {f"{TEMPLATE_AT[kind]}.nodeTemplate.spec{path}": names for path, names in NODE_SPEC.items()}
    if kind in ("MachineSet", "MachineDeployment"):
        wanted |= EXPRESSIONS
    assert found == wanted


def test_types_that_need_words_of_their_own():
    node = schema("Machine", "spec.nodeTemplate.spec")
    assert node["properties"]["podCIDRs"]["x-kubernetes-list-type"] == "set"
    assert node["properties"]["taints"]["x-kubernetes-list-type"] == "atomic"
    template = schema("Machine", "spec.nodeTemplate.metadata")
    assert template["x-kubernetes-preserve-unknown-fields"]
    assert template["properties"]["labels"]["additionalProperties"] == {"type": "string"}
    assert schema("Machine", "status.lastOperation.lastUpdateTime")["format"] == "date-time"
    retries = schema("Machine", "spec.maxEvictRetries")
    assert (retries["type"], retries["format"]) == ("integer", "int32")
    assert schema("MachineDeployment", "spec.rollbackTo.revision")["format"] == "int64"
    assert schema("MachineDeployment", "spec.selector")["x-kubernetes-map-type"] == "atomic"
    surge = schema("MachineDeployment", "spec.strategy.rollingUpdate.maxSurge")
    assert surge["x-kubernetes-int-or-string"]
    assert surge["anyOf"] == [{"type": "integer"}, {"type": "string"}]
    provider = schema("MachineClass", "providerSpec")
    assert provider["type"] == "object"
    assert provider["x-kubernetes-preserve-unknown-fields"]
    assert "additionalProperties" not in provider


def test_only_a_deployments_strategy_has_defaults():
    found = {f"{kind}{path}" for kind in CRDS for path, inner in nodes(schema(kind)) if "default" in inner}
    strategy = "MachineDeployment$.spec.strategy"
    assert found == {
        strategy, f"{strategy}.type",
        f"{strategy}.rollingUpdate.maxSurge", f"{strategy}.rollingUpdate.maxUnavailable",
        f"{strategy}.inPlaceUpdate.maxSurge", f"{strategy}.inPlaceUpdate.maxUnavailable",
    }  # fmt: skip


def test_a_type_without_a_schema_is_refused():
    with pytest.raises(TypeError, match="no structural schema"):
        schema_of(set[str])


@pytest.mark.parametrize(
    ("folder", "texts"), [("deploy/crds", files()), ("deploy/rbac", manifests.role_files())]
)
def test_committed_files_are_current(folder, texts):
    committed = {path.name: path.read_text() for path in (ROOT / folder).iterdir()}
    assert committed == texts, "run: make gen"


@pytest.mark.parametrize("half", manifests.HALVES)
def test_the_rules_of_each_half_are_current(half):
    folder = ROOT / "deploy" / "beside-mcm" / half
    texts = manifests.patches_of(half)
    assert {name: (folder / name).read_text() for name in texts} == texts, "run: make gen"


def test_yaml_reads_back():
    assert tuple(yaml.load_all(manifest(), Loader=yaml.CSafeLoader)) == crds()
