"""QEMU's programs for the tests: those that are installed, and fakes of them, which are always there."""

import shutil
from pathlib import Path

import pytest

from . import fake_programs

NEEDED = ("qemu-system-x86_64", "qemu-img")
MISSING = [each for each in NEEDED if shutil.which(each) is None]
REAL = pytest.mark.skipif(bool(MISSING), reason=f"{' and '.join(MISSING)} is not installed")


@pytest.fixture(params=["fake", pytest.param("real", marks=REAL)])
def programs(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The folder for the driver's option ``programs``; empty: PATH."""
    if request.param == "real":
        return ""
    folder = tmp_path / "programs"
    folder.mkdir()
    fake_programs.install(folder)
    return str(folder)
