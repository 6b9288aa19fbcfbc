"""Our CRDs of Cluster API beside upstream's v1.14.2, both versions: the same facts, but for those named here.

The tables in ``crd_facts`` are written by ``tools/crd_facts.py``. A new CRD adds its table, its line in
``OURS`` and its differences.
"""

from pathlib import Path

import pytest

from kubewright.api.bootstrap import manifests as bootstrap
from kubewright.api.cluster import manifests as cluster
from kubewright.api.cluster.names import CLUSTERCTL_LABEL, CONTRACT_LABEL, PROVIDER_LABEL
from kubewright.testing.crd_facts import facts

TABLES = Path(__file__).parent / "crd_facts"
OURS = {crd["metadata"]["name"]: crd for crd in (*cluster.crds(), *bootstrap.crds())}
TODAY = {crd["metadata"]["name"]: crd for crd in (*cluster.crds_of_today(), *bootstrap.crds_of_today())}
VERSIONS = ("v1beta1", "v1beta2")

BOOTSTRAP_DATA = "field {}.bootstrap.data string"
"""Read as v1alpha2 has it, and moved into a Secret (S0-15)."""
TOPOLOGY = "field .spec.topology"
"""Has no schema here: validation refuses it with a message of its own, so the schema must let it pass."""
ADDRESS = "field .status.addresses[].{}"
"""An address in a v1beta1 Machine has no bounds, as in a Node: the controllers write it by one type."""
PARTS = "field .{}joinConfiguration.discovery.file.kubeConfig.{}"
"""A kubeconfig has the bounds of v1beta1 in both versions: what is empty means the same as what is absent."""
ADDED = {
    "v1beta1": {
        "clusters.cluster.x-k8s.io": {f"{TOPOLOGY} object x-kubernetes-preserve-unknown-fields=true"},
        "machines.cluster.x-k8s.io": {
            BOOTSTRAP_DATA.format(".spec"),
            ADDRESS.format("address string required"),
            ADDRESS.format("type string required"),
        },
        "machinesets.cluster.x-k8s.io": {BOOTSTRAP_DATA.format(".spec.template.spec")},
        "machinedeployments.cluster.x-k8s.io": {BOOTSTRAP_DATA.format(".spec.template.spec")},
    },
    "v1beta2": {
        "clusters.cluster.x-k8s.io": {f"{TOPOLOGY} object x-kubernetes-preserve-unknown-fields=true"},
        **{
            f"{name}.bootstrap.cluster.x-k8s.io": {
                PARTS.format(path, line)
                for line in (
                    "cluster object",
                    "user object required",
                    "user.exec.args array maxItems=100",
                    "user.exec.env array maxItems=100",
                )
            }
            for name, path in (("kubeadmconfigs", "spec."), ("kubeadmconfigtemplates", "spec.template.spec."))
        },
    },
}
"""What stands in ours and in another form, or not at all, in upstream's."""
METADATA = "field .metadata object required", "field .metadata object"
"""Newer CRDs say what every server sees to."""
STORED = "version {} served{}"
"""Upstream stores v1beta2 and calls v1beta1 deprecated. We store v1beta1 as long as our controllers read it."""


def without_storage(lines, version):
    return {line for line in lines if not line.startswith(STORED.format(version, ""))}


def table(name, version):
    lines = (TABLES / version / f"{name}.txt").read_text().splitlines()
    kept = [line for line in lines if not line.startswith("#")]
    return without_storage((line.replace(*METADATA) for line in kept), version)


def path(line):
    return " ".join(line.split(" ")[:2])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", OURS)
def test_a_crd_says_what_upstreams_says(name, version):
    ours, upstreams = without_storage(facts(TODAY[name], version), version), table(name, version)
    added = ADDED[version].get(name, set())
    left_out = upstreams - ours
    assert ours - upstreams == added
    assert {each for each in map(path, left_out) if not each.startswith(f"{TOPOLOGY}.")} <= set(
        map(path, added)
    )


@pytest.mark.parametrize("name", OURS)
def test_what_is_served_is_the_stored_version_of_both(name):
    assert facts(OURS[name], "v1beta1") == facts(TODAY[name], "v1beta1")
    assert facts(TODAY[name], "v1beta1").count("version v1beta1 served storage") == 1
    assert facts(TODAY[name], "v1beta2").count("version v1beta2 served") == 1


@pytest.mark.parametrize("name", [name for name in OURS if name.endswith("s.cluster.x-k8s.io")])
def test_a_crd_has_the_labels_of_the_contract(name):
    labels = OURS[name]["metadata"]["labels"]
    assert labels[CONTRACT_LABEL] == "v1beta1"
    assert not labels[CLUSTERCTL_LABEL]
    assert labels[PROVIDER_LABEL]


@pytest.mark.parametrize("crd", TODAY.values(), ids=TODAY)
def test_every_field_is_explained_by_a_sentence(crd):
    for version in crd["spec"]["versions"]:
        for where, described in described_fields(version["schema"]["openAPIV3Schema"]):
            assert described.endswith("."), where


def described_fields(schema, path="$"):
    for name, inner in schema.get("properties", {}).items():
        if (path, name) != ("$", "metadata"):
            yield f"{path}.{name}", inner.get("description", "")
        yield from described_fields(inner, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from described_fields(schema[key], f"{path}[]")


def test_facts_are_paths_and_words_of_the_schema():
    schema = {
        "type": "object",
        "required": ["count"],
        "properties": {
            "count": {"type": "integer", "format": "int32", "minimum": 0, "description": "Words."},
            "names": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
            "share": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".count"}},
        "additionalPrinterColumns": [
            {"name": "Count", "type": "integer", "jsonPath": ".count", "priority": 1}
        ],
    }
    names = {"kind": "Toy", "shortNames": ["t", "ty"]}
    crd = {"spec": {"group": "toys.io", "scope": "Namespaced", "names": names, "versions": [version]}}
    assert facts(crd, "v1") == [
        "group toys.io",
        "scope Namespaced",
        "name kind Toy",
        "name shortNames t, ty",
        "version v1 served storage",
        "subresource scale specReplicasPath=.count",
        "subresource status",
        "column 0 Count integer .count priority 1",
        "field . object",
        'field .count integer required format="int32" minimum=0',
        "field .names array",
        "field .names[] string",
        "field .share int-or-string",
    ]
