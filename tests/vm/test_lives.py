"""Lives of real machines: VMs of QEMU that become nodes with real kubelets (`make test-vm`; half an hour without KVM).

Each is a program in a network of its own, in which the API server, Kubewright and the VMs are.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ROOT, STEPS

pytestmark = [pytest.mark.vm, pytest.mark.looptime(False)]

ALONE = ("unshare", "-rn", "--pid", "--fork", "--kill-child", "--mount-proc")
"""When it ends, all that it started ends."""


def lived(config: pytest.Config, name: str, seconds: float, folder: Path, images: Path) -> None:
    """Live it, and write its steps down for the table."""
    command = [*ALONE, sys.executable, "-m", f"tests.vm.{name}", str(folder), str(images)]
    where = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (folder / "life.log").open("w") as log:
        done = subprocess.run(
            command, cwd=ROOT, env=where, stdout=subprocess.PIPE, stderr=log, timeout=seconds, check=False
        )
    assert done.returncode == 0, (folder / "life.log").read_text()
    rows = config.stash.setdefault(STEPS, [])
    rows += [(name.removeprefix("life_of_"), *step) for step in json.loads(done.stdout)]


@pytest.mark.timeout(1000)
def test_machines_are_made_used_rolled_replaced_and_deleted(
    pytestconfig: pytest.Config, tmp_path: Path, images: Path
) -> None:
    lived(pytestconfig, "life_of_machines", 900, tmp_path, images)


@pytest.mark.timeout(700)
def test_a_machine_whose_boot_fails_says_so_and_is_given_up_soon(
    pytestconfig: pytest.Config, tmp_path: Path, images: Path
) -> None:
    lived(pytestconfig, "life_of_a_failed_boot", 600, tmp_path, images)


@pytest.mark.timeout(1600)
def test_a_cluster_of_kubeadm_is_made_joined_healed_and_deleted(
    pytestconfig: pytest.Config, tmp_path: Path, images: Path
) -> None:
    lived(pytestconfig, "life_of_a_cluster", 1500, tmp_path, images)


@pytest.mark.timeout(800)
def test_vms_join_a_nested_control_plane_of_real_programs(
    pytestconfig: pytest.Config, tmp_path: Path, images: Path
) -> None:
    lived(pytestconfig, "life_of_a_nested_plane", 700, tmp_path, images)


@pytest.mark.timeout(1600)
def test_a_cluster_of_vms_that_were_booted_beforehand_is_ready_sooner(
    pytestconfig: pytest.Config, tmp_path: Path, images: Path
) -> None:
    lived(pytestconfig, "life_of_a_warm_cluster", 1500, tmp_path, images)
