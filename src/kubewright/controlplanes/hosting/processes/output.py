"""Why a program ended, from the end of its output. Pure.

Theory.      The programs of Kubernetes write lines of text, etcd writes JSON objects; both usually give the
             reason for their end in the last line. A Go program that panics or meets an unknown flag writes
             more after the reason; etcd first logs a panic with its cause, and then panics without it. Users
             see the reason beside the exit code, which alone explains nothing.
Invariants.  At most ``LONGEST`` characters of one line.
Source       nested.md D6 (last lines in the status).
Called by    ``host``.
"""

import re
from collections.abc import Sequence

import msgspec

LONGEST = 300
PANIC = "panic: "
REASONS = (PANIC, "fatal error:", "flag provided but not defined:", "Error: ")
"""How a line with the reason begins, even if a stack trace or a usage text follows."""
_HEADER = re.compile(r"[IWEF]\d{4} [\d:.]+ +\d+ [\w.-]+:\d+\] ")
"""The header of klog before a message: level, date, time, process, file and line."""


def reason(lines: Sequence[str]) -> str:
    """The reason in one line; the last line if none looks like one; empty if there is no output."""
    told = [line.strip() for line in lines if line.strip()]
    if not told:
        return ""
    found = (number for number in reversed(range(len(told))) if told[number].startswith(REASONS))
    chosen = next(found, len(told) - 1)
    before, said = _text(told[chosen - 1]) if chosen else "", _text(told[chosen])
    logged = before.startswith(f"{said.removeprefix(PANIC)}: ")
    return (before if logged else said)[:LONGEST]


def _text(line: str) -> str:
    """The message of a line, without what a log has before it."""
    if line.startswith("{"):
        try:
            found = msgspec.json.decode(line, type=dict[str, object])
        except msgspec.DecodeError:
            return line
        return ": ".join(str(found[name]) for name in ("msg", "error") if name in found) or line
    return _HEADER.sub("", line, count=1)
