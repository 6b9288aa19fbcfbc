"""The log: one line for each thing that happens, for people on a terminal.

Theory.      structlog with everything decided here: level, time from the clock, context of the
             reconciliation at hand (bound by ``controller``), and a last filter that blanks every
             value whose name is that of a secret. Tracebacks appear only in the log, and only of defects.
Invariants.  Values with the name of a secret, and raw bytes, never leave the process, at any depth of
             mappings and collections. A text or an object under another name is printed as it is: no caller
             passes one that holds a secret, and the ``repr`` of ``Secret`` and of ``Identity`` shows none.
Called by    the composition root, once.
"""

import logging
import sys
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, TextIO

import structlog

from kubewright.base.clock import Clock

HIDDEN = "(hidden)"
_SECRET = (
    "authorization",
    "credential",
    "key-data",
    "key_data",
    "kubeconfig",
    "passw",
    "private_key",
    "privatekey",
    "secret_data",
    "token",
    "userdata",
    "user_data",
)

Line = MutableMapping[str, Any]


def configure(clock: Clock, *, level: str = "info", stream: TextIO | None = None) -> None:
    """Set up the log of this process; lines go to ``stream`` (default: stderr).

    ``level`` is one of debug, info, warning, error, or another name that Python's ``logging`` knows.

    Raises:
        ValueError: it is none.
    """
    threshold = logging.getLevelNamesMapping().get(level.upper())
    if threshold is None:
        raise ValueError(f"{level!r} is no log level; use debug, info, warning or error")
    stream = stream or sys.stderr
    written = structlog.WriteLogger(stream)  # else each call makes its own, also below the level
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _stamped(clock),
            hide_secrets,
            structlog.dev.ConsoleRenderer(
                colors=stream.isatty(),
                exception_formatter=structlog.dev.plain_traceback,
                timestamp_key="time",
            ),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=lambda *_names: written,
        cache_logger_on_first_use=False,
    )


def hide_secrets(_logger: Any, _method: str, line: Line) -> Line:
    """Blank every value that has the name of a secret or is raw bytes, at any depth."""
    for name, value in line.items():
        line[name] = _harmless(name, value)
    return line


def _harmless(name: str, value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview) or (value and _names_a_secret(name)):
        return HIDDEN
    if isinstance(value, Mapping):
        return {key: _harmless(str(key), part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_harmless(name, part) for part in value]
    if isinstance(value, set | frozenset):
        return [_harmless(name, part) for part in sorted(value, key=repr)]
    return value


def _names_a_secret(name: str) -> bool:
    lowered = name.lower()
    return any(part in lowered for part in _SECRET)


def _stamped(clock: Clock) -> Callable[[Any, str, Line], Line]:
    def stamp(_logger: Any, _method: str, line: Line) -> Line:
        line["time"] = clock.now().isoformat(timespec="milliseconds")
        return line

    return stamp
