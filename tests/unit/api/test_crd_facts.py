"""Our CRDs of Cluster API beside upstream's v1.7.1: the same facts, but for those that are named here.

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

BOOTSTRAP_DATA = "field {}.bootstrap.data string"
"""Read as v1alpha2 has it, and moved into a Secret (S0-15)."""
TOPOLOGY = "field .spec.topology"
"""Has no schema here: validation refuses it with a message of its own, so the schema must let it pass."""
ADDED = {
    "clusters.cluster.x-k8s.io": {f"{TOPOLOGY} object x-kubernetes-preserve-unknown-fields=true"},
    "machines.cluster.x-k8s.io": {BOOTSTRAP_DATA.format(".spec")},
    "machinesets.cluster.x-k8s.io": {BOOTSTRAP_DATA.format(".spec.template.spec")},
    "machinedeployments.cluster.x-k8s.io": {BOOTSTRAP_DATA.format(".spec.template.spec")},
}
EXPRESSIONS = " x-kubernetes-validations="
"""Rules in a schema, of drain rules only: ours are in ``api.cluster.validate``."""
METADATA = "field .metadata object required", "field .metadata object"
"""Newer CRDs say what every server sees to."""
LEFT_OUT = {"clusters.cluster.x-k8s.io": (TOPOLOGY,)}
"""Beginnings of lines."""


def table(name):
    lines = (TABLES / f"{name}.txt").read_text().splitlines()
    kept = [line for line in lines if not line.startswith(("#", *LEFT_OUT.get(name, ())))]
    return {line.partition(EXPRESSIONS)[0].replace(*METADATA) for line in kept}


@pytest.mark.parametrize("name", OURS)
def test_a_crd_says_what_upstreams_says(name):
    ours = set(facts(OURS[name], "v1beta1"))
    assert ours - ADDED.get(name, set()) == table(name)
    assert ADDED.get(name, set()) <= ours


@pytest.mark.parametrize("name", [name for name in OURS if name.endswith("s.cluster.x-k8s.io")])
def test_a_crd_has_the_labels_of_the_contract(name):
    labels = OURS[name]["metadata"]["labels"]
    assert labels[CONTRACT_LABEL] == "v1beta1"
    assert not labels[CLUSTERCTL_LABEL]
    assert labels[PROVIDER_LABEL]


@pytest.mark.parametrize("crd", OURS.values(), ids=OURS)
def test_every_field_is_explained_by_a_sentence(crd):
    for path, described in described_fields(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]):
        assert described.endswith("."), path


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
