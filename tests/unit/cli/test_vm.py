"""``kubewright vm`` and ``managevm``: what files may have, who owns a VM, what is printed, how each ends."""

import base64
import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from kubewright.api.core import Secret
from kubewright.api.meta import ObjectMeta
from kubewright.cli import main
from kubewright.cli.switches import Unusable
from kubewright.cli.vm import requests
from kubewright.cli.vm.files import read_class, read_last_applied, read_secrets, read_volumes
from kubewright.cli.vm.managevm import main as managevm
from kubewright.driver.contract import ClassRequest, Instance, is_tagged
from kubewright.testing.scenes import class_request

CLASS: dict[str, Any] = {
    "apiVersion": "machine.sapcloud.io/v1alpha1",
    "kind": "MachineClass",
    "metadata": {"name": "small", "namespace": "garden"},
    "provider": "sim",
    "providerSpec": {"tags": {"kubernetes.io/cluster/c": "1"}},
    "secretRef": {"name": "cloud", "namespace": "garden"},
}
SECRET: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "cloud", "namespace": "garden"},
    "stringData": {
        "userData": "#!/bin/sh\n# <<MACHINE_NAME>> <<BOOTSTRAP_TOKEN>>\n",
        "password": "correct horse",
    },
}
Run = Callable[..., int]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Any], Path]:
    """Put a file into the current folder."""
    monkeypatch.chdir(tmp_path)

    def put(name: str, content: Any) -> Path:
        Path(name).write_text(content if isinstance(content, str) else json.dumps(content))
        return Path(name)

    put("class.yaml", CLASS)
    put("secret.yaml", SECRET)
    return put


def ends(command: Callable[[list[str]], None], *words: str) -> int:
    try:
        command(list(words))
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def vm(verb: str, *words: str) -> int:
    return ends(main, "vm", verb, *words, "--class", "class.yaml", "--secret", "secret.yaml")


# ------------------------------------------------------------------------------------------------ files

BAD_CLASSES: list[tuple[str, Any, str]] = [
    ("nothing", "", "it has no objects, where one is wanted"),
    ("two objects", "--- {a: 1}\n--- {a: 1}\n", "it has 2 objects, where one is wanted"),
    ("a list", "[1]", "it is no object of Kubernetes, but a list"),
    ("no YAML", "a: [1", "yaml: line 2: did not find expected ',' or ']'"),
    ("a key that comes twice", "kind: a\nkind: b\n", "yaml: line 2: key 'kind' already set in map"),
    ("another kind", SECRET, "apiVersion: v1 is not machine.sapcloud.io/v1alpha1"),
    ("no kind", {**CLASS, "kind": None}, "kind: it is missing; write MachineClass"),
    (
        "a kind of former versions",
        {**CLASS, "kind": "AWSMachineClass"},
        "kind: AWSMachineClass is a kind of former versions; write a MachineClass, with the name of the driver as "
        "its provider and the former spec as its providerSpec",
    ),
    ("a misspelt field", {**CLASS, "providerspec": {}}, "providerspec: MachineClass has no such field"),
    ("no name", {**CLASS, "metadata": {}}, "metadata.name: it is missing"),
    ("a field of another type", {**CLASS, "provider": 3}, "provider: Expected `str`, got `int`"),
    ("no providerSpec", {**CLASS, "providerSpec": {}}, "providerSpec: it is missing or empty"),
]


@pytest.mark.parametrize(
    ("content", "says"), [case[1:] for case in BAD_CLASSES], ids=[c[0] for c in BAD_CLASSES]
)
def test_a_file_that_is_no_class_is_refused_with_file_and_field_and_status_2(
    write: Callable[[str, Any], Path], capsys: pytest.CaptureFixture[str], content: Any, says: str
) -> None:
    write("class.yaml", content)
    assert vm("create", "m1") == 2
    assert capsys.readouterr().err == f"kubewright: class.yaml: {says}\n"


def test_a_class_and_its_secret_may_be_in_one_file(write: Callable[[str, Any], Path]) -> None:
    both = write("both.yaml", f"{json.dumps(SECRET)}\n---\n{json.dumps(CLASS)}\n")
    assert read_class(both, "default").metadata.name == "small"
    assert [each.metadata.name for each in read_secrets([both], "default")] == ["cloud"]
    assert read_last_applied(both) == CLASS["providerSpec"]
    twice = write("twice.yaml", f"{json.dumps(CLASS)}\n---\n{json.dumps(CLASS)}\n")
    with pytest.raises(Unusable, match="it has 2 objects, where one is wanted"):
        read_class(twice, "default")


BAD_SECRETS: list[tuple[str, Any, str]] = [
    (
        "a value that is no base64",
        {**SECRET, "data": {"a": "%"}},
        "data.a: it is no base64; texts as they are belong into stringData",
    ),
    ("a number", {**SECRET, "stringData": {"a": 1}}, "stringData.a: it is no text; put it into quotes"),
    (
        "texts that are no mapping",
        {**SECRET, "stringData": ["a"]},
        "stringData: it is no mapping from keys to texts",
    ),
    ("a misspelt field", {**SECRET, "datas": {}}, "datas: Secret has no such field"),
]


@pytest.mark.parametrize(
    ("content", "says"), [case[1:] for case in BAD_SECRETS], ids=[c[0] for c in BAD_SECRETS]
)
def test_a_file_that_is_no_secret_is_refused_without_a_value_of_it(
    write: Callable[[str, Any], Path], content: Any, says: str
) -> None:
    with pytest.raises(Unusable) as refused:
        read_secrets([write("secret.yaml", content)], "garden")
    assert str(refused.value) == f"secret.yaml: {says}"
    assert "correct horse" not in str(refused.value)


def test_a_file_that_cannot_be_read_or_is_too_large_is_refused(write: Callable[[str, Any], Path]) -> None:
    write("large.yaml", "#" * (3 * 1024 * 1024 + 1))
    for path, says in (
        ("/no/such", "No such file"),
        ("/", "Is a directory"),
        ("large.yaml", "larger than 3145728 bytes"),
    ):
        with pytest.raises(Unusable, match=says):
            read_class(Path(path), "default")


def test_texts_of_a_secret_win_over_its_data_which_may_be_folded(write: Callable[[str, Any], Path]) -> None:
    folded = "\n".join(
        [base64.b64encode(b"x" * 60).decode()[:40], base64.b64encode(b"x" * 60).decode()[40:], ""]
    )
    path = write("s.yaml", {**SECRET, "data": {"a": folded, "password": "AAAA"}})
    (found,) = read_secrets([path], "default")
    assert found.data["a"] == b"x" * 60
    assert found.data["password"] == b"correct horse"


def test_volumes_are_read_from_one_object_or_a_list_of_them(write: Callable[[str, Any], Path]) -> None:
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {"nfs": {}}}
    found = read_volumes([write("a", volume), write("b", {"kind": "List", "items": [volume, volume]})])
    assert [each.name for each in found] == ["pv"] * 3
    with pytest.raises(Unusable, match=r"b: items\[1\]: kind: Secret is not PersistentVolume"):
        read_volumes([write("b", {"kind": "List", "items": [volume, {**SECRET}]})])


# ------------------------------------------------------------------------------------------------ requests


def test_the_owner_of_a_vm_follows_from_its_name_and_is_no_machines() -> None:
    one = requests.owner_uid("garden", "m1")
    assert one == requests.owner_uid("garden", "m1")
    assert len({one, requests.owner_uid("garden", "m2"), requests.owner_uid("default", "m1")}) == 3
    assert is_tagged(one)
    assert not is_tagged(one, "KubewrightMachine")


def secret(name: str, **data: bytes) -> Secret:
    return Secret(metadata=ObjectMeta(name=name, namespace="garden"), data=data)


def of_class(write: Callable[[str, Any], Path], **fields: Any) -> Any:
    return read_class(write("c.yaml", {**CLASS, **fields}), "default")


def test_secrets_are_merged_as_a_controller_merges_them(write: Callable[[str, Any], Path]) -> None:
    found = of_class(write, credentialsSecretRef={"name": "account"})
    given = [secret("account", a=b"account", c=b"3"), secret("cloud", a=b"cloud", userData=b"x")]
    seen = requests.prepared(found, given)
    assert dict(seen.request.secret.data) == {"a": b"account", "c": b"3", "userData": b"x"}
    assert seen.notes == ()


def test_a_secret_that_a_class_names_has_to_be_given(write: Callable[[str, Any], Path]) -> None:
    with pytest.raises(Unusable, match=r"names Secret garden/cloud; give its file with --secret FILE"):
        requests.prepared(of_class(write), [])


def test_a_secret_of_another_name_counts_and_is_told(write: Callable[[str, Any], Path]) -> None:
    seen = requests.prepared(of_class(write), [secret("other", a=b"1")])
    assert dict(seen.request.secret.data) == {"a": b"1"}
    assert seen.notes == (
        "MachineClass small names garden/cloud, not garden/other; on a cluster it would not find this Secret",
        "its Secret has no userData; a controller makes no machine of such a class",
    )


def test_user_data_is_filled_in_but_for_the_token() -> None:
    of = class_request()
    asked = ClassRequest(of.machine_class, Secret(data={"userData": b"<<MACHINE_NAME>> <<BOOTSTRAP_TOKEN>>"}))
    assert requests.machine_request(asked, "m1").secret.data["userData"] == b"m1 <<BOOTSTRAP_TOKEN>>"


KINDS = [
    ("aws", "aws"),
    ("AWSMachineClass", "aws"),
    ("OpenStackMachineClass", "openstack"),
    ("openstack", "openstack"),
    ("AzureMachineClass", "azure"),
    ("azure", "azure"),
    ("GCPMachineClass", "gcp"),
    ("gcp", "gcp"),
    ("AlicloudMachineClass", "alicloud"),
    ("alicloud", "alicloud"),
    ("PacketMachineClass", "packet"),
    ("packet", "packet"),
    ("MachineClass", "sim"),
    ("mine", "mine"),
]


@pytest.mark.parametrize(("kind", "driver"), KINDS)
def test_a_kind_of_class_names_a_driver(write: Callable[[str, Any], Path], kind: str, driver: str) -> None:
    assert requests.driver_of_kind(kind, of_class(write), ["mine", "sim"]) == driver


@pytest.mark.parametrize("kind", ["Aws", "awsMachineClass", "", "MachineSet"])
def test_another_kind_of_class_is_refused(write: Callable[[str, Any], Path], kind: str) -> None:
    with pytest.raises(Unusable, match=f"--classkind '{kind}' is not known; there are: alicloud, aws"):
        requests.driver_of_kind(kind, of_class(write), ["sim"])


def test_a_class_without_a_provider_needs_a_driver_that_is_named(write: Callable[[str, Any], Path]) -> None:
    found = of_class(write, provider="")
    assert requests.driver_of_class("mine", found, ["sim"]) == "mine"
    with pytest.raises(Unusable, match="which cloud"):
        requests.driver_of_class("", found, ["sim"])


def test_no_secret_is_shown_as_it_is_or_in_base64() -> None:
    text = f"login as correct horse or {base64.b64encode(b'correct horse').decode()} in eu"
    assert requests.hidden(text, [b"correct horse", b"eu"]) == "login as *** or *** in eu"


def test_a_driver_that_does_not_tell_owners_does_not_protect_a_vm() -> None:
    made = Instance("c:///1", "m1")
    assert not requests.unprotected(made, [Instance("c:///1", "m1", "m1", "vm.1")], "vm.1")
    assert not requests.unprotected(made, [], "vm.1")
    assert "takes this one for an orphan" in requests.unprotected(
        made, [Instance("c:///1", "m1", "m1")], "vm.1"
    )


# ------------------------------------------------------------------------------------------------ commands


def test_a_vm_is_made_once_shown_and_deleted(
    write: Callable[[str, Any], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert vm("create", "m1") == vm("create", "m1") == 0
    made = "Machine id: sim:///sim-1/vm-000001\nName: m1\n"
    assert capsys.readouterr().out == made * 2
    assert vm("status", "m1", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["ownerUID"] == requests.owner_uid("garden", "m1")
    assert vm("list", "-o", "json") == 0
    assert [each["machineName"] for each in json.loads(capsys.readouterr().out)] == ["m1"]
    assert vm("initialize", "m1") == 0
    assert vm("delete", "m1", "--dry-run") == 0
    assert capsys.readouterr().out.endswith("would delete sim:///sim-1/vm-000001 (--dry-run)\n")
    assert vm("delete", "m1") == vm("delete", "m1") == 0
    assert capsys.readouterr().out == "deleted VM of machine m1\nthere is no VM of machine m1\n"
    assert vm("status", "m1") == 1
    assert capsys.readouterr().err.startswith("kubewright: sim: status of m1: NotFound: ")


def test_a_dry_run_makes_nothing_and_prints_no_secret(
    write: Callable[[str, Any], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert vm("create", "m1", "--dry-run", "-o", "json") == 0
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert (found["accepted"], found["secretKeys"]) == ("yes", ["password", "userData"])
    assert "correct horse" not in told.out + told.err
    assert not Path(".kubewright").exists()


def test_a_class_that_the_driver_refuses_is_told_with_its_field(
    write: Callable[[str, Any], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    write("class.yaml", {**CLASS, "providerSpec": {"bootSecond": 1}})
    for more in ([], ["--dry-run"]):
        assert vm("create", "m1", *more) == 1
        told = capsys.readouterr().err
        assert "InvalidArgument: providerSpec: Object contains unknown field `bootSecond`" in told
        assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        pytest.param(["create", "M_1"], 2, "machine 'M_1': its name is none", id="a name"),
        pytest.param(["create", "m1", "--driver", "cloud9"], 1, "there is no driver 'cloud9'", id="a driver"),
        pytest.param(
            ["create", "m1", "--driver-option", "a=1"], 1, "driver sim: ", id="an option of the driver"
        ),
        pytest.param(
            ["create", "m1", "--driver-option", "a"], 2, "NAME=VALUE", id="an option without a value"
        ),
        pytest.param(["create", "m1", "--timeout", "soon"], 2, "--timeout: 'soon' is not", id="a duration"),
        pytest.param(["create", "m1", "--timeout=-3s"], 2, "--timeout: '-3s' is negative", id="no duration"),
        pytest.param(["status", "m1", "-o", "yaml"], 2, "-o 'yaml' is not known", id="a form of output"),
        pytest.param(["create", "m1", "--log-level", "loud"], 2, "'loud' is no log level", id="a level"),
        pytest.param(["create", "m1", "--data-dir", ""], 2, "--data-dir is empty", id="a folder"),
        pytest.param(["delete", "m1", "--machine-id", ""], 2, "--machine-id is empty", id="no VM"),
        pytest.param(
            ["delete", "m1", "--machine-id", "--dry-run"],
            2,
            "--machine-id is --dry-run, which is a switch",
            id="a variable that is not set",
        ),
        pytest.param(["delete", ""], 2, "machine '': its name is none", id="an empty name to delete"),
        pytest.param(["delete", "", "--dry-run"], 2, "machine '': its name is none", id="to try to delete"),
        pytest.param(["status", "../m"], 2, "machine '../m': its name is none", id="a path to show"),
        pytest.param(["initialize", "M"], 2, "machine 'M': its name is none", id="a name to initialize"),
        pytest.param(["create"], 2, "Missing argument 'NAME'", id="no name"),
    ],
)
def test_a_mistake_is_one_sentence_and_a_status(
    write: Callable[[str, Any], Path],
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    status: int,
    says: str,
) -> None:
    assert vm(*words) == status
    told = capsys.readouterr().err
    assert says in told
    assert "Traceback" not in told


def test_ids_of_volumes_are_a_line_each(
    write: Callable[[str, Any], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    spec = {"csi": {"driver": "sim.kubewright.dev", "volumeHandle": "disk-7"}}
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": spec}
    write("pv.yaml", volume)
    write("nfs.yaml", {**volume, "spec": {"nfs": {}}})
    assert ends(main, "vm", "volumes", "pv.yaml", "nfs.yaml", "--driver", "sim") == 0
    assert capsys.readouterr().out == "disk-7\n"


OF_MCM = (
    "--secret",
    "secret.yaml",
    "--machineclass",
    "class.yaml",
    "--classkind",
    "sim",
    "--machinename",
    "test",
)


def test_managevm_makes_a_vm_and_deletes_it_by_its_id(
    write: Callable[[str, Any], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(managevm, *OF_MCM) == 0
    assert capsys.readouterr().out == "Machine id: sim:///sim-1/vm-000001\nName: test\n"
    assert ends(managevm, *OF_MCM, "--machineid", "sim:///sim-1/vm-000001") == 0
    assert capsys.readouterr().out == "deleted VM sim:///sim-1/vm-000001\n"
    assert vm("status", "test") == 1


def test_managevm_deletes_no_other_vm_than_that_of_the_id(
    write: Callable[[str, Any], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(managevm, *OF_MCM) == 0
    assert ends(managevm, *OF_MCM, "--machineid", "sim:///sim-1/vm-000007") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "there is no VM sim:///sim-1/vm-000007"
    assert vm("status", "test") == 0


@pytest.mark.parametrize("switch", ["--secret", "--machineclass", "--machinename"])
def test_managevm_names_a_mandatory_switch_that_is_missing(
    write: Callable[[str, Any], Path], capsys: pytest.CaptureFixture[str], switch: str
) -> None:
    at = OF_MCM.index(switch)
    assert ends(managevm, *OF_MCM[:at], *OF_MCM[at + 2 :]) == 2
    assert f"Missing option '{switch}'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["--classkind", "cloud9"], 2, "managevm: --classkind 'cloud9' is not known"),
        (["--classkind", "packet"], 1, "managevm: there is no driver 'packet'; installed drivers:"),
        (["--machineid", ""], 2, "managevm: --machineid is empty"),
        (["--machineid", "--dry-run"], 2, "managevm: --machineid is --dry-run, which is a switch"),
    ],
)
def test_managevm_makes_nothing_by_a_switch_that_it_does_not_understand(
    write: Callable[[str, Any], Path],
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    status: int,
    says: str,
) -> None:
    assert ends(managevm, *OF_MCM, *words) == status
    assert capsys.readouterr().err.startswith(says)
    assert not Path(".kubewright").exists()


def test_the_page_of_vm_has_every_switch_and_command(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "vm.md").read_text()
    verbs = ("create", "initialize", "update", "status", "list", "delete", "volumes")
    for verb in verbs:
        assert ends(main, "vm", verb, "--help") == 0
        assert f"| `vm {verb}" in page
    assert ends(managevm, "--help") == 0
    switches = set(re.findall(r"^  .*?(--[a-z-]+)", capsys.readouterr().out, re.MULTILINE)) - {"--help"}
    assert {each for each in switches if each not in page} == set()
    assert {"--class", "--machine-id", "--machineid", "--dry-run", "--output"} <= switches


def test_a_class_as_a_server_prints_it_is_taken(write: Callable[[str, Any], Path]) -> None:
    meta = {
        **CLASS["metadata"],
        "uid": "1",
        "resourceVersion": "7",
        "creationTimestamp": "2030-01-01T00:00:00Z",
    }
    status = {"conditions": [{"type": "Accepted", "status": "True"}]}
    assert of_class(write, metadata=meta, status=status).name == "small"


def test_a_file_that_is_no_text_is_refused(write: Callable[[str, Any], Path]) -> None:
    write("class.yaml", "").write_bytes(b"\xff\xfe\x00kind")
    with pytest.raises(Unusable, match=r"class.yaml: yaml: "):
        read_class(Path("class.yaml"), "default")


def test_a_value_that_a_driver_puts_into_an_error_is_not_printed(
    write: Callable[[str, Any], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    fault = {"operation": "create", "code": "Internal", "message": "login with correct horse failed"}
    write("class.yaml", {**CLASS, "providerSpec": {**CLASS["providerSpec"], "faults": [fault]}})
    assert vm("create", "m1") == 1
    assert capsys.readouterr().err == (
        "kubewright: sim: create of m1: Internal: login with *** failed; a VM of it may exist: look with "
        "`kubewright vm status m1 --class class.yaml --secret=secret.yaml --driver sim`\n"
    )


def test_a_driver_that_does_not_offer_a_verb_says_so(
    write: Callable[[str, Any], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {}}
    write("pv.yaml", volume)
    assert ends(main, "vm", "volumes", "pv.yaml", "--driver", "qemu") == 1
    assert capsys.readouterr().err.startswith("kubewright: qemu: volume_ids: Unimplemented: ")


def test_a_vm_is_updated_by_what_the_class_says_now_and_said_before(
    write: Callable[[str, Any], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    spec = CLASS["providerSpec"]
    before = {**CLASS, "providerSpec": {**spec, "tags": {"disk": {"old": "1"}, "vm": {}}}}
    write("before.yaml", before)
    write("class.yaml", before)
    assert vm("create", "m1") == 0
    now = {**spec, "tags": {"disk": {"new": "1"}, "vm": {}}, "zone": "sim-1b"}
    write("class.yaml", {**CLASS, "providerSpec": now})
    capsys.readouterr()
    assert vm("update", "m1", "--dry-run", "--last-applied", "before.yaml") == 0
    told = capsys.readouterr()
    assert told.out == "would update VM of machine m1: tags.disk.new, tags.disk.old (--dry-run)\n"
    assert told.err == "note: only another VM can have these: zone\n"
    assert vm("update", "m1") == 0
    assert capsys.readouterr().out == (
        "updated VM of machine m1: tags, sourceDestCheck; what it had last is not known, so nothing is removed\n"
    )
    write("before.json", before["providerSpec"])
    assert vm("update", "m1", "--last-applied", "before.json", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "machineName": "m1",
        "providerID": "",
        "hotFields": ["tags", "sourceDestCheck"],
        "changed": ["tags.disk.new", "tags.disk.old"],
        "fixed": ["zone"],
        "dryRun": False,
    }
    with closing(sqlite3.connect(".kubewright/vm/cloud.db")) as file:
        (made,) = file.execute("SELECT vm FROM vms").fetchone()
    assert json.loads(made)["changed"]["tags"]["disk"] == {"new": "1"}


def test_an_update_tells_the_driver_nothing_that_only_another_vm_can_have(
    write: Callable[[str, Any], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    spec = CLASS["providerSpec"]
    write("before.json", spec)
    assert vm("create", "m1") == 0
    write("class.yaml", {**CLASS, "providerSpec": {**spec, "sourceDestCheck": False, "bootSeconds": "soon"}})
    capsys.readouterr()
    assert vm("update", "m1", "--last-applied", "before.json") == 0
    assert capsys.readouterr().out == "updated VM of machine m1: sourceDestCheck\n"


def test_an_update_without_a_vm_or_of_a_file_that_is_none_says_so(
    write: Callable[[str, Any], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for more in ([], ["--dry-run"]):
        assert vm("update", "m1", *more) == 1
        assert re.match(r"kubewright: sim: update of m1: NotFound: [^\n]*\n\Z", capsys.readouterr().err)
    write("last.yaml", "[1]")
    assert vm("update", "m1", "--last-applied", "last.yaml") == 2
    assert "last.yaml: it is no object" in capsys.readouterr().err
    write("last.yaml", {**CLASS, "kind": "Machine"})
    assert vm("update", "m1", "--last-applied", "last.yaml") == 2
    assert "last.yaml: kind: Machine is not MachineClass" in capsys.readouterr().err


def test_a_vm_that_has_to_be_initialized_says_so_until_it_is(
    write: Callable[[str, Any], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    write("class.yaml", {**CLASS, "providerSpec": {**CLASS["providerSpec"], "needsInitialize": True}})
    assert vm("create", "m1") == 0
    told = capsys.readouterr().err
    assert told == "note: it has to be initialized: `kubewright vm initialize` with the same switches\n"
    assert vm("status", "m1") == 0
    assert capsys.readouterr().err.startswith("note: it is not initialized yet: ")
    assert vm("initialize", "m1") == vm("initialize", "m1") == vm("status", "m1") == 0
    shown = capsys.readouterr()
    assert not shown.err
    assert (
        shown.out == "Machine id: sim:///sim-1/vm-000001\nName: m1\nInternalIP: 10.0.0.1\nHostname: m1\n" * 3
    )


SPEC = {"type": "s", "zone": "a", "tags": {"team": "b"}}
NAMED = {
    "no hash yet": ("small", "small-"),
    "an older hash": ("small-0123456789abcdef", "small-"),
    "a number that is none": ("small-12", "small-12-"),
    "a long name": ("x" * 60, "x" * 46 + "-"),
    "a dot before the hash": ("x" * 45 + ".y", "x" * 45 + "-"),
}


@pytest.mark.parametrize(("name", "starts"), NAMED.values(), ids=NAMED.keys())
def test_a_class_is_named_by_what_only_another_vm_can_have(name: str, starts: str) -> None:
    found = class_request(name, **SPEC).machine_class
    other = class_request(name, **{**SPEC, "tags": {}}).machine_class
    bigger = class_request(name, **{**SPEC, "type": "l"}).machine_class
    shown = requests.hashed(found, ["tags"])
    assert shown == requests.hashed(other, ["tags"])
    assert shown["name"] == f"{starts}{shown['hash']}"
    assert len(shown["name"]) <= 63
    assert shown["hash"] != requests.hashed(bigger, ["tags"])["hash"]


def test_the_hash_of_a_class_is_printed_and_the_order_of_its_fields_is_no_difference(
    write: Callable[[str, Any], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    write("one.json", {**CLASS, "providerSpec": {"zone": "a", "region": "b"}})
    write("two.json", {**CLASS, "providerSpec": {"region": "b", "zone": "a"}})
    printed = []
    for name in ("one.json", "two.json"):
        assert ends(main, "class", "hash", "-f", name, "-o", "json") == 0
        printed.append(json.loads(capsys.readouterr().out))
    assert printed[0] == printed[1]
    assert printed[0]["name"] == f"small-{printed[0]['hash']}"
    assert ends(main, "class", "hash", "-f", "one.json") == 0
    hashed, named, _hot = capsys.readouterr().out.splitlines()
    assert hashed.split() == ["hash", printed[0]["hash"]]
    assert named.split() == ["name", printed[0]["name"]]


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        pytest.param(json.dumps(CLASS), 0, "", id="a class"),
        pytest.param("", 2, "-: it has no objects, where one is wanted", id="nothing"),
    ],
)
def test_a_class_may_come_from_stdin(
    given: str, status: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(given.encode())))
    assert ends(main, "class", "hash", "-f", "-", "-o", "json") == status
    assert said in capsys.readouterr().err


BAD_CLASSES: dict[str, tuple[Any, tuple[str, ...], str]] = {
    "no providerSpec": ({**CLASS, "providerSpec": {}}, (), "providerSpec: it is missing or empty"),
    "no driver of that name": (CLASS, ("--driver", "nope"), "there is no driver 'nope'"),
    "a driver in another process": (
        {**CLASS, "provider": "mycloud"},
        (),
        "there is no driver 'mycloud', the provider of MachineClass small; installed drivers: ",
    ),
    "what to do about it": (
        {**CLASS, "provider": "mycloud"},
        (),
        "A driver that serves a manager from a process of its own cannot be asked from here: install it "
        "beside kubewright, or name with --driver the installed driver that it is",
    ),
    "the manager's side by name": (CLASS, ("--driver", "grpc"), "the driver that serves the class"),
    "the manager's side in the class": (
        {**CLASS, "provider": "grpc"},
        (),
        "the driver that serves the class",
    ),
    "another kind": ({**CLASS, "kind": "Secret"}, (), "kind"),
}


@pytest.mark.parametrize("bad", BAD_CLASSES)
def test_a_class_that_cannot_be_hashed_is_told(
    bad: str, write: Callable[[str, Any], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    content, words, told = BAD_CLASSES[bad]
    write("bad.json", content)
    assert ends(main, "class", "hash", "-f", "bad.json", *words) in (1, 2)
    out, err = capsys.readouterr()
    assert out == ""
    assert told in err
    assert "Traceback" not in err
