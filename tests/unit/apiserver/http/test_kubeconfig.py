"""The kubeconfig: its content, and which files it may replace."""

import base64
import os
import stat
from pathlib import Path

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


def test_it_is_written_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "kubeconfig"
    kubeconfig.write(path, OURS)
    assert path.read_bytes() == OURS
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
    after = OURS.replace(b":6443", b":7000")
    kubeconfig.write(path, after)
    assert path.read_bytes() == after
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(THEIRS, id="other contexts"),
        pytest.param(OURS + b"- name: ann\n  user: {token: precious}\n", id="ours and another user"),
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
        kubeconfig.write(path, OURS)
    assert path.read_bytes() == before


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(OURS)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    kubeconfig.write(tmp_path / "link", OURS.replace(b":6443", b":7000"))
    assert (tmp_path / "link").is_symlink()
    assert b":7000" in (tmp_path / "real").read_bytes()


def test_a_path_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="cannot"):
        kubeconfig.write(tmp_path / "file" / "kubeconfig", OURS)
    with pytest.raises(InvalidInput, match="cannot"):
        kubeconfig.write(tmp_path, OURS)
