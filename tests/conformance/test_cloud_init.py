"""cloud-init itself on the user data that we write: Jinja, YAML, its schema, and the files that come of them.

Guessed before the first run, and wrong: that a literal block is safe for any Jinja. cloud-init drops the line break
after a statement, so a block that ends with ``{% endif %}`` swallowed what came after it, one that begins with
``{% set %}`` ended at its second line, and ``{%-`` at its beginning took the line break of the block's own head.
"""

from pathlib import Path

import pytest

from kubewright.api.bootstrap.v1beta1 import (
    NTP,
    DiskSetup,
    File,
    Filesystem,
    InitConfiguration,
    KubeadmConfigSpec,
    NodeRegistration,
    Partition,
    User,
)
from kubewright.api.bootstrap.v1beta1 import ClusterConfiguration as Cluster
from kubewright.bootstrap.cloudinit import cloud_config
from kubewright.bootstrap.documents import Api, init_documents
from kubewright.bootstrap.userdata import Role, UserData
from kubewright.testing.real_kubernetes import cloud_init
from kubewright.wire import goyaml

pytestmark = pytest.mark.kube

HOST = "{{ ds.meta_data.local_hostname }}"
QUOTED = "{{ \"x\" ~ 'y' }}"
INSTANCE = {"ds": {"meta_data": {"local_hostname": "node-1", "number": "08"}}}
"""What cloud-init knows of the machine."""

RENDERED = {
    "in a line": (f"a {QUOTED} 'b' \"c\" \\d", "a xy 'b' \"c\" \\d"),
    "a leading line break": (f"\n{QUOTED}\n", "\nxy\n"),
    "leading line breaks": (f"\n\n{QUOTED}", "\n\nxy"),
    "leading spaces": (f"  {QUOTED}\nb\n", "  xy\nb\n"),
    "a leading tab": (f"\t{QUOTED}\nb\n", "\txy\nb\n"),
    "tabs": (f"a\t{QUOTED}\t\nb\t", "a\txy\t\nb\t"),
    "CRLF": (f'a\r\n{QUOTED}\r\n"b"\\\r\n', 'a\r\nxy\r\n"b"\\\r\n'),
    "no-break spaces": (f"\xa0a\xa0{QUOTED}\n", "\xa0a\xa0xy\n"),
    "trailing spaces": (f"{QUOTED}  \n  \nb  ", "xy  \n  \nb  "),
    "trailing line breaks": (f"{QUOTED}\n\n\n", "xy\n\n\n"),
    "other ends of lines": (f"a\x85{QUOTED}\u2028b\n", "a\x85xy\u2028b\n"),
    "control characters": (f"\x1b[1m{QUOTED}\x1b[0m\n", "\x1b[1mxy\x1b[0m\n"),
    "emoji and a byte order mark": (f"\ufeff\U0001f600{QUOTED}\n", "\ufeff\U0001f600xy\n"),
    "documents": (f"---\na: {QUOTED}\n---\nb: 1\n", "---\na: xy\n---\nb: 1\n"),
    "a statement first": ("{% if true %}\nfoo\n{% endif %}\nbar\n", "foo\nbar\n"),
    "a statement last": ("a\n{% if true %}\nfoo\n{% endif %}\n", "a\nfoo\n"),
    "a statement in a line": ("echo {% if true %}a{% endif %}", "echo a"),
    "a variable set": ('{% set x = "1" %}\nfoo={{ x }}\n  bar\n', "foo=1\n  bar\n"),
    "a loop": ('{% for i in [1, 2] %}\n- "{{ i }}"\n{% endfor %}\nend\n', '- "1"\n- "2"\nend\n'),
    "a comment": ('{# c "d" #}\nfoo\n  bar\n', "foo\n  bar\n"),
    "white space dropped": ('x\n  {{- "y" -}}\n z\n', "xyz\n"),
    "white space dropped at both ends": ("{%- if true -%}\n  foo\n{%- endif -%}\n", "foo"),
    "white space kept": ("{% if true +%}\nfoo\n{% endif %}\nbar\n", "\nfoo\nbar\n"),
    "raw": ('{% raw %}\n{{ "x" }}\n {%\n{% endraw %}\nfoo\n', '\n{{ "x" }}\n {%\nfoo\n'),
    "statements and CRLF": ('a\r\n{% if true %}\r\n"b"\r\n{% endif %}\r\nc\r\n', 'a\r\n"b"\r\nc\r\n'),
    "braces in strings": ("{{ \"}}\" }} {{ '%}' }}\n", "}} %}\n"),
}
AS_IT_IS = {
    "a template of Go": "docker ps --format '{{.Names}}' \"{{ .ID }}\"",
    "the length of a list in a shell": 'n=${#list[@]}\necho "$n" ${#n}\n',
    "a tag without an end": "a {{ x\nb\n",
    "a statement that Jinja lacks": "{% unknown %}\n",
    "beside what would be Jinja": f"{{{{.Names}}}} {HOST}\n",
    "with CRLF": '{{.Names}}\r\n"a"\r\n',
}
CASES = {**RENDERED, **{name: (text, text) for name, text in AS_IT_IS.items()}}


def data(spec: KubeadmConfigSpec, document: str = "", **changes: object) -> str:
    return cloud_config(
        UserData(Role.INIT, 36, document, spec, files=spec.files, users=spec.users, **changes)
    )


def booted(tmp_path: Path, *texts: str) -> list[cloud_init.Machine]:
    return cloud_init.booted(cloud_init.find(), tmp_path, texts, INSTANCE)


def test_files_and_commands_come_out_as_jinja_makes_them(tmp_path: Path) -> None:
    specs = [
        KubeadmConfigSpec(
            files=(File(path="/a", content=text), File(path="/b", content="b\n")),
            pre_kubeadm_commands=(text, "after", "08"),
        )
        for text, _ in CASES.values()
    ]
    machines = booted(tmp_path, *map(data, specs))
    for (name, (_, wanted)), machine in zip(CASES.items(), machines, strict=True):
        assert machine.problem == "", name
        assert machine.files["/a"].removesuffix("\n") == wanted.removesuffix("\n"), name
        assert machine.files["/b"] == "b\n", name
        assert [each.removesuffix("\n") for each in machine.sections["runcmd"][:3]] == [
            wanted.removesuffix("\n"),
            "after",
            "08",
        ], name


def test_users_disks_and_clocks_are_what_was_given(tmp_path: Path) -> None:
    users = [
        User(
            name=name,
            passwd="$6$salt$a #b/c.",
            gecos="A: 'b' # c",
            shell="/bin/sh",
            groups="08",
            sudo=f"{name} x",
        )
        for name in ("yes", "1e3", "08", "null", "~", "0x1f", "12:30", "2001-01-01")
    ]
    spec = KubeadmConfigSpec(
        users=tuple(users),
        ntp=NTP(enabled=True, servers=("10.0.0.1", "ntp.example.com")),
        disk_setup=DiskSetup(
            partitions=(Partition(device="/dev/sdb", layout=True, overwrite=False, table_type="gpt"),),
            filesystems=(Filesystem(device="/dev/sdb", filesystem="ext4", label="1e3", extra_opts=("-F",)),),
        ),
        mounts=(("1e3", "/srv", "noatime", "0", "2"),),
    )
    (machine,) = booted(tmp_path, data(spec))
    assert machine.problem == ""
    found = machine.sections
    assert [(each["name"], each["passwd"], each["gecos"]) for each in found["users"]] == [
        (each.name, each.passwd, each.gecos) for each in users
    ]
    assert found["mounts"] == [["1e3", "/srv", "noatime", "0", "2"]]
    assert found["fs_setup"][0]["label"] == "1e3"


def test_a_node_is_named_and_labelled_by_what_cloud_init_knows(tmp_path: Path) -> None:
    arguments = {
        "provider-id": f"x:///{HOST}",
        "v": "{{ ds.meta_data.number }}",
        "{{ 'a' }}": "08",
        "b": "{{.x}}",
    }
    registration = NodeRegistration(name=HOST, kubelet_extra_args=arguments)
    for api in Api:
        document = init_documents(
            api, Cluster(kubernetes_version="v1.36.0"), InitConfiguration(node_registration=registration)
        )
        (machine,) = booted(tmp_path, data(KubeadmConfigSpec(), document))
        assert machine.problem == ""
        _, init = goyaml.load_all(machine.files["/run/kubeadm/kubeadm.yaml"])
        found = init["nodeRegistration"]
        flags = found["kubeletExtraArgs"]
        if api is Api.V1BETA4:
            flags = {each["name"]: each["value"] for each in flags}
        assert found["name"] == "node-1"
        assert flags == {"provider-id": "x:///node-1", "v": "08", "a": "08", "b": "{{.x}}"}


def test_the_node_image_has_settings_that_cloud_init_takes(tmp_path, monkeypatch):
    """It judges them with the data of each machine: what is wrong in them it tells of the user's."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "tools" / "node_image"))
    from build import FILES

    settings, _ = FILES["etc/cloud/cloud.cfg.d/99_kubewright.cfg"]
    (machine,) = cloud_init.booted(
        cloud_init.find(), tmp_path, [f"## template: jinja\n#cloud-config\n{settings}"], INSTANCE
    )
    assert machine.problem == ""
