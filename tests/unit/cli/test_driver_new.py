"""``kubewright driver new``: which names there may be, and what is written."""

import ast
import re
import stat
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from kubewright import __version__
from kubewright.base.errors import InvalidInput
from kubewright.cli import main
from kubewright.cli.driver.new import name_problem, project, write

PROJECT = project("my-cloud")
NAMES = [
    ("my-cloud", ""),
    ("m", ""),
    ("m" * 40, ""),
    ("m" * 41, "its name has to be"),
    ("", "its name has to be"),
    ("My", "its name has to be"),
    ("my_cloud", "its name has to be"),
    ("9lives", "its name has to be"),
    ("my-", "its name has to be"),
    ("../my", "its name has to be"),
    ("my\n", "its name has to be"),
    ("class", "class is a word of Python's"),
    ("match", "match is a word of Python's"),
    ("json", "json is the name of something that is there already"),
    ("kubewright", "kubewright is the name of something"),
    ("tests", "tests is the name of something"),
    ("theirs", "theirs is the name of something"),
    ("yaml", "yaml is the name of something"),
    ("pytest", "pytest is the name of something"),
    ("test", "test is the name of something"),
]


@pytest.mark.parametrize(("name", "says"), NAMES)
def test_a_name_is_a_label_and_a_package_that_is_not_there_yet(name: str, says: str) -> None:
    problem = name_problem(name, ["theirs"], {"yaml": ["PyYAML"], "pytest": ["pytest"]})
    assert problem.startswith(says) if says else not problem


def test_a_driver_of_ours_is_no_name_for_a_new_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["driver", "new", "qemu"])
    assert ended.value.code == 2
    assert "driver 'qemu': qemu is the name of something" in capsys.readouterr().err


def test_a_project_that_is_installed_can_be_written_anew() -> None:
    packages = {"my_cloud": ["Kubewright_driver.my-cloud"], "theirs": ["kubewright-driver-my-cloud"]}
    assert not name_problem("my-cloud", [], packages)
    assert name_problem("theirs", [], packages)
    assert not name_problem("a--b", [], {"a__b": ["kubewright-driver-a--b"]})


def test_what_is_printed_can_be_pasted_into_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with suppress(SystemExit):
        main(["driver", "new", "my-cloud", "--folder", "of mine; exit"])
    assert capsys.readouterr().out.splitlines()[-1].strip() == "cd 'of mine; exit' && make test"


def test_no_place_for_a_name_is_left_and_each_file_can_be_read() -> None:
    for path, text in PROJECT.items():
        assert not re.search(r"@\w+@", path + text), path
        if path.endswith(".py"):
            ast.parse(text)
        elif path.endswith(".yaml"):
            assert all(yaml.safe_load_all(text)), path


def test_the_project_has_what_an_author_needs() -> None:
    assert set(PROJECT) == {
        *(".gitignore", "Containerfile", "Makefile", "README.md", "pyproject.toml"),
        *(
            f"src/my_cloud/{name}"
            for name in ("__init__.py", "cloud.py", "driver.py", "kubelets.py", "py.typed", "spec.py")
        ),
        *("tests/test_conformance.py", "tests/test_driver.py"),
        *(
            f"kubernetes/{name}.yaml"
            for name in ("deployment", "machine", "machine-class", "machine-deployment", "secret")
        ),
        *("deploy/kustomization.yaml", "integration/test-mc-v1.yaml"),
    }


def test_the_driver_is_found_by_its_name_and_needs_this_version() -> None:
    found = tomllib.loads(PROJECT["pyproject.toml"])["project"]
    assert found["entry-points"] == {"kubewright.drivers": {"my-cloud": "my_cloud:driver"}}
    assert found["dependencies"] == [f"kubewright>={__version__}"]


def test_every_target_of_make_is_explained() -> None:
    makefile = PROJECT["Makefile"]
    targets = set(re.findall(r"^([a-z][a-z-]*):(?! export)", makefile, re.MULTILINE))
    assert {"install", "test", "test-integration", "start", "release"} <= targets
    assert targets == set(re.findall(r"^([a-z][a-z-]*):.*## ", makefile, re.MULTILINE))


def test_a_project_is_written_whole_for_others_to_read(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    write(folder, PROJECT)
    assert {
        str(each.relative_to(folder)): each.read_text() for each in folder.rglob("*") if each.is_file()
    } == dict(PROJECT)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert [each.name for each in tmp_path.iterdir()] == ["p"]


@pytest.mark.parametrize("kind", ["a folder", "a file", "a link to nothing"])
def test_what_exists_is_not_touched(tmp_path: Path, kind: str) -> None:
    there = tmp_path / "p"
    if kind == "a folder":
        there.mkdir()
    elif kind == "a file":
        there.write_text("mine")
    else:
        there.symlink_to("nowhere")
    with pytest.raises(InvalidInput, match=r"p exists already; name another folder with --folder DIR"):
        write(there, PROJECT)
    assert [each.name for each in tmp_path.iterdir()] == ["p"]


def test_a_folder_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"cannot write .*no/p: No such file or directory"):
        write(tmp_path / "no" / "p", PROJECT)
    with pytest.raises(InvalidInput, match="cannot write"):
        write(tmp_path / "p", {"a": "file", "a/b": "below it"})
    assert list(tmp_path.iterdir()) == []
