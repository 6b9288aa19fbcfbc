"""A process that cannot be put on record does not run on without one."""

import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kubewright.processes import linux, record
from kubewright.processes.program import Program
from kubewright.processes.record import Record

MARK = "0" * 32


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """As a disk that is full: what is written beyond it fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_process_whose_id_cannot_be_written_down_is_ended(tmp_path: Path) -> None:
    """The record of a process is longer with its id than before the start."""
    sleep = shutil.which("sleep")
    assert sleep is not None
    program = Program("p", (sleep, "600"))
    before = Record(mark=MARK, fingerprint=program.fingerprint, boot=linux.boot_id(), grace=program.grace)
    record.write(tmp_path / "like", before)
    size = (tmp_path / "like" / record.RECORD).stat().st_size
    with no_file_larger_than(size), pytest.raises(OSError, match="File too large"):
        linux.start(program, tmp_path / "p", MARK, 1.5)
    assert linux.find(tmp_path / "p") is None
