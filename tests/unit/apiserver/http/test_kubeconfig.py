"""The kubeconfig: its content, and which files it may replace."""

import base64
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubewright.apiserver.http import kubeconfig
from kubewright.base.errors import InvalidInput
from kubewright.pki.certificates import Identity

OURS = kubeconfig.render("https://127.0.0.1:6443", b"AUTHORITY", Identity(b"CERTIFICATE", b"KEY"))
THEIRS = b"""\
apiVersion: v1
kind: Config
contexts: [{name: prod, context: {cluster: prod, user: ann}}]
clusters: [{name: prod, cluster: {server: "https://prod"}}]
users: [{name: ann, user: {token: precious}}]
"""


def test_it_names_one_of_each_and_carries_everything_inside() -> None:
    config = yaml.safe_load(OURS)
    assert (config["kind"], config["apiVersion"], config["current-context"]) == ("Config", "v1", "kubewright")
    (context,), (cluster,), (user,) = config["contexts"], config["clusters"], config["users"]
    assert context == {"name": "kubewright", "context": {"cluster": "kubewright", "user": "kubewright"}}
    assert (cluster["name"], cluster["cluster"]["server"]) == ("kubewright", "https://127.0.0.1:6443")
    assert base64.b64decode(cluster["cluster"]["certificate-authority-data"]) == b"AUTHORITY"
    assert base64.b64decode(user["user"]["client-certificate-data"]) == b"CERTIFICATE"
    assert base64.b64decode(user["user"]["client-key-data"]) == b"KEY"


def written(path: Path, content: bytes = OURS) -> dict[str, Any]:
    """What the file has after ``up`` put its entries into it, by list and name."""
    kubeconfig.write(path, content, path.parent)
    found = yaml.safe_load(path.read_bytes())
    return {
        "current": found["current-context"],
        **{
            part: {each["name"]: each[body] for each in found[part]}
            for part, body in kubeconfig.BODIES.items()
        },
    }


def test_it_is_written_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "kubeconfig"
    found = written(path)
    assert found["current"] == "kubewright"
    assert found["clusters"]["kubewright"]["server"] == "https://127.0.0.1:6443"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["kubeconfig"]  # nothing half written is left


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(OURS, id="ours is rewritten"),
        pytest.param(b"", id="an empty file"),
        pytest.param(b" \n", id="so is a blank one"),
    ],
)
def test_a_file_of_ours_is_replaced(tmp_path: Path, before: bytes) -> None:
    path = tmp_path / "kubeconfig"
    path.write_bytes(before)
    path.chmod(0o644)
    found = written(path, OURS.replace(b":6443", b":7000"))
    assert {name for part in kubeconfig.BODIES for name in found[part]} == {"kubewright"}
    assert found["clusters"]["kubewright"]["server"] == "https://127.0.0.1:7000"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(THEIRS, id="other contexts"),
        pytest.param(
            OURS.replace(b"QVVUSE9SSVRZ", b"T1RIRVI=") + b"- name: ann\n  user: {token: precious}\n",
            id="a cluster of our name with another authority, and another user",
        ),
        pytest.param(b"{}", id="no context at all"),
        pytest.param(b"precious notes", id="no kubeconfig"),
        pytest.param(b"a: [", id="no YAML"),
        pytest.param(b"\xff\xfe\x00", id="no text"),
        pytest.param(b"contexts: [1, 2]\nclusters: 7\nusers: {}\n", id="odd shapes"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_ours_is_left_alone(tmp_path: Path, before: bytes) -> None:
    path = tmp_path / "config"
    path.write_bytes(before)
    with pytest.raises(InvalidInput, match="will not be overwritten; choose another file with --kubeconfig"):
        kubeconfig.write(path, OURS, tmp_path)
    assert path.read_bytes() == before


NAMESPACE = OURS.replace(b"    user: kubewright\n", b"    user: kubewright\n    namespace: team\n", 1)
USER = b"- name: ann\n  user: {token: precious}\n"
SECOND = OURS.replace(
    b"contexts:\n", b"contexts:\n- name: prod\n  context: {cluster: prod, user: ann, namespace: shop}\n"
).replace(b"clusters:\n", b"clusters:\n- name: prod\n  cluster: {server: 'https://prod'}\n")


@pytest.mark.parametrize(
    ("before", "kept"),
    [
        pytest.param(
            NAMESPACE, ("contexts", "kubewright", "namespace", "team"), id="the namespace that kubectl set"
        ),
        pytest.param(OURS + USER, ("users", "ann", "token", "precious"), id="a user that kubectl added"),
        pytest.param(SECOND + USER, ("contexts", "prod", "namespace", "shop"), id="a context before ours"),
        pytest.param(
            (SECOND + USER).replace(b"current-context: kubewright", b"current-context: prod"),
            ("clusters", "prod", "server", "https://prod"),
            id="another current context",
        ),
        pytest.param(
            OURS.replace(b"contexts:\n- name: kubewright", b"contexts:\n- name: mine"),
            ("contexts", "mine", "cluster", "kubewright"),
            id="our context under another name",
        ),
        pytest.param(
            b"apiVersion: v1\ncontexts: null\nclusters: null\nusers:\n- name: kubewright\n  user: {a: b}\n",
            ("users", "kubewright", "a", "b"),
            id="a deleted cluster and context",
        ),
        pytest.param(
            json.dumps(yaml.safe_load(NAMESPACE)).encode(),
            ("contexts", "kubewright", "namespace", "team"),
            id="JSON",
        ),
    ],
)
def test_what_others_put_into_our_file_stays_when_up_starts_again(
    tmp_path: Path, before: bytes, kept: tuple[str, str, str, str]
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_bytes(before)
    found = written(path, OURS.replace(b":6443", b":7000"))
    part, name, field, value = kept
    assert found[part][name][field] == value
    assert found["clusters"]["kubewright"]["server"] == "https://127.0.0.1:7000"
    assert found["contexts"]["kubewright"]["user"] == "kubewright"
    current = yaml.safe_load(before).get("current-context", "kubewright")
    assert found["current"] == current


def test_new_keys_of_the_same_data_folder_replace_ours_beside_entries_of_others(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    written(path)
    found = yaml.safe_load(path.read_bytes())
    found["users"] += yaml.safe_load(USER)
    path.write_text(yaml.safe_dump(found))
    renewed = kubeconfig.render("https://127.0.0.1:1", b"RENEWED", Identity(b"C2", b"K2"))
    after = written(path, renewed)
    assert set(after["users"]) == {"kubewright", "ann"}
    assert base64.b64decode(after["clusters"]["kubewright"]["certificate-authority-data"]) == b"RENEWED"


def test_our_entries_are_found_behind_others_in_our_file(tmp_path: Path) -> None:
    ours = kubeconfig.ours_in(SECOND + USER, "other", tmp_path)
    assert (ours.name, ours.cluster["server"]) == ("other", "https://127.0.0.1:6443")


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(OURS)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    kubeconfig.write(tmp_path / "link", OURS.replace(b":6443", b":7000"), tmp_path)
    assert (tmp_path / "link").is_symlink()
    assert b":7000" in (tmp_path / "real").read_bytes()


def test_a_path_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="cannot"):
        kubeconfig.write(tmp_path / "file" / "kubeconfig", OURS, tmp_path)
    with pytest.raises(InvalidInput, match="cannot"):
        kubeconfig.write(tmp_path, OURS, tmp_path)


def test_a_lock_that_a_killed_process_left_in_our_folder_keeps_no_start_off(tmp_path: Path) -> None:
    path, lock = tmp_path / "kubeconfig", tmp_path / "kubeconfig.lock"
    lock.touch()
    with pytest.raises(InvalidInput, match="another program is changing"):
        written(path)
    os.utime(lock, (1, 1))
    with pytest.raises(InvalidInput, match="another program is changing"):
        kubeconfig.write(path, OURS, tmp_path / "elsewhere")
    assert written(path)["current"] == "kubewright"
    assert not lock.exists()
