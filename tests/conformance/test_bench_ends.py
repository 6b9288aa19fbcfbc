"""A benchmark that is ended leaves nothing running: neither ours nor a real control plane."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = 50.0
pytestmark = [
    pytest.mark.looptime(False),
    pytest.mark.timeout(120),
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the system has no handles on processes"),
]


def descendants(pid: int) -> list[int]:
    """All processes that a process started, and those that these started."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, todo = [], [pid]
    while todo:
        found += (children := parents.get(todo.pop(), []))
        todo += children
    return found


def outlived(process: int) -> bool:
    """Whether a process is still there after a while; then it is ended."""
    if select.select([process], [], [], SECONDS)[0]:
        return False
    signal.pidfd_send_signal(process, signal.SIGKILL)
    return True


@pytest.mark.parametrize(
    ("world", "least"),
    [
        pytest.param("embedded", 2, id="embedded"),
        pytest.param("real", 8, id="real", marks=pytest.mark.kube),
    ],
)
@pytest.mark.parametrize(
    ("number", "whole_group"),
    [
        pytest.param(signal.SIGTERM, False, id="SIGTERM"),
        pytest.param(signal.SIGTERM, True, id="SIGTERM to the whole group"),
        pytest.param(signal.SIGINT, True, id="Ctrl-C"),
        pytest.param(signal.SIGHUP, True, id="a terminal that is closed"),
        pytest.param(signal.SIGKILL, False, id="SIGKILL"),
    ],
)
def test_a_benchmark_that_is_ended_ends_its_programs(
    world: str, least: int, number: signal.Signals, whole_group: bool, tmp_path: Path
) -> None:
    words = [sys.executable, "-m", "bench", "--world", world, "--machines", "2"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        words, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment, start_new_session=True
    ) as bench:
        assert bench.stderr is not None
        assert "is up" in bench.stderr.readline()
        started = [os.pidfd_open(pid) for pid in descendants(bench.pid)]
        assert len(started) >= least
        (os.killpg if whole_group else os.kill)(bench.pid, number)
        assert not [process for process in started if outlived(process)]
        said = bench.communicate(timeout=SECONDS)[1]
        for process in started:
            os.close(process)
        if number is not signal.SIGKILL:
            assert said == (
                "bench: stopped before the end: a signal ended it. What it had not measured is empty above\n"
            )
            assert bench.returncode == 1
            assert not list(tmp_path.iterdir())
