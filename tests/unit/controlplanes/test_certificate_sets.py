"""Which certificates and kubeconfigs each component needs, with which subjects and names."""

from dataclasses import replace

import pytest

from kubewright.api.cluster.v1beta1 import ApiEndpoint
from kubewright.api.controlplane.names import Component
from kubewright.controlplanes.certificates.sets import Naming, needed, wanted_by
from kubewright.controlplanes.hosting.contract import WorkloadAddresses
from kubewright.pki.credentials import Authority, Kubeconfig, Leaf, Signer, TokenKeys
from kubewright.wire.http import User

NAMING = Naming(
    "demo",
    "ns",
    WorkloadAddresses(("127.0.0.2", "127.0.0.3"), ("lb.example", 6443), also=("Other.example",)),
    "10.96.0.0/12,fd00::/108",
    "cluster.local",
    ApiEndpoint(host="api.example", port=443),
)
ADMIN = User("kubernetes-admin", ("system:masters",))
KCM = "system:kube-controller-manager"


def of(component, **changes):
    return {each.secret: each for each in wanted_by(component, replace(NAMING, **changes))}


def test_etcd_has_an_authority_and_what_its_members_and_probes_need():
    found = of(Component.ETCD)
    server, peer = found["demo-etcd-server"], found["demo-etcd-peer"]
    names = server.names
    assert found == {
        "demo-etcd": Authority("demo-etcd", "etcd-ca"),
        "demo-etcd-server": Leaf("demo-etcd-server", "demo-etcd", User("kube-etcd", ()), names),
        "demo-etcd-peer": Leaf("demo-etcd-peer", "demo-etcd", User("kube-etcd-peer", ()), names),
        "demo-etcd-health-client": Leaf(
            "demo-etcd-health-client", "demo-etcd", User("kube-etcd-healthcheck-client", ())
        ),
    }
    assert (server.client, peer.client) == (True, True)
    assert names == {
        *("localhost", "127.0.0.1", "::1", "127.0.0.2", "127.0.0.3", "other.example"),
        *("demo-etcd", "demo-etcd.ns", "demo-etcd.ns.svc", "demo-etcd.ns.svc.cluster.local"),
        *("demo-etcd-0.demo-etcd.ns", "demo-etcd-0.demo-etcd.ns.svc"),
        *("demo-etcd-0.demo-etcd.ns.svc.cluster.local", "demo-etcd-1.demo-etcd.ns"),
        *("demo-etcd-1.demo-etcd.ns.svc", "demo-etcd-1.demo-etcd.ns.svc.cluster.local"),
    }


def test_the_api_server_has_two_authorities_keys_for_tokens_and_its_own_certificates():
    found = of(Component.API_SERVER)
    assert list(found.values()) == [
        Authority("demo-ca", "kubernetes"),
        Authority("demo-proxy", "front-proxy-ca"),
        TokenKeys("demo-sa"),
        Leaf(
            "demo-apiserver",
            "demo-ca",
            User("kube-apiserver", ()),
            found["demo-apiserver"].names,
            client=False,
        ),
        Leaf("demo-apiserver-etcd-client", "demo-etcd", User("kube-apiserver-etcd-client", ())),
        Leaf("demo-kubelet-client", "demo-ca", User("kube-apiserver-kubelet-client", ("system:masters",))),
        Leaf("demo-proxy-client", "demo-proxy", User("front-proxy-client", ())),
        Kubeconfig("demo-kubeconfig", "demo-ca", "https://api.example:443", ADMIN, "demo", "demo-admin"),
    ]
    assert found["demo-apiserver"].names == {
        *("localhost", "127.0.0.1", "::1", "127.0.0.2", "127.0.0.3", "other.example"),
        *("api.example", "lb.example", "10.96.0.1", "fd00::1"),
        *("kubernetes", "kubernetes.default", "kubernetes.default.svc"),
        *("kubernetes.default.svc.cluster.local", "demo-apiserver", "demo-apiserver.ns"),
        *("demo-apiserver.ns.svc", "demo-apiserver.ns.svc.cluster.local"),
    }


def test_the_controller_manager_has_its_own_user_and_the_one_certificate_that_signs():
    found = of(Component.CONTROLLER_MANAGER)
    name = "demo-controller-manager-kubeconfig"
    user = User(KCM, ())
    assert list(found.values()) == [
        Signer("demo-controller-manager-signer", "demo-ca"),
        Kubeconfig(name, "demo-ca", "https://api.example:443", user, "demo", KCM),
    ]


@pytest.mark.parametrize("component", [Component.API_SERVER, Component.CONTROLLER_MANAGER])
def test_no_kubeconfig_is_made_before_the_endpoint_is_known(component):
    found = of(component, endpoint=None).values()
    assert not [each for each in found if isinstance(each, Kubeconfig)]


@pytest.mark.parametrize(
    ("ranges", "addresses"),
    [
        pytest.param("10.96.0.0/12", {"10.96.0.1"}, id="a range"),
        pytest.param("10.32.0.7/16", {"10.32.0.1"}, id="a range that begins before its address"),
        pytest.param("fd00:0::/108, 10.0.0.0/24", {"fd00::1", "10.0.0.1"}, id="two"),
        pytest.param("10.0.0.5/32", {"10.0.0.5"}, id="one address"),
        pytest.param("nonsense", set(), id="none"),
        pytest.param("", set(), id="nothing"),
    ],
)
def test_pods_reach_the_api_server_at_the_first_address_of_services(ranges, addresses):
    without = of(Component.API_SERVER, service_cidr="")["demo-apiserver"].names
    assert of(Component.API_SERVER, service_cidr=ranges)["demo-apiserver"].names - without == addresses


@pytest.mark.parametrize(
    ("component", "mounted", "made"),
    [
        pytest.param(Component.ETCD, set(), {"demo-etcd"}, id="no volume: the authority alone"),
        pytest.param(
            Component.ETCD,
            {"demo-etcd", "demo-etcd-server", "demo-etcd-peer"},
            {"demo-etcd", "demo-etcd-server", "demo-etcd-peer", "demo-etcd-health-client"},
            id="an etcd with certificates: probes have one too",
        ),
        pytest.param(
            Component.API_SERVER,
            {"demo-apiserver", "mine"},
            {"demo-ca", "demo-proxy", "demo-sa", "demo-kubeconfig", "demo-apiserver"},
            id="an API server with its own certificate only",
        ),
        pytest.param(
            Component.CONTROLLER_MANAGER,
            set(),
            {"demo-controller-manager-kubeconfig"},
            id="a controller manager",
        ),
    ],
)
def test_certificates_are_made_where_volumes_name_them(component, mounted, made):
    found = needed(component, wanted_by(component, NAMING), mounted)
    assert {each.secret for each in found} == made
