"""``status`` and ``down`` on an ``up`` in a process of its own, on one that was killed, and on none."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kubewright.base.locks import FileLock
from kubewright.cli import main
from kubewright.processes import record
from kubewright.processes.linux import start
from kubewright.processes.program import Program

pytestmark = pytest.mark.looptime(False)
READY = "kubewright is ready"


def typed(*words: str) -> int:
    """The exit status of a command line."""
    try:
        main(words)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


@contextmanager
def up(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """``kubewright up`` on a folder, ready."""
    words = [sys.executable, "-m", "kubewright", "up", "--data-dir", str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(READY)
        try:
            yield process
        finally:
            process.kill()


def test_a_running_one_is_shown_and_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "data"
    with up(folder) as process:
        assert typed("status", "--data-dir", str(folder)) == 0
        said = capsys.readouterr().out
        assert said.startswith("kubewright is running since 20")
        assert f", process {process.pid}\n" in said
        assert f"  kubeconfig:  {folder}/kubeconfig\n  health:      ok\n  machines:    none\n" in said

        assert typed("down", "--data-dir", str(folder)) == 0
        assert capsys.readouterr().out.startswith(f"process {process.pid} on {folder} has ended, after ")
        assert process.wait(10) == 0
    assert typed("status", "--data-dir", str(folder)) == 3
    said = capsys.readouterr().out
    assert said.startswith("kubewright is not running; it was started last at 20")
    assert "health" not in said
    assert typed("down", "--data-dir", str(folder)) == 0
    assert capsys.readouterr().out == f"nothing is running on {folder}\n"


def test_one_that_does_not_answer_is_shown_and_not_called_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    with up(folder) as process:
        process.send_signal(signal.SIGSTOP)
        assert typed("status", "--data-dir", str(folder)) == 1
        assert "did not answer within 5 s" in capsys.readouterr().out
        assert typed("down", "--data-dir", str(folder), "--timeout", "200ms") == 1
        said = capsys.readouterr().err
        assert said.startswith(
            f"kubewright: process {process.pid} was asked to end 0.2 s ago and still serves"
        )
        process.send_signal(signal.SIGCONT)
        assert process.wait(10) == 0


def test_what_was_killed_is_not_running_and_its_data_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    with up(folder) as process:
        process.kill()
        process.wait(10)
    assert (folder / "server" / "lock").read_text() == f"{process.pid}\n"
    assert typed("status", "--data-dir", str(folder)) == 3
    assert "  machines:    none\n  nodes:       none\n" in capsys.readouterr().out
    assert typed("down", "--data-dir", str(folder)) == 0
    assert capsys.readouterr().out == f"nothing is running on {folder}\n"


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not tell who has a file open")
def test_another_process_whose_id_is_in_the_lock_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    with (
        up(folder) as process,
        subprocess.Popen(["/bin/sh", "-c", "read _"], stdin=subprocess.PIPE) as other,
    ):
        lock = folder / "server" / "lock"
        lock.write_text(f"{other.pid}\n")
        assert typed("down", "--data-dir", str(folder)) == 1
        assert "cannot be seen from here" in capsys.readouterr().err
        assert other.poll() is None
        assert process.poll() is None
        other.kill()


@pytest.mark.parametrize("command", ["down", "status"])
def test_a_folder_that_is_not_there_is_not_made(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed(command, "--data-dir", str(tmp_path / "none")) == 1
    assert capsys.readouterr().err.startswith(f"kubewright: there is no data folder {tmp_path / 'none'}; ")
    assert not (tmp_path / "none").exists()
    assert typed(command, "--data-dir", str(tmp_path)) == {"down": 0, "status": 3}[command]
    assert not list(tmp_path.iterdir())


def test_a_deleted_folder_ends_up_with_a_sentence_and_status_one(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with up(folder) as process:
        shutil.rmtree(folder)
        _, said = process.communicate(timeout=20)
        assert process.returncode == 1
    assert said.startswith(f"kubewright: {folder}/server/lock was deleted or moved away while it was in use")
    assert said.count("\n") == 1
    assert not folder.exists()


def test_a_held_lock_without_a_server_is_shown_as_one_that_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "server").mkdir()
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        FileLock(tmp_path / "server" / "lock")
        os.write(writing, b"held")
        signal.pause()
    try:
        assert os.read(reading, 4) == b"held"
        assert typed("status", "--data-dir", str(tmp_path)) == 1
        assert "health:      it is still starting" in capsys.readouterr().out
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_programs_of_control_planes_that_go_on_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    programs = folder / "components" / "programs"
    own = programs / "default" / "demo" / "etcd-0"
    record.make_folder(own)
    program = Program("default/demo/etcd-0", ("/bin/sh", "-c", "sleep 60"))
    handle = start(program, own, "00ff", 0.0)
    try:
        assert typed("down", "--data-dir", str(folder)) == 0
        first, *left = capsys.readouterr().out.splitlines()
        assert first == f"nothing is running on {folder}"
        assert left[1] == f"  default/demo/etcd-0, process {handle.process.pid}"
        assert left[3] == f"  kill {handle.process.pid}"
    finally:
        handle.signal(signal.SIGKILL)
        handle.close()
    os.waitpid(handle.process.pid, 0)
    assert typed("down", "--data-dir", str(folder)) == 0
    assert capsys.readouterr().out == f"nothing is running on {folder}\n"
