"""Our CRDs of control planes beside those of Cluster API Provider Nested v0.1.0: all that those say, and more.

The tables in ``crd_facts`` are written by ``tools/crd_facts.py``.
"""

from pathlib import Path

import pytest

from kubewright.api.catalog import DEFINITIONS
from kubewright.api.cluster.names import CONTRACT_LABEL
from kubewright.api.controlplane import manifests
from kubewright.testing.crd_facts import facts

TABLES = Path(__file__).parent / "crd_facts"
OURS = {crd["metadata"]["name"]: crd for crd in manifests.crds()}
UPSTREAMS = [name for name in OURS if not name.startswith(("nestedcontrolplanetemplates", "controlplane"))]

ATOMIC = {
    "field .spec.etcd object",
    "field .spec.apiserver object",
    "field .spec.controllerManager object",
    "field .status.apiserverService object",
}
"""Upstream does not say that a reference changes as a whole; ours does."""
PRUNED = "field .spec.patches[] object"
"""Upstream's schema prunes every patch to an empty object (S3-09); ours keeps what it says."""
REQUIRED = "field .status.healthy boolean required"
"""A program that provisions a component need not write it."""
DATED = 'field .status.conditions[].lastTransitionTime string format="date-time"'
"""Required in Cluster API's v1beta1, whose type of conditions we have."""
BOUNDED = {
    f"field .status.conditions[].{line}"
    for line in ("type string required", "severity string", "reason string", "message string")
}
"""The same type has the bounds that Cluster API gave it later."""
ENDPOINT = {
    f"field .spec.controlPlaneEndpoint.{line}"
    for line in ("host string required", 'port integer required format="int32"')
}
"""Cluster API no longer requires both parts of an endpoint, and gave the host a bound."""
DIFFERENT = {*ATOMIC, PRUNED, REQUIRED, DATED, *BOUNDED, *ENDPOINT}


def table(name):
    return {line for line in (TABLES / f"{name}.txt").read_text().splitlines() if not line.startswith("#")}


@pytest.mark.parametrize("name", UPSTREAMS)
def test_a_crd_says_all_that_upstreams_says(name):
    assert table(name) - set(facts(OURS[name], "v1alpha4")) <= DIFFERENT


@pytest.mark.parametrize("kind", ["nestedetcds", "nestedapiservers", "nestedcontrollermanagers"])
def test_patches_keep_what_they_say(kind):
    ours = facts(OURS[f"{kind}.controlplane.cluster.x-k8s.io"], "v1alpha4")
    assert f"{PRUNED} x-kubernetes-preserve-unknown-fields=true" in ours


@pytest.mark.parametrize(
    ("kind", "scales"),
    [
        ("nestedcontrolplanes", True),
        ("nestedetcds", True),
        ("nestedapiservers", True),
        ("nestedcontrollermanagers", False),
    ],
)
def test_kubectl_scale_works_on(kind, scales):
    version = OURS[f"{kind}.controlplane.cluster.x-k8s.io"]["spec"]["versions"][0]
    assert ("scale" in version["subresources"]) == scales


@pytest.mark.parametrize("crd", OURS.values(), ids=OURS)
def test_the_contract_finds_v1alpha4(crd):
    assert crd["metadata"]["labels"][CONTRACT_LABEL] == "v1alpha4"


def test_a_short_name_stands_for_one_kind():
    ours = [each.kind.resource for each in manifests.DEFINITIONS]
    others = {
        name
        for definitions in DEFINITIONS.values()
        for each in definitions
        if (resource := each.kind.resource) not in ours
        for name in (resource.plural, resource.kind.lower(), *resource.short_names)
    }
    short = [name for each in ours for name in each.short_names]
    assert (len(set(short)), others & set(short)) == (len(short), set())


def test_users_may_do_with_every_kind_what_they_may_do_with_deployments():
    wanted = {(each.kind.resource.group, each.kind.resource.plural) for each in manifests.DEFINITIONS}
    for role in ("view", "edit"):
        assert wanted <= {
            (rule["apiGroups"][0], kind)
            for each in manifests.roles_of_users()
            if each["metadata"]["name"].endswith(f"-{role}")
            for rule in each["rules"]
            for kind in rule["resources"]
        }
