"""A program of the real Kubernetes ends when its parent does, however that happens; with real processes."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.looptime(False),
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the system has no handles on processes"),
]
SECONDS = 20.0
STUBBORN = "trap '' TERM HUP INT; exec sleep 1000"
"""Ends by no polite signal, as a kube-apiserver that has lost its etcd."""

PARENT = f"""
import signal
import sys
from pathlib import Path
for each in (signal.SIGINT, signal.SIGHUP):
    signal.signal(each, signal.SIG_DFL)  # a shell starts its background jobs with these ignored
from kubewright.base.clock import SystemClock
from kubewright.testing.real_kubernetes.cluster import Program
program = Program(["/bin/sh", "-c", {STUBBORN!r}], Path(sys.argv[1]) / "log", SystemClock())
print(program.pid, flush=True)
sys.stdin.read()
"""


@contextmanager
def handle(pid: int) -> Iterator[int]:
    """A handle on a process that cannot be mistaken for another one's."""
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        if not ended(descriptor, 0):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        os.close(descriptor)


def ended(process: int, seconds: float = SECONDS) -> bool:
    """Whether a process ends within so many seconds."""
    return bool(select.select([process], [], [], seconds)[0])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("whole_group", [True, False], ids=["whole group", "parent alone"])
def test_a_program_ends_with_its_parent(tmp_path: Path, number: signal.Signals, whole_group: bool) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with parent:
        assert parent.stdout is not None
        with handle(int(parent.stdout.readline())) as program:
            assert not ended(program, 0)
            (os.killpg if whole_group else os.kill)(parent.pid, number)
            parent.wait(SECONDS)
            assert ended(program), "the program outlived its parent"
