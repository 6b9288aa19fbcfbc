"""Plurals and names of CRDs: the examples of the digest, and a table that upstream's own program wrote."""

from pathlib import Path

import pytest

from kubewright.wire.gvk import crd_name, plural_of

TABLE = Path(__file__).with_name("plurals.txt")
"""``Kind plural`` per line, printed by github.com/gobuffalo/flect v1.0.2: its irregular words and endings, alone and at
the end of a word, its abbreviations, and kinds of Cluster API providers."""


def test_each_word_of_the_table_has_the_plural_that_upstream_gives_it() -> None:
    table = dict(line.split() for line in TABLE.read_text().splitlines())

    assert len(table) > 1000
    assert {kind: plural_of(kind) for kind in table} == table


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("Cluster", "clusters"),
        ("MachinePool", "machinepools"),
        ("KubeadmConfigTemplate", "kubeadmconfigtemplates"),
        ("ControlPlane", "controlplanes"),
        ("BareMetalHost", "baremetalhosts"),
        ("IPAddressClaim", "ipaddressclaims"),
        ("DeploymentZone", "deploymentzones"),
        ("FailureDomain", "failuredomains"),
        ("MachineDrainRule", "machinedrainrules"),
        ("AWSClusterStaticIdentity", "awsclusterstaticidentities"),
        ("Policy", "policies"),
        ("Proxy", "proxies"),
        ("Topology", "topologies"),
        ("IPAddress", "ipaddresses"),
        ("ClusterClass", "clusterclasses"),
        ("Status", "statuses"),
        ("Gateway", "gateways"),
        ("Index", "indices"),
        ("Box", "boxes"),
        ("Bus", "buses"),
        ("Radio", "radios"),
        ("Database", "databases"),
        ("Quota", "quotas"),
        ("Metal3Data", "metal3data"),
        ("Metadata", "metadata"),
        ("Area", "area"),
        ("Repo", "repoes"),
        ("ServerInfo", "serverinfoes"),
        ("ClusterAlias", "clusteralias"),
        ("Talos", "talos"),
        ("Child", "children"),
        ("Person", "people"),
        ("Mouse", "mice"),
        ("Chassis", "chassis"),
        ("Alias", "aliases"),
    ],
)
def test_a_kind_has_the_plural_that_the_digest_names(kind: str, plural: str) -> None:
    assert plural_of(kind) == plural


def test_a_crd_is_named_by_plural_and_group() -> None:
    found = crd_name("infrastructure.cluster.x-k8s.io", "KubewrightMachineTemplate")

    assert found == "kubewrightmachinetemplates.infrastructure.cluster.x-k8s.io"


def test_an_abbreviation_in_s_has_a_regular_plural_where_upstreams_could_be_no_name() -> None:
    assert plural_of("DNS") == "dns"
