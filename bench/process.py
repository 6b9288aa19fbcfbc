"""What a process has used, as the kernel counts it (Linux)."""

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """``cpu`` in seconds since the process began, ``peak`` and ``resident`` in MiB."""

    cpu: float
    peak: float
    resident: float


def usage(pid: int) -> Usage:
    """Read now."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
    )
    return Usage(
        cpu=(int(fields[11]) + int(fields[12])) / _TICKS,
        peak=int(status["VmHWM"].split()[0]) / 1024,
        resident=int(status["VmRSS"].split()[0]) / 1024,
    )
