"""A machine's data in both forms: what stands in it, in which order, and what survives any value. Judged by parsing."""

import json
from urllib.parse import unquote

import pytest
import yaml
from tests.unit.bootstrap.container_linux_texts import REFUSED, REMARKED, TAKEN

from kubewright.api.bootstrap.v1beta1 import (
    NTP,
    ContainerLinuxConfig,
    DiskSetup,
    File,
    Filesystem,
    IgnitionSpec,
    KubeadmConfigSpec,
    Partition,
    User,
)
from kubewright.base.errors import InvalidInput
from kubewright.bootstrap.cloudinit import cloud_config
from kubewright.bootstrap.containerlinux.transpile import converted
from kubewright.bootstrap.ignition import ignition, unit_name
from kubewright.bootstrap.userdata import Role, UserData, join_script

SENTINEL = "/run/cluster-api/bootstrap-success.complete"
DOCUMENT = "---\nkind: X\n"


def user_data(role: Role = Role.JOIN_WORKER, *, files=(), users=(), minor=31, **spec) -> UserData:
    return UserData(role, minor, DOCUMENT, KubeadmConfigSpec(**spec), files=files, users=users)


def cloud(role: Role = Role.JOIN_WORKER, **given) -> dict:
    return yaml.safe_load(cloud_config(user_data(role, **given)))


def test_the_header_is_exact() -> None:
    assert cloud_config(user_data()).startswith("## template: jinja\n#cloud-config\n\n")


@pytest.mark.parametrize(
    ("role", "path", "command"),
    [
        (Role.INIT, "/run/kubeadm/kubeadm.yaml", "kubeadm init --config /run/kubeadm/kubeadm.yaml"),
        (
            Role.JOIN_CONTROL_PLANE,
            "/run/kubeadm/kubeadm-join-config.yaml",
            "kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml",
        ),
        (
            Role.JOIN_WORKER,
            "/run/kubeadm/kubeadm-join-config.yaml",
            "kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml",
        ),
    ],
)
def test_each_role_runs_kubeadm_and_then_writes_the_sentinel(role: Role, path: str, command: str) -> None:
    found = cloud(role)
    assert found["runcmd"] == [f"{command} && echo success > {SENTINEL}"]
    document, placeholder = found["write_files"]
    assert document == {"path": path, "owner": "root:root", "permissions": "0640", "content": DOCUMENT}
    assert placeholder["path"] == "/run/cluster-api/placeholder"
    assert found.keys() == {"write_files", "runcmd"}


def test_commands_stand_around_kubeadms() -> None:
    before, after = ("echo 'a: b'", 'x "$(y)"'), ("done",)
    found = cloud(pre_kubeadm_commands=before, post_kubeadm_commands=after, verbosity=5)
    kubeadm = (
        f"kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml --v 5 && echo success > {SENTINEL}"
    )
    assert found["runcmd"] == [*before, kubeadm, *after]


def test_files_come_in_order_with_what_is_said_of_them() -> None:
    files = (
        File(path="/etc/kubernetes/pki/ca.crt", owner="root:root", permissions="0640", content="PEM\n"),
        File(path="/a", encoding="gzip+base64", append=True, content="eA=="),
    )
    found = cloud(files=files)["write_files"]
    assert [each["path"] for each in found[:3]] == [
        "/etc/kubernetes/pki/ca.crt",
        "/a",
        "/run/kubeadm/kubeadm-join-config.yaml",
    ]
    assert found[1] == {"path": "/a", "encoding": "gzip+base64", "append": True, "content": "eA=="}


def test_users_disks_mounts_and_time_have_their_sections() -> None:
    found = cloud(
        users=(
            User(name="all", passwd="$6$x", gecos="A: B", groups="a, b", home_dir="/h", inactive=True,
                 shell="/bin/sh", primary_group="g", lock_password=False, sudo="ALL=(ALL) NOPASSWD:ALL",
                 ssh_authorized_keys=("ssh-ed25519 AAAA a@b",)),
            User(name="least", inactive=False),
        ),
        ntp=NTP(servers=("a.pool", "b.pool"), enabled=True),
        disk_setup=DiskSetup(
            partitions=(Partition(device="/dev/sdb", layout=True, overwrite=False, table_type="gpt"),),
            filesystems=(Filesystem(device="/dev/sdb", filesystem="ext4", label="etcd", partition="1",
                                    overwrite=False, replace_fs="ntfs", extra_opts=("-F", "-E", "x=1,y=1")),),
        ),
        mounts=(("LABEL=etcd", "/var/lib/etcd", "ext4", "defaults,nofail"),),
    )  # fmt: skip
    assert found["users"] == [
        {
            "name": "all",
            "passwd": "$6$x",
            "gecos": "A: B",
            "groups": "a, b",
            "homedir": "/h",
            "inactive": True,
            "lock_passwd": False,
            "shell": "/bin/sh",
            "primary_group": "g",
            "sudo": "ALL=(ALL) NOPASSWD:ALL",
            "ssh_authorized_keys": ["ssh-ed25519 AAAA a@b"],
        },
        {"name": "least"},
    ]
    assert found["ntp"] == {"enabled": True, "servers": ["a.pool", "b.pool"]}
    assert found["disk_setup"] == {"/dev/sdb": {"table_type": "gpt", "layout": True, "overwrite": False}}
    assert found["fs_setup"] == [
        {
            "label": "etcd",
            "filesystem": "ext4",
            "device": "/dev/sdb",
            "partition": "1",
            "overwrite": False,
            "replace_fs": "ntfs",
            "extra_opts": ["-F", "-E", "x=1,y=1"],
        }
    ]
    assert found["mounts"] == [["LABEL=etcd", "/var/lib/etcd", "ext4", "defaults,nofail"]]


def test_time_that_is_switched_off_is_written_so() -> None:
    assert cloud(ntp=NTP(enabled=False))["ntp"] == {"enabled": False}


def test_no_value_breaks_the_form() -> None:
    nasty = "a: b # c\n'\"{}[]&*!|>%@`\n\ttab \n{{ x['y'] }}"
    found = cloud(
        files=(File(path="/a: b", content=nasty),),
        users=(User(name="u", gecos=nasty),),
        pre_kubeadm_commands=(nasty,),
        mounts=((nasty, "#"),),
    )
    assert found["write_files"][0] == {"path": "/a: b", "content": f"{nasty}\n"}
    assert found["users"][0]["gecos"] == nasty
    assert found["runcmd"][0] == nasty
    assert found["mounts"] == [[nasty, "#"]]


def test_a_retrying_join_runs_a_script_in_kubeadms_place() -> None:
    found = cloud(use_experimental_retry_join=True)
    script = found["write_files"][0]
    assert (script["path"], script["owner"], script["permissions"]) == (
        "/usr/local/bin/kubeadm-bootstrap-script",
        "root",
        "0755",
    )
    assert found["runcmd"] == [f"/usr/local/bin/kubeadm-bootstrap-script && echo success > {SENTINEL}"]


def test_the_first_machine_has_nothing_to_retry() -> None:
    assert cloud(Role.INIT, use_experimental_retry_join=True)["runcmd"][0].startswith("kubeadm init ")


PREFLIGHT = "preflight --ignore-preflight-errors=DirAvailable--etc-kubernetes-manifests"


@pytest.mark.parametrize(
    ("minor", "control_plane", "phases"),
    [
        pytest.param(30, False, [PREFLIGHT, "kubelet-start"], id="an old worker"),
        pytest.param(31, False, [PREFLIGHT, "kubelet-start", "kubelet-wait-bootstrap"], id="a worker"),
        pytest.param(
            30, True, [PREFLIGHT, "control-plane-prepare all", "kubelet-start", "control-plane-join all"],
            id="an old control plane",
        ),
        pytest.param(
            36,
            True,
            [PREFLIGHT, "control-plane-prepare all", "kubelet-start", "etcd-join", "kubelet-wait-bootstrap", "control-plane-join all"],
            id="a control plane",
        ),
    ],
)  # fmt: skip
def test_the_script_has_the_phases_of_its_kubeadm(minor: int, control_plane: bool, phases: list[str]) -> None:
    lines = join_script(minor, control_plane=control_plane).splitlines()
    calls = [line.split(" ", 2)[2] for line in lines if line.startswith("phase ")]
    assert calls == phases


def ign(role: Role = Role.JOIN_WORKER, **given) -> dict:
    return json.loads(ignition(user_data(role, format="ignition", **given)))


def text_of(config: dict, path: str) -> str:
    file = next(each for each in config["storage"]["files"] if each["path"] == path)
    return unquote(file["contents"]["source"].removeprefix("data:,"))


def test_ignition_runs_kubeadm_in_a_unit_once() -> None:
    found = ign(Role.INIT, pre_kubeadm_commands=("a", "b"), post_kubeadm_commands=("z",), verbosity=2)
    assert found["ignition"] == {"version": "2.3.0"}
    (unit,) = found["systemd"]["units"]
    assert (unit["name"], unit["enabled"]) == ("kubeadm.service", True)
    assert "ConditionPathExists=/etc/kubeadm.yml\n" in unit["contents"]
    assert "ExecStart=/etc/kubeadm.sh\n" in unit["contents"]
    assert text_of(found, "/etc/kubeadm.yml") == DOCUMENT
    assert text_of(found, "/etc/kubeadm.sh").splitlines() == [
        "#!/bin/bash",
        "set -e",
        "a",
        "b",
        "kubeadm init --config /etc/kubeadm.yml --v 2",
        f"mkdir -p /run/cluster-api && echo success > {SENTINEL}",
        "mv /etc/kubeadm.yml /tmp/",
        "z",
    ]
    modes = {each["path"]: each["mode"] for each in found["storage"]["files"]}
    assert modes == {"/etc/kubeadm.sh": 0o700, "/etc/kubeadm.yml": 0o600}


def test_ignition_has_files_with_owners_and_modes() -> None:
    found = ign(
        files=(
            File(path="/a", owner="u:g", permissions="0640", content="é\n% x"),
            File(path="/b", owner="u", encoding="base64", append=True, content="aGk=\n"),
        )
    )
    first, second = found["storage"]["files"][:2]
    assert first == {
        "filesystem": "root",
        "path": "/a",
        "mode": 0o640,
        "user": {"name": "u"},
        "group": {"name": "g"},
        "contents": {"source": "data:,%C3%A9%0A%25%20x%0A"},
    }
    assert second == {
        "filesystem": "root",
        "path": "/b",
        "mode": 0o644,
        "user": {"name": "u"},
        "append": True,
        "contents": {"source": "data:;base64,aGk="},
    }


@pytest.mark.parametrize(
    ("file", "told"),
    [
        (File(path="/a", permissions="rw"), "permissions 'rw' are no octal number"),
        (File(path="/a", encoding="base64", content="?"), "is not base64"),
    ],
)
def test_ignition_refuses_what_it_cannot_write(file: File, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        ign(files=(file,))


def test_ignition_has_users_with_their_rules() -> None:
    found = ign(
        users=(
            User(name="u", groups="a,b, c", passwd="$6$x", sudo="ALL=(ALL) ALL", lock_password=False,
                 ssh_authorized_keys=("k",), home_dir="/h", primary_group="g", gecos="G", shell="/bin/sh"),
            User(name="v", lock_password=False),
        )
    )  # fmt: skip
    assert found["passwd"]["users"] == [
        {
            "name": "u",
            "gecos": "G",
            "groups": ["a", "b", "c"],
            "homeDir": "/h",
            "shell": "/bin/sh",
            "passwordHash": "$6$x",
            "primaryGroup": "g",
            "sshAuthorizedKeys": ["k"],
        },
        {"name": "v"},
    ]
    assert text_of(found, "/etc/sudoers.d/u") == "u ALL=(ALL) ALL\n"
    assert "Match User u,v\n" in text_of(found, "/etc/ssh/sshd_config")


def test_ignition_has_disks_mounts_and_time() -> None:
    found = ign(
        disk_setup=DiskSetup(
            partitions=(Partition(device="/dev/sdb", layout=True, overwrite=True),),
            filesystems=(
                Filesystem(device="/dev/sdb1", filesystem="ext4", label="data", extra_opts=("-F",)),
            ),
        ),
        mounts=(("data", "/var/lib/my-data", "noatime", "ro"), ("/dev/sdc", "/srv")),
        ntp=NTP(enabled=True, servers=("a", "b")),
    )
    assert found["storage"]["disks"] == [{"device": "/dev/sdb", "wipeTable": True, "partitions": [{}]}]
    assert found["storage"]["filesystems"] == [
        {
            "name": "data",
            "mount": {
                "device": "/dev/sdb1",
                "format": "ext4",
                "label": "data",
                "wipeFilesystem": False,
                "options": ["-F"],
            },
        }
    ]
    units = {each["name"]: each.get("contents", "") for each in found["systemd"]["units"]}
    assert list(units) == ["kubeadm.service", "ntpd.service", "var-lib-my\\x2ddata.mount", "srv.mount"]
    mount = units["var-lib-my\\x2ddata.mount"]
    assert "What=/dev/sdb1\nWhere=/var/lib/my-data\nOptions=noatime,ro\n" in mount
    assert "What=/dev/sdc\nWhere=/srv\n\n" in units["srv.mount"]
    assert text_of(found, "/etc/ntp.conf").startswith("server a\nserver b\n")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/", "-.mount"),
        ("/var/lib/etcd", "var-lib-etcd.mount"),
        ("/var//lib/", "var-lib.mount"),
        ("/a b", "a\\x20b.mount"),
        ("/.x/.y", "\\x2ex-.y.mount"),
    ],
)
def test_a_mount_unit_has_the_name_that_systemd_wants(path: str, name: str) -> None:
    assert unit_name(path) == name


SUM = "0" * 128
ADDITION = f"""
passwd:
  users:
  - name: core
    ssh_authorized_keys: [k]
systemd:
  units:
  - name: kubeadm.service
    dropins:
    - name: 10.conf
      contents: "[Unit]"
storage:
  files:
  - path: /x
    mode: 0644
    contents:
      inline: hello world
  - path: /y
    filesystem: oem
    contents:
      remote:
        url: https://e/f
        verification:
          hash: {{function: sha512, sum: "{SUM}"}}
"""


def added(text: str, *, strict: bool = True) -> dict:
    addition = ContainerLinuxConfig(additional_config=text, strict=strict)
    return ign(ignition=IgnitionSpec(container_linux_config=addition), users=(User(name="u"),))


def test_an_addition_comes_on_top() -> None:
    found = added(ADDITION, strict=False)
    assert [each["name"] for each in found["passwd"]["users"]] == ["u", "core"]
    assert found["passwd"]["users"][1]["sshAuthorizedKeys"] == ["k"]
    assert found["systemd"]["units"][1] == {
        "name": "kubeadm.service",
        "dropins": [{"name": "10.conf", "contents": "[Unit]"}],
    }
    assert found["storage"]["files"][-2:] == [
        {"path": "/x", "mode": 0o644, "contents": {"source": "data:,hello%20world"}, "filesystem": "root"},
        {
            "path": "/y",
            "filesystem": "oem",
            "mode": 0o644,
            "contents": {"source": "https://e/f", "verification": {"hash": f"sha512-{SUM}"}},
        },
    ]


def test_an_empty_addition_adds_nothing() -> None:
    assert added("", strict=False) == added("# nothing", strict=False)


WRONG = {
    "a: [": "additionalConfig is not YAML: yaml: line 2: did not find expected node content",
    "[]": "additionalConfig: it must have names and values",
    "passwd: {users: [x]}": "additionalConfig: passwd.users[0] must have names and values",
    "storage: {files: [{path: /x, mode: rw}]}": "additionalConfig: storage.files[0].mode must be a number",
    "systemd: {units: [{name: a.service, mask: maybe}]}": "additionalConfig: systemd.units[0].mask must be true or false",
    "storage: {files: [{path: x, mode: 0644}]}": "additionalConfig: storage.files[0].path is no absolute path",
    "foo: 1\nbar: 2\n": "additionalConfig: foo is not known; bar is not known",
    "storage: {files: [{path: /x}]}": "additionalConfig: storage.files[0].mode is not given, and will be 0644",
    "a: 1\nb: 1\nc: 1\nd: 1\ne: 1\nf: 1\ng: 1\n": (
        "additionalConfig: a is not known; b is not known; c is not known; d is not known; e is not known; and 2 more"
    ),
}


@pytest.mark.parametrize(("text", "told"), WRONG.items(), ids=WRONG.values())
def test_a_wrong_addition_is_refused_by_where_it_is_wrong(text: str, told: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        added(text)
    assert str(refused.value) == told


def test_what_is_unknown_is_left_out_unless_it_is_strict() -> None:
    assert added("foo: {}\npasswd: {}", strict=False) == added("passwd: {}")


@pytest.mark.parametrize("text", TAKEN.values(), ids=TAKEN)
def test_a_valid_addition_is_taken_also_when_it_is_to_be_strict(text: str) -> None:
    assert converted(text, strict=True) == converted(text, strict=False)


@pytest.mark.parametrize("text", REMARKED.values(), ids=REMARKED)
def test_what_the_transpiler_remarks_on_is_refused_when_it_is_to_be_strict(text: str) -> None:
    converted(text, strict=False)
    with pytest.raises(InvalidInput, match="additionalConfig: "):
        converted(text, strict=True)


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_the_transpiler_refuses_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="additionalConfig"):
        converted(text, strict=False)


MADE = {
    "a disk": {
        "storage": {
            "disks": [
                {
                    "device": "/dev/sda",
                    "wipeTable": True,
                    "partitions": [
                        {
                            "label": "ROOT",
                            "number": 1,
                            "sizeMiB": 10240,
                            "startMiB": 1,
                            "typeGuid": "be9067b9-ea49-4f15-b4f6-f36f8c9e1818",
                            "guid": "00000000-1111-2222-3333-444444444444",
                        },
                        {"label": "", "sizeMiB": 0},
                        {"sizeMiB": 1536},
                        {"sizeMiB": 1024},
                        {},
                    ],
                }
            ]
        }
    },
    "a remote file": {
        "storage": {
            "files": [
                {
                    "filesystem": "root",
                    "path": "/a",
                    "mode": 0o644,
                    "contents": {
                        "source": "https://example.com/a?b=c",
                        "compression": "gzip",
                        "verification": {"hash": f"sha512-{SUM}"},
                    },
                }
            ]
        }
    },
    "networks": {
        "networkd": {
            "units": [
                {
                    "name": "00-eth0.network",
                    "contents": "[Match]\nName=eth0\n",
                    "dropins": [{"name": "a.conf", "contents": "[Network]\nDHCP=yes"}],
                }
            ]
        }
    },
    "docker": {
        "systemd": {
            "units": [
                {
                    "name": "docker.service",
                    "enable": True,
                    "dropins": [
                        {
                            "name": "20-clct-docker.conf",
                            "contents": '[Service]\nEnvironment="DOCKER_OPTS=--a=b -c"',
                        }
                    ],
                }
            ]
        }
    },
    "etcd of a version": {
        "systemd": {
            "units": [
                {
                    "name": "etcd-member.service",
                    "enable": True,
                    "dropins": [
                        {
                            "name": "20-clct-etcd-member.conf",
                            "contents": '[Service]\nEnvironment="ETCD_IMAGE_TAG=v3.3.1"\nExecStart=\n'
                            "ExecStart=/usr/lib/coreos/etcd-wrapper $ETCD_OPTS \\\n"
                            '  --name="a\\tb\\"é\\x01" \\\n  --auto-compaction-retention="1" \\\n  --debug=true',
                        }
                    ],
                }
            ]
        }
    },
}


@pytest.mark.parametrize(("name", "made"), MADE.items(), ids=MADE)
def test_an_addition_becomes_what_the_transpiler_makes_of_it(name: str, made: dict) -> None:
    assert converted(TAKEN[name], strict=True) == made


def test_updates_and_reboots_become_one_file() -> None:
    (file,) = converted(TAKEN["reboots"], strict=True)["storage"]["files"]
    assert file["path"] == "/etc/coreos/update.conf"
    assert unquote(file["contents"]["source"]).splitlines() == [
        "data:,GROUP=stable",
        'REBOOT_STRATEGY="etcd-lock"',
        'LOCKSMITHD_REBOOT_WINDOW_START="Sun 1:00"',
        'LOCKSMITHD_REBOOT_WINDOW_LENGTH="1h30m"',
        'LOCKSMITHD_GROUP="g"',
        'LOCKSMITHD_ENDPOINT="http://a"',
        'LOCKSMITHD_ETCD_CAFILE="/c"',
        'LOCKSMITHD_ETCD_CERTFILE="/d"',
        'LOCKSMITHD_ETCD_KEYFILE="/e"',
    ]


def test_data_is_not_shown() -> None:
    files = (File(path="/a", content="s3cr3t"),)
    assert "s3cr3t" not in repr(UserData(Role.INIT, 31, "s3cr3t", KubeadmConfigSpec(), files=files))
