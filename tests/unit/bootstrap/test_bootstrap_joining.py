"""What a cluster that no kubeadm has started gets, so that machines can join it."""

from base64 import b64decode
from dataclasses import replace

import pytest
import yaml
from msgspec import structs

from kubewright.api.bootstrap.names import TOKEN_GROUPS
from kubewright.api.bootstrap.v1beta1 import KubeadmConfig
from kubewright.api.cluster.v1beta1 import (
    ApiEndpoint,
    Cluster,
    ClusterNetwork,
    ClusterSpec,
    NetworkRanges,
    ObjectReference,
)
from kubewright.api.core import CONFIG_MAP
from kubewright.api.meta import ObjectMeta
from kubewright.apiserver.server import ApiServer
from kubewright.bootstrap.act import joining_of
from kubewright.bootstrap.joining import (
    CLUSTER_ROLE_BINDING,
    ROLE_BINDING,
    Joining,
    configuration,
    corrected,
    ensure,
    kubelet,
    objects,
)
from kubewright.bootstrap.seen import BootstrapSettings, Seen
from kubewright.kube.client import Client
from kubewright.kube.transport import InProcess
from kubewright.pki.credentials import Purpose
from kubewright.pki.keys import KeyPair
from kubewright.testing.clocks import BEGIN, LoopClock
from kubewright.wire.gvk import Key

HERE = Joining("10.0.0.1:6443", b"THE CA")
INFO = Key("kube-public", "cluster-info")
REQUESTS = "system:certificates.k8s.io:certificatesigningrequests"
ALLOWED = [
    ("a token asks for a certificate", "system:node-bootstrapper", TOKEN_GROUPS),
    ("that certificate is signed without a user", f"{REQUESTS}:nodeclient", TOKEN_GROUPS),
    ("a kubelet renews its own", f"{REQUESTS}:selfnodeclient", "system:nodes"),
    ("kubeadm sees whether its node is there already", "kubeadm:get-nodes", TOKEN_GROUPS),
]


@pytest.mark.parametrize(("role", "group"), [row[1:] for row in ALLOWED], ids=[row[0] for row in ALLOWED])
def test_who_joins_is_allowed(role, group):
    bindings = [body for kind, body in objects(HERE, "v1.36.3") if kind is CLUSTER_ROLE_BINDING]
    found = [each for each in bindings if each["roleRef"]["name"] == role]
    assert [subject["name"] for each in found for subject in each["subjects"]] == [group]


def test_cluster_info_says_where_the_cluster_is_and_whom_to_trust_and_is_for_everyone():
    everything = list(objects(HERE, "v1.36.3"))
    kind, body = everything[-1]
    cluster = yaml.safe_load(body["data"]["kubeconfig"])["clusters"][0]["cluster"]
    assert (kind, cluster["server"]) == (CONFIG_MAP, "https://10.0.0.1:6443")
    assert b64decode(cluster["certificate-authority-data"]) == b"THE CA"
    readers = [
        body
        for kind, body in everything
        if kind is ROLE_BINDING and body["metadata"]["namespace"] == "kube-public"
    ]
    assert [each["name"] for body in readers for each in body["subjects"]] == ["system:anonymous"]


def test_a_cluster_and_ranges_that_look_like_numbers_are_written_as_text():
    joining = replace(HERE, name="1e3", services="10.96.0.0/12", domain="08")
    maps = {
        body["metadata"]["name"]: body["data"]
        for kind, body in objects(joining, "v1.36.3")
        if kind is CONFIG_MAP
    }
    assert "clusterName: '1e3'" in maps["kubeadm-config"]["ClusterConfiguration"]
    assert "clusterDomain: '08'" in maps["kubelet-config"]["kubelet"]


OLD = yaml.safe_dump({"kubernetesVersion": "v1.35.0", "clusterName": "mine"})
NEW = yaml.safe_dump({"kubernetesVersion": "v1.36.3", "clusterName": "mine"})
THEIRS = yaml.safe_dump({"kubernetesVersion": "v1.36.3", "clusterName": "ours"})
CORRECTED = [
    ("a version of the API server that is gone", "kubeadm-config", {"ClusterConfiguration": OLD}, {"ClusterConfiguration": NEW}),
    ("what a user has changed stays", "kubeadm-config", {"ClusterConfiguration": NEW}, {"ClusterConfiguration": NEW}),
    ("what is no YAML", "kubeadm-config", {"ClusterConfiguration": "["}, {"ClusterConfiguration": THEIRS}),
    ("a name that was written as a number", "kubeadm-config", {"ClusterConfiguration": "clusterName: 1e3"}, {"ClusterConfiguration": THEIRS}),
    ("what is not there", "kubeadm-config", {}, {"ClusterConfiguration": THEIRS}),
    ("a kubelet's configuration is the user's", "kubelet-config", {"kubelet": "mine"}, {"kubelet": "mine"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "found", "after"), [row[1:] for row in CORRECTED], ids=[row[0] for row in CORRECTED]
)
def test_what_is_corrected(name, found, after):
    assert corrected(name, found, {"ClusterConfiguration": THEIRS}) == after


def test_the_cluster_is_described_to_kubeadm_and_kubelets():
    here = Joining("10.0.0.1:6443", b"THE CA", "demo", "10.32.0.0/16,fd00::/112", "10.1.0.0/16", "c.local")
    assert configuration(here, "v1.36.3")["networking"] == {
        "dnsDomain": "c.local", "serviceSubnet": "10.32.0.0/16,fd00::/112", "podSubnet": "10.1.0.0/16",
    }  # fmt: skip
    assert (kubelet(here)["clusterDNS"], kubelet(here)["clusterDomain"]) == (["10.32.0.10"], "c.local")


def plane_of(
    group: str = "controlplane.cluster.x-k8s.io", kind: str = "NestedControlPlane"
) -> ObjectReference:
    return ObjectReference(api_version=f"{group}/v1alpha4", kind=kind, name="p")


AT, PAIR = ApiEndpoint(host="10.0.0.1", port=6443), KeyPair(b"THE CA", b"ITS KEY")
NETWORK = ClusterNetwork(
    services=NetworkRanges(cidr_blocks=("10.32.0.0/16", "fd00::/112")),
    pods=NetworkRanges(cidr_blocks=("10.1.0.0/16",)),
    service_domain="c.local",
)
NESTED = ClusterSpec(control_plane_ref=plane_of(), control_plane_endpoint=AT)
WHOLE = Joining("10.0.0.1:6443", b"THE CA", "c", "10.32.0.0/16,fd00::/112", "10.1.0.0/16", "c.local")
ONLY = Joining("10.0.0.1:6443", b"THE CA", "c")
OF_CLUSTERS = [
    ("a nested one", NESTED, True, ONLY),
    ("a nested one with its networks", structs.replace(NESTED, cluster_network=NETWORK), True, WHOLE),
    ("networks that say nothing", structs.replace(NESTED, cluster_network=ClusterNetwork()), True, ONLY),
    ("no authority was read", NESTED, False, None),
    ("no endpoint", structs.replace(NESTED, control_plane_endpoint=None), True, None),
    ("half of an endpoint", structs.replace(NESTED, control_plane_endpoint=ApiEndpoint(host="h")), True, None),
    ("machines run it", structs.replace(NESTED, control_plane_ref=None), True, None),
    ("a provider of machines", structs.replace(NESTED, control_plane_ref=plane_of(kind="KubeadmControlPlane")), True, None),
    ("a kind of another group", structs.replace(NESTED, control_plane_ref=plane_of(group="example.com")), True, None),
    ("no cluster", None, True, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "read", "told"), [row[1:] for row in OF_CLUSTERS], ids=[row[0] for row in OF_CLUSTERS]
)
def test_what_machines_are_told_of_a_cluster(spec, read, told):
    cluster = Cluster(metadata=ObjectMeta(name="c", namespace="n"), spec=spec) if spec is not None else None
    pairs = {Purpose.CA: PAIR} if read else {}
    assert joining_of(Seen(KubeadmConfig(), BEGIN, BootstrapSettings(), cluster=cluster, pairs=pairs)) == told


@pytest.fixture
async def client():
    clock = LoopClock()
    server = ApiServer(clock)
    await server.start()
    yield Client(InProcess(server.handle), clock)
    await server.close()


async def versions(client):
    return [
        (await client.get(kind, Key(body["metadata"].get("namespace", ""), body["metadata"]["name"])))
        for kind, body in objects(HERE, "v1.36.3")
    ]


async def test_what_is_there_stays_as_it_is_but_for_what_cluster_info_says(client):
    await ensure(client, HERE)
    before = await versions(client)
    signature = {"data": {"jws-kubeconfig-abcdef": "signed"}}
    await client.patch(CONFIG_MAP, INFO, signature)
    await ensure(client, HERE)
    assert (await versions(client))[:-1] == before[:-1]
    assert (await client.get(CONFIG_MAP, INFO)).data["jws-kubeconfig-abcdef"] == "signed"

    await ensure(client, Joining("10.0.0.2:6443", b"THE CA"))
    assert "10.0.0.2:6443" in (await client.get(CONFIG_MAP, INFO)).data["kubeconfig"]
