"""The lane of real machines (`make test-vm`): what it needs, and the table of what each step took."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NEEDED = ("qemu-system-x86_64", "qemu-img", "unshare", "ip")
ROOT = Path(__file__).parents[2]
STEPS = pytest.StashKey[list[tuple[str, str, float, int]]]()


def missing() -> str:
    """Why no life can be lived here; empty if one can."""
    if lacking := [each for each in NEEDED if shutil.which(each) is None]:
        return f"{', '.join(lacking)} is not installed"
    if subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode != 0:
        return "no network namespaces of one's own here"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "/dev/net/tun is not open to this user"
    return "" if node_image().is_dir() else "no node image; `make node-image` makes one"


def node_image() -> Path:
    """Where the node image of this checkout is, once it is made."""
    command = [sys.executable, "-c", "import build; print(build.image_folder())"]
    where = ROOT / "tools" / "node_image"
    return Path(subprocess.run(command, cwd=where, capture_output=True, text=True, check=True).stdout.strip())


@pytest.fixture
def images() -> Path:
    """The folder of the node image; without what a life needs the test is skipped, and says what that is."""
    if why := missing():
        pytest.skip(why)
    return node_image()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    if rows := config.stash.get(STEPS, []):
        terminalreporter.section("seconds, and MiB of the VMs' QEMU at the most")
        for life, step, seconds, mib in rows:
            terminalreporter.write_line(f"{life:<16} {step:<60} {seconds:>7.1f} {mib:>6}")
