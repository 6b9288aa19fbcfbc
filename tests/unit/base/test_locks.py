"""Lock files: one holder at a time, found by its process id without disturbing it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kubewright.base.locks import FileLock, Held, holder

HOLD = """
import sys
from pathlib import Path
from kubewright.base.locks import FileLock
held = FileLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_process(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the file until it is ended."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_one_process_holds_it_at_a_time_and_is_named(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with another_process(path) as process:
        assert holder(path) == process.pid
        with pytest.raises(Held) as refused:
            FileLock(path)
        assert refused.value.pid == process.pid
    assert holder(path) is None
    FileLock(path).close()


def test_a_second_holder_in_the_same_process_is_refused_too(tmp_path: Path) -> None:
    first = FileLock(tmp_path / "lock")
    with pytest.raises(Held) as refused:
        FileLock(tmp_path / "lock")
    assert refused.value.pid == os.getpid()
    first.close()
    first.close()
    FileLock(tmp_path / "lock").close()


def test_a_missing_or_released_file_has_no_holder(tmp_path: Path) -> None:
    assert holder(tmp_path / "lock") is None
    (tmp_path / "lock").write_text("1\n")
    assert holder(tmp_path / "lock") is None


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not tell who has a file open")
@pytest.mark.parametrize("written", ["1", "no number", "", "99999999999999999999"])
def test_a_process_id_in_the_file_that_is_not_the_holders_is_ignored(tmp_path: Path, written: str) -> None:
    """As it looks from another container, where the holder's id means another process or none."""
    path = tmp_path / "lock"
    with another_process(path) as process:
        path.write_text(written)
        assert holder(path) in ({0} if os.getuid() == 0 or written != "1" else {0, 1})
        assert process.poll() is None
