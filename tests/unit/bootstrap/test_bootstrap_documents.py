"""kubeadm's documents: which API for which Kubernetes, and what stands in each. Judged by parsing."""

import pytest
import yaml

from kubewright.api.bootstrap.parts import Patches
from kubewright.api.bootstrap.v1beta1 import (
    DNS,
    APIEndpoint,
    APIServer,
    BootstrapToken,
    BootstrapTokenDiscovery,
    ClusterConfiguration,
    ControlPlaneComponent,
    Discovery,
    Etcd,
    ExternalEtcd,
    HostPathMount,
    InitConfiguration,
    JoinConfiguration,
    JoinControlPlane,
    LocalEtcd,
    Networking,
    NodeRegistration,
)
from kubewright.api.core import Taint
from kubewright.base.errors import InvalidInput
from kubewright.bootstrap.documents import Api, api_of, init_documents, join_document
from kubewright.bootstrap.yaml_text import dumped, template

V2, V3, V4 = Api.V1BETA2, Api.V1BETA3, Api.V1BETA4


@pytest.mark.parametrize(
    ("version", "api"),
    [
        pytest.param("v1.15.0", V2, id="the oldest"),
        pytest.param("v1.21.14", V2, id="the last of v1beta2"),
        pytest.param("v1.22.0", V3, id="the first of v1beta3"),
        pytest.param("v1.22.0-rc.1", V3, id="a pre-release counts as its release"),
        pytest.param("1.30", V3, id="neither v nor patch is needed"),
        pytest.param("v1.30.4+k3s1", V3, id="a build has its suffix"),
        pytest.param("v1.31.0-alpha.1", V4, id="the first of v1beta4"),
        pytest.param("v1.36.3", V4, id="the newest"),
        pytest.param("v2.0.0", V4, id="what is to come"),
    ],
)
def test_each_kubernetes_gets_its_api(version: str, api: Api) -> None:
    assert api_of(version) is api


@pytest.mark.parametrize("version", ["", "latest", "v1", "1.2.3.4", "v1.31.0 ", "v1.x.0"])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(InvalidInput, match="is not a version"):
        api_of(version)


def test_what_is_too_old_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"older than v1\.15\.0"):
        api_of("v1.14.9")


TAINT = Taint(key="a", value="b", effect="NoSchedule")
REGISTRATION = NodeRegistration(
    name="n",
    cri_socket="unix:///run/x.sock",
    taints=(TAINT,),
    kubelet_extra_args={"v": "4", "node-ip": "::"},
    ignore_preflight_errors=("Swap",),
    image_pull_policy="Never",
)
CLUSTER = ClusterConfiguration(
    api_version="made-up",
    kind="made-up",
    etcd=Etcd(local=LocalEtcd(data_dir="/d", extra_args={"b": "2", "a": "1"}, server_cert_sans=("s",))),
    networking=Networking(
        service_subnet="10.0.0.0/16,fd00::/108", pod_subnet="10.1.0.0/16", dns_domain="x.y"
    ),
    kubernetes_version="v1.30.0",
    control_plane_endpoint="h:6443",
    api_server=APIServer(
        extra_args={"feature-gates": "A=true"},
        extra_volumes=(
            HostPathMount(name="v", host_path="/h", mount_path="/m", read_only=True, path_type="File"),
        ),
        cert_sans=("localhost",),
        timeout_for_control_plane="5m",
    ),
    controller_manager=ControlPlaneComponent(extra_args={"x": "y"}),
    dns=DNS(image_tag="v1"),
    feature_gates={"G": True},
    cluster_name="c",
)
INIT = InitConfiguration(
    bootstrap_tokens=(BootstrapToken(token="abcdef.0123456789abcdef", ttl="1h"),),
    node_registration=REGISTRATION,
    local_api_endpoint=APIEndpoint(advertise_address="10.0.0.1", bind_port=6443),
    skip_phases=("addon/kube-proxy",),
    patches=Patches(directory="/p"),
)
JOIN = JoinConfiguration(
    node_registration=REGISTRATION,
    ca_cert_path="/ca",
    discovery=Discovery(
        bootstrap_token=BootstrapTokenDiscovery(
            token="abcdef.0123456789abcdef", api_server_endpoint="h:6443", ca_cert_hashes=("sha256:00",)
        ),
        timeout="2m",
    ),
    control_plane=JoinControlPlane(),
    skip_phases=("preflight",),
    patches=Patches(directory="/p"),
)


def parsed(text: str) -> list[dict]:
    return list(yaml.safe_load_all(text))


def test_v1beta3_is_what_the_spec_has() -> None:
    cluster, init = parsed(init_documents(V3, CLUSTER, INIT))
    assert cluster == {
        "apiVersion": "kubeadm.k8s.io/v1beta3",
        "kind": "ClusterConfiguration",
        "etcd": {"local": {"dataDir": "/d", "extraArgs": {"a": "1", "b": "2"}, "serverCertSANs": ["s"]}},
        "networking": {
            "serviceSubnet": "10.0.0.0/16,fd00::/108",
            "podSubnet": "10.1.0.0/16",
            "dnsDomain": "x.y",
        },
        "kubernetesVersion": "v1.30.0",
        "controlPlaneEndpoint": "h:6443",
        "apiServer": {
            "extraArgs": {"feature-gates": "A=true"},
            "extraVolumes": [
                {"name": "v", "hostPath": "/h", "mountPath": "/m", "readOnly": True, "pathType": "File"}
            ],
            "certSANs": ["localhost"],
            "timeoutForControlPlane": "5m",
        },
        "controllerManager": {"extraArgs": {"x": "y"}},
        "dns": {"imageTag": "v1"},
        "featureGates": {"G": True},
        "clusterName": "c",
    }
    assert init == {
        "apiVersion": "kubeadm.k8s.io/v1beta3",
        "kind": "InitConfiguration",
        "bootstrapTokens": [{"token": "abcdef.0123456789abcdef", "ttl": "1h"}],
        "nodeRegistration": {
            "name": "n",
            "criSocket": "unix:///run/x.sock",
            "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}],
            "kubeletExtraArgs": {"v": "4", "node-ip": "::"},
            "ignorePreflightErrors": ["Swap"],
            "imagePullPolicy": "Never",
        },
        "localAPIEndpoint": {"advertiseAddress": "10.0.0.1", "bindPort": 6443},
        "skipPhases": ["addon/kube-proxy"],
        "patches": {"directory": "/p"},
    }


def test_v1beta2_lacks_phases_patches_and_pull_policies() -> None:
    _, init = parsed(init_documents(V2, CLUSTER, INIT))
    (join,) = parsed(join_document(V2, JOIN))
    for document in (init, join):
        assert document["apiVersion"] == "kubeadm.k8s.io/v1beta2"
        assert not {"skipPhases", "patches"} & document.keys()
        assert "imagePullPolicy" not in document["nodeRegistration"]


def test_v1beta4_has_flags_as_lists_and_timeouts_in_one_place() -> None:
    cluster, init = parsed(init_documents(V4, CLUSTER, INIT))
    assert cluster["apiServer"]["extraArgs"] == [{"name": "feature-gates", "value": "A=true"}]
    assert cluster["controllerManager"]["extraArgs"] == [{"name": "x", "value": "y"}]
    assert cluster["etcd"]["local"]["extraArgs"] == [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]
    assert "timeoutForControlPlane" not in cluster["apiServer"]
    assert init["timeouts"] == {"controlPlaneComponentHealthCheck": "5m"}
    assert init["nodeRegistration"]["kubeletExtraArgs"] == [
        {"name": "node-ip", "value": "::"},
        {"name": "v", "value": "4"},
    ]


def test_a_join_in_v1beta4_keeps_its_own_timeout_beside_the_clusters() -> None:
    (join,) = parsed(join_document(V4, JOIN, CLUSTER))
    assert join["timeouts"] == {"controlPlaneComponentHealthCheck": "5m", "discovery": "2m"}
    assert "timeout" not in join["discovery"]
    (alone,) = parsed(join_document(V4, JOIN))
    assert alone["timeouts"] == {"discovery": "2m"}


@pytest.mark.parametrize("api", list(Api))
def test_a_control_plane_that_joins_says_so_even_without_an_endpoint(api: Api) -> None:
    (join,) = parsed(join_document(api, JOIN))
    assert "controlPlane" in join
    (worker,) = parsed(join_document(api, JoinConfiguration()))
    assert "controlPlane" not in worker


@pytest.mark.parametrize("api", list(Api))
@pytest.mark.parametrize(
    ("taints", "written"),
    [
        pytest.param(None, {}, id="absent taints are not written"),
        pytest.param((), {"taints": []}, id="no taints are written as an empty list"),
    ],
)
def test_no_taints_are_not_absent_taints(api: Api, taints: object, written: dict) -> None:
    init = InitConfiguration(node_registration=NodeRegistration(name="n", taints=taints))
    _, found = parsed(init_documents(api, ClusterConfiguration(), init))
    assert found["nodeRegistration"] == {"name": "n", **written}


def test_an_etcd_elsewhere_is_written_as_it_is() -> None:
    etcd = Etcd(external=ExternalEtcd(endpoints=("https://e",), ca_file="/ca", cert_file="/c", key_file="/k"))
    cluster, _ = parsed(init_documents(V4, ClusterConfiguration(etcd=etcd), INIT))
    assert cluster["etcd"] == {
        "external": {"endpoints": ["https://e"], "caFile": "/ca", "certFile": "/c", "keyFile": "/k"}
    }


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "",
        "no",
        "1",
        "0640",
        "a: b",
        "'quoted' \"twice\"",
        "  leading and trailing  ",
        "two\nlines",
        "ends with a line\n",
        "a tab\tand\na space at the end \nof a line",
        "\n\nstarts empty",
        "\tstarts with a tab\nx",
        "{{ ds.meta_data['x'] }} and {{ ds[\"y\"] }}",
        "carriage\r\nreturn",
        "unicode: ü…☃ and \u2028 and \x85",
        "control \x07 character\n",
        "   ",
        "\n",
        "--- # not a document",
        "very " * 100,
    ],
)
def test_any_text_is_read_as_it_was_written(text: str) -> None:
    value = {"list": [text], "content": text}
    assert yaml.safe_load(dumped(value)) == value


BLOCKS = {
    "a leading line break": ("\n{{ x }}\n", "a: |2\n  \n  {{ x }}\n"),
    "a leading space": (" {{ x }}", "a: |2-\n   {{ x }}\n"),
    "a tab": ("\t{{ x }}\t", "a: |2-\n  \t{{ x }}\t\n"),
    "no-break spaces": ("\xa0{{ x }}\n", "a: |\n  \xa0{{ x }}\n"),
    "line breaks at the end": ("{{ x }}\n\n", "a: |+\n  {{ x }}\n\n...\n"),
    "a line after a statement": (
        "{% if x %}\ny\n{% endif %}\nz\n",
        "a: |2\n  {% if x %}\ny\n  {% endif %}\nz\n",
    ),
    "a statement at the end": ("{% if x %}y{% endif %}", "a: |2-\n  {% if x %}y{% endif %}\n\n"),
    "a carriage return": ('{{ "x" }}\r\n"y"', 'a: "{{ "x" }}\\r\\n\\"y\\""\n'),
    "a control character": ("\x1b{{ x }}\x7f", 'a: "\\x1b{{ x }}\\x7f"\n'),
    "white space dropped before it": ("{%- if x %}y{% endif %}", 'a: "{%- if x %}y{% endif %}"\n'),
}
"""What tests/conformance/test_cloud_init.py sees cloud-init make of the like."""


@pytest.mark.parametrize(("text", "written"), BLOCKS.values(), ids=BLOCKS)
def test_jinja_is_written_such_that_cloud_init_reads_it(text: str, written: str) -> None:
    assert dumped({"a": text}) == written


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("{{.Names}}", "{{ '{{' }}.Names}}"),
        ("${#list[@]}", "${{ '{#' }}list[@]}"),
        ("{% unknown %}", "{{ '{%' }} unknown %}"),
        ("{{ x", "{{ '{{' }} x"),
        ("{% raw %}{{.x}}", "{{ '{%' }} raw %}{{ '{{' }}.x}}"),
        ("{% raw %}{{.x}}{% endraw %}", "{% raw %}{{.x}}{% endraw %}"),
        ("{{ x }} {# y #} {% set z = '%}' %}", "{{ x }} {# y #} {% set z = '%}' %}"),
        ("no { % Jinja", "no { % Jinja"),
    ],
)
def test_jinja_prints_what_can_be_no_jinja(text: str, printed: str) -> None:
    assert template({text: [text, 1, None]}) == {printed: [printed, 1, None]}


def test_a_hostile_text_takes_time_in_proportion_to_its_length() -> None:
    for text in (
        '{{ "' * 20_000,
        "{%" * 20_000,
        "{#" * 20_000,
        "{{ x }}" * 2_000,
        "{% raw %}" * 20_000,
    ):
        template(text)
        assert len(dumped({"a": text})) > len(text)


def test_jinja_stands_in_the_text_as_it_was_given() -> None:
    lines = ["\t{{ v1.z['\"'] }} ", "{{ x['\"'] }} ", "{{ y['\"'] }} é", "{{ z['\"'] }} \U0001f600"]
    marks = ["{{ ds.meta_data['x'] }}", '{{ ds["y"] }}', *(f"a\n{line}\n" for line in lines), *lines[1:]]
    for mark in marks:
        text = dumped({"list": [mark], "content": mark})
        assert all(line in text for line in mark.splitlines())
