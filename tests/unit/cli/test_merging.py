"""Our context in a person's file: which file, whole and private, and kubectl goes on with it."""

import os
from pathlib import Path

import pytest

from kubewright.apiserver.http import kubeconfig
from kubewright.base.clock import SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.cli.up.command import Merge, merge, users_file
from kubewright.testing import keys

WORK = "# mine\ncurrent-context: work\ncontexts:\n- {name: work, context: {cluster: work, user: ann}}\n"
KEYS = keys.in_memory(SystemClock())


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "kubeconfig"
    kubeconfig.write(path, kubeconfig.render("https://127.0.0.1:4321", KEYS.authority, KEYS.admin), tmp_path)
    return path


def into(path: Path, ours: Path, name: str = "kubewright", *, use: bool = False) -> Path | None:
    return merge(Merge(name, use), ours, ours.parent, {"KUBECONFIG": str(path)})


@pytest.mark.parametrize(
    ("listed", "file"),
    [
        pytest.param("", "~/.kube/config", id="not set"),
        pytest.param("/a", "/a", id="one"),
        pytest.param("/a:/b", "/a", id="the first of several"),
        pytest.param(":/b", "/b", id="an empty one is none"),
        pytest.param("~/c", "~/c", id="at home"),
    ],
)
def test_the_file_is_the_one_that_kubectl_writes_to(listed: str, file: str) -> None:
    assert users_file({"KUBECONFIG": listed}) == Path(file).expanduser()


def test_a_file_that_is_not_there_is_made_for_its_owner_alone(tmp_path: Path, ours: Path) -> None:
    path = tmp_path / "home" / ".kube" / "config"
    assert into(path, ours) == path
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert "current-context: kubewright" in path.read_text()


def test_a_link_stays_a_link_and_what_it_leads_to_becomes_private(tmp_path: Path, ours: Path) -> None:
    (tmp_path / "real").write_text(WORK)
    (tmp_path / "real").chmod(0o644)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    into(tmp_path / "link", ours)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "real").read_text().startswith("# mine\ncurrent-context: work\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "link", "real"]


def test_our_own_file_is_left_to_up(ours: Path) -> None:
    before = ours.read_bytes()
    assert into(ours, ours) is None
    assert ours.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        pytest.param(b"clusters: [a\n", "config was left as it is: it is not YAML", id="damaged"),
        pytest.param(b"\xff\xfe", "config was left as it is: it is not UTF-8", id="no text"),
        pytest.param(b"#" * 5_000_000, "config was left as it is: it is too large", id="too large"),
        pytest.param(
            WORK.replace("name: work", "name: kubewright").encode(),
            "its context 'kubewright' is not this data folder's; choose another name with --context",
            id="a context of our name",
        ),
    ],
)
def test_what_is_not_understood_is_not_touched(
    tmp_path: Path, ours: Path, content: bytes, sentence: str
) -> None:
    path = tmp_path / "config"
    path.write_bytes(content)
    with pytest.raises(InvalidInput) as refused:
        into(path, ours)
    assert sentence in str(refused.value)
    assert path.read_bytes() == content
    assert sorted(each.name for each in tmp_path.iterdir()) == ["config", "data"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        pytest.param("pipe", "pipe is no regular file", id="a pipe"),
        pytest.param("data", "data is no regular file", id="a folder"),
        pytest.param("/", "/ is no regular file", id="the root"),
        pytest.param("a" * 300, "File name too long", id="a name that is too long"),
        pytest.param("data/kubeconfig/config", "Not a directory", id="below a file"),
    ],
)
def test_what_is_no_file_does_not_become_one(tmp_path: Path, ours: Path, name: str, sentence: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidInput) as refused:
        into(tmp_path / name, ours)
    assert sentence in str(refused.value)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data", "pipe"]


def test_a_program_that_is_changing_the_file_is_not_disturbed(tmp_path: Path, ours: Path) -> None:
    path = tmp_path / "config"
    path.write_text(WORK)
    (tmp_path / "config.lock").touch()
    with pytest.raises(
        InvalidInput, match=r"another program is changing .*; if none is, delete .*config\.lock"
    ):
        into(path, ours)
    assert path.read_text() == WORK
    assert (tmp_path / "config.lock").exists()


@pytest.mark.parametrize("name", ["", " ", "a\nb"])
def test_a_context_needs_a_name(name: str) -> None:
    with pytest.raises(InvalidInput, match="is no name of a context"):
        Merge(name)
