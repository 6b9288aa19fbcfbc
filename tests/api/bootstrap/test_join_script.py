"""The script that joins with retries, run by bash against a kubeadm that ends as it is told."""

import subprocess

import pytest

from kubewright.bootstrap.userdata import join_script


def run_script(tmp_path, *codes: int) -> tuple[int, list[str]]:
    """Run the script of a worker with a kubeadm that ends with these codes, one for each call, then 0."""
    calls = tmp_path / "calls"
    fakes = {
        "kubeadm": f'echo "$*" >> {calls}\nn=$(wc -l < {calls})\nset -- {" ".join(map(str, codes))}\n'
        'eval "code=\\${$n:-0}"\nexit "$code"\n',
        "sleep": "exit 0\n",
        "date": "echo now\n",
    }
    for name, text in fakes.items():
        path = tmp_path / name
        path.write_text(f"#!/bin/bash\n{text}")
        path.chmod(0o755)
    script = tmp_path / "script"
    script.write_text(join_script(30, control_plane=False))
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["bash", script], env=environment, capture_output=True, text=True, check=False)
    return done.returncode, [line.split(" --")[0] for line in calls.read_text().splitlines()]


PHASE = "join phase"


@pytest.mark.parametrize(
    ("codes", "ended", "called"),
    [
        pytest.param((), 0, [f"{PHASE} preflight", f"{PHASE} kubelet-start"], id="all goes well"),
        pytest.param((0, 1, 1), 0, [f"{PHASE} preflight", *[f"{PHASE} kubelet-start"] * 3], id="a phase is tried again"),
        pytest.param((1,) * 9, 1, [*[f"{PHASE} preflight"] * 5, "reset -f"], id="five tries are enough"),
        pytest.param((2,), 2, [f"{PHASE} preflight", "reset -f"], id="a failed check is not tried again"),
        pytest.param((0, 3), 3, [f"{PHASE} preflight", f"{PHASE} kubelet-start", "reset -f"], id="nor is a bad document"),
    ],
)  # fmt: skip
def test_the_script_tries_again_where_it_can_help(tmp_path, codes, ended: int, called: list[str]) -> None:
    assert run_script(tmp_path, *codes) == (ended, called)
