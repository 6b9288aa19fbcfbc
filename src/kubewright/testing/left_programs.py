"""Ends the programs that a host of processes has started and that outlive it, for tests and measurements.

Theory.      Programs of nested control planes go on when ``up`` ends, as they should. What was started for a
             test or a measurement has to end with it, also where that failed.
Invariants.  A program is ended only if its environment has the mark that the host has recorded: its
             process id may belong to another program by now.
Called by    tests/conformance, bench.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kubewright.processes import record


def environment_of(pid: int | str) -> bytes:
    """The environment of a process, ``NAME=value`` between zero bytes; empty if it is gone or not ours."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""


@contextmanager
def nothing_left(folder: Path) -> Iterator[Path]:
    """End at the end what still runs from the folder of a host."""
    try:
        yield folder
    finally:
        for name in record.recorded(folder / "programs"):
            found = record.read(folder / "programs" / name)
            if found is None or not found.pid:
                continue
            if f"KUBEWRIGHT_PROCESS={found.mark}".encode() in environment_of(found.pid):
                with suppress(ProcessLookupError):
                    os.kill(found.pid, signal.SIGKILL)
