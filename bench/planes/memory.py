"""Memory of processes, and how many control planes of real programs it holds (Linux).

Called by    ``scenario``, ``bench.vms``.
"""

from contextlib import suppress
from pathlib import Path

MIB = 1024
KEPT_FREE = 2048.0
"""MiB that stay available for everything else on the machine."""
GROWTH = 1.25
"""Control planes need more after a while than the one that was measured just after its start."""


def available() -> float:
    """What the kernel could give to new processes now, in MiB."""
    return value(Path("/proc/meminfo"), "MemAvailable:")


def pss(pid: int) -> float:
    """The proportional share of a process, in MiB; 0 if it is gone."""
    return value(Path(f"/proc/{pid}/smaps_rollup"), "Pss:")


def fitting(asked: int, each: float, free: float) -> int:
    """How many of the control planes that are asked for there is memory for.

    Args:
        each: MiB that one was measured to need.
        free: MiB that are available.
    """
    return max(0, min(asked, int((free - KEPT_FREE) / (each * GROWTH))))


def children(pid: int) -> list[int]:
    """The processes that this one has started, and that run."""
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent, *_ = each.read_text().rpartition(")")[2].split()
            found += [int(each.parent.name)] if int(parent) == pid and state != "Z" else []
    return found


def value(path: Path, field: str) -> float:
    """A line of a file of the kernel, in MiB; 0: there is none."""
    with suppress(OSError):
        lines = path.read_text().splitlines()
        return next((int(line.split()[1]) / MIB for line in lines if line.startswith(field)), 0.0)
    return 0.0
