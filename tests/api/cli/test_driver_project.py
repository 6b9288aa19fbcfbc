"""The project of a new driver passes its own tests and the conformance suite at once, and our linter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kubewright.cli.driver.new import project as blueprint
from kubewright.cli.driver.new import write

BIN = Path(sys.executable).parent


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write(tmp_path / "my-cloud", blueprint("my-cloud"))
    return tmp_path / "my-cloud"


def ran(folder: Path, *words: str | Path) -> str:
    """What a program prints that has to succeed, with nothing installed and no way out of this machine."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        words,
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_a_new_project_passes_its_tests_and_the_conformance_suite(project: Path) -> None:
    told = ran(project, "make", "test", f"PYTHON={sys.executable}", "ARGS=-q")
    assert "failed" not in told
    assert "3 skipped" in told, (
        "initialize, tags by which VMs of Gardener are found, updates that are interrupted"
    )


def test_a_new_project_is_in_the_style_of_ours(project: Path) -> None:
    ran(project, BIN / "ruff", "format", "--check", ".")
    ran(project, BIN / "ruff", "check", ".")


@pytest.mark.parametrize("target", ["start", "test-integration", "release", "link"])
def test_make_says_what_is_missing(project: Path, target: str) -> None:
    done = subprocess.run(
        ["make", target],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"]},
    )
    assert done.returncode == 2
    named = {
        "start": "TARGET_KUBECONFIG",
        "test-integration": "CONTROL_KUBECONFIG",
        "release": "IMAGE_REPOSITORY",
        "link": "../kubewright",
    }
    assert named[target] in done.stdout
