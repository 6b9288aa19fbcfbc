"""What a simulated VM reads in its user data, and what kubeadm is asked for there."""

import base64
import gzip
import json
from urllib.parse import quote

import pytest

from kubewright.api.bootstrap.v1beta1 import File, KubeadmConfigSpec
from kubewright.bootstrap.cloudinit import cloud_config as cloud_config_of
from kubewright.bootstrap.userdata import Role, UserData
from kubewright.providers.sim.kubeadm import (
    CONTROL_PLANE,
    LARGEST,
    Init,
    Join,
    NodeSetup,
    Unbootable,
    Write,
    actions,
    read,
)
from kubewright.providers.sim.spec import TaintSpec

SENTINEL = "/run/cluster-api/bootstrap-success.complete"
HOST = {"ds.meta_data.local_hostname": "vm-1"}
INIT = f"""## template: jinja
#cloud-config

write_files:
-   path: /etc/kubernetes/pki/ca.crt
    owner: root:root
    permissions: '0640'
    content: |
      THE CA
-   path: /etc/kubernetes/pki/ca.key
    content: THE KEY
-   path: /run/kubeadm/kubeadm.yaml
    owner: root:root
    permissions: '0640'
    content: |
      ---
      apiVersion: kubeadm.k8s.io/v1beta3
      kind: ClusterConfiguration
      clusterName: demo
      controlPlaneEndpoint: 10.0.0.1:6443
      apiServer:
        certSANs: [localhost]
      ---
      apiVersion: kubeadm.k8s.io/v1beta3
      kind: InitConfiguration
      bootstrapTokens:
      - token: abcdef.0123456789abcdef
      nodeRegistration:
        name: '{{{{ ds.meta_data.local_hostname }}}}'
        kubeletExtraArgs:
          node-labels: a=b,c=
runcmd:
  - "echo hello"
  - 'kubeadm init --config /run/kubeadm/kubeadm.yaml --v 5 && echo success > {SENTINEL}'
"""
JOIN = """apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery:
  bootstrapToken:
    apiServerEndpoint: 10.0.0.1:6443
    token: abcdef.0123456789abcdef
    caCertHashes: [sha256:00]
nodeRegistration:
  kubeletExtraArgs:
  - name: node-labels
    value: pool=a
  taints:
  - {key: node.cluster.x-k8s.io/uninitialized, effect: NoSchedule}
"""
LINE = f"kubeadm join --config /run/kubeadm/join.yaml && echo success > {SENTINEL}"


def cloud_config(*commands, **files):
    body = {
        "write_files": [{"path": path, "content": text} for path, text in files.items()],
        "runcmd": list(commands),
    }
    return f"#cloud-config\n{json.dumps(body)}".encode()


def asked(data, data_format="cloud-config"):
    return list(actions(read(data, data_format, HOST)))


def joined(**changes):
    text = JOIN
    for old, new in changes.values():
        assert old in text
        text = text.replace(old, new)
    return asked(cloud_config(LINE, **{"/run/kubeadm/join.yaml": text}))[0]


def test_init_of_a_bootstrap_provider() -> None:
    init, sentinel = asked(INIT.encode())

    assert isinstance(init, Init)
    assert init == Init(
        "10.0.0.1:6443",
        NodeSetup(
            "vm-1",
            {CONTROL_PLANE: "", "a": "b", "c": ""},
            (TaintSpec(key=CONTROL_PLANE, effect="NoSchedule"),),
        ),
        names=("localhost",),
        authority="THE CA\n",
        authority_key="THE KEY",
        tokens=("abcdef.0123456789abcdef",),
    )
    assert sentinel == Write(SENTINEL, "success")


def test_join_of_a_worker() -> None:
    join, sentinel = asked(cloud_config(LINE, **{"/run/kubeadm/join.yaml": JOIN}))

    assert join == Join(
        "10.0.0.1:6443",
        NodeSetup(
            "", {"pool": "a"}, (TaintSpec(key="node.cluster.x-k8s.io/uninitialized", effect="NoSchedule"),)
        ),
        token="abcdef.0123456789abcdef",
        hashes=("sha256:00",),
    )
    assert sentinel == Write(SENTINEL, "success")


def test_join_of_a_control_plane_has_its_label_and_taint() -> None:
    join = joined(
        plane=("discovery:", "controlPlane: {}\ndiscovery:"),
        taints=("  taints:\n  - {key: node.cluster.x-k8s.io/uninitialized, effect: NoSchedule}\n", ""),
    )

    assert join.control_plane
    assert join.node.labels == {CONTROL_PLANE: "", "pool": "a"}
    assert join.node.taints == (TaintSpec(key=CONTROL_PLANE, effect="NoSchedule"),)


def test_an_empty_list_of_taints_means_none() -> None:
    join = joined(
        plane=("discovery:", "controlPlane: {}\ndiscovery:"),
        taints=(
            "taints:\n  - {key: node.cluster.x-k8s.io/uninitialized, effect: NoSchedule}\n",
            "taints: []\n",
        ),
    )

    assert join.node.taints == ()


def test_an_address_without_a_port_has_the_usual_one() -> None:
    assert joined(a=("apiServerEndpoint: 10.0.0.1:6443", "apiServerEndpoint: api.example.com")).address == (
        "api.example.com:6443"
    )


def test_a_script_that_joins_in_phases_joins_once() -> None:
    script = "#!/bin/bash\nset -e\nkubeadm join phase preflight --config /j\nkubeadm join phase kubelet-start --config /j\n"
    line = f"/usr/local/bin/retry && echo success > {SENTINEL}"
    found = asked(cloud_config(line, **{"/usr/local/bin/retry": script, "/j": JOIN}))

    assert [type(each) for each in found] == [Join, Write]


def test_ignition_runs_the_script_of_its_unit() -> None:
    script = f"#!/bin/bash\nkubeadm join --config /etc/kubeadm.yml\nmkdir -p /run/cluster-api && echo success > {SENTINEL}\n"
    files = {"/etc/kubeadm.yml": JOIN, "/etc/kubeadm.sh": script}
    config = {
        "ignition": {"version": "2.3.0"},
        "storage": {
            "files": [{"path": p, "contents": {"source": f"data:,{quote(t)}"}} for p, t in files.items()]
        },
        "systemd": {
            "units": [
                {
                    "name": "kubeadm.service",
                    "enabled": True,
                    "contents": "[Service]\nExecStart=/etc/kubeadm.sh\n",
                }
            ]
        },
    }
    found = asked(json.dumps(config).encode(), "ignition")

    assert [type(each) for each in found] == [Join, Write]


@pytest.mark.parametrize(
    ("entry", "content"),
    [
        pytest.param({"content": "a"}, "a", id="plain"),
        pytest.param({"content": None}, "", id="empty"),
        pytest.param({"content": base64.b64encode(b"a").decode(), "encoding": "b64"}, "a", id="base64"),
        pytest.param(
            {"content": base64.b64encode(gzip.compress(b"a")).decode(), "encoding": "gzip+base64"},
            "a",
            id="gzip",
        ),
    ],
)
def test_files_are_decoded(entry, content) -> None:
    data = f"#cloud-config\n{json.dumps({'write_files': [{'path': '/a', **entry}]})}".encode()

    assert read(data, "cloud-config", {}).files == {"/a": content}


def test_what_is_packed_into_all_files_is_bounded() -> None:
    packed = base64.b64encode(gzip.compress(bytes(LARGEST // 2))).decode()
    entry = {"content": packed, "encoding": "gz+b64"}
    entries = [{"path": f"/{name}", **entry} for name in "abc"]
    data = f"#cloud-config\n{json.dumps({'write_files': entries})}".encode()

    with pytest.raises(Unbootable, match="the files have more than 16777216 bytes"):
        read(data, "cloud-config", {})


def test_a_value_that_aliases_make_of_little_text_is_bounded() -> None:
    bomb = "".join(f"k{n}: &k{n} [{', '.join([f'*k{n - 1}' if n else 'x'] * 9)}]\n" for n in range(6))

    with pytest.raises(Unbootable, match="the cloud-config is no YAML"):
        read(f"#cloud-config\n{bomb}runcmd: [*k5]\n".encode(), "cloud-config", {})


@pytest.mark.parametrize("line", ["echo a" + " " * 1_000_000 + "b", "echo a" + " > y" * 500_000 + " y"])
def test_a_long_command_is_looked_at_in_time_that_grows_with_its_length(line: str) -> None:
    with pytest.raises(Unbootable, match="have more than 20000 lines, or 262144 characters"):
        asked(cloud_config(line))


def test_what_a_command_writes_is_found_however_it_is_spaced() -> None:
    lines = ("echo  'a'  >  /x", "echo a>>/x", "echo a > b >>/x")
    assert asked(cloud_config(*lines)) == [
        Write("/x", "a", append=False),
        Write("/x", "a", append=True),
        Write("/x", "a > b", append=True),
    ]


def test_a_file_is_appended_to() -> None:
    entries = [{"path": "/a", "content": "x"}, {"path": "/a", "content": "y", "append": True}]
    data = f"#cloud-config\n{json.dumps({'write_files': entries})}".encode()

    assert read(data, "cloud-config", {}).files == {"/a": "xy"}


def test_commands_that_make_no_node_do_nothing() -> None:
    assert (
        asked(cloud_config("apt-get install -y kubeadm", ["systemctl", "start", "x"], "echo 'a", "true"))
        == []
    )


@pytest.mark.parametrize(
    ("data", "data_format", "problem"),
    [
        (
            b"#!/bin/bash",
            "cloud-config",
            "the user data is no cloud-config: it does not begin with #cloud-config",
        ),
        (b"#cloud-config\na: [", "cloud-config", "the cloud-config is no YAML in line 3"),
        (b"#cloud-config\na: " + b"[" * 241 + b"]" * 241, "cloud-config", "the cloud-config is no YAML"),
        (b"#cloud-config\na: 1" + b":00" * 2000, "cloud-config", "the cloud-config is no YAML in line 2"),
        (b"#cloud-config\na: 2024-13-45", "cloud-config", "the cloud-config is no YAML"),
        (b"#cloud-config\nwrite_files: 3", "cloud-config", "write_files is no list"),
        (b"#cloud-config\nwrite_files: [{}]", "cloud-config", "an entry of write_files has no path"),
        (
            b"#cloud-config\nwrite_files: [{path: /a, content: abcde, encoding: b64}]",
            "cloud-config",
            "/a is not what its encoding 'b64' says",
        ),
        (b"[]", "ignition", "the user data is no Ignition config: it has no member ignition"),
        (b"{", "ignition", "the Ignition config is no JSON"),
        (b'{"ignition": ' + b"[" * 1200 + b"]" * 1200 + b"}", "ignition", "the Ignition config is no JSON"),
        (b'{"ignition": {}, "storage": {"files": [3]}}', "ignition", "an entry of files is no map"),
        (
            b'{"ignition": {}, "storage": {"files": [{"contents": {"source": "data:;base64,abcde"}}]}}',
            "ignition",
            "a file of the Ignition config is not what its encoding base64 says",
        ),
        (
            cloud_config(*["/a;" * 200] * 10, **{"/a": "true\n" * 10}),
            "cloud-config",
            "its commands and their scripts have more than 20000 lines, or 262144 characters",
        ),
        (b"", "talos", "no image of the simulated cloud reads user data of format 'talos'"),
        (cloud_config("kubeadm init --config /a"), "cloud-config", "kubeadm init has no file /a"),
        (cloud_config("kubeadm join"), "cloud-config", "kubeadm join has no file --config"),
        (cloud_config("kubeadm join --config /a", **{"/a": "a: ["}), "cloud-config", "/a is no YAML"),
        (
            cloud_config("kubeadm join --config /a", **{"/a": "kind: JoinConfiguration"}),
            "cloud-config",
            "kubeadm join is given no bootstrapToken.apiServerEndpoint",
        ),
        (
            cloud_config("kubeadm init --config /a", **{"/a": "kind: InitConfiguration"}),
            "cloud-config",
            "kubeadm init is not told where the API server is reached",
        ),
    ],
    ids=lambda part: part if isinstance(part, str) and " " in part else "",
)
def test_what_cannot_be_read_is_said(data, data_format, problem) -> None:
    with pytest.raises(Unbootable) as told:
        asked(data, data_format)

    assert str(told.value) == problem


def test_no_key_or_token_is_shown() -> None:
    shown = repr(asked(INIT.encode())) + repr(joined()) + repr(read(INIT.encode(), "cloud-config", HOST))

    assert "THE KEY" not in shown
    assert "0123456789abcdef" not in shown


def test_jinja_is_filled_in_as_far_as_a_simulated_vm_can() -> None:
    texts = {
        "/a": "{% if true %}\nname={{ ds.meta_data.local_hostname }}\n{% endif %}\n",
        "/b": "docker ps --format '{{.Names}}' # ${#list[@]}\n",
        "/c": "{# a comment #}\n\tx\r\n",
    }
    spec = KubeadmConfigSpec(files=tuple(File(path=path, content=text) for path, text in texts.items()))
    data = cloud_config_of(UserData(Role.INIT, 36, "", spec, files=spec.files)).encode()
    files = read(data, "cloud-config", HOST).files
    assert [files[path] for path in texts] == ["name=vm-1\n", texts["/b"], "\tx\r\n"]
